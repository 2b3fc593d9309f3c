# SPDX-License-Identifier: GPL-2.0-only
"""The demo on the machine itself, with a file as the disk."""

import os
import platform

from rxbench.system import command, machine
from rxbench.system.errors import BenchError
from rxbench.system.undo import Undo

from . import disks, story
from .devices import Devices


def build(top):
    """Modules for the running kernel, and rxadm; returns where they are."""
    release = platform.release()
    headers = f"/lib/modules/{release}/build"
    if not os.path.isdir(headers):
        raise BenchError(f"no headers of the running kernel in {headers}: install "
                         f"linux-headers-{release}")
    if command.show("make", "-C", top, "--no-print-directory", "modules", "tools"):
        raise BenchError("make modules tools failed")
    return os.path.join(top, "build/modules", release), os.path.join(top, "build/bin/rxadm")


def run(top, directory, seconds, say):
    """Build, and run the demo; returns the report."""
    machine.need_root()
    machine.need_tools("make", "losetup", "df", *story.TOOLS)
    machine.need_memory(story.MEMORY)
    machine.need_space(directory, story.DISK_SIZE + disks.SLACK)
    modules, rxadm = build(top)
    with Undo(say) as undo:
        devices = Devices(undo, rxadm)
        for name in ("rxd", "dm-rxcache"):
            say(devices.load(os.path.join(modules, f"{name}.ko")))
        disk = disks.on_file(devices, directory, story.DISK_SIZE)
        return story.Story(devices, disk, seconds, say).tell()
