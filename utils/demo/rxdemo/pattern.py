# SPDX-License-Identifier: GPL-2.0-only
"""Known bytes, written in pieces of many sizes, and found again."""

import contextlib
import hashlib
import mmap
import os
import random

KIB, MIB = 1 << 10, 1 << 20

# The share of the pattern that is written again in small pieces.
REWRITES = 64
SIZES = (512, 4 * KIB, 12 * KIB, 64 * KIB)


@contextlib.contextmanager
def _opened(path, flags):
    fd = os.open(path, flags | os.O_DIRECT)
    try:
        yield fd
    finally:
        os.close(fd)


class Pattern:
    """Random data, and the plan of the writes that put it on a device."""

    def __init__(self, size, sector=512, seed=None):
        self.size = size
        self.data = bytearray(os.urandom(size))
        chance = random.Random(seed)
        sizes = [piece for piece in SIZES if piece % sector == 0]
        self.rewrites = []
        for _ in range(REWRITES):
            piece = chance.choice(sizes)
            start = chance.randrange((size - piece) // sector + 1) * sector
            self.rewrites.append((start, os.urandom(piece)))

    def write(self, device, offset):
        """Write it all in pieces of 1 MiB, then the rewrites; then flush."""
        with _opened(device, os.O_WRONLY) as fd, mmap.mmap(-1, MIB) as buffer:
            for start in range(0, self.size, MIB):
                self._put(fd, buffer, offset + start, self.data[start:start + MIB])
            for start, piece in self.rewrites:
                self._put(fd, buffer, offset + start, piece)
                self.data[start:start + len(piece)] = piece
            os.fsync(fd)

    @staticmethod
    def _put(fd, buffer, position, piece):
        # O_DIRECT wants memory aligned as only mmap gives it.
        buffer[:len(piece)] = bytes(piece)
        with memoryview(buffer) as view, view[:len(piece)] as part:
            if os.pwrite(fd, part, position) != len(piece):
                raise OSError(f"short write at byte {position}")

    def differs_at(self, device, offset):
        """The first byte of the device that is not as written, or None."""
        position = 0
        for chunk in read_direct(device, offset, self.size):
            wanted = self.data[position:position + len(chunk)]
            if chunk != wanted:
                return offset + position + next(
                    index for index, pair in enumerate(zip(chunk, wanted)) if pair[0] != pair[1])
            position += len(chunk)
        return None


def read_direct(device, offset, size):
    """Yield the bytes of a device in pieces of 1 MiB, past the page cache."""
    with _opened(device, os.O_RDONLY) as fd, mmap.mmap(-1, MIB) as buffer:
        for start in range(offset, offset + size, MIB):
            length = min(MIB, offset + size - start)
            with memoryview(buffer) as view, view[:length] as part:
                if os.preadv(fd, [part], start) != length:
                    raise OSError(f"{device}: short read at byte {start}")
            yield buffer[:length]


def digest(device, offset, size):
    """SHA-256 of a part of a device."""
    sha = hashlib.sha256()
    for chunk in read_direct(device, offset, size):
        sha.update(chunk)
    return sha.hexdigest()
