# SPDX-License-Identifier: GPL-2.0-only
"""A RAM disk as a scratch file system."""

import hashlib
import os
import time

from rxbench.system import command, machine
from rxbench.system.errors import BenchError
from rxbench.system.units import size as human

FILES = 32
FILE_SIZE = 1 << 20


def use(devices, device, say):
    """Make a file system, write files, read them back, remove them."""
    mark = devices.undo.mark()
    command.run("mkfs.ext4", "-q", "-F", device)
    directory = devices.mount(device)
    say(f"ext4 on {device}, mounted on {directory}")

    sums = {}
    start = time.monotonic()
    for number in range(FILES):
        data = os.urandom(FILE_SIZE)
        path = os.path.join(directory, f"file{number:02}")
        with open(path, "wb") as file:
            file.write(data)
        sums[path] = hashlib.sha256(data).digest()
    machine.drop_caches()
    say(f"{FILES} files of {human(FILE_SIZE)} written and synced in "
        f"{time.monotonic() - start:.1f} s; the RAM disk takes "
        f"{human(devices.memory_used(device))} of memory")

    for path, wanted in sums.items():
        with open(path, "rb") as file:
            if hashlib.sha256(file.read()).digest() != wanted:
                raise BenchError(f"{path} on {device} does not hold what was written")
    say("page cache dropped, files read back: all as written")

    for path in sums:
        os.unlink(path)
    # ext4 trims what a committed transaction has freed.
    os.sync()
    command.run("fstrim", directory)
    say(f"files removed, fstrim: {human(devices.memory_used(device))} of memory left in use")
    devices.undo.back_to(mark)
