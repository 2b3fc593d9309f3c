# SPDX-License-Identifier: GPL-2.0-only
"""Properties of a RAM disk, and operations on a whole RAM disk."""

import errno
import os
import threading
import uuid

import pytest

from rxdlib import direct, dm
from rxdlib.command import CommandError, run
from rxdlib.control import (CREATE_DETECT_ZEROES, CREATE_OVERCOMMIT, CREATE_RESERVE,
                            NODE_INTERLEAVE, NODE_LOCAL, RESIZE_FORCE, STATE_DETECT_ZEROES,
                            STATE_RESERVED, Control)
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp
from rxdlib.lab import DISK, state

SIZE = 8 * MIB
ZEROED_AT_ONCE = 64 * MIB


def refused(code, call, *args, **options):
    """A call that must fail with this errno and change nothing."""
    before = state()
    with pytest.raises(OSError) as caught:
        call(*args, **options)
    assert errno.errorcode[caught.value.errno] == errno.errorcode[code]
    assert state() == before


# Reserved memory

@pytest.mark.parametrize("folio_size", [0, 64 * KIB, 2 * MIB])
def test_reserve(lab, folio_size):
    ramdisk = lab.ramdisk(SIZE, flags=CREATE_RESERVE, folio_size=folio_size)
    query = ramdisk.query()
    assert query.mem_used == query.mem_max_used == SIZE
    assert query.state & STATE_RESERVED and "reserved" in ramdisk.attribute("state")
    with Direct(ramdisk.path) as device:
        assert device.read(0, SIZE) == bytes(SIZE)
        device.write(MIB, stamp(1, MIB))
        for zero in device.punch_hole, device.zero_out, device.zero_range:
            device.write(MIB, stamp(1, MIB))
            zero(MIB + BLOCK, BLOCK)
            assert device.read(MIB, 2 * BLOCK) == stamp(1) + bytes(BLOCK)
        with pytest.raises(OSError) as caught:
            device.discard(0, MIB)
        assert caught.value.errno == errno.EOPNOTSUPP
    assert ramdisk.query().mem_used == SIZE
    assert ramdisk.extents() == [(0, SIZE)]


def test_reserve_and_resize(lab):
    ramdisk = lab.ramdisk(SIZE, flags=CREATE_RESERVE)
    direct.write(ramdisk.path, SIZE - BLOCK, stamp(1))
    ramdisk.resize(2 * SIZE)
    assert ramdisk.query().mem_used == 2 * SIZE
    assert direct.read(ramdisk.path, SIZE - BLOCK, 2 * BLOCK) == stamp(1) + bytes(BLOCK)
    ramdisk.resize(SIZE)
    refused(errno.ENOTEMPTY, ramdisk.resize, SIZE - BLOCK)
    assert ramdisk.query().mem_used == SIZE
    ramdisk.resize(SIZE // 2, RESIZE_FORCE)
    assert ramdisk.query().mem_used == SIZE // 2


def test_reserve_beyond_the_limit(lab):
    """A grow that exceeds the limit does not allocate an index, either."""
    ramdisk = lab.ramdisk(SIZE, flags=CREATE_RESERVE, mem_limit=SIZE)
    refused(errno.ENOSPC, ramdisk.resize, 64 * SIZE)


def test_reserved_is_no_cache(lab):
    """A cache frees and exchanges pages; a reserved disk keeps its own."""
    ramdisk = lab.ramdisk(SIZE, flags=CREATE_RESERVE)
    direct.write(ramdisk.path, 0, stamp(1))
    before = state()
    with pytest.raises(CommandError):
        dm.create("reserved", f"0 {SIZE // 512} rxcache {DISK} {ramdisk.path}")
    assert state() == before
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)


# Larger pieces of memory

@pytest.mark.parametrize("folio_size", [4 * KIB, 64 * KIB, 2 * MIB])
def test_folios(lab, folio_size):
    """The data is the same in pages of any size, and each page is freed separately."""
    ramdisk = lab.ramdisk(16 * MIB, folio_size=folio_size)
    assert ramdisk.attribute("folio_size") == str(folio_size) == str(ramdisk.query().folio_size)
    data = stamp(7, 4 * MIB)
    with Direct(ramdisk.path) as device:
        device.write(0, data)
        device.write(10 * MIB + 512, data[:MIB])
        device.write(6 * MIB, stamp(1))
        assert direct.first_difference(device.read(0, 4 * MIB), data) is None
        assert device.read(10 * MIB + 512, MIB) == data[:MIB]
        assert device.read(10 * MIB, 512) == bytes(512)
        query = ramdisk.query()
        assert query.mem_used == 5 * MIB + 2 * BLOCK
        assert query.reserved1 == 0
        device.discard(BLOCK, BLOCK)
        assert ramdisk.query().mem_used == 5 * MIB + BLOCK
        assert device.read(0, 3 * BLOCK) == data[:BLOCK] + bytes(BLOCK) + data[2 * BLOCK:3 * BLOCK]
        device.discard(0, 16 * MIB)
        query = ramdisk.query()
        assert query.mem_used == 0
    assert ramdisk.attribute("mem_index") == str(query.mem_index)


