# SPDX-License-Identifier: GPL-2.0-only
"""The udev rules, with a live udevd: names that do not depend on the order of creation."""

import contextlib
import fcntl
import glob
import os
import re
import shutil
import subprocess
import time
import uuid

import pytest

from rxdlib.command import ENVIRONMENT, SOURCE, run, rxadm
from rxdlib.configuration import Configuration
from rxdlib.direct import MIB, Direct
from rxdlib.stacks import wait_for

UDEVD = "/usr/lib/systemd/systemd-udevd"
RULES = os.path.join(SOURCE, "packaging/udev/60-rxd.rules")
LINKS = "/dev/disk/by-id/rxd-"
FIRST, SECOND = (str(uuid.UUID(int=number << 64 | 0x4000 << 64 | 0x8 << 60 | number))
                 for number in (0xABCD1234 << 32, 0xDCBA4321 << 32))


@pytest.fixture
def udevd(lab, tmp_path):
    """udevd runs for one test; all that it created is removed at the end."""
    # Programs that it has started may hold the file open for longer than it runs.
    log = tmp_path / "udevd"
    os.makedirs("/run/udev/rules.d")
    shutil.copy(RULES, "/run/udev/rules.d/")
    with open(log, "wb") as file:
        daemon = subprocess.Popen([UDEVD], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=file)
    try:
        end = time.monotonic() + 60
        while run("udevadm", "control", "--ping", check=False).returncode:
            assert daemon.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        lab.stack.close()
        settled = run("udevadm", "settle", check=False)
        # Its workers end with it. If it is asked to exit, it may wait for one that is gone.
        daemon.kill()
        daemon.wait()
        shutil.rmtree("/run/udev", ignore_errors=True)
        shutil.rmtree("/dev/disk", ignore_errors=True)
    assert not settled.returncode, settled
    assert "60-rxd.rules" not in log.read_text(), log.read_text()


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


def nothing_known(path):
    """Whether udev knows nothing about the contents of a disk."""
    return not [name for name in properties(path)
                if name.startswith(("ID_FS_", "ID_PART_", "LVM_", "MD_"))]


def add_again(*paths):
    """Have udev do what it does for a new disk."""
    run("udevadm", "trigger", "--action=add", *paths)
    settle()


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
    assert nothing_known(copy.path)
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
        device.partition(2048, 32 * 2048, disk_id=0x1234ABCD)
    settle()
    run("mkfs.ext4", "-q", "-F", "-L", "scratch", "/dev/rxd0p1")
    before = by_contents()
    assert {"by-label/scratch", "by-partuuid/1234abcd-01"} < set(before)
    assert len(before) == 3 and set(before.values()) == {"/dev/rxd0p1"}
    rxadm("clone", source.path, "--uuid", SECOND, "--name", "copy", check=True)
    lab.adopt_ramdisk(1)
    assert by_contents() == before
    assert links() == {
        FIRST: "/dev/rxd0", f"{FIRST}-part1": "/dev/rxd0p1", SECOND: "/dev/rxd1",
        f"{SECOND}-part1": "/dev/rxd1p1", "name-copy": "/dev/rxd1",
        "name-copy-part1": "/dev/rxd1p1"}
    assert properties("/dev/rxd1p1")["UDISKS_IGNORE"] == "1"


@pytest.fixture(name="online")
def volumes_online():
    """Read, or remove, what LVM's rules have noted about physical volumes and groups."""
    def read():
        found = {}
        for path in glob.glob("/run/lvm/[pv][vg]s_online/*"):
            with open(path, encoding="ascii") as file:
                found[os.path.relpath(path, "/run/lvm")] = file.read()
        return found

    def forget():
        for kind in "pv", "vg":
            shutil.rmtree(f"/run/lvm/{kind}s_online", ignore_errors=True)

    forget()
    yield read, forget
    forget()


def lvm(*args):
    # There are no logical volumes, so there is nothing that udev must finish.
    return run(*args, "--config", "activation{udev_sync=0 udev_rules=0 monitoring=0}")


def test_clone_of_a_physical_volume(udevd, lab, online):
    """LVM's rules note the source, and never the clone, even if they know nothing else."""
    read, forget = online
    source = lab.ramdisk(64 * MIB, uuid=uuid.UUID(FIRST).bytes)
    settle()
    run("modprobe", "dm_mod")
    lvm("pvcreate", source.path)
    lvm("vgcreate", "rxdtest", source.path)
    add_again(source.path)
    before = read()
    assert "vgs_online/rxdtest" in before and len(before) == 2
    assert properties(source.path)["LVM_VG_NAME_COMPLETE"] == "rxdtest"

    rxadm("clone", source.path, "--uuid", SECOND, check=True)
    copy = lab.adopt_ramdisk(1)
    settle()
    assert nothing_known(copy.path) and read() == before
    forget()
    add_again(copy.path)
    assert nothing_known(copy.path) and read() == {}
    add_again(source.path)
    assert read() == before


