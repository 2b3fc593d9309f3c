# SPDX-License-Identifier: GPL-2.0-only
"""rxadm apply: it creates what the configuration says, whatever exists already."""

import os
import random
import signal
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import as_nobody, program, run, rxadm
from rxdlib.configuration import (BUSY, DEVICE, PARAMETERS, PERMISSION, RECORDS, Configuration,
                                  complaints, disk_of, note_unfinished, records, unfinished)
from rxdlib.control import STATE_CACHE, STATE_RESERVED
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK, RamDisk, state
from rxdlib.sampled import long, sampled

BOTH = f"""
[ramdisk scratch]
size = 16M
fs = ext4

[cache data]
origin = {DISK}
size = 8M
"""

pytestmark = pytest.mark.one_kernel


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


def signature(path):
    return run("blkid", "-p", "-o", "value", "-s", "TYPE", path, check=False).stdout.strip()


def test_make_and_stop(config):
    config.write(BOTH)
    before = state()
    plan = config.ok("--dry-run")
    assert state() == before
    assert plan == ["ramdisk scratch: create a RAM disk of 16M",
                    "ramdisk scratch: create a file system ext4",
                    "cache data: create a RAM disk of 8M",
                    f"cache data: map '{DISK}' as /dev/mapper/data"]
    assert config.ok() == plan
    scratch, cache = disk_of("ramdisk/scratch"), disk_of("cache/data")
    assert scratch.query().size == 16 * MIB and signature(scratch.path) == "ext4"
    assert cache.query().size == 8 * MIB and cache.query().state & STATE_CACHE
    assert dm.table("data").endswith(" 3 writethrough block_size 8 0")
    assert unfinished() == []

    made = state()
    assert config.ok() == config.ok("--dry-run") == []
    assert state() == made

    assert config.ok("--stop", "--dry-run") == [
        "cache data: remove the mapping 'data'", f"cache data: remove {cache.path}",
        f"ramdisk scratch: remove {scratch.path}"]
    assert state() == made
    assert records() == ["cache-data", "ramdisk-scratch"]
    assert len(config.ok("--stop")) == 3
    assert state() == before
    assert os.listdir(RECORDS) == []
    assert config.ok("--stop") == []


@pytest.mark.parametrize("has_image", [True, False])
def test_stop_with_a_damaged_record(config, has_image):
    """The configuration tells how to save the RAM disk. Without an image there, it is kept."""
    image, other = config.folder / "a.img", "[ramdisk b]\nsize = 4M\n"
    config.write(f"[ramdisk a]\nsize = 4M\nimage = {image}\n{other}")
    config.ok()
    record = os.path.join(RECORDS, "ramdisk-a")
    with open(record, encoding="ascii") as file:
        text = file.read()
    with open(record, "w", encoding="ascii") as file:
        file.write(text[:text.rindex("size=")])
    if not has_image:
        config.write(f"[ramdisk a]\nsize = 4M\n{other}")
    result = config.apply("--stop")
    assert result.returncode == (DEVICE if has_image else BUSY), result
    error, *kept = result.stderr.splitlines()
    assert f"{record}: is ignored, because the key 'size' is missing" in error
    assert has_image == (not kept) == (not disk_of("ramdisk/a")) == image.exists()
    assert not disk_of("ramdisk/b") and records() == ([] if has_image else ["ramdisk-a"])
    # A start replaces the record.
    result = config.apply()
    assert result.returncode == 0 and (record in result.stderr) == (not has_image)
    config.ok("--stop")


def test_record_that_cannot_be_removed(config):
    """The RAM disk is gone, and the record is not: the stop fails, and a second one mends it."""
    config.write("[ramdisk a]\nsize = 4M\n")
    config.ok()
    record = os.path.join(RECORDS, "ramdisk-a")
    run("mount", "--bind", record, record)
    try:
        config.refused(BUSY, "--stop", names=f"cannot remove {record}: Device or resource busy")
        assert not disk_of("ramdisk/a") and records() == ["ramdisk-a"]
    finally:
        run("umount", record)
    config.ok("--stop")
    assert records() == []


