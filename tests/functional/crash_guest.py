# SPDX-License-Identifier: GPL-2.0-only
"""The guests' part of tests/guest/crash.

usage: crash_guest.py write|check DISK ACKS

Write number n goes to a place, with a length, that n alone determines, and each
of its sectors carries n and its own number. "write" appends n to ACKS as soon as
the write has completed, and goes on until the guest is killed.
"""

import os
import random
import struct
import sys

from rxdlib import modules
from rxdlib.direct import MIB, SECTOR, Direct
from rxdlib.lab import Lab

AREA = 16 * MIB
CACHE = 4 * MIB
SECTORS = AREA // SECTOR
LENGTHS = (1, 3, 8, 8, 8, 16, 17, 128)


def place(number):
    """First sector and number of sectors of a write."""
    chance = random.Random(number)
    count = chance.choice(LENGTHS)
    first = chance.randrange(SECTORS - count + 1)
    # Half of them hit the same few blocks again and again.
    return (first % 512 if chance.random() < 0.5 else first), count


def sector(number, position):
    return struct.pack("<QQ", number, position) * (SECTOR // 16)


def data(number):
    first, count = place(number)
    return b"".join(sector(number, position) for position in range(first, first + count))


def write(disk, acks):
    modules.load()
    with Lab() as lab:
        cache = lab.cache(AREA, cache_size=CACHE, origin=disk)
        log = os.open(acks, os.O_WRONLY | os.O_APPEND)
        number = 0
        with Direct(cache.path) as device:
            while True:
                number += 1
                first, count = place(number)
                device.write(first * SECTOR, data(number))
                os.write(log, f"{number}\n".encode())
                back = device.read(first * SECTOR, count * SECTOR)
                if back != data(number):
                    sys.exit(f"write {number} does not read back")


def check(disk, acks):
    with open(acks, encoding="ascii") as file:
        done = [int(line) for line in file.read().split("\n")[:-1]]
    if not done or done != list(range(1, len(done) + 1)):
        sys.exit("the list of completed writes is broken")
    expected = [0] * SECTORS
    for number in done:
        first, count = place(number)
        expected[first:first + count] = [number] * count
    # One more write may have been in flight.
    first, count = place(done[-1] + 1)
    under_way = range(first, first + count)

    with Direct(disk, os.O_RDONLY) as device:
        held = b"".join(device.read(offset, MIB) for offset in range(0, AREA, MIB))
    checked = 0
    for position, number in enumerate(expected):
        found = held[position * SECTOR:(position + 1) * SECTOR]
        allowed = [sector(number, position) if number else bytes(SECTOR)]
        if position in under_way:
            allowed.append(sector(done[-1] + 1, position))
        if found not in allowed:
            holds = struct.unpack("<QQ", found[:16])
            sys.exit(f"sector {position}: write {number} completed, the disk holds {holds}")
        checked += bool(number)
    print(f"{len(done)} writes, {checked} sectors: all on the disk")


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("write", "check"):
        sys.exit("usage: crash_guest.py write|check DISK ACKS")
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
