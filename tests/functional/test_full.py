# SPDX-License-Identifier: GPL-2.0-only
"""Full file systems: one line names the file, the old file is unchanged, nothing is left."""

import contextlib
import os
import shutil

import pytest

from rxdlib import direct, nvme
from rxdlib.command import program, run, rxadm
from rxdlib.configuration import Configuration, disk_of
from rxdlib.direct import KIB, MIB, stamp
from rxdlib.lab import state
from rxdlib.sampled import long

pytestmark = pytest.mark.one_kernel
DEVICE = 4
FULL = "No space left on device"
SCATTERED = 1 << 10         # blocks, each a line of the hot list
HERE, LEAST = 4 * MIB, 4 * KIB


@pytest.fixture(params=["tmpfs", "ext4"])
def folder(lab, request):
    """A small file system."""
    if request.param == "tmpfs":
        yield lab.mount("rxdtest-full", "-t", "tmpfs", "-o", f"size={HERE}")
    else:
        loop = lab.loop(HERE)
        run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", loop)
        yield lab.mount(loop)


def fill_up(folder, left):
    """Leave this many bytes free, or none."""
    path = os.path.join(folder, "ballast")
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        with contextlib.suppress(OSError):
            while os.write(fd, bytes(4 * KIB)):
                pass
        os.fsync(fd)
        os.ftruncate(fd, os.fstat(fd).st_size - left)
    finally:
        os.close(fd)


@pytest.fixture
def things(lab, tmp_path):
    """Objects for the commands: a RAM disk with data, a cache that holds many blocks, a file."""
    ramdisk = lab.ramdisk(8 * MIB, index=0)
    direct.write(ramdisk.path, 0, stamp(1, 4 * MIB))
    for index in range(20):
        lab.ramdisk(64 * KIB, index=1000 + index)
    cache = lab.cache(2 * SCATTERED * 4 * KIB, cache_size=4 * SCATTERED * 4 * KIB)
    source = tmp_path / "source"
    source.write_bytes(stamp(3, 4 * MIB))
    yield {"cache": cache.name, "source": source}


def scatter(name):
    """Cache every second block."""
    with direct.Direct(f"/dev/mapper/{name}", os.O_RDONLY) as device:
        for block in range(SCATTERED):
            device.read(block * 8 * KIB, 4 * KIB)


# The command, the file name in its message, and the free bytes: none, or enough to
# begin.
COMMANDS = {
    "save": ("rxadm", ("save", "rxd0", "{file}"), "file"),
    "save-zstd": ("rxadm", ("save", "rxd0", "{file}", "--compress", "zstd"), "file"),
    "hotlist": ("rxadm", ("hotlist", "save", "{cache}", "{file}"), "file"),
    "metrics": ("rxadm", ("metrics", "--output", "{file}"), "output"),
    "rxcp": ("rxcp", ("{source}", "{file}"), "destination"),
}


@pytest.mark.parametrize("folder, old, left", [
    ("tmpfs", False, 0), ("ext4", True, LEAST),
    *long([("tmpfs", True, LEAST), ("ext4", False, 0)])], indirect=["folder"])
@pytest.mark.parametrize("name", COMMANDS)
def test_command(things, folder, name, old, left):
    tool, args, what = COMMANDS[name]
    if name == "hotlist":
        scatter(things["cache"])
    path = os.path.join(folder, "file")
    if old:
        with open(path, "wb") as file:
            file.write(b"old\n")
    fill_up(folder, left)
    names, before = set(os.listdir(folder)), state()
    result = run(program(tool), *(arg.format(file=path, **things) for arg in args), check=False)
    assert result.returncode == (DEVICE if tool == "rxadm" else 1), result
    assert result.stdout == ""
    assert result.stderr.splitlines() == [result.stderr.strip()]
    assert f"{what} '{path}'" in result.stderr and FULL in result.stderr
    assert ("; nothing was saved\n" in result.stderr) == name.startswith("save")
    assert set(os.listdir(folder)) == names and state() == before
    if old:
        with open(path, "rb") as file:
            assert file.read() == b"old\n"


@pytest.mark.parametrize("folder, options, in_use", [
    ("tmpfs", (), False), ("ext4", (), True), ("ext4", ("--update",), False),
    ("tmpfs", ("--update",), True), *long([
        ("ext4", (), False), ("tmpfs", (), True), ("tmpfs", ("--update",), False),
        ("ext4", ("--update",), True)])], indirect=["folder"], ids=str)