def ways_to_load():
    """Load an image into a new disk, into an empty one, or by a section: each returns the path."""
    def new(lab, image):
        path = rxadm("load", str(image), check=True).stdout.strip()
        lab.adopt_ramdisk(int(path[len("/dev/rxd"):]))
        return path

    def into(lab, image):
        path = lab.ramdisk(64 * MIB).path
        settle()
        rxadm("load", "--into", path, str(image), check=True)
        return path

    def section(lab, image):
        config = lab.stack.enter_context(Configuration(image.parent))
        config.write(f"[ramdisk volumes]\nsize = 64M\nimage = {image}\nindex = 5\n")
        config.ok()
        return "/dev/rxd5"

    return new, into, section


@pytest.mark.parametrize("load", ways_to_load())
def test_load_of_a_physical_volume(udevd, lab, online, tmp_path, load):
    """LVM notes a volume group that an image has brought, though the disk is not a new one."""
    read, forget = online
    source = lab.ramdisk(64 * MIB, uuid=uuid.UUID(FIRST).bytes)
    settle()
    run("modprobe", "dm_mod")
    lvm("pvcreate", source.path)
    lvm("vgcreate", "rxdtest", source.path)
    image = tmp_path / "image"
    rxadm("save", source.path, str(image), check=True)
    rxadm("remove", source.path, check=True)
    settle()
    forget()
    load(lab, image)
    settle()
    assert "vgs_online/rxdtest" in read()


EXPORT = "[export x]\ndevice = ramdisk/x\ntransport = loop\nallow-any-host = yes\n"


@pytest.mark.parametrize("export", ["", EXPORT])
def test_event_after_load(udevd, lab, tmp_path, export):
    """A disk is reported as new when it is complete, unless others use it: they activate it."""
    image, events = tmp_path / "image", tmp_path / "events"
    source = lab.ramdisk(MIB)
    settle()
    rxadm("save", source.path, str(image), check=True)
    rxadm("remove", source.path, check=True)
    config = lab.stack.enter_context(Configuration(tmp_path))
    config.write(f"[ramdisk x]\nsize = 1M\nimage = {image}\nindex = 5\n{export}")
    with open(events, "wb") as file, \
            subprocess.Popen(["udevadm", "monitor", "--kernel", "--subsystem-match=block"],
                             stdout=file, env=ENVIRONMENT) as monitor:
        try:
            wait_for(lambda: "KERNEL" in events.read_text(), "the monitor")
            config.ok("ramdisk/x")
            lab.ramdisk(MIB, index=7)
            wait_for(lambda: "/rxd7 " in events.read_text(), "the event of a later disk")
        finally:
            monitor.kill()
    settle()
    found = re.findall(r" add +\S+/rxd5 ", events.read_text())
    assert len(found) == (1 if export else 2), events.read_text()


def arrays():
    with open("/proc/mdstat", encoding="ascii") as file:
        return re.findall(r"^(md\w+) : ", file.read(), re.MULTILINE)


def stop_arrays():
    def try_it():
        # udev may have one open.
        for name in arrays():
            run("mdadm", "--stop", f"/dev/{name}", check=False)
        return not arrays()

    wait_for(try_it, "end of the arrays")


@contextlib.contextmanager
def unseen(path):
    """While a disk is locked, udev leaves it alone."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def array_member(lab):
    """The only disk of an array that is stopped, and that udev has not seen."""
    disk = lab.ramdisk(64 * MIB, uuid=uuid.UUID(FIRST).bytes)
    run("modprobe", "md_mod")
    lab.stack.callback(stop_arrays)
    settle()
    with unseen(disk.path):
        run("mdadm", "--create", "/dev/md0", "--run", "--force", "--metadata=1.2", "--level=1",
            "--raid-devices=1", "--bitmap=none", disk.path)
        stop_arrays()
    return disk


def test_clone_of_an_array_member(udevd, lab):
    """mdadm's rules start an array of the source, and never one of the clone."""
    source = array_member(lab)
    add_again(source.path)
    before = arrays()
    assert len(before) == 1
    assert properties(source.path)["ID_FS_TYPE"] == "linux_raid_member"

    rxadm("clone", source.path, "--uuid", SECOND, check=True)
    copy = lab.adopt_ramdisk(1)
    settle()
    assert nothing_known(copy.path) and arrays() == before
    assert os.listdir("/sys/block/rxd1/holders") == []
    with unseen(source.path):
        stop_arrays()
        run("mdadm", "--zero-superblock", source.path)
    settle()
    add_again(copy.path)
    assert nothing_known(copy.path) and arrays() == []
    assert "linux_raid_member" in run("blkid", "-p", copy.path).stdout


@pytest.mark.parametrize("load", ways_to_load())
def test_load_of_an_array_member(udevd, lab, tmp_path, load):
    source = array_member(lab)
    settle()
    stop_arrays()
    image = tmp_path / "image"
    run("udevadm", "control", "--stop-exec-queue")
    rxadm("save", source.path, str(image), check=True)
    rxadm("remove", source.path, check=True)
    run("udevadm", "control", "--start-exec-queue")
    settle()
    assert arrays() == []
    path = load(lab, image)
    lab.stack.callback(stop_arrays)
    settle()
    assert os.listdir(f"/sys/block/{os.path.basename(path)}/holders") == arrays() != []


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
