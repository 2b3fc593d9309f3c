# SPDX-License-Identifier: GPL-2.0-only
"""The content of a disk under a cache after a power failure: all synced data must be there.

dm-log-writes, between the cache and the disk, logs each write and flush. The log is
replayed up to flushes and FUA writes: the file system must check clean there, and
hold each file whose fsync had returned before.

The same below a file system that takes images of rxadm save, replayed up to any write:
the image there is the last one whose save had returned, or the one after it. The same with
the image of a mounted RAM disk that the timer of autosave changes in place, on several file
systems: the file system in it was frozen, and is clean. And below one that rxadm apply saves
to, killed every now and then: whatever is found there, apply makes of it what the last stop
had saved, or the one after it.
"""

import contextlib
import glob
import os
import random
import shutil
import time

import pytest

from rxdlib import dm, logwrites
from rxdlib.command import program, run
from rxdlib.configuration import Configuration, complaints, disk_of
from rxdlib.control import Control
from rxdlib.direct import KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, LONG, RamDisk

SIZE = 32 * MIB
FILES = 24
# Number of points to check; RXD_CRASH_POINTS=1000 checks all of them.
MAX_CHECKS = int(os.environ.get("RXD_CRASH_POINTS", 16 if LONG else 5))
SAVED_SIZE = 4 * MIB
SAVES, SAVE_POINTS = (12, 50) if LONG else (4, 6)
# Of each file system.
AUTOSAVES, AUTOSAVE_POINTS = (40, 334) if LONG else (10, 17)
KEPT = 3
NAMES = [f"file{number}" for number in range(8)]
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


def held(ramdisk):
    with open(ramdisk.path, "rb") as device:
        return device.read()


def version_of(ramdisk, contents):
    found = held(ramdisk)
    assert found in contents, "what was never saved"
    return contents.index(found)


@contextlib.contextmanager
def loaded(image, *options):
    """A RAM disk that is loaded from an image."""
    made = run(program("rxadm"), "load", image, "--uuid", "random", *options)
    ramdisk = RamDisk(int(made.stdout.strip()[len("/dev/rxd"):]))
    try:
        yield ramdisk
    finally:
        ramdisk.remove()


class Recorded:
    """A file system whose writes are recorded, and its state after a power failure."""

    def __init__(self, lab, kind="ext4"):
        size, make, self.check = FILE_SYSTEMS[kind]
        self.kind = kind
        self.disk, self.log = lab.ramdisk(size), lab.ramdisk(512 * MIB, overcommit=True)
        self.copy = lab.ramdisk(size)
        self.name = lab.mapped(f"0 {size // SECTOR} log-writes {self.disk.path} {self.log.path}")
        run(*make, f"/dev/mapper/{self.name}")
        self.directory = lab.mount(f"/dev/mapper/{self.name}")

    def mark(self, word):
        dm.message(self.name, "mark", word)

    def end(self):
        run("umount", self.directory)
        dm.remove(self.name)
        self.disk.clear()
        # It refuses older states of a file system that it has seen on another device.
        if self.kind == "btrfs":
            run("btrfs", "device", "scan", "--forget")

    def _replay(self, entries, word):
        """Return how many marks there were."""
        with open(self.disk.path, "r+b", buffering=0) as disk:
            for entry in entries:
                logwrites.apply(entry, disk.fileno())
        return sum(bool(entry.mark and entry.mark.startswith(word)) for entry in entries)

    def cuts(self, word, count):
        """Mount the file system as it was at so many random points after the first mark that
        begins so, and at the very end. Yield how many marks came before, less one."""
        found = list(logwrites.entries(self.log.path))
        first = next(i for i, entry in enumerate(found) if entry.mark == f"{word}0")
        points = range(first, len(found))
        assert len(points) >= count
        version, begin = -1, 0
        for point in sorted({*random.Random(count).sample(points, count), points[-1]}):
            version += self._replay(found[begin:point + 1], word)
            begin = point + 1
            print(f"{self.kind}: point {point} of {len(found)}, {word}{version}", flush=True)
            with Control() as control:
                control.reset(self.copy.index, self.disk.index)
            run("mount", self.copy.path, self.directory)
            yield version
            run("umount", self.directory)
            result = run(*self.check, self.copy.path, check=False)
            assert result.returncode == 0, result.stdout + result.stderr


def test_saved_image_is_old_or_new(lab):
    recorded = Recorded(lab)
    saved = lab.ramdisk(SAVED_SIZE)
    image = os.path.join(recorded.directory, "image")
    contents = []
    for version in range(SAVES):
        fill(saved, version)
        contents.append(held(saved))
        compress = ["--compress", "zstd"] if version % 2 else []
        run(program("rxadm"), "save", saved.path, image, *compress)
        recorded.mark(f"saved{version}")
    recorded.end()

    version = there = None
    for version in recorded.cuts("saved", SAVE_POINTS):
        with loaded(image) as ramdisk:
            there = version_of(ramdisk, contents)
        assert there in (version, version + 1), f"{there} although {version} was saved"
    assert there == version == SAVES - 1


