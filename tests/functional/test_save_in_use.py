# SPDX-License-Identifier: GPL-2.0-only
"""rxadm save and clone of a RAM disk that is open or mounted."""

import contextlib
import glob
import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from rxdlib import direct, stacks
from rxdlib.command import ENVIRONMENT, as_nobody, program, run, rxadm
from rxdlib.control import (CREATE_DETECT_ZEROES, CREATE_RESERVE, STATE_DETECT_ZEROES,
                            STATE_EXPENDABLE, STATE_READONLY, STATE_RESERVED, Control)
from rxdlib.direct import KIB, MIB, Direct, stamp
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long
from rxdlib.traced import held_at, let_go

PARAMETERS, PERMISSION, MEMORY, DEVICE, BUSY = 1, 2, 3, 4, 5
KEY = "a key\n"
NOTE = "as after a power failure"
PATIENCE = 120  # seconds


def on_disk(lab, ramdisk, new):
    return ramdisk.path


def on_partition(lab, ramdisk, new):
    if new:
        with Direct(ramdisk.path) as device:
            device.partition(2048, ramdisk.query().size // 512 - 4096)
    else:
        run("blockdev", "--rereadpt", ramdisk.path)
    return f"{ramdisk.path}p1"


def on_linear(lab, ramdisk, new):
    return lab.linear(ramdisk.query().size, ramdisk.path)[1]


def on_luks(lab, ramdisk, new):
    if new:
        run("cryptsetup", "luksFormat", "-q", "--type", "luks1", "--pbkdf-force-iterations",
            "1000", ramdisk.path, stdin=KEY)
    name = lab.next_name("rxdtest")
    run("cryptsetup", "open", ramdisk.path, name, stdin=KEY)
    lab.adopt_mapped(name)
    return f"/dev/mapper/{name}"


def on_md(lab, ramdisk, new):
    if new:
        return stacks.md(lab, [ramdisk], "--force", "--level=1", "--bitmap=none")
    return stacks.assembled_md(lab, [ramdisk])


PLACES = {"disk": on_disk, "partition": on_partition, "linear": on_linear, "luks": on_luks,
          "md": on_md}


def check_file_system(kind, path):
    """Frozen: ext4 and btrfs need no replay of a log, and XFS is consistent after it."""
    if kind == "ext4":
        assert "needs_recovery" not in run("dumpe2fs", "-h", path).stdout
        run("e2fsck", "-fn", path)
    elif kind == "btrfs":
        run("btrfs", "check", "--readonly", path)


def disks():
    with Control() as control:
        return [disk.index for disk in control.query_all()]


@contextlib.contextmanager
def written(directory):
    """Write files all the time."""
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            with open(os.path.join(directory, f"busy{number % 8}"), "wb") as file:
                file.write(stamp(number, 64 * KIB))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def fsynced(directory, name, number):
    with open(os.path.join(directory, name), "wb") as file:
        file.write(stamp(number, 256 * KIB))
        file.flush()
        os.fsync(file.fileno())


def is_clean_up_done():
    return not [name for name in os.listdir("/run/rxadm") if name.startswith("save-")]


def kept(ramdisk):
    """What an image has of a disk, beside its data."""
    query = ramdisk.query()
    return query.uuid, query.mem_limit, query.state & (STATE_DETECT_ZEROES | STATE_RESERVED)


CASES = [("ext4", "disk"), ("ext4", "luks"), ("ext4", "md"), ("xfs", "partition"),
         ("btrfs", "disk")]
REPEATED = [("ext4", "partition"), ("ext4", "linear"), ("btrfs", "partition")]


@pytest.mark.parametrize("kind, place", [*CASES, *long(REPEATED)],
                         ids=map("-".join, CASES + REPEATED))
def test_mounted(lab, path, kind, place):
    """The image has a file system that was frozen, with all files that were synced."""
    size = {"ext4": 32, "xfs": 320, "btrfs": 160}[kind] * MIB
    options = {}
    if (kind, place) == CASES[0]:
        options = {"mem_limit": size - MIB, "flags": CREATE_DETECT_ZEROES}
    source = lab.ramdisk(size, **options)
    device = PLACES[place](lab, source, True)
    run(f"mkfs.{kind}", "-q", device)
    directory = lab.mount(device)
    fsynced(directory, "synced", 1)
    with written(directory):
        result = rxadm("--verbose", "save", source.path, path, "--progress", "none")
    assert result.returncode == 0 and "file systems were frozen for" in result.stderr, result
    assert "frozen for 0.000" not in result.stderr and NOTE not in result.stderr
    assert disks() == [source.index] and is_clean_up_done()
    before = kept(source)
    assert not options or before[1:] == (size - MIB, STATE_DETECT_ZEROES)
    run("umount", directory)
    if device.startswith("/dev/mapper"):
        run("dmsetup", "remove", device)
    elif place == "md":
        stacks.no_md(device)
    refused(BUSY, "remove", source.path, names="was not saved")
    ok("remove", source.path, "--force")

    loaded = lab.adopt_ramdisk(int(ok("load", path).strip()[len("/dev/rxd"):]))
    assert kept(loaded) == before
    device = PLACES[place](lab, loaded, False)
    check_file_system(kind, device)
    directory = lab.mount(device)
    with open(os.path.join(directory, "synced"), "rb") as file:
        assert file.read() == stamp(1, 256 * KIB)


@pytest.mark.one_kernel
def test_reserved(lab, path):
    """A mounted disk with reserved memory is saved as others are, and loaded as what it was."""
    size = 32 * MIB
    source = lab.ramdisk(size, flags=CREATE_RESERVE, mem_limit=2 * size)
    run("mkfs.ext4", "-q", source.path)
    directory = lab.mount(source.path)
    fsynced(directory, "synced", 1)
    with written(directory):
        result = rxadm("--verbose", "save", source.path, path, "--progress", "none")
    assert result.returncode == 0 and "file systems were frozen for" in result.stderr, result
    assert NOTE not in result.stderr
    assert disks() == [source.index] and is_clean_up_done()
    run("umount", directory)
    frozen = lab.adopt_ramdisk(int(ok("load", path, "--uuid", "random")[len("/dev/rxd"):]))
    check_file_system("ext4", frozen.path)
    with open(os.path.join(lab.mount(frozen.path), "synced"), "rb") as file:
        assert file.read() == stamp(1, 256 * KIB)

    # Nothing is written to a file system that is mounted read-only, not even by a freeze.
    directory = lab.mount(source.path, "-o", "ro")
    ok("save", source.path, path)
    run("umount", directory)
    before, golden = kept(source), direct.read(source.path, 0, size)
    assert before[1:] == (2 * size, STATE_RESERVED)
    ok("remove", source.path)
    loaded = lab.adopt_ramdisk(int(ok("load", path)[len("/dev/rxd"):]))
    assert kept(loaded) == before and loaded.query().mem_used == size
    assert direct.first_difference(direct.read(loaded.path, 0, size), golden) is None


@pytest.mark.one_kernel
def test_clone_of_a_mounted_disk(lab):
    """--expendable and --no-freeze, alone and dry."""
    source = lab.ramdisk(32 * MIB)
    with Direct(source.path) as device:
        device.partition(2048, 16 * 2048)
    run("mkfs.ext4", "-q", f"{source.path}p1")
    directory = lab.mount(f"{source.path}p1")
    line = ok("clone", source.path, "--expendable", "--dry-run")
    assert "RXD_CLONE_EXPENDABLE" in line and f"fds=[{directory}]" in line
    line = ok("clone", source.path, "--no-freeze", "--dry-run")
    assert "RXD_CLONE_NO_FREEZE" in line and "fds" not in line
    assert disks() == [source.index]

    copy = lab.adopt_ramdisk(int(ok("clone", source.path, "--expendable")[len("/dev/rxd"):]))
    run("blockdev", "--rereadpt", copy.path)
    assert copy.query().state & STATE_EXPENDABLE
    assert "overcommit expendable" in ok("list")
    assert "expendable" in json.loads(ok("info", copy.path, "--json"))["info"][0]["state"]
    check_file_system("ext4", f"{copy.path}p1")
    fsynced(directory, "file", 1)
    copies = [lab.adopt_ramdisk(int(path[len("/dev/rxd"):])) for path in
              ok("clone", source.path, "--no-freeze", "--count", "2").splitlines()]
    run("blockdev", "--rereadpt", copies[1].path)
    assert "needs_recovery" in run("dumpe2fs", "-h", f"{copies[1].path}p1").stdout


@pytest.mark.one_kernel
def test_hidden_mounts(lab, path):
    """A mount point that another mount hides, and one in another mount namespace."""
    source = lab.ramdisk(32 * MIB)
    run("mkfs.ext4", "-q", source.path)
    linear = lab.linear(32 * MIB, source.path)[1]
    directory = lab.mount(linear)
    run("mount", "-t", "tmpfs", "none", directory)
    result = rxadm("save", source.path, path)
    assert result.returncode == 0 and f"mounted on {directory}" in result.stderr
    assert NOTE in result.stderr
    run("umount", directory)
    run("umount", directory)

    held = ["unshare", "--mount", "sh", "-c", f"mount {linear} {directory} && echo && exec cat"]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        line = ok("clone", source.path, "--dry-run")
        assert "fds=[" in line
        process.stdin.close()
        process.wait(timeout=60)


@pytest.mark.one_kernel
def test_users_that_cannot_be_frozen(lab, path):
    """The save succeeds, and tells who they are."""
    source = lab.ramdisk(8 * MIB)
    direct.write(source.path, 0, stamp(1, MIB))
    with Direct(source.path) as device:
        result = rxadm("save", source.path, path)
        assert result.returncode == 0 and NOTE in result.stderr
        assert len(result.stderr.splitlines()) == 1 and "open in process" in result.stderr
        assert ok("save", source.path, path, "--no-freeze") == ""
        assert ok("save", source.path, path, "--no-freeze", "--format", "raw") == ""
        assert device.read(0, MIB) == stamp(1, MIB)
    # Nothing was written since: it is saved.
    ok("remove", source.path, "--dry-run")
    with open(path, "rb") as file:
        assert file.read(MIB) == stamp(1, MIB)
    linear = lab.linear(8 * MIB, source.path)[1]
    result = rxadm("save", source.path, path)
    assert result.returncode == 0 and linear in result.stderr, result
    run("dmsetup", "remove", linear)

    run("mkswap", source.path)
    run("swapon", source.path)
    try:
        for command in ("clone", source.path), ("save", source.path, path):
            for options in (), ("--no-freeze",):
                refused(BUSY, *command, *options, names=("is in use", "swap on"))
    finally:
        run("swapoff", source.path)
    cache = lab.cache(MIB)
    for command in ("clone", cache.ramdisk.path), ("save", cache.ramdisk.path, path):
        refused(BUSY, *command, names=("cache", "unmap"))


@pytest.mark.one_kernel
def test_page_cache_that_cannot_be_written(lab, path):
    """The disk is at its limit. What is on it is not lost, and can be cloned and saved."""
    source = lab.ramdisk(8 * MIB, mem_limit=MIB)
    direct.write(source.path, 0, stamp(1, MIB))
    with open(source.path, "r+b", buffering=0) as file:
        for number, command in enumerate((("clone", source.path), ("save", source.path, path),
                                          ("save", "--update", source.path, path))):
            # An error of the page cache is reported once.
            file.seek((4 + number) * MIB)
            file.write(stamp(2, 64 * KIB))
            result = rxadm(*command)
            assert (result.returncode, result.stdout) == (DEVICE, ""), result
            note, line = result.stderr.splitlines()
            assert NOTE in note and f"'{source.path}'" in line and "page cache" in line, result
            assert line.endswith("--no-freeze copies only the data that is already on the disk")
            assert disks() == [source.index] and is_clean_up_done()
            assert not os.path.exists(path)
        copy = lab.adopt_ramdisk(int(ok("clone", source.path, "--no-freeze")[len("/dev/rxd"):]))
        assert direct.read(copy.path, 0, MIB) == stamp(1, MIB)
        assert source.query().mem_used == MIB
        ok("save", source.path, path, "--no-freeze")


class Stalled:
    """A save to a pipe that nobody reads: its clone exists until it ends."""

    def __init__(self, source):
        self.source = source
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [program("rxadm"), "save", source.path, "-"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.process.stdout.read(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def clones(self):
        with Control() as control:
            return [disk for disk in control.query_all() if disk.state & STATE_EXPENDABLE]


@pytest.fixture(name="mounted")
def fixture_mounted(lab):
    """A RAM disk with a mounted file system, and where."""
    source = lab.ramdisk(32 * MIB)
    run("mkfs.ext4", "-q", source.path)
    directory = lab.mount(source.path)
    fsynced(directory, "file", 1)
    with open(os.path.join(directory, "large"), "wb") as file:
        file.write(os.urandom(8 * MIB))
    return source, directory


@pytest.mark.one_kernel
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal(mounted, number):
    source, directory = mounted
    with Stalled(source) as save:
        clone, = save.clones()
        assert clone.state & STATE_READONLY
        save.process.send_signal(number)
        save.process.communicate(timeout=PATIENCE)
        assert save.process.returncode == -number
    assert disks() == [source.index] and is_clean_up_done()
    fsynced(directory, "other", 2)


@pytest.mark.one_kernel
def test_killed(mounted, path):
    """Nothing stays frozen. The next save removes the clone, but not that of a running save."""
    source, directory = mounted
    with Stalled(source) as killed, Stalled(source) as running:
        killed.process.kill()
        killed.process.communicate(timeout=PATIENCE)
        fsynced(directory, "other", 2)
        assert len(running.clones()) == 2
        ok("save", source.path, path)
        assert len(running.clones()) == 1
        rest, errors = running.process.communicate(timeout=PATIENCE)
        assert running.process.returncode == 0 and len(rest) > 8 * MIB, errors
    assert disks() == [source.index] and is_clean_up_done()
    with Stalled(source) as killed:
        pass
    assert len(disks()) == 2
    refused(BUSY, "remove", source.path, names="is in use")
    assert rxadm("remove", "--all").returncode == BUSY
    assert disks() == [source.index]


def is_read(index):
    """Whether 1 MiB of a disk has been read."""
    with open(f"/sys/block/rxd{index}/stat", encoding="ascii") as file:
        return int(file.read().split()[2]) * 512 >= MIB


@contextlib.contextmanager
def slow_save(source, path):
    """A save that is held before it syncs the image, until let_go() or the end of the block.

    It has read 1 MiB of its clone by then.
    """
    before = disks()
    with held_at(Path(f"{path}.log"), "fsync", "save", source.path, path, "--no-freeze",
                 "--progress", "none") as process:
        assert any(is_read(index) for index in disks() if index not in before)
        yield process
        if process.poll() is None:
            let_go(process)
        process.communicate(timeout=PATIENCE)


@pytest.mark.one_kernel
def test_written_since(lab, path):
    """What counts as saved is the moment of the clone."""
    source = lab.ramdisk(16 * MIB)
    direct.write(source.path, 0, stamp(1, MIB))
    with Direct(source.path) as device, slow_save(source, path) as save:
        device.write(0, stamp(2))
        assert len(disks()) == 2
    assert save.returncode == 0
    refused(BUSY, "remove", source.path, names="was not saved")
    ok("save", source.path, path)
    ok("remove", source.path)


@pytest.mark.one_kernel
def test_newer_state_wins(lab, path):
    """Saves of one disk wait for each other: an older state never replaces a newer one."""
    source = lab.ramdisk(16 * MIB)
    direct.write(source.path, 0, stamp(1, MIB))
    with Direct(source.path) as device, slow_save(source, path) as save:
        device.write(0, stamp(2, MIB))
        with subprocess.Popen([program("rxadm"), "save", source.path, path, "--no-freeze"],
                              env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as second:
            told = second.stderr.readline()
            let_go(save)
            assert save.wait(timeout=PATIENCE) == 0
            second.communicate(timeout=PATIENCE)
        assert second.returncode == 0 and "waiting for process" in told, told
    ok("remove", source.path)
    loaded = lab.adopt_ramdisk(int(ok("load", path).strip()[len("/dev/rxd"):]))
    assert direct.read(loaded.path, 0, MIB) == stamp(2, MIB)


@pytest.mark.one_kernel
def test_replaced_meanwhile(lab, path):
    """Another disk with the same number does not count as saved, nor may it replace the image."""
    source = lab.ramdisk(16 * MIB, index=0)
    direct.write(source.path, 0, stamp(1, MIB))
    with contextlib.ExitStack() as opened, contextlib.ExitStack() as stack:
        opened.enter_context(Direct(source.path))
        save = stack.enter_context(slow_save(source, path))
        opened.close()
        source.remove()
        other = lab.ramdisk(16 * MIB, index=0)
        direct.write(other.path, 0, stamp(2, MIB))
        assert other.attribute("changes") == "1"
    assert save.returncode == 0
    refused(BUSY, "remove", other.path, names="was not saved")
    diskseq = other.seen()["diskseq"]
    assert not glob.glob(f"/run/rxadm/*-{diskseq}")


@pytest.mark.one_kernel
def test_clone_that_is_open(lab, path):
    """A clone that cannot be removed is an error, and the next save removes it."""
    source = lab.ramdisk(16 * MIB)
    direct.write(source.path, 0, stamp(1, MIB))
    with Direct(source.path), slow_save(source, path) as save:
        with Direct(f"/dev/rxd{max(disks())}", os.O_RDONLY):
            let_go(save)
            save.wait(timeout=PATIENCE)
            assert save.returncode == BUSY and "cannot be removed" in save.stderr.read()
        assert len(disks()) == 2 and not is_clean_up_done()
        ok("save", source.path, path, "--no-freeze")
        assert disks() == [source.index] and is_clean_up_done()


@pytest.mark.one_kernel
def test_mounts_that_only_name_the_disk(mounted, tmp_path):
    """The source of a file system without a device is any text, which users choose."""
    source, _ = mounted
    run("mount", "-t", "tmpfs", source.path, tmp_path)
    try:
        result = rxadm("--verbose", "clone", source.path, "--dry-run")
        assert result.returncode == 0 and NOTE not in result.stderr
    finally:
        run("umount", tmp_path)


ON_ITSELF = [("ext4", "disk"), ("ext4", "partition"), ("ext4", "linear"), ("btrfs", "partition")]


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind, place", ON_ITSELF, ids=map("-".join, ON_ITSELF))
def test_file_on_the_disk_itself(lab, path, kind, place):
    """It would be lost with the disk: nothing is written there, and an old file stays."""
    source = lab.ramdisk({"ext4": 32, "btrfs": 160}[kind] * MIB)
    device = PLACES[place](lab, source, True)
    run(f"mkfs.{kind}", "-q", device)
    inner = os.path.join(lab.mount(device), "folder")
    os.mkdir(inner)
    fsynced(inner, "old", 1)
    os.symlink(os.path.join(inner, "old"), f"{path}.link")
    for name in os.path.join(inner, "new"), os.path.join(inner, "old"), f"{path}.link":
        for options in (), ("--update",), ("--no-freeze",):
            result = rxadm("save", *options, source.path, name)
            assert (result.returncode, result.stdout) == (PARAMETERS, ""), result
            line, = result.stderr.splitlines()
            assert f"file '{name}': lies on the RAM disk '{source.path}' itself" in line
            assert "give a path on another file system" in line
            assert disks() == [source.index] and is_clean_up_done()
    assert os.listdir(inner) == ["old"]
    with open(os.path.join(inner, "old"), "rb") as file:
        assert file.read() == stamp(1, 256 * KIB)
    ok("save", source.path, path)


@pytest.mark.one_kernel
def test_file_that_fails(mounted, path):
    """The clone is removed, and the old image stays."""
    source, _ = mounted
    ok("save", source.path, path)
    with open(path, "rb") as file:
        before = file.read()
    full = run("sh", "-c", f"ulimit -f 100; {program('rxadm')} save {source.path} {path}",
               check=False)
    assert full.returncode
    with open(path, "rb") as file:
        assert file.read() == before
    refused(DEVICE, "save", source.path, "/dev/full/x")
    assert as_nobody(program("rxadm"), "save", source.path, path,
                     check=False).returncode == PERMISSION
    assert disks() == [source.index] and is_clean_up_done()


@pytest.mark.one_kernel
@pytest.mark.parametrize("make", [("mkfs.ext4", "-q"), ("mkfs.btrfs", "-q", "-m", "single")],
                         ids=["ext4", "btrfs"])
def test_swap_file(lab, path, make):
    """Neither a clone nor a save of its disk is made. btrfs has device numbers of its own."""
    source = lab.ramdisk(256 * MIB)
    run(*make, source.path)
    swap = os.path.join(lab.mount(source.path), "swap")
    run("truncate", "--size", "0", swap)
    run("chattr", "+C", swap, check=make[0] == "mkfs.btrfs")
    run("fallocate", "--length", "16M", swap)
    os.chmod(swap, 0o600)
    run("mkswap", swap)
    run("swapon", swap)
    try:
        for command in ("clone", source.path), ("save", source.path, path):
            for more in (), ("--no-freeze",):
                refused(BUSY, *command, *more, names=(f"swap on {swap}", "swapoff"))
    finally:
        run("swapoff", swap)
