# SPDX-License-Identifier: GPL-2.0-only
"""Names of RAM disks: unique, accepted as DEVICE, and removed with the disk."""

import concurrent.futures
import errno
import json
import os

import pytest

from rxdlib import direct
from rxdlib.command import rxadm
from rxdlib.configuration import Configuration, disk_of
from rxdlib.direct import MIB, stamp
from rxdlib.lab import state
from rxdlib.outcome import ok, refused
from rxdlib.sampled import sampled

pytestmark = pytest.mark.one_kernel

PARAMETERS, DEVICE, BUSY = 1, 4, 5
LONGEST = "abcdefghijklmnopqrstuvwxyz012345"
BAD = ["", "-", ".", "-a", ".a", "a b", "a/b", "a,b", "\u00e4", "rxd0", "rxd9x",
       LONGEST + "6", "a-part1", "a-part12"]


def given():
    """Return the names, by number."""
    return {disk["device"]: disk["name"]
            for disk in json.loads(ok("list", "--json", "-O"))["ramdisks"]}


def named(lab, name, index=0):
    assert ok("create", "--size", "4M", "--index", str(index), "--name", name) == \
        f"/dev/rxd{index}\n"
    return lab.adopt_ramdisk(index)


@pytest.mark.parametrize("name", sampled(
    ["a", "scratch", "A-Z_0.9", "a-part", "a-part1x", "0", "_", "rxd", LONGEST], every=2))
def test_good(lab, name):
    ramdisk = named(lab, name)
    assert ramdisk.attribute("name") == name and given() == {"/dev/rxd0": name}
    assert json.loads(ok("info", name, "--json"))["info"][0]["name"] == name


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_bad(lab, name):
    ramdisk = lab.ramdisk(4 * MIB)
    for options in (), ("--dry-run",):
        refused(PARAMETERS, "create", "--size", "4M", "--name", name, *options,
                names=(f"name '{name}'",
                       "not begin with - or ." if name[:1] in "-." else "must"))
        if name:
            refused(PARAMETERS, "set", "rxd0", "--name", name, *options)
    if name:
        with pytest.raises(OSError) as caught:
            ramdisk.set_attribute("name", name)
        assert caught.value.errno == errno.EINVAL
    assert ramdisk.attribute("name") == ""


def test_help():
    assert "name for commands and /dev/disk/by-id/rxd-name-NAME\n" in ok("create", "--help")


def test_wherever_a_device_is_expected(lab, tmp_path):
    ramdisk = named(lab, "scratch")
    direct.write(ramdisk.path, 0, stamp(1, MIB))
    assert json.loads(ok("extents", "scratch", "--json"))["extents"]
    ok("resize", "scratch", "+4M")
    ok("limit", "scratch", "4M")
    ok("save", "scratch", tmp_path / "image", "--progress", "none")
    ok("clear", "scratch")
    ok("load", tmp_path / "image", "--into", "scratch", "--progress", "none")
    assert direct.read(ramdisk.path, 0, MIB) == stamp(1, MIB)
    ok("remove", "scratch", "--force")
    assert state()["ramdisks"] == []


def test_as_cache_and_origin(lab):
    fast, slow = named(lab, "fast"), named(lab, "slow", 1)
    path = ok("map", "--cache", "fast", "--origin", "slow").strip()
    try:
        assert path == "/dev/mapper/rxc-rxd1"
        listed = json.loads(ok("status", "--json"))["caches"][0]
        assert (listed["cache"], listed["origin"]) == (fast.path, slow.path)
    finally:
        ok("unmap", "rxc-rxd1")


def test_one_disk_each(lab):
    """A name of another disk is refused; a disk may be given its own name again."""
    named(lab, "scratch", 3)
    other = lab.ramdisk(4 * MIB)
    for options in (), ("--dry-run",):
        refused(BUSY, "create", "--size", "4M", "--name", "scratch", *options,
                names=("name 'scratch'", "/dev/rxd3"))
        refused(BUSY, "set", "rxd0", "--name", "scratch", *options,
                names=("name 'scratch'", "/dev/rxd3"))
    with pytest.raises(OSError) as caught:
        other.set_attribute("name", "scratch")
    assert caught.value.errno == errno.EEXIST
    ok("set", "rxd3", "--name", "scratch")
    assert given() == {"/dev/rxd0": None, "/dev/rxd3": "scratch"}


