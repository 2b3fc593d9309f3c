# SPDX-License-Identifier: GPL-2.0-only
"""rxadm apply --stop --dry-run: it prints what --stop would do then."""

import os

import pytest

from rxdlib import nvme
from rxdlib.command import run
from rxdlib.configuration import BUSY, disk_of, exporting
from rxdlib.lab import DISK

pytestmark = pytest.mark.one_kernel

LOOP = "transport = loop\nallow-any-host = yes\n"


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with exporting(tmp_path) as config:
        yield config


def test_exports_that_end_before(config, lab):
    """The same stop ends the exports first, so they keep neither a RAM disk nor a cache."""
    config.write(f"[ramdisk a]\nsize = 4M\n[export a]\ndevice = ramdisk/a\n{LOOP}"
                 f"[cache c]\nsize = 8M\norigin = {DISK}\n[export c]\ndevice = cache/c\n{LOOP}")
    config.ok()
    disks = [disk_of(section).path for section in ("ramdisk/a", "cache/c")]
    plan = config.ok("--stop", "--dry-run")
    assert plan == ["export c: end the export of cache/c", "export a: end the export of ramdisk/a",
                    "cache c: remove the mapping 'c'", f"cache c: remove {disks[1]}",
                    f"ramdisk a: remove {disks[0]}"]
    for name in "ramdisk/a", "cache/c":
        config.refused(BUSY, "--stop", "--dry-run", name, names="exported as nqn.")
    # The mount stays in the way.
    run("mkfs.ext4", "-q", disks[0])
    folder = lab.mount(disks[0])
    assert config.refused(BUSY, "--stop", "--dry-run",
                          names=f"rxd0': is in use (mounted on {folder});") == plan[:4]
    run("umount", folder)
    assert config.ok("--stop") == plan


def test_export_that_stays(config):
    """Another tool exports the same RAM disk."""
    config.write(f"[ramdisk a]\nsize = 4M\n[export a]\ndevice = ramdisk/a\n{LOOP}")
    config.ok()
    other = f"{nvme.ROOT}/subsystems/nqn.2026-11.example:foreign"
    os.makedirs(f"{other}/namespaces/1")
    for name, value in ("device_path", disk_of("ramdisk/a").path), ("enable", "1"):
        with open(f"{other}/namespaces/1/{name}", "w", encoding="ascii") as file:
            file.write(value)
    for more in ("--dry-run",), ():
        config.refused(BUSY, "--stop", *more, names=("is in use", os.path.basename(other)))
    with open(f"{other}/namespaces/1/enable", "w", encoding="ascii") as file:
        file.write("0")
    os.rmdir(f"{other}/namespaces/1")
    os.rmdir(other)
    config.ok("--stop")


def test_cache_that_ends_before(config):
    """A cache whose slow disk is another RAM disk of the configuration."""
    config.write("[ramdisk slow]\nsize = 16M\nindex = 7\n"
                 "[cache c]\nsize = 8M\norigin = /dev/rxd7\n")
    config.ok()
    plan = config.ok("--stop", "--dry-run")
    assert len(plan) == 3 and plan[2] == "ramdisk slow: remove /dev/rxd7"
    config.refused(BUSY, "--stop", "--dry-run", "slow", names="held by /dev/mapper/c")
    assert config.ok("--stop") == plan
