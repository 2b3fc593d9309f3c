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
from rxdlib.lab import DISK, bytes_read, counted, prepare
from rxdlib.sampled import sampled


def cached(name):
    """The numbers of all cached blocks."""
    blocks, slot = [], 0
    while True:
        *found, slot = (int(word) for word in dm.message(name, "cached", slot).stdout.split())
        blocks += found
        if not slot:
            return sorted(blocks)


def prefetch(name, start, length):
    """Prefetch a range; return the number of messages and of the blocks left out."""
    messages, left_out, end = 0, 0, start + length
    while start < end:
        answer = dm.message(name, "prefetch", start, end - start).stdout.split()
        assert len(answer) == 2 and start < int(answer[0]) <= end
        start, left_out, messages = int(answer[0]), left_out + int(answer[1]), messages + 1
    return messages, left_out


BAD = [
    # words, a part of the log line
    (("dropp",), "'dropp'"),
    (("x" * 500,), "x" * 100),
    (("drop", "now"), "'now'"),
    (("reset_stats", "0"), "'0'"),
    (("mode",), "mode: missing"),
    (("mode", "writeback"), "'writeback'"),
    (("mode", "7"), "'7'"),
    (("mode", "writethrough", "writearound"), "'writearound'"),
    (("seq_cutoff",), "seq_cutoff: missing"),
    (("seq_cutoff", "-1"), "'-1'"),
    (("seq_cutoff", "100"), "'100'"),
    (("seq_cutoff", "1M"), "'1M'"),
    (("seq_cutoff", "+512"), "'+512'"),
    (("seq_cutoff", str((1 << 40) + 512)), f"'{(1 << 40) + 512}'"),
    (("seq_cutoff", "18446744073709551616"), "'18446744073709551616'"),
    (("seq_cutoff", "512", "512"), "'512'"),
    (("size",), "size: missing"),
    (("size", "-4096"), "'-4096'"),
    (("size", "1M"), "'1M'"),
    (("size", "65537"), "'65537': size must be a multiple of the block size"),
    (("size", "61440"), "'61440': size must be 0, or at least 16 blocks"),
    (("size", "520192"), "'520192': size must be 0, or at least 16 blocks and 1/32"),
    (("size", str(16 * MIB + 4096)), f"'{16 * MIB + 4096}': size must be 0, or at most that"),
    (("size", "65536", "0"), "'0'"),
    (("min_size",), "min_size: missing"),
    (("min_size", "-4096"), "'-4096'"),
    (("min_size", "1M"), "'1M'"),
    (("min_size", "65537"), "'65537': min_size must be a multiple of the block size"),
    (("min_size", "520192"), "'520192': min_size must be 0, or at least 16 blocks and 1/32"),
    (("min_size", str(16 * MIB + 4096)),
     f"'{16 * MIB + 4096}': min_size must be 0, or at most size"),
    (("cached",), "cached: missing"),
    (("cached", "x"), "'x'"),
    (("cached", "4096"), "'4096'"),
    (("cached", "-1"), "'-1'"),
    *(case for name in ("invalidate", "prefetch") for case in (
        ((name,), f"{name}: missing"),
        ((name, "0"), f"{name}: missing"),
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
@pytest.mark.parametrize("words, part", sampled(BAD),
                         ids=[" ".join(case[0])[:40] for case in BAD])
def test_bad_message(cache, kernel_log, words, part):
    """EINVAL, and one line of the log names the fault; nothing changes."""
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
    """The blocks that the sectors overlap are removed, and no others."""
    data = prepare()
    direct.read(cache.path, 0, MIB)
    changed, _ = counted(cache, dm.message, cache.name, "invalidate", first, nr)
    assert cache.status().used == left
    assert changed.get("invalidations", 0) == 256 - left
    gone = set(range(first * SECTOR // BLOCK, -(-(first + nr) * SECTOR // BLOCK)))
    assert cached(cache.name) == [block for block in range(256) if block not in gone]
    # Changes of the disk are visible now.
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
    changed, (_, left_out) = counted(cache, prefetch, cache.name, 2048 - 8, 1024 + 1)
    assert changed == {"fills": 129 - 16} and left_out == 0
    assert cached(cache.name) == list(range(255, 255 + 129))
    changed, seen = counted(cache, direct.read, cache.path, MIB, 512 * KIB)
    assert seen == data[MIB:MIB + 512 * KIB] and changed == {"read_hits": 128}


@pytest.mark.parametrize("block_size", [4 * KIB, 64 * KIB])
def test_prefetch_all(lab, block_size):
    data = prepare(16 * MIB)
    cache = lab.cache(16 * MIB, cache_size=32 * MIB, block_size=block_size)
    prefetch(cache.name, 0, 32768)
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
    """An error of the origin ends the prefetch, and the failed blocks are not cached."""
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin)
    dm.replace(name, f"0 4096 linear {DISK} 0\n4096 4096 error")
    try:
        result, start = dm.message(cache.name, "prefetch", 0, 8192, check=False), 0
        while not result.returncode:
            start = int(result.stdout.split()[0])
            assert start <= 4096
            result = dm.message(cache.name, "prefetch", start, 8192 - start, check=False)
        assert os.strerror(errno.EIO) in result.stderr
    finally:
        dm.replace(name, f"0 8192 linear {DISK} 0")
    assert cached(cache.name) == list(range(512))
    assert cache.status().origin_errors == 1


def slow(lab, size, delay, device=DISK):
    name = lab.mapped(f"0 {size // SECTOR} delay {device} 0 {delay} {device} 0 0")
    return f"/dev/mapper/{name}"


@pytest.fixture
def deadline_disk():
    """A null_blk that takes 20 ms for each request. Most of them wait in mq-deadline."""
    run("modprobe", "null_blk", "nr_devices=1", "gb=1", "irqmode=2", "completion_nsec=20000000",
        "hw_queue_depth=4")
    try:
        # So long requests of the idle class wait for others.
        for name, value in [("scheduler", "mq-deadline"), ("nr_requests", 128),
                            ("iosched/prio_aging_expire", 600_000)]:
            with open(f"/sys/block/nullb0/queue/{name}", "w", encoding="ascii") as file:
                file.write(str(value))
        yield "/dev/nullb0"
    finally:
        run("rmmod", "null_blk")


def test_prefetch_beside_a_busy_disk(deadline_disk, lab):
    """The scheduler of a busy disk does not hold back a prefetch, for which others may wait."""
    cache = lab.cache(4 * MIB, origin=deadline_disk)
    busy = ["fio", "--name=busy", f"--filename={deadline_disk}", "--readonly", "--rw=randread",
            "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=128", "--time_based",
            "--runtime=3600"]
    before = bytes_read(deadline_disk)
    message = threading.Thread(target=dm.message, args=(cache.name, "prefetch", 0, 2048))
    with subprocess.Popen(busy, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as others:
        try:
            while bytes_read(deadline_disk) - before < MIB:
                assert others.poll() is None
                time.sleep(0.1)
            message.start()
            message.join(timeout=60)
            waits = message.is_alive()
        finally:
            others.terminate()
    message.join()
    assert not waits
    assert cache.status().used == 256


def test_prefetch_does_not_hold_up_others(lab):
    """A process that waits for the end of a message waits for a part of the range only."""
    prepare()
    cache = lab.cache(64 * MIB, cache_size=64 * MIB, origin=slow(lab, 64 * MIB, 1000))
    stop = threading.Event()
    messages = []

    def prefetch_on():
        start = 0
        while not stop.is_set():
            start = int(dm.message(cache.name, "prefetch", start,
                                   131072 - start).stdout.split()[0]) % 131072
            messages.append(start)

    thread = threading.Thread(target=prefetch_on)
    thread.start()
    try:
        while not cache.status().fills:
            time.sleep(0.05)
        run("dmstats", "create", cache.name)
        direct.read(cache.path, 60 * MIB, BLOCK)
        used = cache.status().used
    finally:
        stop.set()
        thread.join()
        run("dmstats", "delete", "--allregions", cache.name, check=False)
    # A read takes a second, so each message reads a MiB, and the range takes more than a minute.
    assert used < 64 * MIB // BLOCK, used
    assert all(end == number * 2048 % 131072 for number, end in enumerate(messages, 1)), messages


def test_prefetch_ends_at_suspend(lab):
    """The suspend of a device does not wait for the whole prefetch."""
    prepare()
    cache = lab.cache(64 * MIB, cache_size=64 * MIB, origin=slow(lab, 64 * MIB, 1000))
    errors = []

    def prefetch_on():
        result, start = None, 0
        while start < 131072 and not (result and result.returncode):
            result = dm.message(cache.name, "prefetch", start, 131072 - start, check=False)
            start = int((result.stdout.split() or [start])[0])
        errors.append(result.stderr)

    thread = threading.Thread(target=prefetch_on)
    thread.start()
    try:
        while not cache.status().fills:
            assert thread.is_alive()
            time.sleep(0.05)
        run("dmsetup", "suspend", cache.name)
        thread.join(timeout=60)
        assert os.strerror(errno.EBUSY) in errors[0]
        assert 0 < cache.status().used < 8192
        # No prefetch starts while it is suspended.
        result = dm.message(cache.name, "prefetch", 131064, 8, check=False)
        assert os.strerror(errno.EBUSY) in result.stderr
    finally:
        run("dmsetup", "resume", cache.name)
        thread.join()
    dm.message(cache.name, "drop")
    prefetch(cache.name, 0, 8)
    assert cached(cache.name) == [0]


def busy_readers(cache, stop, begin=32 * MIB):
    """Threads that keep the origin busy."""
    def read_on(offset):
        with direct.Direct(cache.path, os.O_RDONLY) as device:
            while not stop.is_set():
                device.read(offset, BLOCK)
                offset += BLOCK

    threads = [threading.Thread(target=read_on, args=[begin + 8 * number * MIB])
               for number in range(4)]
    for thread in threads:
        thread.start()
    return threads


def test_prefetch_tells_what_it_left_out(lab):
    """Blocks that are being written are left out."""
    prepare()
    with lab.held(4 * MIB, writes=True) as origin:
        cache = lab.cache(4 * MIB, origin=origin.path, features=["writearound"])
        writer = threading.Thread(target=direct.write,
                                  args=(cache.path, 16 * KIB, stamp(1, 3 * BLOCK)))
        writer.start()
        origin.wait_for(1)
        _, left_out = prefetch(cache.name, 0, 256)
        origin.release()
        writer.join()
    assert left_out == 3
    assert cached(cache.name) == [0, 1, 2, 3, *range(7, 32)]
    assert prefetch(cache.name, 0, 256) == (1, 0)
    assert cached(cache.name) == list(range(32))


def test_prefetch_gives_way(lab):
    """While the disk is busy, the prefetch makes little progress; then it continues."""
    prepare()
    cache = lab.cache(64 * MIB, cache_size=64 * MIB, origin=slow(lab, 64 * MIB, 2))
    stop = threading.Event()
    threads = busy_readers(cache, stop)
    worker = threading.Thread(target=prefetch, args=(cache.name, 0, 65536))
    worker.start()
    try:
        time.sleep(3)
        assert worker.is_alive()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        worker.join(timeout=120)
    assert not worker.is_alive()
    assert sum(block < 8192 for block in cached(cache.name)) == 8192


def test_reset_stats(cache):
    """The counters start at zero again; the cached blocks stay."""
    prepare()
    direct.read(cache.path, 0, MIB)
    dm.message(cache.name, "reset_stats")
    assert not any(cache.status().counters.values()) and cache.status().used == 256
    direct.read(cache.path, 0, 64 * KIB)
    assert cache.status().read_hits == 16
    # This also holds after a reload of the table.
    dm.replace(cache.name, dm.table(cache.name))
    assert cache.status().read_hits == 16 and cache.status().read_misses == 0
    dm.message(cache.name, "reset_stats")
    assert not any(cache.status().counters.values())
