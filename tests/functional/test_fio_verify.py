# SPDX-License-Identifier: GPL-2.0-only
"""fio writes with checksums, eight jobs at once, and reads them back."""

import json

import pytest

from rxdlib import dm
from rxdlib.command import run
from rxdlib.direct import MIB

JOBS = 8
SIZE = 2 * MIB

PATTERNS = {
    "4k": ("--bs=4k",),
    "512": ("--bs=512", "--size=256k"),
    "mixed": ("--bsrange=4k-128k", "--bs_unaligned=0"),
}


def fio(device, *options):
    """Run fio; returns its report on all jobs together."""
    result = run("fio", "--name=verify", f"--filename={device}", "--ioengine=libaio",
                 "--direct=1", "--iodepth=8", "--thread", f"--numjobs={JOBS}",
                 f"--size={SIZE}", f"--offset_increment={SIZE}", "--verify=crc32c",
                 "--verify_fatal=1", "--randseed=1", "--group_reporting",
                 "--output-format=json", *options, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout[result.stdout.index("{"):])
    assert len(report["jobs"]) == 1 and report["jobs"][0]["error"] == 0
    return report["jobs"][0]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ramdisk(lab, pattern):
    ramdisk = lab.ramdisk(JOBS * SIZE)
    job = fio(ramdisk.path, "--rw=randwrite", *PATTERNS[pattern])
    assert job["write"]["total_ios"] > 0
    assert job["read"]["io_bytes"] == job["write"]["io_bytes"] > 0


@pytest.mark.parametrize("cached", [JOBS * SIZE, MIB], ids=["all", "evicting"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_cache(lab, pattern, cached):
    """Verify through the cache, and then from the origin alone."""
    cache = lab.cache(JOBS * SIZE, cache_size=cached)
    job = fio(cache.path, "--rw=randwrite", *PATTERNS[pattern])
    assert job["read"]["io_bytes"] == job["write"]["io_bytes"] > 0
    status = cache.status()
    assert status.origin_errors == 0
    assert status.evictions > 0 if cached < JOBS * SIZE else status.read_hits > 0
    dm.remove(cache.name)
    fio(cache.origin, "--rw=randwrite", "--verify_only", *PATTERNS[pattern])


def test_mixed_reads_and_writes(lab):
    """Verifying reads run among the writes."""
    cache = lab.cache(JOBS * SIZE, cache_size=4 * MIB)
    job = fio(cache.path, "--rw=randrw", "--bs=4k", "--verify_backlog=64")
    assert job["read"]["total_ios"] > 0 and job["write"]["total_ios"] > 0
    assert cache.status().origin_errors == 0
