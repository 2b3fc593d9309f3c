# SPDX-License-Identifier: GPL-2.0-only
"""The output of fio and dd as numbers; sizes; statistics of disks."""

import json
import math

import pytest

from rxbench.system import diskstats, machine, units
from rxbench.system.errors import BadInput, BenchError
from rxbench.tools import dd, fio
from rxbench.vdbench import table

NONE = {"total_ios": 0, "io_bytes": 0, "runtime": 0,
        "lat_ns": {"mean": 0.0, "stddev": 0.0, "max": 0, "N": 0}}


def side(latencies_us, runtime):
    """The output of fio for I/Os of 4 KiB with these latencies."""
    count = len(latencies_us)
    mean = sum(latencies_us) / count
    deviation = math.sqrt(sum((each - mean) ** 2 for each in latencies_us) / max(1, count - 1))
    bins = {}
    for each in latencies_us:
        bins[str(each * 1000)] = bins.get(str(each * 1000), 0) + 1
    return {"total_ios": count, "io_bytes": 4096 * count, "runtime": runtime,
            "lat_ns": {"mean": mean * 1e3, "stddev": deviation * 1e3, "N": count,
                       "max": max(latencies_us) * 1000, "bins": bins}}


def document(read=NONE, write=NONE, error=0):
    return {"jobs": [{"error": error, "read": read, "write": write}]}


def test_intervals_add_up():
    """The values and the deviation of each interval are derived from counters since the start."""
    first, second = [100, 200, 300], [900, 100]
    moments = [fio.moment(document(side(first, 1000))),
               fio.moment(document(side(first + second, 2000)))]
    part = moments[1] - moments[0]
    both = part.both()
    assert (part.seconds, both.ios, both.bytes) == (1.0, 2, 8192)
    assert both.mean() == pytest.approx(500)
    assert both.deviation() == pytest.approx(math.sqrt(2 * 400 ** 2))
    assert both.longest == 900
    row = table.Row.of(part, 50.0, 20.0)
    assert (row.rate, row.size, row.read) == (2.0, 4096, 100.0)
    assert row.response == pytest.approx(0.5) and row.longest == pytest.approx(0.9)


def test_reads_and_writes_together():
    moment = fio.moment(document(side([100] * 98, 1000), side([500, 700], 1000)))
    metrics = moment.metrics()
    assert metrics["iops"] == 100 and metrics["mb_s"] == pytest.approx(0.4096)
    assert metrics["lat_mean_us"] == pytest.approx(110) and metrics["lat_max_us"] == 700
    assert metrics["lat_p99_us"] == 500
    assert moment.both().percentiles()["50"] == 100


def test_no_percentile_above_the_longest():
    """The figure of the last bin may be above it."""
    assert fio.Counters(1000, 0, 0, 0, 100.0, {100_352: 1000}).percentiles()["99"] == 100.0


def test_too_short_to_measure():
    """fio counts time in milliseconds."""
    with pytest.raises(BenchError, match="less than 1 ms"):
        fio.sample([fio.moment(document(side([100], 0)))])


@pytest.mark.machine
@pytest.mark.parametrize("size", [1000, 520 << 10, 1 << 20, 1544 << 10])
def test_all_of_a_file_is_filled(tmp_path, size):
    """No part is left out, which would be read without the disk."""
    path = str(tmp_path / "with:colon")
    fio.fill(path, size)
    with open(path, "rb") as file:
        data = file.read()
    assert len(data) == size
    for offset in range(0, size, 4096):
        assert data[offset:offset + 4096].strip(b"\0")


def test_longest_of_a_calmer_interval():
    """The maximum of an earlier interval is not that of a later one."""
    moments = [fio.moment(document(side([5000], 1000))),
               fio.moment(document(side([5000, 40], 2000)))]
    assert (moments[1] - moments[0]).both().longest == 40


def test_a_scrap_belongs_to_the_interval_before():
    moments = [fio.moment(document(side([1] * count, runtime)))
               for count, runtime in ((1, 1000), (2, 2000), (3, 2100))]
    assert [each.seconds for each in fio.joined(moments, 1)] == [1.0, 2.1]


def test_documents_between_other_lines():
    documents, found = fio.Documents(), []
    texts = [json.dumps(each, indent=1) for each in (document(side([1], 1)), document())]
    for line in "\n".join(["fio: a {warning}", texts[0], "", texts[1]]).splitlines():
        found += documents.feed(line + "\n")
    assert len(found) == 2 and documents.stray[0] == "fio: a {warning}\n"


def test_documents_at_once():
    """Documents are separated wherever the pipe cuts them."""
    texts = [json.dumps(each, indent=1) + "\n" for each in (document(side([1], 1)), document())]
    for whole in ("".join(texts), "fio: a {warning}\n" + "\n".join(texts)):
        assert len(fio.Documents().feed(whole)) == 2
    assert fio.Documents().feed(texts[0][:-3]) == []


@pytest.mark.parametrize("bad", [{}, {"jobs": []}, {"jobs": [{}]}, {"jobs": 3},
                                 document({"total_ios": 1})])
def test_other_json(bad):
    with pytest.raises(BenchError, match="JSON is not as expected"):
        fio.moment(bad)