# Nodes

@pytest.mark.parametrize("node, text", [(NODE_LOCAL, "local"), (NODE_INTERLEAVE, "interleave"),
                                        (0, "0")])
def test_node(lab, node, text):
    ramdisk = lab.ramdisk(SIZE, node=node)
    assert ramdisk.query().node == node and ramdisk.attribute("node") == text
    direct.write(ramdisk.path, 0, stamp(1, SIZE))
    assert direct.read(ramdisk.path, 0, SIZE) == stamp(1, SIZE)


# Identity

def test_uuid(lab):
    wanted = uuid.UUID("c1a5e5aa-0b3c-4d2e-8f1a-5566778899aa")
    ramdisk = lab.ramdisk(uuid=wanted.bytes)
    assert ramdisk.query().uuid == ramdisk.attribute("uuid") == str(wanted)
    ramdisk.resize(2 * SIZE)
    ramdisk.clear()
    assert ramdisk.query().uuid == str(wanted)
    refused(errno.EEXIST, lab.ramdisk, uuid=wanted.bytes)
    ramdisk.remove()
    assert lab.ramdisk(uuid=wanted.bytes).query().uuid == str(wanted)


def test_random_uuids(lab):
    """Version 4, variant 1, and never twice."""
    found = {lab.ramdisk(MIB).query().uuid for _ in range(20)}
    assert len(found) == 20
    for text in found:
        assert uuid.UUID(text).version == 4 and uuid.UUID(text).variant == uuid.RFC_4122


# Zeros

def test_detect_zeroes(lab):
    ramdisk = lab.ramdisk(SIZE, flags=CREATE_DETECT_ZEROES)
    assert ramdisk.query().state & STATE_DETECT_ZEROES
    assert ramdisk.attribute("state") == "detect-zeroes"
    with Direct(ramdisk.path) as device:
        device.write(0, bytes(MIB))
        assert ramdisk.query().mem_used == 0
        device.write(0, stamp(1, MIB))
        assert ramdisk.query().mem_used == MIB
        device.write(64 * KIB, bytes(64 * KIB))
        assert ramdisk.query().mem_used == MIB - 64 * KIB
        expected = bytearray(stamp(1, MIB))
        expected[64 * KIB:128 * KIB] = bytes(64 * KIB)
        assert direct.first_difference(device.read(0, MIB), bytes(expected)) is None
        # A page with a single byte that is not zero, at each end of the write.
        for offset in 0, BLOCK - 1:
            page = bytearray(BLOCK)
            page[offset] = 1
            device.write(80 * KIB, bytes(page))
            assert device.read(80 * KIB, BLOCK) == page
        device.write(80 * KIB, bytes(BLOCK))
        assert ramdisk.query().mem_used == MIB - 64 * KIB
    assert ramdisk.query().mem_max_used == MIB


def test_zeroes_are_data_otherwise(lab):
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, 0, bytes(MIB))
    assert ramdisk.query().mem_used == MIB
    assert ramdisk.extents() == [(0, MIB)]


# Clearing

@pytest.mark.parametrize("flags", [0, CREATE_RESERVE, CREATE_DETECT_ZEROES])
def test_clear(lab, flags):
    ramdisk = lab.ramdisk(SIZE, flags=flags)
    for _ in range(2):
        direct.write(ramdisk.path, MIB, stamp(1, 4 * MIB))
        # Fill the page cache as well: its content must not reappear.
        with open(ramdisk.path, "rb") as file:
            file.seek(MIB)
            assert file.read(BLOCK) == stamp(1)
        ramdisk.clear()
        assert ramdisk.query().mem_used == (SIZE if flags & CREATE_RESERVE else 0)
        assert direct.read(ramdisk.path, 0, SIZE) == bytes(SIZE)
        with open(ramdisk.path, "rb") as file:
            file.seek(MIB)
            assert file.read(BLOCK) == bytes(BLOCK)


