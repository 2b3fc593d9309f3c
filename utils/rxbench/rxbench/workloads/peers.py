# SPDX-License-Identifier: GPL-2.0-only
"""rxd and rxcache beside their peers, which are set up and removed here."""

import contextlib
import os

from ..peers import Missing, caches, memory
from ..run.plan import Case, Plan, Round, Subject
from ..system import devices, guard, machine, places
from ..system.errors import BadInput
from ..system.units import size_of
from ..tools import fio
from .profile import chosen

NAME = "peers"
SUMMARY = "compare rxd with brd, zram, null_blk and loop on tmpfs, and rxcache with other caches"
EXPLANATION = """\
RAM disks: rxd, brd, zram, null_blk with memory, and a loop device on tmpfs. Caches: rxcache,
dm-cache, bcache and dm-writecache, each with an rxd RAM disk as its memory and an equal part of one
disk, compared with a plain part. RapidDisk is included in both if it is installed.
Caches that keep what is read are warmed before each measurement of reads, until they read nothing
from the disk. dm-writecache holds all of its part from the beginning and never fills up, so it does
not write to the disk.
All devices are set up at once, measured in turn, and removed. What is not available on the machine,
or is loaded already, is skipped, and a note says so. The disk is --disk, or a file in --dir. fio
runs with direct I/O at depth 32."""

GROUPS = {"ram": ("RAM disk", memory.ALL, "rxd"), "cache": ("cache", caches.ALL, "plain")}
JOBS = (("randread", "4k", "4K random read"), ("randwrite", "4k", "4K random write"),
        ("read", "1m", "1M sequential read"), ("write", "1m", "1M sequential write"))
NAMES = [f"{order}-{block}" for order, block, _title in JOBS]
LEAST_SIZE = 16 << 20
# A cache and its metadata are larger than the data; a log holds some data twice.
CACHE_EXTRA = 80 << 20
LOGS = ("bcache", "dm-writecache")
FILE_SLACK = 64 << 20
# Some RAM disks must be whole MiB.
UNIT = 1 << 20


def add_arguments(parser):
    parser.add_argument("--only", choices=tuple(GROUPS), help="only this group (default: both)")
    parser.add_argument("--size", metavar="SIZE", type=size_of("--size"), default=256 << 20,
                        help="size of each device (default: 256m)")
    parser.add_argument("--seconds", metavar="S", type=int, default=5,
                        help="duration of each measurement (default: %(default)s)")
    parser.add_argument("--jobs", metavar="NAME,...", help="only these jobs: " + ", ".join(NAMES))
    parser.add_argument("--disk", metavar="DEVICE",
                        help="disk to cache, empty or named by --destroy; its contents are lost "
                             "(default: file in --dir)")
    parser.add_argument("--dir", metavar="DIRECTORY", default="/var/tmp",
                        help="directory of that file (default: %(default)s)")


def _present(group, notes):
    """The available peers; the others are noted."""
    _title, peers, _base = GROUPS[group]
    found = []
    for name, title, make, need in peers:
        try:
            need()
            found.append((name, title, make))
        except Missing as missing:
            notes.append(f"Left out: {title}: {missing}.")
    return found


