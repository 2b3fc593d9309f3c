# SPDX-License-Identifier: GPL-2.0-only
"""A cache grows beyond its RAM disk, and keeps its blocks."""

import errno
import json
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.configuration import BUSY, Configuration
from rxdlib.direct import BLOCK, MIB, Direct, stamp
from rxdlib.elastic import values
from rxdlib.lab import DISK, LONG, Cache, RamDisk
from rxdlib.old_target import old_module
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long
from rxdlib.traced import wait_until_in

# The part of the blocks that stays.
STAY = 0.95
SIZE = 16 * MIB
PATIENCE = 60
DATA = stamp(0, SIZE)
RAM = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


@pytest.fixture(name="made", params=["4M", "2M..4M"], ids=["plain", "elastic"])
def made_cache(request):
    """A cache of 4M that 'map --size' has made over the scratch disk."""
    direct.write(DISK, 0, DATA)
    ok("map", "--origin", DISK, "--name", "made", "--size", request.param)
    yield adopt("made")
    rxadm("unmap", "made")


def adopt(name):
    minor = int(dm.table(name).split()[4].split(":")[1])
    for entry in os.listdir("/sys/block"):
        with open(f"/sys/block/{entry}/dev", encoding="ascii") as file:
            if entry.startswith("rxd") and int(file.read().split(":")[1]) == minor:
                return Cache(name, DISK, RamDisk(int(entry[3:])))
    raise AssertionError(name)


def make_cache(lab, **options):
    direct.write(DISK, 0, DATA)
    return lab.cache(SIZE, **options)


