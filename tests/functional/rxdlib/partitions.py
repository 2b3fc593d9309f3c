# SPDX-License-Identifier: GPL-2.0-only
"""Partition tables, written as the standards have them; there is no sfdisk in the guests."""

import os
import struct
import uuid
import zlib

SECTOR = 512
LINUX, EXTENDED, PROTECTIVE = 0x83, 0x05, 0xee
LINUX_DATA = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")


def _boot_record(entries):
    """A sector with up to four (type, first sector, sectors)."""
    nowhere = b"\xfe\xff\xff"
    table = b"".join(struct.pack("<B3sB3sII", 0, nowhere, kind, nowhere, start, size)
                     for kind, start, size in entries)
    return bytes(446) + table.ljust(64, b"\0") + b"\x55\xaa"


def mbr(disk, parts, primary=3, end=None, stale=()):
    """Partitions as (first byte, bytes); the fourth and all after it are logical.

    Before each of those there must be room for a sector. The extended partition ends with the last
    one, or at a byte. Stale entries precede the links to the next boot record.
    """
    sectors = [(start // SECTOR, size // SECTOR) for start, size in parts]
    logical = sectors[primary:]
    entries = [(LINUX, *each) for each in sectors[:primary]]
    base = logical[0][0] - 1 if logical else 0
    end = end // SECTOR if end else sum(logical[-1]) if logical else 0
    if logical:
        entries.append((EXTENDED, base, end - base))
    with open(disk, "r+b") as file:
        file.write(_boot_record(entries))
        for number, (start, size) in enumerate(logical):
            links = [(LINUX, 1, size), *stale]
            if number + 1 < len(logical):
                following, length = logical[number + 1]
                links.append((EXTENDED, following - 1 - base, length + 1))
            file.seek((start - 1) * SECTOR)
            file.write(_boot_record(links))


def gpt(disk, parts):
    """Partitions as (first byte, bytes)."""
    with open(disk, "r+b") as file:
        last = file.seek(0, os.SEEK_END) // SECTOR - 1
        entries = b"".join(struct.pack("<16s16sQQQ72s", LINUX_DATA.bytes_le, uuid.uuid4().bytes_le,
                                       start // SECTOR, (start + size) // SECTOR - 1, 0, b"")
                           for start, size in parts).ljust(128 * 128, b"\0")
        identity = uuid.uuid4().bytes_le

        def header(here, other, table):
            def packed(crc):
                return struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, crc, 0, here,
                                   other, 34, last - 33, identity, table, 128, 128,
                                   zlib.crc32(entries))
            return packed(zlib.crc32(packed(0))).ljust(SECTOR, b"\0")

        for at, data in ((0, _boot_record([(PROTECTIVE, 1, last)])), (1, header(1, last, 2)),
                         (2, entries), (last - 32, entries), (last, header(last, 1, last - 32))):
            file.seek(at * SECTOR)
            file.write(data)
