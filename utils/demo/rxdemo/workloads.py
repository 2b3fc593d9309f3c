# SPDX-License-Identifier: GPL-2.0-only
"""The workloads, in the order of the table."""

from dataclasses import dataclass

MIB = 1 << 20

# The part of each device that is read and written.
AREA = 64 * MIB

DISK, COLD, CACHED, RAM = "disk", "cached_cold", "cached", "ramdisk"

SUBJECTS = {
    DISK: "plain disk",
    COLD: "cached disk, cold",
    CACHED: "cached disk",
    RAM: "RAM disk",
}


@dataclass(frozen=True)
class Workload:
    """A fio job, but for its device and its duration."""
    name: str
    title: str
    rw: str
    block: str
    reads: bool

    def job(self, seconds, offset=0):
        return {"rw": self.rw, "bs": self.block, "size": AREA, "offset": offset,
                "time_based": 1, "runtime": seconds}

    def pass_once(self):
        """The whole area once, however long it takes."""
        return {"rw": self.rw, "bs": self.block, "size": AREA, "offset": 0}


def _workloads():
    for word, reads in (("read", True), ("write", False)):
        for block in ("4k", "1m"):
            for prefix, order in (("rand", "random"), ("", "sequential")):
                short = f"{prefix or 'seq'}{word}_{block}"
                yield Workload(short, f"{block.upper()} {order} {word}", prefix + word, block,
                               reads)


WORKLOADS = list(_workloads())
BY_NAME = {workload.name: workload for workload in WORKLOADS}
# The cold pass that warms the cache, and a cold one over blocks that stay cold.
WARMING = BY_NAME["seqread_1m"]
COLD_RANDOM = BY_NAME["randread_4k"]
