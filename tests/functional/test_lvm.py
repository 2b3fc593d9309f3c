# SPDX-License-Identifier: GPL-2.0-only
"""LVM with the configuration of its package."""

import os

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, run
from rxdlib.configuration import DEVICE, Configuration, disk_of
from rxdlib.direct import BLOCK, MIB, stamp
from rxdlib.lab import DISK

GROUP = "rxdtest"


def lvm(*args, config=""):
    # No udev runs here; this is the only difference from lvm.conf.
    return run(*args, "--config", f"activation{{udev_sync=0 udev_rules=0 monitoring=0}} {config}",
               environment=ENVIRONMENT)


@pytest.fixture
def group(lab):
    """A volume group of two RAM disks and a partition of a third."""
    disks = [lab.ramdisk(32 * MIB) for _ in range(3)]
    with direct.Direct(disks[2].path) as device:
        device.partition(2048, 40960)
    paths = [disks[0].path, disks[1].path, disks[2].path + "p1"]
    run("modprobe", "dm_mod")
    lvm("pvcreate", *paths)
    lvm("vgcreate", GROUP, *paths)
    try:
        yield paths
    finally:
        lvm("vgremove", "--force", GROUP)
        lvm("pvremove", *paths)


def test_stock_lvm(group):
    """RAM disks are physical volumes like any other disk."""
    found = lvm("pvs", "--noheadings", "-o", "pv_name").stdout.split()
    assert sorted(found) == sorted(group)
    lvm("lvcreate", "--yes", "--type", "striped", "--stripes", "2", "--size", "32M", "--name",
        "data", GROUP)
    path = f"/dev/{GROUP}/data"
    if not os.path.exists(path):
        path = f"/dev/mapper/{GROUP}-data"
    direct.write(path, MIB, stamp(1))
    assert direct.read(path, MIB, BLOCK) == stamp(1)
    lvm("lvremove", "--force", f"{GROUP}/data")


def test_cached_physical_volume(lab):
    """With the filter from rxcache(4), LVM sees the cached disk only."""
    cache = lab.cache(64 * MIB)
    config = ('devices { global_filter = '
              f'[ "r|^{DISK}(-part[0-9]+)?$|", "r|^{cache.ramdisk.path}$|" ] }}')
    lvm("pvcreate", cache.path, config=config)
    try:
        found = lvm("pvs", "--noheadings", "-o", "pv_name", config=config)
        assert found.stdout.split() == [cache.path] and not found.stderr
        # Without it, LVM sees the volume on the origin, too, and tries the RAM disk.
        found = lvm("pvs", "--noheadings", "-o", "pv_name")
        assert DISK in found.stderr and cache.ramdisk.path in found.stderr
    finally:
        lvm("pvremove", cache.path, config=config)


def test_cached_physical_volume_at_boot(nothing_left, tmp_path):
    """The label is on the slow disk then, so the section needs force = yes."""
    section = f"[cache data]\norigin = {DISK}\nsize = 8M\n"
    with Configuration(tmp_path) as config:
        config.write(section)
        config.ok()
        ramdisk = disk_of("cache/data").path
        hidden = f'devices {{ global_filter = [ "r|^{DISK}$|", "r|^{ramdisk}$|" ] }}'
        lvm("pvcreate", "/dev/mapper/data", config=hidden)
        try:
            config.ok("--stop")
            config.refused(DEVICE, names=(DISK, "LVM2_member", "force = yes"))
            assert not disk_of("cache/data")
            config.write(section + "force = yes\n")
            config.ok()
            assert config.ok() == []
            config.ok("--stop")
        finally:
            run("wipefs", "-q", "-a", DISK)