def test_path_that_a_record_cannot_hold(config):
    """Nothing is started that would not be found at the stop."""
    folder = config.folder / "a\nb"
    folder.mkdir()
    with Configuration(folder) as other:
        other.write("[ramdisk a]\nsize = 4M\n")
        result = other.apply()
        assert result.returncode == PARAMETERS and "newline" in result.stderr
        assert not disk_of("ramdisk/a") and records() == []


def test_stop_without_another_damaged_record(config):
    """A section that is stopped by its name has nothing to do with the record of another."""
    config.write(BOTH)
    config.ok()
    with open(os.path.join(RECORDS, "cache-data"), "w", encoding="ascii"):
        pass
    assert len(config.ok("--stop", "ramdisk/scratch")) == 1
    config.refused(DEVICE, "--stop", names="cache-data")
    assert not dm.names() and records() == []


def test_dry_run_asks_the_driver(config):
    """What the driver refuses is refused by the same line in a dry run."""
    def refused(text, *names):
        config.write(f"[ramdisk a]\n{text}")
        lines = []
        for args in ("--dry-run",), ():
            result = config.apply(*args)
            assert (result.returncode, result.stdout) == (PARAMETERS, ""), result
            assert len(result.stderr.splitlines()) == 1
            assert all(name in result.stderr for name in names)
            lines.append(result.stderr)
        assert lines[0] == lines[1]

    refused("size = 1T\n", "'1T'", "overcommit")
    refused("size = 4M\nnode = 31\n", "'31'")
    config.write("[ramdisk a]\nsize = 4M\n")
    config.ok()
    refused("size = 1T\n", "'1T'", "overcommit")
    config.ok("--stop")
    # The first section makes room for the second.
    text = "[ramdisk a]\nsize = {}\n[ramdisk b]\nsize = {}\n"
    config.write(text.format("60%", "10%"))
    config.ok()
    config.write(text.format("10%", "60%"))
    result = config.apply("--dry-run")
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 2
    line, = result.stderr.splitlines()
    assert "ramdisk b: note: the driver did not check 'resize " in line
    assert config.ok() == result.stdout.splitlines()
    config.ok("--stop")
    config.write("[ramdisk a]\nsize = 4M\nreserve = yes\nmem-limit = 4M\n")
    config.ok()
    # The driver would refuse the new size with the old limit.
    config.write("[ramdisk a]\nsize = 8M\nreserve = yes\nmem-limit = 8M\n")
    result = config.apply("--dry-run")
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 2
    assert "note: the driver did not check 'resize " in result.stderr
    # The limit of one disk does not change what the driver says about another.
    config.write("[ramdisk a]\nsize = 8M\nreserve = yes\nmem-limit = 8M\n"
                 "[ramdisk b]\nsize = 4M\nnode = 31\n")
    assert config.apply("--dry-run").returncode == PARAMETERS
    config.write("[ramdisk a]\nsize = 8M\nreserve = yes\nmem-limit = 8M\n")
    assert config.ok() == result.stdout.splitlines()


def test_dry_run_of_taken_number(config, lab):
    lab.ramdisk(index=5)
    config.write("[ramdisk a]\nsize = 4M\nindex = 5\n")
    dry, real = config.apply("--dry-run"), config.apply()
    assert dry.returncode == real.returncode == BUSY
    assert dry.stderr == real.stderr and "/dev/rxd5 exists" in dry.stderr
    assert "ramdisk a" not in dry.stdout + real.stdout and not disk_of("ramdisk/a")


def test_cache_too_small(config):
    """The target would refuse it, after the RAM disk was made."""
    config.write(f"[cache c]\norigin = {DISK}\nsize = 4M\nblock-size = 1M\n")
    before = state()
    dry, real = config.apply("--dry-run"), config.apply()
    assert dry.returncode == real.returncode == DEVICE
    assert dry.stdout == real.stdout == "" and dry.stderr == real.stderr
    for word in "cache c", "'4M'", "16 cache blocks of 1M", "at least 16M":
        assert word in dry.stderr
    assert state() == before


def test_names(config):
    config.write(BOTH)
    assert len(config.ok("scratch")) == 2
    assert disk_of("ramdisk/scratch") and not disk_of("cache/data")
    assert len(config.ok("cache/data", "ramdisk/scratch")) == 2
    config.ok("--stop", "ramdisk/scratch")
    assert disk_of("cache/data") and not disk_of("ramdisk/scratch")


