# SPDX-License-Identifier: GPL-2.0-only
"""Elastic caches as rxadm makes, changes and shows them: MIN..MAX."""

import json
import os

import pytest

from rxdlib import direct, dm
from rxdlib.command import rxadm
from rxdlib.configuration import Configuration
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK, RamDisk
from rxdlib.old_target import old_module
from rxdlib.outcome import ok, refused

SIZE = 16 * MIB
RAM = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MAP = ("map", "--origin", DISK, "--name", "elastic", "--size")


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
    assert "overcommit" in ramdisk.attribute("state")
    assert table_of(name) == {"min_size": 4 * MIB}
    refused(5, *MAP[:-2], "other", "--size", "8M", names=(DISK, "is already the origin", name))
    assert ok("unmap", name, "--dry-run") == \
        f"dmsetup remove {name}\nrxadm remove {ramdisk.path}\n"
    assert ok("unmap", name) == ""
    assert not ramdisks()


def test_plain_size():
    assert ok(*MAP, "16M") == "/dev/mapper/elastic\n"
    ramdisk = RamDisk(ramdisk_of("elastic"))
    assert ramdisk.query().size == SIZE and "overcommit" not in ramdisk.attribute("state")
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
    assert len(lines) == 2 and "RXD_CREATE" in lines[0] and "OVERCOMMIT" in lines[0]
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
    refused(1, "resize", cache.name, "2M..17M", names=("17M", "to 16M, the size of its RAM disk"))


def test_shown(elastic):
    name, ramdisk = elastic
    direct.write(DISK, 0, stamp(0, SIZE))
    direct.read(f"/dev/mapper/{name}", 0, SIZE)
    lent = ramdisk.query().mem_used // 4096 - 1024
    assert lent > 0
    status = status_of(name)
    assert (status["min_size"], status["lent"], status["given_back"]) == (4 * MIB, lent, 0)
    assert 0 < status["taken"] <= lent
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("2")
    status = status_of(name)
    assert status["given_back"] > 0 and status["lent"] < lent
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


BAD = [
    ("8M..4M", "the minimum '8M' is above the maximum; must be at most '4M'"),
    (f"4M..{RAM * 2}", "more than the memory of the machine; must be at most"),
    (f"{RAM * 2}..{RAM * 2}", "the minimum"),
    ("32K..16M", "the minimum, 32K, is fewer than 16 cache blocks of 4K; must be at least 64K"),
    ("%..75%", "the minimum '%' is not a number"),
    ("4M..%", "the maximum '%' is not a number"),
    ("4M..101%", "the maximum '101%' is more than the memory"),
    ("..16M", "the minimum is missing; must be MIN..MAX, such as 1G..75%"),
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
    assert "overcommit" in RamDisk(ramdisk_of("c")).attribute("state")
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
