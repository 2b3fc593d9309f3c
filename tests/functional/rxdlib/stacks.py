# SPDX-License-Identifier: GPL-2.0-only
"""What people put between a RAM disk and a file system."""

import contextlib
import os
import time

from . import dm
from .command import run
from .direct import GIB, KIB, MIB, SECTOR, Direct

CHUNK = 64 * KIB
KEY = b"0123456789abcdef" * 4


class Stack:
    """A device, the RAM disks it is made of, and what may be expected of it."""

    def __init__(self, path, ramdisks, origin=None, survives=False, errors=(), whole=False,
                 discards=True, scrambled=False):
        self.path, self.ramdisks, self.origin = path, ramdisks, origin
        self.survives = survives    # a member that fails
        self.errors = errors        # options of rwmodel for the errors that come up
        self.whole = whole          # it is a RAM disk itself
        self.discards = discards    # it passes them on, each block
        self.scrambled = scrambled  # what was never written holds anything


def disk(lab, size, **options):
    ramdisk = lab.ramdisk(size, **options)
    return Stack(ramdisk.path, [ramdisk], whole=True)


def partition(lab, size, **options):
    ramdisk = lab.ramdisk(size + MIB, **options)
    with Direct(ramdisk.path) as device:
        device.partition_table(1, 1, MIB, size)
    lab.stack.callback(_no_partition, ramdisk.path)
    path = f"{ramdisk.path}p1"
    wait_for(path)
    return Stack(path, [ramdisk])


def _no_partition(path):
    with Direct(path) as device:
        device.partition_table(2, 1)


def wait_for(path, seconds=30):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError(f"no {path}")
        time.sleep(0.05)


def linear(lab, size, **options):
    ramdisk = lab.ramdisk(size, **options)
    return Stack(lab.linear(size, ramdisk.path)[1], [ramdisk])


def cache(lab, size, **options):
    """The disk behind the cache; the cache itself is short, too."""
    ramdisk = lab.ramdisk(size, **options)
    made = lab.cache(size, cache_size=size // 4, origin=ramdisk.path)
    return Stack(made.path, [ramdisk], origin=ramdisk.path)


def stripe(lab, size, **options):
    ramdisks = [lab.ramdisk(size // 2), lab.ramdisk(size // 2, **options)]
    members = " ".join(f"{ramdisk.path} 0" for ramdisk in ramdisks)
    name = lab.mapped(f"0 {size // SECTOR} striped 2 {CHUNK // SECTOR} {members}")
    return Stack(f"/dev/mapper/{name}", ramdisks)


def crypt(lab, size, **options):
    run("modprobe", "dm-crypt")
    ramdisk = lab.ramdisk(size, **options)
    name = lab.mapped(f"0 {size // SECTOR} crypt aes-xts-plain64 {KEY.hex()} 0 {ramdisk.path} 0")
    return Stack(f"/dev/mapper/{name}", [ramdisk], discards=False, scrambled=True)


def thin(lab, size, **options):
    """The pool tells EIO where a block could not be made, and forgets the block: it has
    plenty of them."""
    run("modprobe", "dm-thin-pool")
    ramdisk, metadata = lab.ramdisk(4 * GIB, overcommit=True, **options), lab.ramdisk(16 * MIB)
    pool = lab.mapped(f"0 {4 * GIB // SECTOR} thin-pool {metadata.path} {ramdisk.path} "
                      f"{CHUNK // SECTOR} 0")
    dm.message(pool, "create_thin 0")
    name = lab.mapped(f"0 {size // SECTOR} thin /dev/mapper/{pool} 0")
    return Stack(f"/dev/mapper/{name}", [ramdisk], errors=("-e",), discards=False)


def md(lab, ramdisks, *options, fresh=False):
    """An array; a fresh one finds out for itself whether its members agree."""
    number = next(n for n in range(100) if not os.path.exists(f"/sys/block/md{n}"))
    path = f"/dev/md{number}"
    lab.stack.callback(_no_md, path)
    if not fresh:
        options += ("--assume-clean",)
    run("mdadm", "--create", path, "--run", "--metadata=1.2",
        f"--raid-devices={len(ramdisks)}", *options, *(ramdisk.path for ramdisk in ramdisks))
    wait_for(path)
    return path


def _no_md(path):
    if os.path.exists(path):
        run("mdadm", "--stop", path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def raid0(lab, size, **options):
    """Without statistics of its own, it passes on requests that are a part of others."""
    ramdisks = [lab.ramdisk(size // 2 + 2 * MIB), lab.ramdisk(size // 2 + 2 * MIB, **options)]
    path = md(lab, ramdisks, "--level=0", f"--chunk={CHUNK // KIB}")
    with open(f"/sys/block/{os.path.basename(path)}/queue/iostats", "w",
              encoding="ascii") as file:
        file.write("0")
    return Stack(path, ramdisks)


def raid1(lab, size, **options):
    ramdisks = [lab.ramdisk(size + 2 * MIB), lab.ramdisk(size + 2 * MIB, **options)]
    path = md(lab, ramdisks, "--level=1", "--bitmap=none")
    return Stack(path, ramdisks, survives=True)


def raid5(lab, size, **options):
    ramdisks = [*(lab.ramdisk(size // 2 + 2 * MIB) for _ in range(2)),
                lab.ramdisk(size // 2 + 2 * MIB, **options)]
    path = md(lab, ramdisks, "--level=5", "--bitmap=none",
              f"--chunk={CHUNK // KIB}")
    return Stack(path, ramdisks, survives=True, discards=False)


STACKS = {make.__name__: make for make in (disk, partition, linear, cache, stripe, crypt, thin,
                                           raid0, raid1, raid5)}
