# SPDX-License-Identifier: GPL-2.0-only
"""rxadm info, and messages that name the users of a device."""

import json
import os
import subprocess
import sys
import zlib

import pytest

from rxdlib import direct, dm
from rxdlib.command import run, rxadm
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK
from rxdlib.outcome import ok

pytestmark = pytest.mark.one_kernel

PARAMETERS, DEVICE, BUSY = 1, 4, 5


def info(name):
    found = json.loads(ok("info", name, "--json"))["info"]
    assert len(found) == 1
    return found[0]


def refused(code, *args, names):
    result = rxadm(*args)
    assert (result.returncode, result.stdout) == (code, ""), result
    assert len(result.stderr.splitlines()) == 1
    for name in names:
        assert name in result.stderr


@pytest.fixture
def opener():
    """Start processes that hold a device open."""
    processes = []

    def hold(path):
        process = subprocess.Popen(
            [sys.executable, "-c",
             "import os, sys; os.open(sys.argv[1], os.O_RDONLY); print(flush=True); input()",
             path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        processes.append(process)
        process.stdout.readline()
        return process.pid

    yield hold
    for process in processes:
        process.communicate(b"\n")


def test_ramdisk(lab):
    ramdisk = lab.ramdisk(64 * MIB, mem_limit=32 * MIB)
    direct.write(ramdisk.path, 0, stamp(1, 64 * KIB))
    direct.write(ramdisk.path, 8 * MIB, stamp(1))
    query = ramdisk.query()
    found = info("rxd0")
    assert found == info("/dev/rxd0")
    for key, value in {
            "device": "/dev/rxd0", "kind": "ramdisk", "number": dm.number(ramdisk.path),
            "size": 64 * MIB, "state": "idle", "used": 64 * KIB + BLOCK, "shared": 0,
            "max_used": 64 * KIB + BLOCK, "limit": 32 * MIB, "metadata": query.mem_index,
            "extents": 2, "logical_block_size": 512, "folio_size": 4096, "node": "local",
            "nospc": 0, "writes": 2, "uuid": query.uuid, "mode": None, "advise": None,
            "origin": None, "partitions": [], "mounts": [], "holders": [], "openers": [],
            "swaps": []}.items():
        assert found[key] == value, key


def test_cache(lab):
    cache = lab.cache(16 * MIB)
    for _ in range(4):
        direct.read(cache.path, 0, 64 * KIB)
    status = cache.status()
    found = info(cache.name)
    for name in cache.path, os.path.realpath(cache.path):
        assert {**info(name), "reads": None} == {**found, "reads": None}
    for key, value in {
            "device": cache.path, "kind": "cache", "size": 16 * MIB, "origin": DISK,
            "cache": "/dev/rxd0", "mode": "writethrough", "advise": "no", "block_size": 4096,
            "blocks_total": status.total, "blocks_used": 16, "metadata": status.metadata,
            "read_hit_percent": 75.0, "reads": 4, "writes": 0, "latency_p50_ns": None,
            "state": None, "uuid": None, **status.counters}.items():
        assert found[key] == value, key
    assert info("rxd0")["holders"] == [cache.path]
    assert info("rxd0")["extents"] is None


def test_latency(lab):
    """The median is in one class, and nearly all I/O is within the other."""
    name = lab.mapped(f"0 8192 delay {DISK} 0 20 {DISK} 0 0")
    cache = lab.cache(4 * MIB, origin=f"/dev/mapper/{name}")
    ok("set", cache.name, "--latency", "on")
    for _ in range(4):
        direct.read(cache.path, 0, BLOCK)
    found = info(cache.name)
    assert found["latency_p50_ns"] < 20_000_000 <= found["latency_p99_ns"]
    ok("set", cache.name, "--latency", "off")


def test_users(lab, opener):
    """Mounts, holders and partitions are found by the disk, processes by ID and name."""
    ramdisk = lab.ramdisk(16 * MIB)
    with Direct(ramdisk.path) as device:
        device.partition(2048, 2 * 2048)
    assert info("rxd0")["partitions"] == ["/dev/rxd0p1"]
    linear, path = lab.linear(MIB, "/dev/rxd0p1")
    assert info("rxd0")["holders"] == [path]
    dm.remove(linear)
    pid = opener("/dev/rxd0p1")
    openers = info("rxd0")["openers"]
    assert len(openers) == 1 and openers[0].startswith(f"{pid} (python3")


def test_mounted(lab):
    ramdisk = lab.ramdisk(16 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    assert info("rxd0")["mounts"] == [directory]
    assert info("rxd0")["openers"] == []
    run("umount", directory)
    run("mkswap", ramdisk.path)
    run("swapon", ramdisk.path)
    try:
        assert info("rxd0")["swaps"] == [ramdisk.path]
    finally:
        run("swapoff", ramdisk.path)


def test_text(lab):
    lab.ramdisk(64 * MIB)
    lines = dict(line.split(":", 1) for line in ok("info", "rxd0").splitlines())
    assert lines["device"].strip() == "/dev/rxd0" and lines["size"].strip() == "64M"
    assert "mode" not in lines and "openers" not in lines
    assert ok("info", "rxd0", "-n", "-o", "SIZE,STATE") == "64M\nidle\n"
    assert ok("info", "rxd0", "-r", "-b", "-o", "SIZE") == f"size: {64 * MIB}\n"


def test_several(lab):
    """One after the other, with an empty line between them; one array in JSON."""
    ramdisk = lab.ramdisk(16 * MIB)
    lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    names, columns = ("rxd1", ramdisk.path), ("--output", "DEVICE,SIZE,MOUNTS")
    assert ok("info", *names, *columns) == "\n".join(ok("info", name, *columns) for name in names)
    found = json.loads(ok("info", *names, "--json"))["info"]
    assert [line["mounts"] for line in found] == [[], [directory]]
    refused(DEVICE, "info", "rxd0", "rxd9", names=("'rxd9'",))


def test_quoted_in_json(lab, tmp_path):
    ramdisk = lab.ramdisk(16 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = tmp_path / 'a "b" \\c\t\xe4'
    directory.mkdir()
    run("mount", ramdisk.path, str(directory))
    try:
        assert info("rxd0")["mounts"] == [str(directory)]
    finally:
        run("umount", str(directory))


@pytest.mark.parametrize("name, words", [
    ("rxd9", ("'rxd9'", "neither a RAM disk nor a cache")),
    ("nothing", ("'nothing'", "neither a RAM disk nor a cache")),
    ("/dev/nothing", ("/dev/nothing",)), (DISK, (DISK, "not an rxd RAM disk")),
    ("/dev/null", ("not a block device",)), ("/dev/mapper/x", ("/dev/mapper/x",)),
], ids=str)
def test_no_such_device(lab, name, words):
    lab.ramdisk(MIB)
    refused(DEVICE, "info", name, names=words)
    refused(PARAMETERS, "info", "", names=("''",))
    mapping = lab.mapped("0 2048 zero")
    refused(DEVICE, "info", mapping, names=(f"'{mapping}'", "not a cache"))


def test_messages_name_the_process(lab, opener):
    ramdisk = lab.ramdisk(16 * MIB)
    pid = opener(ramdisk.path)
    who = f"open in process {pid} (python3"
    for command in (("remove", "rxd0"), ("clear", "rxd0"), ("resize", "rxd0", "4M"),
                    ("remove", "rxd0", "--dry-run"), ("resize", "rxd0", "4M", "--dry-run"),
                    ("map", "--cache", "rxd0", "--origin", DISK)):
        refused(BUSY, *command, names=("rxd0", who))
    cache = lab.cache(MIB)
    pid = opener(cache.path)
    who = f"open in process {pid} (python3"
    refused(BUSY, "unmap", cache.name, names=(cache.name, who))
    refused(BUSY, "unmap", cache.name, "--dry-run", names=(cache.name, who))


# Members of something


def test_origin_was_swap(lab):
    """It is not in use, but swapon -a would use it and bypass the cache."""
    origin, ramdisk = lab.ramdisk(16 * MIB), lab.ramdisk(4 * MIB)
    run("mkswap", origin.path)
    command = ("map", "--cache", ramdisk.path, "--origin", origin.path, "--name", "one")
    refused(DEVICE, *command, names=(origin.path, "swap space", "--force"))
    refused(DEVICE, *command, "--dry-run", names=(origin.path, "swap space", "--force"))
    assert dm.names() == []
    ok(*command, "--force")
    lab.adopt_mapped("one")


def lvm_label():
    """Write the sector that makes a disk a physical volume."""
    rest = (32).to_bytes(4, "little") + b"LVM2 001" + b"0123456789abcdef" * 2
    rest = rest.ljust(SECTOR - 20, b"\0")
    crc = ~zlib.crc32(rest, ~0xf597a6cf & 0xffffffff) & 0xffffffff
    return b"LABELONE" + (1).to_bytes(8, "little") + crc.to_bytes(4, "little") + rest


def test_origin_of_lvm(lab):
    """It is found by its label, although no device was assembled."""
    origin, ramdisk = lab.ramdisk(16 * MIB), lab.ramdisk(4 * MIB)
    command = ("map", "--cache", ramdisk.path, "--origin", origin.path, "--name", "one")
    direct.write(origin.path, 0, (bytes(SECTOR) + lvm_label()).ljust(BLOCK, b"\0"))
    kind = run("blkid", "-p", "-o", "value", "-s", "TYPE", origin.path, check=False)
    assert kind.stdout.strip() == "LVM2_member"
    refused(DEVICE, *command, names=(origin.path, "member", "LVM2_member", "--force"))
    assert dm.names() == []
    # A file system is allowed, because caches are for file systems.
    origin.clear()
    run("mkfs.ext4", "-q", origin.path)
    ok(*command)
    lab.adopt_mapped("one")
