# SPDX-License-Identifier: GPL-2.0-only
"""An image of a RAM disk that stays mounted, and a clone that is spoilt and reset."""

import os
import time

from rxbench.system import command
from rxbench.system.errors import BenchError
from rxbench.system.units import size as human

from . import pattern

SIZE = 16 << 20


def use(devices, device, say):
    """Save a mounted RAM disk. Then clone it, spoil the clone, and reset it."""
    mark = devices.undo.mark()
    image = os.path.join(devices.directory(), "image")
    mounted = devices.undo.mark()
    command.run("mkfs.ext4", "-q", "-F", device)
    directory = devices.mount(device)
    with open(os.path.join(directory, "file"), "wb") as file:
        file.write(os.urandom(SIZE))
    start = time.monotonic()
    devices.save(device, image)
    say(f"{device} saved while it is mounted: an image of {human(os.stat(image).st_size)} in "
        f"{time.monotonic() - start:.1f} s")
    devices.undo.back_to(mounted)

    clone = devices.clone(device)
    whole = pattern.digest(device, 0, SIZE)
    say(f"{clone} is a clone of {device}")
    command.run("dd", "if=/dev/urandom", f"of={clone}", "bs=1M", f"count={SIZE >> 20}",
                "oflag=direct")
    if pattern.digest(device, 0, SIZE) != whole:
        raise BenchError(f"a write to {clone} has changed {device}")
    say(f"{clone} overwritten; {device} has not changed")
    start = time.monotonic()
    devices.reset(clone, device)
    say(f"{clone} reset to {device} in {1000 * (time.monotonic() - start):.0f} ms")
    if pattern.digest(clone, 0, SIZE) != whole:
        raise BenchError(f"{clone} does not hold what {device} holds")
    devices.undo.back_to(mark)
