# SPDX-License-Identifier: GPL-2.0-only
"""Hot lists: save and load what is cached; and the latency of I/O."""

import json
import os
import subprocess
import threading
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK

PARAMETERS, DEVICE = 1, 4
HEADING = "rxcache-hotlist 1\n"


def ok(*args):
    result = rxadm(*args)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(code, *args, names, **options):
    result = rxadm(*args, **options)
    assert result.returncode == code and result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("rxadm: ")
    for name in names:
        assert name in lines[0]


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


@pytest.fixture
def path(lab):
    """The path of a list."""
    directory = lab.directory()
    yield os.path.join(directory, "list")
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))


def test_save_and_warm(lab, path):
    """A new cache has the same blocks as the old one, after one pass over the disk."""
    data = stamp(0, 16 * MIB)
    direct.write(DISK, 0, data)
    cache = lab.cache(16 * MIB)
    places = [0, 5 * MIB, 5 * MIB + 64 * KIB, 11 * MIB, 16 * MIB - 8 * KIB]
    for place in reversed(places):
        direct.read(cache.path, place, 8 * KIB)
    assert ok("hotlist", "save", cache.name, path) == ""
    assert read(path) == HEADING + "".join(f"{place // SECTOR} 16\n" for place in places)
    assert os.listdir(os.path.dirname(path)) == ["list"]
    assert os.stat(path).st_mode & 0o7777 == 0o600

    cache.drop()
    dm.message(cache.name, "reset_stats")
    assert ok("warm", cache.name, path) == ""
    status = cache.status()
    assert status.used == 10 == status.fills
    for place in places:
        assert direct.read(cache.path, place, 8 * KIB) == data[place:place + 8 * KIB]
    assert cache.status().read_hits == 10 and cache.status().read_misses == 0


def test_save_many(lab, path):
    """More blocks than fit into one answer of the kernel."""
    cache = lab.cache(64 * MIB, cache_size=64 * MIB)
    with Direct(cache.path, os.O_RDONLY) as device:
        for offset in range(0, 64 * MIB, MIB):
            device.read(offset, 512 * KIB)
    used = cache.status().used
    assert used == 8192
    ok("hotlist", "save", f"/dev/mapper/{cache.name}", path)
    assert read(path) == HEADING + "".join(f"{start} 1024\n" for start in range(0, 131072, 2048))
    cache.drop()
    ok("warm", cache.name, path)
    assert cache.status().used == used


def test_warm_tells_of_blocks_in_use(lab, path):
    """Blocks that are written all the time are not cached, and the output says so."""
    with open(path, "w", encoding="ascii") as file:
        file.write(HEADING + "0 2048\n")
    with lab.held(16 * MIB, writes=True) as origin:
        cache = lab.cache(16 * MIB, origin=origin.path, features=["writearound"])
        writer = threading.Thread(target=direct.write, args=(cache.path, 64 * KIB, stamp(1)))
        writer.start()
        origin.wait_for(1)
        result = rxadm("warm", cache.name, path)
        origin.release()
        writer.join()
    assert result.returncode == 0 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and f"'{cache.name}'" in result.stderr
    assert result.stderr.endswith("1 blocks were in use and are not cached\n")
    assert cache.status().used == 255


