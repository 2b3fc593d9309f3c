# SPDX-License-Identifier: GPL-2.0-only
"""The size of a cache: a limit below that of the RAM disk, which moves while it is in use."""

import errno
import json
import os
import random
import subprocess
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, run
from rxdlib.control import Control
from rxdlib.direct import BLOCK, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, LONG, prepare
from rxdlib.memory import shrink_all
from rxdlib.outcome import ok, refused

SIZE = 16 * MIB
PATIENCE = 60


def read_all(cache, size=SIZE):
    with Direct(cache.path) as device:
        return b"".join(device.read(offset, MIB) for offset in range(0, size, MIB))


def resize(cache, size):
    dm.message(cache.name, "size", size)


def used(cache):
    return cache.ramdisk.query().mem_used


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_table_and_status(lab):
    ramdisk = lab.ramdisk()
    name = lab.mapped(f"0 32768 rxcache {DISK} {ramdisk.path} 0 4 size 1048576 seq_cutoff 512")
    line = "4 seq_cutoff 512 size 1048576"
    assert dm.table(name).endswith(f" 3 writethrough block_size 8 {line}")
    assert " ".join(dm.Status(name).rest) == line
    table = dm.table(name)
    dm.replace(name, table)
    assert dm.table(name) == table
    dm.message(name, "size", 2 * MIB)
    assert dm.table(name).endswith(" 4 seq_cutoff 512 size 2097152")
    dm.message(name, "seq_cutoff", 0)
    assert dm.table(name).endswith(" block_size 8 2 size 2097152")
    dm.message(name, "size", 0)
    assert dm.table(name).endswith(" block_size 8 0")


