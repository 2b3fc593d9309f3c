# SPDX-License-Identifier: GPL-2.0-only
"""File systems on the RAM disk and on the cache."""

import errno
import hashlib
import os
import time

import pytest

from rxdlib import dm
from rxdlib.command import run
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK

SIZES = {"ext4": 64 * MIB, "xfs": 320 * MIB}
CHECKS = {"ext4": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n")}


def make(kind, device):
    options = {"ext4": ("-q", "-F"), "xfs": ("-q", "-f")}[kind]
    run(f"mkfs.{kind}", *options, device)


def write_files(directory):
    """Files of several sizes, each synced; returns their digests."""
    digests = {}
    for number, size in enumerate([0, 1, 511, 4096, 4097, 65536, 3 * MIB]):
        path = os.path.join(directory, f"file{number}")
        data = stamp(number, (size + 15) // 16 * 16)[:size]
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        digests[f"file{number}"] = hashlib.sha256(data).hexdigest()
    os.rename(os.path.join(directory, "file1"), os.path.join(directory, "renamed"))
    digests["renamed"] = digests.pop("file1")
    os.unlink(os.path.join(directory, "file2"))
    del digests["file2"]
    return digests


def read_files(directory):
    digests = {}
    for name in os.listdir(directory):
        if name != "lost+found":
            with open(os.path.join(directory, name), "rb") as file:
                digests[name] = hashlib.sha256(file.read()).hexdigest()
    return digests


def exercise(lab, kind, device):
    """mkfs, mount, write, fsync, umount, check, mount again, read."""
    make(kind, device)
    directory = lab.mount(device)
    written = write_files(directory)
    assert read_files(directory) == written
    run("umount", directory)
    run(*CHECKS[kind], device)
    directory = lab.mount(device)
    assert read_files(directory) == written
    run("umount", directory)
    return written


@pytest.mark.parametrize("kind", SIZES)
def test_on_ramdisk(lab, kind):
    ramdisk = lab.ramdisk(SIZES[kind])
    exercise(lab, kind, ramdisk.path)


@pytest.mark.parametrize("kind", SIZES)
def test_on_cache(lab, kind):
    """The origin alone, after the cache was removed, has the same files."""
    cache = lab.cache(SIZES[kind], cache_size=16 * MIB)
    written = exercise(lab, kind, cache.path)
    assert cache.status().read_hits > 0
    dm.remove(cache.name)
    _, origin = lab.linear(SIZES[kind], DISK)
    run(*CHECKS[kind], origin)
    directory = lab.mount(origin, "-o", "ro")
    assert read_files(directory) == written


@pytest.mark.parametrize("kind", SIZES)
def test_on_4096_byte_sectors(lab, kind):
    origin = lab.ramdisk(SIZES[kind], logical_block_size=4096)
    cache = lab.cache(SIZES[kind], origin=origin.path)
    exercise(lab, kind, cache.path)


def test_trim_frees_memory(lab):
    ramdisk = lab.ramdisk(SIZES["ext4"])
    make("ext4", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    path = os.path.join(directory, "file")
    with open(path, "wb") as file:
        file.write(stamp(1, 16 * MIB))
        file.flush()
        os.fsync(file.fileno())
    full = ramdisk.query().mem_used
    assert full > 16 * MIB
    os.unlink(path)
    os.sync()
    run("fstrim", directory)
    assert ramdisk.query().mem_used < full - 15 * MIB


@pytest.mark.parametrize("options", [(), ("-o", "discard")], ids=["fstrim", "discard"])
def test_rm_gives_memory_back(lab, options):
    """With fstrim, or the mount option, the memory of a removed file is freed."""
    ramdisk = lab.ramdisk(SIZES["ext4"])
    make("ext4", ramdisk.path)
    directory = lab.mount(ramdisk.path, *options)
    os.sync()
    empty = ramdisk.query().mem_used
    path = os.path.join(directory, "file")
    with open(path, "wb") as file:
        file.write(stamp(1, 32 * MIB))
        file.flush()
        os.fsync(file.fileno())
    assert ramdisk.query().mem_used >= empty + 32 * MIB
    os.unlink(path)
    # Blocks are free, and with the option discarded, after the journal has committed.
    os.sync()
    if not options:
        run("fstrim", directory)
    end = time.monotonic() + 60
    while ramdisk.query().mem_used > empty + MIB and time.monotonic() < end:
        time.sleep(0.2)
    assert ramdisk.query().mem_used <= empty + MIB
    assert ramdisk.query().discards > 0
    run("umount", directory)
    run(*CHECKS["ext4"], ramdisk.path)


def test_detach_while_mounted(lab):
    """A mounted cache cannot be removed, and the file system is not affected."""
    cache = lab.cache(SIZES["ext4"])
    make("ext4", cache.path)
    directory = lab.mount(cache.path)
    refused = run("dmsetup", "remove", cache.name, check=False)
    assert refused.returncode and "busy" in refused.stderr
    with pytest.raises(OSError) as caught:
        cache.ramdisk.remove()
    assert caught.value.errno == errno.EBUSY
    written = write_files(directory)
    run("umount", directory)
    run(*CHECKS["ext4"], cache.path)
    directory = lab.mount(cache.path)
    assert read_files(directory) == written
