# SPDX-License-Identifier: GPL-2.0-only
"""Modules, devices and mounts; each is undone when its Undo ends."""

import json
import os

from rxbench.system import command, devices
from rxbench.system.errors import BenchError


class Devices:
    """Sets up what the demo needs through rxadm, mount and their like."""

    def __init__(self, undo, rxadm):
        self.undo = undo
        os.environ["RXADM"] = rxadm

    def load(self, path):
        """Load a module from a file, and before it what it depends on."""
        name = os.path.basename(path).removesuffix(".ko")
        if devices.loaded(name):
            return f"{name} is already loaded and is used as it is"
        for module in command.run("modinfo", "-F", "depends", path)[0].strip().split(","):
            if module:
                devices.load_module(self.undo, module)
        self.undo.do(f"module {name}", lambda: command.run("insmod", path),
                     lambda _: command.run("rmmod", name))
        return f"{name} loaded"

    def ramdisk(self, size):
        return devices.ramdisk(self.undo, size)

    def clone(self, device):
        """A clone of a RAM disk, which may be mounted."""
        return self.undo.do("clone",
                            lambda: command.run(devices.rxadm(), "clone", device)[0].strip(),
                            lambda clone: devices.settled(devices.rxadm(), "remove", "--force",
                                                          clone, busy=devices.BUSY))

    @staticmethod
    def reset(clone, device):
        """Undo all changes in a clone."""
        command.run(devices.rxadm(), "reset", clone, "--to", device)

    @staticmethod
    def save(device, path):
        command.run(devices.rxadm(), "save", device, path, "--progress", "none")

    def memory_used(self, device):
        """Bytes of memory that a RAM disk takes."""
        output = command.run(devices.rxadm(), "list", "--json")[0]
        try:
            for ramdisk in json.loads(output)["ramdisks"]:
                if os.path.basename(ramdisk["device"]) == os.path.basename(device):
                    return ramdisk["used"]
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(f"rxadm list: not the JSON expected: {output!r}") from error
        raise BenchError(f"rxadm list does not show {device}")

    def cache(self, ramdisk, disk, name):
        return devices.cache(self.undo, ramdisk, disk, name)

    @staticmethod
    def cache_status(name):
        return devices.cache_status(name)

    def directory(self, parent=None):
        return devices.directory(self.undo, parent)

    def mount(self, device):
        return devices.mount(self.undo, device, "ext4")

    def loop(self, path):
        return devices.loop(self.undo, path)
