# SPDX-License-Identifier: GPL-2.0-only
"""The slow disk: the guest's, or a file of this machine."""

import os
from dataclasses import dataclass, field

from rxbench.system import command, machine
from rxbench.system.errors import BenchError

MIB = 1 << 20
# Room left beside the file.
SLACK = 64 * MIB


@dataclass
class Disk:
    """The plain disk, and notes about its figures."""
    device: str
    description: str
    notes: list = field(default_factory=list)


def throttled(device, iops, mb_s):
    """The disk that the guest was started with."""
    if not os.path.exists(device):
        raise BenchError(f"{device}: no such disk in this guest")
    return Disk(device, f"virtio disk {device}, throttled to {iops} requests/s and {mb_s} MB/s",
                ["Each request counts in full, in sequence or not: for random 4K requests it is as "
                 "slow as a 7200 rpm disk, for sequential ones it is far slower."])


def on_file(devices, directory, size):
    """A loop device on a file of its own in a directory."""
    machine.need_space(directory, size + SLACK)
    path = os.path.join(devices.directory(directory), "disk")
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    loop = devices.loop(path)
    source, kind = command.run("df", "--output=source,fstype", path)[0].splitlines()[-1].split()
    description = f"{loop}, a file in {directory} ({kind} on {source})"
    notes = ["The disk is not throttled: the results are those of this machine."]
    with open(f"/sys/block/{os.path.basename(loop)}/loop/dio", encoding="ascii") as file:
        if file.read().strip() != "1":
            notes.append(f"{kind} has no direct I/O for loop devices: the page cache helps the "
                         "plain disk.")
    return Disk(loop, description, notes)
