# SPDX-License-Identifier: GPL-2.0-only
"""Caches that are lent memory, and programs that take it."""

import contextlib
import mmap
import os
import subprocess
import sys

from .command import ENVIRONMENT
from .direct import MIB, SECTOR, Direct
from .lab import Cache
from .memory import meminfo

MIN = 64 * MIB

# Takes memory, of one node if that is named, and keeps it for a while.
HOG = """
import ctypes, mmap, sys, time
SET_MEMPOLICY, BIND, BITS = 238, 2, 64
size, seconds, node = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
mask = ctypes.c_ulong(1 << max(node, 0))
if node >= 0 and ctypes.CDLL(None).syscall(SET_MEMPOLICY, BIND, ctypes.byref(mask), BITS):
    sys.exit("set_mempolicy")
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, 4096):
    area[at] = 1
print("full", flush=True)
time.sleep(seconds)
"""


def all_memory():
    return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // MIB * MIB


def elastic_cache(lab, written=None, **options):
    """A cache that may take all the memory of the machine.

    Its origin holds no data, but for a disk at its beginning, a pair of path and size.
    """
    sectors = 2 * all_memory() // SECTOR
    path, size = written or (None, 0)
    pieces = [f"0 {size // SECTOR} linear {path} 0"] if written else []
    pieces.append(f"{size // SECTOR} {sectors - size // SECTOR} zero")
    origin = lab.mapped("\n".join(pieces))
    ramdisk = lab.ramdisk(all_memory(), overcommit=True, **options)
    name = lab.mapped(f"0 {sectors} rxcache /dev/mapper/{origin} {ramdisk.path} "
                      f"0 2 min_size {MIN}")
    return Cache(name, f"/dev/mapper/{origin}", ramdisk)


def used(cache):
    return cache.ramdisk.query().mem_used


def read(cache, size, start=0):
    with Direct(cache.path) as device:
        for offset in range(start, start + size, MIB):
            device.read(offset, MIB)


def fill(cache):
    """Read as much as there is memory; returns what the cache uses then."""
    read(cache, all_memory())
    return used(cache)


def report(cache, what):
    info = meminfo()
    print(f"{what}: used {used(cache) // MIB}, free {info['MemFree'] // MIB}, available "
          f"{info['MemAvailable'] // MIB}, cached {info['Cached'] // MIB}, KReclaimable "
          f"{info['KReclaimable'] // MIB}", file=sys.stderr)


@contextlib.contextmanager
def hog(size, seconds=0, node=-1):
    """A program that takes memory; it has all of it when this begins, and ends by itself."""
    with subprocess.Popen([sys.executable, "-c", HOG, str(size), str(seconds), str(node)],
                          stdout=subprocess.PIPE, env=ENVIRONMENT, text=True) as program:
        assert program.stdout.readline() == "full\n", f"{size // MIB} MiB were not there"
        yield
        assert program.wait(60) == 0
