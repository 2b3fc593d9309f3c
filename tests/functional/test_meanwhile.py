# SPDX-License-Identifier: GPL-2.0-only
"""rxadm resize, remove and list while others resize, replace and remove the same disks."""

import contextlib
import json
import os
import subprocess
import threading
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, program, rxadm
from rxdlib.configuration import RECORDS, Configuration, disk_of, note_unfinished, records
from rxdlib.control import Control
from rxdlib.direct import BLOCK, MIB, stamp
from rxdlib.lab import DISK, LONG, state
from rxdlib.outcome import ok
from rxdlib.sampled import long
from rxdlib.traced import held, let_go

pytestmark = pytest.mark.one_kernel
DEVICE, BUSY = 4, 5
SECONDS = 120
REMOVE, RESIZE, CLEAR = "0xb7, 0x2,", "0xb7, 0x3,", "0xb7, 0x5,"
DELAY = 2


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


@contextlib.contextmanager
def slowly(*args, delay=DELAY, log="/dev/null", when="exit"):
    """Run rxadm with a pause after each ioctl, or before it, until ends() lets it go on."""
    # LeakSanitizer cannot work beside strace.
    environment = dict(ENVIRONMENT, ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0")
    with subprocess.Popen(["strace", "-D", "-f", "-o", str(log), "-e", "trace=ioctl,fcntl", "-e",
                           f"inject=ioctl:delay_{when}={int(delay * 1000000)}",
                           program("rxadm"), *args],
                          env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                let_go(process)


def wait_for(log, words):
    """Wait until strace has logged it."""
    end = time.monotonic() + SECONDS
    while not log.exists() or words not in log.read_text():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextlib.contextmanager
def held_before(process, log, ioctl):
    """Hold it before it issues an ioctl, which strace delays."""
    wait_for(log, ioctl)
    with held(process):
        assert ioctl in log.read_text().rpartition("\n")[2], "the delay was too short"
        yield


def ends(process):
    let_go(process)
    output, errors = process.communicate(timeout=SECONDS)
    return process.returncode, output, errors


@pytest.mark.parametrize("how", ["apply", *long(["ioctl"])])
def test_grown_while_it_grows(config, tmp_path, how):
    """+SIZE never makes a disk smaller, even if another process has grown it since the check."""
    config.write("[ramdisk a]\nsize = 1M\n")
    config.ok()
    disk = disk_of("ramdisk/a")
    config.write("[ramdisk a]\nsize = 8M\n")
    log = tmp_path / "log"
    with slowly("resize", disk.path, "+1M", "--force", log=log, when="enter") as process:
        # rxadm has read the size to which it adds.
        with held_before(process, log, RESIZE):
            if how == "apply":
                applying = config.start()
                assert f"waiting for process {process.pid}" in applying.stderr.readline().decode()
            else:
                disk.resize(8 * MIB)
                direct.write(disk.path, 6 * MIB, stamp(1))
        code, _, errors = ends(process)
    if how == "apply":
        applying.communicate(timeout=SECONDS)
        assert applying.returncode == 0
        direct.write(disk.path, 6 * MIB, stamp(1))
    assert (code, disk.query().size) == (0 if how == "apply" else BUSY, 8 * MIB), errors
    assert how == "apply" or f"'{disk.path}'" in errors and "not resized by" in errors
    assert direct.read(disk.path, 6 * MIB, BLOCK) == stamp(1)


def test_grow_needs_no_force(lab):
    disk = lab.ramdisk(4 * MIB)
    result = rxadm("resize", disk.path, "+4M", "--force", "--dry-run")
    assert result.returncode == 0 and "RXD_RESIZE_FORCE" not in result.stdout
    assert f"size={8 * MIB}" in result.stdout


def test_each_disk_has_a_lock(lab, tmp_path):
    """A long resize does not delay the resize of another disk."""
    disks = [lab.ramdisk(MIB) for _ in range(2)]
    with slowly("resize", disks[0].path, "2M", log=tmp_path / "log") as process:
        wait_for(tmp_path / "log", "F_SETLK")
        with held(process):
            result = rxadm("--verbose", "resize", disks[1].path, "2M")
        assert (result.returncode, result.stderr) == (0, "")
        assert ends(process)[0] == 0
    assert [disk.query().size for disk in disks] == [2 * MIB, 2 * MIB]


@pytest.mark.parametrize("force", [
    (), pytest.param(("--force",), marks=pytest.mark.long)], ids=["", "force"])
def test_replaced_after_the_check(lab, tmp_path, force):
    """The second of two disks is replaced while the first is removed."""
    for index in range(2):
        lab.ramdisk(MIB, index=index)
    log = tmp_path / "log"
    with slowly("remove", "rxd0", "rxd1", *force, log=log) as process:
        # Both were checked: the lock is taken for the removal of the first.
        wait_for(log, "F_SETLK")
        with held(process):
            with Control() as control:
                control.remove(1)
            lab.ramdisk(MIB, index=1)
            direct.write("/dev/rxd1", 0, stamp(1))
        code, _, errors = ends(process)
    assert code == BUSY and len(errors.splitlines()) == 1, errors
    assert "'/dev/rxd1': was replaced meanwhile" in errors
    assert [device["index"] for device in state()["ramdisks"]] == [1]
    assert direct.read("/dev/rxd1", 0, BLOCK) == stamp(1)


def left(config, *args):
    """--all keeps only [ramdisk a] of three disks, and reports it by a line."""
    result = rxadm("remove", "--all", *args)
    assert result.returncode == 0, result
    assert len(result.stderr.splitlines()) == 1 and "note: /dev/rxd0" in result.stderr
    assert disk_of("ramdisk/a")
    return result


@pytest.mark.parametrize("image", [True, *long([False])], ids=["image", ""])
def test_all_but_those_of_apply(config, lab, image):
    """apply --stop saves and removes them; remove removes them by name."""
    config.write("[ramdisk a]\nsize = 4M\n" + f"image = {config.folder}/a.img\n" * image)
    config.ok()
    disk = disk_of("ramdisk/a")
    direct.write(disk.path, 0, stamp(1))
    for _ in range(2):
        lab.ramdisk(MIB)
    assert left(config, "--force", "--dry-run").stdout.count("RXD_REMOVE") == 2
    assert len(state()["ramdisks"]) == 3
    assert "apply --stop ramdisk/a" in left(config, "--force").stderr
    assert len(state()["ramdisks"]) == 1
    assert direct.read(disk.path, 0, BLOCK) == stamp(1)
    rxadm("remove", "rxd0", "--force", check=True)
    assert not state()["ramdisks"]


def test_all_but_what_is_being_made(config, tmp_path):
    """A disk between its creation and mkfs is empty, but is kept."""
    config.write("[ramdisk a]\nsize = 16M\nfs = ext4\n")
    with slowly("apply", "--config", str(config.path), delay=1,
                log=tmp_path / "log") as process:
        end = time.monotonic() + SECONDS
        while not state()["ramdisks"]:
            assert time.monotonic() < end
            time.sleep(0.02)
        with held(process):
            left(config)
        code, _, errors = ends(process)
    assert code == 0, errors
    assert disk_of("ramdisk/a").query().mem_used
    config.ok("--stop")


def test_all_but_what_is_not_complete(config, lab):
    """A disk whose loading is incomplete is kept, even if the record of its section is empty."""
    config.write("[ramdisk a]\nsize = 4M\n")
    config.ok()
    lab.ramdisk(MIB)
    with open(f"{RECORDS}/unfinished-{disk_of('ramdisk/a').query().uuid}", "w",
              encoding="ascii"):
        pass
    left(config)
    with open(f"{RECORDS}/ramdisk-a", "r+", encoding="ascii") as record:
        record.truncate()
    result = rxadm("remove", "--all")
    assert disk_of("ramdisk/a") and "rxd0" in result.stderr


def test_list_of_what_is_going(nothing_left):
    """A disk that is being removed loses its size, and then its queue: it is not listed."""
    done = threading.Event()
    seen = set()

    def come_and_go():
        with Control() as control:
            while not done.is_set():
                control.remove(control.create(MIB))

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60 if LONG else 15):
            result = rxadm("list", "--json", "--bytes", "-o", "SIZE,LOGICAL_BLOCK_SIZE",
                           check=True)
            seen.update((disk["size"], disk["logical_block_size"])
                        for disk in json.loads(result.stdout)["ramdisks"])
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert seen <= {(MIB, 512)}


DISCARDS = pytest.mark.parametrize("command, ioctl", [("remove", REMOVE), ("clear", CLEAR)])


def interrupted(tmp_path, ioctl, act, *args):
    """Act just before rxadm issues an ioctl. Return how rxadm ends."""
    log = tmp_path / "log"
    with slowly(*args, delay=0.5, log=log, when="enter") as process:
        with held_before(process, log, ioctl):
            act()
        return ends(process)


def saved(lab, tmp_path):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    ok("save", ramdisk.path, str(tmp_path / "image"))
    return ramdisk


def replace(ramdisk):
    """The new disk has the device number of the old one, which takes a moment to become free."""
    number = os.stat(ramdisk.path).st_rdev
    end = time.monotonic() + SECONDS
    with Control() as control:
        control.remove(ramdisk.index)
        control.create(4 * MIB, index=ramdisk.index)
        while os.stat(ramdisk.path).st_rdev != number:
            assert time.monotonic() < end
            control.remove(ramdisk.index)
            control.create(4 * MIB, index=ramdisk.index)
    direct.write(ramdisk.path, MIB, stamp(2))


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["", "dry-run"])
@DISCARDS
def test_written_before_it_is_discarded(lab, tmp_path, command, ioctl, options):
    ramdisk = saved(lab, tmp_path)
    code, output, errors = interrupted(
        tmp_path, ioctl, lambda: direct.write(ramdisk.path, MIB, stamp(2)), command, "rxd0",
        *options)
    assert (code, output) == (BUSY, "") and "was not saved" in errors, errors
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)


