# SPDX-License-Identifier: GPL-2.0-only
"""The data that make-bcache writes: the start of a disk and of a cache that form a pair."""

import os
import struct

MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
POLYNOMIAL, MASK = 0x42F0E1EBA9EA3693, 2**64 - 1
SB_SECTOR, DATA_SECTOR = 8, 16
CACHE, BACKING = 3, 4
# In sectors. bcache keeps one of 1,024 buckets free, and caches no write without a free one.
BLOCK, LARGEST_BUCKET = 8, 1024
LEAST_BUCKETS = 4096


def _crc64(data):
    crc = MASK
    for byte in data:
        crc ^= byte << 56
        for _bit in range(8):
            crc = (crc << 1 & MASK) ^ (POLYNOMIAL if crc >> 63 else 0)
    return crc ^ MASK


def _superblock(version, group, first, bucket, nr_in_set, first_bucket):
    """All of struct cache_sb_disk up to its keys, except the checksum; there are no keys."""
    body = struct.pack("<QQ16s16s16s32sQQ3Q5QQHHHHIHH", SB_SECTOR, version, MAGIC,
                       os.urandom(16), group, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                       first, BLOCK, bucket, nr_in_set, 0, 0, first_bucket, 0)
    return bytes(SB_SECTOR * 512) + (struct.pack("<Q", _crc64(body)) + body).ljust(4096, b"\0")


def _bucket(sectors):
    """The largest bucket size that gives enough buckets."""
    bucket = LARGEST_BUCKET
    while bucket > BLOCK and sectors // bucket < LEAST_BUCKETS:
        bucket //= 2
    return bucket


def superblocks(sectors, group):
    """The start of a disk, and of a cache of this many sectors."""
    bucket = _bucket(sectors)
    return (_superblock(BACKING, group, DATA_SECTOR, 0, 0, 0),
            _superblock(CACHE, group, sectors // bucket, bucket, 1, 1))


def format_pair(backing, cache, sectors):
    """Write both; return the UUID of the set, as in sysfs."""
    group = os.urandom(16)
    for path, block in zip((backing, cache), superblocks(sectors, group)):
        with open(path, "r+b") as file:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
    text = group.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
