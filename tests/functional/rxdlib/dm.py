# SPDX-License-Identifier: GPL-2.0-only
"""dmsetup, and the lines of the rxcache target."""

import fcntl
import os
import struct

from .command import run

DM_LIST_DEVICES = 0xC138FD02
# struct dm_ioctl up to its flags; the list follows it.
HEADER = struct.Struct("=III II")
HEADER_SIZE = 312
LIST_SIZE = 1 << 16


def names():
    """All mapped devices, also those without a table."""
    buffer = bytearray(LIST_SIZE)
    HEADER.pack_into(buffer, 0, 4, 0, 0, LIST_SIZE, HEADER_SIZE)
    with open("/dev/mapper/control", "rb", buffering=0) as control:
        fcntl.ioctl(control, DM_LIST_DEVICES, buffer, True)
    found = []
    at = HEADER_SIZE
    while True:
        number, following = struct.unpack_from("=QI", buffer, at)
        if number:
            name = buffer[at + 12:buffer.index(0, at + 12)]
            found.append(name.decode())
        if not following:
            return found
        at += following


def create(name, table, *options):
    run("dmsetup", "create", *options, name, stdin=table + "\n")
    return f"/dev/mapper/{name}"


def remove(name):
    run("dmsetup", "remove", "--retry", name)


def replace(name, table, *options):
    """Give a mapped device another table."""
    run("dmsetup", "suspend", *options, name)
    run("dmsetup", "load", name, stdin=table + "\n")
    run("dmsetup", "resume", name)


def table(name):
    return run("dmsetup", "table", name).stdout.rstrip("\n")


def message(name, *words, check=True):
    return run("dmsetup", "message", "--", name, "0", *words, check=check)


def number(path):
    """MAJOR:MINOR of a device."""
    device = os.stat(path).st_rdev
    return f"{os.major(device)}:{os.minor(device)}"


def queue(path, name):
    """A line of /sys/dev/block/MAJOR:MINOR/queue, of a whole device."""
    with open(f"/sys/dev/block/{number(path)}/queue/{name}", encoding="ascii") as file:
        return file.read().strip()


class Status:
    """The status line of a rxcache mapping."""

    COUNTERS = ("read_hits", "read_misses", "read_partials",
                "write_hits", "write_misses", "write_partials",
                "fills", "evictions", "bypasses", "invalidations", "origin_errors")

    def __init__(self, name):
        line = run("dmsetup", "status", name).stdout.split()
        self.start, self.length, self.target = int(line[0]), int(line[1]), line[2]
        self.block_size = int(line[3])
        self.used, self.total = (int(part) for part in line[4].split("/"))
        self.metadata = int(line[5])
        self.counters = {key: int(value) for key, value in zip(self.COUNTERS, line[6:17])}
        count = int(line[17])
        self.features = line[18:18 + count]
        self.rest = line[18 + count:]

    def __getattr__(self, key):
        try:
            return self.counters[key]
        except KeyError:
            raise AttributeError(key) from None

    def since(self, earlier):
        """The counters that changed after another status, and by how much."""
        return {key: value - earlier.counters[key] for key, value in self.counters.items()
                if value != earlier.counters[key]}