def test_change(lab):
    ramdisk = named(lab, "one")
    assert ok("set", "one", "--name", "two", "--dry-run") == \
        "echo 'two' > '/sys/block/rxd0/rxd/name'\n"
    assert ramdisk.attribute("name") == "one"
    # This also works while the disk is open.
    with direct.Direct(ramdisk.path):
        ok("set", "one", "--name", "two")
    refused(DEVICE, "extents", "one", names=("one",))
    named(lab, "one", 1)
    ok("set", "two", "--name", "")
    assert given() == {"/dev/rxd0": None, "/dev/rxd1": "one"}
    refused(PARAMETERS, "set", "rxd0", "--name", "x", "--latency", "on", names=("--name",))


def test_load(lab, tmp_path):
    """A new disk gets the name, or is not created."""
    image = tmp_path / "image"
    ramdisk = named(lab, "scratch")
    direct.write(ramdisk.path, 0, stamp(1, MIB))
    ok("save", "scratch", image, "--progress", "none")
    refused(BUSY, "load", image, "--uuid", "random", "--name", "scratch",
            names=("name 'scratch'", "/dev/rxd0"))
    refused(PARAMETERS, "load", image, "--uuid", "random", "--name", "rxd1", names=("'rxd1'",))
    refused(PARAMETERS, "load", image, "--into", "rxd0", "--name", "x", names=("--name",))
    assert given() == {"/dev/rxd0": "scratch"}
    assert ok("load", image, "--uuid", "random", "--name", "copy") == "/dev/rxd1\n"
    copy = lab.adopt_ramdisk(1)
    assert given() == {"/dev/rxd0": "scratch", "/dev/rxd1": "copy"}
    assert direct.read(copy.path, 0, MIB) == stamp(1, MIB)
    ok("remove", "scratch")
    assert ok("load", image, "--name", "scratch") == "/dev/rxd0\n"
    lab.adopt_ramdisk(0)
    assert given() == {"/dev/rxd0": "scratch", "/dev/rxd1": "copy"}


def test_removal_frees_it(lab):
    for index in range(3):
        named(lab, "scratch", index)
        ok("remove", "scratch")


def test_node_comes_first(lab):
    """A device in /dev takes precedence over the name of a RAM disk."""
    named(lab, "null")
    refused(DEVICE, "remove", "null", names=("/dev/null",))


def test_dry_run(lab):
    lines = ok("create", "--size", "4M", "--name", "scratch", "--dry-run").splitlines()
    assert "RXD_CREATE" in lines[-2]
    assert lines[-1] == "echo 'scratch' > '/sys/block/rxdN/rxd/name'"
    assert state()["ramdisks"] == []


def test_many_want_it(lab):
    """One process gets the name, and the others leave nothing behind."""
    with concurrent.futures.ThreadPoolExecutor() as executor:
        results = list(executor.map(
            lambda _: rxadm("create", "--size", "4M", "--name", "scratch"), range(8)))
    made = [result.stdout for result in results if not result.returncode]
    assert len(made) == 1
    assert [result.returncode for result in results if result.returncode] == 7 * [BUSY]
    assert given() == {made[0].strip(): "scratch"}
    lab.adopt_ramdisk(int(made[0].strip().removeprefix("/dev/rxd")))


def test_renamed_while_others_look(lab):
    """A reader of a name gets a complete name, and no two disks have the same."""
    disks = [lab.ramdisk(4 * MIB) for _ in range(2)]
    wanted = ["a" * 32, "b" * 32, "c"]

    def rename(disk):
        for turn in range(300):
            try:
                disk.set_attribute("name", wanted[turn % 3])
            except OSError as error:
                assert error.errno == errno.EEXIST

    with concurrent.futures.ThreadPoolExecutor() as executor:
        done = [executor.submit(rename, disk) for disk in disks]
        while not all(future.done() for future in done):
            assert disks[0].attribute("name") in ["", *wanted]
        for future in done:
            future.result()
    seen = [disk.attribute("name") for disk in disks]
    assert len(set(seen)) == 2


def test_section(lab, tmp_path):
    """The disk gets the name of the section, if that is free and allowed."""
    config = Configuration(tmp_path)
    long = "x" * (len(LONGEST) + 1)
    config.write("".join(f"[ramdisk {name}]\nsize = 4M\n" for name in ("scratch", "other", long)))
    named(lab, "other", 9)
    try:
        result = rxadm("apply", "--config", config.path)
        assert result.returncode == 0
        notes = result.stderr.splitlines()
        assert len(notes) == 2 and all("note: " in note for note in notes)
        assert "'other'" in notes[0] and f"'{long}'" in notes[1]
        assert disk_of("ramdisk/scratch").attribute("name") == "scratch"
        assert disk_of("ramdisk/other").attribute("name") == ""
        assert os.path.exists(disk_of("ramdisk/scratch").path)
    finally:
        ok("apply", "--config", config.path, "--stop")
