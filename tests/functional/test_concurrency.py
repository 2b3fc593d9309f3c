# SPDX-License-Identifier: GPL-2.0-only
"""Many readers and writers on the same few blocks: no error, no stale read."""

import re
import subprocess
import time

import pytest

from rxdlib import dm
from rxdlib.command import ENVIRONMENT, program, run
from rxdlib.direct import KIB, MIB
from rxdlib.lab import DISK, LONG


def model(*args, check=True):
    """Run rwmodel; return the number of writes, reads and comparisons."""
    result = run(program("rwmodel"), *args, check=False)
    if not check:
        return result
    assert result.returncode == 0, result.stdout + result.stderr
    counts = re.fullmatch(r"writes (\d+) reads (\d+) rounds (\d+)\n", result.stdout)
    counts = [int(count) for count in counts.groups()]
    assert min(counts) > 0
    return counts


@pytest.mark.one_kernel
def test_eight_at_once(lab):
    cache = lab.cache(MIB)
    writes, reads, rounds = model("-s", 300 if LONG else 8, "-w", 4, "-r", 4, "-b", 8,
                                  "-o", DISK, cache.path)
    assert writes > 500 and reads > 500 and rounds > 10
    status = cache.status()
    assert status.origin_errors == 0
    assert status.read_hits > 0


@pytest.mark.parametrize("options", [
    ("-O", "-b", 8),
    ("-O", "-b", 1),
    ("-b", 4, "-w", 4, "-r", 8),
    ("-b", 1, "-w", 1, "-r", 1),
    ("-b", 64, "-u", 8),
], ids=["overlapping", "one-block", "many-readers", "one-and-one", "whole-blocks"])
def test_patterns(lab, options):
    cache = lab.cache(MIB)
    model("-s", 3, "-o", DISK, *options, cache.path)
    assert cache.status().origin_errors == 0


@pytest.mark.parametrize("block_size", [4 * KIB, 32 * KIB])
@pytest.mark.parametrize("overlap", [(), ("-O",)], ids=["own", "overlapping"])
def test_evicting(lab, block_size, overlap):
    """A working set many times the cache."""
    cache = lab.cache(4 * MIB, cache_size=16 * block_size, block_size=block_size)
    model("-s", 3, "-b", 256, "-o", DISK, *overlap, cache.path)
    status = cache.status()
    assert status.evictions > 0
    assert status.origin_errors == 0


def test_short_of_memory(lab):
    """A cache that may use next to no memory bypasses I/O."""
    ramdisk = lab.ramdisk(MIB, mem_limit=16 * KIB)
    cache = lab.cache(MIB, ramdisk=ramdisk)
    model("-s", 3, "-b", 32, "-o", DISK, cache.path)
    assert ramdisk.query().mem_max_used <= 16 * KIB
    assert cache.status().bypasses > 0


def test_drop_and_suspend_meanwhile(lab):
    """Blocks are dropped, and the mapping is suspended and resumed, under full load."""
    cache = lab.cache(MIB, cache_size=256 * KIB)
    rounds = 0
    while rounds < 4:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([program("rwmodel"), "-s", "12", "-b", "64", "-o", DISK,
                                    cache.path], env=ENVIRONMENT, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                cache.drop()
                if rounds % 2:
                    dm.replace(cache.name, dm.table(cache.name))
                else:
                    run("dmsetup", "suspend", cache.name)
                    run("dmsetup", "resume", cache.name)
                rounds += 1
                time.sleep(0.05)
            output, _ = process.communicate()
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, output


def test_ramdisk(lab):
    ramdisk = lab.ramdisk(MIB)
    model("-s", 3, "-b", 8, ramdisk.path)
    model("-s", 3, "-O", "-b", 64, "-o", ramdisk.path, ramdisk.path)


@pytest.mark.one_kernel
def test_model_notices_a_difference(lab):
    """The model itself: a device that is not a cache of the origin must fail."""
    ramdisk = lab.ramdisk(MIB)
    result = model("-s", 1, "-b", 8, "-o", DISK, ramdisk.path, check=False)
    assert result.returncode == 1
    assert "the origin" in result.stderr


@pytest.mark.one_kernel
def test_model_notices_a_stale_read(lab):
    """Two models on one device undo each other's writes: both must see it."""
    ramdisk = lab.ramdisk(MIB)
    processes = [subprocess.Popen([program("rwmodel"), "-s", "10", "-b", "4", ramdisk.path],
                                  stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL)
                 for _ in range(2)]
    errors = [process.communicate()[1] for process in processes]
    assert 1 in [process.returncode for process in processes]
    assert any("stale" in error for error in errors)