def test_others_stay(config, lab):
    other = lab.ramdisk(4 * MIB)
    config.write("[ramdisk scratch]\nsize = 4M\n")
    assert config.ok("--dry-run")[-1] == \
        f"{other.path}: is not in the configuration and is left alone"
    before = other.query()
    config.ok()
    config.ok("--stop")
    assert other.query() == before


def test_other_caches_stay(config, lab):
    """Other caches stay, even if no section is a cache. A section's own cache is not listed."""
    config.write(f"[cache data]\norigin = {DISK}\nsize = 4M\n")
    config.ok()
    origin = lab.ramdisk(4 * MIB)
    cache = lab.cache(4 * MIB, origin=origin.path)
    others = [f"{path}: is not in the configuration and is left alone"
              for path in (origin.path, cache.ramdisk.path, cache.path)]
    assert config.ok("--dry-run") == others
    config.ok("--stop")
    config.write("[ramdisk scratch]\nsize = 4M\n")
    before = state()
    assert config.ok("--dry-run") == ["ramdisk scratch: create a RAM disk of 4M", *others]
    assert state() == before


def test_options(config):
    config.write("[ramdisk a]\nsize = 8M\nindex = 5\nmem-limit = 1M\nfolio-size = 64K\n"
                 "node = interleave\novercommit = yes\ndetect-zeroes = yes\n"
                 "logical-block-size = 4096\nuuid = 6a8c4f1e-0000-4000-8000-00000000000a\n")
    config.ok()
    query = RamDisk(5).query()
    assert query.uuid == "6a8c4f1e-0000-4000-8000-00000000000a"
    assert (query.size, query.mem_limit, query.folio_size, query.logical_block_size) == \
        (8 * MIB, MIB, 65536, 4096)
    assert config.ok() == []


def test_number_that_another_wants(config):
    config.write("[ramdisk a]\nsize = 4M\n[ramdisk b]\nsize = 4M\nindex = 0\n")
    config.ok("a")
    config.ok("b")
    assert (disk_of("ramdisk/a").index, disk_of("ramdisk/b").index) == (1, 0)


@pytest.mark.parametrize("line, change", [
    ("size = 8M", "resize /dev/rxd0 from 16M to 8M"),
    ("size = 16M\nmem-limit = 4M", "set the memory limit of /dev/rxd0 to 4M"),
    *long([("size = 32M", "resize /dev/rxd0 from 16M to 32M")]),
])
def test_change_of_a_ramdisk(config, line, change):
    config.write("[ramdisk a]\nsize = 16M\n")
    config.ok()
    config.write(f"[ramdisk a]\n{line}\n")
    before = state()
    assert config.ok("--dry-run") == [f"ramdisk a: {change}"]
    assert state() == before
    assert config.ok() == [f"ramdisk a: {change}"]
    assert config.ok() == []
    config.write("[ramdisk a]\nsize = 16M\n")
    assert len(config.ok()) == 1
    assert disk_of("ramdisk/a").query().size == 16 * MIB
    assert disk_of("ramdisk/a").query().mem_limit == 0


def test_data_is_not_cut_off(config):
    config.write("[ramdisk a]\nsize = 16M\n")
    config.ok()
    disk = disk_of("ramdisk/a")
    direct.write(disk.path, 12 * MIB, stamp(1))
    config.write("[ramdisk a]\nsize = 8M\n")
    before = state()
    assert config.refused(BUSY, names=("apply: ramdisk a: ", "holds data", "'8M'")) == []
    assert state() == before


@pytest.mark.parametrize("line, change", [
    ("mode = writearound", "change the mode from writethrough to writearound"),
    ("seq-cutoff = 1M", "change the cut-off of sequential I/O from 0B to 1M"),
    ("mem-limit = 4M", "set the memory limit of /dev/rxd0 to 4M"),
])
def test_change_of_a_cache(config, line, change):
    text = f"[cache c]\norigin = {DISK}\nsize = 8M\n"
    config.write(text)
    config.ok()
    config.write(text + line + "\n")
    assert config.ok() == [f"cache c: {change}"]
    assert config.ok() == []
    config.write(text)
    assert len(config.ok()) == 1
    assert dm.table("c").endswith(" 3 writethrough block_size 8 0")