def test_save_again(lab, folder, options, in_use):
    """The older image stays as it was, no clone is left, and the changes are saved later."""
    ramdisk = lab.ramdisk(8 * MIB, index=0)
    path = os.path.join(folder, "file")
    command = ("save", *options, "rxd0", path)
    direct.write(ramdisk.path, 0, stamp(1, 512 * KIB))
    rxadm(*command, check=True)
    with open(path, "rb") as file:
        image = file.read()
    direct.write(ramdisk.path, 2 * MIB, stamp(2, MIB))
    with contextlib.ExitStack() as stack:
        if in_use:
            stack.enter_context(direct.Direct(ramdisk.path, os.O_RDONLY))
        fill_up(folder, LEAST)
        names, before = set(os.listdir(folder)), state()
        result = rxadm(*command)
        assert (result.returncode, result.stdout) == (DEVICE, ""), result
        assert result.stderr.splitlines() == [result.stderr.strip()]
        assert f"file '{path}': {FULL}; nothing was saved\n" in result.stderr
        assert set(os.listdir(folder)) == names and state() == before
        with open(path, "rb") as file:
            is_same = file.read() == image
        assert is_same
        os.unlink(os.path.join(folder, "ballast"))
        result = rxadm(*command, check=True)
        assert not options or "1M of 8M changed" in result.stderr, result
    loaded = rxadm("load", path, "--uuid", "random", check=True).stdout.strip()
    lab.adopt_ramdisk(int(loaded[len("/dev/rxd"):]))
    assert direct.read(loaded, 0, 512 * KIB) == stamp(1, 512 * KIB)
    assert direct.read(loaded, 2 * MIB, MIB) == stamp(2, MIB)


@contextlib.contextmanager
def full(folder):
    """A folder of /run in which no file can be created."""
    os.makedirs(folder, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "rxdtest-full", folder)
    try:
        yield
    finally:
        run("umount", folder)


def test_records_of_exports(lab):
    """Without a record, nothing is exported."""
    lab.ramdisk(MIB)
    nvme.network()
    command = ("export", "rxd0", "--transport", "tcp", "--address", "127.0.0.1",
               "--allow-any-host")
    with full(nvme.RECORDS):
        result = rxadm(*command)
        assert result.returncode == DEVICE and len(result.stderr.splitlines()) == 1
        assert nvme.RECORDS in result.stderr and FULL in result.stderr
        assert nvme.tree() == []
    assert rxadm(*command).returncode == 0
    assert rxadm("unexport", "rxd0").returncode == 0


def test_apply(nothing_left, tmp_path):
    """A RAM disk is not created if it could not be recorded as incomplete."""
    with Configuration(tmp_path) as config:
        config.write("[ramdisk a]\nsize = 4M\n")
        with full("/run/rxadm"):
            before = state()
            config.refused(DEVICE, names=("ramdisk a", "/run/rxadm/ramdisk-a", FULL))
            assert state() == before
        config.ok()
        config.ok("--stop")


def test_apply_stop(lab, tmp_path):
    """A RAM disk that cannot be saved stays, and so does the old image."""
    folder = lab.mount("rxdtest-full", "-t", "tmpfs", "-o", "size=16M")
    with Configuration(tmp_path) as config:
        config.write(f"[ramdisk a]\nsize = 8M\nimage = {folder}/image\n")
        config.ok()
        direct.write(disk_of("ramdisk/a").path, 0, stamp(1, 64 * KIB))
        config.ok("--stop")
        config.ok()
        shutil.copy(f"{folder}/image", tmp_path / "image")
        direct.write(disk_of("ramdisk/a").path, 0, stamp(2, 6 * MIB))
        fill_up(folder, LEAST)
        before = state()
        config.refused(DEVICE, "--stop", names=(f"file '{folder}/image'", FULL))
        assert state() == before and sorted(os.listdir(folder)) == ["ballast", "image"]
        with open(f"{folder}/image", "rb") as file:
            assert file.read() == (tmp_path / "image").read_bytes()


@pytest.mark.parametrize("args", [
    ("--help",), ("list",), ("list", "--json"), ("metrics",), ("top", "-n", "1"),
    ("create", "--size", "4M", "--dry-run"),
    *long([(args,) for args in (("--version",), ("status",), ("info", "rxd0"),
                                ("extents", "rxd0"), ("completion", "bash"))])], ids=str)
def test_output(lab, args):
    """The output may go to a file for which there is no room."""
    lab.cache(MIB, ramdisk=lab.ramdisk(MIB, index=1))
    direct.write(lab.ramdisk(MIB, index=0).path, 0, stamp(1))
    result = run("sh", "-c", 'exec "$@" >/dev/full', "sh", program("rxadm"), *args, check=False)
    assert result.returncode == DEVICE
    assert result.stderr.splitlines() == [result.stderr.strip()]
    assert "cannot write the output" in result.stderr and FULL in result.stderr
