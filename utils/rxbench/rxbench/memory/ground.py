# SPDX-License-Identifier: GPL-2.0-only
"""One disk in parts, the same for each way; what a part reads is counted below all caches.

    on the cache, mounted and read:             part | part | ...
    what a cache is put before:       [header | part | part | ...]
    below it, counted:                          part | part | ...
    the disk:                          header | part | part | ...

Only bcache takes the header, so that the others find its data in the same place.
"""

import os
import tempfile

from ..peers import caches
from ..system import command, devices, guard, machine

PREFIX = "rxbench-memory"
# The part that a copy reads, without a file system.
COPY = "copy"
# bcache stores its superblock before the data.
HEADER = caches.bcache.DATA_SECTOR * caches.SECTOR
MIB = 1 << 20
# Space that ext4 needs for itself.
OVERHEAD, LEAST_OVERHEAD = 0.06, 32 * MIB


def room(size):
    """The size of a file system that holds this much data, in whole MiB."""
    return -(-int(size * (1 + OVERHEAD) + LEAST_OVERHEAD) // MIB) * MIB


def format_part(device):
    """Format with blocks of 4 KiB: bcache rejects the smaller ones of a small file system.

    No space is reserved for root: the server of a database runs as another user.
    """
    devices.make_filesystem(device, "ext4", "-b", "4096", "-m", "0")


def total(parts):
    """Bytes of the disk that parts with these sizes need."""
    return HEADER + sum(parts.values())


def counters(device):
    """Reads, and bytes read, of a device since it was created."""
    words = machine.read(f"{guard.sysfs_folder(device)}/stat").split()
    return {"reads": int(words[0]), "bytes": int(words[2]) * caches.SECTOR}


def since(device, before):
    return {name: value - before[name] for name, value in counters(device).items()}


def table(pieces):
    """Lines of dm-linear for (device, first byte, bytes), one after the other."""
    lines, begin = [], 0
    for device, offset, size in pieces:
        lines.append(f"{begin} {size // caches.SECTOR} linear {device} {offset // caches.SECTOR}\n")
        begin += size // caches.SECTOR
    return "".join(lines)


def mapped(undo, name, pieces):
    """A device of several pieces: dmsetup reads more than one line only from a file."""
    def make():
        with tempfile.NamedTemporaryFile("w", prefix="rxbench-") as file:
            file.write(table(pieces))
            file.flush()
            command.run("dmsetup", "create", name, file.name)
    undo.do(f"mapping {name}", make, lambda _: devices.settled("dmsetup", "remove", name))
    return f"/dev/mapper/{name}"


class Ground:
    """The parts of a disk, by name, with their sizes in bytes."""

    def __init__(self, parts):
        self.parts, self.disk, self.below = parts, None, {}

    def set_up(self, undo, disk):
        self.disk, offset = disk, HEADER
        for name, size in self.parts.items():
            self.below[name] = mapped(undo, f"{PREFIX}-{name}-disk", [(disk, offset, size)])
            offset += size

    def whole(self, undo, header=False):
        """The device that a cache is put before."""
        pieces = [(self.disk, 0, HEADER)] if header else []
        pieces += [(self.below[name], 0, size) for name, size in self.parts.items()]
        if header:
            undo.do("bcache's superblock", lambda: None, lambda _: self._clear_header())
        return mapped(undo, f"{PREFIX}-whole", pieces)

    def _clear_header(self):
        with open(self.disk, "r+b") as file:
            file.write(bytes(HEADER))
            file.flush()
            os.fsync(file.fileno())

    def apart(self, undo, node, *names):
        """Separate parts again, on a cache before the whole device, or on the device itself."""
        found, offset = {}, 0
        for name, size in self.parts.items():
            if name in names:
                found[name] = mapped(undo, f"{PREFIX}-{name}", [(node, offset, size)])
            offset += size
        return [found[name] for name in names]
