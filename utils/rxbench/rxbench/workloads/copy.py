# SPDX-License-Identifier: GPL-2.0-only
"""Compare ways to copy a file."""

import contextlib
import functools
import hashlib
import os
import resource
import time

from ..run.plan import MB_S, REAL, SYS, USER, Case, Metric, Plan, Round, Subject
from ..system import guard, machine, pagecache, places, together
from ..system.errors import BadInput, BenchError
from ..system.undo import check
from ..system.units import size_of
from ..tools import copying, fio

NAME = "copy"
REPEATS = LEAST = 5
SUMMARY = "copy a file in several ways: mmap, read and write, O_DIRECT, splice, cp, rxcp and others"
EXPLANATION = """\
Copies a file of random bytes on a place, or from one place to another. The ways are: mmap with
windows of 8 MiB, then write; the same with windows of 256 KiB and MADV_SEQUENTIAL or
MADV_POPULATE_READ; read and write with a buffer of 8K, 128K, 1M or 8M (dd); the same with O_DIRECT;
1M with the page cache dropped on the way (dd's nocache); io_uring with O_DIRECT; copy_file_range;
splice; cp; and rxcp if it is installed.
Cold: the caches are dropped, and the file system is mounted again, unless the place is a directory.
Warm: the source has just been read. Each copy ends with an fsync, which is part of the time.
--jobs copies this many files in parallel, each by its own process. There are at least five repeats,
and the order of the ways rotates between them, because it influences the results.
CPU s/GB is user and system time per 10^9 bytes. fio, which is used for io_uring, cannot copy: it
reads the source and writes as many bytes of its own at the same time. The result is an upper bound,
does not include the start of fio, has no CPU time, and is not ranked.
cached MB is how much of source and copy is in the page cache afterwards. With --witness, a file of
that size is read twice before each copy, and pushed out is the part of it that the copy evicted
from the page cache. This is 0 unless memory is short. To limit the memory: systemd-run --scope -p
MemoryMax=SIZE rxbench copy ..."""

CPU = Metric("cpu_s_gb", "CPU", "s/GB", "lower")
CACHED = Metric("cached_mb", "cached", "MB", "lower")
PUSHED = Metric("pushed_percent", "pushed out", "%", "lower")
STATES = {"cold": "cold", "warm": "warm"}
PACE = 300e6
ROOM = 2.3
LEAST_ROOM = 16 << 20
SOURCE, TARGET, WITNESS = "rxbench.source", "rxbench.copy", "rxbench.witness"
# Each copy needs an open file of this program, which may have 1024.
MOST_JOBS = 512
# Share of the witness that must be in memory before a copy.
LEAST_WITNESS = 0.9


