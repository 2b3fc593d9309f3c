# SPDX-License-Identifier: GPL-2.0-only
"""The target rxcache: reads, writes, tables and messages."""

import errno
import os
import re
import threading

import pytest

from rxdlib import direct, dm
from rxdlib.command import CommandError, run
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, counted, prepare
from rxdlib.sampled import sampled


def same(device, disk, size, chunk=MIB):
    """The first offset at which two devices differ, or None."""
    for offset in range(0, size, chunk):
        part = min(chunk, size - offset)
        found = direct.first_difference(direct.read(device, offset, part),
                                        direct.read(disk, offset, part))
        if found is not None:
            return offset + found
    return None


# Status and table


@pytest.mark.parametrize("block_size", [4 * KIB, 64 * KIB, MIB])
def test_status_line(lab, block_size):
    cache = lab.cache(16 * MIB, cache_size=32 * MIB, block_size=block_size)
    status = cache.status()
    assert (status.start, status.length, status.target) == (0, 32768, "rxcache")
    assert status.block_size == block_size // SECTOR
    assert status.used == 0
    assert status.total == 32 * MIB // block_size
    assert 0 < status.metadata <= 16 * status.total + 4096
    assert set(status.counters.values()) == {0}
    assert status.features == ["writethrough", "block_size", str(block_size // SECTOR)]
    assert status.rest == ["0"]


@pytest.mark.parametrize("tail, features", [
    ("", "3 writethrough block_size 8"),
    (" 0", "3 writethrough block_size 8"),
    (" 0 0", "3 writethrough block_size 8"),
    (" 1 writethrough", "3 writethrough block_size 8"),
    (" 1 writethrough 0", "3 writethrough block_size 8"),
    (" 2 block_size 64", "3 writethrough block_size 64"),
    (" 3 block_size 2048 writethrough 0", "3 writethrough block_size 2048"),
])
def test_table_line(lab, tail, features):
    ramdisk = lab.ramdisk(32 * MIB)
    name = lab.mapped(f"0 32768 rxcache {DISK} {ramdisk.path}{tail}")
    assert dm.table(name) == (f"0 32768 rxcache {dm.number(DISK)} "
                              f"{dm.number(ramdisk.path)} {features} 0")


@pytest.mark.parametrize("block_size", [None, 32 * KIB])
def test_table_can_be_loaded_again(lab, block_size):
    """The printed table can be loaded again, by the same device and by a new one."""
    data = prepare()
    cache = lab.cache(4 * MIB, block_size=block_size)
    table = dm.table(cache.name)
    direct.read(cache.path, 0, MIB)
    dm.replace(cache.name, table)
    assert dm.table(cache.name) == table
    assert direct.read(cache.path, 0, 4 * MIB) == data
    changed, again = counted(cache, direct.read, cache.path, 0, MIB)
    assert again == data[:MIB] and changed["read_hits"] == MIB // (block_size or BLOCK)
    direct.write(cache.path, BLOCK, stamp(7))
    assert direct.read(DISK, BLOCK, BLOCK) == direct.read(cache.path, BLOCK, BLOCK) == stamp(7)

    dm.remove(cache.name)
    name = lab.mapped(table)
    assert dm.table(name) == table


def test_loaded_table_is_cleared(lab):
    """A second table that never becomes live changes nothing of the first."""
    data = prepare()
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, MIB)
    run("dmsetup", "load", cache.name, stdin=dm.table(cache.name) + "\n")
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == data[:MIB] and changed == {"read_hits": MIB // BLOCK}
    run("dmsetup", "clear", cache.name)
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == data[:MIB] and changed == {"read_hits": MIB // BLOCK}
    assert cache.ramdisk.query().mem_used == cache.status().used * BLOCK
    with pytest.raises(OSError) as caught:
        direct.write(cache.ramdisk.path, 0, stamp(1))
    assert caught.value.errno == errno.EBUSY


def test_suspend_and_resume(lab):
    data = prepare()
    cache = lab.cache(4 * MIB)
    direct.read(cache.path, 0, MIB)
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)
    assert direct.read(cache.path, 0, 4 * MIB) == data


def test_grown_mapping(lab):
    """A longer table takes the place of a shorter one."""
    data = prepare()
    cache = lab.cache(2 * MIB)
    direct.write(cache.path, 2 * MIB - BLOCK, stamp(5))
    dm.replace(cache.name, dm.table(cache.name).replace("0 4096 ", "0 8192 ", 1))
    with Direct(cache.path) as device:
        assert device.size() == 4 * MIB
        assert device.read(2 * MIB - BLOCK, 2 * BLOCK) == \
            stamp(5) + data[2 * MIB:2 * MIB + BLOCK]


def test_target_not_at_zero(lab):
    """The target's own sectors count from its start in the table."""
    data = prepare()
    ramdisk = lab.ramdisk()
    name = lab.mapped(f"0 2048 linear {DISK} 65536\n"
                      f"2048 4096 rxcache {DISK} {ramdisk.path}\n"
                      f"6144 2048 linear {DISK} 131072")
    path = f"/dev/mapper/{name}"
    for _ in range(2):
        assert direct.read(path, MIB, 2 * MIB) == data[:2 * MIB]
    direct.write(path, MIB + BLOCK, stamp(9))
    assert direct.read(DISK, BLOCK, BLOCK) == stamp(9)
    assert direct.read(path, MIB + BLOCK, BLOCK) == stamp(9)


@pytest.mark.parametrize("sectors", [4097, 4103, 4096 + 8 * 16 - 1, 7])
@pytest.mark.parametrize("block_size", [None, 64 * KIB])
def test_length_of_no_whole_blocks(lab, sectors, block_size):
    """The last sectors of an odd length are read and written as well."""
    data = prepare()
    ramdisk = lab.ramdisk()
    features = f" 2 block_size {block_size // SECTOR}" if block_size else ""
    name = lab.mapped(f"0 {sectors} rxcache {DISK} {ramdisk.path}{features}")
    path = f"/dev/mapper/{name}"
    length = sectors * SECTOR
    for _ in range(2):
        assert direct.read(path, 0, length) == data[:length]
    direct.write(path, length - SECTOR, stamp(3, SECTOR))
    for _ in range(2):
        assert direct.read(path, length - SECTOR, SECTOR) == stamp(3, SECTOR)
    assert direct.read(DISK, length - SECTOR, 2 * SECTOR) == \
        stamp(3, SECTOR) + data[length:length + SECTOR]


# Reads


@pytest.mark.parametrize("block_size", [4 * KIB, 32 * KIB])
@pytest.mark.parametrize("io", [4 * KIB, 64 * KIB, MIB])
def test_second_read_hits(lab, block_size, io):
    data = prepare()
    cache = lab.cache(4 * MIB, block_size=block_size)
    blocks = MIB // block_size

    def read():
        with Direct(cache.path, os.O_RDONLY) as device:
            return b"".join(device.read(offset, io) for offset in range(0, MIB, io))

    changed, seen = counted(cache, read)
    assert seen == data[:MIB]
    assert changed["fills"] == blocks == cache.status().used
    assert changed["read_misses"] >= blocks
    changed, seen = counted(cache, read)
    assert seen == data[:MIB]
    assert "read_misses" not in changed and "fills" not in changed
    assert changed["read_hits"] == max(blocks, MIB // io)


def test_hits_do_not_reach_the_origin(lab):
    """While the origin fails, cached blocks are still served, and other reads fail."""
    data = prepare()
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin)
    direct.read(cache.path, 0, MIB)
    dm.replace(name, "0 8192 error")
    try:
        assert direct.read(cache.path, 0, MIB) == data[:MIB]
        with pytest.raises(OSError) as caught:
            direct.read(cache.path, 2 * MIB, BLOCK)
        assert caught.value.errno == errno.EIO
        assert cache.status().origin_errors > 0
    finally:
        dm.replace(name, f"0 8192 linear {DISK} 0")
    assert direct.read(cache.path, 2 * MIB, BLOCK) == data[2 * MIB:2 * MIB + BLOCK]


def test_parts_of_cached_blocks_hit(cache):
    """512-byte reads over cached blocks: all hits, and nothing is evicted."""
    data = prepare(MIB)
    direct.read(cache.path, 0, MIB)

    def read():
        with Direct(cache.path, os.O_RDONLY) as device:
            return b"".join(device.read(offset, SECTOR)
                            for offset in range(0, 128 * KIB, SECTOR))

    changed, seen = counted(cache, read)
    assert seen == data[:128 * KIB]
    assert changed == {"read_hits": 256, "read_partials": 256}
    assert cache.status().used == MIB // BLOCK


def test_read_across_hits_and_misses(cache):
    """One read over cached and uncached blocks, beginning inside of one."""
    data = prepare()
    with Direct(cache.path, os.O_RDONLY) as device:
        for block in (1, 2, 5, 9, 30):
            device.read(block * BLOCK, BLOCK)
        offset, length = BLOCK + 512, 40 * BLOCK + 1024
        changed, seen = counted(cache, device.read, offset, length)
        assert direct.first_difference(seen, data[offset:offset + length]) is None
        assert changed["read_hits"] >= 4
        changed, seen = counted(cache, device.read, offset, length)
        assert direct.first_difference(seen, data[offset:offset + length]) is None
        assert "read_misses" not in changed


def test_failed_fill_is_no_error_of_the_reader(lab):
    """The origin fails in another part of the block than the reader reads."""
    data = prepare()
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin, block_size=64 * KIB)
    dm.replace(name, f"0 64 linear {DISK} 0\n64 64 error\n128 8064 linear {DISK} 128")
    try:
        for _ in range(2):
            assert direct.read(cache.path, 0, BLOCK) == data[:BLOCK]
            with pytest.raises(OSError):
                direct.read(cache.path, 40 * KIB, BLOCK)
    finally:
        dm.replace(name, f"0 8192 linear {DISK} 0")
    assert direct.read(cache.path, 0, 4 * MIB) == data


def test_bad_sector_is_not_read_again(lab):
    """Reads of other sectors of a block read a bad sector once, and not each time."""
    data = prepare()
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin, block_size=MIB)
    dm.replace(name, f"0 3000 linear {DISK} 0\n3000 8 error\n3008 5184 linear {DISK} 3008")
    try:
        for _ in range(5):
            assert direct.read(cache.path, MIB, 4 * BLOCK) == data[MIB:MIB + 4 * BLOCK]
            assert direct.read(cache.path, 0, 4 * BLOCK) == data[:4 * BLOCK]
        status = cache.status()
        assert status.used == 1 == status.origin_errors
        with pytest.raises(OSError):
            direct.read(cache.path, 3000 * SECTOR, BLOCK)
    finally:
        dm.replace(name, f"0 8192 linear {DISK} 0")
    assert direct.read(cache.path, 0, 4 * MIB) == data