def test_warm_with_another_block_size(lab, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(HEADING + "2040 16\n8 8\n")
    cache = lab.cache(16 * MIB, block_size=64 * KIB)
    ok("warm", cache.name, path)
    assert cache.status().used == 3


def test_warm_in_the_background(lab, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(HEADING + "0 32768\n")
    with lab.held(16 * MIB, reads=True) as origin:
        cache = lab.cache(16 * MIB, cache_size=32 * MIB, origin=origin.path)
        done = subprocess.run([program("rxadm"), "warm", cache.name, path, "--background"],
                              env=ENVIRONMENT, capture_output=True, timeout=60, check=True)
        assert not done.stdout + done.stderr
        origin.wait_for(1)
        assert cache.status().used < 4096
    end = time.monotonic() + 60
    while cache.status().used < 4096 and time.monotonic() < end:
        time.sleep(0.1)
    assert cache.status().used == 4096
    # The answer to its last message may be late.
    while run("pgrep", "-x", "rxadm", check=False).stdout and time.monotonic() < end:
        time.sleep(0.1)


def test_save_to_what_is_no_file(cache, path):
    folder = os.path.dirname(path)
    refused(PARAMETERS, "hotlist", "save", cache.name, folder, names=(f"'{folder}'", "directory"))
    refused(PARAMETERS, "hotlist", "save", cache.name, "/dev/null",
            names=("'/dev/null'", "regular file"))
    refused(DEVICE, "hotlist", "save", cache.name, path + "/x", names=(f"'{path}/x'",))
    assert os.listdir(folder) == []


@pytest.mark.one_kernel
def test_warm_from_what_is_no_file(cache, path):
    """A pipe, which another user may have put there, does not delay it."""
    folder = os.path.dirname(path)
    os.mkfifo(path)
    for name in folder, path, "/dev/null":
        for more in (), ("--background",):
            refused(PARAMETERS, "warm", cache.name, name, *more, timeout=60,
                    names=(f"'{name}'", "not a regular file"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("text, words", [
    ("", ("is empty",)),
    ("0 8\n", ("line 1", "'0 8'")),
    (HEADING + "0 8\n8 x\n", ("line 3", "'8 x'")),
    (HEADING + "0 8\n32768 8\n", ("line 3", "'32768 8'", "beyond")),
    (HEADING + "0 0\n", ("line 2", "greater than 0")),
])
def test_bad_list(cache, path, text, words):
    """A bad list is refused as a whole: no block is loaded."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    for more in (), ("--background",):
        refused(PARAMETERS, "warm", cache.name, path, *more,
                names=(f"'{path}'", *words))
    assert cache.status().used == 0


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    ((), "save NAME FILE"),
    (("save", "x"), "save NAME FILE"),
    (("store", "x", "y"), "'store'"),
    (("load", "x", "y"), "'load'"),
    (("save", "x", "y", "z"), "'z'"),
    (("save", "a/b", "y"), "'a/b'"),
    (("save", "x", "y", "--background"), "--background"),
], ids=str)
def test_bad_save_arguments(arguments, words):
    refused(PARAMETERS, "hotlist", *arguments, names=(words,))


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    ((), "NAME FILE"),
    (("x",), "NAME FILE"),
    (("x", "y", "z"), "'z'"),
    (("a/b", "y"), "'a/b'"),
    (("x", "y", "--foreground"), "--foreground"),
], ids=str)
def test_bad_warm_arguments(arguments, words):
    refused(PARAMETERS, "warm", *arguments, names=(words,))


def test_kernel_says_why(cache, path):
    """A reason that is only in the kernel log becomes a part of the one line."""
    with open(path, "w", encoding="ascii") as file:
        file.write(HEADING + "0 8\n")
    ok("mode", cache.name, "passthrough")
    refused(PARAMETERS, "warm", cache.name, path,
            names=(f"'{cache.name}'", "nothing is cached in mode passthrough"))


def test_no_such_cache_or_file(lab, path):
    refused(DEVICE, "hotlist", "save", "nothing", path, names=("'nothing'",))
    refused(DEVICE, "warm", "nothing", path, names=("'nothing'",))
    assert not os.path.exists(path)
    cache = lab.cache(MIB)
    refused(DEVICE, "warm", cache.name, path, names=(f"'{path}'",))


# Latency


def latencies(*args):
    return json.loads(ok("status", "--latency", *args, "--json"))["latencies"]


def test_latency(lab):
    """Hits are fast, misses are as slow as the disk, and each is counted once."""
    name = lab.mapped(f"0 8192 delay {DISK} 0 100 {DISK} 0 0")
    cache = lab.cache(4 * MIB, origin=f"/dev/mapper/{name}")
    assert latencies() == [] == latencies(cache.name)
    ok("set", cache.name, "--latency", "on")
    with Direct(cache.path, os.O_RDONLY) as device:
        for block in range(8):
            device.read(block * BLOCK, BLOCK)
        slow = latencies(cache.name)
        assert sum(line["count"] for line in slow) == 8
        assert min(line["from_ns"] for line in slow) >= 50_000_000
        for _ in range(4):
            for block in range(8):
                device.read(block * BLOCK, BLOCK)
    lines = latencies()
    assert sum(line["count"] for line in lines) == 40
    fast = sum(line["count"] for line in lines
               if line["upto_ns"] and line["upto_ns"] <= 50_000_000)
    assert fast >= 30
    assert sum(line["percent"] for line in lines) == pytest.approx(100, abs=0.5)
    assert all(line["name"] == cache.name for line in lines)
    ok("set", cache.name, "--latency", "on")
    assert latencies() == []
    ok("set", cache.name, "--latency", "off")
    direct.read(cache.path, 0, BLOCK)
    assert latencies() == []
    assert ok("status", "--latency", "-n") == ""


def test_latency_off(lab):
    """Asked for one cache, it says why there is nothing, and how to change that."""
    cache = lab.cache(4 * MIB)
    for switch in None, "on", "off":
        if switch:
            ok("set", cache.name, "--latency", switch)
        result = rxadm("status", "--latency", cache.name, "-n")
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr == ("" if switch == "on" else
                                 f"rxadm: status: note: latency of '{cache.name}' is not measured; "
                                 f"'rxadm set {cache.name} --latency on' measures it\n")
        result = rxadm("status", "--latency", "-n")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_latency_columns(lab):
    cache = lab.cache(4 * MIB)
    ok("set", cache.name, "--latency", "on")
    direct.read(cache.path, 0, BLOCK)
    line = ok("status", "--latency", cache.name, "-r", "-n", "-o", "NAME,COUNT").split()
    assert line == [cache.name, "1"]
    refused(PARAMETERS, "status", "--latency", "-o", "READ_HITS", names=("'READ_HITS'",))
    refused(PARAMETERS, "set", cache.name, "--latency", "maybe", names=("'maybe'",))
