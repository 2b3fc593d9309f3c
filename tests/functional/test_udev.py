# SPDX-License-Identifier: GPL-2.0-only
"""The udev rules, with a live udevd: names that do not depend on the order of creation."""

import glob
import os
import shutil
import subprocess
import time
import uuid

import pytest

from rxdlib.command import ENVIRONMENT, SOURCE, run, rxadm
from rxdlib.direct import MIB, Direct

UDEVD = "/usr/lib/systemd/systemd-udevd"
RULES = os.path.join(SOURCE, "packaging/udev/60-rxd.rules")
LINKS = "/dev/disk/by-id/rxd-"
FIRST, SECOND = (str(uuid.UUID(int=number << 64 | 0x4000 << 64 | 0x8 << 60 | number))
                 for number in (0xABCD1234 << 32, 0xDCBA4321 << 32))


@pytest.fixture
def udevd(lab):
    """udevd runs for one test; all that it created is removed at the end."""
    os.makedirs("/run/udev/rules.d")
    shutil.copy(RULES, "/run/udev/rules.d/")
    daemon = subprocess.Popen([UDEVD], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 30
        while run("udevadm", "control", "--ping", check=False).returncode:
            assert daemon.poll() is None and time.monotonic() < end, daemon.stderr.read()
            time.sleep(0.1)
        yield
    finally:
        lab.stack.close()
        run("udevadm", "settle", check=False)
        run("udevadm", "control", "--exit", check=False)
        try:
            complaints = daemon.communicate(timeout=30)[1]
        finally:
            daemon.kill()
            daemon.wait()
            shutil.rmtree("/run/udev")
            shutil.rmtree("/dev/disk", ignore_errors=True)
    assert "60-rxd.rules" not in complaints, complaints


def settle():
    """Wait for all events.

    udev notices that a disk was written if it has the disk under watch, which begins with the
    end of the first event of the disk. A file system that is made before has no links.
    """
    run("udevadm", "settle", "--timeout=60")


def links():
    """The targets of the links."""
    settle()
    return {path[len(LINKS):]: os.path.realpath(path) for path in sorted(glob.glob(LINKS + "*"))}


def test_links(udevd, lab):
    first = lab.ramdisk(8 * MIB, index=5, uuid=uuid.UUID(FIRST).bytes)
    second = lab.ramdisk(8 * MIB, uuid=uuid.UUID(SECOND).bytes)
    assert links() == {FIRST: "/dev/rxd5", SECOND: "/dev/rxd0"}
    assert run("lsblk", "-d", "-n", "-o", "SERIAL", first.path).stdout.strip() == FIRST

    with Direct(first.path) as device:
        device.partition(2048, 4096)
    assert links() == {FIRST: "/dev/rxd5", f"{FIRST}-part1": "/dev/rxd5p1", SECOND: "/dev/rxd0"}

    # rxadm accepts the links, and waits for a udev that has just opened the disk.
    path = LINKS + SECOND
    for command in (("resize", path, "16M"), ("clear", path, "--force"), ("limit", path, "4M"),
                    ("extents", path), ("remove", path, "--force")):
        result = rxadm(*command)
        assert (result.returncode, result.stderr) == (0, ""), command
    assert not os.path.exists(second.path)
    assert links() == {FIRST: "/dev/rxd5", f"{FIRST}-part1": "/dev/rxd5p1"}

    # The link follows the identity, not the number.
    first.remove()
    assert links() == {}
    lab.ramdisk(8 * MIB, index=7, uuid=uuid.UUID(FIRST).bytes)
    assert links() == {FIRST: "/dev/rxd7"}


def test_name(udevd, lab):
    """The link appears after the name is set, follows it, and partitions have links, too."""
    ramdisk = lab.ramdisk(8 * MIB, index=3, uuid=uuid.UUID(FIRST).bytes)
    with Direct(ramdisk.path) as device:
        device.partition(2048, 4096)
    for name in "scratch", "other-1.2":
        assert rxadm("set", "rxd3", "--name", name).returncode == 0
        assert links() == {FIRST: "/dev/rxd3", f"{FIRST}-part1": "/dev/rxd3p1",
                           f"name-{name}": "/dev/rxd3", f"name-{name}-part1": "/dev/rxd3p1"}
    assert rxadm("set", "other-1.2", "--name", "").returncode == 0
    assert links() == {FIRST: "/dev/rxd3", f"{FIRST}-part1": "/dev/rxd3p1"}


def test_label(udevd, lab):
    """A label of a file system that was made later, and of one that was removed."""
    path = lab.ramdisk(16 * MIB).path
    settle()
    for label in ("scratch", "other"):
        run("mkfs.ext4", "-q", "-F", "-L", label, path)
        settle()
        assert {name: os.path.realpath(f"/dev/disk/by-label/{name}")
                for name in os.listdir("/dev/disk/by-label")} == {label: path}


def test_formatted_and_removed_at_once(udevd, lab):
    """mkfs makes udev open the disk; remove waits for it."""
    for _ in range(3):
        path = rxadm("create", "--size", "16M").stdout.strip()
        run("mkfs.ext4", "-q", path)
        result = rxadm("remove", path, "--force")
        assert (result.returncode, result.stderr) == (0, "")
    assert links() == {}


def by_contents():
    """The links by contents, as the database of udev would have them."""
    settle()
    return {os.path.relpath(path, "/dev/disk"): os.path.realpath(path)
            for folder in ("uuid", "label", "partuuid", "partlabel")
            for path in sorted(glob.glob(f"/dev/disk/by-{folder}/*"))
            if os.path.realpath(path).startswith("/dev/rxd")}


def properties(path):
    lines = run("udevadm", "info", "--query=property", path).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_clone(udevd, lab):
    """A clone has its own identity only, and nothing acts on its contents."""
    source = lab.ramdisk(64 * MIB, uuid=uuid.UUID(FIRST).bytes)
    settle()
    run("mkfs.ext4", "-q", "-F", "-L", "scratch", source.path)
    before = by_contents()
    assert before["by-label/scratch"] == source.path and len(before) == 2
    rxadm("clone", source.path, "--uuid", SECOND, "--name", "copy", check=True)
    copy = lab.adopt_ramdisk(1)
    assert by_contents() == before
    wanted = {FIRST: "/dev/rxd0", SECOND: "/dev/rxd1", "name-copy": "/dev/rxd1"}
    assert links() == wanted
    found = properties(copy.path)
    assert found["UDISKS_IGNORE"] == "1" and found["ID_SERIAL"] == SECOND
    assert not [name for name in found if name.startswith(("ID_FS_", "ID_PART_", "LVM_", "MD_"))]
    assert found.get("SYSTEMD_READY") == properties(source.path).get("SYSTEMD_READY")
    assert "UDISKS_IGNORE" not in properties(source.path)
    # Neither does a use of the clone change this.
    run("mkfs.ext4", "-q", "-F", "-L", "other", copy.path)
    assert by_contents() == before and links() == wanted
    assert rxadm("reset", "copy", "--to", LINKS + FIRST, check=True).stderr == ""
    assert by_contents() == before and links() == wanted


def test_partitions_of_a_clone(udevd, lab):
    source = lab.ramdisk(64 * MIB, uuid=uuid.UUID(FIRST).bytes)
    with Direct(source.path) as device:
        device.partition(2048, 32 * 2048)
    settle()
    run("mkfs.ext4", "-q", "-F", "-L", "scratch", "/dev/rxd0p1")
    before = by_contents()
    assert before["by-label/scratch"] == "/dev/rxd0p1"
    rxadm("clone", source.path, "--uuid", SECOND, "--name", "copy", check=True)
    lab.adopt_ramdisk(1)
    assert by_contents() == before
    assert links() == {
        FIRST: "/dev/rxd0", f"{FIRST}-part1": "/dev/rxd0p1", SECOND: "/dev/rxd1",
        f"{SECOND}-part1": "/dev/rxd1p1", "name-copy": "/dev/rxd1",
        "name-copy-part1": "/dev/rxd1p1"}
    assert properties("/dev/rxd1p1")["UDISKS_IGNORE"] == "1"


def test_reset_takes_links_away(udevd, lab):
    """They led to what the disk held before."""
    source, other = lab.ramdisk(16 * MIB), lab.ramdisk(16 * MIB)
    settle()
    run("mkfs.ext4", "-q", "-F", "-L", "scratch", source.path)
    run("mkfs.ext4", "-q", "-F", "-L", "other", other.path)
    assert set(by_contents().values()) == {source.path, other.path}
    rxadm("reset", other.path, "--to", source.path, "--force", check=True)
    assert set(by_contents().values()) == {source.path}
    assert "by-label/other" not in by_contents()


def test_cleared_clone_is_a_disk_again(udevd, lab):
    """It has no contents of another disk any more."""
    source = lab.ramdisk(16 * MIB)
    settle()
    run("mkfs.ext4", "-q", "-F", "-L", "scratch", source.path)
    path = rxadm("clone", source.path, check=True).stdout.strip()
    assert set(by_contents().values()) == {source.path}
    rxadm("clear", "--force", path, check=True)
    settle()
    run("mkfs.ext4", "-q", "-F", "-L", "other", path)
    assert by_contents().get("by-label/other") == path
    rxadm("remove", "--force", path, check=True)