def test_two_readers_of_one_missing_block(lab):
    """Two readers miss the same block at the same time: neither fails or evicts it."""
    data = prepare()
    cache = lab.cache(4 * MIB)
    wrong = []

    def read():
        with Direct(cache.path, os.O_RDONLY) as device:
            for block in range(64):
                if device.read(block * BLOCK, BLOCK) != data[block * BLOCK:(block + 1) * BLOCK]:
                    wrong.append(block)

    for _ in range(2):
        cache.drop()
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert cache.status().used == 64
        changed, _ = counted(cache, direct.read, cache.path, 0, 64 * BLOCK)
        assert changed == {"read_hits": 64}


def test_cache_smaller_than_the_origin(lab):
    data = prepare(16 * MIB)
    cache = lab.cache(16 * MIB, cache_size=MIB)
    for _ in range(2):
        for offset in range(0, 16 * MIB, MIB):
            assert direct.read(cache.path, offset, MIB) == data[offset:offset + MIB]
    status = cache.status()
    assert 0 < status.used <= status.total == 256
    assert status.evictions > 0
    assert cache.ramdisk.query().mem_used == status.used * BLOCK


def test_short_of_memory(lab):
    """With mem_limit reached the cache goes on with the blocks it has."""
    data = prepare(8 * MIB)
    ramdisk = lab.ramdisk(16 * MIB, mem_limit=MIB)
    cache = lab.cache(16 * MIB, ramdisk=ramdisk)
    for offset in range(0, 8 * MIB, 64 * KIB):
        assert direct.read(cache.path, offset, 64 * KIB) == data[offset:offset + 64 * KIB]
    direct.write(cache.path, 0, stamp(5, MIB))
    assert direct.read(DISK, 0, MIB) == stamp(5, MIB) == direct.read(cache.path, 0, MIB)
    assert ramdisk.query().mem_max_used <= MIB
    assert 0 < cache.status().used <= 256
    assert cache.status().origin_errors == 0


