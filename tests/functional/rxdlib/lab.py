# SPDX-License-Identifier: GPL-2.0-only
"""Devices that a test needs. All of them are removed when it ends."""

import contextlib
import errno
import glob
import os
import re
import tempfile
import time

from . import direct, dm, modules
from .command import run
from .control import CREATE_OVERCOMMIT, MAP_MAX, NODE, SIZE_MAX, Control, map_all
from .direct import MIB, SECTOR, stamp

# One guest sets RXD_LONG and runs long enough to find faults that occur once in 1000 runs.
LONG = bool(os.environ.get("RXD_LONG"))
DISK = os.environ.get("RXD_TEST_DISK", "/dev/vdb")
HOLD_MS = 600_000
WRITES, FLUSHES = 4, 15     # what counter() tells of


def counter(path, field):
    """Read a counter of a disk until it is stable: it may count a request a little late."""
    seen = []
    while len(seen) < 2 or seen[-1] != seen[-2]:
        time.sleep(0.1 * bool(seen))
        with open(f"/sys/dev/block/{dm.number(path)}/stat", encoding="ascii") as file:
            seen.append(int(file.read().split()[field]))
    return seen[-1]


def bytes_read(path):
    """The number of bytes that were read from a disk so far."""
    with open(f"/sys/dev/block/{dm.number(path)}/stat", encoding="ascii") as file:
        return int(file.read().split()[2]) * SECTOR


def prepare(size=4 * MIB, generation=1):
    """Write known data to the disk, not through a cache; return the data."""
    data = stamp(0, size, generation)
    direct.write(DISK, 0, data)
    return data


def counted(cache, function, *args):
    """The counters that a call changes, and its result."""
    before = cache.status()
    result = function(*args)
    return cache.status().since(before), result


def is_there(path):
    """Whether a disk can be used: its node comes before its place in sysfs, and that before
    anybody can open it."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
            raise
        return False
    return True


class RamDisk:
    """/dev/rxdN."""

    def __init__(self, index):
        self.index = index
        self.name = f"rxd{index}"
        self.path = f"/dev/{self.name}"

    def query(self):
        with Control() as control:
            return control.query(self.index)

    def remove(self):
        with Control() as control:
            control.remove(self.index)

    def resize(self, size, flags=0):
        with Control() as control:
            control.resize(self.index, size, flags)

    def clear(self):
        with Control() as control:
            control.clear(self.index)

    def extents(self, start=0, length=SIZE_MAX, count=MAP_MAX):
        """The extents of a range, from RXD_MAP."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return map_all(fd, start, length, count)
        finally:
            os.close(fd)

    def attribute(self, name):
        with open(f"/sys/block/{self.name}/rxd/{name}", encoding="ascii") as file:
            return file.read().strip()

    def seen(self):
        """What RXD_IF_SAME compares."""
        with open(f"/sys/block/{self.name}/diskseq", encoding="ascii") as file:
            return {"diskseq": int(file.read()), "changes": int(self.attribute("changes"))}

    def set_attribute(self, name, value):
        fd = os.open(f"/sys/block/{self.name}/rxd/{name}", os.O_WRONLY)
        try:
            os.write(fd, f"{value}\n".encode())
        finally:
            os.close(fd)


class Cache:
    """A mapping of the target rxcache."""

    def __init__(self, name, origin, ramdisk):
        self.name = name
        self.path = f"/dev/mapper/{name}"
        self.origin = origin
        self.ramdisk = ramdisk

    def status(self):
        return dm.Status(self.name)

    def drop(self):
        dm.message(self.name, "drop")


class Held:
    """A disk that holds I/O until release(), and none afterwards."""

    def __init__(self, lab, size, device, reads, writes):
        self.size, self.device = size, device
        self.name = lab.mapped(self._table(reads * HOLD_MS, writes * HOLD_MS))
        self.path = f"/dev/mapper/{self.name}"
        self.holds = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def _table(self, reads, writes):
        return f"0 {self.size // SECTOR} delay {self.device} 0 {reads} {self.device} 0 {writes}"

    def wait_for(self, number, seconds=60):
        """Wait until so many requests are held: reads, writes and flushes."""
        end, held = time.monotonic() + seconds, 0
        while held < number:
            assert time.monotonic() < end, f"{held} of {number} requests"
            time.sleep(0.01)
            counts = run("dmsetup", "status", self.name).stdout.split()[3:]
            held = sum(int(count) for count in counts)

    def release(self):
        """Suspend the target, which releases all held I/O."""
        if self.holds:
            self.holds = False
            dm.replace(self.name, self._table(0, 0))