def test_growth_of_a_cache(config):
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\n")
    config.ok()
    config.write(f"[cache c]\norigin = {DISK}\nsize = 16M\n")
    assert len(config.ok()) == 2
    assert disk_of("cache/c").query().size == 16 * MIB
    assert config.ok() == []


def test_shrinking_of_a_cache(config):
    """A cache shrinks only if it is stopped and started again, and the error says so."""
    config.write(f"[cache c]\norigin = {DISK}\nsize = 16M\n")
    config.ok()
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\n")
    before = state()
    for dry_run in ["--dry-run"], []:
        config.refused(BUSY, *dry_run, names=("cache c: size '8M': is 16M on the existing device",
                                              "--stop cache/c"))
    assert state() == before


@pytest.mark.parametrize("old, new", [(8, 16), (16, 8)])
def test_limit_of_reserved_memory(config, old, new):
    """The size and the limit change together, in the order that works."""
    for size in old, new:
        config.write(f"[ramdisk a]\nsize = {size}M\nreserve = yes\nmem-limit = {size}M\n")
        assert len(config.ok()) == (1 if size == old else 2)
        disk = disk_of("ramdisk/a").query()
        assert (disk.size, disk.mem_limit) == (size * MIB, size * MIB)
    assert config.ok() == []


def test_advice(config, lab):
    """Messages name keys of the configuration, since apply has no such options."""
    config.write("[ramdisk a]\nsize = 100G\n")
    config.refused(PARAMETERS, names=("'100G'", "overcommit = yes"))
    lab.ramdisk(index=5)
    config.write("[ramdisk a]\nsize = 8M\nindex = 5\n")
    config.refused(BUSY, names=("index '5'", "leave out the key index"))
    config.write("[ramdisk a]\nsize = 16M\nfs = ext4\n")
    config.ok()
    config.write("[ramdisk a]\nsize = 8M\nfs = ext4\n")
    config.refused(BUSY, names=("ext4", "'8M'", "'rxadm resize --force'"))
    run("mkswap", DISK)
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\n")
    result = config.apply()
    run("wipefs", "-q", "-a", DISK)
    assert result.returncode == DEVICE and "force = yes" in result.stderr


@pytest.mark.parametrize("line", sampled([
    "logical-block-size = 4096", "folio-size = 2M", "node = 0", "reserve = yes",
    "detect-zeroes = yes", "index = 9"]))
def test_what_a_ramdisk_keeps(config, line):
    config.write("[ramdisk a]\nsize = 4M\n")
    config.ok()
    config.write(f"[ramdisk a]\nsize = 4M\n{line}\n")
    before = state()
    key = line.split()[0]
    config.refused(BUSY, names=(f"apply: ramdisk a: {key} '", "--stop ramdisk/a"))
    assert state() == before


def test_what_a_cache_keeps(config, lab):
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\n")
    config.ok()
    other = lab.ramdisk(16 * MIB)
    before = state()
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\nblock-size = 64K\n")
    config.refused(BUSY, names=("block-size '64K'", "4K", "--stop cache/c"))
    config.write(f"[cache c]\norigin = {other.path}\nsize = 8M\n")
    config.refused(BUSY, names=(f"origin '{other.path}'", DISK))
    assert state() == before


def test_name_of_another_mapping(config, lab):
    name, _ = lab.linear(MIB)
    config.write(f"[cache {name}]\norigin = /dev/vda\nsize = 8M\n")
    before = state()
    config.refused(BUSY, names=(f"mapping '{name}'", "linear"))
    assert state() == before


def test_missing_origin(config):
    """The other sections are started; the exit code reports the error."""
    config.write("[cache gone]\norigin = /dev/disk/by-id/gone\nsize = 8M\n" + BOTH)
    for expected in 4, 0:
        lines = config.refused(DEVICE, names=("cache gone: origin '/dev/disk/by-id/gone'",
                                              "No such file"))
        assert len(lines) == expected
    assert disk_of("ramdisk/scratch") and disk_of("cache/data") and not disk_of("cache/gone")
    assert len(config.ok("--stop")) == 3


