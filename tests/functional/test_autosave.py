# SPDX-License-Identifier: GPL-2.0-only
"""The keys autosave and keep: rxadm apply --save, which a timer runs, and the stop after it."""

import contextlib
import glob
import hashlib
import os
import re
import shutil
import time

import pytest

from rxdlib import direct, locks
from rxdlib.command import ENVIRONMENT, as_nobody, program, run, rxadm
from rxdlib.configuration import (BUSY, DEVICE, PARAMETERS, PERMISSION, RECORDS, Configuration,
                                  complaints, disk_of, note_unfinished)
from rxdlib.control import STATE_RESERVED
from rxdlib.direct import BLOCK, MIB, stamp
from rxdlib.outcome import ok
from rxdlib.stacks import wait_for

pytestmark = pytest.mark.one_kernel
HERE = os.path.dirname(os.path.realpath(__file__))
UNITS = os.path.join(HERE, "../../utils/generator/units")
SIZE = 16 * MIB


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


@pytest.fixture(name="image")
def image_of_a(config):
    """The image of a disk that was started, and holds the first data."""
    image = config.folder / "images" / "a.img"
    image.parent.mkdir()
    config.write(section(image, "autosave = 10min\nkeep = 2\n"))
    config.ok()
    fill(1, MIB)
    return image


def section(image, more=""):
    return f"[ramdisk a]\nsize = 16M\nimage = {image}\n{more}"


def fill(seed, size=64 << 10):
    direct.write(disk_of("ramdisk/a").path, 0, stamp(seed, size))


def digest(data):
    """What is compared: reports of failures stay short."""
    return hashlib.sha256(data[:64 << 10]).hexdigest()


def held(path):
    return digest(direct.read(path, 0, 64 << 10))


def start_of(seed, size=64 << 10):
    return digest(stamp(seed, size))


def checked(result, code=0):
    """The last line of what was reported; the lines before it tell of a new generation."""
    lines = complaints(result.stderr)
    assert result.returncode == code, result
    assert all(re.search(r"generation \d+", line) for line in lines[:-1]), lines
    return lines[-1] if lines else ""


def save(config, *args):
    """Save by an update; return the number of the newest state."""
    return int(re.search(r"generation (\d+)", checked(config.apply("--save", *args)))[1])


def stop(config, *args):
    checked(config.apply("--stop", *args))


def holds(image, wanted, *options):
    """Return whether an image begins with this data."""
    path = ok("load", image, "--uuid", "random", *options).strip()
    same = held(path) == wanted
    ok("remove", "--force", path)
    return same


def samples():
    """The metrics of the saves of the only disk."""
    return {name: float(value) for name, value in re.findall(
        r"^rxd_((?:save|autosave)_\w+)\{.*\} (.*)$", ok("metrics"), re.MULTILINE)}


