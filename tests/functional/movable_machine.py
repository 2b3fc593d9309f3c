# SPDX-License-Identifier: GPL-2.0-only
"""A machine half of whose memory is for movable pages, which a disk cannot use.

Not collected with the others: the stage "movable" boots a guest of its own for it.
"""

import errno
import os
import re

import pytest

from rxdlib import memory
from rxdlib.command import run
from rxdlib.control import CREATE_RESERVE
from rxdlib.direct import BLOCK, MIB, Direct, stamp

CHUNK = 4 * MIB


def zones():
    """Free pages and page cache of each zone, in bytes: {name: bytes}."""
    found = {}
    with open("/proc/zoneinfo", encoding="ascii") as file:
        for zone in re.split(r"^(?=Node \d)", file.read(), flags=re.MULTILINE)[1:]:
            name = re.match(r"Node \d+, zone +(\w+)", zone)[1]
            found[name] = found.get(name, 0) + BLOCK * sum(
                int(count) for count in re.findall(
                    r"^ +(?:pages free|count:|nr_zone_inactive_file|nr_zone_active_file) +(\d+)$",
                    zone, re.MULTILINE))
    return found


def unmovable():
    return sum(size for name, size in zones().items() if name != "Movable")


def test_machine():
    assert zones()["Movable"] > 512 * MIB
    assert unmovable() > 512 * MIB


@pytest.mark.parametrize("pattern", ["dense", "scattered"])
def test_fill(lab, kernel_log, pattern):
    """ENOSPC is returned while there is still memory that the kernel can use for itself."""
    killed = memory.vmstat("oom_kill")
    before = memory.spare()
    headroom = memory.meminfo()["MemTotal"] // 8
    ramdisk = lab.ramdisk(1 << 40, overcommit=True)
    data, step = (stamp(1, CHUNK), CHUNK) if pattern == "dense" else (stamp(1), 2 * MIB)
    written = 0
    with Direct(ramdisk.path) as device:
        with pytest.raises(OSError) as caught:
            while True:
                device.write(written * step, data)
                written += 1
        assert caught.value.errno == errno.ENOSPC
        print(f"{ramdisk.query().mem_used} bytes written, {unmovable()} left, {zones()}")
        assert ramdisk.query().mem_used > 256 * MIB * (1 if pattern == "dense" else 0.5)
        assert unmovable() > headroom // 2
        run("dmsetup", "ls")
        assert device.read((written - 1) * step, BLOCK) == data[:BLOCK]
    ramdisk.remove()
    assert memory.vmstat("oom_kill") == killed
    assert not [line for line in kernel_log.lines() if "oom" in line.lower()]
    assert memory.missing(before, 64 * MIB) < 64 * MIB


def test_reserve(lab):
    """More memory than the kernel can use is refused, although that much is free."""
    size = (unmovable() + zones()["Movable"] // 2) // MIB * MIB
    before = memory.spare()
    with pytest.raises(OSError) as caught:
        lab.ramdisk(size, overcommit=True, flags=CREATE_RESERVE)
    assert caught.value.errno == errno.ENOSPC
    assert memory.missing(before, 64 * MIB) < 64 * MIB
    os.sync()