class Lab:
    """Makes devices and undoes them in the reverse order."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.serial = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return self.stack.__exit__(*exception)

    def next_name(self, kind):
        self.serial += 1
        return f"{kind}{self.serial}"

    def ramdisk(self, size=16 * MIB, overcommit=False, flags=0, **options):
        with Control() as control:
            index = control.create(size, flags=flags | (CREATE_OVERCOMMIT if overcommit else 0),
                                   **options)
        return self.adopt_ramdisk(index)

    def adopt_ramdisk(self, index):
        """Remove a device at the end, regardless of how it was created."""
        self.stack.callback(self._remove_ramdisk, index)
        return RamDisk(index)

    @staticmethod
    def _remove_ramdisk(index):
        with Control() as control:
            if index in [device.index for device in control.query_all()]:
                control.remove(index)

    def mapped(self, table, *options, name=None):
        """A mapped device of any table."""
        name = name or self.next_name("rxdtest")
        dm.create(name, table, *options)
        self.adopt_mapped(name)
        return name

    def adopt_mapped(self, name):
        self.stack.callback(lambda: name in dm.names() and dm.remove(name))

    def linear(self, size, device=DISK, offset=0):
        """A dm-linear piece of a disk."""
        name = self.mapped(f"0 {size // SECTOR} linear {device} {offset // SECTOR}")
        return name, f"/dev/mapper/{name}"

    def held(self, size, device=DISK, reads=False, writes=False):
        """A piece of a disk whose reads, or writes, can be held; to be used in a with."""
        return Held(self, size, device, reads, writes)

    def cache(self, size=16 * MIB, cache_size=16 * MIB, origin=DISK, block_size=None,
              ramdisk=None, features=()):
        """A cache over the first bytes of an origin."""
        ramdisk = ramdisk or self.ramdisk(cache_size)
        features = list(features)
        if block_size:
            features += ["block_size", str(block_size // SECTOR)]
        tail = f" {len(features)} {' '.join(features)}" if features else ""
        name = self.mapped(f"0 {size // SECTOR} rxcache {origin} {ramdisk.path}{tail}")
        return Cache(name, origin, ramdisk)

    def file(self, size):
        """A sparse file."""
        fd, path = tempfile.mkstemp(dir="/tmp", prefix="rxdtest-")
        self.stack.callback(os.unlink, path)
        os.ftruncate(fd, size)
        os.close(fd)
        return path

    def loop(self, size, sector_size=512):
        """A loop device on a sparse file."""
        device = self.loop_on(self.file(size), f"--sector-size={sector_size}")
        # A disk that was once set read-only stays read-only, even if its file is writable.
        run("blockdev", "--setrw", device)
        return device

    def loop_on(self, path, *options):
        """A loop device on a file or a device."""
        run("modprobe", "loop")
        device = run("losetup", "--find", "--show", *options, path).stdout.strip()
        self.stack.callback(run, "losetup", "--detach", device)
        return device

    def directory(self):
        path = tempfile.mkdtemp(dir="/tmp", prefix="rxdtest-")
        self.stack.callback(os.rmdir, path)
        os.chmod(path, 0o755)
        return path

    def mount(self, device, *options):
        """Mount a device; returns the directory."""
        directory = self.directory()
        run("mount", *options, device, directory)
        self.stack.callback(lambda: os.path.ismount(directory) and run("umount", directory))
        return directory


def mounts():
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return [line for line in file
                if re.match(r"/dev/(rxd|mapper/|dm-|loop)", line) or "rxdtest-" in line]


def loops():
    return sorted(path.split("/")[3] for path in glob.glob("/sys/block/loop*/loop/backing_file"))


def state():
    """The state that a refused request must not change."""
    ramdisks = []
    if os.path.exists(NODE):
        with Control() as control:
            ramdisks = [vars(device) for device in control.query_all()]
    return {"ramdisks": ramdisks,
            "mappings": {name: dm.table(name) for name in dm.names()},
            "nodes": sorted(os.listdir("/dev/mapper")),
            "mounts": mounts(),
            "loops": loops(),
            "modules": sorted(modules.loaded() & {modules.RXD, modules.RXCACHE})}


def leftovers():
    """Return what a test did not undo, and undo it."""
    found = []
    for line in reversed(mounts()):
        device, directory = line.split()[:2]
        found.append(f"{device} mounted on {directory}")
        run("umount", directory, check=False)
    for _ in range(3):
        for name in dm.names():
            found.append(f"mapped device {name}")
            run("dmsetup", "remove", "--force", name, check=False)
    for name in loops():
        found.append(f"/dev/{name}")
        run("losetup", "--detach", f"/dev/{name}", check=False)
    if os.path.exists(NODE):
        with Control() as control:
            for device in control.query_all():
                found.append(f"/dev/rxd{device.index}")
                with contextlib.suppress(OSError):
                    control.remove(device.index)
    return list(dict.fromkeys(found))
