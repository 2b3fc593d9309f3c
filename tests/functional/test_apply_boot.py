# SPDX-License-Identifier: GPL-2.0-only
"""rxadm apply at boot: missing modules, an older module, sections left out, full disks."""

import os
import pathlib
import shutil
import signal

import pytest

from rxdlib import direct, dm, locks, modules
from rxdlib.command import BUILD, ENVIRONMENT, run, rxadm
from rxdlib.configuration import (BUSY, DEVICE, PARAMETERS, RECORDS, Configuration, disk_of,
                                  records)
from rxdlib.direct import KIB, MIB, stamp
from rxdlib.lab import DISK, state
from test_meanwhile import interrupted, replace

pytestmark = pytest.mark.one_kernel
# Built with the next version of the ABI, see tests/guest/build.
NEXT = os.path.join(BUILD, "next/bin/rxadm")
ETC, VENDOR = pathlib.Path("/etc"), pathlib.Path("/usr/lib/rxd.conf.d")


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


@pytest.fixture
def unloaded(config):
    """No modules, as after the boot of a kernel for which they were not built."""
    modules.unload()
    yield
    modules.load()


def cache_section(config):
    return f"[cache c]\norigin = {DISK}\nsize = 8M\nhotlist = {config.folder}/c.hot\n"


def test_cache_without_modules(config, unloaded):
    """A mapping to the slow disk has the name of the cache and all of its data."""
    direct.write(DISK, 0, stamp(1))
    config.write(cache_section(config))
    result = config.apply("cache/c")
    assert result.returncode == 0, result
    assert result.stdout.splitlines() == [f"cache c: map '{DISK}' as /dev/mapper/c without a cache"]
    assert "module" in result.stderr and "not loaded" in result.stderr
    assert dm.table("c").split()[2:] == ["linear", dm.number(DISK), "0"]
    assert direct.read("/dev/mapper/c", 0, 4 * KIB) == stamp(1)
    # The second run changes nothing.
    result = config.apply("cache/c")
    assert (result.returncode, result.stdout) == (0, "")
    # Once the modules are loaded, it becomes a cache as soon as it is not in use.
    modules.load()
    with direct.Direct("/dev/mapper/c", os.O_RDONLY):
        result = config.apply()
        assert result.returncode == BUSY and "'c'" in result.stderr
        assert "linear" in dm.table("c") and not disk_of("cache/c")
        # The mapping is up: --stop needs its record, even if its section has an error by now.
        assert records() == ["cache-c"]
        config.write(cache_section(config) + "no-such-key = 1\n")
        config.refused(BUSY, "--stop", "cache/c", names="mapping 'c': is open in process")
        config.write(cache_section(config))
    assert config.ok() == ["cache c: create a RAM disk of 8M",
                           f"cache c: map '{DISK}' as /dev/mapper/c, which had no cache"]
    assert "rxcache" in dm.table("c") and config.ok() == []
    config.ok("--stop")


def stand_in(config, more=""):
    """The slow disk alone has the name of the cache. Return the RAM disk of the section."""
    config.write(cache_section(config) + more)
    config.ok()
    number = dm.number(DISK)
    with direct.Direct(DISK, os.O_RDONLY) as disk:
        sectors = disk.size() // direct.SECTOR
    run("dmsetup", "remove", "c")
    run("dmsetup", "create", "c", "--uuid", f"RXCACHE-{number}", "--table",
        f"0 {sectors} linear {number} 0")
    return disk_of("cache/c")


def test_interrupted_before_it_is_a_cache(config):
    """While it waits for the lock of the slow disk, the mapping has gone, and comes back."""
    stand_in(config)
    with locks.byte(os.stat(DISK).st_rdev + 1):
        with config.start("cache/c") as process:
            while b"waiting for process" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "linear" in dm.table("c") and os.path.exists("/dev/mapper/c")
    config.ok()
    assert "rxcache" in dm.table("c")
    config.ok("--stop")


