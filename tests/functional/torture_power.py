# SPDX-License-Identifier: GPL-2.0-only
"""What a disk under a cache holds whenever the power may fail: all that was synced.

dm-log-writes, between the cache and the disk, logs each write and flush. The log is
replayed up to flushes and FUA writes: the file system must check clean there, and
hold each file whose fsync had returned before.
"""

import os
import shutil

import pytest

from rxdlib import dm, logwrites
from rxdlib.command import run
from rxdlib.direct import KIB, MIB, SECTOR, stamp
from rxdlib.lab import LONG

SIZE = 32 * MIB
FILES = 24
# How many points are looked at; RXD_CRASH_POINTS=1000 looks at them all.
MAX_CHECKS = int(os.environ.get("RXD_CRASH_POINTS", 16 if LONG else 5))


def content(number):
    return stamp(number, 4 * KIB * (1 + number % 5), 7)


def workload(directory, log_name):
    """Create, overwrite, rename and sync, and note in the log what is safe."""
    for number in range(FILES):
        path = os.path.join(directory, f"file{number}")
        fd = os.open(path + ".new", os.O_CREAT | os.O_RDWR)
        try:
            os.pwrite(fd, content(number + 1000), 0)
            os.pwrite(fd, content(number), 0)
            os.ftruncate(fd, len(content(number)))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(path + ".new", path)
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
        # Some of it is read back through the cache, to have hits and fills in between.
        with open(path, "rb") as file:
            assert file.read() == content(number)
        dm.message(log_name, "mark", f"synced{number}")


@pytest.fixture
def image(lab):
    path = lab.file(SIZE)
    yield path


def check(lab, image, number, synced):
    """A copy of the image, as the machine would find it."""
    copy = lab.file(SIZE)
    shutil.copyfile(image, copy)
    # The journal is replayed by mounting; only then must all be clean.
    directory = lab.mount(copy, "-o", "loop")
    try:
        for file in range(synced):
            with open(os.path.join(directory, f"file{file}"), "rb") as found:
                assert found.read() == content(file), f"point {number}: file{file} is not right"
    finally:
        run("umount", directory)
    result = run("e2fsck", "-fn", copy, check=False)
    assert result.returncode == 0, f"point {number}: {result.stdout}"
    os.truncate(copy, 0)


@pytest.mark.parametrize("mode", ["writethrough", "writearound"])
def test_all_that_was_synced_is_there(lab, image, mode):
    run("modprobe", "loop")
    disk, log = lab.ramdisk(SIZE), lab.ramdisk(512 * MIB, overcommit=True)
    log_name = lab.mapped(f"0 {SIZE // SECTOR} log-writes {disk.path} {log.path}")
    cache = lab.cache(SIZE, cache_size=8 * MIB, origin=f"/dev/mapper/{log_name}", features=[mode])
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", cache.path)
    dm.message(log_name, "mark", "made")
    directory = lab.mount(cache.path)
    workload(directory, log_name)
    run("umount", directory)
    assert cache.status().origin_errors == 0
    dm.remove(cache.name)
    dm.remove(log_name)

    found = list(logwrites.entries(log.path))
    made = next(i for i, entry in enumerate(found) if entry.mark == "made")
    points = [i for i, entry in enumerate(found)
              if i > made and entry.flags & (logwrites.FLUSH | logwrites.FUA)]
    assert len(points) >= FILES
    step = -(-len(points) // MAX_CHECKS)
    checked = set(points[::step])
    synced = 0
    fd = os.open(image, os.O_RDWR)
    try:
        for number, entry in enumerate(found):
            logwrites.apply(entry, fd)
            if entry.mark and entry.mark.startswith("synced"):
                synced += 1
            if number in checked:
                check(lab, image, number, synced)
    finally:
        os.close(fd)
    assert synced == FILES
    with open(disk.path, "rb") as device, open(image, "rb") as replayed:
        assert device.read() == replayed.read()
