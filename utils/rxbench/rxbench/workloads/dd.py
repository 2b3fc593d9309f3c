# SPDX-License-Identifier: GPL-2.0-only
"""dd to and from the node, and a file on a file system."""

import contextlib
import os

from ..run.plan import MB_S, Case, Metric, Plan, Round, Subject
from ..system import devices, guard, machine, places
from ..system.errors import BadInput
from ..system.undo import check
from ..system.units import parse_size, short, size_of
from ..tools import dd
from .profile import COLUMNS, ORDERS, PAGE

NAME = "dd"
SUMMARY = "copy to and from the device node and a file with dd, in blocks of 512 bytes to 4 MiB"
EXPLANATION = """\
Copies 1 GiB in blocks of 512, 1K, 4K, 1M and 4M to and from the device node and a file. The file is
on ext4, or on the file system of a directory that is given as the place.
Zeros and incompressible bytes are written, then read. Incompressible bytes come from a file in
memory, because /dev/urandom is too slow. Buffered writes include an fsync, and the caches are
dropped before buffered reads. Direct I/O with blocks smaller than a sector is skipped.
Columns "page" have the figures of RapidDisk's page that are most similar: a file, direct, in blocks
of 1M and 4K. The page has no dd: its figures are fio's, with 32 requests at once."""

BLOCKS = "512,1k,4k,1m,4m"
TARGETS = {"node": "node", "file": "file"}
MODES = ("buffered", "direct")
SECONDS = Metric("seconds", "time", "s", "lower")
# Expected bytes per second, for the time left.
PACE = {512: 60 << 20, 1024: 120 << 20, 4096: 300 << 20}
FAST = 500 << 20
RAM = "/dev/shm"
ROOM = 1.15
LEAST_ROOM = 16 << 20
# The job of the page's fio that is most similar.
ORDER = {"read": "read", "random": "write"}
NOTE = ('Columns "page" have figures of RapidDisk\'s page, a RAM disk and a SATA disk on a 3.1 GHz '
        "Xeon. They are fio's, with 32 requests at once; dd has one.")


def _choice(option, known):
    def chosen(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise BadInput(f"{option} {name}: must be one of {', '.join(known)}")
            if names.count(name) > 1:
                raise BadInput(f"{option} {name}: given twice")
        return names
    return chosen


def add_arguments(parser):
    parser.add_argument("places", nargs="+", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("--size", metavar="SIZE", type=size_of("--size"), default=1 << 30,
                        help="size to copy (default: 1g)")
    parser.add_argument("--bs", metavar="SIZE,...", default=BLOCKS,
                        type=lambda text: [parse_size(part, "--bs") for part in text.split(",")],
                        help="block sizes (default: %(default)s)")
    parser.add_argument("--target", metavar="node,file", default="node,file",
                        type=_choice("--target", tuple(TARGETS)),
                        help="use only these targets (default: both)")
    parser.add_argument("--mode", metavar="buffered,direct", default="buffered,direct",
                        type=_choice("--mode", MODES), help="use only these modes (default: both)")


def _reference(target, mode, block, step):
    """MB/s of the page for a similar job."""
    figures = PAGE["ramdisk"].get(short(block).lower())
    if (target, mode) != ("file", "direct") or not figures or step not in ORDER:
        return {}
    found = dict(zip((order for order, _title in ORDERS), figures))
    return dict(zip(COLUMNS["ramdisk"], found[ORDER[step]]))


def round_of(target, mode, block, size):
    what = f"{TARGETS[target]}, {mode}, {short(block)}"
    seconds = size / PACE.get(block, FAST) + 0.2
    return Round(tuple(Case(f"{target}-{mode}-{short(block)}-{step}", f"{what}: {title}", seconds,
                            _reference(target, mode, block, step))
                       for step, title in (("zeros", "write zeros"),
                                           ("random", "write random"), ("read", "read"))))


def _random_file(undo, size):
    """Incompressible data in memory."""
    path = os.path.join(devices.directory(undo, RAM), "random")
    with open(path, "wb") as file:
        for offset in range(0, size, 1 << 20):
            check()
            file.write(os.urandom(min(1 << 20, size - offset)))
    return path


class Copies:
    """A round is two writes and a read at one target."""

    def __init__(self, options, grounds):
        self.size, self.places = options.size, {place.name: place for place in grounds}
        self.random = None

    def set_up(self, undo):
        for place in self.places.values():
            place.set_up(undo)
        self.random = _random_file(undo, self.size)

    @contextlib.contextmanager
    def open(self, subject, each, _repeat):
        place, target = self.places[subject.name], each.cases[0].name.split("-")[0]
        if target == "node":
            with place.open() as path:
                yield lambda case: self.measure(path, case, True)
            return
        place.format("ext4")
        with place.mounted("ext4") as directory:
            path = os.path.join(directory, "rxbench.data")
            try:
                yield lambda case: self.measure(path, case, False)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def measure(self, path, case, device):
        _target, mode, block, step = case.name.split("-")
        direct, block = mode == "direct", parse_size(block)
        machine.drop_caches()
        if step == "read":
            return dd.measure(path, "/dev/null", block, self.size, "iflag" if direct else "")
        if not device:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        source = "/dev/zero" if step == "zeros" else self.random
        return dd.measure(source, path, block, self.size, "oflag" if direct else "", flush=True,
                          device=device)


def plan(options):
    grounds = places.parse(options.places)
    machine.need_tools("dd", "mkfs.ext4", "mount", "umount", "wipefs", "blkdiscard")
    for block in options.bs:
        if options.bs.count(block) > 1:
            raise BadInput(f"--bs {block}: given twice")
        if options.size % block:
            raise BadInput(f"--size {options.size}: must be a multiple of the block size {block}")
    if options.target == ["node"] and not all(place.has_node for place in grounds):
        raise BadInput("--target node: a directory has no device node")
    places.check(grounds, int(options.size * ROOM) + LEAST_ROOM, options.destroy)
    machine.need_memory(options.size + places.SPARE
                        + sum(place.memory for place in grounds))
    machine.need_space(RAM, options.size)
    copies, rounds, notes = Copies(options, grounds), [], []
    buffered = {place.name for place in grounds if not place.takes_direct()}
    for place in grounds:
        if place.name not in buffered:
            continue
        if options.mode == ["direct"]:
            raise BadInput(f"--mode direct: {guard.no_direct(place.path)}")
        notes.append(f"{guard.no_direct(place.path)}: buffered only.")
    for target in options.target:
        for mode in options.mode:
            for block in options.bs:
                names = tuple(place.name for place in grounds
                              if (target == "file" or place.has_node)
                              and (mode == "buffered" or place.name not in buffered
                                   and block % places.sector(place) == 0))
                if names:
                    rounds.append(round_of(target, mode, block, options.size)
                                  if len(names) == len(grounds) else
                                  Round(round_of(target, mode, block, options.size).cases, names))
    if not rounds:
        raise BadInput(f"--bs {','.join(map(str, options.bs))}: no place takes direct I/O in such "
                       "blocks; they must be whole sectors")
    if any(case.reference for each in rounds for case in each.cases):
        notes.append(NOTE)
    return Plan(subjects=[Subject(place.name, place.title, place.details())
                          for place in grounds],
                rounds=rounds, open=copies.open, set_up=copies.set_up,
                metrics=(MB_S, SECONDS), notes=notes,
                base=grounds[-1].name if len(grounds) > 1 else None,
                settings={"size": options.size, "blocks": options.bs, "targets": options.target,
                          "modes": options.mode})
