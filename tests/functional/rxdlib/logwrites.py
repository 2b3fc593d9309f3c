# SPDX-License-Identifier: GPL-2.0-only
"""The log of the target log-writes, and what a disk held at each point of it."""

import os
import struct

from .direct import SECTOR, Direct

MAGIC = 0x6A736677736872
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class Entry:
    """A write, a flush, a discard or a mark; sector and data in bytes."""

    def __init__(self, flags, offset, length, data, mark):
        self.flags, self.offset, self.length = flags, offset, length
        self.data, self.mark = data, mark


def entries(path):
    """All entries of a log, in the order in which they were complete."""
    with Direct(path, os.O_RDONLY) as log:
        magic, version, count, size = SUPER.unpack_from(log.read(0, 4096))
        assert (magic, version) == (MAGIC, 1)
        at = size
        for _ in range(count):
            header = log.read(at, size)
            at += size
            sector, nr, flags, length = ENTRY.unpack_from(header)
            data, mark = b"", None
            if flags & MARK:
                mark = header[ENTRY.size:ENTRY.size + length].decode().rstrip("\0")
            elif nr and not flags & DISCARD:
                data = log.read(at, nr * size)
                at += nr * size
            yield Entry(flags, sector * size, nr * size, data, mark)


def apply(entry, fd):
    """Do to a file what was done to the disk."""
    if entry.flags & DISCARD:
        for offset in range(entry.offset, entry.offset + entry.length, 1 << 20):
            os.pwrite(fd, bytes(min(1 << 20, entry.offset + entry.length - offset)), offset)
    elif entry.data:
        assert len(entry.data) % SECTOR == 0
        os.pwrite(fd, entry.data, entry.offset)
