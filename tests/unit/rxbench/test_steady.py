# SPDX-License-Identifier: GPL-2.0-only
"""Steady state: five rounds within 20 % that drift by 10 % at most, and their evaluation."""

import os
import random

import pytest

from conftest import MACHINE
from rxbench.report import document, markdown, text
from rxbench.run import rounds
from rxbench.run.plan import FIO, LONGEST, NINES, Case, Plan, Round, Subject
from rxbench.run.runner import Outcome
from rxbench.system import machine
from rxbench.system.errors import BadInput
from rxbench.tools import fio, steady
from rxbench.workloads import profile


@pytest.mark.parametrize("amounts, wanted", [
    ([100, 100, 100, 100, 100], True),
    # 20 % apart without a trend, and a little more.
    ([100, 90, 110, 95, 105], True), ([100, 89.9, 110.1, 95, 105], False),
    # 10 % from the first to the last, up and down, and a little more.
    ([95, 97.5, 100, 102.5, 105], True), ([105, 102.5, 100, 97.5, 95], True),
    ([94.9, 97.4, 100, 102.6, 105.1], False), ([105.1, 102.6, 100, 97.4, 94.9], False),
    # One alone is far off; a step; nothing at all.
    ([100, 100, 70, 100, 100], False), ([92, 92, 100, 108, 108], False), ([0, 0, 0, 0, 0], False),
])
def test_window(amounts, wanted):
    assert rounds.Window.of(amounts).steady is wanted


def test_window_by_hand():
    """Least squares over 0 to 4 of 1, 2, 2, 3, 4: a slope of 0.7, a mean of 2.4."""
    window = rounds.Window.of([1, 2, 2, 3, 4])
    assert window.range_percent == pytest.approx(100 * 3 / 2.4)
    assert window.slope_percent == pytest.approx(100 * 0.7 * 4 / 2.4)


def ended(amounts):
    """Return the rounds that are used of a series."""
    series = iter(amounts)
    return rounds.until_steady(lambda: next(series), lambda amount: amount, rounds.MOST)


def test_fewer_than_five_say_nothing():
    found = ended([7] * 5)
    assert found.taken == [7] * 5 and found.window().steady
    assert rounds.Rounds([7] * 4, [7] * 4).window() is None


def test_a_fresh_disk_becomes_slower():
    """A fresh disk is fast, becomes slower, and is steady when its last five rounds are slow."""
    falling = [1000, 980, 600, 400, 320, 290] + [280] * 20
    found = ended(falling)
    assert found.last() == falling[len(found.taken) - 5:len(found.taken)]
    assert found.window().steady and 8 <= len(found.taken) <= 10 and max(found.last()) <= 320


@pytest.mark.parametrize("series", [[100, 200] * 20, [1.1 ** count for count in range(40)]],
                         ids=["swinging", "growing"])
def test_never_steady(series):
    """The run still ends, with the last five rounds, and the report says so."""
    found = ended(series)
    assert len(found.taken) == rounds.MOST and not found.window().steady
    assert found.last() == series[20:25]


def test_noise_of_a_few_percent_is_steady():
    rng = random.Random(1)
    assert all(len(ended([rng.gauss(100, 2) for _ in range(25)]).taken) == 5 for _ in range(100))


class Fio:
    """Rounds of a second, with these requests each; the last ten of a round take `longest` us."""

    def __init__(self, monkeypatch, counts, longest=900):
        self.counts, self.longest, self.options = iter(counts), longest, []
        monkeypatch.setattr(fio, "total", self.total)

    def total(self, _path, options):
        self.options.append(options)
        count = next(self.counts)
        side = fio.Counters(count, count * 4096, count * 100.0, count * 100.0 ** 2, self.longest,
                            {100_000: count - 10, 1000 * self.longest: 10})
        return fio.Moment(1.0, side, fio.Counters())


def test_the_last_five_rounds_are_the_result(monkeypatch):
    faked = Fio(monkeypatch, [900_000, 600_000, *[300_000] * 20])
    sample = steady.measure("/x", {"rw": "randread"}, 25)
    assert sample["facts"]["steady"] == {
        "reached": True, "rounds": 7, "iops": [900_000, 600_000, *[300_000] * 5],
        "range_percent": 0, "slope_percent": 0}
    assert sample["metrics"]["iops"] == 300_000 and sample["metrics"]["lat_max_us"] == 900
    # 50 of 1,500,000 are that late: more than one of 100,000, fewer than one of 10,000.
    assert sample["metrics"]["lat_p99999_us"] == 900 and sample["percentiles"]["99.99"] == 100
    assert [second for second, _ in sample["series"]["mb_s"]] == [1, 2, 3, 4, 5, 6, 7]
    assert all(options["randrepeat"] == 0 for options in faked.options)


@pytest.mark.parametrize("order, begins", [("write", [0, 3, 6, 0, 3]), ("read", [0, 3, 6, 0, 3]),
                                           ("randwrite", [0] * 5), ("randrw", [0] * 5)])
def test_sequential_rounds_go_on(monkeypatch, order, begins):
    """So each part of the file is used, but for the end that is too small for a round."""
    faked = Fio(monkeypatch, [3 << 8] * 5)
    steady.measure("/x", {"rw": order, "size": 10 << 20}, 5)
    assert [options.get("offset", 0) >> 20 for options in faked.options] == begins
    assert all(options.get("offset", 0) + options["size"] == 10 << 20 for options in faked.options)