def test_error_of_a_job():
    with pytest.raises(BenchError, match="error 5 .*Input/output"):
        fio.moment(document(error=5))


def test_job_file():
    text = fio.job_file({"direct": 1}, [("a", {"rw": "read"}), ("b", {"stonewall": None})])
    assert text == "[global]\ndirect=1\n\n[a]\nrw=read\n\n[b]\nstonewall\n"


def test_dd():
    assert dd.numbers("1+0 records in\n67108864 bytes (67 MB, 64 MiB) copied, 0.5 s, 134 MB/s\n"
                      ) == (67108864, 0.5)
    for text in ("", "dd: failed\n", "5 bytes copied, 0 s, 1 MB/s\n"):
        with pytest.raises(BenchError, match="no speed"):
            dd.numbers(text)
    argv = dd.argv("/dev/zero", "/dev/x", 4096, 8192, "oflag", flush=True, device=True)
    assert argv == ["dd", "if=/dev/zero", "of=/dev/x", "bs=4096", "count=2", "oflag=direct",
                    "conv=fsync,notrunc,nocreat"]


@pytest.mark.parametrize("text, size", [("512", 512), ("4k", 4096), ("1M", 1 << 20),
                                        ("2GiB", 2 << 30), ("1t", 1 << 40)])
def test_sizes(text, size):
    assert units.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "k", "1.5m", "4 k x", "9999999t", "1e3", "٣"])
def test_bad_sizes(text):
    with pytest.raises(BadInput, match="^--witness .*: must be a whole number above 0"):
        units.size_of("--witness")(text)


def test_units():
    shorts = [units.short(count) for count in (512, 1024, 1536, 1 << 20)]
    assert shorts == ["512", "1K", "1536", "1M"]
    assert units.size(1536) == "1.5 KiB" and units.clock(3725) == "1:02:05"


@pytest.mark.parametrize("microseconds, text", [
    (0, "0.00 us"), (0.04, "0.0400 us"), (4.5, "4.50 us"), (250, "250 us"), (999.4, "999 us"),
    (999.96, "1.00 ms"), (1500, "1.50 ms"), (999_960, "1.00 s"), (12_345_678, "12.3 s")])
def test_durations_have_three_digits(microseconds, text):
    assert units.duration(microseconds) == text


def test_disk_rates():
    """4 requests are active if the device accepts 4, and the others wait."""
    before = dict.fromkeys(diskstats.FIELDS, 0)
    after = {"reads": 100, "read_sectors": 800, "writes": 50, "written_sectors": 400,
             "busy_ms": 900, "weighted_ms": 6000, "looks": 20, "waiting": 5}
    found = diskstats.rates(before, after, 1.0, 4)
    assert (found["r_s"], found["w_s"], found["kr_s"], found["kw_s"]) == (100, 50, 400, 200)
    assert (found["wait"], found["actv"], found["w_percent"], found["b_percent"]) == (2, 4, 25, 90)
    assert found["svc_t"] == pytest.approx(4 / 150 * 1000)
    assert diskstats.rates(before, after, 1.0, None)["wait"] == 0


def test_a_machine_without_fio(monkeypatch, tmp_path):
    """Only what runs fio needs it, and of a certain version."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "virtualization", lambda: "none")
    assert machine.describe()["fio"] == "no fio"
    with pytest.raises(BadInput, match="missing programs: fio"):
        machine.fio_version()
    (tmp_path / "fio").write_text("#!/bin/sh\necho fio-2.21\n")
    (tmp_path / "fio").chmod(0o755)
    assert machine.describe()["fio"] == "fio-2.21"
    with pytest.raises(BadInput, match="fio-2.21: too old"):
        machine.fio_version()


@pytest.mark.parametrize("virtualization, cpu, emulated", [
    ("qemu", "AMD EPYC Processor", True), ("qemu", "QEMU TCG CPU version 2.5+", True),
    ("QEMU", "QEMU TCG CPU version 2.5+", True), ("kvm", "AMD EPYC Processor", False),
    ("none", "AMD EPYC 7763", False)])
def test_emulated_processors(monkeypatch, virtualization, cpu, emulated):
    """A guest may give its emulated processor any name."""
    monkeypatch.setattr(machine, "_field", lambda _text, _key: cpu)
    monkeypatch.setattr(machine, "meminfo", lambda _key: 1 << 30)
    monkeypatch.setattr(machine, "busy_percent", lambda: 0.0)
    monkeypatch.setattr(machine, "virtualization", lambda: virtualization)
    described = machine.describe()
    assert described["emulated"] is emulated
    assert any("emulated" in text for text in machine.warnings(described)) is emulated


def test_no_mean_above_the_longest():
    """The edges of bins say that the longest latency of an interval is below its mean."""
    early = fio.Counters(1, 4096, 900.0, 900.0 ** 2, 900.0, {900_000: 1})
    late = fio.Counters(3, 3 * 4096, 2500.0, 900.0 ** 2 + 2 * 800.0 ** 2, 900.0,
                        {900_000: 1, 790_000: 2})
    part = late - early
    assert part.mean() == part.longest == 800.0