def test_failure_leaves_nothing(config, lab):
    """An origin in use is found late: the RAM disk that was created is removed again."""
    lab.linear(MIB)
    config.write(f"[cache data]\norigin = {DISK}\nsize = 8M\n")
    result = config.apply()
    assert result.returncode == BUSY and "is in use" in result.stderr
    assert not disk_of("cache/data")
    assert os.listdir(RECORDS) == []


def test_unknown_file_system(config):
    config.write("[ramdisk a]\nsize = 8M\nfs = nofs\n")
    before = state()
    config.refused(DEVICE, names=("fs 'nofs'", "mkfs.nofs"))
    assert state() == before


def test_no_mkfs_for_an_empty_image(config):
    """Only the load shows that the disk has no file system yet."""
    image = config.folder / "a.img"
    text = f"[ramdisk a]\nsize = 4M\nimage = {image}\n"
    config.write(text)
    config.ok()
    config.ok("--stop")
    config.write(text + "fs = nofs\n")
    config.refused(DEVICE, names="fs 'nofs': there is no program mkfs.nofs")
    assert not disk_of("ramdisk/a") and image.exists()


def test_mkfs_that_fails(config):
    config.write("[ramdisk a]\nsize = 4K\nfs = ext4\n")
    before = state()
    config.refused(DEVICE, names=("fs 'ext4'", "/mkfs.ext4 /dev/rxd0' failed: "))
    assert state() == before


@pytest.mark.parametrize("args, names", [
    ([], ["rxd.conf:2: [ramdisk a]: size 'x'", "rxd.conf:5: [ramdisk b]: key 'fish'",
          "rxd.conf:8: section 'tape'"]),
    (["ramdisk/d"], ["size 'x'", "key 'fish'", "section 'tape'",
                     "'ramdisk/d': there is no such section"]),
    *long([(["b"], ["size 'x'", "key 'fish'", "section 'tape'"])]),
])
def test_errors(config, args, names):
    config.write("[ramdisk a]\nsize = x\n[ramdisk b]\nsize = 4M\nfish = 1\n[ramdisk c]\n"
                 "size = 4M\n[tape e]\n")
    before = state()
    result = config.apply(*args)
    assert result.returncode == PARAMETERS and result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == len(names)
    for line, name in zip(lines, names):
        assert line.startswith("rxadm: apply: ") and name in line
    assert state() == before
    assert config.ok("c") == ["ramdisk c: create a RAM disk of 4M"]


@pytest.mark.parametrize("args, name", [
    (["--fish"], "'--fish'"), (["--config"], "'--config'"), (["--stop=1"], "'--stop=1'"),
    (["--config", "/nowhere/rxd.conf"], "/nowhere/rxd.conf: No such file"),
    (["--config", "/"], "/: Is a directory")])
def test_wrong_arguments(args, name):
    result = rxadm("apply", *args)
    assert result.returncode == PARAMETERS and name in result.stderr


def test_needs_privilege(config):
    config.write(BOTH)
    os.chmod(config.path, 0o644)
    for folder in [config.folder, *config.folder.parents][:3]:
        os.chmod(folder, 0o755)
    before = state()
    for args in (), ("--stop",), ("--dry-run",):
        result = as_nobody(program("rxadm"), "apply", "--config", config.path, *args, check=False)
        assert result.returncode == PERMISSION and "CAP_SYS_ADMIN" in result.stderr
    assert state() == before


def test_stop_of_what_is_in_use(config, lab):
    config.write(BOTH)
    config.ok()
    scratch = disk_of("ramdisk/scratch")
    folder = lab.mount(scratch.path)
    with direct.Direct("/dev/mapper/data", os.O_RDONLY):
        result = config.apply("--stop")
    assert result.returncode == BUSY
    assert "mapping 'data'" in result.stderr and f"mounted on {folder}" in result.stderr
    assert disk_of("ramdisk/scratch") and disk_of("cache/data") and "data" in dm.names()
    run("umount", folder)


