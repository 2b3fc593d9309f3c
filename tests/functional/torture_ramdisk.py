# SPDX-License-Identifier: GPL-2.0-only
"""Everything at once, and a thousand times."""

import ctypes
import errno
import multiprocessing
import os
import random
import threading
import time

from rxdlib import lab as lablib
from rxdlib import memory
from rxdlib.command import run
from rxdlib.control import RESIZE_FORCE, Control
from rxdlib.direct import BLOCK, MIB, Direct, libc, stamp
from rxdlib.lab import LONG

from test_fio_verify import JOBS, SIZE, fio

RESIZES = int(os.environ.get("RXD_RESIZES", 1000 if LONG else 40))
SECONDS = 120 if LONG else 15
PROCESSES = 8


def test_fio_beside_resizes_and_discards(lab):
    """Blocks of fio never change; blocks beyond the end may fail; nothing leaks."""
    area = JOBS * SIZE
    low, high = 2 * area, 4 * area
    ramdisk = lab.ramdisk(high)
    over = threading.Event()
    wrong = []
    done = {"fio": 0, "discards": 0, "beyond": 0}

    def guarded(work):
        def body():
            try:
                while not over.is_set():
                    work()
            except BaseException as error:
                wrong.append(repr(error))
        return threading.Thread(target=body)

    def verify():
        fio(ramdisk.path, "--rw=randwrite", "--bs=16k", "--size=512k", "--verify_backlog=8",
            f"--randseed={done['fio']}")
        done["fio"] += 1

    def discard():
        with Direct(ramdisk.path) as device:
            for offset in range(area, low, 64 * BLOCK):
                device.write(offset, stamp(offset, 16 * BLOCK))
            device.discard(area, area)
            done["discards"] += 1

    def beyond():
        """Read and write blocks beyond the end, which exist only at times."""
        with Direct(ramdisk.path) as device:
            for offset in range(low, high, 128 * BLOCK):
                try:
                    device.write(offset, stamp(offset))
                    found = device.read(offset, BLOCK)
                    if found not in (stamp(offset), bytes(BLOCK)):
                        wrong.append(f"foreign data at {offset}")
                except EOFError:
                    pass
                except OSError as error:
                    # The errors of the block layer and of the driver beyond the end.
                    if error.errno not in (errno.ENOSPC, errno.EIO):
                        raise
                done["beyond"] += 1

    before = memory.spare()
    threads = [guarded(work) for work in (verify, discard, beyond)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(RESIZES):
            ramdisk.resize(low, RESIZE_FORCE)
            ramdisk.resize(high)
            if wrong:
                break
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert min(done.values()) > 0, done
    with Direct(ramdisk.path) as device:
        device.discard(0, high)
    assert ramdisk.query().mem_used == 0 and ramdisk.extents() == []
    ramdisk.remove()
    assert memory.missing(before, 8 * MIB) < 8 * MIB


# Eight processes. The first MiB of a disk holds a file system or nothing.

IMAGE = MIB
MS_RDONLY = 1

GONE = {errno.ENOENT, errno.ENXIO}
ALLOWED = {
    "create": {errno.EEXIST},
    "remove": {errno.ENODEV, errno.EBUSY},
    "grow": {errno.ENODEV, errno.EBUSY, errno.ENOTEMPTY},
    "force": {errno.ENODEV},
    "clear": {errno.ENODEV, errno.EBUSY},
    "query": {errno.ENODEV},
    "use": GONE | {errno.ENOSPC, errno.EIO},
    "format": GONE | {errno.EIO, errno.ENOSPC},
    "attribute": GONE | {errno.ENODEV},
    # EINVAL: no file system; EBUSY: it is opened exclusively; EIO: cut off meanwhile
    # Another process may have cut it off or written over it since it was formatted: ext4
    # calls that a structure (EUCLEAN) or a checksum (EBADMSG) that is wrong.
    "mount": GONE | {errno.EINVAL, errno.EBUSY, errno.EIO, errno.ENODEV, errno.EUCLEAN,
                     errno.EBADMSG},
    "map": GONE,
}


class Worker:
    """Use three disks at random, and record the results."""

    def __init__(self, number, image, directory):
        self.chance = random.Random(number)
        self.image, self.directory = image, directory
        self.control = Control()
        self.results = {}
        self.wrong = []

    def disk(self):
        return lablib.RamDisk(self.chance.randrange(3))

    def create(self):
        self.control.create(4 * MIB, index=self.chance.randrange(3))

    def remove(self):
        self.control.remove(self.disk().index)

    def grow(self):
        self.control.resize(self.disk().index, self.chance.randrange(2, 9) * MIB)

    def force(self):
        self.control.resize(self.disk().index, self.chance.randrange(2, 9) * MIB, RESIZE_FORCE)

    def clear(self):
        self.control.clear(self.disk().index)

    def query(self):
        self.control.query(self.disk().index)

    def use(self):
        with Direct(self.disk().path) as device:
            offset = IMAGE + self.chance.randrange(MIB // BLOCK) * BLOCK
            data = stamp(offset)
            device.write(offset, data)
            found = device.read(offset, BLOCK)
            if found not in (data, bytes(BLOCK)):
                self.wrong.append(f"foreign data at {offset}")
            device.discard(offset, BLOCK)

    def format(self):
        with Direct(self.disk().path) as device:
            device.write(0, self.image)

    def map(self):
        self.disk().extents()

    def attribute(self):
        disk = self.disk()
        disk.set_attribute("mem_limit", 0)
        disk.attribute(self.chance.choice(["state", "mem_used", "uuid", "reads"]))

    def mount(self):
        disk = self.disk()
        if libc.mount(disk.path.encode(), self.directory.encode(), b"ext4",
                      ctypes.c_ulong(MS_RDONLY), None):
            raise OSError(ctypes.get_errno(), "mount")
        try:
            if "lost+found" not in os.listdir(self.directory):
                self.wrong.append("a file system without lost+found")
            if self.chance.random() < 0.5:
                self.remove_mounted()
        finally:
            if libc.umount2(self.directory.encode(), 0):
                self.wrong.append(f"umount: {os.strerror(ctypes.get_errno())}")

    def remove_mounted(self):
        """Between the lookup of a node and the mount, its number may pass to another disk."""
        device = os.stat(self.directory).st_dev
        link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
        try:
            name = os.path.basename(os.readlink(link))
        except FileNotFoundError:
            self.wrong.append(f"{link} is mounted, and gone")
            return
        try:
            self.control.remove(int(name.removeprefix("rxd")))
            self.wrong.append(f"{name}, mounted, was removed")
        except OSError as error:
            if error.errno != errno.EBUSY:
                self.wrong.append(f"remove of {name}, which is mounted: {error}")

    def run(self, seconds, queue):
        names = [*ALLOWED, "create", "format", "mount", "use", "use"]
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.wrong:
            name = self.chance.choice(names)
            try:
                getattr(self, name)()
                result = "done"
            except EOFError:
                result = "end"
            except OSError as error:
                result = errno.errorcode[error.errno]
                if error.errno not in ALLOWED[name]:
                    self.wrong.append(f"{name}: {result}")
            key = f"{name} {result}"
            self.results[key] = self.results.get(key, 0) + 1
        queue.put((self.wrong, self.results))


def test_eight_processes(lab):
    """Open, close, mount, remove, resize: only documented errors."""
    run("modprobe", "ext4")
    path = lab.file(IMAGE)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal,^resize_inode", "-b", "4096", path)
    with open(path, "rb") as file:
        image = file.read()
    assert len(image) == IMAGE
    for index in range(3):
        lab.adopt_ramdisk(index)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    directories = [lab.directory() for _ in range(PROCESSES)]
    workers = [context.Process(target=lambda number=number: Worker(
        number, image, directories[number]).run(SECONDS, queue)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    outcomes = [queue.get(timeout=SECONDS + 120) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    assert [wrong for wrong, _ in outcomes if wrong] == []
    total = {}
    for _, results in outcomes:
        for key, count in results.items():
            total[key] = total.get(key, 0) + count
    print(total)
    for name in ALLOWED:
        assert total.get(f"{name} done", 0) > 0, total
    assert total.get("remove EBUSY", 0) > 0, total
