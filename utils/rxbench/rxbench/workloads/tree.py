# SPDX-License-Identifier: GPL-2.0-only
"""Work of developers: a source tree is extracted, packed, searched, copied and removed."""

import contextlib
import glob
import os
import re
import shlex
import time

from ..run.plan import REAL, SYS, USER, Case, Metric, Plan, Round, Subject
from ..system import command, devices, machine, places
from ..system.errors import BadInput
from ..system.units import size as human

NAME = "tree"
REPEATS = 3
SUMMARY = "extract, pack, search, copy and remove a source tree, and process its files in parallel"
EXPLANATION = """\
On each place, the tarball is copied there (not measured), and the caches are dropped. The steps
are: extract the tarball, remove the tarball, pack the tree again, du, find, copy the tree, remove
the copy, run a command on the files of the tree, 20 at once, and with --inside, run a command in
the tree, such as make. A sync of the file system follows each step and is timed separately. Each
step has its real, user and system time; total is real and sync. A place may be any directory: on a
RAM disk, tmpfs or NFS. A block device is formatted with ext4. Root is not required if all places
are directories.
The tarball is --tarball, or the newest /usr/src/linux-source-*.tar.* (package linux-source)."""

TOTAL = Metric("total_s", "total", "s", "lower")
SYNC = Metric("sync_s", "sync", "s", "lower")
SOURCES = "/usr/src/linux-source-*.tar*"
WORKERS = 20
COMMAND = "sha256sum"
INSIDE = "inside"
INSIDE_SECONDS = 60
# Seconds of each step per GB of the tree, for the time left.
STEPS = (("extract", "extract the tarball", 12), ("rm-tarball", "remove the tarball", 0.3),
         ("pack", "create a tarball", 6), ("du", "size of the tree (du)", 1),
         ("find", "find a file", 1), ("copy", "copy the tree", 12),
         ("rm-copy", "remove the copy", 3), ("parallel", None, 15))
# Space for the tree extracted, packed and copied at once, and for the file system itself.
COPIES = 2
ROOM = 1.2
BLOCK = 4096


