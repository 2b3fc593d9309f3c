# SPDX-License-Identifier: GPL-2.0-only
"""rxadm remove and clear of data that was not saved: only with --force."""

import os
import shutil
import subprocess
import time

import pytest

from rxdlib import direct
from rxdlib.command import program, run, rxadm
from rxdlib.control import CREATE_RESERVE, RESIZE_FORCE
from rxdlib.direct import KIB, MIB, stamp
from rxdlib.lab import DISK, state
from rxdlib.outcome import ok
from rxdlib.sampled import long
from rxdlib.traced import TRACED, held_at, let_go

BUSY = 5
COMMANDS = pytest.mark.parametrize("command", ["remove", "clear"])


def refused(*args, names=()):
    """One line says what would be lost and how to keep it; nothing changes."""
    before = state()
    for options in (), ("--dry-run",):
        result = rxadm(*args, *options)
        assert (result.returncode, result.stdout) == (BUSY, ""), result
        assert len(result.stderr.splitlines()) == 1, result.stderr
        for name in "--force", "'rxadm save'", *names:
            assert name in result.stderr
    assert state() == before


def iostats(ramdisk, value):
    with open(f"/sys/block/{ramdisk.name}/queue/iostats", "w", encoding="ascii") as file:
        file.write(value)


@COMMANDS
def test_data(lab, command):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1, 64 * KIB))
    refused(command, "rxd0", names=("'/dev/rxd0'", "64K"))
    assert direct.read(ramdisk.path, 0, 64 * KIB) == stamp(1, 64 * KIB)
    assert "RXD_" in ok(command, "rxd0", "--force", "--dry-run")
    ok(command, "rxd0", "--force")
    assert os.path.exists(ramdisk.path) == (command == "clear")


@COMMANDS
def test_no_data(lab, command):
    """The disk was never written, or was discarded since."""
    ramdisk = lab.ramdisk(4 * MIB)
    if command == "remove":
        direct.write(ramdisk.path, 0, stamp(1))
        run("blkdiscard", ramdisk.path)
    ok(command, "rxd0")


@COMMANDS
def test_reserved(lab, command):
    """Its memory holds zeros before the first write."""
    lab.ramdisk(4 * MIB, flags=CREATE_RESERVE)
    ok(command, "rxd0")
    if command == "clear":
        direct.write("/dev/rxd0", 0, stamp(1))
        refused("clear", "rxd0", names=("4M",))


@COMMANDS
@pytest.mark.parametrize("statistics", ["1", "0"])
def test_saved(lab, tmp_path, command, statistics):
    """Each later write counts, even if the kernel keeps no statistics of the disk."""
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    iostats(ramdisk, statistics)
    ok("save", ramdisk.path, tmp_path / "image", "--progress", "none")
    assert "RXD_" in ok(command, "rxd0", "--dry-run")
    iostats(ramdisk, "0")
    direct.write(ramdisk.path, 0, stamp(2))
    iostats(ramdisk, "1")
    refused(command, "rxd0")
    ok("save", ramdisk.path, tmp_path / "image", "--progress", "none")
    assert direct.read(ramdisk.path, 0, 4096) == stamp(2)
    ok(command, "rxd0")


@pytest.mark.parametrize("change", [("blkdiscard", "--length", "4096"),
                                    ("blkdiscard", "--zeroout", "--length", "4096")],
                         ids=["discard", "zeroes"])
def test_saved_and_changed(lab, tmp_path, change):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1, 64 * KIB))
    ok("save", ramdisk.path, tmp_path / "image", "--progress", "none")
    run(*change, ramdisk.path)
    refused("remove", "rxd0")


@pytest.mark.one_kernel
def test_saved_and_replaced(lab, tmp_path):
    """The saved disk was another one with the same number and UUID."""
    identity = "01234567-89ab-cdef-0123-456789abcdef"
    for saves in True, False:
        lab.ramdisk(4 * MIB, index=7, uuid=bytes.fromhex(identity.replace("-", "")))
        direct.write("/dev/rxd7", 0, stamp(1))
        if saves:
            ok("save", "rxd7", tmp_path / "image", "--progress", "none")
            ok("remove", "rxd7")
    refused("remove", "rxd7")


