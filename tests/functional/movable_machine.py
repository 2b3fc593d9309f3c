# SPDX-License-Identifier: GPL-2.0-only
"""A machine half of whose memory is for movable pages (ZONE_MOVABLE, CMA), which a disk cannot use.

Not collected with the others: the stages "movable", "movable-512" and "cma" boot guests of their
own for it.
"""

import contextlib
import errno
import os
import re
import sys
from pathlib import Path

import pytest

from rxdlib import memory
from rxdlib.command import run
from rxdlib.control import CREATE_RESERVE
from rxdlib.direct import BLOCK, GIB, KIB, MIB, Direct, stamp
from rxdlib.elastic import (MIN, PIPES, changes, counters, elastic_cache, explained, fill,
                            given_back, hog, hole, report, stream)
from rxdlib.lab import DISK

CHUNK = 4 * MIB
TOTAL = memory.meminfo()["MemTotal"]
TOLERANCE = TOTAL // 50     # of memory that is missing at the end


def zones():
    """Free pages and page cache of each zone, in bytes: {name: bytes}. Free CMA pages are apart."""
    found = {"Movable": 0, "CMA": 0}
    with open("/proc/zoneinfo", encoding="ascii") as file:
        for zone in re.split(r"^(?=Node \d)", file.read(), flags=re.MULTILINE)[1:]:
            name = re.match(r"Node \d+, zone +(\w+)", zone)[1]
            cma = BLOCK * sum(int(count) for count in re.findall(r"^ +nr_free_cma +(\d+)$", zone,
                                                                 re.MULTILINE))
            found["CMA"] += cma
            found[name] = found.get(name, 0) - cma + BLOCK * sum(
                int(count) for count in re.findall(
                    r"^ +(?:pages free|count:|nr_zone_inactive_file|nr_zone_active_file) +(\d+)$",
                    zone, re.MULTILINE))
    return found


def movable():
    return zones()["Movable"] + zones()["CMA"]


def unmovable():
    return sum(size for name, size in zones().items() if name not in ("Movable", "CMA"))


def test_machine():
    print(f"{movable()} bytes for movable pages, {unmovable()} others, {TOTAL} in total")
    assert movable() > TOTAL // 4
    assert unmovable() > TOTAL // 4


def fill_page_cache():
    """Read the whole disk, so that files take all memory, that for movable pages first."""
    with open(DISK, "rb", buffering=0) as file:
        while file.read(CHUNK):
            pass


@pytest.mark.parametrize("pattern", ["dense", "scattered", "page-cache"])
def test_fill(lab, kernel_log, pattern):
    """ENOSPC is returned while there is still memory that the kernel can use for itself."""
    killed = memory.vmstat("oom_kill")
    before = memory.spare()
    if pattern == "page-cache":
        fill_page_cache()
    headroom = TOTAL // 8
    ramdisk = lab.ramdisk(1 << 40, overcommit=True)
    data, step = (stamp(1), 2 * MIB) if pattern == "scattered" else (stamp(1, CHUNK), CHUNK)
    written = 0
    with Direct(ramdisk.path) as device:
        with pytest.raises(OSError) as caught:
            while True:
                device.write(written * step, data)
                written += 1
        assert caught.value.errno == errno.ENOSPC
        print(f"{ramdisk.query().mem_used} bytes written, {unmovable()} left, {zones()}")
        assert ramdisk.query().mem_used > TOTAL // (16 if pattern == "scattered" else 8)
        assert unmovable() > headroom // 2
        # Without the page cache, whose pages may be those that only movable data can have.
        memory.settled()
        print(f"without page cache: {unmovable()} left, {zones()}")
        assert unmovable() > headroom // 2
        run("dmsetup", "ls")
        assert device.read((written - 1) * step, BLOCK) == data[:BLOCK]
    run("blkdiscard", ramdisk.path)
    assert memory.missing(before, TOLERANCE) < TOLERANCE
    assert ramdisk.query().mem_used == 0
    ramdisk.remove()
    assert memory.vmstat("oom_kill") == killed
    assert not [line for line in kernel_log.lines() if "oom" in line.lower()]


def test_reserve(lab):
    """More memory than the kernel can use is refused, although that much is free."""
    size = (unmovable() + movable() // 2) // MIB * MIB
    before = memory.spare()
    with pytest.raises(OSError) as caught:
        lab.ramdisk(size, overcommit=True, flags=CREATE_RESERVE)
    assert caught.value.errno == errno.ENOSPC
    assert memory.missing(before, TOLERANCE) < TOLERANCE
    os.sync()


@contextlib.contextmanager
def pipes(_lab, size):
    """A program takes pages that are not movable. The OOM killer would act before it fails."""
    with hog(size, program=PIPES):
        yield


@contextlib.contextmanager
def ring_buffers(lab, size):
    """The kernel takes pages for tracing (__GFP_RETRY_MAYFAIL): it fails, and no task is killed."""
    path = Path(lab.mount("none", "-t", "tracefs"), "buffer_size_kb")
    old = path.read_text(encoding="ascii").split()[0]
    try:
        path.write_text(str(size // os.cpu_count() // KIB), encoding="ascii")
        yield
    finally:
        path.write_text(old, encoding="ascii")


@pytest.mark.skipif(TOTAL < GIB, reason="little is lent beside the minimum and the headroom")
@pytest.mark.parametrize("takes", [pipes, ring_buffers])
@explained()
def test_lent_memory(lab, takes):
    """What a cache was lent is taken by who can use it, beside page cache in ZONE_MOVABLE.

    Reclaim cannot use this page cache. If it were taken for a reason to leave lent memory alone,
    tasks would get that in batches of 4 MiB, each after a whole reclaim that finds nothing.
    """
    room = zones()["Movable"]
    if room < TOTAL // 4:
        pytest.skip("no ZONE_MOVABLE")
    killed = memory.vmstat("oom_kill")
    run("mkfs.ext4", "-qF", DISK)
    path = hole(lab.mount(DISK), room * 3 // 4 // MIB * MIB)
    cache = elastic_cache(lab)
    lent = fill(cache) - MIN
    other = unmovable()
    stream(path)
    # It went to ZONE_MOVABLE, and nothing had to be reclaimed.
    assert abs(unmovable() - other) < 32 * MIB
    assert given_back(cache) == 0
    report(cache, "before")
    # Less would be free than the watermarks.
    kept = 128 * MIB
    assert lent > 2 * kept
    before = counters()
    with takes(lab, unmovable() + lent - kept):
        report(cache, "taken")
        given, found = given_back(cache), changes(before)
    print(f"lent {lent // MIB} MiB, given back {given // MIB}, {other // MIB} MiB beside it: "
          f"{found}", file=sys.stderr)
    assert given >= lent - kept - 16 * MIB
    stalls = sum(count for name, count in found.items() if name.startswith("allocstall"))
    assert stalls * 4 * MIB <= (lent - kept) // 2
    assert memory.vmstat("oom_kill") == killed