def warm(cache, size, seed=1):
    """Read as many blocks as fit, from all places; returns those that are cached."""
    blocks = random.Random(seed).sample(range(SIZE // BLOCK), size // BLOCK)
    with Direct(cache.path) as device:
        for block in blocks:
            at = block * BLOCK
            assert device.read(at, BLOCK) == DATA[at:at + BLOCK]
    return cached(cache)


def cached(cache):
    """The blocks in the cache."""
    found, slot = [], "0"
    while True:
        *blocks, slot = dm.message(cache.name, "cached", slot).stdout.split()
        found += map(int, blocks)
        if slot == "0":
            return set(found)


def expect_all_there(cache, blocks):
    """Most of the blocks are there, with their data, and the rest is in the counters."""
    after = cached(cache)
    assert after <= blocks and len(after) >= STAY * len(blocks), (len(after), len(blocks))
    status = cache.status()
    assert status.used == len(after)
    assert cache.ramdisk.query().mem_used == len(after) * BLOCK * status.block_size // 8
    with Direct(cache.path) as device:
        for block in sorted(after):
            at = block * BLOCK
            assert device.read(at, BLOCK) == DATA[at:at + BLOCK]
    hits = cache.status().since(status)
    assert hits == {"read_hits": len(after)}
    return after


def limits(cache):
    """Size and minimum in the table."""
    words = dm.table(cache.name).split(" 3 writethrough block_size 8 ")[1].split()
    policy = dict(zip(words[1::2], map(int, words[2::2])))
    return policy.get("size", 0), policy.get("min_size", 0)


def bytes_of(size):
    return int(size[:-1]) * (MIB if size.endswith("M") else 1024)


@pytest.mark.parametrize("size", ["4608K", *long(["6M", "8M", "12M"])])
def test_grows(made, size):
    blocks = warm(made, 4 * MIB)
    before = made.status()
    is_elastic = bool(limits(made)[1])
    assert ok("resize", made.name, f"2M..{size}" if is_elastic else size) == ""
    status = made.status()
    assert status.total == bytes_of(size) // BLOCK
    query = made.ramdisk.query()
    assert query.size == bytes_of(size)
    assert query.promised == (2 * MIB if is_elastic else query.size)
    assert ("elastic" in made.ramdisk.attribute("state")) == is_elastic
    assert limits(made) == (0, 2 * MIB if is_elastic else 0)
    lost = before.used - status.used
    assert status.since(before) == ({"evictions": lost} if lost else {})
    after = expect_all_there(made, blocks)
    if is_elastic:
        assert values(made)["lent"] == len(after) - 2 * MIB // BLOCK
    # The rest of the cache fills.
    warm(made, 4 * MIB, seed=2)
    assert made.status().used > len(after)
    direct.write(made.path, 0, stamp(5))
    assert direct.read(made.path, 0, BLOCK) == direct.read(DISK, 0, BLOCK) == stamp(5)


@pytest.mark.parametrize("made", ["2M..4M", *long(["4M"])], indirect=True)
def test_in_steps(made):
    """What a limit has left in the cache, and blocks that were written."""
    ok("resize", made.name, "2M..3M")
    blocks = warm(made, 4 * MIB)
    # An amount is added to the limit.
    ok("resize", made.name, "+2M")
    assert (limits(made), made.status().total) == ((0, 2 * MIB), 5 * MIB // BLOCK)
    blocks = expect_all_there(made, blocks)
    direct.write(made.path, 0, stamp(0, MIB))
    blocks = cached(made)
    ok("resize", made.name, "1M..8M")
    assert (limits(made), made.status().total) == ((0, MIB), 8 * MIB // BLOCK)
    blocks = expect_all_there(made, blocks)
    ok("resize", made.name, "1M..4M")
    assert limits(made) == (4 * MIB, MIB)


@pytest.mark.parametrize("block_size", [16 * 1024, 256 * 1024])
def test_large_blocks(lab, block_size):
    """A RAM disk that was there before grows, too."""
    cache = make_cache(lab, cache_size=8 * MIB, block_size=block_size)
    assert direct.read(cache.path, 0, 8 * MIB) == DATA[:8 * MIB]
    used = cache.status().used
    ok("resize", cache.name, "12M")
    status = cache.status()
    assert status.total == 12 * MIB // block_size and status.used >= STAY * used
    assert direct.read(cache.path, 0, 8 * MIB) == DATA[:8 * MIB]
    assert direct.read(cache.path, 8 * MIB, 8 * MIB) == DATA[8 * MIB:]
    cache.drop()
    assert cache.ramdisk.query().mem_used == 0


def test_dry_run(made):
    before = dm.table(made.name)
    lines = ok("resize", made.name, "1M..8M", "--dry-run").splitlines()
    assert len(lines) == 3
    assert "RXD_RESIZE" in lines[0] and "flags=0," in lines[0] and "size=8388608" in lines[0]
    assert lines[1].startswith(f"dmsetup load {made.name} --table '0 ")
    assert lines[1].endswith(" 2 min_size 1048576'")
    assert lines[2] == f"dmsetup resume --nolockfs {made.name}"
    assert made.ramdisk.query().size == 4 * MIB and dm.table(made.name) == before


def test_settings_stay(made):
    """The new table has what messages have changed."""
    ok("set", made.name, "--seq-cutoff", "1M", "--advise", "on")
    ok("mode", made.name, "writearound")
    ok("resize", made.name, "8M")
    table = dm.table(made.name)
    assert " writearound " in table and " seq_cutoff 1048576 " in table
    assert table.endswith(" advise 1")


@pytest.mark.parametrize("reload", [False, True], ids=["resume", "reload"])
def test_resumed(lab, reload):
    """Whoever grows the RAM disk and resumes the device gets the same."""
    cache = make_cache(lab, cache_size=4 * MIB)
    blocks = warm(cache, 4 * MIB)
    result = rxadm("resize", cache.ramdisk.name, "8M")
    assert result.returncode == 0 and cache.name in result.stderr
    assert cached(cache) == blocks and cache.status().total == 4 * MIB // BLOCK
    if reload:
        dm.replace(cache.name, dm.table(cache.name))
    else:
        run("dmsetup", "suspend", cache.name)
        run("dmsetup", "resume", cache.name)
    assert cache.status().total == 8 * MIB // BLOCK
    expect_all_there(cache, blocks)


def test_grown_between_load_and_resume(lab):
    """The table has an index for the old size when it takes over the blocks."""
    cache = make_cache(lab, cache_size=4 * MIB)
    blocks = warm(cache, 4 * MIB)
    cache.ramdisk.resize(6 * MIB)
    run("dmsetup", "load", cache.name, stdin=dm.table(cache.name) + "\n")
    cache.ramdisk.resize(8 * MIB)
    run("dmsetup", "resume", cache.name)
    assert cache.status().total == 8 * MIB // BLOCK
    expect_all_there(cache, blocks)


def test_shorter_table(lab):
    """Blocks beyond the end of the new table leave the cache."""
    cache = make_cache(lab, cache_size=4 * MIB)
    blocks = warm(cache, 4 * MIB)
    cache.ramdisk.resize(8 * MIB)
    sectors = SIZE // 512
    dm.replace(cache.name, dm.table(cache.name).replace(f"0 {sectors} ", f"0 {sectors // 2} ", 1))
    left = {block for block in blocks if block < SIZE // BLOCK // 2}
    after = cached(cache)
    assert after <= left and len(after) >= STAY * len(left)


def test_use_of_what_is_there(lab):
    """A RAM disk that has grown already is used as far as the limit says."""
    cache = make_cache(lab, cache_size=4 * MIB)
    blocks = warm(cache, 4 * MIB)
    cache.ramdisk.resize(8 * MIB)
    assert len(ok("resize", cache.name, "6M", "--dry-run").splitlines()) == 2
    ok("resize", cache.name, "6M")
    assert limits(cache) == (6 * MIB, 0) and cache.status().total == 8 * MIB // BLOCK
    blocks = expect_all_there(cache, blocks)
    ok("resize", cache.name, "none")
    cache.ramdisk.resize(12 * MIB)
    ok("resize", cache.name, "none")
    assert limits(cache) == (0, 0) and cache.status().total == 12 * MIB // BLOCK
    expect_all_there(cache, blocks)
    # Less than a 64th more: 49 sets of 63 blocks in place of 48 of 64.
    cache.ramdisk.resize(12 * MIB + 48 * BLOCK)
    ok("resize", cache.name, "none")
    assert cache.status().total == 49 * 63


@pytest.mark.one_kernel
def test_bad(made):
    refused(1, "resize", made.name, str(RAM * 2), names="the memory of the machine")
    refused(4, "resize", made.name, "8M", runner=old_module, names="older than version 1.3.0")
    made.ramdisk.resize(256 * MIB)
    refused(1, "resize", made.name, "6M", names="must be from 8M to ")
    assert made.status().total == 4 * MIB // BLOCK


@pytest.mark.one_kernel
def test_refused_table(lab):
    """The cache goes on as it was, and the next try succeeds."""
    _, origin = lab.linear(SIZE)
    cache = make_cache(lab, cache_size=4 * MIB, origin=origin)
    blocks = warm(cache, 4 * MIB)
    before = dm.table(cache.name)
    other, _ = lab.linear(SIZE, device=origin)
    result = rxadm("resize", cache.name, "8M")
    assert result.returncode == BUSY, result
    assert "in use by another mapping" in result.stderr
    assert f"note: cache '{cache.name}': its RAM disk keeps its new size, 8M" in result.stderr
    assert dm.table(cache.name) == before and cached(cache) == blocks
    dm.remove(other)
    ok("resize", cache.name, "none")
    assert cache.status().total == 8 * MIB // BLOCK
    expect_all_there(cache, blocks)


@pytest.mark.one_kernel
def test_suspended(lab):
    """The RAM disk does not grow either."""
    cache = make_cache(lab, cache_size=4 * MIB)
    run("dmsetup", "suspend", cache.name)
    refused(BUSY, "resize", cache.name, "8M",
            names=(cache.name, "is suspended", "dmsetup resume"))
    run("dmsetup", "resume", cache.name)
    assert cache.ramdisk.query().size == 4 * MIB


@pytest.mark.parametrize("made", ["2M..4M"], indirect=True)
def test_killed(made):
    """As if rxadm had been killed when it had loaded the table: the cache goes on as before."""
    blocks = warm(made, 4 * MIB)
    table = dm.table(made.name)
    made.ramdisk.resize(8 * MIB)
    larger = table.replace(f"min_size {2 * MIB}", f"min_size {3 * MIB}")
    run("dmsetup", "load", made.name, stdin=larger + "\n")
    assert made.ramdisk.query().promised == 3 * MIB
    assert expect_all_there(made, blocks) == blocks and dm.table(made.name) == table
    refused(BUSY, "resize", made.name, "2M..12M",
            names=(made.name, "another table", "dmsetup clear"))
    assert made.ramdisk.query().size == 8 * MIB
    run("dmsetup", "clear", made.name)
    assert made.ramdisk.query().promised == 2 * MIB and cached(made) == blocks
    ok("resize", made.name, "2M..12M")
    assert made.status().total == 12 * MIB // BLOCK
    expect_all_there(made, blocks)


def start(*args):
    # pylint: disable-next=consider-using-with
    return subprocess.Popen([program("rxadm"), *args], env=ENVIRONMENT, stderr=subprocess.PIPE,
                            text=True)


def test_settings_meanwhile(lab):
    """What is set while the table is replaced is not undone."""
    with lab.held(SIZE, reads=True) as origin:
        cache = lab.cache(SIZE, cache_size=4 * MIB, origin=origin.path)
        reader = threading.Thread(target=direct.read, args=(cache.path, 0, BLOCK))
        reader.start()
        origin.wait_for(1)
        processes = [start("resize", cache.name, "8M")]
        # It swaps the tables, for which the kernel waits until no I/O is in flight.
        wait_until_in(processes[0], "dm_wait")
        processes += [start("mode", cache.name, "writearound"),
                      start("set", cache.name, "--seq-cutoff", "1M"),
                      start("resize", cache.name, "6M")]
        for process in processes[1:]:
            assert "waiting for process" in process.stderr.readline()
    reader.join()
    for process in processes:
        _output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
    assert cache.status().total == 8 * MIB // BLOCK
    assert dm.table(cache.name).split(maxsplit=6)[6] == (
        f"writearound block_size 8 4 seq_cutoff {MIB} size {6 * MIB}")


@pytest.mark.parametrize("made", ["2M..4M"], indirect=True)
def test_minimum_beyond_share(made, share):
    """It is refused before the RAM disk grows, also if a large RAM disk raises it to that."""
    blocks = warm(made, 4 * MIB)
    table = dm.table(made.name)
    for size in f"{share + 8}M..{share + 16}M", f"2M..{36 * share}M":
        refused(1, "resize", made.name, size, names=("is left", "remove another RAM disk"))
        query = made.ramdisk.query()
        assert (query.size, query.promised) == (4 * MIB, 2 * MIB)
        assert dm.table(made.name) == table and cached(made) == blocks
    ok("resize", made.name, f"{share}M..{share + 16}M")
    assert made.ramdisk.query().promised == share * MIB
    ok("resize", made.name, f"2M..{share + 20}M")
    assert made.ramdisk.query().promised == 2 * MIB
    expect_all_there(made, blocks)


@pytest.mark.parametrize("made", ["4M"], indirect=True)
def test_size_beyond_share(made, share):
    blocks = warm(made, 4 * MIB)
    table = dm.table(made.name)
    refused(1, "resize", made.name, f"{share + 8}M", names=("is left", "remove another RAM disk"))
    query = made.ramdisk.query()
    assert query.size == query.promised == 4 * MIB
    assert dm.table(made.name) == table and cached(made) == blocks


def test_read_only(lab):
    """The new table is as read-only as the old one."""
    cache = make_cache(lab, cache_size=4 * MIB)
    table = dm.table(cache.name)
    run("dmsetup", "load", "--readonly", cache.name, stdin=table + "\n")
    run("dmsetup", "resume", cache.name)
    ok("resize", cache.name, "8M")
    assert run("blockdev", "--getro", cache.path).stdout == "1\n"
    assert cache.status().total == 8 * MIB // BLOCK


def test_apply(config):
    direct.write(DISK, 0, DATA)
    text = f"[cache c]\norigin = {DISK}\nsize = {{}}\n"
    config.write(text.format("4M"))
    config.ok()
    cache = adopt("c")
    blocks = warm(cache, 4 * MIB)
    config.write(text.format("8M"))
    steps = [f"cache c: resize {cache.ramdisk.path} from 4M to 8M",
             "cache c: have the cache use the new size"]
    assert config.ok("--dry-run") == steps
    assert config.ok() == steps
    assert config.ok() == [] and cache.status().total == 8 * MIB // BLOCK
    blocks = expect_all_there(cache, blocks)
    config.write(text.format("2M..12M"))
    assert config.ok() == [f"cache c: resize {cache.ramdisk.path} from 8M to 12M", steps[1],
                           "cache c: change the minimum from 0B to 2M"]
    assert config.ok() == [] and limits(cache) == (0, 2 * MIB)
    assert cache.ramdisk.query().promised == 12 * MIB
    expect_all_there(cache, blocks)
    config.write(text.format("2M..12M") + "block-size = 8K\n")
    config.refused(BUSY, names=("block-size '8K'", "is 4K", "--stop cache/c"))


def test_apply_uses_what_is_there(config):
    """As if the apply before had been killed after its first step."""
    config.write(f"[cache c]\norigin = {DISK}\nsize = 4M\n")
    config.ok()
    cache = adopt("c")
    cache.ramdisk.resize(8 * MIB)
    config.write(f"[cache c]\norigin = {DISK}\nsize = 8M\n")
    assert config.ok() == ["cache c: have the cache use the new size"]
    assert config.ok() == [] and cache.status().total == 8 * MIB // BLOCK


@pytest.mark.parametrize("made", ["4M", *long(["2M..4M"])], indirect=True)
def test_advice_begins_again(made):
    """It is for the size that the cache has now."""
    ok("set", made.name, "--advise", "on")
    warm(made, 4 * MIB)
    ok("resize", made.name, "8M")
    rows = json.loads(rxadm("advise", made.name, "--json").stdout)["sizes"]
    assert [row["size"] for row in rows if row["current"] == "yes"] == [8 * MIB]


class Reader(threading.Thread):
    """Reads blocks that are cached, and finds the longest time that it took."""

    def __init__(self, cache, blocks):
        super().__init__()
        self.path = cache.path
        self.blocks = sorted(blocks)[::97]
        self.ends = False
        self.longest = 0

    def run(self):
        with Direct(self.path) as device:
            while not self.ends:
                for block in self.blocks:
                    begin = time.monotonic()
                    device.read(block * BLOCK, BLOCK)
                    self.longest = max(self.longest, time.monotonic() - begin)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.join()


@pytest.mark.long
def test_stall(lab):
    """How long reads wait. The machine may be emulated, so this is far from what is required."""
    name = lab.mapped(f"0 {512 * MIB // 512} zero")
    cache = lab.cache(512 * MIB, cache_size=256 * MIB, origin=f"/dev/mapper/{name}")
    with Direct(cache.path) as device:
        for offset in range(0, 256 * MIB, MIB):
            device.read(offset, MIB)
    used = cache.status().used
    with Reader(cache, range(used)) as reader:
        time.sleep(0.5)
        before, reader.longest = reader.longest, 0
        ok("resize", cache.name, "512M")
        time.sleep(0.5)
    print(f"{used} blocks: reads waited {reader.longest * 1000:.0f} ms, without a growth "
          f"{before * 1000:.0f} ms", file=sys.stderr)
    assert cache.status().used >= STAY * used
    assert reader.longest < 10


@pytest.mark.parametrize("made", ["2M..16M", *long(["16M"])], indirect=True)
@pytest.mark.parametrize("pattern", ["randrw", *long(["randwrite"])])
def test_under_fio(made, pattern):
    """fio writes with checksums and reads them back while the cache grows again and again."""
    rounds, size, area = 20 if LONG else 3, 16 * MIB, 48 * MIB
    minimum = "2M.." if limits(made)[1] else ""
    command = ["fio", "--name=io", f"--filename={made.path}", "--ioengine=libaio",
               "--direct=1", "--iodepth=8", f"--rw={pattern}", "--bsrange=4k-64k",
               "--bs_unaligned=0", f"--size={area}", "--verify=crc32c", "--verify_fatal=1",
               "--verify_backlog=256", "--randseed=1", "--time_based", "--runtime=3600"]
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as fio:
        try:
            for _ in range(rounds):
                end = time.monotonic() + PATIENCE
                while made.ramdisk.query().mem_used < 0.9 * size and time.monotonic() < end:
                    time.sleep(0.05)
                before = made.ramdisk.query().mem_used
                assert before >= 0.9 * size, "fio does not fill the cache"
                size += 24 * MIB // rounds // BLOCK * BLOCK
                ok("resize", made.name, f"{minimum}{size}")
                assert made.ramdisk.query().mem_used >= STAY * before
                assert fio.poll() is None, fio.stdout.read()
        finally:
            fio.terminate()
        output, _ = fio.communicate(timeout=PATIENCE)
        # Told to end, fio still reports the errors that it found.
        assert " err= 0" in output and "verify:" not in output, output
    assert made.status().origin_errors == 0 and made.ramdisk.query().size == size
    for offset in range(0, area, MIB):
        assert direct.read(made.path, offset, MIB) == direct.read(DISK, offset, MIB)


def test_grow_while_claimed(lab):
    """A cache that has grown can neither shrink its RAM disk nor lose it."""
    cache = make_cache(lab, cache_size=4 * MIB)
    ok("resize", cache.name, "8M")
    with pytest.raises(OSError) as caught:
        cache.ramdisk.resize(4 * MIB)
    assert caught.value.errno == errno.EBUSY
    dm.remove(cache.name)
    assert cache.ramdisk.query().mem_used == 0
    cache.ramdisk.resize(4 * MIB)
