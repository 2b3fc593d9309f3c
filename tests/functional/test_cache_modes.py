# SPDX-License-Identifier: GPL-2.0-only
"""Modes and the sequential cut-off: in the table, and changed while in use."""

import itertools

import pytest

from rxdlib import direct, dm
from rxdlib.command import run
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp
from rxdlib.lab import DISK, counted, prepare
from rxdlib.sampled import sampled

MODES = ("writethrough", "writearound", "passthrough")


@pytest.mark.parametrize("mode", MODES)
def test_table_and_status(lab, mode):
    cache = lab.cache(4 * MIB, features=[mode])
    assert dm.table(cache.name).endswith(f" 3 {mode} block_size 8 0")
    assert cache.status().features == [mode, "block_size", "8"]
    table = dm.table(cache.name)
    dm.replace(cache.name, table)
    assert dm.table(cache.name) == table


def test_writearound(lab):
    """Reads are cached. Writes are not, and remove their blocks from the cache."""
    data = prepare()
    cache = lab.cache(4 * MIB, features=["writearound"])
    direct.read(cache.path, 0, 16 * BLOCK)
    changed, _ = counted(cache, direct.write, cache.path, 2 * BLOCK, stamp(9, 4 * BLOCK))
    assert changed == {"write_misses": 4, "bypasses": 4, "invalidations": 4}
    assert cache.status().used == 12
    assert direct.read(DISK, 2 * BLOCK, 4 * BLOCK) == stamp(9, 4 * BLOCK)
    changed, seen = counted(cache, direct.read, cache.path, 0, 16 * BLOCK)
    assert seen == data[:2 * BLOCK] + stamp(9, 4 * BLOCK) + data[6 * BLOCK:16 * BLOCK]
    assert changed == {"read_hits": 12, "read_misses": 4, "fills": 4}


def test_passthrough(lab):
    """Nothing is cached or served from the cache; writes remove their blocks."""
    data = prepare()
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, 16 * BLOCK)
    dm.message(cache.name, "mode", "passthrough")
    changed, seen = counted(cache, direct.read, cache.path, 0, 32 * BLOCK)
    assert seen == data[:32 * BLOCK]
    assert changed == {"read_misses": 32, "bypasses": 32}
    changed, _ = counted(cache, direct.write, cache.path, 4 * BLOCK + 512, stamp(9, 512))
    assert changed == {"write_misses": 1, "write_partials": 1, "bypasses": 1,
                       "invalidations": 1}
    assert cache.status().used == 15
    expected = bytearray(data[:32 * BLOCK])
    expected[4 * BLOCK + 512:4 * BLOCK + 1024] = stamp(9, 512)
    dm.message(cache.name, "mode", "writethrough")
    changed, seen = counted(cache, direct.read, cache.path, 0, 16 * BLOCK)
    assert seen == bytes(expected[:16 * BLOCK])
    assert changed == {"read_hits": 15, "read_misses": 1, "fills": 1}


