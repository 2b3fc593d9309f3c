# SPDX-License-Identifier: GPL-2.0-only
"""rxadm metrics: the values are those of sysfs, the status line and dm-stats."""

import json
import os
import re
import shutil

import pytest

from rxdlib import direct, modules
from rxdlib.command import as_nobody, program, run, rxadm
from rxdlib.direct import BLOCK, MIB, SECTOR, stamp
from rxdlib.lab import DISK
from rxdlib.outcome import ok

PARAMETERS, PERMISSION, DEVICE = 1, 2, 4
SAMPLE = re.compile(r'([a-z_]+)\{(.*)\} ([0-9.]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def refused(code, *args, names, runner=rxadm):
    result = runner(*args)
    assert result.returncode == code and result.stdout == "", result
    assert len(result.stderr.splitlines()) == 1 and names in result.stderr


class Metrics:
    """Samples by name and labels."""

    def __init__(self, text):
        self.samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.fullmatch(line).groups()
                self.samples[name, frozenset(LABEL.findall(labels))] = float(value)

    def __call__(self, sample, /, **labels):
        return self.samples[sample, frozenset(labels.items())]

    def labels(self, sample):
        return [dict(labels) for found, labels in self.samples if found == sample]


def sysfs(*parts):
    with open(os.path.join("/sys/block", *parts), encoding="ascii") as file:
        return file.read().strip()


def check_io(metrics, prefix, stat, **labels):
    """The fields of /sys/block/*/stat."""
    stat = [int(field) for field in stat.split()]
    fields = {"read": 0, "write": 4, "discard": 11}
    for operation, field in fields.items():
        labels["operation"] = operation
        assert metrics(f"{prefix}_io_requests_total", **labels) == stat[field]
        assert metrics(f"{prefix}_io_bytes_total", **labels) == stat[field + 2] * SECTOR
        assert metrics(f"{prefix}_io_seconds_total", **labels) == stat[field + 3] / 1000
    labels["operation"] = "flush"
    assert metrics(f"{prefix}_io_requests_total", **labels) == stat[15]
    assert metrics(f"{prefix}_io_seconds_total", **labels) == stat[16] / 1000
    del labels["operation"]
    assert metrics(f"{prefix}_io_in_flight", **labels) == stat[8]
    assert metrics(f"{prefix}_io_busy_seconds_total", **labels) == stat[9] / 1000
    return stat


def test_ramdisks(lab):
    ramdisk = lab.ramdisk(8 * MIB, mem_limit=2 * MIB, folio_size=65536)
    other = lab.ramdisk(MIB, index=7)
    with direct.Direct(ramdisk.path) as device:
        device.write(0, stamp(1, MIB))
        device.discard(0, MIB // 2)
        device.read(0, BLOCK)
        with pytest.raises(OSError):
            device.write(0, stamp(1, 4 * MIB))
    metrics = Metrics(ok("metrics"))
    for disk in ramdisk, other:
        def value(name, disk=disk, **labels):
            return metrics(f"rxd_{name}", device=disk.name, **labels)
        assert value("size_bytes") == int(sysfs(disk.name, "size")) * SECTOR
        for name, attribute in (("memory_used_bytes", "mem_used"),
                                ("memory_max_used_bytes", "mem_max_used"),
                                ("metadata_bytes", "mem_index"),
                                ("nospc_writes_total", "nospc"),
                                ("discards_total", "discards")):
            assert value(name) == int(disk.attribute(attribute)), name
        assert value("info", uuid=disk.query().uuid, node="local", logical_block_size="512",
                     folio_size=disk.attribute("folio_size")) == 1
        stat = check_io(metrics, "rxd", sysfs(disk.name, "stat"), device=disk.name)
        assert bool(stat[0]) == (disk is ramdisk)
    assert metrics("rxd_memory_limit_bytes", device="rxd0") == 2 * MIB
    assert metrics("rxd_memory_limit_bytes", device="rxd7") == MIB
    assert metrics("rxd_nospc_writes_total", device="rxd0") > 0
    assert metrics("rxd_discards_total", device="rxd0") > 0
    states = {labels["rxd_state"]: metrics("rxd_state", **labels)
              for labels in metrics.labels("rxd_state") if labels["device"] == "rxd0"}
    assert states == {"open": 0, "cache": 0, "overcommit": 0, "readonly": 0, "reserved": 0,
                      "detect-zeroes": 0, "expendable": 0, "lost": 0, "elastic": 0}


def test_states(lab):
    lab.ramdisk(MIB, overcommit=True)
    lab.adopt_ramdisk(int(ok("clone", "rxd0", "--expendable")[len("/dev/rxd"):]))
    run("blockdev", "--setro", "/dev/rxd0")
    with open("/dev/rxd0", "rb"):
        metrics = Metrics(ok("metrics"))
    on = {(labels["device"], labels["rxd_state"]) for labels in metrics.labels("rxd_state")
          if metrics("rxd_state", **labels)}
    assert on == {("rxd0", "open"), ("rxd0", "overcommit"), ("rxd0", "readonly"),
                  ("rxd1", "overcommit"), ("rxd1", "expendable")}


def test_caches(lab):
    cache = lab.cache(16 * MIB, features=("writearound",))
    for _ in range(3):
        direct.read(cache.path, 0, MIB)
    direct.write(cache.path, 0, stamp(1))
    metrics = Metrics(ok("metrics"))
    status = cache.status()
    assert status.read_hits > 0 and status.fills > 0
    for name, count in status.counters.items():
        assert metrics(f"rxcache_{name}_total", name=cache.name) == count
    assert metrics("rxcache_blocks", name=cache.name) == status.total
    assert metrics("rxcache_blocks_used", name=cache.name) == status.used
    assert metrics("rxcache_metadata_bytes", name=cache.name) == status.metadata
    assert metrics("rxcache_block_size_bytes", name=cache.name) == BLOCK
    assert metrics("rxcache_seq_cutoff_bytes", name=cache.name) == 0
    assert metrics("rxcache_memory_limit_bytes", name=cache.name) == cache.ramdisk.query().size
    device = os.path.basename(os.path.realpath(cache.path)) if os.path.islink(cache.path) else \
        f"dm-{os.minor(os.stat(cache.path).st_rdev)}"
    assert metrics("rxcache_info", name=cache.name, device=device, origin=DISK,
                   cache="/dev/rxd0", mode="writearound") == 1
    stat = check_io(metrics, "rxcache", sysfs(device, "stat"), name=cache.name)
    assert stat[0] == 3
    assert metrics("rxd_state", device="rxd0", rxd_state="cache") == 1
    assert not metrics.labels("rxcache_io_latency_seconds_count")


def test_latency(lab):
    cache = lab.cache(16 * MIB)
    ok("set", cache.name, "--latency", "on")
    for number in range(20):
        direct.read(cache.path, number * BLOCK, BLOCK)
    direct.write(cache.path, 0, stamp(1))
    lines = json.loads(ok("status", "--latency", "--json"))["latencies"]
    metrics = Metrics(ok("metrics"))
    name = "rxcache_io_latency_seconds"
    assert metrics(f"{name}_count", name=cache.name) == 21
    assert metrics(f"{name}_bucket", name=cache.name, le="+Inf") == 21
    buckets = sorted((float(labels["le"]), metrics(f"{name}_bucket", **labels))
                     for labels in metrics.labels(f"{name}_bucket"))
    for line in lines:
        upto = line["upto_ns"] / 1e9 if line["upto_ns"] else float("inf")
        within = sum(other["count"] for other in lines if other["from_ns"] <= line["from_ns"])
        assert [count for bound, count in buckets
                if bound == pytest.approx(upto)] == [within]
    least = sum(line["from_ns"] * line["count"] for line in lines) / 1e9
    most = sum((line["upto_ns"] or 60e9) * line["count"] for line in lines) / 1e9
    assert least <= metrics(f"{name}_sum", name=cache.name) <= most


@pytest.mark.one_kernel
def test_formats(lab):
    """Both formats have the same samples; promtool reads one, and the other ends as it must."""
    cache = lab.cache(16 * MIB)
    ok("set", cache.name, "--latency", "on")
    direct.read(cache.path, 0, MIB)
    openmetrics = ok("metrics", "--format", "openmetrics")
    assert openmetrics == ok("metrics") and openmetrics.endswith("# EOF\n")
    prometheus = ok("metrics", "--format", "prometheus")
    assert Metrics(openmetrics).samples == Metrics(prometheus).samples
    assert shutil.which("promtool")
    result = run("promtool", "check", "metrics", stdin=prometheus)
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.one_kernel
def test_modules_not_loaded():
    """There are no disks, and no error: the modules may be loaded later."""
    modules.unload()
    try:
        assert ok("metrics") == "# EOF\n"
        assert ok("metrics", "--format=prometheus") == ""
        modules.insert(modules.RXD)
        assert ok("metrics") == "# EOF\n"
    finally:
        modules.load()


@pytest.fixture
def folder(lab):
    """A directory of 64 KiB."""
    path = lab.directory()
    run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path)
    yield path
    run("umount", path)


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


@pytest.mark.one_kernel
def test_output(lab, folder):
    """The file is new, complete, readable by all, and the only one in its folder."""
    lab.ramdisk(MIB)
    path = os.path.join(folder, "rxd.prom")
    for _ in range(2):
        before = os.stat(path).st_ino if os.path.exists(path) else None
        result = run("sh", "-c", 'umask 077; exec "$@"', "sh", program("rxadm"), "metrics", "-o",
                     path)
        assert result.stdout == ""
        assert os.stat(path).st_mode & 0o7777 == 0o644 and os.stat(path).st_ino != before
        assert Metrics(read(path))("rxd_size_bytes", device="rxd0") == MIB
        assert os.listdir(folder) == ["rxd.prom"]


@pytest.mark.one_kernel
def test_output_that_cannot_be_written(lab, folder):
    """The old file stays."""
    lab.ramdisk(MIB)
    path = os.path.join(folder, "rxd.prom")
    with open(path, "w", encoding="ascii") as file:
        file.write("old")
    with open(os.path.join(folder, "ballast"), "wb") as file:
        file.write(bytes(60 << 10))
    refused(DEVICE, "metrics", "--output", path, names=f"'{path}'")
    assert read(path) == "old" and sorted(os.listdir(folder)) == ["ballast", "rxd.prom"]
    refused(PARAMETERS, "metrics", "--output", folder, names=f"'{folder}'")
    refused(DEVICE, "metrics", "--output", "/nowhere/rxd.prom", names="'/nowhere/rxd.prom'")
    refused(PERMISSION, program("rxadm"), "metrics", "--output", path, names="CAP_SYS_ADMIN",
            runner=lambda *args: as_nobody(*args, check=False))


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    (("rxd0",), "'rxd0'"),
    (("--format", "xml"), "'xml'"),
    (("--format", ""), "''"),
    (("--output", ""), "''"),
    (("--output",), "--output"),
    (("--json",), "--json"),
], ids=str)
def test_bad_arguments(arguments, words):
    refused(PARAMETERS, "metrics", *arguments, names=words)
