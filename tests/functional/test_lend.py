# SPDX-License-Identifier: GPL-2.0-only
"""Elastic caches as rxadm makes, changes and shows them: MIN..MAX; what they promise."""

import errno
import json
import os
import subprocess

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.configuration import Configuration
from rxdlib.control import CREATE_ELASTIC, RESIZE_OVERCOMMIT
from rxdlib.direct import BLOCK, MIB, SECTOR, stamp
from rxdlib.lab import DISK, RamDisk, state
from rxdlib.memory import shrink_all
from rxdlib.old_target import old_module
from rxdlib.outcome import ok, refused
from rxdlib.stacks import wait_for

SIZE = 16 * MIB
RAM = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MAP = ("map", "--origin", DISK, "--name", "elastic", "--size")
SHARE = "/sys/module/rxd/parameters/memory_share"


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


@pytest.fixture(name="elastic")
def elastic_cache():
    """A cache with 4M..16M over the scratch disk; its name and its RAM disk."""
    assert ok(*MAP, "4M..16M") == "/dev/mapper/elastic\n"
    yield "elastic", RamDisk(ramdisk_of("elastic"))
    rxadm("unmap", "elastic")


def ramdisk_of(name):
    minor = int(dm.table(name).split()[4].split(":")[1])
    for entry in os.listdir("/sys/block"):
        with open(f"/sys/block/{entry}/dev", encoding="ascii") as file:
            if entry.startswith("rxd") and int(file.read().split(":")[1]) == minor:
                return int(entry[3:])
    raise AssertionError(name)


def status_of(name):
    return json.loads(ok("status", name, "--json"))["caches"][0]


def table_of(name):
    """Its policy arguments."""
    words = dm.table(name).split(" 3 writethrough block_size 8 ")[1].split()
    return dict(zip(words[1::2], map(int, words[2::2])))


def ramdisks():
    return [entry for entry in os.listdir("/sys/block") if entry.startswith("rxd")]


def test_map_makes_and_unmap_removes(elastic):
    name, ramdisk = elastic
    query = ramdisk.query()
    assert query.size == SIZE
    assert ramdisk.attribute("state") == "open cache elastic"
    assert ramdisk.attribute("promised") == str(query.promised) == str(4 * MIB)
    assert table_of(name) == {"min_size": 4 * MIB}
    refused(5, *MAP[:-2], "other", "--size", "8M", names=(DISK, "is already the origin", name))
    assert ok("unmap", name, "--dry-run") == \
        f"dmsetup remove {name}\nrxadm remove {ramdisk.path}\n"
    assert ok("unmap", name) == ""
    assert not ramdisks()