def test_minimum_in_table_and_status(lab):
    """What is lent is in the status only: the table can be loaded again."""
    ramdisk = lab.ramdisk(SIZE)
    name = lab.mapped(f"0 32768 rxcache {DISK} {ramdisk.path} 0 2 min_size 1048576")
    table = dm.table(name)
    assert table.endswith(" 3 writethrough block_size 8 2 min_size 1048576")
    # The limit follows what is used a moment later.
    wait_for(lambda: direct.read(f"/dev/mapper/{name}", 0, SIZE) and
             ramdisk.query().mem_used > 4 * MIB)
    assert dm.table(name) == table
    lent = ramdisk.query().mem_used // BLOCK - MIB // BLOCK
    rest = dm.Status(name).rest
    assert rest[:7] == ["8", "min_size", "1048576", "lent", str(lent), "given_back", "0"]
    assert rest[7] == "taken" and 0 < int(rest[8]) <= lent
    dm.replace(name, table)
    assert dm.table(name) == table
    assert dm.Status(name).rest == rest
    dm.message(name, "min_size", SIZE)
    assert dm.Status(name).rest[3:5] == ["lent", "0"]
    dm.message(name, "min_size", 2 * MIB)
    assert dm.Status(name).rest[3:5] == ["lent", str(lent - MIB // BLOCK)]
    dm.message(name, "size", 4 * MIB)
    result = dm.message(name, "size", MIB, check=False)
    assert result.returncode and "Invalid argument" in result.stderr
    result = dm.message(name, "min_size", 8 * MIB, check=False)
    assert result.returncode and "Invalid argument" in result.stderr
    dm.message(name, "min_size", 0)
    assert dm.table(name).endswith(" block_size 8 2 size 4194304")
    assert dm.Status(name).rest == ["2", "size", "4194304"]


def test_drop_caches_takes_what_is_lent(lab):
    """All shrinkers are called, in a task of the machine's own kernel."""
    data = prepare(SIZE)
    ramdisk = lab.ramdisk(SIZE)
    name = lab.mapped(f"0 32768 rxcache {DISK} {ramdisk.path} 0 2 min_size 4194304")

    def is_filled():
        assert direct.read(f"/dev/mapper/{name}", 0, SIZE) == data
        return ramdisk.query().mem_used > 8 * MIB

    # The limit follows what is used, so the first requests find room for a part only.
    wait_for(is_filled)
    wait_for(lambda: shrink_all() and ramdisk.query().mem_used <= 5 * MIB)
    assert ramdisk.query().mem_used >= 4 * MIB
    assert int(dm.Status(name).rest[6]) > 0
    assert direct.read(f"/dev/mapper/{name}", 0, SIZE) == data


def reclaimable():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if "KReclaimable" in line)


def test_nothing_is_lent_after_a_failed_resume(lab):
    """What no cache gives back any more does not count as memory that can be reclaimed."""
    size = 192 * MIB
    run("modprobe", "dm-zero", check=False)
    origin = lab.mapped(f"0 {size // SECTOR} zero")
    ramdisk = lab.ramdisk(size, overcommit=True)
    disks = f"0 {size // SECTOR} rxcache /dev/mapper/{origin} {ramdisk.path}"
    name = lab.mapped(f"{disks} 0 2 min_size {8 * MIB}")

    def read():
        with Direct(f"/dev/mapper/{name}") as device:
            return all(device.read(offset, MIB) for offset in range(0, size, MIB))

    # However fast the reads are: the limit follows what is used a moment later.
    wait_for(lambda: read() and ramdisk.query().mem_used > size // 2 + 8 * MIB)
    lent = ramdisk.query().mem_used - 8 * MIB
    before = reclaimable()
    run("dmsetup", "suspend", name)
    run("dmsetup", "load", name,
        stdin=f"{disks} 5 block_size 128 if_same 1 0 2 min_size {8 * MIB}\n")
    result = run("dmsetup", "resume", name, check=False)
    assert result.returncode and os.strerror(errno.ESTALE) in result.stderr, result
    assert ramdisk.query().mem_used == lent + 8 * MIB
    assert reclaimable() < before - lent // 2
    # The next table takes the RAM disk, and is lent memory again.
    run("dmsetup", "load", name, stdin=f"{disks} 0 2 min_size {8 * MIB}\n")
    run("dmsetup", "resume", name)
    assert ramdisk.query().mem_used == 0
    before = reclaimable()
    wait_for(lambda: read() and reclaimable() > before + lent // 2)
    # What was taken last counts, too.
    words = dm.Status(name).rest[1:]
    values = dict(zip(words[::2], map(int, words[1::2])))
    assert values["lent"] == values["taken"] - values["given_back"]


def test_table_limits_the_cache(lab):
    data = prepare(SIZE)
    ramdisk = lab.ramdisk(SIZE)
    name = lab.mapped(f"0 32768 rxcache {DISK} {ramdisk.path} 0 2 size 4194304")
    for _ in range(2):
        assert direct.read(f"/dev/mapper/{name}", 0, SIZE) == data
        assert ramdisk.query().mem_used == 4 * MIB
    assert dm.Status(name).total == SIZE // BLOCK
    assert dm.Status(name).used == 4 * MIB // BLOCK


def test_smaller_and_larger(lab):
    """Only what no longer fits goes, and its memory is free; then the cache fills again."""
    data = prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE)
    assert read_all(cache) == data
    assert used(cache) == SIZE
    before = cache.status()
    resize(cache, 4 * MIB)
    wait_for(lambda: used(cache) == 4 * MIB)
    assert cache.status().since(before) == {"evictions": 12 * MIB // BLOCK}
    assert cache.status().used == 4 * MIB // BLOCK
    # The rest is still there, and serves reads.
    blocks, slot = [], 0
    while True:
        *found, slot = map(int, dm.message(cache.name, "cached", slot).stdout.split())
        blocks += found
        if not slot:
            break
    assert len(blocks) == 4 * MIB // BLOCK
    before = cache.status()
    with Direct(cache.path) as device:
        for block in blocks:
            assert device.read(block * BLOCK, BLOCK) == data[block * BLOCK:(block + 1) * BLOCK]
    assert cache.status().since(before) == {"read_hits": len(blocks)}
    resize(cache, 0)
    assert read_all(cache) == data
    assert read_all(cache) == data
    assert used(cache) == SIZE


def test_no_suspension(lab):
    """A resize neither suspends the device nor waits for I/O in flight."""
    with lab.held(SIZE, reads=True) as origin:
        cache = lab.cache(SIZE, cache_size=SIZE, origin=origin.path)
        reader = subprocess.Popen(["dd", f"if={cache.path}", "of=/dev/null", "bs=64k", "count=1",
                                   "iflag=direct"], stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        origin.wait_for(1)
        for size in (MIB, 8 * MIB, 2 * MIB, 0):
            run("dmsetup", "message", cache.name, "0", "size", size, timeout=60)
        assert reader.poll() is None
        origin.release()
        assert reader.wait(60) == 0


def test_hot_blocks_stay(lab):
    """What is used often stays in the cache, when its size falls and then beside a scan."""
    prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE)
    hot = range(0, 2 * MIB, BLOCK)
    with Direct(cache.path) as device:
        for _ in range(4):
            for offset in hot:
                device.read(offset, BLOCK)
        for offset in range(2 * MIB, SIZE, MIB):
            device.read(offset, MIB)
        for scan in range(2):
            resize(cache, (8 - 4 * scan) * MIB)
            wait_for(lambda size=(8 - 4 * scan) * MIB: used(cache) == size)
            before = cache.status()
            for offset in hot:
                device.read(offset, BLOCK)
            assert cache.status().since(before).get("read_hits", 0) >= len(hot) * 0.95
            for offset in range(4 * MIB, SIZE, 16 * BLOCK):
                device.read(offset, 16 * BLOCK)
            before = cache.status()
            for offset in hot:
                device.read(offset, BLOCK)
            assert cache.status().since(before).get("read_hits", 0) >= len(hot) * 0.95


def test_suspended(lab):
    """A message to a suspended cache takes effect when it is resumed."""
    data = prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE)
    read_all(cache)
    run("dmsetup", "suspend", cache.name)
    resize(cache, 4 * MIB)
    time.sleep(0.5)
    assert used(cache) == SIZE
    run("dmsetup", "resume", cache.name)
    wait_for(lambda: used(cache) == 4 * MIB)
    assert read_all(cache) == data


def test_next_table(lab):
    """A reload with the table as printed keeps the size; a table without one ends the limit."""
    data = prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE)
    read_all(cache)
    resize(cache, 4 * MIB)
    dm.replace(cache.name, dm.table(cache.name))
    wait_for(lambda: used(cache) == 4 * MIB)
    before = cache.status()
    dm.replace(cache.name, dm.table(cache.name).replace(" 2 size 4194304", " 0"))
    assert not cache.status().since(before) and cache.status().used == 4 * MIB // BLOCK
    for _ in range(2):
        assert read_all(cache) == data
    assert used(cache) == SIZE


def test_ramdisk_afterwards(lab):
    """The limit goes with the cache: the RAM disk is as large as before."""
    cache = lab.cache(SIZE, cache_size=SIZE)
    resize(cache, MIB)
    dm.remove(cache.name)
    direct.write(cache.ramdisk.path, 0, stamp(1, SIZE))
    assert used(cache) == SIZE


def test_beside_mem_limit(lab):
    """The lower one of the two limits counts, and neither changes the other."""
    prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE)
    cache.ramdisk.set_attribute("mem_limit", 4 * MIB)
    resize(cache, 8 * MIB)
    read_all(cache)
    assert used(cache) == 4 * MIB
    cache.ramdisk.set_attribute("mem_limit", 0)
    read_all(cache)
    assert used(cache) == 8 * MIB
    assert cache.ramdisk.query().mem_limit == 0


