# SPDX-License-Identifier: GPL-2.0-only
"""The same memory, used as page cache, as a cache on a RAM disk, or as a RAM disk."""

import contextlib
import os
from dataclasses import dataclass

from ..memory import ground, ways, works
from ..peers import Missing
from ..run.plan import IOPS, LOWER, HIGHER, P99, REAL, Case, Metric, Plan, Round, Subject
from ..system import command, devices, guard, machine
from ..system.errors import BadInput, BenchError
from ..system.places import since
from ..system.units import size_of
from ..system.units import size as human
from ..tools import fio

NAME = "memory"
SUMMARY = "the same memory as page cache, as rxcache, dm-cache or bcache, or as a RAM disk"
EXPLANATION = """\
Compares ways to use the same amount of memory for the data of one disk, and shows whether a RAM
cache saves more disk reads than the page cache does. The amount is the memory that is available at
the start; a virtual machine of the wanted size is best. The ways: the page cache alone; the page
cache with memory.low for the working set; rxcache, dm-cache and bcache, each on a RAM disk that
takes 75 % of the memory; a RAM disk with the whole working set, if it fits. Only one way is set up
at a time, on the same data of the same disk. The working sets have 0.5 and 2 times the size of the
memory. They are read sequentially first, then the workload runs twice, and the second run counts.
The workloads: random 4K reads with a Zipf distribution by 8 threads, buffered; the same while dd
reads three times the memory; the same with O_DIRECT; the same by a host that reads an NVMe export
with O_DIRECT, where the target uses the page cache or bypasses it; PostgreSQL with pgbench, select
only and TPC-B; a tree of files read again after a backup has read everything (sets of up to 1 times
the memory). Workloads on the same set that use the page cache, or bypass it, run one after the
other in a way that is set up and warmed once. Workloads whose programs or modules are missing are
left out, and a note names what is missing. The figures that decide are the disk reads of the
working set, from the statistics of the kernel. The disk is --disk, or a file in --dir. With the
defaults, a run takes hours; rxbench(1) has a formula, and an example that takes less."""

DISK_READS = Metric("disk_reads", "disk reads", "per 1,000", LOWER)
SAVED = Metric("saved_percent", "saved", "%", HIGHER)
COPY = Metric("copy_mb_s", "copy", "MB/s", HIGHER)
TPS = Metric("tps", "transactions", "per s", HIGHER)
METRICS = (DISK_READS, SAVED, IOPS, P99)
# Metrics that only some works have.
MORE = {"zipf-copy": COPY, "pgbench-select": TPS, "pgbench-tpcb": TPS, "tree": REAL}

SHARE = 0.75
COPIED = 3
SETS = "0.5,2"
LEAST_FACTOR, MOST_FACTOR = 0.01, 16
LEAST_SET, LEAST_MEMORY = 16 << 20, 64 << 20
UNIT = 16 << 20
PROGRAMS = 64 << 20
# More available memory than this gives the page cache an advantage.
TOLERANCE = 1.25
FILE_SLACK = 64 << 20
# For the time left: seconds of set-up and removal.
SETTING_UP = 10
# How often a set is read to warm it, by whether it fits into the memory.
WARMING = {True: 2, False: works.WARM_SETS}


def add_arguments(parser):
    parser.add_argument("--ways", metavar="NAME,...",
                        help="only these ways: " + ", ".join(way.name for way in ways.ALL))
    parser.add_argument("--works", metavar="NAME,...",
                        help="only these workloads: " + ", ".join(work.name for work in works.ALL))
    parser.add_argument("--sets", metavar="TIMES,...", default=SETS,
                        help="sizes of the working sets, as multiples of the memory (default: "
                             "%(default)s)")
    parser.add_argument("--seconds", metavar="S", type=int, default=20,
                        help="duration of each run of a workload (default: %(default)s)")
    parser.add_argument("--memory", metavar="SIZE", type=size_of("--memory"),
                        help="amount that all sizes are derived from, in whole MiB (default: the "
                             "available memory)")
    parser.add_argument("--disk", metavar="DEVICE",
                        help="disk to use, empty or named by --destroy; its contents are lost "
                             "(default: file in --dir)")
    parser.add_argument("--dir", metavar="DIRECTORY", default="/var/tmp",
                        help="directory of that file, which takes some eight times the memory by "
                             "default (default: %(default)s)")


def chosen(option, text, known):
    """The chosen names of a list with commas, in the order of all; all if there is none."""
    names = [each.name for each in known]
    wanted = text.split(",") if text is not None else names
    for name in wanted:
        if name not in names:
            raise BadInput(f"{option} {name}: must be one of {', '.join(names)}")
        if wanted.count(name) > 1:
            raise BadInput(f"{option} {name}: given twice")
    return [each for each in known if each.name in wanted]