def test_image(config):
    """The content of the disk is loaded again; an old image is replaced."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
    for seed in range(2):
        assert (f"ramdisk a: load '{image}'" in config.ok()) == bool(seed)
        disk = disk_of("ramdisk/a")
        if seed:
            assert direct.read(disk.path, 0, MIB) == stamp(0, MIB)
        direct.write(disk.path, seed * MIB, stamp(seed, MIB))
        assert config.ok() == []
        assert config.ok("--stop")[0] == f"ramdisk a: save {disk.path} to '{image}'"
        assert os.stat(image).st_mode & 0o777 == 0o600
    config.ok()
    assert direct.read(disk_of("ramdisk/a").path, MIB, MIB) == stamp(1, MIB)


def test_image_of_an_empty_disk(config):
    """It gets the file system that it would have got without the image."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
    config.ok()
    config.ok("--stop")
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\nfs = ext4\n")
    config.ok()
    assert signature(disk_of("ramdisk/a").path) == "ext4"


def test_file_system_on_a_reserved_disk(config):
    """It has all its memory before anything is written."""
    config.write("[ramdisk a]\nsize = 16M\nfs = ext4\nreserve = yes\n")
    assert config.ok() == ["ramdisk a: create a RAM disk of 16M",
                           "ramdisk a: create a file system ext4"]
    disk = disk_of("ramdisk/a")
    assert disk.query().state & STATE_RESERVED and signature(disk.path) == "ext4"
    run("wipefs", "--all", "--quiet", disk.path)
    assert config.ok() == config.ok("--dry-run") == [] and not signature(disk.path)
    run("blkdiscard", "--zeroout", disk.path)
    assert config.ok() == ["ramdisk a: create a file system ext4"]


@pytest.mark.parametrize("reserve", ["no", *long(["yes"])])
def test_written_after_a_kill(config, reserve):
    """The disk is recorded as incomplete, but there was nothing to fill, and it holds data."""
    config.write(f"[ramdisk a]\nsize = 16M\nreserve = {reserve}\n")
    config.ok()
    disk = disk_of("ramdisk/a")
    note_unfinished(disk.query().uuid)
    assert config.ok() == [f"ramdisk a: remove {disk.path}, which was not started completely",
                           "ramdisk a: create a RAM disk of 16M"]
    disk = disk_of("ramdisk/a")
    direct.write(disk.path, 8 * MIB, stamp(1))
    note_unfinished(disk.query().uuid)
    config.write(f"[ramdisk a]\nsize = 32M\nreserve = {reserve}\n")
    plan = config.ok("--dry-run")
    assert plan == [f"ramdisk a: resize {disk.path} from 16M to 32M"] and len(unfinished()) == 1
    assert config.ok() == plan
    assert direct.read(disk.path, 8 * MIB, len(stamp(1))) == stamp(1)
    assert unfinished() == config.ok() == []


@pytest.mark.parametrize("kind, size, mounted", [
    ("ext4", "16M", False), ("xfs", "320M", True),
    *long([("ext4", "16M", True), ("xfs", "320M", False)])])
def test_file_system_that_was_used_after_a_kill(config, lab, kind, size, mounted):
    """The disk is recorded as incomplete, but mkfs had ended."""
    config.write(f"[ramdisk a]\nsize = {size}\nfs = {kind}\n")
    config.ok()
    disk = disk_of("ramdisk/a")
    note_unfinished(disk.query().uuid)
    folder = lab.mount(disk.path)
    with open(f"{folder}/file", "w", encoding="ascii") as file:
        file.write("kept")
    if not mounted:
        run("umount", folder)
    result = config.apply()
    assert (result.returncode, result.stdout, unfinished()) == (0, "", []), result
    if not mounted:
        run("mount", disk.path, folder)
    with open(f"{folder}/file", encoding="ascii") as file:
        assert file.read() == "kept"
    run("umount", folder)


def mkfs_killed(kind, disk, trace, when=None):
    """Run mkfs on an empty disk, and kill it at one of its writes; return how many it began."""
    run("blkdiscard", disk.path)
    inject = ["-e", f"inject=pwrite64:signal=KILL:when={when}"] if when else []
    run("strace", "-f", "-o", trace, "-P", disk.path, "-e", "trace=pwrite64", *inject,
        f"mkfs.{kind}", disk.path, check=not when)
    return trace.read_text(encoding="ascii").count("pwrite64(")