def test_clear_in_use(lab):
    ramdisk = lab.ramdisk(64 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    with Direct(ramdisk.path) as device:
        refused(errno.EBUSY, ramdisk.clear)
        assert device.read(0, BLOCK) == stamp(1)
    run("blockdev", "--setro", ramdisk.path)
    refused(errno.EROFS, ramdisk.clear)
    run("blockdev", "--setrw", ramdisk.path)
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path, "-o", "ro")
    refused(errno.EBUSY, ramdisk.clear)
    run("umount", directory)
    cache = lab.cache(ramdisk=ramdisk)
    direct.write(cache.path, 0, stamp(2))
    refused(errno.EBUSY, ramdisk.clear)
    assert direct.read(cache.path, 0, BLOCK) == stamp(2)


def test_clear_beside_openers(lab):
    """An opener finds its own data, and never the data of another disk."""
    ramdisk = lab.ramdisk(MIB)
    over = threading.Event()
    wrong = []

    def opener(number):
        while not over.is_set():
            with Direct(ramdisk.path) as device:
                device.write(number * BLOCK, stamp(number))
                if device.read(number * BLOCK, BLOCK) != stamp(number):
                    wrong.append(f"opener {number}")

    threads = [threading.Thread(target=opener, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    counts = {"done": 0, "busy": 0}
    try:
        with Control() as control:
            for _ in range(3000):
                try:
                    control.clear(ramdisk.index)
                    counts["done"] += 1
                except OSError as error:
                    assert error.errno == errno.EBUSY
                    counts["busy"] += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert counts["busy"] > 0, counts


# Commands of the block layer

def test_no_secure_erase(lab):
    """Freed memory is not wiped, so a secure erase must not succeed."""
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, 0, stamp(1))
    with Direct(ramdisk.path) as device:
        with pytest.raises(OSError) as caught:
            device.erase_securely(0, SIZE)
        assert caught.value.errno == errno.EOPNOTSUPP
    result = run("blkdiscard", "--secure", ramdisk.path, check=False)
    assert result.returncode and "not supported" in result.stderr
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)


def test_blkdiscard(lab):
    ramdisk = lab.ramdisk(SIZE)
    for options, left in ((), 0), (("--zeroout",), SIZE):
        direct.write(ramdisk.path, 0, stamp(1, SIZE))
        run("blkdiscard", *options, ramdisk.path)
        assert direct.read(ramdisk.path, 0, SIZE) == bytes(SIZE)
        assert ramdisk.query().mem_used == left


def test_write_zeroes_without_unmap_makes_room(lab):
    """A range that was zeroed without unmapping can be written when memory is short."""
    ramdisk = lab.ramdisk(SIZE, mem_limit=2 * MIB)
    with Direct(ramdisk.path) as device:
        device.zero_range(MIB, MIB)
        assert ramdisk.query().mem_used == MIB
        device.write(4 * MIB, stamp(1, MIB))
        with pytest.raises(OSError) as caught:
            device.write(6 * MIB, stamp(1))
        assert caught.value.errno == errno.ENOSPC
        device.write(MIB, stamp(2, MIB))
        assert device.read(MIB, MIB) == stamp(2, MIB)
        # With unmapping, no memory is needed.
        device.punch_hole(0, SIZE)
    assert ramdisk.query().mem_used == 0


@pytest.mark.parametrize("kind, cloned", [("disk", False), ("partition", False), ("linear", False),
                                          ("cache", False), ("partition", True)])
def test_long_write_zeroes_is_split(lab, kind, cloned):
    """A request waits for memory for a limited time, so a long one is made of several.

    Each request to the partition begins and ends within a leaf, which the clone shares.
    """
    size = 4 * ZEROED_AT_ONCE
    start = MIB if kind == "partition" else 0
    places = [number * ZEROED_AT_ONCE + offset
              for number in range(4) for offset in (0, ZEROED_AT_ONCE - BLOCK)]
    outside = [start + size, *([start - BLOCK] if start else [])]
    ramdisk = lab.ramdisk(5 * ZEROED_AT_ONCE, overcommit=True)
    path = ramdisk.path
    assert int(dm.queue(path, "write_zeroes_max_bytes")) == ZEROED_AT_ONCE
    with Direct(path) as device:
        if start:
            device.partition_table(direct.PARTITION_ADD, 1, start, size)
        for place in outside:
            device.write(place, stamp(place))
    if kind == "partition":
        path += "p1"
    elif kind == "linear":
        _, path = lab.linear(size, path)
    elif kind == "cache":
        path = lab.cache(size, origin=path).path
    with Direct(path) as device:
        for place in places:
            device.write(place, stamp(place))
    if cloned:
        with Control() as control:
            clone = lab.adopt_ramdisk(control.clone(ramdisk.index, flags=CREATE_OVERCOMMIT))
    with Direct(path) as device:
        device.punch_hole(0, size)
        assert all(device.read(place, BLOCK) == bytes(BLOCK) for place in places)
    assert all(direct.read(ramdisk.path, place, BLOCK) == stamp(place) for place in outside)
    assert ramdisk.query().mem_used == len(outside) * BLOCK
    # It counts the requests that have freed memory.
    assert ramdisk.query().discards == 4
    if cloned:
        assert all(direct.read(clone.path, start + place, BLOCK) == stamp(place)
                   for place in places)
        assert clone.query().mem_used == (len(places) + len(outside)) * BLOCK