# Writes

AREAS = [(0, BLOCK), (0, 512), (BLOCK - 512, 1024), (8 * KIB, MIB), (512, 64 * KIB),
         (4 * MIB - 512, 512)]


@pytest.mark.parametrize("cached, offset, length", [
    *((True, *area) for area in AREAS), *sampled([(False, *area) for area in AREAS], every=2)])
def test_write_is_on_the_origin_at_once(lab, cached, offset, length):
    expected = bytearray(prepare())
    cache = lab.cache(4 * MIB)
    if cached:
        direct.read(cache.path, 0, 4 * MIB)
    data = stamp(77, length, 2)
    expected[offset:offset + length] = data
    direct.write(cache.path, offset, data)
    assert direct.read(DISK, offset, length) == data
    for _ in range(2):
        assert direct.first_difference(direct.read(cache.path, 0, 4 * MIB), bytes(expected)) is None
    assert direct.first_difference(direct.read(DISK, 0, 4 * MIB), bytes(expected)) is None


def test_write_hits_are_counted(cache):
    prepare()
    direct.read(cache.path, 0, 16 * BLOCK)
    changed, _ = counted(cache, direct.write, cache.path, 0, stamp(1, 8 * BLOCK))
    assert changed == {"write_hits": 8}
    changed, _ = counted(cache, direct.write, cache.path, 8 * BLOCK + 512, stamp(2, 512))
    assert changed == {"write_hits": 1, "write_partials": 1}
    changed, seen = counted(cache, direct.read, cache.path, 0, 16 * BLOCK)
    assert changed == {"read_hits": 16}
    assert seen == direct.read(DISK, 0, 16 * BLOCK)


