# SPDX-License-Identifier: GPL-2.0-only
"""I/O that bypasses the cache because of conflicts or a shortage, and I/O that does not."""

import mmap
import os
import random
import threading

import pytest

from rxdlib import direct, dm
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp
from rxdlib.ftrace import traced
from rxdlib.lab import DISK, WRITES, counted, counter, prepare


class Background(threading.Thread):
    """An I/O to a cache that waits for a held origin. The test checks whether it fails."""

    def __init__(self, origin, held, function, *args):
        super().__init__()
        self.function, self.args, self.error, self.result = function, args, None, None
        self.start()
        origin.wait_for(held)

    def run(self):
        try:
            self.result = self.function(*self.args)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def finish(self):
        self.join(60)
        assert not self.is_alive()
        if self.error:
            raise self.error
        return self.result


def test_discard_keeps_out_its_range_only(lab):
    """While a discard is in flight, all other blocks are cached as usual."""
    base = lab.ramdisk(8 * MIB)
    data = stamp(0, 4 * MIB)
    direct.write(base.path, 0, data)
    origin = lab.held(8 * MIB, base.path, writes=True)
    cache = lab.cache(8 * MIB, origin=origin.path)
    with Direct(cache.path) as device, origin:
        discard = Background(origin, 1, device.discard, MIB, MIB)
        changed, seen = counted(cache, device.read, 0, MIB)
        assert seen == data[:MIB] and changed["fills"] == 256
        changed, seen = counted(cache, device.read, 2 * MIB, MIB)
        assert seen == data[2 * MIB:3 * MIB] and changed["fills"] == 256
        changed, _ = counted(cache, device.read, 2 * MIB - 4 * BLOCK, 8 * BLOCK)
        assert changed == {"read_misses": 4, "bypasses": 4, "read_hits": 4}
        assert discard.is_alive()
        origin.release()
        discard.finish()
        assert device.read(MIB, MIB) == bytes(MIB)
        changed, seen = counted(cache, device.read, MIB, MIB)
        assert seen == bytes(MIB) and changed == {"read_hits": 256}


def test_one_busy_block(lab):
    """A long read over a block that another read fills waits for this fill only."""
    data = prepare()
    with lab.held(4 * MIB, reads=True) as origin:
        cache = lab.cache(4 * MIB, origin=origin.path)
        fill = Background(origin, 1, direct.read, cache.path, 5 * BLOCK, BLOCK)
        before = cache.status()
        # The blocks before and after the busy block.
        read = Background(origin, 3, direct.read, cache.path, 0, 32 * BLOCK)
        origin.release()
        fill.finish()
        assert read.finish() == data[:32 * BLOCK]
    changed = cache.status().since(before)
    assert "bypasses" not in changed and changed["read_misses"] == 32
    assert cache.status().fills == 32 == cache.status().used


def test_one_busy_block_of_a_write(lab):
    data = stamp(3, 32 * BLOCK, 3)
    prepare()
    with lab.held(4 * MIB, writes=True) as origin:
        cache = lab.cache(4 * MIB, origin=origin.path)
        short = Background(origin, 1, direct.write, cache.path, 5 * BLOCK,
                           data[5 * BLOCK:6 * BLOCK])
        before = cache.status()
        long = Background(origin, 2, direct.write, cache.path, 0, data)
        origin.release()
        short.finish()
        long.finish()
    assert cache.status().since(before)["bypasses"] == 1
    assert cache.status().used == 31
    assert direct.read(cache.path, 0, 32 * BLOCK) == data == direct.read(DISK, 0, 32 * BLOCK)


@pytest.mark.parametrize("block_size", [4 * KIB, 64 * KIB])
def test_memory_limit_follows_the_use(lab, block_size):
    """Blocks in recent use get the memory, wherever they are, not the blocks that came first."""
    data = prepare(8 * MIB)
    ramdisk = lab.ramdisk(16 * MIB, mem_limit=2 * MIB)
    cache = lab.cache(16 * MIB, ramdisk=ramdisk, block_size=block_size)
    for start in 0, 4 * MIB, 2 * MIB, 7 * MIB:
        for _ in range(4):
            with Direct(cache.path, os.O_RDONLY) as device:
                seen = b"".join(device.read(start + offset, 64 * KIB)
                                for offset in range(0, MIB, 64 * KIB))
            assert seen == data[start:start + MIB]
        changed, _ = counted(cache, direct.read, cache.path, start, MIB)
        assert changed.get("read_hits", 0) > 0.8 * MIB // block_size
    assert ramdisk.query().mem_max_used <= 2 * MIB
    assert cache.status().evictions > 0


def test_reader_that_does_not_wait(cache):
    """A read with RWF_NOWAIT that misses does not fail, and fills the cache."""
    data = prepare()
    with Direct(cache.path, os.O_RDONLY) as device:
        with mmap.mmap(-1, MIB) as buffer:
            assert os.preadv(device.fd, [buffer], 0, os.RWF_NOWAIT) == MIB
            assert buffer[:] == data[:MIB]
    status = cache.status()
    assert status.fills == 256 == status.used and status.bypasses == 0


@pytest.mark.parametrize("block_size", [4 * KIB, 16 * KIB])
def test_long_write_over_scattered_blocks(lab, block_size):
    """A write of 1 MiB over blocks that were cached one by one is one request of the disk."""
    assert int(dm.queue(DISK, "max_sectors_kb")) >= 1024
    prepare()
    cache = lab.cache(4 * MIB, block_size=block_size)
    blocks = list(range(4 * MIB // block_size))
    random.Random(1).shuffle(blocks)
    with Direct(cache.path) as device:
        for block in blocks:
            device.read(block * block_size, block_size)
        for offset in 0, 2 * MIB:
            before, data = counter(DISK, WRITES), stamp(offset, MIB, 5)
            changed, _ = counted(cache, device.write, offset, data)
            assert counter(DISK, WRITES) - before == 1
            assert changed == {"write_hits": MIB // block_size}
            assert device.read(offset, MIB) == data == direct.read(DISK, offset, MIB)
    assert cache.ramdisk.query().mem_used == 4 * MIB == cache.status().used * block_size


@pytest.mark.parametrize("block_size", [4 * KIB, MIB])
def test_rewrites_get_no_new_pages(lab, block_size):
    """Once the pages of a range fit into a request, later writes keep them."""
    prepare()
    cache = lab.cache(4 * MIB, block_size=block_size)
    blocks = list(range(4 * MIB // block_size))
    random.Random(2).shuffle(blocks)
    with Direct(cache.path) as device, traced(lab, "rxc_supply_pages") as trace:
        for block in blocks:
            device.read(block * block_size, block_size)
        first = trace(device.write, 0, stamp(0, MIB, 6))
        assert set(first) == ({"rxc_supply_pages"} if block_size < MIB else set())
        for version in 7, 8:
            assert not trace(device.write, 0, stamp(0, MIB, version))
        assert device.read(0, MIB) == stamp(0, MIB, 8)
