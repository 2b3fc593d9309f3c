# SPDX-License-Identifier: GPL-2.0-only
"""The content of a disk under a cache after a power failure: all synced data must be there.

dm-log-writes, between the cache and the disk, logs each write and flush. The log is
replayed up to flushes and FUA writes: the file system must check clean there, and
hold each file whose fsync had returned before.

The same below a file system that takes images of rxadm save, replayed up to any write:
the image there is the last one whose save had returned, or the one after it. The same with
images that rxadm save --update changes in place, on several file systems. And below one
that rxadm apply saves to, killed every now and then: whatever is found there, apply makes
of it what the last stop had saved, or the one after it.
"""

import glob
import os
import random
import shutil
import time

import pytest

from rxdlib import dm, logwrites
from rxdlib.command import program, run
from rxdlib.configuration import Configuration, complaints, disk_of
from rxdlib.direct import KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, LONG, RamDisk

SIZE = 32 * MIB
FILES = 24
# Number of points to check; RXD_CRASH_POINTS=1000 checks all of them.
MAX_CHECKS = int(os.environ.get("RXD_CRASH_POINTS", 16 if LONG else 5))
SAVED_SIZE = 4 * MIB
SAVES, SAVE_POINTS = (12, 50) if LONG else (4, 6)
# Of each file system.
UPDATES, UPDATE_POINTS = (40, 334) if LONG else (10, 17)
KEPT = 3
FILE_SYSTEMS = {
    "ext4": (SIZE, ["mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4"], ["e2fsck", "-fn"]),
    "xfs": (64 * MIB, ["mkfs.xfs", "-q", "-f", "--unsupported"], ["xfs_repair", "-n"]),
    "btrfs": (64 * MIB, ["mkfs.btrfs", "-q", "-f", "-M"], ["btrfs", "check", "--readonly"]),
}
STOPS, STOP_POINTS, KILLS = (8, 50, 50) if LONG else (3, 5, 6)


def content(number):
    return stamp(number, 4 * KIB * (1 + number % 5), 7)


def workload(directory, log_name):
    """Create, overwrite, rename and sync, and note in the log what is safe."""
    for number in range(FILES):
        path = os.path.join(directory, f"file{number}")
        fd = os.open(path + ".new", os.O_CREAT | os.O_RDWR)
        try:
            os.pwrite(fd, content(number + 1000), 0)
            os.pwrite(fd, content(number), 0)
            os.ftruncate(fd, len(content(number)))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(path + ".new", path)
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
        # Read some of it back through the cache, to have hits and fills in between.
        with open(path, "rb") as file:
            assert file.read() == content(number)
        dm.message(log_name, "mark", f"synced{number}")


@pytest.fixture
def image(lab):
    path = lab.file(SIZE)
    yield path


def check(lab, image, number, synced):
    """A copy of the image, as the machine would find it."""
    copy = lab.file(SIZE)
    shutil.copyfile(image, copy)
    # Mounting replays the journal; only then must the file system be clean.
    directory = lab.mount(copy, "-o", "loop")
    try:
        for file in range(synced):
            with open(os.path.join(directory, f"file{file}"), "rb") as found:
                assert found.read() == content(file), f"point {number}: file{file} is not right"
    finally:
        run("umount", directory)
    result = run("e2fsck", "-fn", copy, check=False)
    assert result.returncode == 0, f"point {number}: {result.stdout}"
    os.truncate(copy, 0)