@pytest.mark.parametrize("command, ioctl, options", [
    ("remove", REMOVE, ()), ("clear", CLEAR, ("--force",)),
    *long([("remove", REMOVE, ("--force",)), ("clear", CLEAR, ())])], ids=str)
def test_replaced_before_it_is_discarded(lab, tmp_path, command, ioctl, options):
    """--force is for the data that the user has seen, not for that of another disk."""
    ramdisk = saved(lab, tmp_path)
    code, output, errors = interrupted(tmp_path, ioctl, lambda: replace(ramdisk), command,
                                       "rxd0", *options)
    assert code in (BUSY, DEVICE) and not output and len(errors.splitlines()) == 1, errors
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)


@pytest.mark.parametrize("ioctl", [
    pytest.param("DM_TABLE_LOAD", marks=pytest.mark.long), "DM_DEV_SUSPEND"])
def test_written_before_it_is_mapped(lab, tmp_path, ioctl):
    ramdisk = saved(lab, tmp_path)
    records = sorted(os.listdir(RECORDS))
    code, output, errors = interrupted(
        tmp_path, ioctl, lambda: direct.write(ramdisk.path, MIB, stamp(2)),
        "map", "--cache", "rxd0", "--origin", DISK)
    assert (code, output) == (BUSY, "") and len(errors.splitlines()) == 1, errors
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)
    assert dm.names() == [] and sorted(os.listdir(RECORDS)) == records


