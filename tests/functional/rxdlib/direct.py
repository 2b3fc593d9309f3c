# SPDX-License-Identifier: GPL-2.0-only
"""Block I/O past the page cache."""

import array
import ctypes
import fcntl
import functools
import mmap
import os
import struct
import sys

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
SECTOR = 512
BLOCK = 4096

BLKRRPART = 0x125F
BLKPG = 0x1269
BLKDISCARD = 0x1277
BLKSECDISCARD = 0x127D
BLKZEROOUT = 0x127F
BLKGETSIZE64 = 0x80081272


KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 0x10
PARTITION_ADD, PARTITION_DELETE, PARTITION_RESIZE = 1, 2, 3

libc = ctypes.CDLL(None, use_errno=True)


@functools.lru_cache(maxsize=8)
def places(length):
    """Pairs of words: 0, and how many bytes come before the pair."""
    words = array.array("Q", bytes(length))
    words[1::2] = array.array("Q", range(0, length, 16))
    return words.tobytes()


def stamp(number, length=BLOCK, generation=0):
    """Bytes that identify their place: every 16 of them differ."""
    data = bytearray(places(length))
    for place, byte in enumerate((generation << 32 | number).to_bytes(8, sys.byteorder)):
        if byte:
            data[place::16] = bytes([byte]) * (length // 16)
    return bytes(data)


def ranges(blocks):
    """Ascending block numbers as extents."""
    found = []
    for block in blocks:
        if found and sum(found[-1]) == block * BLOCK:
            found[-1] = (found[-1][0], found[-1][1] + BLOCK)
        else:
            found.append((block * BLOCK, BLOCK))
    return found


class Direct:
    """A device or file opened with O_DIRECT."""

    def __init__(self, path, flags=os.O_RDWR):
        self.path = str(path)
        self.fd = os.open(self.path, flags | os.O_DIRECT | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def read(self, offset, length):
        """Read exactly length bytes."""
        with mmap.mmap(-1, length) as buffer:
            done = os.preadv(self.fd, [buffer], offset)
            if done != length:
                raise EOFError(f"{self.path}: read {done} of {length} bytes at {offset}")
            return buffer[:]

    def write(self, offset, data):
        """Write exactly data."""
        with mmap.mmap(-1, len(data)) as buffer:
            buffer[:] = data
            done = os.pwritev(self.fd, [buffer], offset)
            if done != len(data):
                raise EOFError(f"{self.path}: wrote {done} of {len(data)} bytes at {offset}")

    def size(self):
        return struct.unpack("=Q", fcntl.ioctl(self.fd, BLKGETSIZE64, bytes(8)))[0]

    def discard(self, offset, length):
        fcntl.ioctl(self.fd, BLKDISCARD, struct.pack("=QQ", offset, length))

    def partition(self, first, sectors, disk_id=0):
        """Write an MBR with one partition and have the kernel read it.

        The partition of a disk whose number is 0 has no UUID.
        """
        entry = struct.pack("<B3sB3sII", 0, bytes(3), 0x83, bytes(3), first, sectors)
        self.write(0, struct.pack("<440xIxx", disk_id) + entry + bytes(48) + b"\x55\xaa")
        fcntl.ioctl(self.fd, BLKRRPART)

    def zero_out(self, offset, length):
        fcntl.ioctl(self.fd, BLKZEROOUT, struct.pack("=QQ", offset, length))

    def erase_securely(self, offset, length):
        fcntl.ioctl(self.fd, BLKSECDISCARD, struct.pack("=QQ", offset, length))

    def _fallocate(self, mode, offset, length):
        if libc.fallocate(self.fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)):
            raise OSError(ctypes.get_errno(), "fallocate")

    def punch_hole(self, offset, length):
        self._fallocate(KEEP_SIZE | PUNCH_HOLE, offset, length)

    def zero_range(self, offset, length):
        self._fallocate(KEEP_SIZE | ZERO_RANGE, offset, length)

    def partition_table(self, operation, number, start=0, length=0):
        """Tell the kernel of a partition, without a table on the disk."""
        partition = ctypes.create_string_buffer(struct.pack("=qqi64s64s4x", start, length, number,
                                                            b"", b""))
        fcntl.ioctl(self.fd, BLKPG, struct.pack("=iiiiQ", operation, 0, len(partition.raw) - 1, 0,
                                                ctypes.addressof(partition)))


def read(path, offset, length):
    """Read the device itself, bypassing all page caches above it."""
    with Direct(path, os.O_RDONLY) as device:
        return device.read(offset, length)


def write(path, offset, data):
    with Direct(path) as device:
        device.write(offset, data)


def first_difference(left, right):
    """The first offset at which two byte strings differ, or None."""
    if left == right:
        return None
    for offset, (a, b) in enumerate(zip(left, right)):
        if a != b:
            return offset
    return min(len(left), len(right))
