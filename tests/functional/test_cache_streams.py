# SPDX-License-Identifier: GPL-2.0-only
"""I/O that bypasses the cache does not prevent fills by other reads."""

import json

import pytest

from rxdlib.command import run
from rxdlib.direct import KIB, MIB, SECTOR
from rxdlib.lab import DISK
from rxdlib.sampled import long

AREA = 32 * MIB
STREAM = 256 * MIB
SECONDS = 3

READS = ("--name=reads", "--rw=randread", "--bs=4k", "--iodepth=4", f"--size={AREA}",
         "--norandommap")
WRITES = ("--name=writes", "--rw=write", "--bs=1m", "--iodepth=32", f"--offset={AREA}",
          f"--size={STREAM}")


def fio(device, *jobs):
    """Run jobs side by side for a while; returns the report of each."""
    result = run("fio", f"--filename={device}", "--ioengine=libaio", "--direct=1", "--thread",
                 "--time_based", f"--runtime={SECONDS}", "--randseed=1",
                 "--output-format=json", *(option for job in jobs for option in job))
    return json.loads(result.stdout[result.stdout.index("{"):])["jobs"]


def fills_for_misses(cache, *jobs):
    """Return the share of the missed blocks that enter the cache, and their number."""
    cache.drop()
    before = cache.status()
    for job in fio(cache.path, *jobs):
        assert job["error"] == 0
    changed = cache.status().since(before)
    return changed.get("fills", 0) / changed["read_misses"], changed.get("fills", 0)


@pytest.mark.parametrize("block_size", [
    4 * KIB, *long([64 * KIB])])
def test_writes_elsewhere(lab, block_size):
    """Beside writes that bypass the cache, reads elsewhere are cached as without them."""
    size = AREA + STREAM
    origin = lab.mapped(f"0 {size // SECTOR} delay {DISK} 0 0 {DISK} 0 40")
    cache = lab.cache(size, 64 * MIB, f"/dev/mapper/{origin}", block_size, features=["writearound"])
    alone, fills_alone = fills_for_misses(cache, READS)
    beside, fills_beside = fills_for_misses(cache, READS, WRITES)
    print(f"alone {alone:.3f} of the misses, {fills_alone} fills; "
          f"beside writes {beside:.3f}, {fills_beside}")
    assert cache.status().origin_errors == 0
    assert alone > 0.9
    assert beside >= 0.8 * alone
