# SPDX-License-Identifier: GPL-2.0-only
"""vdbench's lines: a row for each interval, then the average."""

import time
from dataclasses import dataclass

HEAD = (f"{'':<13}{'interval':>9}{'i/o':>12}{'MB/sec':>9}{'bytes':>9}{'read':>8}{'resp':>10}"
        f"{'resp':>10}{'resp':>10}{'cpu%':>9}{'cpu%':>7}\n"
        f"{'':<13}{'':>9}{'rate':>12}{'1024**2':>9}{'i/o':>9}{'pct':>8}{'time':>10}"
        f"{'max':>10}{'stddev':>10}{'sys+usr':>9}{'sys':>7}")
DISK_HEAD = (f"{'':<22}{'r/s':>12}{'w/s':>9}{'kr/s':>9}{'kw/s':>9}{'wait':>8}{'actv':>8}"
             f"{'svc_t':>10}{'%w':>5}{'%b':>5}  disk")


@dataclass
class Row:
    """One interval, or the average of several; response times in milliseconds."""
    rate: float
    mb: float
    size: float
    read: float
    response: float
    longest: float
    deviation: float
    cpu: float
    cpu_sys: float

    @classmethod
    def of(cls, part, cpu, cpu_sys, longest=None):
        """Create a row from the I/O of an interval."""
        both, seconds = part.both(), part.seconds
        return cls(both.ios / seconds, both.bytes / seconds / 2**20,
                   both.bytes / both.ios if both.ios else 0.0,
                   100 * part.read.ios / both.ios if both.ios else 0.0,
                   both.mean() / 1e3, (both.longest if longest is None else longest) / 1e3,
                   both.deviation() / 1e3, cpu, cpu_sys)

    def text(self, label, stamp=""):
        return (f"{stamp:<13}{label:>9}{self.rate:12.2f}{self.mb:9.2f}{self.size:9.0f}"
                f"{self.read:8.2f}{self.response:10.3f}{self.longest:10.3f}"
                f"{self.deviation:10.3f}{self.cpu:9.1f}{self.cpu_sys:7.1f}")


def stamp():
    now = time.time()
    return time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03}"


def disk_text(name, disk):
    """The statistics of one disk."""
    return (f"{'':<22}{disk['r_s']:12.1f}{disk['w_s']:9.1f}{disk['kr_s']:9.1f}"
            f"{disk['kw_s']:9.1f}{disk['wait']:8.2f}{disk['actv']:8.2f}{disk['svc_t']:10.3f}"
            f"{disk['w_percent']:5.0f}{disk['b_percent']:5.0f}  {name}")
