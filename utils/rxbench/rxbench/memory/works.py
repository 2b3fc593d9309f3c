# SPDX-License-Identifier: GPL-2.0-only
"""Workloads on a working set: prepared once on the disk, warmed and measured in each way."""

import contextlib
import os
import random
import time

from ..system import command, machine
from ..system.undo import check
from ..tools import fio
from . import ground

DATA, TREE = "data", "tree"
JOBS = 8
# As in YCSB. All threads and runs have the same hot blocks, in an order of their own.
ZIPF = "zipf:0.99:0.5"
# bcache caches only as much as it has free buckets for, a little in each pass.
WARM_PASSES = 20
# A pass that reads this share of what the previous pass read has warmed nothing.
WARM_STEP = 0.95
FILE, FILES = 32 << 10, 100
MIB = 1 << 20


def reads(count, of, **more):
    """The metrics of disk reads for this many requests; shares below one of 1,000 are equal."""
    return {"disk_reads": max(1.0, 1e3 * count / of), "saved_percent": 100 * (1 - count / of),
            **more}


def warm(stand, once):
    """Read everything sequentially, by once(), until the disk reads hardly decrease."""
    last = None
    for _ in range(WARM_PASSES):
        before = ground.counters(stand.below)
        once()
        now = ground.since(stand.below, before)["bytes"]
        if not now or (last is not None and now > last * WARM_STEP):
            return
        last = now


class Zipf:
    """Random reads of 4 KiB in one file."""
    part = "set"

    def __init__(self, name, title, direct=False, copies=False):
        self.name, self.title, self.direct, self.copies = name, title, direct, copies

    @staticmethod
    def takes(_factor):
        return True

    @staticmethod
    def cover(size, part):
        """The range of the part with the set: a new file system is filled from its start."""
        return min(ground.room(size), part)

    @staticmethod
    def learn(_stand, _size):
        """The number of requests is known in advance."""

    @staticmethod
    def prepare(folder, size):
        fio.fill(os.path.join(folder, DATA), size)

    @staticmethod
    def copy_in(source, folder, size):
        command.run("dd", f"if={source}/{DATA}", f"of={folder}/{DATA}", "bs=1M",
                    f"count={size // MIB}", "iflag=direct", "oflag=direct", "status=none")

    def _read(self, path, size):
        command.run("dd", f"if={path}", "of=/dev/null", "bs=1M", f"count={size // MIB}",
                    "status=none", *(["iflag=direct"] if self.direct else []))

    def _run(self, path, size, seconds, seed):
        options = {**fio.BASE, "ioengine": "psync", "iodepth": 1, "numjobs": JOBS,
                   "direct": int(self.direct), "filename": fio.escaped(path), "size": size,
                   "rw": "randread", "bs": "4k", "random_distribution": ZIPF, "randseed": seed,
                   "time_based": 1, "runtime": seconds}
        return fio.run(options, [("rxbench", {})], interval=3600)[-1]

    def _beside(self, stand):
        if not self.copies:
            return contextlib.nullcontext()
        return command.meanwhile("sh", "-c", 'while dd if="$0" of=/dev/null bs=1M; do :; done',
                                 stand.copied)

    def measure(self, stand, size, seconds, repeat):
        path = os.path.join(stand.folder, DATA)
        with command.within(stand.procs):
            warm(stand, lambda: self._read(path, size))
        with self._beside(stand), command.within(stand.procs):
            self._run(path, size, seconds, 2 * repeat + 1)
            before = {path: ground.counters(path) for path in (stand.below, stand.copied) if path}
            begin = time.monotonic()
            end = self._run(path, size, seconds, 2 * repeat + 2)
            after = {path: ground.since(path, before[path]) for path in before}
            took = time.monotonic() - begin
        disk = after[stand.below]
        metrics = reads(disk["reads"], end.both().ios, **end.metrics())
        if self.copies:
            metrics["copy_mb_s"] = after[stand.copied]["bytes"] / took / 1e6
        return {"metrics": metrics, "percentiles": end.both().percentiles(),
                "facts": {"disk_reads": disk["reads"], "disk_bytes": disk["bytes"],
                          "requests": end.both().ios}}


class Tree:
    """Read all files of a tree again after a backup has read everything."""
    part, name, title = "tree", "tree", "tree after a backup"
    copies = True

    def __init__(self):
        self.cold = {}

    @staticmethod
    def takes(factor):
        return factor <= 1

    @staticmethod
    def cover(_size, part):
        """Directories are spread over the whole part."""
        return part

    @staticmethod
    def _names(size):
        return [str(number) for number in range(max(1, size // (FILE * FILES)))]

    def prepare(self, folder, size):
        """Create files of one size, because differences between trees are not measured here."""
        noise = random.Random(1)
        for name in self._names(size):
            inner = os.path.join(folder, TREE, name)
            os.makedirs(inner)
            for number in range(FILES):
                with open(os.path.join(inner, str(number)), "wb") as file:
                    file.write(noise.randbytes(FILE))
            check()
        command.run("sync", "--file-system", folder)

    def copy_in(self, source, folder, size):
        os.mkdir(os.path.join(folder, TREE))
        command.run("sh", "-c", 'seq 0 "$0" | xargs cp -a -t "$1"', self._names(size)[-1],
                    os.path.join(folder, TREE), cwd=os.path.join(source, TREE))

    def _read(self, folder, size):
        """Read every file once; return the time."""
        last = self._names(size)[-1]
        script = ('seq 0 "$0" | xargs sh -c \'find "$@" -type f -print0\' sh | '
                  'xargs -0 cat >/dev/null')
        return command.timed("sh", "-c", script, last, cwd=os.path.join(folder, TREE))

    def learn(self, stand, size):
        """Count the reads without a cache; saved reads are relative to this number."""
        machine.drop_caches()
        before = ground.counters(stand.below)
        self._read(stand.folder, size)
        self.cold[size] = max(1, ground.since(stand.below, before)["reads"])

    def measure(self, stand, size, _seconds, _repeat):
        with command.within(stand.procs):
            warm(stand, lambda: self._read(stand.folder, size))
        # The backup reads the tree, like any other file, and the rest of the disk.
        self._read(stand.folder, size)
        command.run("dd", f"if={stand.copied}", "of=/dev/null", "bs=1M", "status=none")
        before = ground.counters(stand.below)
        with command.within(stand.procs):
            times = self._read(stand.folder, size)
        disk = ground.since(stand.below, before)
        return {"metrics": {**reads(disk["reads"], self.cold[size]), "real_s": times["real_s"]},
                "facts": {"disk_reads": disk["reads"], "disk_bytes": disk["bytes"],
                          "requests": self.cold[size]}}


ALL = (Zipf("zipf", "Zipf reads, buffered"),
       Zipf("zipf-copy", "Zipf reads, beside a copy", copies=True),
       Zipf("zipf-direct", "Zipf reads, O_DIRECT", direct=True), Tree())