def test_replaced_before_it_is_mapped(lab, tmp_path):
    """Not even --force takes another disk."""
    ramdisk = saved(lab, tmp_path)
    code, output, _ = interrupted(tmp_path, "DM_TABLE_LOAD", lambda: replace(ramdisk), "map",
                                  "--force", "--cache", "rxd0", "--origin", DISK)
    assert code and not output
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)


def started(config, tmp_path):
    """A section with an image."""
    image = tmp_path / "image"
    config.write(f"[ramdisk a]\nsize = 4M\nimage = {image}\n")
    config.ok()
    return disk_of("ramdisk/a"), image


def test_written_after_it_was_saved(config, tmp_path):
    """apply --stop saves it again before it removes it."""
    disk = started(config, tmp_path)[0].path
    direct.write(disk, 0, stamp(1))
    code, _, errors = interrupted(tmp_path, REMOVE, lambda: direct.write(disk, MIB, stamp(2)),
                                  "apply", "--stop", "--config", str(config.path))
    assert (code, errors) == (0, "")
    assert disk_of("ramdisk/a") is None
    config.ok()
    disk = disk_of("ramdisk/a").path
    assert direct.read(disk, 0, BLOCK) == stamp(1)
    assert direct.read(disk, MIB, BLOCK) == stamp(2)