def change(directory, files, chance):
    """Write, rename and remove some files, and sync none of them; note what they hold."""
    for _ in range(chance.randrange(1, 6)):
        name, other = chance.choices(NAMES, k=2)
        path = os.path.join(directory, name)
        old = files.pop(name, b"")
        action = chance.random() if old else 1
        if action < .2:
            os.unlink(path)
        elif action < .4:
            os.rename(path, os.path.join(directory, other))
            files[other] = old
        else:
            offset = chance.randrange(min(len(old), 64 * KIB) + 1)
            data = stamp(chance.randrange(1 << 16), chance.randrange(16, 64 * KIB, 16))
            with open(path, "r+b" if old else "wb") as file:
                file.seek(offset)
                file.write(data)
            files[name] = old[:offset] + data + old[offset + len(data):]


class Autosaved:
    """The file system of a RAM disk, at each save by the timer."""

    def __init__(self, lab, config, recorded):
        self.image = os.path.join(recorded.directory, "image")
        self.files = []         # at each save
        self.contents = {}      # of the whole disk, if it was found and checked
        config.write(f"[ramdisk a]\nsize = {SAVED_SIZE}\nimage = {self.image}\nfs = ext4\n"
                     f"autosave = 1h\nkeep = {KEPT}\n")
        config.ok()
        self.directory = lab.mount(disk_of("ramdisk/a").path, "-o", "discard")
        files, chance = {}, random.Random(AUTOSAVES)
        for version in range(AUTOSAVES):
            change(self.directory, files, chance)
            files["version"] = str(version).encode()
            with open(os.path.join(self.directory, "version"), "wb") as file:
                file.write(files["version"])
            result = config.apply("--save", "ramdisk/a")
            assert result.returncode == 0 and f"as generation {version + 1}\n" in result.stderr, \
                result
            self.files.append(dict(files))
            recorded.mark(f"saved{version}")
        run("umount", self.directory)

    def check(self, path):
        """Check the file system of a loaded RAM disk, which needs no journal, and all files in
        it; return its version."""
        result = run("e2fsck", "-fn", path, check=False)
        assert result.returncode == 0 and "journal recovery" not in result.stdout + result.stderr, \
            result
        run("mount", "-o", "ro,noload", path, self.directory)
        found = {}
        for name in set(os.listdir(self.directory)) - {"lost+found"}:
            with open(os.path.join(self.directory, name), "rb") as file:
                found[name] = file.read()
        run("umount", self.directory)
        version = int(found["version"])
        wanted = self.files[version]
        wrong = [name for name in {*found, *wanted} if found.get(name) != wanted.get(name)]
        assert not wrong, f"{wrong} of save {version}"
        return version

    def version(self, *options):
        """Load the image; return the version that the RAM disk holds. Only a content that was
        not seen before has to be checked."""
        with loaded(self.image, *options) as ramdisk:
            content = held(ramdisk)
            for version, known in self.contents.items():
                if content == known:
                    return version
            version = self.check(ramdisk.path)
        assert version not in self.contents, f"two contents of save {version}"
        self.contents[version] = content
        return version


@pytest.mark.parametrize("kind", FILE_SYSTEMS if LONG else ["ext4"])
def test_autosaved_image_is_old_or_new(lab, kind, tmp_path):
    """Each save is one generation, so that the first has the number 1."""
    recorded = Recorded(lab, kind)
    version = there = None
    with Configuration(tmp_path) as config:
        saved = Autosaved(lab, config, recorded)
        recorded.end()
        for version in recorded.cuts("saved", AUTOSAVE_POINTS):
            there = saved.version()
            assert there in (version, version + 1), f"{there} although {version} was saved"
            oldest = max(0, there + 1 - KEPT)
            assert saved.version("--generation", str(oldest + 1)) == oldest
    assert there == version == AUTOSAVES - 1


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
        took = time.monotonic() - begin
        self.times[args] = min(self.times.get(args, took), took)

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
            assert held(disk) == contents[-1]
        fill(disk, version)
        contents.append(held(disk))
        with Direct("/dev/mapper/c", os.O_RDONLY) as device:
            for block in cached_blocks(version):
                device.read(block * 4 * KIB, 4 * KIB)
        if version:
            for _ in range(-(-KILLS // 2 // (STOPS - 1))):
                killer.start_and_kill("--stop")
                killer.ok()
                assert held(disk_of("ramdisk/a")) == contents[-1]
        killer.ok("--stop")
        recorded.mark(f"stopped{version}")
    assert killer.killed >= KILLS // 2
    return contents


def version_applied(config, directory, contents):
    """Return the version that a machine has after it boots with this file system."""
    names = set(os.listdir(directory)) - {"lost+found"}
    # A file that was about to get its name may have another name.
    assert {name for name in names
            if not name.startswith((".rxd-", "image.new-"))} == {"image", "hot"}, names
    config.ok()
    assert config.ok() == []
    version = version_of(disk_of("ramdisk/a"), contents)
    run(program("rxadm"), "warm", "c", os.path.join(directory, "hot"))
    config.ok("--stop")
    assert not disk_of("ramdisk/a") and not dm.names()
    return version


def test_apply_makes_old_or_new(lab, tmp_path):
    recorded = Recorded(lab)
    version = there = None
    with Configuration(tmp_path) as config:
        write_configuration(config, recorded.directory)
        contents = run_versions(config, recorded)
        recorded.end()
        for version in recorded.cuts("stopped", STOP_POINTS):
            there = version_applied(config, recorded.directory, contents)
            assert there in (version, version + 1), f"{there} although {version} was stopped"
    assert there == version == STOPS - 1