def test_partitions_by_ioctl(lab):
    ramdisk = lab.ramdisk(SIZE)
    path = ramdisk.path + "p3"
    with Direct(ramdisk.path) as device:
        device.partition_table(direct.PARTITION_ADD, 3, MIB, 2 * MIB)
        assert os.path.exists(path)
        with Direct(path) as partition:
            assert partition.size() == 2 * MIB
            partition.write(0, stamp(1))
            partition.discard(0, MIB)
            partition.write(MIB, stamp(2))
            with pytest.raises(OSError):
                partition.write(2 * MIB, stamp(3))
        device.partition_table(direct.PARTITION_RESIZE, 3, MIB, 4 * MIB)
        with Direct(path) as partition:
            assert partition.size() == 4 * MIB
        assert device.read(MIB, BLOCK) == bytes(BLOCK)
        assert device.read(2 * MIB, BLOCK) == stamp(2)
        device.partition_table(direct.PARTITION_DELETE, 3)
    assert not os.path.exists(path)


def test_read_only_refuses_all_changes(lab):
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, 0, stamp(1))
    with Direct(ramdisk.path) as device:
        run("blockdev", "--setro", ramdisk.path)
        for change in (lambda: device.write(0, stamp(2)), lambda: device.discard(0, BLOCK),
                       lambda: device.zero_out(0, BLOCK), lambda: device.punch_hole(0, BLOCK)):
            with pytest.raises(OSError) as caught:
                change()
            assert caught.value.errno in (errno.EPERM, errno.EACCES, errno.EROFS)
        assert device.read(0, BLOCK) == stamp(1)
        run("blockdev", "--setrw", ramdisk.path)
        device.write(0, stamp(2))
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(2)


# Counters

def test_io_counts(lab):
    ramdisk = lab.ramdisk(SIZE)
    with Direct(ramdisk.path) as device:
        before = int(ramdisk.attribute("reads")), int(ramdisk.attribute("writes"))
        for block in range(5):
            device.write(block * BLOCK, stamp(block))
        for block in range(3):
            device.read(block * BLOCK, BLOCK)
        after = int(ramdisk.attribute("reads")), int(ramdisk.attribute("writes"))
    assert after == (before[0] + 3, before[1] + 5)


def test_metadata_is_small(lab):
    """The metadata of a full disk takes less than 0.3 percent of its size."""
    ramdisk = lab.ramdisk(64 * MIB)
    with Direct(ramdisk.path) as device:
        for offset in range(0, 64 * MIB, MIB):
            device.write(offset, bytes([1]) * MIB)
    query = ramdisk.query()
    assert query.mem_used == 64 * MIB
    assert 0 < query.mem_index < 64 * MIB * 3 // 1000


@pytest.mark.parametrize("name", ["uuid", "folio_size", "node", "mem_used", "mem_max_used",
                                  "mem_index", "promised", "nospc", "discards", "reads",
                                  "writes", "state"])
def test_attributes_are_read_only(lab, name):
    ramdisk = lab.ramdisk(SIZE)
    before = state()
    with pytest.raises(OSError) as caught:
        ramdisk.set_attribute(name, "0")
    assert caught.value.errno in (errno.EACCES, errno.EIO)
    assert state() == before
    assert not os.stat(f"/sys/block/{ramdisk.name}/rxd/{name}").st_mode & 0o222


def test_attributes_do_not_hold_the_disk(lab):
    """A reader of sysfs does not keep the disk in use."""
    ramdisk = lab.ramdisk(SIZE)
    with open(f"/sys/block/{ramdisk.name}/rxd/state", encoding="ascii") as file:
        assert file.read() == "idle\n"
        ramdisk.remove()
    with pytest.raises(FileNotFoundError):
        ramdisk.attribute("state")


def test_command_line_sees_it(lab):
    """lsblk shows the queue limits."""
    ramdisk = lab.ramdisk(SIZE, logical_block_size=4096)
    line = run("lsblk", "-b", "-n", "-d", "-r", "-o", "SIZE,LOG-SEC,PHY-SEC,ROTA,DISC-GRAN,RO",
               ramdisk.path).stdout.split()
    assert line == [str(SIZE), "4096", "4096", "0", "4096", "0"]