def add_arguments(parser):
    parser.add_argument("place", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("target", nargs="?", metavar="TARGET",
                        help="place for the copies (default: the same place)")
    parser.add_argument("--size", metavar="SIZE", type=size_of("--size"), default=1 << 30,
                        help="size of the file, a multiple of 8K (default: 1g)")
    parser.add_argument("--ways", metavar="NAME,...",
                        help="only these ways: " + ", ".join(way.name for way in copying.ways()))
    parser.add_argument("--jobs", metavar="N", type=int, default=1,
                        help="copy this many files in parallel (default: %(default)s)")
    parser.add_argument("--witness", metavar="SIZE", type=size_of("--witness"),
                        help="measure how much of a file of this size a copy evicts from the "
                             "page cache")


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
    ways = {way.name: way for way in copying.ways()}
    names = text.split(",") if text else list(ways)
    for name in names:
        if name not in ways:
            raise BadInput(f"--ways {name}: must be one of {', '.join(ways)}")
        if names.count(name) > 1:
            raise BadInput(f"--ways {name}: given twice")
    return {name: ways[name] for name in names}


def _leave_out(options, ways, names, reason):
    """Remove ways that are not available here; return notes about them."""
    lacking = [name for name in ways if name in names]
    if not lacking:
        return []
    if options.ways:
        raise BadInput(f"--ways {lacking[0]}: {reason}")
    for name in lacking:
        del ways[name]
    return [f"{reason}: {', '.join(lacking)} left out."]


def _without_direct(options, ways, grounds):
    lacking = [place for place in grounds if not place.takes_direct()]
    return _leave_out(options, ways, [name for name in ways if name.startswith(copying.DIRECT)],
                      guard.no_direct(lacking[0].path)) if lacking else []


def _without_uring(options, ways):
    return [] if machine.takes_io_uring() else _leave_out(
        options, ways, [copying.URING],
        "io_uring cannot be used (sysctl kernel.io_uring_disabled, or a sandbox)")


def _flushed(copy, source, target):
    """Return the seconds that do not count."""
    apart = copy(source, target)
    with open(target, "rb") as file:
        os.fsync(file.fileno())
    return apart or 0.0


class Copies:
    """A round measures one way, cold and then warm."""

    def __init__(self, options, ways, source, target):
        self.size, self.ways, self.source, self.target = options.size, ways, source, target
        self.names = [f".{number}" for number in range(options.jobs)]
        self.witness = options.witness
        self.digests, self.proven = [], set()

    def set_up(self, undo):
        for place in dict.fromkeys((self.source, self.target)):
            place.set_up(undo)
            place.format("ext4")
        with self.source.mounted("ext4") as directory:
            for name in self.names:
                path = os.path.join(directory, SOURCE + name)
                fio.fill(path, self.size)
                self.digests.append(_digest(path))
            if self.witness:
                fio.fill(os.path.join(directory, WITNESS), self.witness)

    @contextlib.contextmanager
    def mounted(self):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(self.source.mounted("ext4"))
            second = first if self.target is self.source else stack.enter_context(
                self.target.mounted("ext4"))
            yield first, second

    @contextlib.contextmanager
    def open(self, subject, _round, _repeat):
        yield lambda case: self.measure(self.ways[subject.name], case.name)

    def measure(self, way, state):
        with self.mounted() as (source, target):
            pairs = [(os.path.join(source, SOURCE + name), os.path.join(target, TARGET + name))
                     for name in self.names]
            witness = os.path.join(source, WITNESS) if self.witness else None
            machine.drop_caches()
            # Pages in use were read more than once.
            for path in [witness] * 2 if witness else []:
                _digest(path)
            for path, _copy in pairs if state == "warm" else []:
                _digest(path)
            try:
                return self._measure(way, pairs, witness)
            finally:
                for _source, path in pairs:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)

    def _measure(self, way, pairs, witness):
        there = pagecache.resident(witness) if witness else None
        if witness and there < LEAST_WITNESS * self.witness:
            raise BenchError(f"--witness {self.witness}: only {there} bytes of it stay in "
                             "memory; use a smaller file, or more memory")
        before, start = _cpu(), time.monotonic()
        apart = together.run([functools.partial(_flushed, way.copy, *pair) for pair in pairs])
        real, after = time.monotonic() - start - min(apart), _cpu()
        user, system = (late - early for early, late in zip(before, after))
        size = self.size * len(pairs)
        metrics = {"mb_s": size / real / 1e6, "real_s": real,
                   "cached_mb": sum(pagecache.resident(path)
                                    for pair in pairs for path in pair) / 1e6}
        if way.copies:
            metrics.update(user_s=user, sys_s=system, cpu_s_gb=(user + system) / size * 1e9)
        if witness:
            metrics["pushed_percent"] = max(0, 100 * (1 - pagecache.resident(witness) / there))
        self._prove(way, pairs)
        return {"metrics": metrics}

    def _prove(self, way, pairs):
        """Check that the first copies of each way equal their sources."""
        if way.name in self.proven:
            return
        for (_source, copy), digest in zip(pairs, self.digests):
            if os.path.getsize(copy) != self.size or (way.copies and _digest(copy) != digest):
                raise BenchError(f"{way.name}: the copy differs from its source")
        self.proven.add(way.name)


def plan(options):
    ways = _chosen(options.ways)
    grounds = places.parse([options.place] + ([options.target] if options.target else []))
    places.need_apart(grounds)
    if options.size % (8 << 10):
        raise BadInput(f"--size {options.size}: must be a multiple of 8K, for O_DIRECT")
    if not 1 <= options.jobs <= MOST_JOBS:
        raise BadInput(f"--jobs {options.jobs}: must be from 1 to {MOST_JOBS}")
    machine.fio_version()
    machine.need_tools("dd", "cp", "mkfs.ext4", "mount", "umount", "wipefs", "blkdiscard")
    needed = int((options.size * options.jobs + (options.witness or 0) / 2) * ROOM) + LEAST_ROOM
    places.check(grounds, needed, options.destroy, together=True)
    notes = _without_direct(options, ways, grounds) + _without_uring(options, ways)
    copies = Copies(options, ways, grounds[0], grounds[-1])
    at_once = f", {options.jobs} at once" if options.jobs > 1 else ""
    moved = 2 * options.size * options.jobs + 2 * (options.witness or 0)
    cases = tuple(Case(name, title + at_once, moved / PACE + 0.5)
                  for name, title in STATES.items())
    notes += [f"{place.path} stays mounted: before a cold copy there, only the caches are dropped."
              for place in grounds if isinstance(place, places.Directory)]
    return Plan(subjects=[Subject(way.name, way.title, ranks=way.copies)
                          for way in ways.values()],
                rounds=[Round(cases)], open=copies.open, set_up=copies.set_up,
                metrics=(MB_S, REAL, USER, SYS, CPU, CACHED,
                         *([PUSHED] if options.witness else [])), notes=notes,
                settings={"size": options.size, "jobs": options.jobs, "witness": options.witness,
                          "source": grounds[0].details(), "target": grounds[-1].details()})