def failing(config, action):
    """Apply, while strace lets updates fail: only they use this system call."""
    environment = dict(ENVIRONMENT, ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0")
    return run("strace", "-f", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO",
               program("rxadm"), "apply", "--config", config.path, action, check=False,
               environment=environment)


@pytest.mark.parametrize("line, names", [
    ("autosave = 600", ("'600'", "has no unit", "10min")),
    ("autosave = 5s", ("'5s'", "at least 10s")),
    ("keep = 65", ("'65'", "from 1 to 64")),
])
def test_bad_values(config, line, names):
    image = config.folder / "image"
    config.write(section(image, line + "\n"))
    config.refused(PARAMETERS, names=names)
    config.write(f"[ramdisk a]\nsize = 16M\n{line}\n")
    config.refused(PARAMETERS)
    assert not disk_of("ramdisk/a") and not image.exists()


def test_bad_arguments(config, image):
    """One line, and nothing is saved."""
    config.refused(PARAMETERS, "--save", "--stop", names=("--save", "--stop"))
    config.refused(PARAMETERS, "--save", "ramdisk/b", names="'ramdisk/b'")
    config.write(section(image) + "[ramdisk b]\nsize = 1M\n")
    config.ok()
    config.refused(PARAMETERS, "--save", "b", names=("'b'", "image"))
    result = as_nobody(program("rxadm"), "apply", "--config", config.path, "--save", check=False)
    assert result.returncode == PERMISSION
    disk = disk_of("ramdisk/a").path
    assert config.ok("--save", "--dry-run") == [f"ramdisk a: save {disk} to '{image}'"]
    assert not image.exists() and "save_timestamp_seconds" not in samples()


def test_command_of_the_unit(config, image):
    """What the timer runs saves a disk in use; after a power failure, the image is loaded."""
    with open(os.path.join(UNITS, "rxd-autosave@.service.in"), encoding="ascii") as file:
        command = re.search(r"^ExecStart=@SBINDIR@/rxadm (.*)$", file.read(), re.MULTILINE)[1]
    words = command.replace("%i", "a").split()
    disk = disk_of("ramdisk/a").path
    for seed in 1, 2:
        fill(seed)
        result = rxadm(*words, "--config", config.path)
        assert "generation" in checked(result)
        assert result.stdout == "", "one line is enough"
    result = rxadm(*words, "--config", config.path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), "nothing to do"
    result = rxadm("--verbose", *words, "--config", config.path)
    assert "nothing has changed since generation 2" in result.stderr and result.stdout == ""
    assert held(disk) == start_of(2)
    ok("remove", "--force", disk)
    for name in os.listdir(RECORDS):
        os.unlink(os.path.join(RECORDS, name))
    config.ok()
    assert held(disk_of("ramdisk/a").path) == start_of(2)
    stop(config)


def test_file_system(config, lab):
    """It is mounted and frozen for a moment; the image has what was written before the save."""
    image = config.folder / "image"
    config.write(section(image, "fs = ext4\nautosave = 1h\n"))
    config.ok()
    folder = lab.mount(disk_of("ramdisk/a").path)
    for text in "first", "second":
        with open(os.path.join(folder, "file"), "w", encoding="ascii") as file:
            file.write(text)
        save(config)

    def wrote_little():
        checked(config.apply("--save"))
        return samples()["save_written_bytes"] < 64 << 10

    # Just after the mount, the file system itself may go on writing.
    wait_for(wrote_little, "save of no more than what a freeze of the file system changes")
    result = config.apply("--stop")
    assert result.returncode == BUSY and "is in use" in result.stderr
    path = ok("load", image, "--uuid", "random").strip()
    other = lab.mount(path)
    with open(os.path.join(other, "file"), encoding="ascii") as file:
        assert file.read() == "second"
    for mounted in other, folder:
        run("umount", mounted)
    ok("remove", "--force", path)
    stop(config)


def test_reserved(config, lab):
    """A disk with reserved memory is saved while it is mounted, and is reserved when loaded."""
    image = config.folder / "image"
    config.write(section(image, "fs = ext4\nautosave = 1h\nkeep = 2\nreserve = yes\n"))
    config.ok()
    for text, written in ("first", "hold data"), ("second", "changed"), ("third", "changed"):
        disk = disk_of("ramdisk/a")
        assert disk.query().state & STATE_RESERVED and disk.query().mem_used == SIZE
        folder = lab.mount(disk.path)
        with open(os.path.join(folder, "file"), "w", encoding="ascii") as file:
            file.write(text)
        line = checked(config.apply("--save"))
        assert f" {written}, saved to " in line, line
        run("umount", folder)
        stop(config)
        assert not disk_of("ramdisk/a")
        config.ok()
        folder = lab.mount(disk_of("ramdisk/a").path)
        with open(os.path.join(folder, "file"), encoding="ascii") as file:
            assert file.read() == text
        run("umount", folder)
    stop(config)


def test_metrics(config, image):
    """They tell of the last save that succeeded, and count those that failed."""
    found = samples()
    due = found.pop("autosave_due_seconds")
    assert found == {"save_failures_total": 0, "autosave_interval_seconds": 600}
    assert time.time() + 300 < due <= time.time() + 600
    time.sleep(1.1)
    config.ok()
    assert samples()["autosave_due_seconds"] == due, "the time of the first apply counts"
    before, begin = int(time.time()), time.monotonic()
    save(config)
    took = time.monotonic() - begin
    found = samples()
    assert found["autosave_due_seconds"] == found["save_timestamp_seconds"] + 600
    assert before <= found["save_timestamp_seconds"] <= time.time()
    assert 0 < found["save_duration_seconds"] <= took
    assert MIB < found["save_written_bytes"] < 2 * MIB
    fill(2)
    image.parent.rename(config.folder / "away")
    config.refused(DEVICE, "--save", names=f"'{image}'")
    assert samples() == {**found, "save_failures_total": 1}
    (config.folder / "away").rename(image.parent)
    result = failing(config, "--save")
    assert result.returncode and len(result.stderr.splitlines()) == 1, result
    assert samples() == {**found, "save_failures_total": 2}
    assert holds(image, start_of(1, MIB)), "the old image stays"
    save(config)
    assert samples()["save_timestamp_seconds"] >= found["save_timestamp_seconds"]
    assert holds(image, start_of(2))
    # The disk was not changed since.
    stop(config)
    assert holds(image, start_of(2)) and samples() == {}


def test_metric_of_an_image_written_anew(config, image):
    """It includes the new file."""
    fill(0, 2 * MIB)
    config.write(section(image, "autosave = 1h\nkeep = 1\n"))
    config.ok()
    save(config)
    for number in range(60):
        inode = image.stat().st_ino
        direct.write(disk_of("ramdisk/a").path, number * BLOCK, stamp(100 + number))
        save(config)
        written = samples()["save_written_bytes"]
        if image.stat().st_ino != inode:
            break
        assert written < 64 << 10
    assert image.stat().st_ino != inode and written > image.stat().st_size > MIB
    stop(config)


@pytest.mark.parametrize("text, code", [
    ("[ramdisk a]\nsise = 1M\n", PARAMETERS),
    ("[ramdisk a]\nsize = 16M\nimage = /else\nautosave = no\n", 0)])
def test_configuration_that_has_changed(config, image, text, code):
    """What was started is saved, with the keys of then; without a name, errors are reported."""
    assert save(config) == 1
    inode = image.stat().st_ino
    config.write(text)
    fill(2)
    assert save(config, "ramdisk/a") == 2
    assert holds(image, start_of(2)) and image.stat().st_ino == inode
    assert samples()["autosave_interval_seconds"] == 600
    fill(3)
    assert config.apply("--save").returncode == code
    assert holds(image, start_of(3))
    stop(config, "ramdisk/a")
    assert not os.path.exists("/else")


def test_states(config, image):
    """The image keeps as many as the key says, and a stop saves one more, by an update."""
    for seed in 1, 2, 3:
        fill(seed)
        assert save(config) == seed
    inode, size = image.stat().st_ino, image.stat().st_size
    fill(4)
    stop(config)
    assert image.stat().st_ino == inode and image.stat().st_size < size + MIB // 2
    assert holds(image, start_of(4)) and holds(image, start_of(3), "--generation", "3")
    result = rxadm("load", image, "--uuid", "random", "--generation", "2")
    assert result.returncode and len(result.stderr.splitlines()) == 1
    # The record of changes begins at the load.
    config.ok()
    fill(5)
    assert save(config) == 5
    assert image.stat().st_ino == inode
    assert 64 << 10 <= samples()["save_written_bytes"] < MIB // 4
    assert checked(config.apply("--save")) == "", "nothing has changed"
    assert samples()["save_written_bytes"] == 0
    stop(config)
    assert holds(image, start_of(5))


def test_keep_alone(config):
    """Each stop saves a state."""
    image = config.folder / "image"
    config.write(section(image, "keep = 2\n"))
    for seed in 1, 2:
        config.ok()
        fill(seed)
        stop(config)
    assert holds(image, start_of(2)) and holds(image, start_of(1), "--generation", "1")


def test_no_keys(config):
    """Without them, a save by hand replaces the image, and a stop does, too."""
    image = config.folder / "image"
    config.write(section(image))
    config.ok()
    for seed in 1, 2:
        fill(seed)
        config.ok("--save")
        assert holds(image, start_of(seed))
    assert samples().keys() >= {"save_timestamp_seconds"}
    assert "autosave_interval_seconds" not in samples()
    config.ok("--stop")


def kept(config, image, seed):
    """The image stays, and the disk is saved beside it: always to the same file."""
    old = digest(image.read_bytes())
    disk = disk_of("ramdisk/a").path
    for number in range(2):
        # A new name would have another second in it.
        time.sleep(1.1 * number)
        fill(seed + number)
        line = checked(config.apply("--save"), BUSY)
        for name in f"'{image}'", f"'{image}.new-", disk:
            assert name in line
    beside = glob.glob(f"{image}.new-*")
    assert len(beside) == 1 and holds(beside[0], start_of(seed + 1))
    fill(seed + 2)
    assert f"'{beside[0]}'" in checked(config.apply("--stop"), BUSY)
    assert not disk_of("ramdisk/a") and glob.glob(f"{image}.new-*") == beside
    assert digest(image.read_bytes()) == old and holds(beside[0], start_of(seed + 2))


@pytest.mark.parametrize("how", ["no image", "another disk's", "restored", "cleared"])
def test_image_that_is_not_the_disks(config, image, lab, how):
    """As for a stop: an image is replaced only by a newer state of the same data."""
    save(config)
    if how == "no image":
        image.write_bytes(b"something else")
    elif how == "another disk's":
        other = lab.ramdisk(MIB)
        image.unlink()
        ok("save", other.path, image)
    elif how == "restored":
        stop(config)
        image.rename(config.folder / "backup")
        config.ok()
        fill(3)
        shutil.copy(config.folder / "backup", image)
    else:
        ok("clear", "--force", disk_of("ramdisk/a").path)
    kept(config, image, 4)


def test_command_for_an_image_that_is_kept(config, image, lab):
    """The command that apply names keeps older states, unless the image is another disk's."""
    save(config)
    disk = disk_of("ramdisk/a").path
    ok("clear", "--force", disk)
    fill(2)
    command = f"save --update --keep 2 {disk} {image}"
    line = checked(config.apply())
    assert f"note: image '{image}'" in line
    assert f"; to update the image, run 'rxadm {command}'" in line
    assert "generation 2" in checked(rxadm(*command.split()))
    assert holds(image, start_of(2)) and holds(image, start_of(1, MIB), "--generation", "1")
    assert config.ok() == []

    other = lab.ramdisk(MIB)
    image.unlink()
    ok("save", other.path, image)
    command = f"save {disk} {image}"
    assert f"; to replace the image, run 'rxadm {command}'" in checked(config.apply())
    ok(*command.split())
    assert config.ok() == []
    fill(3)
    assert save(config) == 1
    stop(config)
    assert holds(image, start_of(3))


def test_beside_of_another(config, image):
    """A file that a former disk was saved to, beside the image, is not updated."""
    image.write_bytes(b"something else")
    beside = f"{image}.new-20250101T000000Z"
    shutil.copy(image, beside)
    for number in 1, 2:
        fill(number)
        assert f"'{image}.new-" in checked(config.apply("--save"), BUSY)
        assert samples()["save_failures_total"] == number
    assert "save_timestamp_seconds" not in samples()
    assert len(glob.glob(f"{image}.new-*")) == 2
    with open(beside, "rb") as file:
        assert file.read() == b"something else"


def test_disk_that_was_not_started_completely(config, image):
    """A killed apply left half of the data, which must not replace all of it."""
    save(config)
    old = image.read_bytes()
    note_unfinished(disk_of("ramdisk/a").query().uuid)
    fill(2)
    config.refused(BUSY, "--save", names="was not started completely")
    assert image.read_bytes() == old and glob.glob(f"{image}.new-*") == []


def test_nothing_to_save(config, image):
    """A disk that was stopped meanwhile is no error: the timer stops, too."""
    stop(config)
    old = image.read_bytes()
    assert config.ok("--save") == config.ok("--save", "ramdisk/a") == []
    assert image.read_bytes() == old


def test_update_that_fails_at_a_stop(config, image):
    """All of the disk is saved instead, no state is lost, and the next save begins anew."""
    for seed in 1, 2:
        fill(seed)
        save(config)
    inode = image.stat().st_ino
    fill(3)
    result = failing(config, "--stop")
    assert not result.returncode and "saving the whole disk instead" in result.stderr, result
    assert not disk_of("ramdisk/a") and glob.glob(f"{image}.new-*") == []
    old = glob.glob(f"{image}.old-*")
    assert len(old) == 1 and f"'{old[0]}'" in result.stderr and f"'{image}'" in result.stderr
    assert (os.stat(old[0]).st_ino, os.stat(old[0]).st_nlink) == (inode, 1)
    assert holds(old[0], start_of(2)) and holds(old[0], start_of(1), "--generation", "1")
    assert holds(image, start_of(3))
    config.ok()
    fill(4)
    assert save(config) == 1
    stop(config)
    assert holds(image, start_of(4)) and glob.glob(f"{image}.old-*") == old


def test_update_that_fails_at_a_stop_without_older_states(config):
    """There is nothing but the last state to keep."""
    image = config.folder / "image"
    config.write(section(image, "autosave = 1h\n"))
    config.ok()
    fill(1)
    save(config)
    fill(2)
    result = failing(config, "--stop")
    assert not result.returncode and "saving the whole disk instead" in result.stderr, result
    assert glob.glob(f"{image}.*-*") == [] and holds(image, start_of(2))


@contextlib.contextmanager
def waiting_save(config, disk):
    """A save that has chosen the image, and waits for another save of the disk to end."""
    with locks.held(disk, locks.SAVE):
        process = config.start("--save")
        assert b"waiting for process" in process.stderr.readline()
        yield process


def nothing_saved(process, image):
    errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == BUSY and f"'{image}': was not saved, because" in errors, errors


@pytest.mark.parametrize("keys", ["autosave = 10min\n", ""])
def test_emptied_while_another_saves(config, image, keys):
    """The image is chosen before the save waits for another, and the data read after that."""
    config.write(section(image, keys))
    config.ok()
    checked(config.apply("--save"))
    before, disk = digest(image.read_bytes()), disk_of("ramdisk/a").path
    with waiting_save(config, disk) as process:
        ok("clear", disk)
        fill(2)
    nothing_saved(process, image)
    assert digest(image.read_bytes()) == before
    # Now it is known before.
    assert "saved as" in checked(config.apply("--save"), BUSY)
    assert digest(image.read_bytes()) == before


def test_image_that_cannot_be_recorded(config, image, lab):
    """The disk could not replace such an image again, so the old one stays."""
    config.write(section(image))
    config.ok()
    checked(config.apply("--save"))
    before, disk = digest(image.read_bytes()), disk_of("ramdisk/a").path
    small = lab.mount("rxdtest", "-t", "tmpfs", "-o", "size=64k")
    for name in os.listdir(RECORDS):
        shutil.copy(os.path.join(RECORDS, name), small)
    with open(f"/sys/block/{os.path.basename(disk)}/diskseq", encoding="ascii") as file:
        record = os.path.join(small, f"disk-{file.read().strip()}")
    with open(record, "ab") as file:
        file.write(b"\n" * (4096 - file.tell()))
    with contextlib.suppress(OSError), open(os.path.join(small, "full"), "wb", 0) as file:
        while file.write(bytes(4096)):
            pass
    run("mount", "--bind", small, RECORDS)
    try:
        fill(2)
        result = config.apply("--save")
        assert result.returncode == DEVICE and f"cannot write in {RECORDS}" in result.stderr
        assert os.listdir(image.parent) == [image.name]
        assert digest(image.read_bytes()) == before
        os.unlink(os.path.join(RECORDS, "full"))
        checked(config.apply("--save"))
        assert holds(image, start_of(2))
    finally:
        run("umount", RECORDS)


@pytest.mark.parametrize("keys", ["autosave = 10min\n", ""])
def test_unmounted_while_another_saves(config, image, lab, keys):
    """Below the mount point, nobody would find the image. Later saves go beside it."""
    stop(config)
    os.unlink(image)
    config.write(section(image, keys))
    run("mount", "--bind", lab.mount("rxdtest", "-t", "tmpfs"), image.parent)
    config.ok()
    fill(2)
    checked(config.apply("--save"))
    with waiting_save(config, disk_of("ramdisk/a").path) as process:
        run("umount", image.parent)
    nothing_saved(process, image)
    assert os.listdir(image.parent) == []
    for _ in range(2):
        fill(3)
        checked(config.apply("--save"), BUSY)
        beside, = os.listdir(image.parent)
        assert re.fullmatch(r"a\.img\.new-.*", beside)
    assert holds(image.parent / beside, start_of(3))