class Peers:
    """All peers together, each with a node to measure."""

    def __init__(self, options, groups, notes):
        self.options, self.groups, self.notes = options, groups, notes
        self.nodes, self.pieces, self.jobs = {}, {}, {}

    def set_up(self, undo):
        devices.load_module(undo, "dm-mod")
        for group, found in self.groups.items():
            if group == "cache":
                self._set_up_caches(undo, found)
                continue
            for name, _title, make in found:
                node = self.nodes[name] = make(undo, self.options.size)
                fio.fill(node, guard.device_size(node) // UNIT * UNIT)

    def _disk(self, undo, size):
        if self.options.disk:
            undo.do(f"contents of {self.options.disk}", lambda: None,
                    lambda _: devices.wipe(self.options.disk))
            return self.options.disk
        path = os.path.join(devices.directory(undo, self.options.dir), "disk")
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        disk = devices.loop(undo, path)
        if not devices.loop_is_direct(disk):
            self.notes.append(f"{self.options.dir}: a loop device has no direct I/O there, so the "
                              "disk below the caches is in the page cache.")
        return disk

    def _set_up_caches(self, undo, found):
        size = self.options.size
        disk = self._disk(undo, size * len(found))
        fio.fill(disk, size * len(found))
        for rank, (name, _title, make) in enumerate(found):
            piece = caches.mapped(undo, f"rxbench-{name}-disk", f"0 {size // 512} linear {disk} "
                                                                f"{rank * size // 512}")
            self.pieces[name] = piece
            self.nodes[name] = make(undo, piece, f"rxbench-{name}")

    def _warm(self, subject):
        """Warm again, because writes may have removed blocks from a cache."""
        if caches.warm(self.nodes[subject.name], self.pieces[subject.name]):
            return
        note = f"Not warm, although it was read several times: {subject.title}."
        if note not in self.notes:
            self.notes.append(note)

    @contextlib.contextmanager
    def open(self, subject, this, _repeat):
        subject.details["queue"] = machine.queue_settings(self.nodes[subject.name])
        reads = any("read" in self.jobs[case.name][0] for case in this.cases)
        if reads and subject.name in caches.WARMED:
            self._warm(subject)
        yield lambda case: self.measure(self.nodes[subject.name], case)

    def measure(self, node, case):
        order, block = self.jobs[case.name]
        return fio.measure(node, {"rw": order, "bs": block, "time_based": 1,
                                  "runtime": self.options.seconds,
                                  "size": guard.device_size(node) // UNIT * UNIT})


def _check(options, groups):
    machine.need_root()
    if options.size % UNIT or options.size < LEAST_SIZE:
        raise BadInput(f"--size {options.size}: must be whole MiB, 16 or more")
    if options.disk and "cache" not in groups:
        raise BadInput(f"--disk {options.disk}: not allowed with --only ram")
    if options.seconds < 1:
        raise BadInput(f"--seconds {options.seconds}: must be 1 or more")
    devices.need_rxd()
    machine.need_tools("dmsetup", "losetup", "modprobe", "mount", "umount", "wipefs",
                       "blkdiscard")
    memory_needed = places.SPARE
    memory_needed += len(groups.get("ram", ())) * options.size
    disk = 0
    if "cache" in groups:
        devices.need_rxcache()
        memory_needed += (len(groups["cache"]) - 1) * (options.size + CACHE_EXTRA)
        memory_needed += sum(name in LOGS for name, *_rest in groups["cache"]) * options.size
        disk = len(groups["cache"]) * options.size
        if options.disk:
            guard.need_free_device(options.disk, disk, options.destroy)
        else:
            guard.need_directory(options.dir)
            machine.need_space(options.dir, disk + FILE_SLACK)
    machine.need_memory(memory_needed)


def plan(options):
    wanted, notes = chosen(options.jobs, NAMES), []
    machine.fio_version()
    groups = {group: _present(group, notes) for group in GROUPS
              if options.only in (None, group)}
    _check(options, groups)
    peers, rounds, subjects = Peers(options, groups, notes), [], []
    for group, found in groups.items():
        title, _all, base = GROUPS[group]
        subjects += [Subject(name, text, {"group": title}) for name, text, _make in found]
        for order, block, text in JOBS:
            if f"{order}-{block}" not in wanted:
                continue
            case = Case(f"{group}-{order}-{block}", f"{title}: {text}", options.seconds + 1.5,
                        base=base)
            peers.jobs[case.name] = (order, block)
            rounds.append(Round((case,), tuple(name for name, _title, _make in found)))
    return Plan(subjects=subjects, rounds=rounds, open=peers.open, set_up=peers.set_up,
                notes=notes, settings={"size": options.size, "seconds": options.seconds,
                                       "disk": options.disk or f"a file in {options.dir}"})
