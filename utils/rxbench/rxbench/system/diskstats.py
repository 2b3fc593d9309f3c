# SPDX-License-Identifier: GPL-2.0-only
"""Disk statistics, in the columns of older versions of iostat -x.

Linux counts requests that wait and those at the device as one. As many as the device takes
at once (device/queue_depth, or else nr_requests) are taken as active, the rest as waiting.
A device without a queue, such as a RAM disk, has none that wait.
"""

import os
import stat
import threading

from . import machine

LOOK_SECONDS = 0.05
FIELDS = ("reads", "read_sectors", "writes", "written_sectors", "busy_ms", "weighted_ms")
PLACES = (0, 2, 4, 6, 9, 10)


def disk_of(path):
    """The sysfs folder of the disk that a node or a file is on; None if it is on no disk."""
    info = os.stat(path)
    number = info.st_rdev if stat.S_ISBLK(info.st_mode) else info.st_dev
    base = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    return os.path.realpath(base) if os.path.isdir(base) else None


class Disk:
    """One disk, and the number of requests that it accepts at once."""

    def __init__(self, folder):
        self.folder, self.name = folder, os.path.basename(folder)
        whole = folder if os.path.isdir(f"{folder}/queue") else os.path.dirname(folder)
        depth = machine.read(f"{whole}/device/queue_depth") or machine.read(
            f"{whole}/queue/nr_requests")
        # Without a scheduler list there is no queue: bios go straight to the driver.
        queued = os.path.isdir(f"{whole}/mq")
        self.depth = int(depth) if queued and depth.isdigit() else None
        self.looks = self.waiting = 0

    def look(self):
        """Note whether any request is waiting now."""
        self.looks += 1
        if self.depth is not None:
            inflight = sum(map(int, machine.read(f"{self.folder}/inflight").split()))
            self.waiting += inflight > self.depth

    def counters(self):
        words = machine.read(f"{self.folder}/stat").split()
        looks, waiting, self.looks, self.waiting = self.looks, self.waiting, 0, 0
        return {**{name: int(words[place]) for name, place in zip(FIELDS, PLACES)},
                "looks": looks, "waiting": waiting}


def rates(before, after, seconds, depth):
    """The columns, from counters at both ends of an interval."""
    change = {name: after[name] - before[name] for name in FIELDS}
    ios = (change["reads"] + change["writes"]) / seconds
    inside = change["weighted_ms"] / 1e3 / seconds
    active = inside if depth is None else min(inside, depth)
    return {"r_s": change["reads"] / seconds, "w_s": change["writes"] / seconds,
            "kr_s": change["read_sectors"] / 2 / seconds,
            "kw_s": change["written_sectors"] / 2 / seconds,
            "wait": inside - active, "actv": active,
            "svc_t": active / ios * 1e3 if ios else 0.0,
            "w_percent": 100 * after["waiting"] / after["looks"] if after["looks"] else 0.0,
            "b_percent": min(100.0, change["busy_ms"] / 10 / seconds)}


class Watch:
    """Disks watched while the block runs."""

    def __init__(self, paths):
        folders = dict.fromkeys(filter(None, map(disk_of, paths)))
        self.disks = [Disk(folder) for folder in folders]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while not self.ended.wait(LOOK_SECONDS):
            for disk in self.disks:
                disk.look()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_exception):
        self.ended.set()
        self.thread.join()

    def counters(self):
        return {disk.name: disk.counters() for disk in self.disks}

    def rates(self, before, after, seconds):
        return {disk.name: rates(before[disk.name], after[disk.name], seconds, disk.depth)
                for disk in self.disks}