@pytest.mark.parametrize("writes", [4, *long([1])])
def test_written_after_each_save(config, tmp_path, writes):
    """After the fourth save it is kept. The image belongs to another disk, and is kept, too."""
    ramdisk, image = started(config, tmp_path)
    direct.write(ramdisk.path, 0, stamp(1))
    image.write_bytes(b"other")
    log = tmp_path / "log"
    with slowly("apply", "--stop", "--config", str(config.path), delay=0.5, log=log,
                when="enter") as process:
        for number in range(writes):
            end = time.monotonic() + SECONDS
            while not log.exists() or log.read_text().count(REMOVE) <= number:
                assert time.monotonic() < end
                time.sleep(0.02)
            with held_before(process, log, REMOVE):
                direct.write(ramdisk.path, number * BLOCK, stamp(2))
        code, output, _ = ends(process)
    kept = writes == 4
    assert code == BUSY and image.read_bytes() == b"other"
    assert bool(disk_of("ramdisk/a")) == ("ramdisk-a" in records()) == kept
    assert ("ramdisk a: remove /dev/rxd0" in output) != kept


def test_replaced_after_it_was_saved(config, tmp_path):
    """Another disk with the same number of changes is not the disk that was saved."""
    ramdisk, _ = started(config, tmp_path)
    direct.write(ramdisk.path, 0, stamp(1))
    code, _, errors = interrupted(tmp_path, REMOVE, lambda: replace(ramdisk), "apply", "--stop",
                                  "--config", str(config.path))
    assert code and errors
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)


@pytest.mark.parametrize("options", [*long([((),)]), ("--stop",)], ids=["start", "stop"])
def test_unfinished_disk_is_written(config, tmp_path, options):
    """It was empty when apply planned to remove it."""
    ramdisk, image = started(config, tmp_path)
    with open(f"{RECORDS}/unfinished-{ramdisk.query().uuid}", "w", encoding="ascii"):
        pass
    interrupted(tmp_path, REMOVE, lambda: direct.write(ramdisk.path, MIB, stamp(2)), "apply",
                *options, "--config", str(config.path))
    assert len(list(tmp_path.glob(f"{image.name}.new-*"))) == 1


def test_unfinished_disk_without_image_is_written(config, tmp_path):
    """It was empty when apply planned to remove it. There is no file to save it to: keep it."""
    config.write("[ramdisk a]\nsize = 4M\n")
    config.ok()
    ramdisk = disk_of("ramdisk/a")
    note_unfinished(ramdisk.query().uuid)
    code, _, errors = interrupted(tmp_path, REMOVE,
                                  lambda: direct.write(ramdisk.path, MIB, stamp(2)), "apply",
                                  "--config", str(config.path))
    assert code == BUSY and len(errors.splitlines()) == 1 and ramdisk.path in errors, errors
    assert config.ok() == []
    kept = direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)
    assert kept