def test_replaced_before_it_is_a_cache(config, tmp_path):
    """'force = yes' is for the data of the RAM disk of the section."""
    ramdisk = stand_in(config, "force = yes\n")
    code, _, errors = interrupted(tmp_path, "DM_DEV_REMOVE", lambda: replace(ramdisk), "apply",
                                  "--config", str(config.path))
    assert code in (BUSY, DEVICE) and f"'{ramdisk.path}'" in errors, errors
    assert direct.read(ramdisk.path, MIB, 4 * KIB) == stamp(2)
    assert "linear" in dm.table("c")


def test_stop_without_modules(config, unloaded):
    """A linear mapping has no hot list, so the saved one must stay."""
    hotlist = config.folder / "c.hot"
    hotlist.write_text("rxcache-hotlist 1\n0 8\n")
    config.write(cache_section(config))
    assert config.apply().returncode == 0
    result = config.apply("--stop")
    assert result.returncode == 0 and result.stdout == "cache c: remove the mapping 'c'\n"
    assert hotlist.read_text() == "rxcache-hotlist 1\n0 8\n"
    assert "c" not in dm.names() and records() == []


def test_unmap_without_modules(config, unloaded):
    config.write(cache_section(config))
    assert config.apply("cache/c").returncode == 0
    result = rxadm("unmap", "c")
    assert (result.returncode, result.stderr) == (0, "") and "c" not in dm.names()
    result = rxadm("unmap", "c")
    assert result.returncode == DEVICE and "rxcache is not loaded" in result.stderr


def test_ramdisk_without_modules(config, unloaded):
    """Nothing can replace a RAM disk; the caches are created."""
    config.write("[ramdisk a]\nsize = 4M\n" + cache_section(config))
    result = config.apply()
    assert result.returncode == DEVICE and "rxd is not loaded" in result.stderr
    assert "linear" in dm.table("c") and "ramdisk-a" not in records()
    config.apply("--stop")
    assert "c" not in dm.names()


def test_origin_in_use_without_modules(config, unloaded, lab):
    lab.linear(MIB)
    config.write(cache_section(config))
    result = config.apply("cache/c")
    assert result.returncode == BUSY and DISK in result.stderr and "c" not in dm.names()


def test_other_origin_without_modules(config, unloaded, lab):
    """The mapping keeps its origin while it is mounted by the name of the cache."""
    origins = [lab.linear(8 * MIB, offset=offset)[1] for offset in (0, 8 * MIB)]
    text = f"[cache c]\norigin = {origins[0]}\nsize = 8M\n"
    config.write(text)
    assert config.apply().returncode == 0
    table = dm.table("c")
    config.write(text.replace(*origins))
    for load in False, True:
        if load:
            modules.load()
        result = config.apply()
        assert result.returncode == BUSY and dm.table("c") == table
        line = result.stderr.splitlines()[-1]
        for word in f"origin '{origins[1]}'", origins[0], "--stop cache/c":
            assert word in line
    config.ok("--stop", "cache/c")
    config.ok()
    assert "rxcache" in dm.table("c")
    config.ok("--stop")


@pytest.mark.parametrize("why, words", [("index = 5\n", "/dev/rxd5 exists"),
                                        ("block-size = 1M\n", "fewer than 16")])
def test_cache_that_cannot_be_made(config, unloaded, lab, why, words):
    """In this case, a mapping to the slow disk keeps the name."""
    config.write(cache_section(config))
    assert config.apply().returncode == 0
    table = dm.table("c")
    modules.load()
    lab.ramdisk(MIB, index=5)
    config.write(cache_section(config) + why)
    result = config.apply()
    assert result.returncode != 0 and words in result.stderr, result
    assert dm.table("c") == table and not disk_of("cache/c")
    config.write(cache_section(config))
    config.ok()
    assert "rxcache" in dm.table("c")
    config.ok("--stop")