@pytest.mark.parametrize("kind, size", [("ext4", "16M"), *long([("xfs", "320M")])])
def test_mkfs_that_was_killed(config, lab, tmp_path, kind, size):
    """
    mkfs is killed with rxadm. Whatever it leaves, the next apply ends with a whole file system:
    the disk is made again unless all of it was written. This covers mkfs.ext4, which writes the
    superblock last, and mkfs.xfs, which writes it early with a flag. Other programs may leave a
    superblock that libblkid finds: the disk is then kept as it is.
    """
    config.write(f"[ramdisk a]\nsize = {size}\nfs = {kind}\n")
    config.ok()
    total = mkfs_killed(kind, disk_of("ramdisk/a"), tmp_path / "trace")
    assert total > 6
    made_again = []
    for when in 1, total // 2, total:
        disk = disk_of("ramdisk/a")
        assert mkfs_killed(kind, disk, tmp_path / "trace", when) == when
        note_unfinished(disk.query().uuid)
        lines = config.ok()
        made_again.append(f"ramdisk a: create a file system {kind}" in lines)
        assert made_again[-1] or not lines
        assert unfinished() == [] and signature(disk_of("ramdisk/a").path) == kind
        run("umount", lab.mount(disk_of("ramdisk/a").path))
    assert made_again[0] and made_again[1]


@pytest.mark.parametrize("percent", [-5, -1, *long([1]), 3])
def test_image_from_before_memory_changed(config, lab, percent):
    """Memory differs a little from boot to boot: the disk gets the size of such an image."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 2%\nimage = {image}\n")
    config.ok()
    share = disk_of("ramdisk/a").query().size
    config.ok("--stop")

    size = (share + share * percent // 100) // 4096 * 4096
    other = lab.ramdisk(size)
    direct.write(other.path, size - MIB, stamp(1, MIB))
    assert rxadm("save", other.path, image).returncode == 0
    if percent > 2:
        config.refused(PARAMETERS, names=(f"({share} bytes)", f"({size} bytes)"))
        assert not disk_of("ramdisk/a")
        return
    assert config.ok("--dry-run")[-1] == \
        f"{other.path}: is not in the configuration and is left alone"
    config.ok()
    disk = disk_of("ramdisk/a")
    assert disk.query().size == (size if abs(percent) <= 2 else share)
    assert direct.read(disk.path, size - MIB, MIB) == stamp(1, MIB)
    assert config.ok("a") == []
    config.write(f"[ramdisk a]\nsize = 3%\nimage = {image}\n")
    assert "resize" in "".join(config.ok("a"))


@pytest.mark.parametrize("kind, options, words", [
    ("resize", (), ("'16M'", "(16777216 bytes)", "(33554432 bytes)", "increase")),
    ("load", ("--logical-block-size", "4096"),
     ("logical-block-size '512'", "4096", "set it to that"))])
def test_image_that_does_not_fit(config, lab, kind, options, words):
    """The message says which key to change. No RAM disk is created, and the image stays."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
    if kind == "resize":
        config.ok()
        run(program("rxadm"), "resize", disk_of("ramdisk/a").path, "32M")
        config.ok("--stop")
    else:
        ramdisk = lab.ramdisk(16 * MIB, logical_block_size=4096)
        run(program("rxadm"), "save", ramdisk.path, image)
        ramdisk.remove()
    before = image.read_bytes()
    for more in ("--dry-run",), ():
        config.refused(PARAMETERS, *more, names=(str(image), *words))
        assert not disk_of("ramdisk/a") and image.read_bytes() == before
    config.write(f"[ramdisk a]\nsize = 32M\nlogical-block-size = "
                 f"{4096 if options else 512}\nimage = {image}\n")
    config.ok()
    assert disk_of("ramdisk/a").query().size == 32 * MIB