@pytest.mark.parametrize("before", MODES)
@pytest.mark.parametrize("after", MODES)
def test_no_stale_read_after_a_change(lab, before, after):
    """Blocks that were cached and written in one mode are correct in the next."""
    expected = bytearray(prepare(MIB))
    cache = lab.cache(MIB)
    direct.read(cache.path, 0, MIB // 2)
    for number, mode in enumerate((before, after, before, after)):
        dm.message(cache.name, "mode", mode)
        assert f" 3 {mode} " in dm.table(cache.name)
        for offset, length in (number * BLOCK, BLOCK), (64 * KIB + 512 * number, 512), \
                (MIB // 2 - 8 * KIB, 16 * KIB):
            data = stamp(number, length, 7)
            expected[offset:offset + length] = data
            direct.write(cache.path, offset, data)
            assert direct.read(cache.path, offset, length) == data
        for _ in range(2):
            seen = direct.read(cache.path, 0, MIB)
            assert direct.first_difference(seen, bytes(expected)) is None
    assert direct.first_difference(direct.read(DISK, 0, MIB), bytes(expected)) is None


@pytest.mark.parametrize("before, after, options", [
    *itertools.product(MODES, MODES, [()]),
    *sampled(itertools.product(MODES, MODES, [("--readonly",)]), every=2)], ids=str)
def test_reload_in_another_mode(lab, before, after, options):
    """Cached blocks stay, regardless of the mode of the live table."""
    cache = lab.cache(4 * MIB, features=[before])
    direct.read(cache.path, 0, MIB)
    used = cache.status().used
    new = dm.table(cache.name).replace(f" {before} ", f" {after} ")
    run("dmsetup", "load", *options, cache.name, stdin=new + "\n")
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)
    assert f" 3 {after} " in dm.table(cache.name)
    assert cache.status().used == used
    direct.read(cache.path, 0, MIB)


def test_mode_in_the_table_counts_at_reload(lab):
    """A mode set by a message lasts until the next table, which sets its own."""
    cache = lab.cache(4 * MIB)
    table = dm.table(cache.name)
    dm.message(cache.name, "mode", "writearound")
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)
    assert cache.status().features[0] == "writearound"
    dm.replace(cache.name, table)
    assert cache.status().features[0] == "writethrough"


# The sequential cut-off


def test_cutoff_is_off_at_first(cache):
    prepare()
    with Direct(cache.path) as device:
        for offset in range(0, 4 * MIB, 64 * KIB):
            device.read(offset, 64 * KIB)
    assert cache.status().fills == 4 * MIB // BLOCK


def test_cutoff_in_the_table(lab):
    ramdisk = lab.ramdisk()
    name = lab.mapped(f"0 8192 rxcache {DISK} {ramdisk.path} 0 2 seq_cutoff 131072")
    assert dm.table(name).endswith(" 3 writethrough block_size 8 2 seq_cutoff 131072")
    assert dm.Status(name).rest == ["2", "seq_cutoff", "131072"]
    table = dm.table(name)
    dm.replace(name, table)
    assert dm.table(name) == table
    dm.message(name, "seq_cutoff", "0")
    assert dm.table(name).endswith(" 3 writethrough block_size 8 0")
    assert dm.Status(name).rest == ["0"]


@pytest.mark.parametrize("io", [4 * KIB, 64 * KIB])
def test_cutoff_reads(cache, io):
    """A long sequential read is cached up to the cut-off; cached blocks still hit."""
    data = prepare()
    dm.message(cache.name, "seq_cutoff", 256 * KIB)

    def read():
        with Direct(cache.path) as device:
            return b"".join(device.read(offset, io) for offset in range(0, 2 * MIB, io))

    for _ in range(2):
        changed, seen = counted(cache, read)
        assert seen == data[:2 * MIB]
        assert cache.status().used == 256 * KIB // BLOCK
    assert changed["read_hits"] == 256 * KIB // BLOCK
    assert "fills" not in changed
    # Random I/O is cached as usual.
    changed, _ = counted(cache, direct.read, cache.path, 3 * MIB, BLOCK)
    assert changed["fills"] == 1


def test_cutoff_writes(cache):
    """A long sequential write removes the blocks that it overwrites."""
    expected = prepare()
    direct.read(cache.path, 0, 2 * MIB)
    dm.message(cache.name, "seq_cutoff", 256 * KIB)
    data = stamp(3, 2 * MIB, 3)
    with Direct(cache.path) as device:
        for offset in range(0, 2 * MIB, 64 * KIB):
            device.write(offset, data[offset:offset + 64 * KIB])
    assert cache.status().used == 256 * KIB // BLOCK
    dm.message(cache.name, "seq_cutoff", 0)
    for _ in range(2):
        seen = direct.read(cache.path, 0, 4 * MIB)
        assert direct.first_difference(seen, data + expected[2 * MIB:]) is None
    assert direct.read(DISK, 0, 2 * MIB) == data
