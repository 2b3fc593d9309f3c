# SPDX-License-Identifier: GPL-2.0-only
"""Reload, growth, and valid origins and caches."""

import errno
import glob
import os
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import CommandError, run, rxadm
from rxdlib.configuration import DEVICE
from rxdlib.control import RESIZE_FORCE
from rxdlib.direct import BLOCK, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, counted, is_there, prepare


def test_reload_stays_warm(lab):
    """After a reload of the same table, cached blocks and counters stay, and writes count."""
    expected = bytearray(prepare())
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, MIB)
    run("dmsetup", "load", cache.name, stdin=dm.table(cache.name) + "\n")
    # Changes between load and resume are not lost.
    direct.write(cache.path, 8 * BLOCK, stamp(8))
    expected[8 * BLOCK:9 * BLOCK] = stamp(8)
    before = cache.status()
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)
    after = cache.status()
    assert after.used == 256 and after.counters == before.counters
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == bytes(expected[:MIB]) and changed == {"read_hits": 256}
    assert cache.ramdisk.query().mem_used == MIB
    assert direct.read(cache.path, 0, 4 * MIB) == bytes(expected)


def test_reload_with_another_block_size(lab):
    data = prepare()
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, MIB)
    dm.replace(cache.name, dm.table(cache.name).replace("block_size 8", "block_size 64"))
    assert cache.status().used == 0 == cache.ramdisk.query().mem_used
    for _ in range(2):
        assert direct.read(cache.path, 0, 4 * MIB) == data


def test_reload_with_another_origin(lab):
    """Data of one disk must not be served for another disk."""
    prepare()
    other = lab.ramdisk(4 * MIB)
    direct.write(other.path, 0, stamp(0, 4 * MIB, 2))
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, 4 * MIB)
    table = dm.table(cache.name)
    dm.replace(cache.name, table.replace(dm.number(DISK), dm.number(other.path), 1))
    assert cache.status().used == 0
    for _ in range(2):
        assert direct.read(cache.path, 0, 4 * MIB) == stamp(0, 4 * MIB, 2)
    dm.replace(cache.name, table)
    assert direct.read(cache.path, 0, 4 * MIB) == stamp(0, 4 * MIB, 1)


def test_shorter_and_longer_again(lab):
    """Blocks beyond the end of a shorter table are not served after it is longer again."""
    data = prepare()
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, 4 * MIB)
    table = dm.table(cache.name)
    dm.replace(cache.name, table.replace("0 8192 ", "0 4099 ", 1))
    assert cache.status().used == 2 * MIB // BLOCK
    direct.write(cache.path, 4096 * SECTOR, stamp(1, 3 * SECTOR, 9))
    dm.replace(cache.name, table)
    expected = bytearray(data)
    expected[4096 * SECTOR:4099 * SECTOR] = stamp(1, 3 * SECTOR, 9)
    for _ in range(2):
        assert direct.first_difference(direct.read(cache.path, 0, 4 * MIB),
                                       bytes(expected)) is None


def test_origin_grows(lab):
    """A longer table over an origin that has grown keeps the cache warm."""
    data = prepare(8 * MIB)
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin)
    direct.read(cache.path, 0, 4 * MIB)
    table = dm.table(cache.name)
    longer = table.replace("0 8192 ", "0 16384 ", 1)
    with pytest.raises(CommandError):
        run("dmsetup", "load", cache.name, stdin=longer + "\n")
    dm.replace(name, f"0 16384 linear {DISK} 0")
    dm.replace(cache.name, longer)
    with Direct(cache.path) as device:
        assert device.size() == 8 * MIB
    changed, seen = counted(cache, direct.read, cache.path, 0, 4 * MIB)
    assert seen == data[:4 * MIB] and changed == {"read_hits": 4 * MIB // BLOCK}
    for _ in range(2):
        assert direct.read(cache.path, 4 * MIB, 4 * MIB) == data[4 * MIB:]
    direct.write(cache.path, 8 * MIB - BLOCK, stamp(9))
    assert direct.read(DISK, 8 * MIB - BLOCK, BLOCK) == stamp(9)


def test_cache_device_can_neither_shrink_nor_go(lab):
    data = prepare()
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, MIB)
    for flags in 0, RESIZE_FORCE:
        with pytest.raises(OSError) as caught:
            cache.ramdisk.resize(8 * MIB, flags)
        assert caught.value.errno == errno.EBUSY
    with pytest.raises(OSError) as caught:
        cache.ramdisk.remove()
    assert caught.value.errno == errno.EBUSY
    with Direct(cache.ramdisk.path) as device:
        assert device.size() == 16 * MIB
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == data[:MIB] and changed == {"read_hits": 256}