def saved_image(lab, image):
    """Save a RAM disk to an image."""
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    ok("save", ramdisk.path, image, "--format", "raw")
    return ramdisk


@pytest.mark.one_kernel
@pytest.mark.parametrize("how, name", [
    ("another disk's", "image"), ("removed", "two\nlines\n"), ("renamed", "image"),
    ("written", " blank "), *long([
        ("another disk's", "two\nlines\n"), ("another disk's", " blank "), ("removed", "image"),
        ("removed", " blank "), ("renamed", "two\nlines\n"), ("renamed", " blank "),
        ("written", "image"), ("written", "two\nlines\n")])])
def test_image_that_was_lost(lab, tmp_path, how, name):
    """The only image was replaced by one of the same size, or is not there any more."""
    image = tmp_path / name
    ramdisk = saved_image(lab, image)
    old = image.stat()
    ok("remove", ramdisk.path, "--dry-run")
    if how == "another disk's":
        other = lab.ramdisk(4 * MIB)
        ok("save", other.path, image, "--format", "raw")
        os.utime(image, ns=(old.st_atime_ns, old.st_mtime_ns))
    elif how == "removed":
        image.unlink()
    elif how == "renamed":
        image.rename(tmp_path / "other")
    else:
        with open(image, "r+b") as file:
            file.write(b"x")
    what = "was replaced or changed" if image.exists() else "is missing"
    text = str(image).replace("\n", "?")
    for command in "remove", "clear":
        refused(command, ramdisk.path, names=(f"'{text}', but that file {what};",))
    # A write since is the reason that is reported.
    direct.write(ramdisk.path, 0, stamp(2))
    refused("remove", ramdisk.path, names=("was not saved to a file",))
    ok("save", ramdisk.path, image)
    ok("remove", ramdisk.path)


@pytest.mark.one_kernel
def test_image_that_is_the_last_one(lab, tmp_path):
    """An earlier image of the same state does not count."""
    ramdisk = saved_image(lab, tmp_path / "first")
    ok("save", ramdisk.path, tmp_path / "second")
    (tmp_path / "second").unlink()
    refused("remove", ramdisk.path, names=(f"'{tmp_path}/second', but that file is missing",))
    ok("save", ramdisk.path, tmp_path / "first")
    ok("remove", ramdisk.path)


