# SPDX-License-Identifier: GPL-2.0-only
"""RAM disks, caches, mounts and loop devices, which their Undo removes."""

import json
import os
import shutil
import tempfile
import time

from . import command, guard, machine
from .errors import BadInput, BenchError

CONTROL = "/dev/rxd-control"
# exit code of rxadm: exists or busy
BUSY = 5
PATIENCE = 10


def rxadm():
    return os.environ.get("RXADM", "rxadm")


def need_rxd():
    machine.need_tools(rxadm())
    if not os.path.exists(CONTROL):
        raise BadInput("the module rxd is not loaded: modprobe rxd")


def need_rxcache():
    need_rxd()
    if not os.path.isdir("/sys/module/dm_rxcache"):
        raise BadInput("the module dm-rxcache is not loaded: modprobe dm-rxcache")


def settled(*argv, busy=None):
    """Remove something that udev may keep open for a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return command.run(*argv)
        except command.CommandFailed as error:
            if (busy and error.code != busy) or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def ramdisk(undo, size):
    """A new RAM disk."""
    return undo.do("RAM disk",
                   lambda: command.run(rxadm(), "create", "--size", str(size))[0].strip(),
                   lambda device: settled(rxadm(), "remove", "--force", device,
                                          busy=BUSY))


def cache(undo, disk, origin, name):
    """A mapping of a RAM disk before an origin."""
    return undo.do(f"cache {name}",
                   lambda: command.run(rxadm(), "map", "--cache", disk, "--origin", origin,
                                       "--name", name)[0].strip(),
                   lambda _: settled(rxadm(), "unmap", name, busy=BUSY))


def cache_status(name):
    """The counters of a cache, from rxadm."""
    output = command.run(rxadm(), "status", name, "--json")[0]
    try:
        status, = json.loads(output)["caches"]
        return status
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"rxadm status {name}: not the JSON expected: {output!r}") from error


def directory(undo, parent=None):
    """A new directory, which is removed with its contents."""
    return undo.do("temporary directory",
                   lambda: tempfile.mkdtemp(prefix="rxbench-", dir=parent), shutil.rmtree)


def mount(undo, device, kind, options="defaults"):
    """Mount a device; returns the directory."""
    path = undo.do("mount point", lambda: tempfile.mkdtemp(prefix="rxbench-"), os.rmdir)
    undo.do(f"mount of {device}",
            lambda: command.run("mount", "-t", kind, "-o", options, device, path),
            lambda _: settled("umount", path))
    return path


def make_filesystem(device, kind, *more):
    """Format a device completely, so that no work is left for the time of the measurement."""
    options = {"ext4": ["-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "ext2": ["-F"],
               "xfs": ["-f"]}
    command.run(f"mkfs.{kind}", "-q", *options.get(kind, []), *more, device)


def wipe(device):
    """Remove all signatures; discard the data if possible."""
    command.run("wipefs", "--all", "--quiet", device)
    try:
        command.run("blkdiscard", device)
    except command.CommandFailed:
        # A disk without discard keeps the data.
        command.run("blockdev", "--flushbufs", device)


def _module_folder(name):
    return "/sys/module/" + name.replace("-", "_")


def loaded(name):
    return os.path.isdir(_module_folder(name))


def _unload(name):
    """Unload a module unless others use it; its last user may need a moment to release it."""
    deadline = time.monotonic() + PATIENCE
    while machine.read(f"{_module_folder(name)}/refcnt") not in ("", "0"):
        if time.monotonic() > deadline:
            return
        time.sleep(0.2)
    if loaded(name):
        settled("modprobe", "-r", name)


def load_module(undo, name, *parameters):
    """Load a module that is not loaded yet."""
    if not loaded(name):
        undo.do(f"module {name}", lambda: command.run("modprobe", name, *parameters),
                lambda _: _unload(name))


def loop(undo, path):
    """A loop device on a file, with direct I/O if the file system supports it."""
    load_module(undo, "loop")

    def attach():
        argv = ["losetup", "--find", "--show", path]
        try:
            return command.run(*argv, "--direct-io=on")[0].strip()
        except command.CommandFailed:
            return command.run(*argv)[0].strip()
    return undo.do("loop device", attach,
                   lambda device: settled("losetup", "--detach", device))


def loop_is_direct(device):
    """Whether a loop device bypasses the page cache of its file."""
    return machine.read(f"{guard.sysfs_folder(device)}/loop/dio") == "1"
