# SPDX-License-Identifier: GPL-2.0-only
"""Each flush that an application asks for reaches the disk."""

import os

import pytest

from rxdlib import dm
from rxdlib.command import run
from rxdlib.direct import BLOCK, MIB, Direct, stamp
from rxdlib.lab import DISK, FLUSHES, counter

COUNT = 100
SIZE = 64 * MIB


@pytest.fixture(scope="module", autouse=True)
def volatile_disk():
    """The disk needs a write cache, because other disks receive no flushes."""
    assert dm.queue(DISK, "write_cache") == "write back"


def flushes():
    """Flushes that the disk has completed."""
    return counter(DISK, FLUSHES)


def write_and(sync, flags=0):
    def workload(path):
        with Direct(path, os.O_RDWR | flags) as device:
            for number in range(COUNT):
                device.write(number % 16 * BLOCK, stamp(number))
                if sync:
                    sync(device.fd)
    return workload


def flush_only(path):
    with Direct(path) as device:
        for _ in range(COUNT):
            os.fsync(device.fd)


def buffered(path):
    fd = os.open(path, os.O_RDWR)
    try:
        for number in range(COUNT):
            os.pwrite(fd, stamp(number), number % 16 * BLOCK)
            os.fsync(fd)
    finally:
        os.close(fd)


WORKLOADS = {
    "fsync": (write_and(os.fsync), COUNT),
    "fdatasync": (write_and(os.fdatasync), COUNT),
    "O_DSYNC": (write_and(None, os.O_DSYNC), COUNT),
    "buffered": (buffered, COUNT),
    "flush-only": (flush_only, COUNT),
    "no-flush": (write_and(None), 0),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_as_many_as_through_linear(lab, workload):
    function, least = WORKLOADS[workload]
    name, path = lab.linear(SIZE)
    before = flushes()
    function(path)
    linear = flushes() - before
    dm.remove(name)

    cache = lab.cache(SIZE)
    assert dm.queue(cache.path, "write_cache") == "write back"
    before = flushes()
    function(cache.path)
    assert flushes() - before == linear
    assert linear >= least if least else linear == 0


def test_file_system(lab):
    """fsync of a file on the cache flushes the disk, each time."""
    cache = lab.cache(SIZE)
    run("mkfs.ext4", "-q", "-F", cache.path)
    directory = lab.mount(cache.path)
    with open(os.path.join(directory, "file"), "wb") as file:
        before = flushes()
        for number in range(COUNT):
            os.pwrite(file.fileno(), stamp(number), number * BLOCK)
            os.fsync(file.fileno())
        assert flushes() - before >= COUNT


def test_flush_error_is_reported(lab):
    """If the flush of the disk fails, fsync of the application fails."""
    name, origin = lab.linear(SIZE)
    cache = lab.cache(SIZE, origin=origin)
    with Direct(cache.path) as device:
        device.write(0, stamp(1))
        os.fsync(device.fd)
        dm.replace(name, f"0 {SIZE // 512} flakey {DISK} 0 0 3600")
        try:
            with pytest.raises(OSError):
                device.write(0, stamp(2))
            with pytest.raises(OSError):
                os.fsync(device.fd)
        finally:
            dm.replace(name, f"0 {SIZE // 512} linear {DISK} 0")
        os.fsync(device.fd)
        assert device.read(0, BLOCK) == stamp(1)
    assert cache.status().origin_errors >= 2
