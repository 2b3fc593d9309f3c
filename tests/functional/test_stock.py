# SPDX-License-Identifier: GPL-2.0-only
"""Standard tools, used as their manuals say.

The stage "stock" gives them more time: RXD_STOCK_SECONDS for each load.
"""

import contextlib
import os
import re

import pytest

from rxdlib import direct, dm
from rxdlib.command import run
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK, LONG
from rxdlib.stacks import md, wait_for

from test_filesystems import CHECKS, make, read_files, write_files

pytestmark = pytest.mark.one_kernel
SECONDS = int(os.environ.get("RXD_STOCK_SECONDS", 120 if LONG else 4))
SIZE = 128 * MIB
KEY = "a passphrase that everybody knows\n"
CHEAP = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")


@pytest.fixture(params=["rxd", "rxcache"])
def device(lab, request):
    """A RAM disk, or a cache much smaller than the data on it."""
    if request.param == "rxd":
        yield lab.ramdisk(SIZE).path
    else:
        cache = lab.cache(SIZE, cache_size=SIZE // 8)
        yield cache.path
        assert cache.status().origin_errors == 0


@pytest.fixture
def folder(lab, device):
    """A file system on the device, which must be intact at the end."""
    make("ext4", device)
    folder = lab.mount(device)
    yield folder
    run("umount", folder)
    run(*CHECKS["ext4"], device)


def stress(*options, stressors=1, seconds=SECONDS):
    """Run stress-ng, which checks what it reads; each of its stressors must have done something."""
    result = run("stress-ng", "--verify", "--metrics", "--timeout", f"{seconds}s", *options,
                 timeout=seconds + 300)
    lines = re.findall(r"metrc: \[\d+\] +(\S+) +(\d+) +[\d.]+ ", result.stdout + result.stderr)
    assert len(lines) == stressors, result
    assert all(int(count) > 0 for _, count in lines), result


@pytest.mark.parametrize("stressor", ["hdd", "aio", "io-uring", *(["aiol"] if LONG else [])])
def test_stress_files(folder, stressor):
    """A run that ends just before a request of io_uring is reported as a lack of resources."""
    options = {"hdd": ("--hdd-bytes", "16M", "--hdd-opts", "direct,wr-rnd,rd-rnd,utimes"),
               "io-uring": ("--io-uring-ops", 2500 * SECONDS)}
    stress("--temp-path", folder, f"--{stressor}", 2, *options.get(stressor, ()),
           seconds=60 * SECONDS if stressor == "io-uring" else SECONDS)


def test_stress_device(device):
    """All ioctls of stress-ng, and its reads: the data does not change."""
    direct.write(device, 0, stamp(1, MIB))
    stress("--temp-path", "/tmp", "--dev", 2, "--dev-file", device)
    assert direct.read(device, 0, MIB) == stamp(1, MIB)


def test_stress_control_node(lab):
    ramdisk = lab.ramdisk(MIB)
    before = vars(ramdisk.query())
    stress("--temp-path", "/tmp", "--dev", 2, "--dev-file", "/dev/rxd-control")
    assert vars(ramdisk.query()) == before


def test_dbench(folder):
    result = run("dbench", "-D", folder, "-t", SECONDS, 4, timeout=SECONDS + 300)
    assert float(re.search(r"^Throughput ([\d.]+) MB/sec", result.stdout, re.MULTILINE)[1]) > 0


# LVM


@contextlib.contextmanager
def volume_group(lab, *devices, config=()):
    """Physical volumes in a group; all of LVM is removed at the end."""
    def undo():
        run("vgchange", "-an", "stock", *config, check=False)
        run("vgremove", "-ff", "-y", "stock", *config, check=False)
        run("pvremove", "-ff", "-y", *devices, *config, check=False)

    lab.stack.callback(undo)
    run("pvcreate", "-y", *devices, *config)
    run("vgcreate", "stock", *devices, *config)
    yield
    run("vgremove", "-y", "stock", *config)
    run("pvremove", *devices, *config)
    assert not [name for name in dm.names() if name.startswith("stock-")]


def volume_with_files(lab, *arguments, config=()):
    run("lvcreate", "-y", "-n", "files", *arguments, "stock", *config)
    make("ext4", "/dev/mapper/stock-files")
    folder = lab.mount("/dev/mapper/stock-files")
    return folder, write_files(folder)


def check_files(folder, written):
    """The files are unchanged, read from the device itself."""
    path = "/dev/mapper/stock-files"
    run("umount", folder)
    run(*CHECKS["ext4"], path)
    run("mount", path, folder)
    assert read_files(folder) == written
    run("umount", folder)


@pytest.mark.parametrize("kind", [
    ("--type", "linear"), ("--type", "striped", "-i", "2"), ("--type", "raid1", "-m", "1"),
    ("--type", "thin", "-T", "-V", "64M", "--poolmetadatasize", "4M")],
    ids=lambda kind: kind[1])
def test_lvm_on_ramdisks(lab, kind):
    """A group of two disks; a third joins, and the first leaves below the file system."""
    disks = [lab.ramdisk(SIZE).path for _ in range(2)]
    size = ("-L", "64M")
    with volume_group(lab, *disks):
        folder, written = volume_with_files(lab, *kind, *size)
        if kind[1] == "linear":
            other = lab.ramdisk(SIZE).path
            run("pvcreate", other)
            run("vgextend", "stock", other)
            run("pvmove", disks[0], other)
            run("vgreduce", "stock", disks[0])
            run("lvextend", "-r", "-L", "+32M", "stock/files")
        check_files(folder, written)
    if kind[1] == "linear":
        run("pvremove", other)


def test_lvm_on_cached_disk(lab):
    """The disk itself must be filtered out, because its contents appear twice."""
    cache = lab.cache(SIZE, cache_size=SIZE // 8)
    config = ("--config", f'devices/filter=["r|^{DISK}$|"]')
    with volume_group(lab, cache.path, config=config):
        folder, written = volume_with_files(lab, "-L", "64M", config=config)
        check_files(folder, written)
        run("vgchange", "-an", "stock", *config)
        run("vgchange", "-ay", "stock", *config)
        run("mount", "/dev/mapper/stock-files", folder)
        assert read_files(folder) == written
        run("umount", folder)


# MD


def attribute(path, name):
    with open(f"/sys/block/{os.path.basename(path)}/md/{name}", encoding="ascii") as file:
        return file.read().strip()


def wait_for_sync(path):
    """mdadm --wait returns at once if the work has not begun yet."""
    wait_for(lambda: (attribute(path, "sync_action"), attribute(path, "degraded")) == ("idle", "0"),
             "array that is complete and in sync")


def sync_action(path, name):
    with open(f"/sys/block/{os.path.basename(path)}/md/sync_action", "w", encoding="ascii") as file:
        file.write(name)
    wait_for_sync(path)
    return int(attribute(path, "mismatch_cnt"))


@pytest.mark.parametrize("level, count", [(1, 2), (5, 3), *([(10, 4)] if LONG else [])])
def test_mdadm(lab, level, count):
    """A member fails, is removed and comes back empty; all data stays."""
    disks = [lab.ramdisk(SIZE // 4) for _ in range(count)]
    path = md(lab, disks, f"--level={level}", "--bitmap=internal", fresh=True)
    wait_for_sync(path)
    make("ext4", path)
    folder = lab.mount(path)
    written = write_files(folder)
    os.sync()
    run("mdadm", path, "--fail", disks[0].path)
    run("mdadm", path, "--remove", disks[0].path)
    run("mdadm", "--zero-superblock", disks[0].path)
    disks[0].clear()
    assert read_files(folder) == written
    run("mdadm", path, "--add", disks[0].path)
    wait_for_sync(path)
    assert sync_action(path, "check") == 0
    run("umount", folder)
    run("mdadm", "--stop", path)
    run("mdadm", "--assemble", path, *(disk.path for disk in disks))
    run(*CHECKS["ext4"], path)
    run("mount", path, folder)
    assert read_files(folder) == written
    run("umount", folder)


# cryptsetup


@pytest.mark.parametrize("kind", ["luks2", *(["luks1"] if LONG else [])])
def test_cryptsetup(lab, device, kind):
    run("cryptsetup", "luksFormat", "-q", "--type", kind, *CHEAP, device, stdin=KEY)
    name = lab.next_name("rxdtest")
    lab.adopt_mapped(name)
    run("cryptsetup", "open", device, name, stdin=KEY)
    path = f"/dev/mapper/{name}"
    make("ext4", path)
    folder = lab.mount(path)
    written = write_files(folder)
    run("umount", folder)
    run("cryptsetup", "close", name)
    refused = run("cryptsetup", "open", device, name, stdin="another\n", check=False)
    assert refused.returncode == 2 and name not in dm.names()
    run("cryptsetup", "open", device, name, "--allow-discards", stdin=KEY)
    run(*CHECKS["ext4"], path)
    run("mount", path, folder)
    run("fstrim", folder)
    assert read_files(folder) == written
    run("umount", folder)
    run("cryptsetup", "close", name)
