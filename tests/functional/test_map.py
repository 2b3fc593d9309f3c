# SPDX-License-Identifier: GPL-2.0-only
"""RXD_MAP, the list of extents: exact, and safe while others write and discard."""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import threading
import time

import pytest

from rxdlib import control as ctl
from rxdlib.command import as_nobody, run
from rxdlib.control import map_all, map_extents
from rxdlib.direct import BLOCK, KIB, MIB, Direct, ranges, stamp
from rxdlib.lab import state

SIZE = 8 * MIB
LEAF = 2 * MIB      # the range that one leaf of the driver's index describes
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


@pytest.fixture
def disk(lab):
    return lab.ramdisk(SIZE)


def test_empty(disk):
    assert disk.extents() == []
    with Direct(disk.path, os.O_RDONLY) as device:
        assert map_extents(device.fd, 0, SIZE) == ([], SIZE)
        assert map_extents(device.fd, 0, 0) == ([], 0)
        assert map_extents(device.fd, SIZE, BLOCK) == ([], SIZE + BLOCK)


def test_parts(disk):
    """Extents are cut to the requested range."""
    with Direct(disk.path) as device:
        device.write(MIB, stamp(1, 4 * MIB))
        for start, length, expected in [
                (0, SIZE, [(MIB, 4 * MIB)]), (0, MIB, []), (0, MIB + BLOCK, [(MIB, BLOCK)]),
                (2 * MIB, MIB, [(2 * MIB, MIB)]), (5 * MIB, 3 * MIB, []),
                (5 * MIB - BLOCK, SIZE, [(5 * MIB - BLOCK, BLOCK)])]:
            found, following = map_extents(device.fd, start, length)
            assert (found, following) == (expected, start + length)


