# SPDX-License-Identifier: GPL-2.0-only
"""Modules, devices and mounts; each is undone when its Undo ends."""

import fcntl
import json
import os
import shutil
import sys
import tempfile
import time

from . import command
from .errors import DemoError

# rxadm: exists or busy
BUSY = 5
BLKSSZGET = 0x1268


def logical_block_size(device):
    """The smallest I/O, in bytes, that a block device takes."""
    with open(device, "rb") as file:
        return int.from_bytes(fcntl.ioctl(file, BLKSSZGET, b"\0" * 4), sys.byteorder)


def _settled(*argv):
    """Take a device down; udev may be looking at it for a moment longer."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return command.run(*argv)
        except command.CommandFailed as error:
            if error.code != BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _loaded(module):
    return os.path.isdir("/sys/module/" + module.replace("-", "_"))


def _unload_unused(module):
    """Unload a module of the kernel's own, unless others use it by now."""
    with open(f"/sys/module/{module.replace('-', '_')}/refcnt", encoding="ascii") as file:
        if int(file.read()):
            return
    command.run("modprobe", "-r", module)


class Devices:
    """Sets up what the demo needs through rxadm, mount and their like."""

    def __init__(self, undo, rxadm):
        self.undo = undo
        self.rxadm = rxadm

    def load_dependency(self, module):
        """Load a module of the kernel's own, if it is not there yet."""
        if not _loaded(module):
            self.undo.do(f"module {module}", lambda: command.run("modprobe", module),
                         lambda _: _unload_unused(module))

    def load(self, path):
        """Load a module from a file, and before it what it depends on."""
        name = os.path.basename(path).removesuffix(".ko")
        if _loaded(name):
            return f"{name} is already loaded: taken as it is"
        for module in command.run("modinfo", "-F", "depends", path)[0].strip().split(","):
            if module:
                self.load_dependency(module)
        self.undo.do(f"module {name}", lambda: command.run("insmod", path),
                     lambda _: command.run("rmmod", name))
        return f"{name} loaded"

    def ramdisk(self, size):
        return self.undo.do(
            "RAM disk",
            lambda: command.run(self.rxadm, "create", "--size", str(size))[0].strip(),
            lambda device: _settled(self.rxadm, "remove", device))

    def _asked(self, key, *argv):
        """The rows that rxadm prints as JSON."""
        output = command.run(self.rxadm, *argv, "--json")[0]
        try:
            return json.loads(output)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise DemoError(f"rxadm {argv[0]}: not the JSON expected: {output!r}") from error

    def memory_used(self, device):
        """Bytes of memory that a RAM disk takes."""
        for ramdisk in self._asked("ramdisks", "list"):
            if os.path.basename(ramdisk["device"]) == os.path.basename(device):
                return ramdisk["used"]
        raise DemoError(f"rxadm list does not show {device}")

    def cache(self, ramdisk, disk, name):
        return self.undo.do(
            f"cache {name}",
            lambda: command.run(self.rxadm, "map", "--cache", ramdisk, "--origin", disk,
                                "--name", name)[0].strip(),
            lambda _: _settled(self.rxadm, "unmap", name))

    def cache_status(self, name):
        """The cache's counters."""
        caches = self._asked("caches", "status", name)
        if len(caches) != 1:
            raise DemoError(f"rxadm status {name} shows {len(caches)} caches")
        return caches[0]

    def directory(self, parent=None):
        return self.undo.do("temporary directory",
                            lambda: tempfile.mkdtemp(prefix="rxd-demo-", dir=parent),
                            shutil.rmtree)

    def mount(self, device):
        directory = self.undo.do("mount point", lambda: tempfile.mkdtemp(prefix="rxd-demo-"),
                                 os.rmdir)
        self.undo.do(f"mount of {device}",
                     lambda: command.run("mount", "-t", "ext4", device, directory),
                     lambda _: command.run("umount", directory))
        return directory

    def loop(self, path):
        """A loop device on a file, past the page cache where the file system can."""
        self.load_dependency("loop")

        def attach():
            argv = ["losetup", "--find", "--show", path]
            try:
                return command.run(*argv, "--direct-io=on")[0].strip()
            except command.CommandFailed:
                return command.run(*argv)[0].strip()
        return self.undo.do("loop device", attach,
                            lambda device: command.run("losetup", "--detach", device))