def test_written_block_is_cached(cache):
    changed, _ = counted(cache, direct.write, cache.path, MIB, stamp(1, 4 * BLOCK))
    assert changed["write_misses"] == 4
    changed, seen = counted(cache, direct.read, cache.path, MIB, 4 * BLOCK)
    assert changed == {"read_hits": 4}
    assert seen == stamp(1, 4 * BLOCK)


def test_failed_write_leaves_the_block_uncached(lab):
    """After a failed write, reads go to the origin."""
    data = prepare()
    name, origin = lab.linear(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin)
    direct.read(cache.path, 0, 64 * KIB)
    dm.replace(name, "0 8192 error")
    try:
        for offset, length in (0, BLOCK), (BLOCK, 512), (3 * MIB, BLOCK):
            with pytest.raises(OSError) as caught:
                direct.write(cache.path, offset, stamp(9, length))
            assert caught.value.errno == errno.EIO
        for offset in 0, BLOCK, 3 * MIB:
            with pytest.raises(OSError):
                direct.read(cache.path, offset, BLOCK)
        assert direct.read(cache.path, 8 * KIB, 56 * KIB) == data[8 * KIB:64 * KIB]
        assert cache.status().origin_errors >= 3
    finally:
        dm.replace(name, f"0 8192 linear {DISK} 0")
    assert direct.read(cache.path, 0, 4 * MIB) == data