def test_large_blocks(lab):
    data = prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE, block_size=64 * 1024)
    read_all(cache)
    resize(cache, MIB)
    wait_for(lambda: used(cache) == MIB)
    for _ in range(2):
        assert read_all(cache) == data
        assert used(cache) == MIB


def zeros(lab, size):
    """A cache over an origin that reads as zeros at once, filled up to its limit."""
    run("modprobe", "dm-zero", check=False)
    name = lab.mapped(f"0 {size // SECTOR} zero")
    cache = lab.cache(size, cache_size=size, origin=f"/dev/mapper/{name}")
    read_all(cache, size)
    assert used(cache) > size // 2
    return cache


def cut(cache, size, least, how):
    """Do @how while blocks are evicted; returns the memory that was left at that time."""
    for _ in range(10):
        resize(cache, least)
        how()
        left = used(cache)
        if left > least:
            time.sleep(0.5)
            # The eviction of one block may have been under way.
            assert left - BLOCK <= used(cache) <= left
            return left
        run("dmsetup", "resume", cache.name)
        resize(cache, 0)
        read_all(cache, size)
    raise AssertionError("all blocks were evicted before")


@pytest.mark.long
@pytest.mark.one_kernel
def test_cut_passes(lab):
    """A suspension, a larger size, a reload and a removal each come while blocks are evicted."""
    size, least = 384 * MIB, 12 * MIB
    cache = zeros(lab, size)
    first = cut(cache, size, least, lambda: run("dmsetup", "suspend", cache.name))
    run("dmsetup", "resume", cache.name)
    assert used(cache) <= first
    resize(cache, 0)
    read_all(cache, size)
    cut(cache, size, least, lambda: resize(cache, 0))
    resize(cache, least)
    dm.replace(cache.name, dm.table(cache.name))
    wait_for(lambda: used(cache) == least)
    assert cache.status().used == least // BLOCK
    resize(cache, 0)
    read_all(cache, size)
    resize(cache, least)
    dm.remove(cache.name)
    assert used(cache) == 0