@pytest.mark.one_kernel
@pytest.mark.parametrize("path", ["image", "folder/../image", "link", "folder-link/image"])
def test_image_by_another_path(lab, tmp_path, monkeypatch, path):
    """The record has the path of the file itself, whatever the command was given."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder-link").symlink_to(".")
    (tmp_path / "link").symlink_to("image")
    (tmp_path / "image").touch()
    monkeypatch.chdir(tmp_path)
    ramdisk = saved_image(lab, path)
    monkeypatch.chdir("/")
    (tmp_path / "link").unlink()
    (tmp_path / "folder-link").unlink()
    ok("remove", ramdisk.path, "--dry-run")
    (tmp_path / "image").unlink()
    refused("remove", ramdisk.path, names=(f"'{tmp_path}/image', but that file is missing",))


@pytest.mark.one_kernel
def test_image_that_was_replaced_at_once(lab, tmp_path):
    """Another process replaced the image before the save recorded it."""
    ramdisk, other = lab.ramdisk(4 * MIB), lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    image, second = tmp_path / "image", tmp_path / "second"
    ok("save", other.path, second)
    # When the image has its name, its folder is synced.
    with held_at(tmp_path / "log", "fsync", "save", ramdisk.path, image, "--progress", "none",
                 options=("-P", tmp_path)) as process:
        assert image.exists()
        os.replace(second, image)
        let_go(process)
        assert process.wait(60) == 0
    refused("remove", ramdisk.path)


@pytest.mark.one_kernel
def test_no_record_of_what_is_gone(lab, tmp_path):
    before = sorted(os.listdir("/run/rxadm")) if os.path.exists("/run/rxadm") else []
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    ok("save", ramdisk.path, tmp_path / "image", "--progress", "none")
    assert len(os.listdir("/run/rxadm")) == len(before) + 3
    ok("remove", "rxd0")
    assert sorted(os.listdir("/run/rxadm")) == before


@pytest.mark.one_kernel
@pytest.mark.parametrize("fault", ["pwrite64:error=EIO", "fsync:error=EIO", "linkat:error=EIO",
                                   "pwrite64:signal=KILL:when=2", "linkat:signal=KILL"])
def test_save_that_fails(lab, tmp_path, fault):
    """There is no image, or its completion could not be reported."""
    ramdisk = lab.ramdisk(16 * MIB)
    direct.write(ramdisk.path, 0, stamp(1, 16 * MIB))
    result = run("strace", "-f", "-o", "/dev/null", "-e", f"inject={fault}", program("rxadm"),
                 "save", ramdisk.path, tmp_path / "image", "--progress", "none", check=False,
                 environment=TRACED)
    assert result.returncode
    refused("remove", "rxd0")


@pytest.mark.one_kernel
def test_cache(lab):
    """The data of a cache is a copy, and the RAM disk is empty afterwards."""
    cache = lab.cache(4 * MIB, cache_size=4 * MIB)
    direct.write(cache.path, 0, stamp(1, MIB))
    assert direct.read(cache.path, 0, MIB) == stamp(1, MIB)
    assert cache.ramdisk.query().mem_used
    result = rxadm("remove", cache.ramdisk.path, "--force")
    assert result.returncode == BUSY and cache.name in result.stderr
    ok("unmap", cache.name)
    ok("remove", cache.ramdisk.path)


@COMMANDS
def test_open(lab, command):
    """A disk in use is refused, also with --force."""
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    with direct.Direct(ramdisk.path):
        for options in (), ("--force",):
            result = rxadm(command, "rxd0", *options)
            assert result.returncode == BUSY and "is in use" in result.stderr
    assert direct.read(ramdisk.path, 0, 4096) == stamp(1)


@pytest.mark.one_kernel
def test_several(lab):
    """All disks are checked before any is removed."""
    for number in range(3):
        lab.ramdisk(4 * MIB)
        if number:
            direct.write(f"/dev/rxd{number}", 0, stamp(number, number * 64 * KIB))
    before = state()
    result = rxadm("remove", "rxd0", "rxd1", "rxd2")
    lines = result.stderr.splitlines()
    assert result.returncode == BUSY and len(lines) == 2 and state() == before
    assert "'/dev/rxd1': holds 64K" in lines[0] and "'/dev/rxd2': holds 128K" in lines[1]
    result = rxadm("remove", "--all")
    assert result.returncode == BUSY and result.stderr.splitlines() == lines
    assert [device["index"] for device in state()["ramdisks"]] == [1, 2]
    ok("remove", "--all", "--force")
    assert state()["ramdisks"] == []


@pytest.mark.one_kernel
def test_written_while_removal_waits(lab, tmp_path):
    """Another process writes while the ioctl waits: the removal is then refused."""
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    ok("save", "rxd0", tmp_path / "image")
    trace = tmp_path / "trace"
    options = "-P", "/dev/rxd-control"
    strace = ["strace", "-o", trace, "-e", "trace=ioctl", *options]
    run(*strace, program("rxadm"), "remove", "rxd0", "--dry-run", environment=TRACED)
    # A dry run first checks whether the module supports dry runs; both end with the removal.
    last = trace.read_text(encoding="ascii").count("ioctl(") - 1
    trace.unlink()
    with held_at(trace, "ioctl", "remove", "rxd0", number=last, error="EBUSY",
                 options=options) as process:
        direct.write(ramdisk.path, 0, stamp(2))
        let_go(process)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == BUSY and "--force" in errors, errors
    assert direct.read(ramdisk.path, 0, len(stamp(2))) == stamp(2)


@pytest.mark.one_kernel
def test_map(lab):
    """Data without a signature needs --force, too, and the help says so."""
    assert "holds unsaved data or a signature" in ok("map", "--help")
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, MIB, stamp(1))
    name = lab.next_name("rxdtest")
    refused("map", "--cache", "rxd0", "--origin", DISK, "--name", name)
    assert direct.read(ramdisk.path, MIB, len(stamp(1))) == stamp(1)
    lab.adopt_mapped(name)
    ok("map", "--cache", "rxd0", "--origin", DISK, "--name", name, "--force")


@pytest.mark.one_kernel
def test_first_save_after_boot(lab, tmp_path):
    lab.stack.callback(lambda: os.makedirs("/run/rxadm", exist_ok=True))
    shutil.rmtree("/run/rxadm", ignore_errors=True)
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    ok("save", "rxd0", tmp_path / "image", "--format", "raw")
    ok("remove", "rxd0")


def test_number_of_changes(lab):
    """It distinguishes each state that was queried from all later states."""
    ramdisk = lab.ramdisk(4 * MIB)
    assert os.stat(f"/sys/block/{ramdisk.name}/rxd/changes").st_mode & 0o777 == 0o400
    seen = [ramdisk.attribute("changes"), ramdisk.attribute("changes")]
    assert seen == ["0", "0"]
    for number in range(1, 4):
        direct.write(ramdisk.path, 0, stamp(number))
        direct.write(ramdisk.path, MIB, stamp(number))
        assert ramdisk.attribute("changes") == ramdisk.attribute("changes") == str(number)
    direct.read(ramdisk.path, 0, MIB)
    assert ramdisk.attribute("changes") == "3"
    run("blkdiscard", ramdisk.path)
    assert ramdisk.attribute("changes") == "4"


def test_number_of_changes_under_way(lab):
    """A read waits for I/O in flight: here, a reserved disk zeroes its memory by one request."""
    size = 64 * MIB
    ramdisk = lab.ramdisk(size, flags=CREATE_RESERVE)
    for at in 0, size - 4096:
        direct.write(ramdisk.path, at, stamp(1))
    with subprocess.Popen(["blkdiscard", "--zeroout", ramdisk.path]) as process:
        while direct.read(ramdisk.path, 0, 4096) == stamp(1):
            assert process.poll() in (None, 0)
        number = ramdisk.attribute("changes")
        last = direct.read(ramdisk.path, size - 4096, 4096)
    assert direct.read(ramdisk.path, size - 4096, 4096) == last or \
        ramdisk.attribute("changes") != number


@pytest.mark.one_kernel
def test_shrunk_while_saved(lab, tmp_path):
    """Half of an image must not be of the disk before, and half of it after."""
    ramdisk = lab.ramdisk(16 * MIB)
    direct.write(ramdisk.path, 0, stamp(1, 16 * MIB))
    with held_at(tmp_path / "trace", "pwrite64", "save", "rxd0", tmp_path / "image", "--progress",
                 "none") as process:
        # The writer waits, and the reader has read as far ahead as it does.
        time.sleep(0.5)
        ramdisk.resize(4 * MIB, RESIZE_FORCE)
        ramdisk.resize(16 * MIB)
        let_go(process)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == BUSY and "during the save" in errors, errors
    assert not (tmp_path / "image").exists()
    refused("remove", "rxd0")


def test_shrunk(lab):
    """A shrink that drops no data is no change."""
    reserved, thin = lab.ramdisk(8 * MIB, flags=CREATE_RESERVE), lab.ramdisk(8 * MIB)
    direct.write(thin.path, 0, stamp(1))
    number = thin.attribute("changes")
    for ramdisk in reserved, thin:
        ramdisk.resize(4 * MIB)
    assert (reserved.attribute("changes"), thin.attribute("changes")) == ("0", number)
    ok("remove", reserved.path)
    refused("remove", thin.path)
