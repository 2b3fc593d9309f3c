# SPDX-License-Identifier: GPL-2.0-only
"""The advice on the size of a cache: rxadm advise, and what it costs to be wrong."""

import json
import random
import re
import threading
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import program, run, rxadm
from rxdlib.configuration import Configuration
from rxdlib.direct import BLOCK, KIB, MIB
from rxdlib.lab import DISK
from rxdlib.old_target import ALONE, old_module
from rxdlib.outcome import ok, refused

SIZES = (0.25, 0.5, 0.75, 1, 1.5, 2, 4, 8)
# Numbers of the message: five for the hour, which the day has, too; HALVED; four for each size.
SECONDS, LEFT_OUT, READS, FED, LOST, HALVED, FIRST = 0, 1, 2, 3, 4, 10, 11
TOO_OLD = ["rxcache", "older than", "1.4"]


def advised(name):
    """The table; a note says that it is about less than an hour."""
    result = rxadm("advise", name, "--json")
    assert not result.returncode and "less than an hour" in result.stderr
    return json.loads(result.stdout)["sizes"]


def told(name):
    """The numbers of the message."""
    return [int(word) for word in dm.message(name, "advice").stdout.split()]


def settle(name):
    """Feed all samples. Their order on different processors is not kept."""
    told(name)


def misses(name, size):
    """Blocks that a size would have missed in the last hour. None of the samples may be lost."""
    numbers = told(name)
    assert numbers[LOST] == numbers[LEFT_OUT] == 0
    return numbers[FIRST + 4 * size + 2]


def read_blocks(path, blocks):
    with direct.Direct(path) as device:
        for block in blocks:
            device.read(block * BLOCK, BLOCK)


def popular(nr_blocks, length, seed=1):
    """References to blocks, some of them far more often than others."""
    rng = random.Random(seed)
    return [int(nr_blocks * rng.random() ** 3) for _ in range(length)]


@pytest.fixture(name="advising")
def fixture_advising(lab):
    cache = lab.cache(64 * MIB, cache_size=4 * MIB)
    ok("set", cache.name, "--advise", "on")
    return cache


@pytest.mark.one_kernel
def test_hit_ratios(advising):
    """The ratio of the present size is that of the cache itself; larger sizes have more."""
    read_blocks(advising.path, popular(6000, 12000))
    status = advising.status()
    real = 100 * status.read_hits / (status.read_hits + status.read_misses)
    rows = advised(advising.name)
    assert [row["size"] for row in rows] == [int(size * 4 * MIB) for size in SIZES]
    assert [row["current"] for row in rows] == ["yes" if size == 1 else "no" for size in SIZES]
    assert abs(rows[3]["hour_hit_percent"] - real) <= 0.5
    ratios = [row["hour_hit_percent"] for row in rows]
    assert ratios == sorted(ratios) and ratios[-1] > ratios[0] + 20
    for row in rows:
        assert row["hour_hit_percent"] == row["day_hit_percent"]
    assert "less than an hour" in rxadm("advise", advising.name).stderr


@pytest.mark.long
@pytest.mark.one_kernel
def test_blocks_saved(advising):
    """How many blocks an hour a size saves is told after a minute, not before."""
    read_blocks(advising.path, popular(3000, 3000))
    assert all(row["hour_saved"] is None for row in advised(advising.name))
    while told(advising.name)[SECONDS] < 60:
        time.sleep(1)
    rows = advised(advising.name)
    assert rows[3]["hour_saved"] == 0 and rows[0]["day_saved_hourly"] < 0 < rows[-1]["hour_saved"]
    gained = (rows[-1]["hour_hit_percent"] - rows[3]["hour_hit_percent"]) / 100
    assert abs(rows[-1]["hour_saved"] - gained * 3000 * 60) <= 0.1 * gained * 3000 * 60