@pytest.mark.parametrize("mode", ["writethrough", "writearound"])
def test_all_that_was_synced_is_there(lab, image, mode):
    run("modprobe", "loop")
    disk, log = lab.ramdisk(SIZE), lab.ramdisk(512 * MIB, overcommit=True)
    log_name = lab.mapped(f"0 {SIZE // SECTOR} log-writes {disk.path} {log.path}")
    cache = lab.cache(SIZE, cache_size=8 * MIB, origin=f"/dev/mapper/{log_name}", features=[mode])
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", cache.path)
    dm.message(log_name, "mark", "made")
    directory = lab.mount(cache.path)
    workload(directory, log_name)
    run("umount", directory)
    assert cache.status().origin_errors == 0
    dm.remove(cache.name)
    dm.remove(log_name)

    found = list(logwrites.entries(log.path))
    made = next(i for i, entry in enumerate(found) if entry.mark == "made")
    points = [i for i, entry in enumerate(found)
              if i > made and entry.flags & (logwrites.FLUSH | logwrites.FUA)]
    assert len(points) >= FILES
    step = -(-len(points) // MAX_CHECKS)
    checked = set(points[::step])
    synced = 0
    fd = os.open(image, os.O_RDWR)
    try:
        for number, entry in enumerate(found):
            logwrites.apply(entry, fd)
            if entry.mark and entry.mark.startswith("synced"):
                synced += 1
            if number in checked:
                check(lab, image, number, synced)
    finally:
        os.close(fd)
    assert synced == FILES
    with open(disk.path, "rb") as device, open(image, "rb") as replayed:
        assert device.read() == replayed.read()


def fill(ramdisk, version):
    """Write other data to other places in each version, with holes between."""
    ramdisk.clear()
    with Direct(ramdisk.path) as device:
        for piece in range(16):
            offset = piece * 256 * KIB + version * 4 * KIB
            device.write(offset, stamp(piece, 100 * KIB + version % 3 * 32 * KIB, version))


def loaded(image, *options):
    """Return what a RAM disk holds that is loaded from an image."""
    made = run(program("rxadm"), "load", image, "--uuid", "random", *options)
    ramdisk = RamDisk(int(made.stdout.strip()[len("/dev/rxd"):]))
    with open(ramdisk.path, "rb") as device:
        found = device.read()
    ramdisk.remove()
    return found


def version_of(lab, image, number, contents):
    """Mount a copy of the file system, load the image in it, and return its version."""
    copy = lab.file(SIZE)
    shutil.copyfile(image, copy)
    directory = lab.mount(copy, "-o", "loop")
    try:
        names = set(os.listdir(directory))
        assert "image" in names, f"point {number}: no image among {names}"
        found = loaded(os.path.join(directory, "image"))
    finally:
        run("umount", directory)
    os.truncate(copy, 0)
    assert found in contents, f"point {number}: an image that was never saved"
    return contents.index(found)


class Recorded:
    """A file system whose writes are recorded, and its state after a power failure."""

    def __init__(self, lab, kind="ext4"):
        run("modprobe", "loop")
        size, make, _ = FILE_SYSTEMS[kind]
        disk, self.log = lab.ramdisk(size), lab.ramdisk(512 * MIB, overcommit=True)
        self.name = lab.mapped(f"0 {size // SECTOR} log-writes {disk.path} {self.log.path}")
        run(*make, f"/dev/mapper/{self.name}")
        self.directory = lab.mount(f"/dev/mapper/{self.name}")

    def mark(self, word):
        dm.message(self.name, "mark", word)

    def end(self):
        run("umount", self.directory)
        dm.remove(self.name)

    def cuts(self, image, word, count):
        """As many random points after the first mark that begins so, and the very end: their
        number, and how many marks came before, less one; the image is as it was there."""
        found = list(logwrites.entries(self.log.path))
        first = next(i for i, entry in enumerate(found) if entry.mark == f"{word}0")
        points = range(first, len(found))
        assert len(points) >= count
        checked = set(random.Random(count).sample(points, count)) | {len(found) - 1}
        version = -1
        with open(image, "r+b", buffering=0) as file:
            for number, entry in enumerate(found):
                logwrites.apply(entry, file.fileno())
                if entry.mark and entry.mark.startswith(word):
                    version += 1
                if number in checked:
                    yield number, version


def test_saved_image_is_old_or_new(lab, image):
    recorded = Recorded(lab)
    saved = lab.ramdisk(SAVED_SIZE)
    contents = []
    for version in range(SAVES):
        fill(saved, version)
        with open(saved.path, "rb") as device:
            contents.append(device.read())
        compress = ["--compress", "zstd"] if version % 2 else []
        run(program("rxadm"), "save", saved.path, os.path.join(recorded.directory, "image"),
            *compress)
        recorded.mark(f"saved{version}")
    recorded.end()

    version = there = None
    for number, version in recorded.cuts(image, "saved", SAVE_POINTS):
        there = version_of(lab, image, number, contents)
        assert there in (version, version + 1), \
            f"point {number}: image {there} although {version} was saved"
    assert there == version == SAVES - 1


def change(ramdisk, chance):
    """Write and discard some pages."""
    with Direct(ramdisk.path) as device:
        for _ in range(chance.randrange(1, 30)):
            length = 4 * KIB * chance.choice([1, 1, 1, 2, 16, 40])
            offset = chance.randrange(0, SAVED_SIZE - length, 4 * KIB)
            device.write(offset, stamp(chance.randrange(1 << 16), length, 1))
    offset = chance.randrange(0, SAVED_SIZE // 2, 4 * KIB)
    run("blkdiscard", "-o", str(offset), "-l", str(chance.choice([4, 64, 1024]) * KIB),
        ramdisk.path)


def updates_there(lab, kind, image, number, contents):
    """Mount a copy of the file system, load all generations of the image in it, and return the
    version of the newest."""
    size, _, check_file_system = FILE_SYSTEMS[kind]
    copy = lab.file(size)
    shutil.copyfile(image, copy)
    if kind == "btrfs":
        run("btrfs", "device", "scan", "--forget")
    directory = lab.mount(copy, "-o", "loop")
    try:
        saved = os.path.join(directory, "image")
        found = loaded(saved)
        assert found in contents, f"point {number}: an image that was never saved"
        version = contents.index(found)
        for generation in range(max(1, version + 2 - KEPT), version + 1):
            assert loaded(saved, "--generation", str(generation)) == contents[generation - 1], \
                f"point {number}: generation {generation} of {version + 1}"
    finally:
        run("umount", directory)
    result = run(*check_file_system, copy, check=False)
    assert result.returncode == 0, f"point {number}: {result.stdout}{result.stderr}"
    os.truncate(copy, 0)
    return version


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
def test_updated_image_is_old_or_new(lab, kind):
    """Each update is one generation, so that the first has the number 1."""
    recorded = Recorded(lab, kind)
    image = lab.file(FILE_SYSTEMS[kind][0])
    saved = lab.ramdisk(SAVED_SIZE)
    chance = random.Random(UPDATES)
    contents = []
    for version in range(UPDATES):
        change(saved, chance)
        with open(saved.path, "rb") as device:
            contents.append(device.read())
        run(program("rxadm"), "save", "--update", "--keep", str(KEPT), saved.path,
            os.path.join(recorded.directory, "image"))
        recorded.mark(f"updated{version}")
    recorded.end()

    version = there = None
    for number, version in recorded.cuts(image, "updated", UPDATE_POINTS):
        there = updates_there(lab, kind, image, number, contents)
        assert there in (version, version + 1), \
            f"point {number}: image {there} although {version} was updated"
    assert there == version == UPDATES - 1


def cached_blocks(version):
    """Which blocks of a disk are read in each version."""
    return range(version, 200 + version, 2 + version % 2)


def write_configuration(config, folder):
    config.write(f"[ramdisk a]\nsize = {SAVED_SIZE}\nimage = {folder}/image\n"
                 f"[cache c]\norigin = {DISK}\nsize = 4M\nhotlist = {folder}/hot\n")


class Killer:
    """Kill rxadm apply at a random moment after its start."""

    def __init__(self, config):
        self.config = config
        self.chance = random.Random(KILLS)
        self.times = {}
        self.killed = 0

    def ok(self, *args):
        begin = time.monotonic()
        self.config.ok(*args)
        self.times[args] = max(self.times.get(args, 0), time.monotonic() - begin)

    def start_and_kill(self, *args):
        process = self.config.start(*args)
        time.sleep(self.chance.random() * self.times[args])
        process.kill()
        process.communicate()
        self.killed += process.returncode < 0

    def start_again(self, folder):
        """After a kill, which may have come when the disk was filled but not yet known to be:
        then it is saved beside the image, and the start says so."""
        result = self.config.apply()
        beside = glob.glob(f"{folder}/image.new-*")
        told = [line for line in complaints(result.stderr)
                if "was not started completely, but held data" in line]
        assert (result.returncode, complaints(result.stderr)) == (0, told), result
        assert len(told) == len(beside) and all(name in line for name, line in zip(beside, told))
        for name in beside:
            os.unlink(name)


def run_versions(config, recorded):
    """Start, fill and stop, with kills in between; return the content of each version."""
    killer = Killer(config)
    contents = []
    for version in range(STOPS):
        if version:
            for _ in range(-(-KILLS // 2 // (STOPS - 1))):
                killer.start_and_kill()
                killer.start_again(recorded.directory)
                config.ok("--stop")
        killer.ok()
        assert config.ok() == []
        disk = disk_of("ramdisk/a")
        if contents:
            with open(disk.path, "rb") as device:
                assert device.read() == contents[-1]
        fill(disk, version)
        with open(disk.path, "rb") as device:
            contents.append(device.read())
        with Direct("/dev/mapper/c", os.O_RDONLY) as device:
            for block in cached_blocks(version):
                device.read(block * 4 * KIB, 4 * KIB)
        if version:
            for _ in range(-(-KILLS // 2 // (STOPS - 1))):
                killer.start_and_kill("--stop")
                killer.ok()
                with open(disk_of("ramdisk/a").path, "rb") as device:
                    assert device.read() == contents[-1]
        killer.ok("--stop")
        recorded.mark(f"stopped{version}")
    assert killer.killed >= KILLS // 2
    return contents


def version_applied(lab, config, image, number, contents):
    """Return the version that a machine has after it boots with this file system."""
    copy = lab.file(SIZE)
    shutil.copyfile(image, copy)
    directory = lab.mount(copy, "-o", "loop")
    write_configuration(config, directory)
    try:
        names = set(os.listdir(directory)) - {"lost+found"}
        # A file that was about to get its name may have another name.
        assert {name for name in names
                if not name.startswith((".rxd-", "image.new-"))} == {"image", "hot"}, \
            f"point {number}: {names}"
        config.ok()
        assert config.ok() == []
        with open(disk_of("ramdisk/a").path, "rb") as device:
            found = device.read()
        result = run(program("rxadm"), "warm", "c", os.path.join(directory, "hot"), check=False)
        assert result.returncode == 0, f"point {number}: {result.stderr}"
        config.ok("--stop")
        assert not disk_of("ramdisk/a") and not dm.names()
    finally:
        run("umount", directory)
    os.truncate(copy, 0)
    assert found in contents, f"point {number}: what was never saved"
    return contents.index(found)


def test_apply_makes_old_or_new(lab, image, tmp_path):
    recorded = Recorded(lab)
    version = there = None
    with Configuration(tmp_path) as config:
        write_configuration(config, recorded.directory)
        contents = run_versions(config, recorded)
        recorded.end()
        for number, version in recorded.cuts(image, "stopped", STOP_POINTS):
            there = version_applied(lab, config, image, number, contents)
            assert there in (version, version + 1), \
                f"point {number}: {there} although {version} was stopped"
    assert there == version == STOPS - 1
