# SPDX-License-Identifier: GPL-2.0-only
"""The life of the packages on one machine: each test goes on where the last one ended."""

import os
import re
import subprocess

import pytest

from machine import TOP

NEXT = "0.1.999"


def version():
    with open(os.path.join(TOP, "Makefile"), encoding="utf-8") as file:
        return re.search(r"^VERSION\s*\?= (\S+)", file.read(), re.MULTILINE).group(1)


def root_uuid(machine):
    """The UUID of the file system in the guest's root disk."""
    boot = subprocess.run(["tests/guest/rootfs", machine.system], cwd=TOP, check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    return subprocess.run(["blkid", "-p", "-s", "UUID", "-o", "value", f"{boot}/../root.ext4"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture(scope="module", name="data")
def data_disk(machine):
    """The disk that is cached, which no boot may change but through the cache."""
    path = machine.path("data.raw")
    with open(path, "wb") as file:
        file.truncate(256 << 20)
    return path


def test_build(machine):
    machine.inside("build", NEXT)


def test_native(machine):
    machine.inside("native", version(), NEXT, scratch=True)


@pytest.mark.only("debian-13")
def test_rpm(machine):
    machine.inside("rpm", scratch=True)


@pytest.mark.only("debian-13")
def test_autopkgtest(machine):
    machine.inside("autopkgtest", scratch=True)


def test_install_and_upgrade(machine):
    machine.boot("install", version(), NEXT)


def test_root_cached(machine):
    machine.boot("root-cached", "first", initrd=machine.path("initramfs-tools.img"),
                 append=["ro", f"root=UUID={root_uuid(machine)}"])


def test_root_without_memory(machine):
    machine.boot("root-plain", "first", "memory", initrd=machine.path("initramfs-tools.img"),
                 append=["ro", f"root=UUID={root_uuid(machine)}", "rd.rxd.root_cache=100G"])


@pytest.mark.only("debian-13")
def test_dracut_root_cached(machine):
    machine.boot("root-cached", "second", initrd=machine.path("dracut.img"),
                 append=["ro", "root=/dev/vda"])


@pytest.mark.only("debian-13")
def test_dracut_root_without_module(machine):
    machine.boot("root-plain", "second", "module", initrd=machine.path("dracut.img"),
                 append=["ro", "root=/dev/vda", "module_blacklist=rxd"])


def test_configure(machine, data):
    machine.boot("configure", disks=[data])


@pytest.mark.parametrize("boot", [1, 2])
def test_configured(machine, data, boot):
    machine.boot("configured", str(boot), disks=[data])
    machine.check("promtool", "sh", "-c", "promtool check metrics "
                  f"</rxd/build/guest/{machine.system}/out/rxd.prom")


@pytest.mark.parametrize("without, parameter", [
    ("modules", "module_blacklist=rxd,dm_rxcache"), ("configuration", "rxadm.apply=off")])
def test_without(machine, data, without, parameter):
    machine.boot("without", without, append=[parameter], disks=[data])


def test_remove_in_use(machine, data):
    machine.boot("remove", disks=[data])


def test_purge(machine):
    machine.boot("purge")
