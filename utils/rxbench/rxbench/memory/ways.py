# SPDX-License-Identifier: GPL-2.0-only
"""Ways to use memory for the data of a disk, each set up for one measurement only."""

import os
from dataclasses import dataclass
from typing import Callable

from ..peers import Missing, caches
from ..peers.memory import need_module, put
from ..system import command, devices, guard, machine
from ..system.errors import BenchError
from ..system.places import since
from . import ground as grounds

CACHE = f"{grounds.PREFIX}-cache"
CGROUP = "cgroup2"
MIB = 1 << 20


@dataclass(frozen=True)
class Task:
    """The input of a way: a kind of set, its part of the disk and its size in bytes, the memory
    for a RAM disk, and whether something is copied beside it.
    """
    ground: grounds.Ground
    set: object
    part: str
    size: int
    memory: int
    copies: bool


@dataclass
class Stand:
    """A way that is set up.

    folder has the working set, and below is the device whose reads count. copied is what a copy
    reads, if a work has one. procs is the cgroup.procs of the group that is protected, if any.
    undo is for what a work sets up on it.
    """
    folder: str
    copied: str | None
    below: str
    undo: object = None
    procs: str | None = None


def _stand(undo, task, node, procs=None):
    names = [task.part, *([grounds.COPY] if task.copies else [])]
    part, *copied = task.ground.apart(undo, node, *names)
    folder = devices.mount(undo, part, "ext4", "noatime")
    return Stand(folder, copied[0] if copied else None, task.ground.below[task.part], undo, procs)


def page_cache(undo, task):
    return _stand(undo, task, task.ground.whole(undo))


def _cgroups(undo):
    """The mount point of control groups of version 2."""
    for line in machine.read("/proc/self/mounts").splitlines():
        _source, directory, kind, *_rest = line.split()
        if kind == CGROUP:
            return directory
    return devices.mount(undo, "rxbench", CGROUP)


def protected(undo, size):
    """Create a control group with this much protected memory; return its cgroup.procs."""
    top = _cgroups(undo)
    if "memory" not in machine.read(f"{top}/cgroup.controllers").split():
        raise BenchError(f"no controller of memory in {top}")
    control = f"{top}/cgroup.subtree_control"
    if "memory" not in machine.read(control).split():
        undo.do("controller of memory", lambda: put(control, "+memory"),
                lambda _: put(control, "-memory"))
    folder = f"{top}/rxbench-{os.getpid()}"
    undo.do("control group", lambda: os.mkdir(folder), lambda _: devices.settled("rmdir", folder))
    put(f"{folder}/memory.low", size)
    return f"{folder}/cgroup.procs"


def page_cache_low(undo, task):
    procs = protected(undo, min(task.size, task.memory))
    return _stand(undo, task, task.ground.whole(undo), procs)


def rxcache(undo, task):
    return _stand(undo, task, caches.rxcache(undo, task.ground.whole(undo), CACHE, task.memory))


def dm_cache(undo, task):
    """It caches at once only what is written, so write the set over itself."""
    def fill(node):
        with since(undo):
            part, = task.ground.apart(undo, node, task.part)
            count = task.set.cover(task.size, guard.device_size(part)) // MIB
            command.run("dd", f"if={part}", f"of={part}", "bs=1M", f"count={count}",
                        "iflag=direct", "oflag=direct", "conv=notrunc", "status=none")
    return _stand(undo, task, caches.dm_cache(undo, task.ground.whole(undo), CACHE, task.memory,
                                              fill))


def bcache(undo, task):
    return _stand(undo, task, caches.bcache_pair(undo, task.ground.whole(undo, header=True), CACHE,
                                                 task.memory))


def ramdisk(undo, task):
    """Copy the set from the disk to a RAM disk."""
    plain = page_cache(undo, task)
    disk = devices.ramdisk(undo, task.set.room(task.size))
    grounds.format_part(disk)
    folder = devices.mount(undo, disk, "ext4", "noatime")
    task.set.copy_in(plain.folder, folder, task.size)
    return Stand(folder, plain.copied, plain.below, undo)


def _need_cgroups():
    kinds = {line.split()[-1] for line in machine.read("/proc/filesystems").splitlines() if line}
    if CGROUP not in kinds:
        raise Missing("this kernel has no control groups of version 2")
    for line in machine.read("/proc/self/cgroup").splitlines():
        if "memory" in line.split(":")[1].split(","):
            raise Missing("control groups of version 1 have the controller of memory")
    for line in machine.read("/proc/self/mounts").splitlines():
        _source, top, kind, *_rest = line.split()
        if kind == CGROUP and "memory" not in machine.read(f"{top}/cgroup.controllers").split():
            raise Missing(f"no controller of memory in {top}")


@dataclass(frozen=True)
class Way:
    """need() raises Missing; open(undo, task) sets it up, and returns its Stand.

    Modules are loaded once.
    """
    name: str
    title: str
    open: Callable
    need: Callable = lambda: None
    modules: tuple = ()


BASE, RAMDISK = "pagecache", "ramdisk"
ALL = (Way(BASE, "page cache alone", page_cache),
       Way("low", "page cache, memory.low", page_cache_low, _need_cgroups),
       Way("rxcache", "rxcache", rxcache, devices.need_rxcache),
       Way("dm-cache", "dm-cache, write-through", dm_cache, lambda: need_module("dm-cache"),
           ("dm-cache", "dm-cache-smq")),
       Way("bcache", "bcache, write-through", bcache, lambda: need_module("bcache"),
           ("bcache",)),
       Way(RAMDISK, "RAM disk with all of it", ramdisk))