def test_noauto(config):
    """A noauto section is started if it is named, and is stopped with the others."""
    config.write("[ramdisk a]\nsize = 4M\nnoauto = yes\n[ramdisk b]\nsize = 4M\nnoauto = no\n")
    assert config.ok() == config.ok("--dry-run") + ["ramdisk b: create a RAM disk of 4M"]
    assert config.ok("a") == ["ramdisk a: create a RAM disk of 4M"]
    assert len(config.ok("--stop")) == 2
    config.ok("ramdisk/a")
    assert len(config.ok("--stop", "a")) == 1


@pytest.mark.parametrize("size, limit", [("16M", ""), ("64M", "mem-limit = 16M\n")])
def test_too_little_space(config, lab, size, limit):
    """The warning comes when the configuration is applied, and not only at shutdown."""
    folder = lab.mount("rxdtest", "-t", "tmpfs", "-o", "size=16M")
    text = f"[ramdisk a]\nsize = {size}\n{limit}image = {folder}/a.img\n"
    config.write(text)
    for args in ("--dry-run",), (), ():
        result = config.apply(*args)
        assert result.returncode == 0
        for name in f"note: image '{folder}/a.img'", "16M free", "may need 16":
            assert name in result.stderr
    run("mount", "-o", "remount,size=18M", folder)
    result = config.apply()
    assert result.returncode == 0 and not result.stderr
    config.ok("--stop")


@pytest.mark.parametrize("how, words", [("missing", "No such file"), ("read-only", "Read-only")])
def test_folder_that_takes_no_image(config, lab, how, words):
    folder = lab.mount("rxdtest", "-t", "tmpfs")
    if how == "read-only":
        run("mount", "-o", "remount,ro", folder)
    else:
        folder += "/none"
    config.write(f"[ramdisk a]\nsize = 4M\nimage = {folder}/a.img\n")
    before = state()
    config.refused(DEVICE, names=(f"image '{folder}/a.img'", f"directory '{folder}'", words))
    assert state() == before