@pytest.mark.parametrize("block_size", [4 * KIB, 64 * KIB])
def test_random_model(lab, block_size):
    """Writes and reads of all sizes, against a copy in memory."""
    import random
    chance = random.Random(block_size)
    size = 2 * MIB
    model = bytearray(prepare(size))
    cache = lab.cache(size, cache_size=16 * block_size, block_size=block_size)
    with Direct(cache.path) as device:
        for number in range(300):
            length = chance.choice([1, 1, 3, 8, 8, 9, 64, 255]) * SECTOR
            offset = chance.randrange(0, (size - length) // SECTOR + 1) * SECTOR
            if chance.random() < 0.4:
                data = stamp(number, length, 3)
                device.write(offset, data)
                model[offset:offset + length] = data
            else:
                seen = device.read(offset, length)
                assert direct.first_difference(seen, model[offset:offset + length]) is None
    assert direct.read(DISK, 0, size) == bytes(model)
    assert cache.status().read_hits > 0


# Discard and messages


def test_discard(lab):
    """It frees the blocks of the origin and removes those of the cache."""
    origin = lab.ramdisk(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin.path)
    direct.write(cache.path, 0, stamp(1, MIB))
    assert origin.query().mem_used == MIB
    with Direct(cache.path) as device:
        device.discard(64 * KIB, 512 * KIB)
        expected = bytearray(stamp(1, MIB))
        expected[64 * KIB:576 * KIB] = bytes(512 * KIB)
        assert direct.first_difference(device.read(0, MIB), bytes(expected)) is None
    assert origin.query().mem_used == 512 * KIB
    assert same(cache.path, origin.path, 4 * MIB) is None


def test_write_zeroes(lab):
    origin = lab.ramdisk(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin.path)
    direct.write(cache.path, 0, stamp(1, MIB))
    with Direct(cache.path) as device:
        device.zero_out(64 * KIB + 512, 512 * KIB)
        expected = bytearray(stamp(1, MIB))
        expected[64 * KIB + 512:576 * KIB + 512] = bytes(512 * KIB)
        for _ in range(2):
            assert direct.first_difference(device.read(0, MIB), bytes(expected)) is None
    assert same(cache.path, origin.path, 4 * MIB) is None


def test_drop(cache):
    data = prepare()
    direct.read(cache.path, 0, MIB)
    assert cache.status().used == MIB // BLOCK
    changed, _ = counted(cache, cache.drop)
    assert changed == {"invalidations": MIB // BLOCK}
    assert cache.status().used == 0
    assert cache.ramdisk.query().mem_used == 0
    direct.write(DISK, 0, stamp(5))
    assert direct.read(cache.path, 0, BLOCK) == stamp(5)
    assert direct.read(cache.path, BLOCK, MIB) == data[BLOCK:MIB + BLOCK]


def test_reset_stats(cache):
    direct.read(cache.path, 0, MIB)
    used = cache.status().used
    assert used == MIB // BLOCK
    dm.message(cache.name, "reset_stats")
    assert set(cache.status().counters.values()) == {0}
    assert cache.status().used == used
    changed, _ = counted(cache, direct.read, cache.path, 0, MIB)
    assert changed == {"read_hits": MIB // BLOCK}


# Limits


def test_limits_of_the_origin(lab):
    """Sector sizes, discard and write cache are the origin's."""
    cache = lab.cache(16 * MIB)
    for name in ("logical_block_size", "physical_block_size", "write_cache", "rotational"):
        assert dm.queue(cache.path, name) == dm.queue(DISK, name)


@pytest.mark.parametrize("kind", ["ramdisk", "loop"])
def test_4096_byte_sectors(lab, kind):
    """An origin with 4096-byte sectors results in a mapping with 4096-byte sectors."""
    if kind == "ramdisk":
        origin = lab.ramdisk(16 * MIB, logical_block_size=4096).path
    else:
        origin = lab.loop(16 * MIB, 4096)
    cache = lab.cache(16 * MIB, origin=origin)
    assert dm.queue(cache.path, "logical_block_size") == "4096"
    assert dm.queue(cache.path, "physical_block_size") == "4096"
    with Direct(cache.path) as device:
        device.write(BLOCK, stamp(1))
        assert device.read(BLOCK, BLOCK) == stamp(1)
        with pytest.raises(OSError) as caught:
            device.read(512, 512)
        assert caught.value.errno == errno.EINVAL


def test_ramdisk_of_4096_byte_sectors_as_cache(lab):
    """The cache's own sector size does not matter to the mapping."""
    prepare()
    cache = lab.cache(4 * MIB, ramdisk=lab.ramdisk(4 * MIB, logical_block_size=4096))
    assert dm.queue(cache.path, "logical_block_size") == "512"
    direct.write(cache.path, 512, stamp(1, 512))
    assert direct.read(cache.path, 512, 512) == stamp(1, 512) == direct.read(DISK, 512, 512)


# In use


def test_claimed_ramdisk(cache):
    """The state of a RAM disk in use as a cache says so, and all other access is rejected."""
    direct.read(cache.path, 0, MIB)
    assert cache.ramdisk.attribute("state") == "open cache"
    with Direct(cache.ramdisk.path) as device:
        for attempt in (lambda: device.read(0, MIB), lambda: device.write(0, stamp(1)),
                        lambda: device.discard(0, MIB), lambda: device.zero_out(0, MIB)):
            with pytest.raises(OSError) as caught:
                attempt()
            assert caught.value.errno == errno.EBUSY
    assert same(cache.path, DISK, MIB) is None
    with pytest.raises(OSError) as caught:
        cache.ramdisk.remove()
    assert caught.value.errno == errno.EBUSY


def refused(name, table, code):
    """A new mapping that must be refused with this errno."""
    text = os.strerror(code)
    with pytest.raises(CommandError) as caught:
        dm.create(name, table)
    assert text in caught.value.result.stderr
    assert name not in dm.names()


def test_second_mapping(lab, cache):
    """Neither disk of a cache can be in another mapping; the first goes on."""
    data = prepare()
    spare = lab.ramdisk()
    direct.read(cache.path, 0, MIB)
    other = lab.ramdisk()
    refused("second", f"0 4096 rxcache {other.path} {cache.ramdisk.path}", errno.EBUSY)
    refused("second", f"0 4096 rxcache {DISK} {spare.path}", errno.EBUSY)
    refused("second", f"0 4096 rxcache {cache.ramdisk.path} {spare.path}", errno.EBUSY)
    refused("second", f"0 2048 rxcache {other.path} {spare.path}\n"
                      f"2048 2048 rxcache {other.path} {cache.ramdisk.path}", errno.EBUSY)
    assert spare.attribute("state") == other.attribute("state") == "idle"
    changed, seen = counted(cache, direct.read, cache.path, 0, MIB)
    assert seen == data[:MIB] and changed == {"read_hits": MIB // BLOCK}


def test_linear_on_a_claimed_ramdisk(lab, cache):
    """A linear mapping of any kind has no access to the pages of the cache."""
    data = prepare()
    direct.read(cache.path, 0, MIB)
    result = run("dmsetup", "create", "other", check=False,
                 stdin=f"0 2048 linear {cache.ramdisk.path} 0\n")
    if result.returncode == 0:
        lab.adopt_mapped("other")
        for attempt in direct.write, direct.read:
            with pytest.raises(OSError) as caught:
                attempt("/dev/mapper/other", 0, stamp(1) if attempt is direct.write else BLOCK)
            assert caught.value.errno == errno.EBUSY
    assert direct.read(cache.path, 0, MIB) == data[:MIB]


def test_exclusive_holders(lab, cache):
    """Neither disk can be mounted or taken exclusively while cached."""
    for path in DISK, cache.ramdisk.path:
        with pytest.raises(OSError) as caught:
            Direct(path, os.O_RDWR | os.O_EXCL)
        assert caught.value.errno == errno.EBUSY


def test_disks_of_other_mappings(lab):
    """A disk that another mapping holds can be neither cache nor origin."""
    ramdisk, other = lab.ramdisk(), lab.ramdisk()
    name, _ = lab.linear(4 * MIB, ramdisk.path)
    refused("second", f"0 4096 rxcache {DISK} {ramdisk.path}", errno.EBUSY)
    refused("second", f"0 4096 rxcache {ramdisk.path} {other.path}", errno.EBUSY)
    assert other.attribute("state") == "idle"
    dm.remove(name)
    lab.cache(4 * MIB, origin=ramdisk.path, ramdisk=other)


def test_mounted_ramdisk_is_no_cache(lab):
    ramdisk = lab.ramdisk()
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    refused("mounted", f"0 4096 rxcache {DISK} {ramdisk.path}", errno.EBUSY)
    with open(os.path.join(directory, "file"), "wb") as file:
        file.write(b"still writable")


def test_modules_stay_while_a_cache_lives(cache):
    for name in "rxd", "dm_rxcache":
        result = run("rmmod", name, check=False)
        assert result.returncode
        assert re.search("in use", result.stderr)
    assert same(cache.path, DISK, MIB) is None
