# SPDX-License-Identifier: GPL-2.0-only
"""The definitions of a parameter file: storage, workloads and runs."""

from dataclasses import dataclass, field

MAX, CURVED = "max", "curve"
CURVE = (10, 50, 70, 80, 90, 100)


@dataclass(frozen=True)
class Range:
    """range=: the part of a lun that is used, in percent or in bytes."""
    low: int
    high: int
    in_bytes: bool

    def part(self, size, block):
        """First byte and length, in whole blocks."""
        low, high = (self.low, min(self.high, size)) if self.in_bytes else \
            (size * self.low // 100, size * self.high // 100)
        begin = -(-low // block) * block
        return begin, max(0, high - begin) // block * block


@dataclass
class Storage:
    """sd="""
    name: str
    lun: str
    line: int
    size: int = None
    threads: int = 8
    flags: tuple = ()
    hitarea: int = 1 << 20
    range: Range = None


@dataclass
class Transfer:
    """xfersize=: sizes with percentages, or a range."""
    sizes: tuple = ((4096, 100),)
    span: tuple = None

    def largest(self):
        return self.span[1] if self.span else max(size for size, _percent in self.sizes)

    def least(self):
        return self.span[0] if self.span else min(size for size, _percent in self.sizes)

    def mean(self):
        """Mean bytes per request; all multiples of the smallest size are equally likely."""
        if self.span:
            return sum(self.span) / 2
        return sum(size * percent for size, percent in self.sizes) / 100


@dataclass
class Work:
    """wd=; None means the value of the storage."""
    name: str
    line: int
    storages: list = field(default_factory=list)
    rdpct: float = 100
    rhpct: int = 0
    whpct: int = 0
    seekpct: float = 100
    skew: float = 0
    transfer: Transfer = field(default_factory=Transfer)
    threads: int = None
    flags: tuple = None
    range: Range = None

    def is_mixed(self):
        return 0 < self.rdpct < 100


@dataclass
class Run:
    """rd=, of which each combination of the values in loops, and each rate, is a run of its own.

    loops maps a parameter to its values, in the order of the file: the first is the outermost.
    """
    name: str
    line: int
    works: list = field(default_factory=list)
    rates: list = field(default_factory=lambda: [MAX])
    curve: tuple = CURVE
    elapsed: int = 30
    warmup: int = 0
    interval: int = 1
    flags: tuple = None
    loops: dict = field(default_factory=dict)

    def shares(self):
        """Percentage of the rate for each work, by skew=; works without it share the rest."""
        given = sum(work.skew for work in self.works)
        without = sum(not work.skew for work in self.works)
        return [work.skew or (100 - given) / without for work in self.works]


def flags_of(run, work, storage):
    """openflags= of a run replaces that of a workload, which replaces that of a storage."""
    return next(flags for flags in (run.flags, work.flags, storage.flags) if flags is not None)


def is_direct(flags):
    return bool({"o_direct", "directio"} & set(flags))