@pytest.mark.one_kernel
def test_sampled(lab):
    """Of a larger cache, a sample is enough to find its hits."""
    ramdisk = lab.ramdisk(512 * MIB, overcommit=True)
    cache = lab.cache(256 * MIB, ramdisk=ramdisk, origin=lab.loop(256 * MIB))
    dm.message(cache.name, "advise", "on")
    with direct.Direct(cache.path) as device:
        for number, place in enumerate(popular(2048, 4000)):
            device.read(place * 128 * KIB, 128 * KIB)
            # Before there is no room for more samples.
            if number % 100 == 0:
                settle(cache.name)
    status, numbers = cache.status(), told(cache.name)
    assert numbers[READS] == 4000 * 32 and numbers[FED] == numbers[READS] / 8
    assert numbers[LOST] == numbers[HALVED] == 0
    real = 100 * status.read_hits / (status.read_hits + status.read_misses)
    assert abs(advised(cache.name)[3]["hour_hit_percent"] - real) <= 1


def test_discard(lab):
    """What is discarded leaves the simulated caches, also if they get a sample."""
    cache = lab.cache(64 * MIB, cache_size=128 * MIB, origin=lab.loop(64 * MIB))
    dm.message(cache.name, "advise", "on")
    with direct.Direct(cache.path) as device:
        device.read(34 * MIB, 64 * KIB)
        before = told(cache.name)[FED]
        device.discard(32 * MIB, 4 * MIB)
        # This also feeds them, before those of the next read.
        assert told(cache.name)[FED] - before == 4 * MIB // BLOCK // 2
        device.read(34 * MIB, 64 * KIB)
    assert misses(cache.name, 0) == 32


def test_short_of_memory(lab):
    """What finds no memory in this cache enters larger ones, which show that they would help."""
    cache = lab.cache(64 * MIB, ramdisk=lab.ramdisk(4 * MIB, mem_limit=BLOCK))
    dm.message(cache.name, "advise", "on")
    with direct.Direct(cache.path) as device:
        for _ in range(2):
            for place in range(8):
                device.read(place * MIB, MIB)
        assert cache.status().bypasses > 0
        assert told(cache.name)[READS] == 2 * 8 * 256
        assert misses(cache.name, 3) > misses(cache.name, 6) == 8 * 256
        before = cache.status()
        device.write(32 * MIB, bytes(MIB))
        assert cache.status().since(before)["bypasses"] > 0
        settle(cache.name)
        device.read(32 * MIB, MIB)
    assert misses(cache.name, 6) == 8 * 256


@pytest.mark.long
@pytest.mark.one_kernel
def test_another_size_says_the_same(lab):
    """A cache that really has twice the size has the hits that were foretold."""
    blocks = popular(6000, 12000)
    small, large = lab.cache(64 * MIB, cache_size=4 * MIB), None
    dm.message(small.name, "advise", "on")
    read_blocks(small.path, blocks)
    foretold = advised(small.name)[5]["hour_hit_percent"]
    dm.remove(small.name)
    large = lab.cache(64 * MIB, cache_size=8 * MIB)
    read_blocks(large.path, blocks)
    status = large.status()
    assert status.read_hits + status.read_misses == len(blocks)
    assert abs(100 * status.read_hits / len(blocks) - foretold) <= 1


@pytest.mark.long
@pytest.mark.one_kernel
def test_no_size_helps(advising):
    """If nothing is read twice, no size helps; neither if all fits."""
    read_blocks(advising.path, range(9000))
    result = rxadm("advise", advising.name)
    assert not result.returncode and "no larger size" in result.stderr
    ok("set", advising.name, "--advise", "off")
    ok("set", advising.name, "--advise", "on")
    for _ in range(120):
        read_blocks(advising.path, range(100))
    result = rxadm("advise", advising.name)
    assert "no larger size" in result.stderr and "with only 1M" in result.stderr


@pytest.mark.long
@pytest.mark.one_kernel
def test_not_on_for_long_enough(advising):
    """A size that has not been full is not judged, because it could not show what it is worth."""
    for first, end, least in (0, 500, "4M"), (500, 3000, "16M"), (3000, 7000, "32M"):
        read_blocks(advising.path, range(first, end))
        notes = rxadm("advise", advising.name).stderr
        assert f"not been on for long enough to judge a size of {least} or more" in notes
        assert "no larger size" not in notes
        assert (" only " in notes) == (least != "4M")
    numbers = told(advising.name)
    assert numbers[FIRST + 4 * 7 + 1] == 7000 and numbers[FIRST + 4 * 3 + 1] == 1024