def factors(text):
    """Sizes of sets, as multiples of the memory."""
    found = []
    for part in text.split(","):
        try:
            factor = float(part)
        except ValueError:
            factor = 0.0
        if not LEAST_FACTOR <= factor <= MOST_FACTOR:
            raise BadInput(f"--sets {part}: must be a number from {LEAST_FACTOR} to {MOST_FACTOR}")
        # Reports use these digits as the name of a set.
        if f"{factor:g}" in (f"{other:g}" for other in found):
            raise BadInput(f"--sets {part}: given twice")
        found.append(factor)
    return found


def set_size(memory, factor):
    """The size of a set in whole MiB."""
    return int(memory * factor) // ground.MIB * ground.MIB


def parts(memory, chosen_works, sizes):
    """Sizes of the disk's parts: those of the sets, and one to copy."""
    found = {}
    for work in chosen_works:
        for factor, size in sizes.items():
            if work.set.takes(factor):
                name = work.set.part(factor)
                found[name] = max(found.get(name, 0), work.set.room(size))
    if any(work.copies for work in chosen_works):
        found[ground.COPY] = COPIED * memory
    return found


@dataclass(frozen=True)
class Job:
    """A work on a set of one size."""
    work: works.Work
    factor: float
    size: int

    @property
    def part(self):
        return self.work.set.part(self.factor)


class Memory:
    """A round has the works that share a warm set; each way is set up for it, and removed."""

    def __init__(self, options, present, memory):
        self.options, self.memory = options, memory
        self.ways = {way.name: way for way in present}
        self.jobs, self.ground, self.undo = {}, None, None

    def _modules(self):
        yield "dm-mod"
        for way in self.ways.values():
            yield from way.modules
        for job in self.jobs.values():
            yield from job.work.modules()

    def set_up(self, undo):
        self.undo = undo
        for module in self._modules():
            devices.load_module(undo, module)
        self.ground.set_up(undo, self._disk(undo))
        if ground.COPY in self.ground.parts:
            fio.fill(self.ground.below[ground.COPY], self.ground.parts[ground.COPY])
        parts = {}
        for job in self.jobs.values():
            parts.setdefault(job.part, []).append(job)
        for jobs in parts.values():
            self._prepare(jobs)

    def _disk(self, undo):
        if self.options.disk:
            undo.do(f"contents of {self.options.disk}", lambda: None,
                    lambda _: devices.wipe(self.options.disk))
            return self.options.disk
        path = os.path.join(devices.directory(undo, self.options.dir), "disk")
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, ground.total(self.ground.parts))
        disk = devices.loop(undo, path)
        if not devices.loop_is_direct(disk):
            raise BenchError(f"--dir {self.options.dir}: a loop device has no direct I/O there, so "
                             "the measured memory would cache this disk; give another --dir, or "
                             "--disk")
        return disk

    def _prepare(self, jobs):
        """Prepare the largest set of a part; the others are its start."""
        ground.format_part(self.ground.below[jobs[0].part])
        with since(self.undo):
            largest = max(jobs, key=lambda job: job.size)
            stand = ways.page_cache(self.undo, self._task([largest]))
            largest.work.set.prepare(stand.folder, largest.size, self.memory)
            for job in jobs:
                job.work.learn(stand, job.size)

    def _task(self, jobs):
        first, copies = jobs[0], any(job.work.copies for job in jobs)
        return ways.Task(self.ground, first.work.set, first.part, first.size,
                         int(self.memory * SHARE), copies)

    @contextlib.contextmanager
    def open(self, subject, this, repeat):
        jobs = {case.name: self.jobs[case.name] for case in this.cases}
        first = jobs[this.cases[0].name]
        with since(self.undo):
            machine.drop_caches()
            stand = self.ways[subject.name].open(self.undo, self._task(list(jobs.values())))
            machine.drop_caches()
            with command.within(stand.procs):
                works.warm(stand, lambda: first.work.set.read(stand.folder, first.size,
                                                              first.work.direct), first.size)
            yield lambda case: jobs[case.name].work.measure(stand, first.size,
                                                            self.options.seconds, repeat)


