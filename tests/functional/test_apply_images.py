# SPDX-License-Identifier: GPL-2.0-only
"""rxadm apply --stop: it saves what was started, and replaces only images of the same disk."""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, program, rxadm, run
from rxdlib.configuration import (BUSY, DEVICE, MEMORY, PARAMETERS, PERMISSION, RECORDS,
                                  Configuration, disk_of, note_unfinished, records,
                                  unfinished)
from rxdlib.direct import KIB, MIB, stamp
from rxdlib.lab import state
from rxdlib.sampled import long, sampled

pytestmark = pytest.mark.one_kernel


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


def fill(seed):
    direct.write(disk_of("ramdisk/a").path, 0, stamp(seed, MIB))


def held():
    return direct.read(disk_of("ramdisk/a").path, 0, MIB)


def section(image, more=""):
    return f"[ramdisk a]\nsize = 16M\nimage = {image}\n{more}"


def holds(config, image, seed):
    """Return whether an image is one of a disk with this content."""
    path = rxadm("load", image, "--uuid", "random", check=True).stdout.strip()
    same = direct.read(path, 0, MIB) == stamp(seed, MIB)
    rxadm("remove", "--force", path, check=True)
    return same


def disturbed(options, *command):
    """Run rxadm while strace changes its system calls. LeakSanitizer cannot run beside strace."""
    environment = dict(ENVIRONMENT, ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0")
    return run("strace", "-o", "/dev/null", *options, program("rxadm"), *command, check=False,
               environment=environment)


@pytest.fixture(name="drop_in")
def made_by_the_generator():
    """What systemd has loaded for the service of the section."""
    top = "/run/systemd/generator"
    assert not os.path.exists(top)
    folder = f"{top}/rxd-ramdisk@a.service.d"
    os.makedirs(folder)
    yield f"{folder}/50-rxd.conf"
    shutil.rmtree(top)


def load_service(drop_in, folder):
    with open(drop_in, "w", encoding="ascii") as file:
        file.write(f"[Unit]\nRequiresMountsFor=/x\n\n[Service]\nReadWritePaths=-{folder}\n")


def test_service_that_cannot_save(config, drop_in):
    """The service that runs can write only where the image was when systemd loaded it."""
    config.write(section(config.folder / "a.img"))
    load_service(drop_in, config.folder)
    assert config.ok()
    config.write(section(config.folder / "b.img"))
    assert config.ok() == [], "it is in the same folder"
    image = config.folder / "100%" / "a.img"
    image.parent.mkdir()
    config.write(section(image))
    for _ in range(2):
        result = config.apply()
        assert result.returncode == 0 and len(result.stderr.splitlines()) == 1, result
        for words in "note", f"image '{image}'", "rxd-ramdisk@a", "systemctl daemon-reload":
            assert words in result.stderr
    # The generator adds the folders of what was started in a second file.
    started = drop_in.replace("50-rxd", "60-rxd-started")
    for file in drop_in, started:
        load_service(file, str(image.parent).replace("%", "%%"))
        assert config.ok() == []
        load_service(file, config.folder)
        assert "daemon-reload" in config.apply().stderr
    load_service(started, str(image.parent).replace("%", "%%"))
    assert config.ok("--stop")[0] == f"ramdisk a: save /dev/rxd0 to '{image}'"


def saved_beside(config, image, seed):
    """Stop: the image stays, the disk is saved beside it, and both files are named."""
    old = image.read_bytes()
    disk = disk_of("ramdisk/a").path
    result = config.apply("--stop")
    assert result.returncode == BUSY, result
    assert image.read_bytes() == old
    beside = glob.glob(f"{image}.new-*")
    assert len(beside) == 1
    assert len(result.stderr.splitlines()) == 1
    for name in "ramdisk a", f"'{image}'", f"'{beside[0]}'", disk:
        assert name in result.stderr
    assert holds(config, beside[0], seed)
    assert not disk_of("ramdisk/a"), "what is saved need not stay"
    assert config.ok("--stop") == []
    os.unlink(beside[0])


@pytest.fixture(name="image")
def image_of_the_disk(config):
    """An image that was saved by an earlier boot."""
    image = config.folder / "images" / "a.img"
    image.parent.mkdir()
    config.write(section(image))
    config.ok()
    fill(1)
    config.ok("--stop")
    return image


def test_stop_waits_for_an_opener(config, image):
    """A process that has the disk open for some seconds does not cost its data."""
    config.ok()
    fill(2)
    with open(disk_of("ramdisk/a").path, "rb") as disk, \
            subprocess.Popen(["sleep", "3"], stdin=disk):
        disk.close()
        result = config.apply("--stop")
    assert not result.returncode, result
    assert holds(config, image, 2)


def test_file_system_that_was_not_mounted(config, image, lab):
    """At boot, the image is missing because its file system is not mounted; later it is there."""
    other = lab.mount("rxdtest", "-t", "tmpfs")
    run("mount", "--bind", other, image.parent)
    config.ok()
    fill(2)
    run("umount", image.parent)
    saved_beside(config, image, 2)
    config.ok()
    assert held() == stamp(1, MIB)
    config.ok("--stop")


def test_file_system_that_is_gone(config, image, lab):
    """An image in the directory below the mount point would never be found."""
    away = lab.mount("rxdtest", "-t", "tmpfs")
    shutil.copy(image, away)
    os.unlink(image)
    run("mount", "--bind", away, image.parent)
    config.ok()
    assert held() == stamp(1, MIB)
    fill(2)
    run("umount", image.parent)
    result = config.apply("--stop")
    beside = glob.glob(f"{image}.new-*")
    assert result.returncode == BUSY and len(beside) == 1 and not image.exists()
    assert f"'{image}'" in result.stderr and f"'{beside[0]}'" in result.stderr
    assert holds(config, beside[0], 2)


def test_apply_while_the_file_system_is_gone(config, image, lab):
    """A later apply, which finds no image there, does not make --stop save there."""
    away = lab.mount("rxdtest", "-t", "tmpfs")
    shutil.copy(image, away)
    os.unlink(image)
    run("mount", "--bind", away, image.parent)
    config.ok()
    fill(2)
    run("umount", image.parent)
    result = config.apply()
    assert (result.returncode, result.stdout) == (0, "")
    assert len(result.stderr.splitlines()) == 1
    assert f"note: image '{image}'" in result.stderr and "another file system" in result.stderr
    result = config.apply("--stop")
    beside = glob.glob(f"{image}.new-*")
    assert result.returncode == BUSY and len(beside) == 1 and not image.exists()
    assert "another file system" in result.stderr and f"'{beside[0]}'" in result.stderr
    assert holds(config, beside[0], 2)


def test_image_of_another_disk(config, image, lab):
    """Another disk's image replaces the file while the disk is in use."""
    config.ok()
    fill(2)
    other = lab.ramdisk(4 * MIB)
    direct.write(other.path, 0, stamp(3, MIB))
    assert rxadm("save", other.path, image).returncode == 0
    saved_beside(config, image, 2)


def test_image_that_was_restored(config, image):
    """The owner restored an older state of the same disk, to be loaded at the next boot."""
    backup = config.folder / "backup"
    shutil.copy(image, backup)
    config.ok()
    fill(2)
    config.ok("--stop")
    config.ok()
    fill(3)
    os.replace(backup, image)
    saved_beside(config, image, 3)
    config.ok()
    assert held() == stamp(1, MIB)
    config.ok("--stop")


@pytest.mark.parametrize("damage", ["header", *long(["text", "empty"])])
def test_file_that_is_no_image(config, image, damage):
    config.ok()
    fill(2)
    data = bytearray(image.read_bytes())
    data[100] ^= 1
    image.write_bytes({"text": b"dear diary\n" * 1000, "header": bytes(data), "empty": b""}[damage])
    saved_beside(config, image, 2)


def test_disk_that_apply_did_not_make(config, image):
    """It has the UUID of the section, and its content is unknown."""
    uuid = "c0ffee00-0000-4000-8000-000000000001"
    config.write(section(image, f"uuid = {uuid}\n"))
    path = rxadm("create", "--size", "16M", "--uuid", uuid, check=True).stdout.strip()
    assert config.apply().returncode == 0
    before = image.read_bytes()
    result = config.apply("--stop")
    assert result.returncode == BUSY and f"'{image}.new-" in result.stderr and path in result.stderr
    assert image.read_bytes() == before


def test_disk_that_was_made_anew(config, image):
    """The records of a disk do not apply to the next disk with its UUID."""
    config.ok()
    disk = disk_of("ramdisk/a")
    uuid = disk.query().uuid
    rxadm("remove", "--force", disk.path, check=True)
    rxadm("create", "--size", "16M", "--uuid", uuid, "--index", disk.index, check=True)
    fill(2)
    saved_beside(config, image, 2)


def test_other_image_that_was_loaded(config, image):
    """A disk that was cleared and filled from another image is not a newer state."""
    config.ok()
    other = config.folder / "other"
    disk = disk_of("ramdisk/a").path
    fill(4)
    rxadm("save", disk, other, check=True)
    second = rxadm("load", other, "--uuid", "random", check=True).stdout.strip()
    rxadm("save", second, other, check=True)
    rxadm("remove", "--force", second, check=True)
    rxadm("clear", "--force", disk, check=True)
    rxadm("load", "--into", disk, other, check=True)
    saved_beside(config, image, 4)


def interrupted(config):
    """The state after an apply that was killed during the load: an empty disk, and a record."""
    config.ok()
    disk = disk_of("ramdisk/a")
    run("blkdiscard", disk.path)
    for path in glob.glob(os.path.join(RECORDS, "disk-*")):
        os.unlink(path)
    note_unfinished(disk.query().uuid)
    return disk


@pytest.mark.parametrize("how, again", [
    ("into", True), ("anew", False), *long([("into", False), ("anew", True)])])
def test_loaded_by_hand_after_a_kill(config, image, how, again):
    disk = interrupted(config).path
    if how == "into":
        rxadm("load", image, "--into", disk, check=True)
    else:
        rxadm("remove", "--force", disk, check=True)
        assert unfinished() == []
        rxadm("load", image, check=True)
    assert unfinished() == []
    fill(2)
    if again:
        assert config.ok() == []
        assert held() == stamp(2, MIB)
    config.ok("--stop")
    assert holds(config, image, 2)


@pytest.mark.parametrize("options", [(), ("--stop",)], ids=["start", "stop"])
def test_loaded_by_hand_meanwhile(config, image, options):
    """An apply was killed before it created the disk, and the user loads the image now."""
    config.ok()
    uuid = disk_of("ramdisk/a").query().uuid
    config.ok("--stop")
    config.ok()
    rxadm("remove", "--force", disk_of("ramdisk/a").path, check=True)
    note_unfinished(uuid)
    environment = dict(ENVIRONMENT, ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0")
    with subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync", "-e",
                           "inject=fsync:delay_enter=4000000", program("rxadm"), "load",
                           str(image)], env=environment, stdout=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        # It is loaded, and not closed yet.
        while not disk_of("ramdisk/a") or not disk_of("ramdisk/a").query().mem_used:
            assert time.monotonic() < end
            time.sleep(0.02)
        seen = disk_of("ramdisk/a").seen()["diskseq"]
        result = config.apply(*options)
        assert process.wait(60) == 0
    assert result.returncode == 0 and list(image.parent.glob("*.new-*")) == [], result
    if options:
        assert not disk_of("ramdisk/a")
    else:
        assert result.stdout == "" and disk_of("ramdisk/a").seen()["diskseq"] == seen
        config.ok("--stop")
    assert holds(config, image, 1)


@pytest.mark.parametrize("how", ["create", "load"])
def test_note_without_a_disk(config, image, how):
    """An apply that was killed before it created the disk says nothing about a later disk."""
    config.ok()
    uuid = disk_of("ramdisk/a").query().uuid
    config.ok("--stop")
    note_unfinished(uuid)
    if how == "load":
        rxadm("load", image, check=True)
    else:
        rxadm("create", "--size", "16M", "--uuid", uuid, check=True)
    assert unfinished() == []
    fill(2)
    if how == "load":
        config.ok("--stop")
        assert holds(config, image, 2)
    else:
        saved_beside(config, image, 2)


def test_written_after_a_kill(config, image):
    """The disk was not started completely, but holds data."""
    disk = interrupted(config).path
    fill(2)
    saved_beside(config, image, 2)
    assert unfinished() == []

    interrupted(config)
    fill(3)
    result = config.apply()
    assert result.returncode == 0 and len(result.stderr.splitlines()) == 1, result
    beside, = image.parent.glob("*.new-*")
    assert f"'{beside}'" in result.stderr and "was not started completely" in result.stderr
    assert result.stdout.splitlines()[:2] == [
        f"ramdisk a: save {disk}, which was not started completely, beside '{image}'",
        f"ramdisk a: remove {disk}, which was not started completely"]
    assert held() == stamp(1, MIB) and holds(config, beside, 3)
    beside.unlink()
    config.ok("--stop")

    # No first image is created from it, either, and an empty disk is not saved.
    interrupted(config)
    image.unlink()
    fill(2)
    result = config.apply("--stop")
    beside, = image.parent.glob("*.new-*")
    assert result.returncode == BUSY and not image.exists()
    beside.rename(image)
    interrupted(config)
    assert config.ok("--stop") == [f"ramdisk a: remove {disk}"]
    assert holds(config, image, 2)


@pytest.mark.parametrize("how", ["fails", "is killed"])
def test_load_that_leaves_it_empty(config, image, how):
    """The association with the image ends before the first write."""
    config.ok()
    disk = disk_of("ramdisk/a")
    run("blkdiscard", disk.path)
    if how == "fails":
        disk.set_attribute("mem_limit", 64 * KIB)
        assert rxadm("load", image, "--into", disk.path).returncode
    else:
        # As it tells the guard to let all stay.
        disturbed(["-e", "trace=sendto", "-e", "inject=sendto:error=EIO:signal=KILL"],
                  "load", image, "--into", disk.path)
    before = image.read_bytes()
    result = config.apply("--stop")
    beside, = image.parent.glob("*.new-*")
    assert result.returncode == BUSY and f"'{beside}'" in result.stderr
    assert image.read_bytes() == before and holds(config, image, 1)


def test_start_that_is_killed(config, image):
    """As it tells the guard to let the data stay: the next start loads it again."""
    disturbed(["-e", "trace=sendto", "-e", "inject=sendto:error=EIO:signal=KILL"],
              "apply", "--config", config.path)
    config.ok()
    assert direct.read(disk_of("ramdisk/a").path, 0, MIB) == stamp(1, MIB)
    config.ok("--stop")
    assert holds(config, image, 1)


def test_cleared_disk(config, image):
    """A cleared disk is not a newer state until it is saved by a command."""
    config.ok()
    rxadm("clear", "--force", disk_of("ramdisk/a").path, check=True)
    fill(2)
    saved_beside(config, image, 2)
    config.ok()
    rxadm("clear", "--force", disk_of("ramdisk/a").path, check=True)
    fill(3)
    rxadm("save", disk_of("ramdisk/a").path, image, check=True)
    config.ok("--stop")
    assert holds(config, image, 3)


def test_clear_that_is_killed(config, image):
    """The disk is empty then, and the command cannot record this any more."""
    config.ok()
    disk = disk_of("ramdisk/a")
    disturbed(["-e", "trace=unlink,unlinkat", "-e", "inject=unlink,unlinkat:signal=KILL"],
              "clear", "--force", disk.path)
    assert disk.query().mem_used == 0
    fill(2)
    saved_beside(config, image, 2)


def test_removal_after_clear_that_is_killed(config, image):
    """No record of the disk is left, nor what the clear has set aside."""
    config.ok()
    disk = disk_of("ramdisk/a")
    disturbed(["-e", "trace=unlink,unlinkat", "-e", "inject=unlink,unlinkat:signal=KILL"],
              "clear", "--force", disk.path)
    kept = set(glob.glob("/run/rxadm/disk-*-kept"))
    assert kept and image.exists()
    rxadm("remove", "--force", disk.path, check=True)
    assert not kept & set(glob.glob("/run/rxadm/disk-*-kept"))


@pytest.mark.parametrize("then", ["clear", "map"])
def test_clear_that_is_killed_and_one_that_fails(config, image, lab, then):
    """What the first has set aside describes the data before it, and is not restored."""
    config.ok()
    disk = disk_of("ramdisk/a")
    disturbed(["-e", "trace=unlink,unlinkat", "-e", "inject=unlink,unlinkat:signal=KILL"],
              "clear", "--force", disk.path)
    assert disk.query().mem_used == 0
    fill(2)
    if then == "clear":
        run("blockdev", "--setro", disk.path)
        assert rxadm("clear", "--force", disk.path).returncode == DEVICE
        run("blockdev", "--setrw", disk.path)
    else:
        # Another mapping has the UUID that a cache of this origin gets.
        origin = lab.ramdisk(16 * MIB).path
        run("dmsetup", "create", "other", "--notable", "--uuid", f"RXCACHE-{dm.number(origin)}")
        lab.adopt_mapped("other")
        assert rxadm("map", "--cache", disk.path, "--origin", origin, "--name", "m",
                     "--force").returncode
    saved_beside(config, image, 2)


def test_clear_that_is_refused(config, image):
    """Nothing has changed: the disk is still associated with its image."""
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    run("blockdev", "--setro", disk)
    assert rxadm("clear", "--force", disk).returncode == DEVICE
    run("blockdev", "--setrw", disk)
    with open(disk, "rb"):
        assert rxadm("clear", "--force", disk).returncode == BUSY
    config.ok("--stop")
    assert holds(config, image, 2)


def test_clear_that_ends_half_way(config, image):
    """Reserved memory that cannot be zeroed: what the disk holds is no newer state."""
    config.write(section(image, "reserve = yes\n"))
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    trace, command = config.folder / "trace", ("clear", "--force", disk)
    options = ["-o", trace, "-P", "/dev/rxd-control", "-e", "trace=ioctl"]
    disturbed(options, *command, "--dry-run")
    # A dry run first checks whether the module supports dry runs; both end with the clear.
    last = trace.read_text(encoding="ascii").count("ioctl(") - 1
    result = disturbed([*options, "-e", f"inject=ioctl:error=ENOSPC:when={last}"], *command)
    line, = result.stderr.splitlines()
    assert result.returncode == MEMORY and "only a part of it was cleared" in line, result
    assert f"'{disk}'" in line and "remove its clones" in line
    assert any("0xb7, 0x5," in call and "INJECTED" in call
               for call in trace.read_text(encoding="ascii").splitlines())
    saved_beside(config, image, 2)


def test_disk_that_was_a_cache(config, image, lab):
    """The disk is empty afterwards, which is not a newer state of the image."""
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    command = ("map", "--cache", disk, "--origin", lab.ramdisk(16 * MIB).path, "--name", "m",
               "--force")
    rxadm(*command, check=True)
    rxadm("unmap", "m", check=True)
    fill(3)
    saved_beside(config, image, 3)


def test_map_that_fails(config, image, lab):
    """The RAM disk is still associated with its image."""
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    origin = lab.ramdisk(16 * MIB).path
    # Fail each call of device-mapper but the first, which queries the version.
    for when in range(2, 30):
        result = disturbed(["-P", "/dev/mapper/control", "-e", "trace=ioctl", "-e",
                            f"inject=ioctl:error=ENOMEM:when={when}"],
                           "map", "--cache", disk, "--origin", origin, "--name", "m", "--force")
        if not result.returncode:
            break
        assert held() == stamp(2, MIB)
    else:
        raise AssertionError(result)
    assert when > 4
    rxadm("unmap", "m", check=True)
    fill(3)
    saved_beside(config, image, 3)


def test_own_states_are_replaced(config, image):
    """The image was saved, copied or loaded by a command other than apply."""
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    rxadm("save", disk, image, check=True)
    fill(3)
    config.ok("--stop")
    assert holds(config, image, 3)

    path = rxadm("load", image, check=True).stdout.strip()
    assert path == disk_of("ramdisk/a").path and config.ok() == []
    fill(4)
    config.ok("--stop")
    assert holds(config, image, 4)
    os.unlink(image)
    config.ok()
    fill(5)
    config.ok("--stop")
    assert holds(config, image, 5)


def test_names_beside_are_new(config, image):
    """A second save within one second does not replace the first one's file."""
    other = config.folder / "other"
    for seed in 1, 2, 3:
        assert config.apply().returncode == 0
        fill(seed)
        shutil.copy(image, other)
        image.write_text("no image")
        result = config.apply("--stop")
        assert result.returncode == BUSY
        newest = re.search(r"saved as '(.*)'", result.stderr).group(1)
        shutil.copy(other, image)
    assert len(glob.glob(f"{image}.new-*")) == 3
    line, = config.apply().stderr.splitlines()
    assert f"'{newest}'" in line and "the newest of 3" in line
    assert config.apply("--stop").returncode == 0


@pytest.mark.parametrize("what", ["newer", *long(["older"]), "only"])
def test_start_after_a_save_beside(config, image, what):
    """The old image is loaded, and the output names the newer file."""
    config.ok()
    fill(2)
    old = image.read_bytes()
    image.write_text("no image")
    result = config.apply("--stop")
    assert result.returncode == BUSY
    beside, = image.parent.glob("*.new-*")
    # File names that no save creates.
    for name in "a.img.new-", "a.img.new-mine", f"{beside.name}.bak", f"b{beside.name}":
        (image.parent / name).write_text("")
    image.write_bytes(old)
    time_of = beside.stat().st_mtime + {"newer": -1, "older": 1, "only": 0}[what]
    os.utime(image, (time_of, time_of))
    if what == "only":
        image.unlink()
    words = {"newer": "newer", "older": "older", "only": "does not exist"}[what]
    for args in ("--dry-run",), (), (), ("ramdisk/a",):
        result = config.apply(*args)
        assert result.returncode == 0
        line, = result.stderr.splitlines()
        for text in (f"ramdisk a: note: image '{image}': ", words, f"'{beside}'", "rename it to",
                     "rxadm load --uuid random"):
            assert text in line, line
    assert held() == (bytes(MIB) if what == "only" else stamp(1, MIB))
    assert config.apply("--stop").returncode == 0
    os.replace(beside, image)
    config.ok()
    assert held() == stamp(2, MIB)
    config.ok("--stop")


def test_disk_of_an_older_rxadm(config, image):
    """It has no record: apply says what the next stop will do, and how to change that."""
    config.ok()
    fill(2)
    for path in glob.glob(os.path.join(RECORDS, "disk-*")):
        os.unlink(path)
    disk = disk_of("ramdisk/a").path
    for args in (), ("--dry-run",):
        result = config.apply(*args)
        assert (result.returncode, result.stdout) == (0, "")
        line, = result.stderr.splitlines()
        for text in (f"ramdisk a: note: image '{image}': ", disk, f"'{image}.new-DATE'",
                     f"'rxadm save {disk} {image}'"):
            assert text in line, line
    rxadm("save", disk, image, check=True)
    assert config.ok() == []
    fill(3)
    config.ok("--stop")
    assert holds(config, image, 3)


def test_record_that_breaks_off(config, image):
    """A writer is killed, or /run is full: records that are appended later are still read."""
    config.ok()
    record, = glob.glob(os.path.join(RECORDS, "disk-*"))
    with open(record, "a", encoding="ascii") as file:
        file.write("0123456")
    fill(2)
    rxadm("save", disk_of("ramdisk/a").path, image, check=True)
    fill(3)
    config.ok("--stop")
    assert holds(config, image, 3)


@pytest.mark.parametrize("letter, count", [
    *long([("a", 249)]), ("\N{GREEK SMALL LETTER PI}", 124)])
def test_long_names_beside(config, image, letter, count):
    """A name that leaves no room for the time is shortened by whole characters."""
    link, image = image.with_name("link"), image.with_name(letter * count + ".image")
    image.write_bytes(image.with_name("a.img").read_bytes())
    link.symlink_to(image)
    config.write(section(link))
    config.ok()
    fill(2)
    image.write_text("no image")
    result = rxadm("apply", "--config", config.path, "--stop", timeout=60)
    assert result.returncode == BUSY and len(result.stderr.splitlines()) == 1, result
    beside, = image.parent.glob("*.new-*")
    assert f"'{beside}'" in result.stderr and f"'{link}'" in result.stderr
    assert image.read_text() == "no image" and not disk_of("ramdisk/a")
    start = beside.name.partition(".new-")[0]
    assert image.name.startswith(start) and len(os.fsencode(beside.name)) >= 254
    assert holds(config, beside, 2)
    (image.parent / f"{start[:-1]}{beside.name[len(start):]}").write_text("")
    line, = config.apply("--dry-run").stderr.splitlines()
    assert f"'{beside}'" in line and "newest" not in line


def test_no_disk_stays_after_a_save_that_fails(config, image):
    config.ok()
    fill(2)
    away = config.folder / "away"
    os.rename(image.parent, away)
    before = state()
    config.refused(DEVICE, "--stop", names="a.img")
    assert state() == before
    os.rename(away, image.parent)
    config.ok("--stop")
    assert holds(config, image, 2)


@pytest.mark.parametrize("more", ["", *long(["keep = 2\n"])])
def test_stop_of_a_mounted_disk(config, lab, more):
    """At shutdown, nothing saves it later: the stop saves it as it is now, and keeps it."""
    image = config.folder / "a.img"
    config.write(section(image, f"fs = ext4\n{more}"))
    config.ok()
    folder = lab.mount(disk_of("ramdisk/a").path)
    with open(os.path.join(folder, "file"), "w", encoding="ascii") as file:
        file.write("text")
    assert config.refused(BUSY, "--stop", "--dry-run", names=folder) == [
        f"ramdisk a: save /dev/rxd0, which is in use, to '{image}'"]
    assert not image.exists()
    result = config.apply("--stop")
    assert result.returncode == BUSY and not result.stdout
    error, note = result.stderr.splitlines()
    assert f"is in use (mounted on {folder})" in error
    assert "note: /dev/rxd0" in note and f"'{image}'" in note
    assert disk_of("ramdisk/a") and records() == ["ramdisk-a"]
    run("umount", folder)
    path = rxadm("load", image, "--uuid", "random", check=True).stdout.strip()
    run("mount", path, folder)
    with open(os.path.join(folder, "file"), encoding="ascii") as file:
        assert file.read() == "text"
    run("umount", folder)
    rxadm("remove", "--force", path, check=True)
    config.ok("--stop")


@pytest.mark.parametrize("more", ["", *long(["keep = 2\n"])])
def test_stop_of_a_disk_that_a_program_has_open(config, image, more):
    """The save and the removal share their time to wait."""
    config.write(section(image, more))
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    with direct.Direct(disk, os.O_RDONLY):
        result = config.apply("--stop")
    assert result.returncode == BUSY and "is in use" in result.stderr, result
    assert more or (f"note: {disk}: " in result.stderr and f"'{image}'" in result.stderr)
    assert result.stderr.count(f"waiting until '{disk}' is closed") == 1
    assert disk_of("ramdisk/a") and holds(config, image, 2)
    config.ok("--stop")


@pytest.mark.parametrize("why", [*long(["no file"]), "other disk"])
def test_stop_of_an_open_disk_beside_the_image(config, image, why):
    """It is saved beside what is no image, and if the image cannot be updated."""
    if why == "other disk":
        os.unlink(image)
        other = rxadm("create", "--size", "16M", check=True).stdout.strip()
        rxadm("save", other, image, check=True)
        rxadm("remove", other, check=True)
        config.write(section(image, "keep = 2\n"))
    config.ok()
    fill(2)
    if why == "no file":
        os.unlink(image)
        image.symlink_to("none")
    with direct.Direct(disk_of("ramdisk/a").path, os.O_RDONLY):
        result = config.apply("--stop")
    beside, = image.parent.glob("a.img.new-*")
    assert result.returncode == BUSY and f"'{beside}'" in result.stderr.splitlines()[-1], result
    assert disk_of("ramdisk/a") and holds(config, beside, 2)
    # A whole save replaces the image from which the disk was loaded.
    assert config.apply("--stop").returncode == (0 if why == "other disk" else BUSY)
    assert not disk_of("ramdisk/a")


def test_image_that_is_a_device(config, image):
    """Nothing is saved beside it, which would be in memory, and the disk stays."""
    config.ok()
    fill(2)
    config.write(section("/dev/null"))
    assert config.apply().returncode == 0
    result = config.apply("--stop")
    assert result.returncode and "'/dev/null'" in result.stderr, result
    assert not glob.glob("/dev/null.*") and disk_of("ramdisk/a")
    config.write(section(image))
    config.ok()
    config.ok("--stop")
    assert holds(config, image, 2)


NAMES = [(), ("ramdisk/a",), ("a",)]
TEXTS = ["[ramdisk a]\nsise = 16M\n", "", "[ramdisk a]\nsize = 16M\n",
         "[ramdisk a]\nsize = 16M\nimage = /nowhere/else\n", None, "[ramdisk b]\nsize = 4M\n"]


# A short run has each text, and those that are not understood with and without a name.
@pytest.mark.parametrize("text, names", [
    *sampled([(text, names) for text in TEXTS[:2] + TEXTS[4:] for names in NAMES], every=2),
    *sampled([(text, names) for text in TEXTS[2:4] for names in NAMES])])
def test_stop_goes_by_what_was_started(config, image, text, names):
    config.ok()
    fill(2)
    disk = disk_of("ramdisk/a").path
    if text is None:
        os.unlink(config.path)
    else:
        config.write(text)
    result = config.apply("--stop", *names)
    assert result.stdout.splitlines() == [f"ramdisk a: save {disk} to '{image}'",
                                          f"ramdisk a: remove {disk}"], result
    # With names, the configuration need not be read.
    broken = text is None or "sise" in text
    assert result.returncode == (PARAMETERS if broken and not names else 0)
    assert bool(result.stderr) == (broken and not names)
    assert holds(config, image, 2)


def links(folder):
    """Return paths at which no image is saved, and the reasons."""
    (folder / "real").mkdir()
    (folder / "others").symlink_to("real")
    (folder / "others.img").symlink_to("real/a.img")
    for name in "others", "others.img":
        os.chown(folder / name, 1000, 1000, follow_symlinks=False)
    (folder / "nowhere.img").symlink_to("real/none.img")
    return {"others/a.img": "another user", "others.img": "another user",
            "nowhere.img": "missing file", "real": "directory"}


def test_image_that_could_not_be_saved(config, image):
    """The error is reported before there is data to save."""
    for name, why in links(config.folder).items():
        before = state()
        config.write(section(config.folder / name))
        config.refused(PARAMETERS if why != "another user" else PERMISSION,
                       names=(f"image '{config.folder / name}': ", why))
        assert state() == before
    config.write(section(image))
    config.ok()
    (image.parent / "moved.img").symlink_to(image)
    os.chown(image.parent / "moved.img", 1000, 1000, follow_symlinks=False)
    config.write(section(image.parent / "moved.img"))
    result = config.apply()
    assert result.returncode == 0 and disk_of("ramdisk/a")
    line, = result.stderr.splitlines()
    assert "note: image " in line and "another user" in line
    config.write(section(image))
    config.ok()
    config.ok("--stop")


@pytest.mark.parametrize("kind, more", [
    ("missing", ""), ("directory", ""), ("others", "keep = 2\n"),
    *long([("pipe", ""), ("missing", "keep = 2\n")])])
def test_path_that_leads_to_no_image(config, image, kind, more):
    """Neither a link to a file that is gone nor another user's link costs the data of the disk."""
    config.write(section(image, more))
    config.ok()
    fill(2)
    os.rename(image, image.parent / "old")
    if kind == "directory":
        image.mkdir()
    elif kind == "pipe":
        os.mkfifo(image)
    else:
        image.symlink_to("old" if kind == "others" else "none")
        os.chown(image, *2 * [1000 if kind == "others" else 0], follow_symlinks=False)
    before = os.lstat(image)
    disk = disk_of("ramdisk/a").path
    result = config.apply("--stop")
    assert result.returncode == BUSY and not disk_of("ramdisk/a"), result
    beside, = image.parent.glob("a.img.new-*")
    why = {"others": "another user", "missing": "a symbolic link to a missing file"}.get(
        kind, "not a regular file")
    for words in f"'{image}'", why, f"'{beside}'", disk:
        assert words in result.stderr.splitlines()[-1]
    assert os.path.samestat(os.lstat(image), before)
    assert holds(config, beside, 2)
    if kind != "others":
        assert len(list(image.parent.iterdir())) == 3


@pytest.mark.parametrize("damage, names", [
    ("head", ()), ("key", ("ramdisk/a",)), *long([("head", ("ramdisk/a",)), ("key", ())])])
def test_record_that_is_not_understood(config, image, damage, names):
    """It is an error, but everything is still stopped and saved."""
    config.write(section(image) + "[ramdisk b]\nsize = 4M\n")
    config.ok()
    fill(2)
    record = os.path.join(RECORDS, "ramdisk-a")
    with open(record, encoding="ascii") as file:
        text = file.read()
    with open(record, "w", encoding="ascii") as file:
        file.write(text.replace("rxadm-record 1", "rxadm-record 2") if damage == "head" else
                   text + "future-key=1\n")
    config.refused(DEVICE, "--stop", *names, names=record)
    assert not disk_of("ramdisk/a") and bool(disk_of("ramdisk/b")) == bool(names)
    assert holds(config, image, 2)


def test_apply_updates_what_is_saved(config, image):
    config.ok()
    fill(2)
    before = image.read_bytes()
    other = config.folder / "b.img"
    config.write(section(other))
    assert config.ok("--dry-run") == config.ok() == []
    disk = disk_of("ramdisk/a").path
    assert config.ok("--stop")[0] == f"ramdisk a: save {disk} to '{other}'"
    assert image.read_bytes() == before and holds(config, other, 2)


def test_dry_run_updates_nothing(config, image):
    config.ok()
    config.write(section(config.folder / "b.img"))
    config.ok("--dry-run")
    disk = disk_of("ramdisk/a").path
    assert config.ok("--stop")[0] == f"ramdisk a: save {disk} to '{image}'"


def test_record_that_changes(config, image):
    """--stop waits for another command, and then uses the record that this command has left."""
    config.ok()
    fill(2)
    before = image.read_bytes()
    other = config.folder / "b.img"
    record = os.path.join(RECORDS, "ramdisk-a")
    with open(record, encoding="ascii") as file:
        text = file.read()
    with open("/run/rxadm.lock", "r+", encoding="ascii") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        process = config.start("--stop", "ramdisk/a")
        assert f"waiting for process {os.getpid()}, " in process.stderr.readline().decode()
        with open(record, "w", encoding="ascii") as file:
            file.write(text.replace(str(image), str(other)))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and f"to '{other}'" in output.decode()
    assert image.read_bytes() == before and holds(config, other, 2)


def test_other_identity(config, image):
    """A disk that no longer belongs to its section would never be saved."""
    config.ok()
    fill(2)
    before = state()
    config.write(section(image, "uuid = c0ffee00-0000-4000-8000-000000000001\n"))
    config.refused(BUSY, names=("uuid 'c0ffee00-", "--stop ramdisk/a"))
    assert state() == before
    config.ok("--stop")
    assert holds(config, image, 2)
    assert f"ramdisk a: load '{image}'" in config.ok()
    config.ok("--stop")


def test_other_configuration(config, image, tmp_path):
    """--stop stops what was started from the same files."""
    config.ok()
    (tmp_path / "other").mkdir()
    other = Configuration(tmp_path / "other")
    other.write("[ramdisk b]\nsize = 4M\n")
    other.ok()
    assert len(other.ok("--stop")) == 1
    assert disk_of("ramdisk/a") and not disk_of("ramdisk/b")
    config.ok("--stop")


@pytest.mark.parametrize("identity", [
    "", *long(["uuid = c0ffee00-0000-4000-8000-000000000001\n"])])
def test_same_name_in_another_configuration(config, image, tmp_path, identity):
    """The record of an existing disk is not replaced by that of another configuration."""
    config.ok()
    fill(2)
    (tmp_path / "other").mkdir()
    other = Configuration(tmp_path / "other")
    other.write(section(tmp_path / "other.img", identity))
    before = state()
    for args in (), ("--dry-run",):
        other.refused(BUSY, *args, names=("ramdisk a: ", f"'{config.path}'", "--stop ramdisk/a"))
    assert state() == before
    config.write("")
    config.ok("--stop")
    assert holds(config, image, 2)
    other.ok()
    # A record whose disk is gone does not block others, either.
    disk, = state()["ramdisks"]
    rxadm("remove", "--force", f"/dev/rxd{disk['index']}", check=True)
    config.write(section(image))
    config.ok()
    config.ok("--stop")


@pytest.mark.parametrize("more", [
    *long([""]),
    "image = {}\n",
    *long(["uuid = c0ffee00-0000-4000-8000-00000000000a\n"]),
], ids=["no image", "other image", "other uuid"])
def test_stop_of_the_same_name_in_another_configuration(config, image, tmp_path, more):
    """What one configuration started is neither stopped nor saved by another configuration."""
    config.ok()
    fill(2)
    (tmp_path / "other").mkdir()
    other = Configuration(tmp_path / "other")
    other.write("[ramdisk a]\nsize = 16M\n" + more.format(tmp_path / "other.img"))
    other.refused(BUSY, "--stop",
                  names=("ramdisk a: ", f"'{config.path}'", "--stop ramdisk/a"))
    assert disk_of("ramdisk/a") and held() == stamp(2, MIB)
    assert not (tmp_path / "other.img").exists()
    config.write("")
    config.ok("--stop")
    assert holds(config, image, 2)
    assert other.ok("--stop") == []


def test_hotlist_and_export_as_started(config, lab):
    """Hot lists and exports, too, are stopped as they were started."""
    hotlist = config.folder / "c.hot"
    config.write(f"[cache c]\norigin = /dev/vdb\nsize = 8M\nhotlist = {hotlist}\n"
                 if os.path.exists("/dev/vdb") else
                 f"[cache c]\norigin = {lab.ramdisk(16 * MIB).path}\nsize = 8M\n"
                 f"hotlist = {hotlist}\n")
    config.ok()
    direct.read("/dev/mapper/c", 0, 64 * KIB)
    config.write("[cache c\n")
    assert config.ok("--stop", "cache/c")[0] == f"cache c: save the hot list to '{hotlist}'"
    assert not disk_of("cache/c")