@pytest.mark.one_kernel
def test_least_size(lab):
    """A size that resize refuses is not recommended."""
    cache = lab.cache(64 * MIB, cache_size=64 * MIB)
    for size, least in (4, "2M"), (16, "4M"):
        ok("resize", cache.name, f"{size}M")
        ok("set", cache.name, "--advise", "on")
        for _ in range(120):
            read_blocks(cache.path, range(100))
        assert f" only {least}" in rxadm("advise", cache.name).stderr
    refused(1, "resize", cache.name, "1M", names=["from 2M"])


@pytest.mark.one_kernel
def test_samples_that_come_too_fast(advising):
    """A small cache cannot take fewer, so the time in which they are lost does not count."""
    ended = threading.Event()

    def reads():
        with direct.Direct(advising.path) as device:
            while not ended.is_set():
                # Smaller sizes miss these blocks, which makes their samples dear.
                for first in range(4):
                    device.read(first * MIB, MIB)

    threads = [threading.Thread(target=reads) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + 120
        while not told(advising.name)[LEFT_OUT]:
            assert time.monotonic() < end
            time.sleep(0.5)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    numbers = told(advising.name)
    assert numbers[LOST] > 0 and numbers[READS] == 0
    result = rxadm("advise", advising.name, "--json")
    for window in "hour", "day":
        assert re.search(f"last {window} leave out \\d of \\d minutes", result.stderr)
    assert "nothing was read" not in result.stderr
    assert all(row["hour_hit_percent"] is None for row in json.loads(result.stdout)["sizes"])


@pytest.mark.one_kernel
def test_order_of_settings(advising, tmp_path):
    """What cannot be undone comes last. If the advice fails, nothing has changed."""
    ok("set", advising.name, "--advise", "off")
    words = ("set", advising.name, "--latency", "on", "--advise")
    lines = ok(*words, "on", "--dry-run").splitlines()
    assert "advise on" in lines[0] and "stats create" in lines[-1]
    lines = ok(*words, "off", "--dry-run").splitlines()
    assert "stats create" in lines[0] and "advise off" in lines[-1]

    table, log = dm.table(advising.name), tmp_path / "log"
    words = (*words, "on", "--seq-cutoff", "1M")

    def traced(*options):
        return run("strace", "-f", "-s", "100", "-v", "-o", log, "-e", "trace=ioctl", *options,
                   program("rxadm"), *words, check=False, environment=ALONE)

    assert not traced().returncode
    calls = [line for line in log.read_text().splitlines() if "ioctl(" in line]
    number, = [number for number, line in enumerate(calls, 1) if "advise on" in line]
    ok("set", advising.name, "--latency", "off", "--advise", "off", "--seq-cutoff", "0")
    assert dm.table(advising.name) == table
    result = traced("-e", f"inject=ioctl:error=ENOMEM:when={number}")
    assert result.returncode and len(result.stderr.splitlines()) == 1
    assert dm.table(advising.name) == table
    assert "is not measured" in rxadm("status", "--latency", advising.name).stderr


@pytest.mark.one_kernel
def test_why_there_is_none(advising, tmp_path):
    """A cache that cannot answer now is not one whose advice is off."""
    log = tmp_path / "log"

    def traced(*options):
        return run("strace", "-s", "100", "-v", "-o", log, "-e", "trace=ioctl", *options,
                   program("rxadm"), "advise", advising.name, check=False, environment=ALONE)

    assert not traced().returncode
    calls = [line for line in log.read_text().splitlines() if "ioctl(" in line]
    number, = [number for number, line in enumerate(calls, 1) if "advice" in line]
    for error, status, part in (("EBUSY", 5, "is being replaced"), ("ENXIO", 4, "was removed")):
        result = traced("-e", f"inject=ioctl:error={error}:when={number}")
        assert result.returncode == status and part in result.stderr
        assert "is off" not in result.stderr and not result.stdout


@pytest.mark.one_kernel
def test_older_module(lab):
    cache = lab.cache(8 * MIB, cache_size=MIB, origin=lab.loop(8 * MIB))
    for args in (("advise", cache.name), ("set", cache.name, "--advise", "on"),
                 ("set", cache.name, "--advise", "off"),
                 ("set", cache.name, "--seq-cutoff", "1M", "--advise", "on")):
        refused(4, *args, runner=old_module, names=[f"'{cache.name}'", *TOO_OLD])


@pytest.mark.one_kernel
def test_older_module_at_apply(nothing_left, tmp_path):
    """A cache that wants the advice is mapped without it, until the module is new enough."""
    with Configuration(tmp_path) as config:
        config.write(f"[cache quick]\nsize = 2M\norigin = {DISK}\nadvise = yes\n")
        for turn in range(2):
            result = old_module("apply", "--config", config.path)
            assert not result.returncode and "its advice stays off" in result.stderr
            assert all(word in result.stderr for word in TOO_OLD)
            assert dm.table("quick").endswith(" 0") and (turn or result.stdout)
        assert "switch the advice on" in " ".join(config.ok("--dry-run"))
        config.ok()
        assert dm.table("quick").endswith("2 advise 1")
        config.ok("--stop")


def test_nothing_was_read(advising):
    result = rxadm("advise", advising.name)
    assert not result.returncode and "nothing was read" in result.stderr
    for row in advised(advising.name):
        assert row["hour_hit_percent"] is None and row["day_saved_hourly"] is None


def test_writes_and_discards(advising):
    """Whole blocks that are written enter the caches; what is discarded leaves them."""
    with direct.Direct(advising.path) as device:
        device.write(0, bytes(MIB))
        settle(advising.name)
        device.read(0, MIB)
    assert told(advising.name)[READS] == 256
    assert misses(advising.name, 3) == 0
    with direct.Direct(advising.path) as device:
        device.write(2 * MIB, bytes(512))
        device.read(2 * MIB, BLOCK)
    assert misses(advising.name, 3) == 1
    dm.message(advising.name, "mode", "writearound")
    with direct.Direct(advising.path) as device:
        device.write(0, bytes(64 * KIB))
        settle(advising.name)
        device.read(0, 64 * KIB)
    assert misses(advising.name, 3) == 17


def test_passthrough_caches_nothing(advising):
    """Nor does it read from the cache what that has already."""
    read_blocks(advising.path, [1, 2])
    dm.message(advising.name, "mode", "passthrough")
    read_blocks(advising.path, [1, 2, 3] * 10)
    assert told(advising.name)[READS] == 32 and misses(advising.name, 3) == 32
    notes = rxadm("advise", advising.name).stderr
    assert "the mode of" in notes and "is passthrough" in notes and "long enough" not in notes
    dm.message(advising.name, "mode", "writethrough")
    assert "passthrough" not in rxadm("advise", advising.name).stderr


def test_kept_by_reload_and_resume(advising):
    """A table that says so keeps it; suspending does, too; another size begins again."""
    read_blocks(advising.path, range(100))
    table = dm.table(advising.name)
    assert table.endswith("2 advise 1")
    dm.replace(advising.name, table)
    assert told(advising.name)[READS] == 100
    run("dmsetup", "suspend", advising.name)
    run("dmsetup", "resume", advising.name)
    read_blocks(advising.path, range(100))
    assert told(advising.name)[READS] == 200 and misses(advising.name, 3) == 100
    advising.ramdisk.resize(8 * MIB)
    run("dmsetup", "suspend", advising.name)
    run("dmsetup", "resume", advising.name)
    numbers = told(advising.name)
    assert numbers[READS] == 0 and numbers[FIRST + 4 * 3] == 2048
    dm.replace(advising.name, table.replace("2 advise 1", "0"))
    assert dm.table(advising.name).endswith(" 0")
    assert dm.message(advising.name, "advice", check=False).returncode


def test_a_moved_size_begins_again(advising):
    """The sizes are parts and multiples of the size that applies, which is the present one."""
    read_blocks(advising.path, range(100))
    ok("resize", advising.name, "4M")
    assert told(advising.name)[READS] == 100
    ok("resize", advising.name, "2M")
    assert told(advising.name)[READS] == 0
    rows = advised(advising.name)
    assert [row["size"] for row in rows] == [int(size * 2 * MIB) for size in SIZES]
    assert [row["current"] for row in rows] == ["yes" if size == 1 else "no" for size in SIZES]
    read_blocks(advising.path, range(100))
    dm.message(advising.name, "size", 2 * MIB)
    assert told(advising.name)[READS] == misses(advising.name, 3) == 100
    dm.message(advising.name, "size", 0)
    assert told(advising.name)[READS] == 0 and advised(advising.name)[3]["size"] == 4 * MIB
    ok("set", advising.name, "--advise", "off")
    ok("resize", advising.name, "1M")
    refused(5, "advise", advising.name, names=["--advise on"])
    ok("set", advising.name, "--advise", "on")
    assert advised(advising.name)[3]["size"] == MIB


def test_table_with_a_size(advising):
    """A table with the same size keeps the advice; another size begins again."""
    table = dm.table(advising.name).replace("2 advise 1", "6 advise 1 size 2097152 seq_cutoff 4096")
    dm.replace(advising.name, table)
    assert dm.table(advising.name).endswith(" 6 seq_cutoff 4096 size 2097152 advise 1")
    assert " ".join(advising.status().rest) == "6 seq_cutoff 4096 size 2097152 advise 1"
    assert advised(advising.name)[3]["size"] == 2 * MIB
    read_blocks(advising.path, popular(3000, 100))
    dm.replace(advising.name, dm.table(advising.name))
    assert told(advising.name)[READS] == 100
    dm.replace(advising.name, table.replace("size 2097152", "size 1048576"))
    assert told(advising.name)[READS] == 0 and advised(advising.name)[3]["size"] == MIB


@pytest.mark.long
@pytest.mark.one_kernel
def test_hit_ratio_of_a_limited_cache(advising):
    ok("resize", advising.name, "2M")
    read_blocks(advising.path, popular(6000, 12000))
    status = advising.status()
    real = 100 * status.read_hits / (status.read_hits + status.read_misses)
    assert abs(advised(advising.name)[3]["hour_hit_percent"] - real) <= 1


def test_whether_it_is_on(advising):
    """Both commands that show the settings of a cache say it."""
    for state, word in ("off", "no"), ("on", "yes"):
        ok("set", advising.name, "--advise", state)
        assert ok("status", advising.name, "-n", "-r", "-o", "ADVISE") == f"{word}\n"
        assert json.loads(ok("info", advising.name, "--json"))["info"][0]["advise"] == word


def test_reset_keeps_it(advising):
    read_blocks(advising.path, range(100))
    ok("stats", "reset", advising.name)
    read_blocks(advising.path, range(50))
    assert told(advising.name)[READS] == 150


def test_beside_all_else(advising):
    """I/O goes on while it is switched or begins again, and while the table is replaced."""
    table, ended, wrong = dm.table(advising.name), threading.Event(), []

    def reads(seed):
        rng = random.Random(seed)
        with direct.Direct(advising.path) as device:
            while not ended.is_set():
                block = rng.randrange(8192)
                if device.read(block * BLOCK, BLOCK) != bytes(BLOCK):
                    wrong.append(block)

    direct.write(DISK, 0, bytes(32 * MIB))
    dm.message(advising.name, "drop")
    threads = [threading.Thread(target=reads, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(30):
            dm.message(advising.name, "advise", "off")
            dm.message(advising.name, "advise", "on")
            dm.message(advising.name, "advise", "on")
            dm.message(advising.name, "size", (1 + turn % 4) * MIB)
            if turn % 3 == 0:
                dm.replace(advising.name, table)
            elif turn % 3 == 1:
                run("dmsetup", "suspend", advising.name)
                run("dmsetup", "resume", advising.name)
            numbers = told(advising.name)
            assert len(numbers) == 43
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.one_kernel
def test_bad_input(lab, advising, kernel_log):
    """One line names the fault, and nothing changes."""
    plain = lab.cache(8 * MIB, cache_size=MIB, origin=lab.loop(8 * MIB))
    table = dm.table(advising.name)
    refused(1, "advise", names=["NAME"])
    refused(1, "advise", advising.name, "more", names=["'more'"])
    refused(1, "advise", advising.name, "--bogus", names=["bogus"])
    refused(1, "advise", advising.name, "--output", "colour", names=["colour"])
    refused(4, "advise", "nowhere", names=["'nowhere'"])
    refused(5, "advise", plain.name, names=[plain.name, "--advise on"])
    refused(1, "set", advising.name, "--advise", "maybe", names=["'maybe'", "on or off"])
    refused(1, "set", "rxd0", "--name", "x", "--advise", "on", names=["--advise"])
    for words, part in [(("advise",), "missing"), (("advise", "maybe"), "'maybe'"),
                        (("advise", "on", "off"), "'off'"), (("advice", "now"), "'now'")]:
        kernel_log.rewind()
        assert dm.message(advising.name, *words, check=False).returncode
        lines = [line for line in kernel_log.lines() if "rxcache" in line]
        assert len(lines) == 1 and part in lines[0]
    assert dm.table(advising.name) == table


def test_configuration(nothing_left, tmp_path):
    """advise = yes keeps it on, and a change takes effect at the next apply."""
    text = f"[cache quick]\nsize = 2M\norigin = {DISK}\n"
    with Configuration(tmp_path) as config:
        config.write(text + "advise = yes\n")
        config.ok()
        assert dm.table("quick").endswith("2 advise 1")
        assert config.ok() == []
        config.write(text)
        assert "switch the advice off" in " ".join(config.ok("--dry-run"))
        config.ok()
        assert dm.table("quick").endswith(" 0")
        config.write(text + "advise = maybe\n")
        config.refused(1, names=["'maybe'"])
        config.write(text)
        config.ok("--stop")


@pytest.mark.one_kernel
def test_metrics(advising):
    read_blocks(advising.path, popular(3000, 5000))
    lines = [line for line in ok("metrics").splitlines()
             if line.startswith("rxcache_advice_hit_ratio{")]
    assert len(lines) == 16
    assert sum('times="1"' in line for line in lines) == 2
    rows = advised(advising.name)
    for row in rows:
        found = [line for line in lines if f'size="{row["size"]}"' in line and
                 'window="hour"' in line]
        assert len(found) == 1
        assert abs(float(found[0].split()[-1]) * 100 - row["hour_hit_percent"]) <= 0.06
    for state in ("off", "on"):
        ok("set", advising.name, "--advise", state)
        text = ok("metrics")
        assert "rxcache_advice_hit_ratio{" not in text
        for counts in "lost_samples", "halvings":
            assert (f"rxcache_advice_{counts}{{" in text) == (state == "on")


@pytest.mark.one_kernel
def test_metrics_without_the_advice(advising, tmp_path):
    """If the target gives no answer, everything else is told."""
    log, path = tmp_path / "log", tmp_path / "metrics"

    def traced(*options):
        return run("strace", "-s", "100", "-v", "-o", log, "-e", "trace=ioctl", *options,
                   program("rxadm"), "metrics", "-o", path, check=False, environment=ALONE)

    def samples():
        text = path.read_text(encoding="ascii")
        assert text.endswith("# EOF\n")
        return [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]

    assert not traced().returncode
    whole = samples()
    assert "rxcache_advice_lost_samples" in whole and "rxd_size_bytes" in whole
    calls = [line for line in log.read_text().splitlines() if "ioctl(" in line]
    number, = [number for number, line in enumerate(calls, 1) if "advice" in line]
    path.unlink()
    result = traced("-e", f"inject=ioctl:error=EIO:when={number}")
    assert result.returncode == 4 and len(result.stderr.splitlines()) == 1
    assert f"'{advising.name}'" in result.stderr and "advice" in result.stderr
    assert samples() == [name for name in whole if not name.startswith("rxcache_advice_")]
