# SPDX-License-Identifier: GPL-2.0-only
"""The same memory, used as page cache, as a cache on a RAM disk, or as a RAM disk."""

import contextlib
import os

from ..memory import ground, ways, works
from ..peers import Missing
from ..run.plan import IOPS, LOWER, HIGHER, P99, REAL, Case, Metric, Plan, Round, Subject
from ..system import devices, guard, machine
from ..system.errors import BadInput
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
reads three times the memory; the same with O_DIRECT; a tree of files read again after a backup has
read everything (sets of up to 1 times the memory). The figures that decide are the disk reads of
the working set, from the statistics of the kernel. The disk is --disk, or a file in --dir."""

DISK_READS = Metric("disk_reads", "disk reads", "per 1,000", LOWER)
SAVED = Metric("saved_percent", "saved", "%", HIGHER)
COPY = Metric("copy_mb_s", "copy", "MB/s", HIGHER)
METRICS = (DISK_READS, SAVED, IOPS, P99)

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
# For the time left: seconds of set-up and removal, and the rate of reads in bytes.
SETTING_UP, PACE = 10, 100e6


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
                        help="amount that all sizes are derived from (default: the available "
                             "memory)")
    parser.add_argument("--disk", metavar="DEVICE", help="disk to use (default: file in --dir)")
    parser.add_argument("--dir", metavar="DIRECTORY", default="/var/tmp",
                        help="directory of that file (default: %(default)s)")


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
    """Sizes of the disk's parts: one for each kind of set, and one to copy."""
    found = {}
    for work in chosen_works:
        taken = [size for factor, size in sizes.items() if work.takes(factor)]
        if taken:
            found[work.part] = ground.room(max(taken))
    if any(work.copies for work in chosen_works):
        found[ground.COPY] = COPIED * memory
    return found


class Memory:
    """A round is one work on one set; each way is set up for it, and removed."""

    def __init__(self, options, present, memory):
        self.options, self.memory = options, memory
        self.ways = {way.name: way for way in present}
        self.cases, self.ground, self.undo = {}, None, None

    def set_up(self, undo):
        self.undo = undo
        for module in ("dm-mod", *(name for way in self.ways.values() for name in way.modules)):
            devices.load_module(undo, module)
        self.ground.set_up(undo, self._disk(undo))
        if ground.COPY in self.ground.parts:
            fio.fill(self.ground.below[ground.COPY], self.ground.parts[ground.COPY])
        prepared = set()
        for work, _size in self.cases.values():
            sizes = [size for each, size in self.cases.values() if each.part == work.part]
            if work.part not in prepared:
                prepared.add(work.part)
                self._prepare(work, sizes)

    def _disk(self, undo):
        if self.options.disk:
            undo.do(f"contents of {self.options.disk}", lambda: None,
                    lambda _: devices.wipe(self.options.disk))
            return self.options.disk
        path = os.path.join(devices.directory(undo, self.options.dir), "disk")
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, ground.total(self.ground.parts))
        return devices.loop(undo, path)

    def _prepare(self, work, sizes):
        ground.format_part(self.ground.below[work.part])
        with since(self.undo):
            stand = ways.page_cache(self.undo, self._task(work, max(sizes)))
            work.prepare(stand.folder, max(sizes))
            for size in set(sizes):
                work.learn(stand, size)

    def _task(self, work, size):
        return ways.Task(self.ground, work, size, int(self.memory * SHARE))

    @contextlib.contextmanager
    def open(self, subject, this, repeat):
        case, = this.cases
        work, size = self.cases[case.name]
        with since(self.undo):
            machine.drop_caches()
            stand = self.ways[subject.name].open(self.undo, self._task(work, size))
            machine.drop_caches()
            yield lambda _case: work.measure(stand, size, self.options.seconds, repeat)


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


def _present(text, notes):
    """The available ways; those requested by name must be available."""
    found = []
    for way in chosen("--ways", text, ways.ALL):
        try:
            way.need()
            found.append(way)
        except Missing as missing:
            if text is not None:
                raise BadInput(f"--ways {way.name}: {missing}") from missing
            notes.append(f"Left out: {way.title}: {missing}.")
    return found


def _check(options, size):
    devices.need_rxd()
    machine.need_tools("dmsetup", "modprobe", "mount", "umount", "mkfs.ext4", "wipefs",
                       "blkdiscard", "losetup", "dd", "find", "xargs", "seq")
    if options.disk:
        guard.need_free_device(options.disk, size, options.destroy)
    else:
        guard.need_directory(options.dir)
        machine.need_space(options.dir, size + FILE_SLACK)


def _case(work, factor, size, seconds):
    takes = SETTING_UP + 2 * seconds + 2 * size / PACE
    return Case(f"{factor:g}-{work.name}", f"{work.title}, {factor:g} x", takes)


def plan(options):
    if options.seconds < 1:
        raise BadInput(f"--seconds {options.seconds}: must be 1 or more")
    wanted, sets = chosen("--works", options.works, works.ALL), factors(options.sets)
    machine.need_root()
    machine.fio_version()
    memory, notes = _spent(options)
    sizes = {factor: set_size(memory, factor) for factor in sets}
    for factor, size in sizes.items():
        if size < LEAST_SET:
            raise BadInput(f"--sets {factor:g}: {human(size)}, must be {human(LEAST_SET)} or more")
    present = _present(options.ways, notes)
    made, rounds = Memory(options, present, memory), []
    made.ground = ground.Ground(parts(memory, wanted, sizes))
    _check(options, ground.total(made.ground.parts))
    for work in wanted:
        for factor, size in sizes.items():
            if not work.takes(factor):
                notes.append(f"Left out: {work.title}, {factor:g} x: larger than the memory.")
                continue
            fitting = [way.name for way in present
                       if way.name != ways.RAMDISK or ground.room(size) <= memory * SHARE]
            if len(fitting) < len(present):
                notes.append(f"Left out: RAM disk with all of it, {work.title}, {factor:g} x: does "
                             f"not fit into {SHARE:.0%} of the memory.")
            if not fitting:
                continue
            case = _case(work, factor, size, options.seconds)
            made.cases[case.name] = (work, size)
            rounds.append(Round((case,), tuple(fitting)))
    if not rounds:
        raise BadInput(f"--ways {options.ways} --works {options.works} --sets {options.sets}: "
                       "nothing is left to measure")
    metrics = METRICS
    names = [work.name for work in wanted]
    if "zipf-copy" in names:
        metrics += (COPY,)
    if "tree" in names:
        metrics += (REAL,)
    return Plan(subjects=[Subject(way.name, way.title) for way in present], rounds=rounds,
                open=made.open, set_up=made.set_up, metrics=metrics, notes=notes,
                settings={"memory": memory, "cache": int(memory * SHARE),
                          "sets": {f"{factor:g}": size for factor, size in sizes.items()},
                          "copied": made.ground.parts.get(ground.COPY, 0),
                          "seconds": options.seconds,
                          "distribution": works.ZIPF,
                          "disk": options.disk or f"a file in {options.dir}"})
