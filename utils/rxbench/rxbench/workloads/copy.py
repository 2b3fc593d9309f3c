# SPDX-License-Identifier: GPL-2.0-only
"""Which way to copy a file."""

import contextlib
import hashlib
import os
import resource
import time

from ..run.plan import MB_S, REAL, SYS, USER, Case, Metric, Plan, Round, Subject
from ..system import guard, machine, places
from ..system.errors import BadInput, BenchError
from ..system.undo import check
from ..system.units import parse_size
from ..tools import copying, fio

NAME = "copy"
REPEATS = LEAST = 5
SUMMARY = "which way to copy a file: mmap, read and write, O_DIRECT, splice, cp, rxcp and others"
EXPLANATION = """\
One file of random bytes, copied on a place, or from one to another: mmap in windows of 8 MiB and
write; read and write with one buffer of 8K, 128K, 1M, 8M (dd); the same with O_DIRECT;
copy_file_range; splice; cp, and rxcp where it is installed. Cold: the caches are dropped and the
file system is mounted afresh (a directory stays mounted). Warm: the source was just read. Each ends
with an fsync of the copy, which counts. The order rotates between repeats, of which there are at
least five, since the order decides such tests. CPU s/GB is user and sys for 10^9 bytes."""

CPU = Metric("cpu_s_gb", "CPU", "s/GB", "lower")
STATES = {"cold": "cold", "warm": "warm"}
PACE = 300e6
ROOM = 2.3
LEAST_ROOM = 16 << 20
SOURCE, TARGET = "rxbench.source", "rxbench.copy"


def add_arguments(parser):
    parser.add_argument("place", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("target", nargs="?", metavar="TARGET",
                        help="another place that the copies go to (default: the same)")
    parser.add_argument("--size", metavar="SIZE", type=parse_size, default=1 << 30,
                        help="of the file (default: 1g)")
    parser.add_argument("--ways", metavar="NAME,...",
                        help="only these, of " + ", ".join(name for name, *_ in copying.ways()))


def _cpu():
    total = [0.0, 0.0]
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total[0] += usage.ru_utime
        total[1] += usage.ru_stime
    return total


def _digest(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            check()
            data = file.read(1 << 20)
            if not data:
                return digest.hexdigest()
            digest.update(data)


def _chosen(text):
    ways = {name: (title, copy) for name, title, copy in copying.ways()}
    names = text.split(",") if text else list(ways)
    for name in names:
        if name not in ways:
            raise BadInput(f"--ways {name}: must be of {', '.join(ways)}")
        if names.count(name) > 1:
            raise BadInput(f"--ways {name}: given twice")
    return {name: ways[name] for name in names}


def _without_direct(options, ways, grounds):
    """Take the ways away that these places do not have; returns what to say of it."""
    lacking = [place for place in grounds if not place.takes_direct()]
    direct = [name for name in ways if name.startswith(copying.DIRECT)] if lacking else []
    if not direct:
        return []
    if options.ways:
        raise BadInput(f"--ways {direct[0]}: {guard.no_direct(lacking[0].path)}")
    for name in direct:
        del ways[name]
    return [f"{guard.no_direct(lacking[0].path)}: {', '.join(direct)} left out."]


class Copies:
    """A round is one way, cold and then warm."""

    def __init__(self, options, ways, source, target):
        self.size, self.ways, self.source, self.target = options.size, ways, source, target
        self.digest, self.proven = None, set()

    def set_up(self, undo):
        for place in dict.fromkeys((self.source, self.target)):
            place.set_up(undo)
            place.format("ext4")
        with self.source.mounted("ext4") as directory:
            path = os.path.join(directory, SOURCE)
            fio.fill(path, self.size)
            self.digest = _digest(path)

    @contextlib.contextmanager
    def mounted(self):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(self.source.mounted("ext4"))
            second = first if self.target is self.source else stack.enter_context(
                self.target.mounted("ext4"))
            yield os.path.join(first, SOURCE), os.path.join(second, TARGET)

    @contextlib.contextmanager
    def open(self, subject, _round, _repeat):
        yield lambda case: self.measure(subject.name, case.name)

    def measure(self, way, state):
        with self.mounted() as (source, target):
            machine.drop_caches()
            if state == "warm":
                _digest(source)
            try:
                return self._measure(way, source, target)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target)

    def _measure(self, way, source, target):
        before, start = _cpu(), time.monotonic()
        self.ways[way][1](source, target)
        with open(target, "rb") as file:
            os.fsync(file.fileno())
        real, after = time.monotonic() - start, _cpu()
        if way not in self.proven and _digest(target) != self.digest:
            raise BenchError(f"{way}: the copy differs from its source")
        self.proven.add(way)
        user, system = (late - early for early, late in zip(before, after))
        return {"metrics": {"mb_s": self.size / real / 1e6, "real_s": real, "user_s": user,
                            "sys_s": system, "cpu_s_gb": (user + system) / self.size * 1e9}}


def plan(options):
    ways = _chosen(options.ways)
    grounds = places.parse([options.place] + ([options.target] if options.target else []))
    places.need_apart(grounds)
    if options.size % (8 << 10):
        raise BadInput(f"--size {options.size}: must be a multiple of 8K, for O_DIRECT")
    machine.fio_version()
    machine.need_tools("dd", "cp", "mkfs.ext4", "mount", "umount", "wipefs", "blkdiscard")
    places.check(grounds, int(options.size * ROOM) + LEAST_ROOM, options.destroy, together=True)
    notes = _without_direct(options, ways, grounds)
    copies = Copies(options, ways, grounds[0], grounds[-1])
    cases = tuple(Case(name, title, 2 * options.size / PACE + 0.5)
                  for name, title in STATES.items())
    notes += [f"{place.path} stays mounted: a cold copy there begins with dropped caches only."
              for place in grounds if isinstance(place, places.Directory)]
    return Plan(subjects=[Subject(name, title) for name, (title, _copy) in ways.items()],
                rounds=[Round(cases)], open=copies.open, set_up=copies.set_up,
                metrics=(MB_S, REAL, USER, SYS, CPU), notes=notes,
                settings={"size": options.size,
                          "source": grounds[0].details(), "target": grounds[-1].details()})
