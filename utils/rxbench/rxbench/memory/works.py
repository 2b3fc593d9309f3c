# SPDX-License-Identifier: GPL-2.0-only
"""What runs on a working set, once its way is warm."""

import contextlib
import os
import time

from ..peers import Missing
from ..system import command, machine
from ..system.places import since
from ..tools import fio, postgres
from . import ground, nvme, sets

JOBS = 8
# As in YCSB. All threads and runs have the same hot blocks, in an order of their own.
ZIPF = "zipf:0.99:0.5"
# bcache caches only as much as it has free buckets for, a little in each pass.
WARM_PASSES = 20
# A pass that reads this share of what the previous pass read has warmed nothing.
WARM_STEP = 0.95
# Sets that do not fit are read no more often than this.
WARM_SETS = 6
# For the time left: how fast a set is read, in bytes, and what a server needs.
PACE, SERVER = 100e6, 15


def reads(count, of, **more):
    """The metrics of disk reads for this many requests; shares below one of 1,000 are equal."""
    return {"disk_reads": max(1.0, 1e3 * count / of), "saved_percent": 100 * (1 - count / of),
            **more}


def result(disk, requests, **more):
    """The sample of a work, by the counters of the disk."""
    return {"metrics": reads(disk["reads"], requests, **more),
            "facts": {"disk_reads": disk["reads"], "disk_bytes": disk["bytes"],
                      "requests": requests}}


def warm(stand, once, size):
    """Read everything sequentially, by once(), until the disk reads hardly decrease."""
    last, total = None, 0
    for _ in range(WARM_PASSES):
        before = ground.counters(stand.below)
        once()
        now = ground.since(stand.below, before)["bytes"]
        total += now
        if not now or total >= WARM_SETS * size or (last is not None and now > last * WARM_STEP):
            return
        last = now


class Work:
    """Works with the same set, buffered or not, share what was warmed for the first of them."""
    copies = direct = False

    def __init__(self, name, title, working_set):
        self.name, self.title, self.set = name, title, working_set

    def need(self):
        """Raise Missing if programs or modules are missing."""

    @staticmethod
    def modules():
        return ()

    def learn(self, stand, size):
        """Measure the set once without a cache."""

    @staticmethod
    def seconds(_size, seconds, _copied):
        """The expected duration, once the way is warm."""
        return 2 * seconds


class Zipf(Work):
    """Random reads of 4 KiB in one file."""

    def __init__(self, name, title, direct=False, copies=False):
        super().__init__(name, title, DATA)
        self.direct, self.copies = direct, copies

    @contextlib.contextmanager
    def _reached(self, stand):
        """The path that fio reads, and whether with O_DIRECT."""
        yield os.path.join(stand.folder, sets.DATA), self.direct

    @staticmethod
    def _run(target, size, seconds, seed):
        path, direct = target
        options = {**fio.BASE, "ioengine": "psync", "iodepth": 1, "numjobs": JOBS,
                   "direct": int(direct), "filename": fio.escaped(path), "size": size,
                   "rw": "randread", "bs": "4k", "random_distribution": ZIPF, "randseed": seed,
                   "time_based": 1, "runtime": seconds}
        return fio.run(options, [("rxbench", {})], interval=3600)[-1]

    def _beside(self, stand):
        if not self.copies:
            return contextlib.nullcontext()
        return command.meanwhile("sh", "-c", 'while dd if="$0" of=/dev/null bs=1M; do :; done',
                                 stand.copied)

    def measure(self, stand, size, seconds, repeat):
        counted = [stand.below, *([stand.copied] if self.copies else [])]
        with self._reached(stand) as target, self._beside(stand), command.within(stand.procs):
            self._run(target, size, seconds, 2 * repeat + 1)
            before = {path: ground.counters(path) for path in counted}
            begin = time.monotonic()
            end = self._run(target, size, seconds, 2 * repeat + 2)
            after = {path: ground.since(path, before[path]) for path in counted}
            took = time.monotonic() - begin
        more = {"copy_mb_s": after[stand.copied]["bytes"] / took / 1e6} if self.copies else {}
        return {**result(after[stand.below], end.both().ios, **end.metrics(), **more),
                "percentiles": end.both().percentiles()}


class Export(Zipf):
    """The file is exported over NVMe, and the host reads its disk with O_DIRECT.

    A target that opens the file with O_DIRECT treats it like a block device. Otherwise the page
    cache of the target has it.
    """

    def need(self):
        nvme.transport()

    @staticmethod
    def modules():
        return nvme.transport().modules

    @contextlib.contextmanager
    def _reached(self, stand):
        with since(stand.undo):
            path = os.path.join(stand.folder, sets.DATA)
            yield nvme.exported(stand.undo, path, buffered=not self.direct), True


class Reread(Work):
    """Read all files of a tree again after a backup has read everything."""
    copies = True

    def __init__(self, name, title):
        super().__init__(name, title, TREE)
        self.cold = {}

    @staticmethod
    def seconds(size, _seconds, copied):
        return (2 * size + copied) / PACE

    def learn(self, stand, size):
        """Count the reads without a cache; saved reads are relative to this number."""
        machine.drop_caches()
        before = ground.counters(stand.below)
        self.set.read(stand.folder, size)
        self.cold[size] = max(1, ground.since(stand.below, before)["reads"])

    def measure(self, stand, size, _seconds, _repeat):
        # The backup reads the tree, like any other file, and the rest of the disk.
        self.set.read(stand.folder, size)
        command.run("dd", f"if={stand.copied}", "of=/dev/null", "bs=1M", "status=none")
        before = ground.counters(stand.below)
        with command.within(stand.procs):
            times = self.set.read(stand.folder, size)
        return result(ground.since(stand.below, before), self.cold[size], real_s=times["real_s"])


class Pgbench(Work):
    """Transactions of pgbench. Requests are the blocks that the server has asked the kernel for."""

    def __init__(self, name, title, script):
        super().__init__(name, title, CLUSTER)
        self.script = script

    def need(self):
        if not postgres.folder():
            raise Missing(postgres.MISSING)

    @staticmethod
    def seconds(_size, seconds, _copied):
        return 2 * seconds + SERVER

    def measure(self, stand, _size, seconds, _repeat):
        cluster = os.path.join(stand.folder, sets.CLUSTER)
        with command.within(stand.procs), postgres.serve(cluster) as server:
            server.run(self.script, seconds, JOBS)
            asked, before = server.blocks_read(), ground.counters(stand.below)
            end = server.run(self.script, seconds, JOBS)
            disk, asked = ground.since(stand.below, before), server.blocks_read() - asked
        return {**result(disk, max(1, asked), tps=end.rate, lat_p99_us=end.percentile(99)),
                "percentiles": end.percentiles()}


DATA, TREE, CLUSTER = sets.Data(), sets.Tree(), sets.Cluster()
ALL = (Zipf("zipf", "Zipf reads, buffered"),
       Export("nvme-buffered", "NVMe export, target buffered"),
       Zipf("zipf-copy", "Zipf reads, beside a copy", copies=True),
       Zipf("zipf-direct", "Zipf reads, O_DIRECT", direct=True),
       Export("nvme", "NVMe export, target with O_DIRECT", direct=True),
       Pgbench("pgbench-select", "PostgreSQL, select only", "select-only"),
       Pgbench("pgbench-tpcb", "PostgreSQL, TPC-B", "tpcb-like"),
       Reread("tree", "tree after a backup"))


def groups(chosen):
    """Works that share what is set up and warmed, as lists."""
    found = {}
    for work in chosen:
        found.setdefault((work.set, work.direct), []).append(work)
    return list(found.values())