@pytest.mark.one_kernel
@pytest.mark.parametrize("blocks", [
    [0], [SIZE // BLOCK - 1], [0, SIZE // BLOCK - 1],
    [LEAF // BLOCK - 1], [LEAF // BLOCK], [LEAF // BLOCK - 1, LEAF // BLOCK],
    [LEAF // BLOCK - 1, 2 * LEAF // BLOCK], list(range(SIZE // BLOCK)),
    list(range(0, SIZE // BLOCK, 2)), list(range(3, SIZE // BLOCK, 5))], ids=lambda b: len(b))
def test_shapes(disk, blocks):
    with Direct(disk.path) as device:
        for start, length in ranges(blocks):
            device.write(start, stamp(start, length))
        for count in 1, 2, 128, 129, ctl.MAP_MAX:
            assert map_all(device.fd, 0, SIZE, count) == ranges(blocks)
        assert disk.query().mem_used == len(blocks) * BLOCK


def test_sectors_count_as_pages(disk):
    with Direct(disk.path) as device:
        device.write(3 * BLOCK + 512, bytes(512))
    assert disk.extents() == [(3 * BLOCK, BLOCK)]


def test_huge_and_empty(lab):
    """The map of empty tebibytes takes no time. It would, if each page were looked at."""
    ramdisk = lab.ramdisk(8 << 40, overcommit=True)
    with Direct(ramdisk.path) as device:
        device.write((4 << 40) + BLOCK, stamp(1))
        begin = time.monotonic()
        assert ramdisk.extents() == [((4 << 40) + BLOCK, BLOCK)]
    assert time.monotonic() - begin < 60


@pytest.mark.one_kernel
def test_random_against_a_model(disk):
    """Writes and discards at random, compared after each few."""
    chance = random.Random(3)
    model = set()
    total = SIZE // BLOCK
    with Direct(disk.path) as device:
        for step in range(300):
            first = chance.randrange(total)
            count = min(chance.choice([1, 1, 2, 7, 64, 300, 700]), total - first)
            touched = set(range(first, first + count))
            if chance.random() < 0.5:
                device.write(first * BLOCK, stamp(step, count * BLOCK))
                model |= touched
            else:
                device.discard(first * BLOCK, count * BLOCK)
                model -= touched
            if step % 5 == 0:
                start = chance.randrange(total) * BLOCK
                length = chance.randrange(total) * BLOCK
                inside = sorted(block for block in model
                                if start <= block * BLOCK < start + length)
                assert map_all(device.fd, start, length, chance.choice([1, 5, 200])) == \
                    ranges(inside)
        assert disk.extents() == ranges(sorted(model))


def test_beside_writes_and_discards(disk):
    """The map of untouched blocks is always correct; the rest is well-formed."""
    kept = [block for block in range(SIZE // BLOCK) if block % 8 in (0, 1)]
    wild = [block for block in range(SIZE // BLOCK) if block % 8 in (4, 5, 6)]
    over = threading.Event()
    changes = [0, 0]

    def change(number):
        chance = random.Random(number)
        with Direct(disk.path) as device:
            while not over.is_set():
                block = chance.choice(wild)
                if chance.random() < 0.5:
                    device.write(block * BLOCK, stamp(block))
                else:
                    device.discard(block * BLOCK, BLOCK)
                changes[number] += 1

    with Direct(disk.path) as device:
        for start, length in ranges(kept):
            device.write(start, stamp(start, length))
        threads = [threading.Thread(target=change, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            begin = time.monotonic()
            looks = 0
            while time.monotonic() < begin + 5 or \
                    min(looks, *changes) <= 10 and time.monotonic() < begin + 60:
                looks += 1
                held = set()
                last = -1
                for start, length in map_all(device.fd, 0, SIZE, 1 + looks % 200):
                    assert start % BLOCK == length % BLOCK == 0 < length
                    assert start > last and start + length <= SIZE
                    last = start + length - 1
                    held |= set(range(start // BLOCK, (start + length) // BLOCK))
                assert held.issuperset(kept)
                assert held.issubset(kept + wild)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert looks > 10 and min(changes) > 10


def test_beside_resizes(disk):
    """No extent exceeds the largest end of the disk, and there is no error."""
    over = threading.Event()

    def resize():
        while not over.is_set():
            disk.resize(SIZE // 2, ctl.RESIZE_FORCE)
            disk.resize(SIZE)

    with Direct(disk.path) as device:
        device.write(0, stamp(1, SIZE // 4))
        thread = threading.Thread(target=resize)
        thread.start()
        try:
            end = time.monotonic() + 3
            looks = 0
            while time.monotonic() < end or looks <= 10:
                looks += 1
                assert map_all(device.fd, 0, SIZE) == [(0, SIZE // 4)]
        finally:
            over.set()
            thread.join()
    assert looks > 10


@pytest.mark.one_kernel
@pytest.mark.parametrize("code, arguments", [
    (errno.EINVAL, {"start": 1}),
    (errno.EINVAL, {"start": 512}),
    (errno.EINVAL, {"start": U64}),
    (errno.EINVAL, {"start": U64 - 4095}),
    (errno.EINVAL, {"length": 512}),
    (errno.EINVAL, {"length": BLOCK + 1}),
    (errno.EINVAL, {"length": U64}),
    (errno.EINVAL, {"start": BLOCK, "length": U64 - 4095}),
    (errno.EINVAL, {"count": 0}),
    (errno.EINVAL, {"count": ctl.MAP_MAX + 1}),
    (errno.EINVAL, {"count": U32}),
    (errno.EINVAL, {"flags": 1}),
    (errno.EINVAL, {"flags": U32}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"following": BLOCK}),
    (errno.EINVAL, {"reserved": (1, 0)}),
    (errno.EINVAL, {"reserved": (0, 1 << 63)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
    (errno.EPROTONOSUPPORT, {"version": U32}),
], ids=str)
def test_bad_values(disk, code, arguments):
    with Direct(disk.path) as device:
        device.write(0, stamp(1))
        before = state()
        with pytest.raises(OSError) as caught:
            map_extents(device.fd, **{"start": 0, "length": SIZE, **arguments})
        assert errno.errorcode[caught.value.errno] == errno.errorcode[code]
        assert state() == before


def raw_map(fd, address, request=ctl.MAP):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ioctl(fd, ctypes.c_ulong(request), ctypes.c_void_p(address)) < 0:
        raise OSError(ctypes.get_errno(), "ioctl")


def argument(address, count=16):
    return ctl.MAP_FIELDS.pack(ctl.ABI_VERSION, 0, 0, SIZE, address, count, 0, 0, 0, 0)


@pytest.mark.one_kernel
@pytest.mark.parametrize("address", [0, 1, 4096, 0x7ffffffff000, 1 << 63, U64])
def test_bad_address(disk, address):
    """The address of the structure, or of the array in it, is invalid."""
    with Direct(disk.path) as device:
        device.write(0, stamp(1))
        with pytest.raises(OSError) as caught:
            raw_map(device.fd, address)
        assert caught.value.errno == errno.EFAULT
        with pytest.raises(OSError) as caught:
            fcntl.ioctl(device.fd, ctl.MAP, bytearray(argument(address)), True)
        assert caught.value.errno == errno.EFAULT


def test_array_that_ends_too_soon(disk):
    """The last page of the array is missing: EFAULT, and no byte beyond is written."""
    with Direct(disk.path) as device, mmap.mmap(-1, 2 * BLOCK) as memory:
        for start, length in ranges(range(0, SIZE // BLOCK, 2)):
            device.write(start, stamp(1, length))
        view = (ctypes.c_char * (2 * BLOCK)).from_buffer(memory)
        address = ctypes.addressof(view)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(address + BLOCK), BLOCK, mmap.PROT_READ) == 0
        with pytest.raises(OSError) as caught:
            fcntl.ioctl(device.fd, ctl.MAP, bytearray(argument(address, 2 * BLOCK // 16)), True)
        assert caught.value.errno == errno.EFAULT
        assert memory[BLOCK:] == bytes(BLOCK)
        del view


def test_only_of_the_whole_disk(disk):
    with Direct(disk.path) as device:
        device.partition(2048, 4096)
        assert map_extents(device.fd, 0, SIZE)[0] == [(0, BLOCK)]
    with Direct(disk.path + "p1") as partition:
        with pytest.raises(OSError) as caught:
            map_extents(partition.fd, 0, MIB)
        assert caught.value.errno == errno.ENOTTY


@pytest.mark.parametrize("size", [0, ctl.MAP_FIELDS.size - 8, ctl.MAP_FIELDS.size + 8])
def test_other_sizes_of_the_structure(disk, size):
    number = ctl.number(ctl.READ | ctl.WRITE, 0x10, size)
    with Direct(disk.path) as device:
        with pytest.raises(OSError) as caught:
            fcntl.ioctl(device.fd, number, bytearray(argument(0) + bytes(64)), True)
        assert caught.value.errno == errno.ENOTTY


def test_control_ioctls_are_not_the_disks(disk):
    for number, size in (ctl.CREATE, 88), (ctl.REMOVE, 32), (ctl.CLEAR, 32), (ctl.QUERY, 160):
        with Direct(disk.path) as device:
            with pytest.raises(OSError) as caught:
                fcntl.ioctl(device.fd, number, bytearray(size), True)
            assert caught.value.errno == errno.ENOTTY


def test_needs_reading(disk):
    with Direct(disk.path, os.O_WRONLY) as device:
        with pytest.raises(OSError) as caught:
            map_extents(device.fd, 0, SIZE)
        assert caught.value.errno == errno.EBADF
    with Direct(disk.path, os.O_RDONLY) as device:
        assert map_extents(device.fd, 0, SIZE) == ([], SIZE)


def test_needs_no_privilege_beyond_the_node(disk):
    """A user who may read the disk may also read its map."""
    os.chmod(disk.path, 0o644)
    program = ("import fcntl, os, sys\n"
               "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
               "fcntl.ioctl(fd, int(sys.argv[2]), bytearray(bytes.fromhex(sys.argv[3])), True)\n")
    as_nobody("python3", "-c", program, disk.path, ctl.MAP,
              ctl.MAP_FIELDS.pack(ctl.ABI_VERSION, 0, 0, SIZE, 4096, 1, 0, 0, 0, 0).hex())
    os.chmod(disk.path, 0o600)
    assert as_nobody("cat", disk.path, check=False).returncode


def test_cache_has_no_map(lab):
    cache = lab.cache()
    with Direct(cache.ramdisk.path, os.O_RDONLY) as device:
        with pytest.raises(OSError) as caught:
            map_extents(device.fd, 0, SIZE)
        assert caught.value.errno == errno.EBUSY


def test_what_is_in_no_extent_reads_as_zeros(lab):
    """All blocks of a file system are in the map."""
    ramdisk = lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    extents = ramdisk.extents()
    assert sum(length for _, length in extents) == ramdisk.query().mem_used > 64 * KIB
    with Direct(ramdisk.path) as device:
        at = 0
        for start, length in [*extents, (64 * MIB, 0)]:
            while at < start:
                part = min(start - at, MIB)
                assert device.read(at, part) == bytes(part)
                at += part
            at = start + length
