# SPDX-License-Identifier: GPL-2.0-only
"""Messages to a cache, good and bad."""

import errno
import os
import subprocess
import threading
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, run
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, stamp
from rxdlib.lab import DISK


def prepare(size=4 * MIB, generation=1):
    data = stamp(0, size, generation)
    direct.write(DISK, 0, data)
    return data


def counted(cache, function, *args):
    before = cache.status()
    result = function(*args)
    return cache.status().since(before), result


def cached(name):
    """The numbers of all cached blocks."""
    blocks, slot = [], 0
    while True:
        *found, slot = (int(word) for word in dm.message(name, "cached", slot).stdout.split())
        blocks += found
        if not slot:
            return sorted(blocks)


BAD = [
    # words, a part of the log line
    (("dropp",), "'dropp'"),
    (("x" * 500,), "x" * 100),
    (("drop", "now"), "'now'"),
    (("reset_stats", "0"), "'0'"),
    (("mode",), "mode: lacks"),
    (("mode", "writeback"), "'writeback'"),
    (("mode", "7"), "'7'"),
    (("mode", "writethrough", "writearound"), "'writearound'"),
    (("seq_cutoff",), "seq_cutoff: lacks"),
    (("seq_cutoff", "-1"), "'-1'"),
    (("seq_cutoff", "100"), "'100'"),
    (("seq_cutoff", "1M"), "'1M'"),
    (("seq_cutoff", "+512"), "'+512'"),
    (("seq_cutoff", str((1 << 40) + 512)), f"'{(1 << 40) + 512}'"),
    (("seq_cutoff", "18446744073709551616"), "'18446744073709551616'"),
    (("seq_cutoff", "512", "512"), "'512'"),
    (("cached",), "cached: lacks"),
    (("cached", "x"), "'x'"),
    (("cached", "4096"), "'4096'"),
    (("cached", "-1"), "'-1'"),
    *(case for name in ("invalidate", "prefetch") for case in (
        ((name,), f"{name}: lacks"),
        ((name, "0"), f"{name}: lacks"),
        ((name, "0", "0"), "'0': LENGTH"),
        ((name, "-8", "8"), "'-8': START"),
        ((name, "0", "-8"), "'-8': LENGTH"),
        ((name, "x", "8"), "'x': START"),
        ((name, "0", "8k"), "'8k': LENGTH"),
        ((name, "32768", "8"), "'32768': START"),
        ((name, "32760", "9"), "'9': LENGTH"),
        ((name, "8", "18446744073709551615"), "'18446744073709551615': LENGTH"),
        ((name, "0", "8", "8"), "'8'"))),
]


@pytest.mark.one_kernel
@pytest.mark.parametrize("words, part", BAD, ids=[" ".join(case[0])[:40] for case in BAD])
def test_bad_message(cache, kernel_log, words, part):
    """Refused with EINVAL and one line that names what is wrong; nothing changes."""
    direct.read(cache.path, 0, MIB)
    kernel_log.rewind()
    before, table = cache.status(), dm.table(cache.name)
    result = dm.message(cache.name, *words, check=False)
    assert result.returncode and "Invalid argument" in result.stderr
    assert vars(cache.status()) == vars(before) and dm.table(cache.name) == table
    lines = [line for line in kernel_log.lines() if "rxcache" in line]
    assert len(lines) == 1 and part in lines[0] and words[0][:100] in lines[0]


@pytest.mark.parametrize("first, nr, left", [
    (0, 1, 255), (0, 8, 255), (7, 2, 254), (8, 8, 255), (16, 80, 246), (0, 32768, 0),
    (2048, 8, 256)])