@pytest.mark.one_kernel
@pytest.mark.parametrize("low, minimum", [("32M", 32 * MIB), ("5%", RAM * 5 // 100)])
def test_percentage(low, minimum):
    """Of the memory of the machine, rounded down to whole blocks."""
    minimum -= minimum % BLOCK
    ok(*MAP, f"{low}..25%")
    query = RamDisk(ramdisk_of("elastic")).query()
    assert (query.size, query.promised) == (RAM // 4 // BLOCK * BLOCK, minimum)
    assert table_of("elastic") == {"min_size": minimum}
    assert status_of("elastic")["min_size"] == minimum
    ok("unmap", "elastic")


def test_plain_size():
    assert ok(*MAP, "16M") == "/dev/mapper/elastic\n"
    ramdisk = RamDisk(ramdisk_of("elastic"))
    assert ramdisk.query().size == ramdisk.query().promised == SIZE
    assert ramdisk.attribute("state") == "open cache"
    assert table_of("elastic") == {}
    assert status_of("elastic")["min_size"] is None
    ok("unmap", "elastic")
    assert not ramdisks()


def test_other_ramdisks_stay(lab):
    cache = lab.cache(SIZE, cache_size=SIZE)
    assert ok("unmap", cache.name) == ""
    assert ramdisks() == [cache.ramdisk.name]


def test_dry_run():
    lines = ok(*MAP, "4M..16M", "--dry-run").splitlines()
    assert len(lines) == 2 and "flags=RXD_CREATE_ELASTIC," in lines[0]
    overcommit = ok(*MAP, "4M..16M", "--overcommit", "--dry-run").splitlines()
    assert "flags=RXD_CREATE_OVERCOMMIT," in overcommit[0] and overcommit[1:] == lines[1:]
    assert lines[1].startswith("dmsetup create elastic ")
    assert "/dev/rxdN 3 writethrough block_size 8 2 min_size 4194304'" in lines[1]
    assert not ramdisks()


def test_failure_leaves_nothing(lab):
    """The RAM disk goes with the cache that cannot be made."""
    other = lab.ramdisk(MIB)
    name, _ = lab.linear(MIB, device=other.path)
    refused(5, "map", "--origin", DISK, "--name", name, "--size", "4M..16M", dry_run=False,
            names=f"name '{name}'")
    assert ramdisks() == [other.name]


def test_minimum_of_a_large_disk():
    """The target raises it to 1/32 of the RAM disk, and resize says the same as the table."""
    ok(*MAP, "64K..16M")
    assert table_of("elastic") == {"min_size": SIZE // 32}
    ok("resize", "elastic", "64K..8M")
    assert table_of("elastic") == {"size": 8 * MIB, "min_size": SIZE // 32}
    ok("unmap", "elastic")


@pytest.mark.parametrize("sizes, messages", [
    ("2M..3M", ["min_size 2097152", "size 3145728"]),
    ("2M..4M", ["size 4194304", "min_size 2097152"]),
    ("6M..8M", ["size 8388608", "min_size 6291456"]),
    ("12M..16M", ["size 16777216", "min_size 12582912"]),
])
def test_resize(elastic, sizes, messages):
    """From 4M..8M: no message is refused. What follows keeps the minimum."""
    name, _ = elastic
    ok("resize", name, "4M..8M")
    assert ok("resize", name, sizes, "--dry-run") == \
        "".join(f"dmsetup message {name} 0 {message}\n" for message in messages)
    assert ok("resize", name, sizes) == ""
    low, high = (int(size[:-1]) * MIB for size in sizes.split(".."))
    assert table_of(name) == ({"size": high} if high < SIZE else {}) | {"min_size": low}
    assert status_of(name)["min_size"] == low
    refused(1, "resize", name, "1M", names=f"from {sizes.split('..', maxsplit=1)[0]}, its minimum")
    ok("resize", name, "none")
    assert table_of(name) == {"min_size": low}


def test_cache_becomes_elastic(lab):
    cache = lab.cache(SIZE, cache_size=SIZE)
    ok("resize", cache.path, "2M..8M")
    assert table_of(cache.name) == {"size": 8 * MIB, "min_size": 2 * MIB}
    refused(1, "resize", cache.ramdisk.name, "2M..8M", names=("'2M..8M'", "is for caches"))
    ok("resize", cache.name, "2M..17M")
    assert table_of(cache.name) == {"min_size": 2 * MIB}
    assert cache.ramdisk.query().size == 17 * MIB


def test_shown(elastic):
    name, ramdisk = elastic
    direct.write(DISK, 0, stamp(0, SIZE))

    def is_lent():
        direct.read(f"/dev/mapper/{name}", 0, SIZE)
        return ramdisk.query().mem_used > 4 * MIB

    # The limit follows what is used a moment later.
    wait_for(is_lent, "lent memory")
    lent = ramdisk.query().mem_used // 4096 - 1024
    status = status_of(name)
    assert (status["min_size"], status["lent"], status["given_back"]) == (4 * MIB, lent, 0)
    assert 0 < status["taken"] <= lent
    wait_for(lambda: shrink_all() and status_of(name)["given_back"] > 0, "memory given back")
    status = status_of(name)
    assert status["lent"] < lent
    info = json.loads(ok("info", name, "--json"))["info"][0]
    keys = "min_size", "lent", "given_back", "taken"
    assert [info[key] for key in keys] == [status[key] for key in keys]
    metrics = ok("metrics")
    for metric, key in (("memory_minimum_bytes", "min_size"), ("blocks_lent", "lent"),
                        ("given_back_total", "given_back"), ("taken_total", "taken")):
        assert f'rxcache_{metric}{{name="{name}"}} {status[key]}\n' in metrics
    look = json.loads(ok("top", "--json", "-n", "1", "-d", "0.1"))["top"]
    rows = {row["kind"]: row for row in look}
    assert rows["cache"]["lent_mb"] == round(status["lent"] * 4096 / 1e6, 1)
    assert rows["cache"]["given_back_mbps"] == rows["cache"]["taken_mbps"] == 0
    assert rows["ramdisk"]["lent_mb"] is None
    assert "TAKEN_MBPS" in ok("top", "--batch", "-n", "1", "-d", "0.1")


@pytest.mark.one_kernel
def test_rates_shown(elastic):
    """While the cache takes memory and gives it back again and again."""
    name, _ = elastic
    found = {"taken_mbps": 0, "given_back_mbps": 0}
    with subprocess.Popen([program("rxadm"), "top", "--json", "-d", "0.5", "-n", "100"],
                          env=ENVIRONMENT, text=True, stdout=subprocess.PIPE) as top:
        for line in top.stdout:
            row = next(row for row in json.loads(line)["top"] if row["name"] == name)
            found = {key: max(rate, row[key]) for key, rate in found.items()}
            if all(found.values()):
                break
            direct.read(f"/dev/mapper/{name}", 0, SIZE)
            shrink_all()
        top.terminate()
    assert all(found.values()), found


BAD = [
    ("8M..4M", "the minimum '8M' is above the maximum; must be at most '4M'"),
    (f"4M..{RAM * 2}", "more than the memory of the machine; must be at most"),
    (f"{RAM * 2}..{RAM * 2}", "the minimum"),
    ("32K..16M", "the minimum, 32K, is fewer than 16 cache blocks of 4K; must be at least 64K"),
    ("%..75%", "the minimum '%' is not a number"),
    ("4M..%", "the maximum '%' is not a number"),
    ("4M..101%", "the maximum '101%' is more than the memory"),
    ("..16M", "the minimum is missing; must be MIN..MAX, such as 4G..75%"),
    ("4M..", "the maximum is missing"),
    ("..", "the minimum is missing"),
    ("4M...16M", "the maximum '.16M' is not a number"),
    ("4M..8M..16M", "the maximum '8M..16M' has an unknown suffix"),
    ("x..16M", "the minimum 'x' is not a number"),
    ("-1M..16M", "the minimum '-1M' is negative"),
    ("0..16M", "the minimum '0' must be greater than 0"),
    ("4097..16M", "the minimum '4097' must be a multiple of 4096 bytes"),
]


@pytest.mark.one_kernel
def test_bad_sizes(lab, config):
    for sizes, part in BAD:
        refused(1, *MAP, sizes, names=(f"'{sizes}'", part))
        config.write(f"[cache c]\norigin = {DISK}\nsize = {sizes}\n")
        config.refused(1, names=(f"'{sizes}'", part))
    cache = lab.cache(SIZE, cache_size=SIZE)
    for sizes, part in BAD:
        refused(1, "resize", cache.path, "--", sizes, names=(f"'{sizes}'", part))


@pytest.mark.one_kernel
def test_bad_options():
    refused(1, *MAP, "8M", "--cache", "rxd0", names="--cache and --size exclude each other")
    refused(1, "map", "--origin", DISK, "--cache", "rxd0", "--overcommit",
            names="--cache and --overcommit exclude each other")
    refused(1, "map", "--origin", DISK, names=("--cache", "--size"))
    refused(1, *MAP, "1P", names=("'1P'", "too large"))
    refused(1, "create", "--size", "1M..2M", names="'1M..2M'")


@pytest.mark.one_kernel
def test_share(config):
    """Only the minimum must fit into what is left of memory_share."""
    low, high = RAM // 100 * 80 // MIB, RAM // 100 * 90 // MIB
    refused(1, *MAP, f"{low}M..{high}M", names=(f"'{low}M..{high}M'", "is left"))
    config.write(f"[cache c]\norigin = {DISK}\nsize = {low}M..{high}M\n")
    config.refused(1, names=(f"'{low}M..{high}M'", "is left", "overcommit = yes"))
    for command in ([*MAP, f"{low}M..{high}M", "--overcommit"], [*MAP, f"4M..{high}M"]):
        ok(*command)
        assert table_of("elastic")["min_size"] > 0
        ok("unmap", "elastic")


@pytest.mark.one_kernel
def test_older_target(lab, config):
    """It is named before anything is made, and a cache without a minimum needs no newer one."""
    cache = lab.cache(SIZE, cache_size=SIZE)
    words = "rxcache", "older than version 1.5.0", "cannot lend memory", "'2M..8M'"
    refused(4, *MAP, "2M..8M", runner=old_module, names=words)
    refused(4, "resize", cache.path, "2M..8M", runner=old_module, names=words)
    dm.remove(cache.name)
    config.write(f"[cache c]\norigin = {DISK}\nsize = 2M..8M\n")
    result = old_module("apply", "--config", config.path)
    assert result.returncode == 4 and all(word in result.stderr for word in words)
    assert ramdisks() == [cache.ramdisk.name]


def test_apply(config):
    """The minimum changes while the cache is in use; without one, nothing is lent any more."""
    text = "[cache c]\norigin = {}\nsize = {}\n"
    config.write(text.format(DISK, "4M..16M"))
    config.ok()
    assert table_of("c") == {"min_size": 4 * MIB}
    ramdisk = RamDisk(ramdisk_of("c"))
    assert "elastic" in ramdisk.attribute("state") and ramdisk.query().promised == 4 * MIB
    assert config.ok() == []
    config.write(text.format(DISK, "8M..16M"))
    assert config.ok() == ["cache c: change the minimum from 4M to 8M"]
    assert table_of("c") == {"min_size": 8 * MIB}
    config.write(text.format(DISK, "64K..16M"))
    assert config.ok() == ["cache c: change the minimum from 8M to 512K"]
    assert config.ok() == []
    ok("resize", "c", "1M..2M")
    config.write(text.format(DISK, "4M..16M"))
    config.refused(5, names=("size '4M..16M'", "is 2M", "--stop cache/c"))
    ok("resize", "c", "none")
    assert config.ok() == ["cache c: change the minimum from 1M to 4M"]
    config.write(text.format(DISK, "16M"))
    assert config.ok() == ["cache c: change the minimum from 4M to 0B"]
    assert table_of("c") == {}
    assert ramdisk.query().promised == SIZE


def promised():
    """What all RAM disks promise, in bytes."""
    return sum(disk["promised"] for disk in state()["ramdisks"])


def map_second(lab, size, *options, runner=ok):
    """Map "second", over another disk."""
    _, origin = lab.linear(SIZE, device=lab.ramdisk(SIZE, overcommit=True).path)
    return runner("map", "--origin", origin, "--name", "second", "--size", size, *options)


def test_minimums_count(lab, share):
    """They are promised while their caches exist, to caches and RAM disks that are made later."""
    part, size = share * 6 // 10, 4 * share
    ok(*MAP, f"{part}M..{size}M")
    assert promised() == part * MIB
    left = "is left; choose a smaller size, or give --overcommit"
    refused(1, "create", "--size", f"{part}M", names=(f"'{part}M'", left))
    map_second(lab, f"{part}M..{size}M",
               runner=lambda *args: refused(1, *args, names=(f"'{part}M..{size}M'", left)))
    map_second(lab, f"{part}M..{size}M", "--overcommit")
    assert promised() == part * MIB
    ok("unmap", "second")
    map_second(lab, f"1M..{size}M")
    second = table_of("second")["min_size"]
    assert promised() == part * MIB + second
    ok("unmap", "elastic")
    assert promised() == second > 0
    ok("unmap", "second")
    assert promised() == 0
    map_second(lab, f"{part}M..{size}M")
    refused(1, *MAP, f"{part}M..{size}M", names=left)
    ok("unmap", "second")


def test_ramdisks_count(lab, share):
    """What is promised to them is not left for minimums."""
    part, size = share * 6 // 10, 4 * share
    ramdisk = lab.ramdisk(part * MIB)
    refused(1, *MAP, f"{part}M..{size}M", names="is left")
    ramdisk.resize(2 * part * MIB, RESIZE_OVERCOMMIT)
    ok(*MAP, f"{part}M..{size}M")
    assert promised() == part * MIB
    ok("unmap", "elastic")


def test_resize_counts(lab, share):
    """A new minimum must fit, and the old one does not count against it."""
    part, size = share * 6 // 10, 4 * share
    ok(*MAP, f"{part}M..{size}M")
    name, ramdisk = "elastic", RamDisk(ramdisk_of("elastic"))
    low, high = share * 8 // 10, share + 1
    ok("resize", name, f"{low}M..{size}M")
    assert ramdisk.query().promised == low * MIB == table_of(name)["min_size"]
    refused(1, "resize", name, f"{high}M..{size}M",
            names=(f"'{high}M..{size}M'", "is left", "remove another RAM disk"))
    lab.ramdisk((share - low) * MIB)
    refused(1, "resize", name, f"{share}M..{size}M", names="is left")
    ok("resize", name, f"{part}M..{size}M")
    assert ramdisk.query().promised == part * MIB
    ok("resize", name, f"{low}M..{2 * low}M")
    ok("resize", name, f"{3 * low}M")
    ok("resize", name, "none")
    assert ramdisk.query().promised == low * MIB
    ok("unmap", name)


def test_apply_counts(config, lab, share):
    """So do sections, one after another, and a new minimum of one of them."""
    _, origin = lab.linear(SIZE, device=lab.ramdisk(SIZE, overcommit=True).path)
    part, size = share * 6 // 10, 4 * share
    text = "[cache a]\norigin = {}\nsize = {}\n[cache b]\norigin = {}\nsize = {}\n"
    config.write(text.format(DISK, f"{part}M..{size}M", origin, f"{part}M..{size}M"))
    config.refused(1, names=("cache b", f"'{part}M..{size}M'", "is left", "overcommit = yes"))
    assert promised() == part * MIB and table_of("a")["min_size"] == part * MIB
    config.write(text.format(DISK, f"{share + 1}M..{size}M", origin, f"1M..{size}M"))
    config.refused(1, names=("cache a", f"'{share + 1}M..{size}M'", "is left", "remove another"))
    assert table_of("a")["min_size"] == part * MIB
    config.write(text.format(DISK, f"{size}M", origin, f"1M..{size}M"))
    config.refused(1, names=("cache a", f"'{size}M'", "is left", "remove another"))
    assert table_of("a")["min_size"] == part * MIB
    ok("unmap", "b")


@pytest.mark.one_kernel
def test_mapped_at_once(lab, share):
    """Of two caches that are made at the same time, one is refused, and nothing of it is left."""
    part = share * 6 // 10
    origins = [lab.linear(SIZE, device=lab.ramdisk(SIZE, overcommit=True).path)[1]
               for _ in range(2)]
    before = ramdisks()
    for _ in range(5):
        calls = [subprocess.Popen(
            [program("rxadm"), "map", "--origin", origin, "--name", f"at-once-{number}",
             "--size", f"{part}M..{4 * share}M"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            for number, origin in enumerate(origins)]
        said = [call.communicate(timeout=100) for call in calls]
        assert sum(call.returncode == 0 for call in calls) == 1, said
        done = [call.returncode for call in calls].index(0)
        assert "memory" in said[1 - done][1] and said[1 - done][1].count("\n") == 1, said
        assert promised() == part * MIB and len(ramdisks()) == len(before) + 1
        ok("unmap", f"at-once-{done}")
        assert promised() == 0 and ramdisks() == before


def line(ramdisk, minimum=0, features="1 writethrough"):
    tail = f" 2 min_size {minimum}" if minimum else ""
    return f"0 {SIZE // SECTOR} rxcache {DISK} {ramdisk.path} {features}{tail}"


def elastic_disk(lab, size):
    return lab.ramdisk(size, flags=CREATE_ELASTIC)


def load(name, table, command="load"):
    return run("dmsetup", command, name, stdin=table + "\n", check=False)


def test_table_promises(lab, share):
    """From its load on, until it ends. A table that does not fit is refused."""
    share *= MIB
    disk = elastic_disk(lab, 4 * share)
    assert disk.attribute("state") == "elastic" and disk.query().promised == 0
    before = state()
    for minimum in share + MIB, 0:
        result = load("promising", line(disk, minimum), "create")
        assert result.returncode and os.strerror(errno.ERANGE) in result.stderr, result
        assert state() == before
        assert disk.attribute("state") == "elastic"
    name = lab.mapped(line(disk, share))
    assert disk.query().promised == share
    with pytest.raises(OSError) as caught:
        lab.ramdisk(MIB)
    assert caught.value.errno == errno.ERANGE
    dm.remove(name)
    assert disk.query().promised == 0
    lab.ramdisk(MIB)


def test_tables_promise_beside_each_other(lab, share):
    """The larger one of two tables counts, also while the cache is suspended."""
    share *= MIB
    disk = elastic_disk(lab, 4 * share)
    half, most = share // 2 // BLOCK * BLOCK, share // BLOCK * BLOCK
    name = lab.mapped(line(disk, half))
    for inactive, counts in (most, most), (share // 4 // BLOCK * BLOCK, half):
        assert load(name, line(disk, inactive)).returncode == 0
        assert disk.query().promised == counts
        # The inactive table is replaced, and ends.
        assert load(name, line(disk, half)).returncode == 0
        assert disk.query().promised == half
        run("dmsetup", "clear", name)
        assert disk.query().promised == half
    for minimum in share + MIB, 0:
        assert load(name, line(disk, minimum)).returncode
        assert disk.query().promised == half and table_of(name) == {"min_size": half}
    run("dmsetup", "suspend", name)
    assert load(name, line(disk, most)).returncode == 0
    dm.message(name, "min_size", half // 2 // BLOCK * BLOCK)
    assert disk.query().promised == most
    run("dmsetup", "resume", name)
    assert disk.query().promised == most == table_of(name)["min_size"]
    dm.replace(name, line(disk, half))
    assert disk.query().promised == half
    run("dmsetup", "suspend", name)
    run("dmsetup", "resume", name)
    assert disk.query().promised == half
    dm.remove(name)
    assert disk.query().promised == 0


def test_message_promises(lab, share):
    """A minimum that does not fit changes nothing."""
    share *= MIB
    disk = elastic_disk(lab, 4 * share)
    name = lab.mapped(line(disk, share // 2 // BLOCK * BLOCK))
    last = disk.query().promised
    for suspended in False, True:
        if suspended:
            run("dmsetup", "suspend", name)
        for minimum in share // BLOCK * BLOCK, share // 4 // BLOCK * BLOCK:
            dm.message(name, "min_size", minimum)
            assert disk.query().promised == minimum == table_of(name)["min_size"]
            last = minimum
        # Too large for the share, for the disk, and not a number of blocks; without a minimum.
        for minimum in share + MIB, 5 * share, 4097, 0:
            assert dm.message(name, "min_size", minimum, check=False).returncode
            assert disk.query().promised == last == table_of(name)["min_size"]
    run("dmsetup", "resume", name)
    with open(SHARE, "w", encoding="ascii") as file:
        file.write("75")
    dm.message(name, "min_size", 0)
    assert disk.query().promised == 4 * share and table_of(name) == {}
    with open(SHARE, "w", encoding="ascii") as file:
        file.write("1")
    # The share is smaller than what is promised. Less may be promised.
    dm.message(name, "min_size", 2 * share)
    assert disk.query().promised == 2 * share
    assert dm.message(name, "min_size", 3 * share, check=False).returncode
    assert disk.query().promised == 2 * share
    dm.remove(name)
    assert promised() == 0


def test_failed_resume_promises(lab, share):
    """The table is still there after a resume that fails, and so is its promise."""
    minimum = share * MIB // 2 // BLOCK * BLOCK
    disk = elastic_disk(lab, SIZE)
    name = lab.mapped("0 1 error")
    diskseq, changes = disk.seen().values()
    table = line(disk, minimum, f"3 if_same {diskseq + 1} {changes}")
    assert load(name, table).returncode == 0
    assert run("dmsetup", "resume", name, check=False).returncode
    assert disk.query().promised == minimum
    dm.remove(name)
    assert disk.query().promised == 0 and disk.attribute("state") == "elastic"


def test_growth_promises(lab, share):
    """A minimum that the growth of the disk raises is promised, too."""
    disk = elastic_disk(lab, SIZE)
    name = lab.mapped(line(disk, SIZE // 32))
    assert disk.query().promised == SIZE // 32
    disk.resize(4 * share * MIB)
    assert disk.query().promised == SIZE // 32
    run("dmsetup", "suspend", name)
    run("dmsetup", "resume", name)
    last = 4 * share * MIB // 32
    assert disk.query().promised == table_of(name)["min_size"] == last
    # The share does not allow that of this size: the cache keeps its own.
    disk.resize(36 * share * MIB)
    status = status_of(name)
    run("dmsetup", "suspend", name)
    run("dmsetup", "resume", name)
    assert disk.query().promised == table_of(name)["min_size"] == last
    assert status_of(name) == status
    with open(SHARE, "w", encoding="ascii") as file:
        file.write("75")
    run("dmsetup", "suspend", name)
    run("dmsetup", "resume", name)
    assert disk.query().promised == table_of(name)["min_size"] == 36 * share * MIB // 32


def test_other_disks_promise_as_before(lab, share):
    """A minimum changes nothing for disks that count their size, or nothing."""
    size = share * MIB // BLOCK * BLOCK
    for overcommit in False, True:
        disk = lab.ramdisk(size * (1 + overcommit), overcommit=overcommit)
        name = lab.mapped(line(disk, size // 2 // BLOCK * BLOCK))
        assert disk.query().promised == (0 if overcommit else size)
        dm.message(name, "min_size", size)
        dm.message(name, "min_size", 0)
        assert disk.query().promised == (0 if overcommit else size)
        dm.remove(name)
        disk.remove()