def test_compress(config):
    image = config.folder / "a.img"
    text = f"[ramdisk a]\nsize = 16M\nimage = {image}\n"
    sizes = {}
    for how in "no", "zstd:1":
        config.write(text + f"compress = {how}\n")
        config.ok()
        direct.write(disk_of("ramdisk/a").path, 0, b"all work and no play " * (MIB // 4))
        config.ok("--stop")
        sizes[how] = image.stat().st_size
    assert sizes["zstd:1"] < sizes["no"] // 10
    config.ok()
    assert direct.read(disk_of("ramdisk/a").path, 0, 4 * KIB).startswith(b"all work and no play ")
    config.write(text + "compress = fast\n")
    config.refused(PARAMETERS, names=("compress 'fast'", "zstd:LEVEL"))


@pytest.mark.parametrize("when, error, words", [
    ("1+", "EPROTONOSUPPORT", "not from the same release"), ("2+", "EIO", "Input/output error"),
    ("2", "EINTR", "")])
def test_module_that_does_not_answer(config, when, error, words):
    """A disk is not considered removed because the module does not answer."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
    config.ok()
    direct.write(disk_of("ramdisk/a").path, 0, stamp(5, MIB))
    result = config.failing(f"inject=ioctl:error={error}:when={when}", "--stop")
    if words:
        assert result.returncode == DEVICE and len(result.stderr.splitlines()) == 1, result
        assert words in result.stderr and result.stdout == ""
        assert records() == ["ramdisk-a"]
        config.ok("--stop")
    assert image.exists() and not disk_of("ramdisk/a") and records() == []


def test_older_module(config):
    """It stays loaded while rxadm is upgraded: its disks are saved, listed and removed."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
    config.ok()
    disk = disk_of("ramdisk/a").path
    direct.write(disk, 0, stamp(5, MIB))
    environment = dict(ENVIRONMENT)
    result = run(NEXT, "apply", "--config", config.path, "--stop", check=False,
                 environment=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [f"ramdisk a: save {disk} to '{image}'",
                                          f"ramdisk a: remove {disk}"]
    config.ok()
    assert direct.read(disk_of("ramdisk/a").path, 0, MIB) == stamp(5, MIB)
    run(NEXT, "save", disk, config.folder / "b.img", environment=environment)
    assert disk in run(NEXT, "list", environment=environment).stdout
    # Do not query what the older module may not support.
    result = run(NEXT, "create", "--size", "4M", check=False, environment=environment)
    assert result.returncode == DEVICE and "not from the same release" in result.stderr
    config.ok("--stop")
    assert os.listdir(RECORDS) == []


@pytest.fixture(name="machine")
def configuration_of_the_machine(nothing_left):
    """A configuration in /etc, and a folder of vendor defaults."""
    folders = ETC / "rxd.conf.d", VENDOR
    assert not any(path.exists() for path in [ETC / "rxd.conf", *folders])
    for folder in folders:
        folder.mkdir()
    with Configuration(ETC) as config:
        yield config
        config.path.unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder)


def apply(*args):
    """Run apply without --config; return the printed lines."""
    result = rxadm("apply", *args)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout.splitlines()


def test_vendor_defaults(machine, tmp_path):
    """A section of the machine replaces a vendor's completely, and the output names its file."""
    (VENDOR / "10-a.conf").write_text("[ramdisk a]\nsize = 4M\novercommit = on\nfs = nofs\n")
    (VENDOR / "20-b.conf").write_text("[ramdisk b]\nsize = 4M\n")
    machine.write("[ramdisk a]\nsize = 8M\n")
    before = state()
    plan = ["ramdisk a: create a RAM disk of 8M",
            f"ramdisk b ({VENDOR}/20-b.conf): create a RAM disk of 4M"]
    assert apply("--dry-run") == plan
    assert state() == before
    assert apply() == plan
    assert apply() == apply("--dry-run") == []
    assert machine.ok("--dry-run") == []
    # A default that becomes a section of the machine is still the same RAM disk.
    disks = [disk_of(f"ramdisk/{name}").path for name in "ab"]
    machine.write("[ramdisk a]\nsize = 8M\n[ramdisk b]\nsize = 8M\n")
    assert apply("--dry-run", "b") == [f"ramdisk b: resize {disks[1]} from 4M to 8M"]
    # Another configuration has no vendor defaults, and does not change them.
    other = Configuration(tmp_path)
    other.write("[ramdisk c]\nsize = 4M\n")
    assert "ramdisk c: create a RAM disk of 4M" in other.ok("--dry-run")
    result = other.apply("b")
    assert result.returncode == PARAMETERS
    assert result.stderr.endswith(f"there is no such section in {other.path}, {other.path}.d\n")
    # A section that was started is stopped, even if the vendor's file was removed.
    (VENDOR / "20-b.conf").unlink()
    machine.write("[ramdisk a]\nsize = 8M\n")
    assert apply("--stop") == [f"ramdisk b: remove {disks[1]}",
                               f"ramdisk a: remove {disks[0]}"]
    assert state() == before and records() == []


def test_vendor_defaults_that_are_hidden(machine):
    """A file of the same name hides a vendor's file; errors name the file that they are in."""
    (VENDOR / "10-a.conf").write_text("\n[ramdisk a]\nsize = x\n")
    before = state()
    machine.refused(PARAMETERS, names=f"apply: {VENDOR}/10-a.conf:3: [ramdisk a]: size 'x'")
    (ETC / "rxd.conf.d/10-a.conf").symlink_to("/dev/null")
    assert apply() == []
    machine.refused(PARAMETERS, "c", names=f"no such section in {ETC}/rxd.conf, "
                    f"{ETC}/rxd.conf.d, {VENDOR}")
    assert state() == before
    (VENDOR / "20-b.conf").write_text("[ramdisk b]\nsize = 4K\nfs = ext4\n")
    machine.refused(DEVICE, names=f"ramdisk b ({VENDOR}/20-b.conf): fs 'ext4'")
    assert state() == before


def test_empty_vendor_folder(machine):
    """An empty folder, as packages install it, is not a configuration."""
    (ETC / "rxd.conf.d").rmdir()
    machine.refused(PARAMETERS, names="/etc/rxd.conf: No such file or directory")
    (ETC / "rxd.conf.d").mkdir()
    assert apply() == []