def test_invalidate(cache, first, nr, left):
    """The blocks that the sectors touch go, and no others."""
    data = prepare()
    direct.read(cache.path, 0, MIB)
    changed, _ = counted(cache, dm.message, cache.name, "invalidate", first, nr)
    assert cache.status().used == left
    assert changed.get("invalidations", 0) == 256 - left
    gone = set(range(first * SECTOR // BLOCK, -(-(first + nr) * SECTOR // BLOCK)))
    assert cached(cache.name) == [block for block in range(256) if block not in gone]
    # What changed on the disk meanwhile shows now.
    direct.write(DISK, 0, stamp(0, MIB, 2))
    seen = direct.read(cache.path, 0, MIB)
    for block in range(256):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        assert seen[part] == (stamp(0, MIB, 2)[part] if block in gone else data[part])


def test_invalidate_large_blocks(lab):
    prepare(8 * MIB)
    cache = lab.cache(16 * MIB, cache_size=32 * MIB, block_size=MIB)
    direct.read(cache.path, 0, 8 * MIB)
    dm.message(cache.name, "invalidate", 4096 + 2047, 2)
    assert cached(cache.name) == [0, 1, 4, 5, 6, 7]
    dm.message(cache.name, "drop")
    assert cached(cache.name) == [] and cache.ramdisk.query().mem_used == 0


def test_cached_lists_all(lab):
    """More blocks than fit into one answer."""
    prepare(16 * MIB)
    cache = lab.cache(64 * MIB, cache_size=64 * MIB)
    for offset in range(0, 16 * MIB, 2 * MIB):
        direct.read(cache.path, offset, MIB)
    assert cached(cache.name) == [block for block in range(4096) if block % 512 < 256]


def test_prefetch(cache):
    data = prepare()
    direct.read(cache.path, MIB, 16 * BLOCK)
    changed, _ = counted(cache, dm.message, cache.name, "prefetch", 2048 - 8, 1024 + 1)
    assert changed == {"fills": 129 - 16}
    assert cached(cache.name) == list(range(255, 255 + 129))
    changed, seen = counted(cache, direct.read, cache.path, MIB, 512 * KIB)
    assert seen == data[MIB:MIB + 512 * KIB] and changed == {"read_hits": 128}


@pytest.mark.parametrize("block_size", [4 * KIB, 64 * KIB])
def test_prefetch_all(lab, block_size):
    data = prepare(16 * MIB)
    cache = lab.cache(16 * MIB, cache_size=32 * MIB, block_size=block_size)
    dm.message(cache.name, "prefetch", 0, 32768)
    assert cache.status().fills == 16 * MIB // block_size
    for offset in range(0, 16 * MIB, MIB):
        assert direct.read(cache.path, offset, MIB) == data[offset:offset + MIB]
    assert cache.status().read_misses == 0


def test_prefetch_in_passthrough(cache, kernel_log):
    dm.message(cache.name, "mode", "passthrough")
    result = dm.message(cache.name, "prefetch", 0, 8, check=False)
    assert result.returncode and "Invalid argument" in result.stderr
    assert any("passthrough" in line for line in kernel_log.lines())
    assert cache.status().used == 0


def test_prefetch_of_a_bad_disk(lab):
    """An error of the origin ends it, and what it failed is not cached."""
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin)
    dm.replace(name, f"0 4096 linear {DISK} 0\n4096 4096 error")
    try:
        result = dm.message(cache.name, "prefetch", 0, 8192, check=False)
        assert result.returncode and os.strerror(errno.EIO) in result.stderr
    finally:
        dm.replace(name, f"0 8192 linear {DISK} 0")
    assert cached(cache.name) == list(range(512))
    assert cache.status().origin_errors == 1


def slow(lab, size, delay, device=DISK):
    name = lab.mapped(f"0 {size // SECTOR} delay {device} 0 {delay} {device} 0 0")
    return f"/dev/mapper/{name}"


def test_prefetch_ends_at_suspend(lab):
    """A device that is to be suspended does not wait for all of a prefetch."""
    prepare()
    cache = lab.cache(64 * MIB, cache_size=64 * MIB, origin=slow(lab, 64 * MIB, 300))
    process = subprocess.Popen(["dmsetup", "message", cache.name, "0", "prefetch", "0",
                                "131072"], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    try:
        while not cache.status().fills:
            assert process.poll() is None
            time.sleep(0.05)
        run("dmsetup", "suspend", cache.name)
        assert os.strerror(errno.EBUSY) in process.communicate(timeout=10)[1]
        assert process.returncode
        assert 0 < cache.status().used < 8192
        # Nor does one start meanwhile.
        result = dm.message(cache.name, "prefetch", 131064, 8, check=False)
        assert os.strerror(errno.EBUSY) in result.stderr
    finally:
        process.kill()
        process.wait()
        run("dmsetup", "resume", cache.name)
    dm.message(cache.name, "drop")
    dm.message(cache.name, "prefetch", 0, 8)
    assert cached(cache.name) == [0]


def test_prefetch_gives_way(lab):
    """While others keep the disk busy it hardly goes on, and then it does."""
    prepare()
    cache = lab.cache(64 * MIB, cache_size=64 * MIB, origin=slow(lab, 64 * MIB, 2))
    stop = threading.Event()

    def read_on(offset):
        with direct.Direct(cache.path, os.O_RDONLY) as device:
            while not stop.is_set():
                device.read(offset, BLOCK)
                offset += BLOCK

    threads = [threading.Thread(target=read_on, args=[(32 + 8 * number) * MIB])
               for number in range(4)]
    for thread in threads:
        thread.start()
    process = subprocess.Popen(["dmsetup", "message", cache.name, "0", "prefetch", "0",
                                "65536"], env=ENVIRONMENT)
    try:
        time.sleep(3)
        assert process.poll() is None
        busy = sum(block < 8192 for block in cached(cache.name))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        process.wait(timeout=120)
    assert process.returncode == 0
    # Half a second of patience for each MiB; a third of that if the guest is slow.
    assert busy <= 18 * 256
    assert sum(block < 8192 for block in cached(cache.name)) == 8192