def test_blocks_left_over(lab):
    """The size of the RAM disk is no limit, even if its sets do not use the last block."""
    cache = lab.cache(SIZE, cache_size=65 * BLOCK)
    assert cache.status().total == 64
    for size in (64 * BLOCK, 65 * BLOCK):
        resize(cache, size)
        assert dm.table(cache.name).endswith(" 0")


def test_grown_ramdisk(lab):
    """The table shows the size that applies, and can be loaded again."""
    cache = lab.cache(SIZE, cache_size=MIB)
    resize(cache, 64 * 1024)
    old = dm.table(cache.name)
    with Control() as control:
        control.resize(cache.ramdisk.index, 16 * MIB)
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)
    assert dm.table(cache.name).endswith(" 2 size 524288")
    dm.replace(cache.name, dm.table(cache.name))
    dm.replace(cache.name, old)
    assert dm.table(cache.name).endswith(" 2 size 524288")
    read_all(cache)
    assert used(cache) == 512 * 1024


def test_whole_size_grows(lab):
    """A size that is that of the whole RAM disk is no limit when the RAM disk grows later."""
    cache = lab.cache(SIZE, cache_size=MIB)
    resize(cache, MIB)
    with Control() as control:
        control.resize(cache.ramdisk.index, 2 * MIB)
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)
    read_all(cache)
    assert used(cache) == 2 * MIB


@pytest.mark.parametrize("pattern", ["randwrite", "randrw"])
def test_under_fio(lab, pattern):
    """fio writes with checksums and reads them back while the size changes all the time."""
    rounds = 1000 if LONG else 60
    cache = lab.cache(SIZE, cache_size=8 * MIB)
    command = ["fio", "--name=io", f"--filename={cache.path}", "--ioengine=libaio",
               "--direct=1", "--iodepth=8", f"--rw={pattern}", "--bsrange=4k-64k",
               "--bs_unaligned=0", f"--size={SIZE}", "--verify=crc32c", "--verify_fatal=1",
               "--verify_backlog=256", "--randseed=1", "--time_based", "--runtime=3600"]
    chance = random.Random(pattern)
    largest, last = 0, 8 * MIB
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as fio:
        # The first of the sizes leaves all of this.
        wait_for(lambda: used(cache) > 2 * MIB)
        for _ in range(rounds):
            size = chance.choice([0, *range(MIB, 8 * MIB, 256 * 1024)])
            before = used(cache)
            is_settled = before <= last
            last = size or 8 * MIB
            resize(cache, size)
            time.sleep(chance.choice([0, 0.02, 0.1]))
            # What fits stays, but for the I/O in flight.
            assert not is_settled or used(cache) >= min(before, last) - MIB // 2
            largest = max(largest, used(cache))
            assert fio.poll() is None, fio.stdout.read()
        resize(cache, MIB)
        wait_for(lambda: used(cache) <= MIB)
        fio.terminate()
        output, _ = fio.communicate(timeout=PATIENCE)
        # Told to end, fio still reports the errors that it found.
        assert " err= 0" in output and "verify:" not in output, output
    assert largest > MIB
    assert cache.status().origin_errors == 0
    for offset in range(0, SIZE, MIB):
        assert direct.read(cache.path, offset, MIB) == direct.read(DISK, offset, MIB)


# rxadm


def status_of(name):
    return json.loads(ok("status", name, "--json"))["caches"][0]


