# SPDX-License-Identifier: GPL-2.0-only
"""Buffers that change during I/O: none of their changes may enter the cache alone."""

import os
import re

import pytest

from rxdlib import direct
from rxdlib.command import as_nobody, program, run
from rxdlib.direct import BLOCK, KIB, MIB, stamp
from rxdlib.lab import DISK

pytestmark = pytest.mark.one_kernel

BLOCKS = 1000


def spy(runner, *args):
    """Run bufspy; return the number of I/Os, and of those whose buffer changed meanwhile."""
    result = runner(program("bufspy"), *args, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return [int(number) for number in re.findall(r"\d+", result.stdout)]


def slow_origin(lab, size, read_delay, write_delay):
    """A disk whose I/O takes a while, so that a buffer can change meanwhile."""
    name = lab.mapped(f"0 {size // 512} delay {DISK} 0 {read_delay} {DISK} 0 {write_delay}")
    return f"/dev/mapper/{name}"


@pytest.fixture
def secret(lab):
    """A cache with ext4, and a file on it that root alone can write."""
    cache = lab.cache(64 * MIB, cache_size=64 * MIB, origin=slow_origin(lab, 64 * MIB, 4, 0))
    run("mkfs.ext4", "-q", "-F", cache.path)
    directory = lab.mount(cache.path)
    path = os.path.join(directory, "file")
    data = stamp(42, BLOCKS * BLOCK)
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(path, 0o644)
    return cache, path, data


@pytest.mark.parametrize("length", [BLOCK, 512, 64 * KIB])
def test_reader_cannot_forge(secret, length):
    cache, path, data = secret
    size = BLOCKS * BLOCK if length >= BLOCK else 64 * BLOCK
    cache.drop()
    before = cache.status()
    ios, scribbled = spy(as_nobody, "read", path, size, length)
    fills = cache.status().since(before)["fills"]
    assert ios == size // length and fills >= ios * length // BLOCK
    assert scribbled > min(ios, fills) // 2
    with direct.Direct(path, os.O_RDONLY) as file:
        for offset in range(0, size // length * length, 8 * BLOCK):
            part = min(8 * BLOCK, size - offset)
            assert file.read(offset, part) == data[offset:offset + part], f"forged at {offset}"


def test_writer_cannot_split(lab):
    """Memory and disk hold the same, whatever a changing buffer contained."""
    cache = lab.cache(4 * MIB, origin=slow_origin(lab, 4 * MIB, 0, 4))
    for length in BLOCK, 16 * KIB, 512:
        size = MIB if length >= BLOCK else 64 * KIB
        ios, scribbled = spy(run, "write", cache.path, size, length)
        assert ios == size // length and scribbled > ios // 2
        before = cache.status()
        mine = direct.read(cache.path, 0, size)
        assert cache.status().since(before)["read_hits"] > 0
        assert direct.first_difference(mine, direct.read(DISK, 0, size)) is None


@pytest.mark.parametrize("block_size", [4 * KIB, 16 * KIB])
def test_buffer_shows_nothing_foreign(lab, block_size):
    """Slots are reused all the time; no reader ever sees the data of another block."""
    cache = lab.cache(4 * MIB, cache_size=32 * block_size, block_size=block_size)
    looks, reads, _ = spy(run, "watch", cache.path, 2 * MIB, 8)
    assert looks > 1000 and reads > 500
    status = cache.status()
    assert status.evictions > 100 and status.read_hits > 0


@pytest.mark.parametrize("block_size", [4 * KIB, 16 * KIB])
def test_buffer_shows_nothing_foreign_beside_discards(lab, block_size):
    """The same, while blocks are discarded and written again, whole and in part."""
    origin = lab.ramdisk(4 * MIB)
    cache = lab.cache(4 * MIB, cache_size=32 * block_size, block_size=block_size,
                      origin=origin.path)
    looks, reads, churned = spy(run, "churn", cache.path, 2 * MIB, 5)
    assert looks > 500 and reads > 250 and churned > 100
    status = cache.status()
    assert status.evictions > 100 and status.fills > 100
    assert status.invalidations > churned // 4


def test_spy_notices_foreign_bytes(lab):
    """The spy itself: it must detect bytes of another block."""
    ramdisk = lab.ramdisk(2 * MIB)
    mapped = lab.mapped(f"0 2048 linear {ramdisk.path} 0\n2048 2040 linear {ramdisk.path} 8")
    result = run(program("bufspy"), "watch", f"/dev/mapper/{mapped}", 2 * MIB - BLOCK, 2,
                 check=False)
    assert result.returncode == 1
    assert "wrong data" in result.stderr or "foreign" in result.stderr
