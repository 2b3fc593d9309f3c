# SPDX-License-Identifier: GPL-2.0-only
"""Caches that are lent memory, and programs that take it."""

import contextlib
import mmap
import os
import re
import subprocess
import sys
import time

from .command import ENVIRONMENT, run
from .direct import BLOCK, GIB, MIB, SECTOR, Direct
from .kmsg import KernelLog
from .lab import Cache
from .memory import meminfo

# Takes memory, of one node if that is named, and keeps it until its input ends. A page is written
# by the kernel, and not by this program, which takes far longer.
HOG = """
import ctypes, mmap, sys
SET_MEMPOLICY, BIND, BITS, POPULATE_WRITE, PIECE = 238, 2, 64, 23, 4 << 20
size, node = int(sys.argv[1]), int(sys.argv[2])
mask = ctypes.c_ulong(1 << max(node, 0))
if node >= 0 and ctypes.CDLL(None).syscall(SET_MEMPOLICY, BIND, ctypes.byref(mask), BITS):
    sys.exit("set_mempolicy")
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, PIECE):
    end = min(at + PIECE, size)
    area.madvise(POPULATE_WRITE, at, end - at)
    # Pages of zeros are not written to swap.
    area[at:end:4096] = bytes([at % 255 + 1]) * len(range(at, end, 4096))
print("full", flush=True)
sys.stdin.read()
"""

# The same with pages that are not movable, and not on lists for reclaim: those of pipes.
PIPES = """
import fcntl, os, sys
SET_SIZE, PIECE = 1031, 4 << 20
for at in range(0, int(sys.argv[1]), PIECE):
    end = os.pipe()[1]
    fcntl.fcntl(end, SET_SIZE, PIECE)
    if os.write(end, bytes(PIECE)) < PIECE:
        sys.exit("write")
print("full", flush=True)
sys.stdin.read()
"""

# Lines of the kernel log that tell why memory was short, or that the modules write.
TELLING = re.compile(r"oom|[Oo]ut of memory|[Kk]illed|allocation failure|Mem-Info|free:|swap|"
                     r"rxd|rxcache|device-mapper|stall|blocked")
SHOWN = 60
PATIENCE = 60
RECLAIM = re.compile(r"(oom_kill|allocstall|pageoutrun|pgscan|pgsteal|kswapd|pswp|workingset|"
                     r"slabs_scanned|drop_)")


def all_memory():
    return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // MIB * MIB


# The target wants at least a 32nd of the RAM disk.
MIN = max(64 * MIB, all_memory() // 32 // MIB * MIB + MIB)


def headroom():
    """What caches and RAM disks leave free for others."""
    return min(max(meminfo()["MemTotal"] // 8, 32 * MIB), 2 * GIB)


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


def values(cache):
    """What the status says after the features: min_size, lent, given_back and taken."""
    rest = cache.status().rest
    return dict(zip(rest[1::2], map(int, rest[2::2])))


def given_back(cache):
    return values(cache)["given_back"] * BLOCK


def read(cache, size, start=0):
    """Read in large pieces, into the same memory."""
    with Direct(cache.path, os.O_RDONLY) as device, mmap.mmap(-1, MIB) as buffer:
        for offset in range(start, start + size, MIB):
            assert os.preadv(device.fd, [buffer], offset) == MIB


def fill(cache):
    """Read as much as there is memory; returns what the cache uses then.

    The cache grows by some MiB at a time. On a fast machine, it needs more than one pass.
    """
    end, before = time.monotonic() + PATIENCE, -MIB
    while used(cache) >= before + MIB and time.monotonic() < end:
        before = used(cache)
        read(cache, all_memory())
    return used(cache)


def settle(cache):
    """Wait until the cache has neither taken nor given back memory for two seconds."""
    end, last = time.monotonic() + PATIENCE, None
    while (now := (used(cache), given_back(cache))) != last:
        assert time.monotonic() < end, now
        last = now
        time.sleep(2)


def hit_ratio(before, after):
    """The hits among the blocks that were read between two looks at the status."""
    found = after.since(before)
    hits, misses = (found.get(key, 0) for key in ("read_hits", "read_misses"))
    return hits / (hits + misses)


def report(cache, what):
    info = meminfo()
    print(f"{what}: used {used(cache) // MIB}, free {info['MemFree'] // MIB}, available "
          f"{info['MemAvailable'] // MIB}, cached {info['Cached'] // MIB}, KReclaimable "
          f"{info['KReclaimable'] // MIB}", file=sys.stderr)


def counters():
    """What reclaim has done so far, from /proc/vmstat."""
    with open("/proc/vmstat", encoding="ascii") as file:
        return {key: int(value) for key, value in map(str.split, file) if RECLAIM.match(key)}


def changes(before):
    """The counters of reclaim that have changed, and by how much."""
    return {key: value - before[key] for key, value in counters().items()
            if value != before[key]}


def show(log, before):
    lines = [line for line in log.lines() if TELLING.search(line)]
    print("kernel log:", *lines[-SHOWN:], sep="\n", file=sys.stderr)
    print("reclaim:", changes(before), file=sys.stderr)
    print("MiB:", {key: value // MIB for key, value in meminfo().items()}, file=sys.stderr)
    for command in (["dmsetup", "status"], ["cat", "/proc/swaps", "/proc/buddyinfo"]):
        print(run(*command, check=False).stdout, file=sys.stderr)


@contextlib.contextmanager
def explained():
    """If what follows fails, show what the kernel has done, before anything is undone."""
    log, before = KernelLog(), counters()
    try:
        yield
    except BaseException:
        show(log, before)
        raise
    finally:
        log.close()


def hole(directory, size):
    """A file without data: no disk is too slow to fill the page cache with it."""
    path = f"{directory}/{size // MIB}"
    with open(path, "wb") as file:
        file.truncate(size)
    return path


def stream(path, *options):
    run("dd", f"if={path}", "of=/dev/null", "bs=1M", *options, timeout=1800)


@contextlib.contextmanager
def hog(size, node=-1, program=HOG):
    """A program that takes memory. It has all of it while this lasts, and ends by itself."""
    with subprocess.Popen([sys.executable, "-c", program, str(size), str(node)], env=ENVIRONMENT,
                          text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            if program.stdout.readline() != "full\n":
                raise AssertionError(f"{size // MIB} MiB were not there: exit code "
                                     f"{program.wait(60)}")
            yield
            program.stdin.close()
            assert program.wait(60) == 0
        finally:
            program.kill()