def test_image_of_another_section(config, lab):
    """The size of an image is for its own section only."""
    image = config.folder / "a.img"
    sections = f"[ramdisk a]\nsize = 2%\nimage = {image}\n", \
        f"[cache c]\nsize = 2%\norigin = {DISK}\n"
    config.write(sections[0])
    config.ok()
    share = disk_of("ramdisk/a").query().size
    config.ok("--stop")
    other = lab.ramdisk((share + share // 100) // 4096 * 4096)
    assert rxadm("save", other.path, image).returncode == 0
    config.write("".join(sections))
    config.ok()
    sizes = [disk_of(name).query().size for name in ("ramdisk/a", "cache/c")]
    assert sizes == [other.query().size, share]
    config.ok("--stop")


def test_damaged_image(config):
    """No RAM disk is created from it, so that nothing is saved over it."""
    image = config.folder / "a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
    config.ok()
    direct.write(disk_of("ramdisk/a").path, 0, stamp(1, MIB))
    config.ok("--stop")
    data = bytearray(image.read_bytes())
    data[len(data) // 2] ^= 1
    image.write_bytes(data)
    result = config.apply()
    assert result.returncode and str(image) in result.stderr
    assert not disk_of("ramdisk/a")
    assert config.ok("--stop") == []
    assert image.read_bytes() == data


def test_image_that_cannot_be_saved(config):
    """The RAM disk stays."""
    folder = config.folder / "folder"
    folder.mkdir()
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {folder}/a.img\n")
    config.ok()
    direct.write(disk_of("ramdisk/a").path, 0, stamp(1))
    folder.rmdir()
    before = state()
    config.refused(DEVICE, "--stop", names="folder/a.img")
    assert state() == before


def test_hotlist(config):
    hotlist = config.folder / "c.hot"
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\nhotlist = {hotlist}\n")
    config.ok()
    direct.read("/dev/mapper/c", 0, MIB)
    assert config.ok("--stop")[0] == f"cache c: save the hot list to '{hotlist}'"
    assert hotlist.read_text().splitlines() == ["rxcache-hotlist 1", "0 2048"]


def test_hotlist_that_cannot_be_saved(config):
    """A hot list that cannot be saved does not prevent the shutdown."""
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\nhotlist = {config.folder}/no/c.hot\n")
    config.ok()
    lines = config.refused(DEVICE, "--stop", names="no/c.hot")
    assert len(lines) == 2 and not disk_of("cache/c") and "c" not in dm.names()


def test_many_at_once(config):
    config.write(BOTH)
    processes = [config.start() for _ in range(6)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 6
    assert [complaints(error.decode()) for _, error in outputs] == [[]] * 6
    assert sum(len(output.splitlines()) for output, _ in outputs) == 4
    assert config.ok() == []


def recover(config, *args):
    """Apply after a kill.

    A disk that was loaded completely just before the kill may have been used since. It is saved
    beside its image, with a note.
    """
    result = config.apply(*args)
    errors = [line for line in complaints(result.stderr)
              if "was not started completely, but held data" not in line]
    assert (result.returncode, errors) == (0, []), result


@pytest.mark.parametrize("rounds", [4, *long([8])])
def test_interrupted(config, rounds):
    """If it is killed at any moment, the next run has the intended result."""
    image = config.folder / "a.img"
    text = f"[ramdisk a]\nsize = 64M\nimage = {image}\n" + BOTH
    config.write(text)
    config.ok()
    direct.write(disk_of("ramdisk/a").path, 0, stamp(7, 32 * MIB))
    begin = time.monotonic()
    config.ok("--stop")
    config.ok()
    config.ok("--stop")
    whole = time.monotonic() - begin
    chance = random.Random(5)
    for number in range(rounds):
        for args in (), ("--stop",):
            process = config.start(*args)
            time.sleep(chance.random() * whole / 2)
            process.send_signal(signal.SIGINT if number % 2 else signal.SIGKILL)
            process.communicate(timeout=60)
            if args and number % 3:
                continue
            recover(config, *args)
            if not args:
                disk = disk_of("ramdisk/a")
                assert direct.read(disk.path, 0, 32 * MIB) == stamp(7, 32 * MIB)
                assert signature(disk_of("ramdisk/scratch").path) == "ext4"
                assert "data" in dm.names()
                assert config.ok() == []
            else:
                assert not dm.names() and not disk_of("ramdisk/a")
    config.ok()
    assert unfinished() == []
