# SPDX-License-Identifier: GPL-2.0-only
"""Caches before a disk, all with a RAM disk of rxd as their memory."""

import glob
import os
import time

from ..system import command, devices, guard, machine
from ..system.errors import BenchError
from ..system.undo import signals_held
from ..tools import fio
from . import Missing, bcache, memory
from .memory import need_module, put

SECTOR = 512
# In sectors, the default of lvmcache.
DM_CACHE_BLOCK = 128
# Minimum rate of writeback, in blocks per second.
DM_CACHE_PACE = 20
MIB = 1 << 20
PATIENCE = 60
WARM_PASSES = 20


def _sectors(device):
    return guard.device_size(device) // SECTOR


def mapped(undo, name, table):
    """A device-mapper device."""
    undo.do(f"mapping {name}", lambda: command.run("dmsetup", "create", name, "--table", table),
            lambda _: devices.settled("dmsetup", "remove", name))
    return f"/dev/mapper/{name}"


def _wait(what, true, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not true():
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not finished after {patience} s")
        time.sleep(0.1)


def _pass(device, rw="read", block="1m", depth=32):
    fio.run({**fio.BASE, "filename": device, "rw": rw, "bs": block, "iodepth": depth,
             "size": guard.device_size(device) // MIB * MIB}, [("pass", {})], interval=3600)


def _write_all(node):
    _pass(node, "write", f"{DM_CACHE_BLOCK * SECTOR}")


def _sectors_read(device):
    return int(machine.read(f"{guard.sysfs_folder(device)}/stat").split()[2])


def warm(node, origin):
    """Read all of a cache until that reads no more of its disk; whether it comes to that.

    Once is not enough for all: bcache takes in what it has room at hand for, and no more. Its
    thread makes room, so many short passes on a busy processor are not enough, either.
    """
    passes, deadline = 0, time.monotonic() + PATIENCE
    while passes < WARM_PASSES or time.monotonic() < deadline:
        before = _sectors_read(origin)
        _pass(node, depth=1)
        if _sectors_read(origin) == before:
            return True
        passes += 1
    return False


def plain(_undo, origin, _name):
    return origin


def rxcache(undo, origin, name, size=None):
    disk = devices.ramdisk(undo, size or guard.device_size(origin) + 16 * MIB)
    return devices.cache(undo, disk, origin, name)


def dm_cache(undo, origin, name, size=None, fill=_write_all):
    """It caches whole writes at once only in writeback mode; fill(node) makes these writes."""
    for module in ("dm-cache", "dm-cache-smq"):
        devices.load_module(undo, module)
    blocks, meta = (devices.ramdisk(undo, each)
                    for each in (size or guard.device_size(origin) + 16 * MIB, 16 * MIB))

    def table(mode, policy):
        return (f"0 {_sectors(origin)} cache {meta} {blocks} {origin} {DM_CACHE_BLOCK} 1 {mode} "
                f"{policy} 0")

    def dirty():
        words = command.run("dmsetup", "status", name)[0].split()
        return int(words[words.index("cache") + 11])

    node = mapped(undo, name, table("writeback", "smq"))
    fill(node)
    for mode, policy in (("writeback", "cleaner"), ("writethrough", "smq")):
        _replace_table(name, table(mode, policy))
        if policy == "cleaner":
            _wait(f"{name}: dirty blocks", lambda: dirty() == 0,
                  PATIENCE + dirty() / DM_CACHE_PACE)
    return node


def _replace_table(name, table):
    """Load another table. A mapping that stays suspended could not be removed."""
    with signals_held():
        command.run("dmsetup", "suspend", name)
        try:
            command.run("dmsetup", "reload", name, "--table", table)
        finally:
            command.run("dmsetup", "resume", name)


def _ample(undo, origin):
    """Memory for a log, which temporarily holds overwritten data twice."""
    return devices.ramdisk(undo, 2 * guard.device_size(origin) + 64 * MIB)


def writecache(undo, origin, name):
    """It must not fill up and write to the disk while other peers are measured on it."""
    devices.load_module(undo, "dm-writecache")
    node = mapped(undo, name, f"0 {_sectors(origin)} writecache s {origin} "
                              f"{_ample(undo, origin)} 4096 4 "
                              "high_watermark 95 low_watermark 90")
    _pass(node, "write")
    return node


def _bcache_of(origin):
    """The bcache device on an origin, by the sysfs folder of its backing device."""
    found = os.path.realpath(f"{guard.sysfs_folder(origin)}/bcache/dev")
    return os.path.basename(found) if os.path.isdir(found) else None


def _register(undo, path, what):
    """Register with bcache. The kernel must release it before it is removed."""
    folder = f"{guard.sysfs_folder(path)}/bcache"

    def stop(_made):
        if os.path.exists(f"{folder}/stop"):
            put(f"{folder}/stop", 1)
        if os.path.isdir(f"{folder}/set"):
            put(f"{folder}/set/stop", 1)
        _wait(f"bcache on {path}", lambda: not os.path.isdir(folder))

    # Also stop one that is registered too late.
    undo.do(what, lambda: None, stop)
    put("/sys/fs/bcache/register", f"{path}\n")
    _wait(f"bcache on {path}", lambda: os.path.isdir(folder))


def bcache_pair(undo, origin, _name, size=None):
    disk = devices.ramdisk(undo, size) if size else _ample(undo, origin)
    devices.load_module(undo, "bcache")
    group = bcache.format_pair(origin, disk, _sectors(disk))
    _register(undo, disk, "bcache's cache")
    _register(undo, origin, "bcache's disk")
    _wait("bcache", lambda: _bcache_of(origin))
    folder = f"/sys/block/{_bcache_of(origin)}/bcache"
    _wait("bcache: the cache is not attached",
          lambda: machine.read(f"{folder}/state") == "clean")
    put(f"{folder}/sequential_cutoff", 0)
    put(f"{folder}/cache_mode", "writethrough")
    for path in glob.glob(f"/sys/fs/bcache/{group}/congested_*_threshold_us"):
        put(path, 0)
    return f"/dev/{_bcache_of(origin)}"


def rapiddisk(undo, origin, name):
    size = guard.device_size(origin)
    # The RAM disk that is measured as such is another one.
    disk = memory.rapiddisk(undo, size, number=1)
    devices.load_module(undo, "rapiddisk-cache")
    return mapped(undo, name, f"0 {_sectors(origin)} rapiddisk-cache {origin} {disk} "
                              f"{size // SECTOR} 0")


def _need_rapiddisk():
    need_module("rapiddisk-cache", memory.RAPIDDISK)
    if os.path.isdir("/sys/module/rapiddisk"):
        raise Missing("rapiddisk is loaded already, and left alone")


# Caches that keep what is read.
WARMED = ("rxcache", "dm-cache", "bcache", "rapiddisk-cache")
ALL = (("plain", "plain disk", plain, lambda: None),
       ("rxcache", "rxcache", rxcache, lambda: None),
       ("dm-cache", "dm-cache, write-through", dm_cache, lambda: need_module("dm-cache")),
       ("bcache", "bcache, write-through", bcache_pair, lambda: need_module("bcache")),
       ("dm-writecache", "dm-writecache", writecache, lambda: need_module("dm-writecache")),
       ("rapiddisk-cache", "RapidDisk's cache", rapiddisk, _need_rapiddisk))
