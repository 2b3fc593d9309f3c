# SPDX-License-Identifier: GPL-2.0-only
"""A machine that saves power by delaying RCU callbacks, for 10 s if nothing needs them earlier.

Not collected with the others: the stage "lazy" boots a guest of its own for it. The kernel has
CONFIG_RCU_LAZY, and rcu_nocbs=all on its command line.
"""

import time
from pathlib import Path

import pytest

from rxdlib import memory
from rxdlib.direct import BLOCK, MIB, Direct, stamp

NR = 64 * MIB // BLOCK
# The directory of a disk so large has a leaf for each 2 MiB.
PLACES = {"dense": BLOCK, "scattered": 2 * MIB}
SOON = 5    # seconds, for what takes a grace period


def wait_until_free(least):
    """Returns how long it took."""
    begin = time.monotonic()
    while memory.free_memory() < least:
        assert time.monotonic() - begin < 60
        time.sleep(0.05)
    return time.monotonic() - begin


def test_machine():
    assert "rcu_nocbs=all" in Path("/proc/cmdline").read_text(encoding="ascii").split()


@pytest.mark.parametrize("free", ["at once", "one by one"])
@pytest.mark.parametrize("places", PLACES)
def test_discard(lab, places, free):
    """The memory is free after a grace period, which other writes wait for."""
    step = PLACES[places]
    ramdisk = lab.ramdisk(NR * step, overcommit=True)
    memory.settled()
    with Direct(ramdisk.path) as device:
        before = memory.free_memory()
        for number in range(NR):
            device.write(number * step, stamp(1))
        taken = before - memory.free_memory()
        assert taken > (48 * MIB if places == "dense" else 96 * MIB)
        if free == "at once":
            device.discard(0, NR * step)
        else:
            for number in range(NR):
                device.discard(number * step, BLOCK)
        took = wait_until_free(before - taken // 4)
        print(f"{taken // MIB} MiB were free after {took:.2f} s")
        assert took < SOON