def kept(total):
    """The memory that a RAM disk leaves to others and to the programs beside it."""
    return min(max(total // 8, 32 << 20), 2 << 30) + PROGRAMS


def _spent(options):
    """The memory that sizes are derived from."""
    available = machine.meminfo("MemAvailable")
    memory = options.memory or available // UNIT * UNIT
    if memory < LEAST_MEMORY:
        raise BadInput(f"--memory {memory}: must be {human(LEAST_MEMORY)} or more")
    machine.need_memory(memory)
    if options.memory and memory % ground.MIB:
        raise BadInput(f"--memory {memory}: must be whole MiB")
    left, needed = available - int(memory * SHARE), kept(machine.meminfo("MemTotal"))
    if left < needed:
        raise BadInput(f"{human(available)} of memory available: a RAM disk of "
                       f"{human(int(memory * SHARE))} leaves {human(left)}, {human(needed)} are "
                       "needed; give a smaller --memory")
    notes = [f"The memory: {human(memory)}, of which a cache's RAM disk takes "
             f"{human(int(memory * SHARE))}."]
    if available > memory * TOLERANCE:
        notes.append(f"{human(available)} of memory is available, --memory is {human(memory)}: "
                     "the page cache can use more memory than the caches.")
    return memory, notes


def _available(known):
    """What this machine has, and the reasons why it lacks the others."""
    found, reasons = [], []
    for each in known:
        try:
            each.need()
            found.append(each)
        except Missing as missing:
            reasons.append((each, str(missing)))
    return found, reasons


def _left_out(reasons):
    return [f"Left out: {each.title}: {reason}." for each, reason in reasons]


def _ways(text, notes):
    """The available ways; those requested by name must be available."""
    found, reasons = _available(chosen("--ways", text, ways.ALL))
    if text is not None and reasons:
        way, reason = reasons[0]
        raise BadInput(f"--ways {way.name}: {reason}")
    notes += _left_out(reasons)
    return found


def _works(text, notes):
    """The available workloads, of which there must be one."""
    found, reasons = _available(chosen("--works", text, works.ALL))
    if not found:
        each = dict.fromkeys(reason for _work, reason in reasons)
        raise BadInput(f"--works {text}: {'; '.join(each)}")
    notes += _left_out(reasons)
    return found


def _check(options, size):
    devices.need_rxd()
    machine.need_tools("dmsetup", "modprobe", "mount", "umount", "mkfs.ext4", "wipefs",
                       "blkdiscard", "losetup", "dd", "find", "xargs", "seq", "setpriv")
    if options.disk:
        guard.need_free_device(options.disk, size, options.destroy)
    else:
        guard.need_directory(options.dir)
        if not guard.takes_direct(options.dir):
            raise BadInput(f"--dir {guard.no_direct(options.dir)}")
        machine.need_space(options.dir, size + FILE_SLACK)


def _cases(group, factor, size, seconds, copied):
    """The cases of a round; the first one also waits until its way is warm."""
    takes = SETTING_UP + WARMING[factor <= 1] * size / works.PACE
    for work in group:
        yield Case(f"{factor:g}-{work.name}", f"{work.title}, {factor:g} x",
                   takes + work.seconds(size, seconds, copied))
        takes = 0


def _rounds(made, present, wanted, sizes, notes):
    """Rounds for all sets of all works, and notes on what is left out."""
    for group in works.groups(wanted):
        kind = group[0].set
        for factor, size in sizes.items():
            if not kind.takes(factor):
                notes += [f"Left out: {work.title}, {factor:g} x: larger than the memory."
                          for work in group]
                continue
            fitting = [way.name for way in present
                       if way.name != ways.RAMDISK or kind.room(size) <= made.memory * SHARE]
            if len(fitting) < len(present):
                notes += [f"Left out: RAM disk with all of it, {work.title}, {factor:g} x: does "
                          f"not fit into {SHARE:.0%} of the memory." for work in group]
            if not fitting:
                continue
            cases = tuple(_cases(group, factor, size, made.options.seconds,
                                 COPIED * made.memory))
            made.jobs.update((case.name, Job(work, factor, size))
                             for case, work in zip(cases, group))
            yield Round(cases, tuple(fitting))


def plan(options):
    if options.seconds < 1:
        raise BadInput(f"--seconds {options.seconds}: must be 1 or more")
    sets = factors(options.sets)
    machine.need_root()
    machine.fio_version()
    memory, notes = _spent(options)
    sizes = {factor: set_size(memory, factor) for factor in sets}
    for factor, size in sizes.items():
        if size < LEAST_SET:
            raise BadInput(f"--sets {factor:g}: {human(size)}, must be {human(LEAST_SET)} or more")
    present, wanted = _ways(options.ways, notes), _works(options.works, notes)
    made = Memory(options, present, memory)
    made.ground = ground.Ground(parts(memory, wanted, sizes))
    _check(options, ground.total(made.ground.parts))
    rounds = list(_rounds(made, present, wanted, sizes, notes))
    if not rounds:
        raise BadInput(f"--ways {options.ways} --works {options.works} --sets {options.sets}: "
                       "nothing is left to measure")
    more = dict.fromkeys(MORE[work.name] for work in wanted if work.name in MORE)
    return Plan(subjects=[Subject(way.name, way.title) for way in present], rounds=rounds,
                open=made.open, set_up=made.set_up, metrics=(*METRICS, *more), notes=notes,
                settings={"memory": memory, "cache": int(memory * SHARE),
                          "sets": {f"{factor:g}": size for factor, size in sizes.items()},
                          "copied": made.ground.parts.get(ground.COPY, 0),
                          "seconds": options.seconds,
                          "distribution": works.ZIPF,
                          "disk": options.disk or f"a file in {options.dir}"})