def add_arguments(parser):
    parser.add_argument("places", nargs="+", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("--tarball", metavar="FILE",
                        help="tarball (default: the newest kernel source in /usr/src)")
    parser.add_argument("--command", metavar="COMMAND", default=COMMAND,
                        help="command to run in parallel, with names of files as arguments "
                             "(default: %(default)s)")
    parser.add_argument("--inside", metavar="COMMAND",
                        help="shell command, such as 'make -j20', to run in the tree, or in its "
                             "only top-level directory")
    parser.add_argument("--workers", metavar="N", type=int, default=WORKERS,
                        help="commands run in parallel (default: %(default)s)")


def needs_root(options):
    return not places.are_directories(options.places)


def _tarball(path):
    if path:
        if not os.path.isfile(path):
            raise BadInput(f"--tarball {path}: no such file")
        return path
    found = sorted(glob.glob(SOURCES), key=os.path.getmtime)
    if not found:
        raise BadInput(f"no tarball: give one with --tarball, or install linux-source ({SOURCES})")
    return found[-1]


def contents(path):
    """The bytes of the members, their number, and the last file's name; reads everything."""
    try:
        listing = command.run("tar", "--list", "--verbose", "--numeric-owner", "--file",
                              path)[0]
    except command.CommandFailed as error:
        raise BadInput(f"--tarball {path}: cannot be read, or is truncated: {error}") from error
    total = count = 0
    last = None
    for line in listing.splitlines():
        match = re.match(r"(\S)\S{9} \S+ +(\d+) \S+ \S+ (.+)$", line)
        if not match:
            raise BadInput(f"--tarball {path}: an unknown line in tar's listing: {line!r}")
        count += 1
        total += max(1, -(-int(match[2]) // BLOCK)) * BLOCK
        if match[1] == "-":
            last = os.path.basename(match[3])
    if last is None:
        raise BadInput(f"--tarball {path}: contains no file")
    return total, count, last


def _top(tree):
    """The top folder: most tarballs have one, named as the release."""
    names = os.listdir(tree)
    only = os.path.join(tree, names[0]) if len(names) == 1 else tree
    return only if os.path.isdir(only) else tree


class Trees:
    """A round is all steps on one place."""

    def __init__(self, options, tarball, wanted):
        self.options, self.tarball, self.wanted = options, tarball, wanted
        self.grounds, self.undo = {}, None

    def set_up(self, undo):
        self.undo = undo
        for place in self.grounds.values():
            place.set_up(undo)

    @contextlib.contextmanager
    def open(self, subject, _round, _repeat):
        place = self.grounds[subject.name]
        place.format("ext4")
        with place.mounted("ext4") as root, places.since(self.undo):
            work = devices.directory(self.undo, root)
            copy = os.path.join(work, "tarball")
            command.run("cp", self.tarball, copy)
            machine.drop_caches(copy)
            yield lambda case: self.measure(work, case)

    def _argv(self, step, work):
        find = ["find", "tree", "-type", "f"]
        parallel = (f"find tree -type f -print0 | xargs -0 -r -n 32 -P {self.options.workers} "
                    f"{self.options.command} >/dev/null")
        return {"extract": ["tar", "-xf", "tarball", "-C", "tree"],
                "rm-tarball": ["rm", "tarball"],
                "pack": ["tar", "-cf", "packed.tar", "tree"],
                "du": ["du", "-s", "tree"],
                "find": [*find, "-name", self.wanted],
                "copy": ["cp", "-a", "tree", "copy"],
                "rm-copy": ["rm", "-r", "copy"],
                "parallel": ["bash", "-o", "pipefail", "-c", parallel],
                # The output may be long.
                INSIDE: ["bash", "-c", f"exec >/dev/null\n{self.options.inside}"]}[step]

    def measure(self, work, case):
        if case.name == "extract":
            os.mkdir(os.path.join(work, "tree"))
        where = _top(os.path.join(work, "tree")) if case.name == INSIDE else work
        times = command.timed(*self._argv(case.name, work), cwd=where)
        start = time.monotonic()
        command.run("sync", "--file-system", work)
        sync = time.monotonic() - start
        return {"metrics": {"total_s": times["real_s"] + sync, **times, "sync_s": sync}}


def plan(options):
    tarball = _tarball(options.tarball)
    grounds = places.parse(options.places)
    if not 1 <= options.workers <= 1024:
        raise BadInput(f"--workers {options.workers}: must be from 1 to 1024")
    try:
        program = shlex.split(options.command)
    except ValueError as error:
        raise BadInput(f"--command {options.command!r}: {error}") from error
    if not program:
        raise BadInput("--command: empty")
    if options.inside is not None and not options.inside.strip():
        raise BadInput("--inside: empty")
    machine.need_tools("tar", "cp", "rm", "du", "find", "xargs", "sync", "bash", program[0],
                       *(["mkfs.ext4"] if needs_root(options) else []))
    size, count, wanted = contents(tarball)
    needed = int((COPIES + 1) * size * ROOM) + os.path.getsize(tarball)
    places.check(grounds, needed, options.destroy)
    trees = Trees(options, os.path.abspath(tarball), wanted)
    trees.grounds = {place.name: place for place in grounds}
    title = f"{program[0]} of all files, {options.workers} at once"
    cases = tuple(Case(name, text or title, 0.2 + pace * size / 1e9)
                  for name, text, pace in STEPS)
    if options.inside:
        cases += (Case(INSIDE, f"in the tree: {options.inside}", INSIDE_SECONDS),)
    notes = [f"The tree: {count:,} members of {os.path.basename(tarball)}, {human(size)}."]
    if not machine.is_root():
        notes.append("Not run as root: only the page cache of the tarball was dropped.")
    return Plan(subjects=[Subject(place.name, place.title, place.details())
                          for place in grounds],
                rounds=[Round(cases)], open=trees.open, set_up=trees.set_up,
                metrics=(TOTAL, REAL, USER, SYS, SYNC),
                base=grounds[-1].name if len(grounds) > 1 else None,
                settings={"tarball": os.path.basename(tarball), "size": size, "members": count,
                          "found": wanted, "command": options.command,
                          "inside": options.inside, "workers": options.workers},
                notes=notes)