@pytest.mark.parametrize("reload", [False, True], ids=["resume", "reload"])
def test_cache_device_grows(lab, reload):
    """Cached blocks stay, also when the cache uses the new size."""
    data = prepare()
    cache = lab.cache(32 * MIB, cache_size=4 * MIB)
    direct.read(cache.path, 0, MIB)
    result = rxadm("resize", cache.ramdisk.name, "32M")
    assert result.returncode == 0 and cache.name in result.stderr, result
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == data[:MIB] and changed == {"read_hits": 256}
    before = cache.status()
    assert before.total == 4 * MIB // BLOCK

    if reload:
        dm.replace(cache.name, dm.table(cache.name))
    else:
        run("dmsetup", "suspend", cache.name)
        run("dmsetup", "resume", cache.name)
    status = cache.status()
    assert status.total == 32 * MIB // BLOCK and status.used == 256
    assert cache.ramdisk.query().mem_used == MIB
    assert status.counters == before.counters
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == data[:MIB] and changed == {"read_hits": 256}
    for _ in range(2):
        assert direct.read(cache.path, 0, len(data)) == data
    assert cache.status().used == len(data) // BLOCK
    direct.write(cache.path, 0, stamp(5))
    assert direct.read(DISK, 0, BLOCK) == stamp(5)


def refused(table, reason, kernel_log, code=errno.EOPNOTSUPP):
    kernel_log.rewind()
    result = run("dmsetup", "create", "bad", check=False, stdin=table + "\n")
    assert result.returncode and os.strerror(code) in result.stderr
    lines = [line for line in kernel_log.lines() if "rxcache" in line]
    assert len(lines) == 1 and reason in lines[0]
    assert "bad" not in dm.names()


@pytest.fixture
def zoned():
    """A zoned null_blk."""
    run("modprobe", "null_blk", "nr_devices=1", "gb=1", "zoned=1", "zone_size=64",
        "memory_backed=0")
    try:
        yield "/dev/nullb0"
    finally:
        run("rmmod", "null_blk")


def test_zoned_origin(lab, zoned, kernel_log):
    """A zoned origin is refused, and nothing is left behind."""
    assert dm.queue(zoned, "zoned") == "host-managed"
    ramdisk = lab.ramdisk()
    refused(f"0 131072 rxcache {zoned} {ramdisk.path}", "zoned", kernel_log)
    # The message of the kernel appears in the one line of rxadm.
    result = rxadm("map", "--cache", ramdisk.path, "--origin", zoned)
    line, = result.stderr.splitlines()
    assert result.returncode == DEVICE and "the origin device is zoned" in line
    assert ramdisk.attribute("state") == "idle"


@pytest.fixture
def protected():
    """A disk with protection information."""
    run("modprobe", "sd_mod")
    run("modprobe", "scsi_debug", "dif=1", "dix=1", "dev_size_mb=16", "delay=0")
    try:
        found, end = [], time.monotonic() + 60
        while not found and time.monotonic() < end:
            time.sleep(0.2)
            found = ["/dev/" + os.path.basename(path) for path in
                     glob.glob("/sys/bus/pseudo/devices/adapter*/host*/target*/*/block/*")]
            found = [path for path in found if is_there(path)]
        yield found[0]
    finally:
        run("modprobe", "-r", "scsi_debug")


def test_origin_with_integrity_metadata(lab, protected, kernel_log):
    ramdisk = lab.ramdisk()
    refused(f"0 4096 rxcache {protected} {ramdisk.path}", "integrity", kernel_log)
    assert ramdisk.attribute("state") == "idle"