@pytest.mark.machine
def test_where_fio_goes_on(tmp_path, monkeypatch):
    """Five rounds of 64 requests of 4 KiB each, and the first of them again."""
    monkeypatch.setitem(fio.BASE, "direct", 0)
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    sequence = steady.Sequence(str(tmp_path / "file"), {
        "rw": "write", "bs": 4096, "size": 1 << 20, "number_ios": 64,
        "write_iolog": tmp_path / "log"})
    begins = []
    for _round in range(5):
        sequence.take()
        offsets = [int(line.split()[3]) for line in (tmp_path / "log").read_text().splitlines()
                   if line.split()[2:3] == ["write"]]
        assert len(offsets) == 64 and max(offsets) == offsets[0] + 63 * 4096
        begins.append(offsets[0])
        os.unlink(tmp_path / "log")
    assert begins == [0, 1 << 18, 2 << 18, 3 << 18, 0]


def test_too_few_requests_have_no_five_nines(monkeypatch):
    Fio(monkeypatch, [199_999] * 5)
    sample = steady.measure("/x", {"rw": "randread"}, 25)
    assert sample["metrics"]["lat_p99999_us"] is None
    assert "99.999" not in sample["percentiles"] and "99.99" in sample["percentiles"]
    Fio(monkeypatch, [200_000] * 5)
    assert steady.measure("/x", {"rw": "randread"}, 25)["metrics"]["lat_p99999_us"] == 900


def test_who_is_not_steady_is_named(monkeypatch):
    """The report names the unsteady subject, with the tail columns, also in Markdown."""
    Fio(monkeypatch, [10_000, 20_000] * 13)
    monkeypatch.setattr(machine, "processor_caches", lambda: 0)
    options = profile_options("--steady", "--seconds", "7")
    case = Case("randread-4k", "4K random read")
    place = Place()
    made = profile.Profile(options, [place], {case.name: ({"rw": "randread"}, case)}, 1 << 20, 7)
    sample = made.measure(place, "/x", case)
    plan = Plan(subjects=[Subject("a", "A")], rounds=[Round((case,))], open=None, repeats=1,
                metrics=(*FIO, NINES, LONGEST), settings={"steady": True}, notes=made.notes)
    report = document.make("profile", ["rxbench"], "now", MACHINE, [], plan, Outcome(results=[
        {"case": case.name, "subject": "a", "repeat": 0, "order": 0, **sample}]))
    shown = " ".join(" ".join(text.render(report)).split())
    for part in ("5 rounds of 7 s", "Not steady after 25 rounds: 4K random read, A: the last 5 "
                 "differ by 71 %", "the size of the CPU caches", "longest latency"):
        assert part in shown
    assert "99.999 % latency" in "\n".join(markdown.render([report]))


class Place:
    name, title, cached, has_node = "a", "A", False, False


def profile_options(*args):
    from rxbench import cli
    return cli.parser().parse_args(["profile", "/tmp", *args])


@pytest.mark.parametrize("args, caches, wanted", [
    (["--steady"], 64 << 20, 1 << 30), (["--steady"], (512 << 20) + 1, (2048 + 1) << 20),
    (["--steady", "--profile", "cache"], 64 << 20, 256 << 20), ([], 4 << 30, 1 << 30),
    (["--steady", "--size", "256m"], 64 << 20, 256 << 20), (["--size", "4m"], 64 << 20, 4 << 20),
])
def test_the_file_is_larger_than_the_caches(monkeypatch, args, caches, wanted):
    monkeypatch.setattr(machine, "processor_caches", lambda: caches)
    assert profile._size(profile_options(*args)) == wanted


@pytest.mark.parametrize("args, wanted", [
    (["--steady", "--most-rounds", "4"], "--most-rounds 4: must be a whole number from 5"),
    (["--steady", "--most-rounds", "x"], "--most-rounds x: must be a whole number from 5"),
    (["--most-rounds", "9"], "--most-rounds 9: requires --steady"),
    (["--steady", "--size", "255m"], "--size 255 MiB: must be 256 MiB or more with --steady"),
    (["--size", "512k"], "--size 524288: must be whole MiB"),
    (["--size", "1544k"], "--size 1581056: must be whole MiB"),
])
def test_bad_arguments(monkeypatch, args, wanted):
    """Bad arguments are reported before any other check."""
    monkeypatch.setattr(machine, "processor_caches", lambda: 64 << 20)
    with pytest.raises(BadInput, match=wanted):
        profile.plan(profile_options(*args))


def test_caches_are_counted_once(monkeypatch):
    """Two processors with 32K for data and 1M of their own, and 32M for both."""
    levels = {"index0": ("1", "Data", "{}", "32K"), "index1": ("1", "Instruction", "{}", "32K"),
              "index2": ("2", "Unified", "{}", "1024K"),
              "index3": ("3", "Unified", "0-1", "32768K")}
    files = {f"/cpu{cpu}/{index}/{name}": value.format(cpu) for cpu in (0, 1)
             for index, values in levels.items()
             for name, value in zip(("level", "type", "shared_cpu_list", "size"), values)}
    monkeypatch.setattr(machine.glob, "glob", lambda _pattern: [
        f"/cpu{cpu}/{index}" for cpu in (0, 1) for index in levels])
    monkeypatch.setattr(machine, "read", lambda path: files.get(path, ""))
    assert machine.processor_caches() == (2 * 32 << 10) + (2 << 20) + (32 << 20)