def test_rxadm(lab):
    prepare(SIZE)
    cache = lab.cache(SIZE, cache_size=SIZE)
    read_all(cache)
    assert status_of(cache.name)["limit"] is None
    assert ok("resize", cache.name, "4M", "--dry-run") == \
        f"dmsetup message {cache.name} 0 size 4194304\n"
    assert used(cache) == SIZE
    assert ok("resize", cache.name, "4M") == ""
    wait_for(lambda: used(cache) == 4 * MIB)
    assert status_of(cache.name)["limit"] == 4 * MIB
    info = json.loads(ok("info", cache.name, "--json"))["info"][0]
    assert (info["limit"], info["size"]) == (4 * MIB, SIZE)
    assert f'rxcache_memory_limit_bytes{{name="{cache.name}"}} {4 * MIB}\n' in ok("metrics")
    ok("resize", cache.path, "+2M")
    assert status_of(cache.name)["limit"] == 6 * MIB
    ok("resize", cache.name, "--", "-1M")
    assert status_of(cache.name)["limit"] == 5 * MIB
    # The size of the RAM disk is no limit.
    for size in "16M", "none":
        ok("resize", cache.name, "4M")
        ok("resize", cache.name, size)
        assert status_of(cache.name)["limit"] is None
        assert dm.table(cache.name).endswith(" 0")
    assert ok("resize", cache.name, "none", "--dry-run") == \
        f"dmsetup message {cache.name} 0 size 0\n"
    refused(1, "resize", cache.ramdisk.name, "none", names=("'none'", "for caches", "rxadm limit"))


def test_rxadm_rounds_to_blocks(lab):
    cache = lab.cache(SIZE, cache_size=SIZE, block_size=64 * 1024)
    ok("resize", cache.name, "1100K")
    assert status_of(cache.name)["limit"] == 1088 * 1024


def test_rxadm_blocks_left_over(lab):
    cache = lab.cache(SIZE, cache_size=65 * BLOCK)
    ok("resize", cache.name, "128K")
    ok("resize", cache.name, "260K")
    assert status_of(cache.name)["limit"] is None
    ok("resize", cache.name, "264K")
    assert (cache.status().total, cache.ramdisk.query().size) == (66, 66 * BLOCK)


BAD = [
    (("4K",), "its limit cannot be 4K; must be from 512K to "),
    (("508K",), "must be from 512K to "),
    (("1T",), "its limit cannot be 1T"),
    (("+1T",), "the memory of the machine"),
    (("--", "-16M"), "-16M"),
    (("x",), "'x'"),
    (("0",), "'0'"),
    (("+none",), "'+none'"),
    (("none", "--force"), "--force and --overcommit are for RAM disks"),
    (("4M", "--force"), "--force and --overcommit are for RAM disks"),
    (("4M", "--overcommit"), "--force and --overcommit are for RAM disks"),
]


@pytest.mark.one_kernel
@pytest.mark.parametrize("words, part", BAD, ids=[" ".join(case[0]) for case in BAD])
def test_rxadm_bad(cache, words, part):
    refused(1, "resize", cache.name, *words, names=part)


@pytest.mark.one_kernel
def test_rxadm_other_mapping(lab):
    """A mapping that is no cache, and one that does not exist."""
    name, path = lab.linear(4 * MIB)
    refused(4, "resize", name, "1M", names=(name, "is not a cache"))
    refused(4, "resize", path, "1M", names=(name, "is not a cache"))
    refused(4, "resize", "/dev/mapper/none", "1M", names=("none", "does not exist"))


@pytest.mark.one_kernel
def test_rxadm_ramdisk_that_was_named(lab):
    """The name of a RAM disk comes before a mapping of the same name."""
    ramdisk = lab.ramdisk(4 * MIB)
    ok("set", ramdisk.path, "--name", "scratch")
    lab.mapped(f"0 8192 linear {DISK} 0", name="scratch")
    ok("resize", "scratch", "8M")
    with Control() as control:
        assert control.query(ramdisk.index).size == 8 * MIB


@pytest.mark.one_kernel
def test_rxadm_cache_that_is_named_likewise(lab):
    """Info and resize choose the same one of a RAM disk and a cache with one name."""
    cache, ramdisk = lab.cache(SIZE, cache_size=SIZE), lab.ramdisk(4 * MIB)
    ok("set", ramdisk.path, "--name", cache.name)
    ok("resize", cache.name, "8M")
    found = json.loads(ok("info", cache.name, cache.path, "--json"))["info"]
    assert [one["kind"] for one in found] == ["ramdisk", "cache"]
    assert (found[0]["size"], found[1]["limit"]) == (8 * MIB, None)


@pytest.mark.one_kernel
def test_rxadm_ramdisk_of_that_name(lab):
    """A device in /dev comes before a mapping of the same name."""
    ramdisk = lab.ramdisk(4 * MIB)
    lab.mapped(f"0 8192 linear {DISK} 0", name=ramdisk.name)
    ok("resize", ramdisk.name, "8M")
    with Control() as control:
        assert control.query(ramdisk.index).size == 8 * MIB
    assert os.path.exists(f"/dev/mapper/{ramdisk.name}")
