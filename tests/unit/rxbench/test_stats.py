# SPDX-License-Identifier: GPL-2.0-only
"""Medians, ratios, noise, and the comparison of reports."""

import random

import pytest

from rxbench.report import compare, document, stats
from rxbench.system.errors import BadInput
from rxbench.system.units import number


def test_describe():
    found = stats.describe([4.0, 1.0, 2.0])
    assert (found["n"], found["median"], found["low"], found["high"]) == (3, 2.0, 1.0, 4.0)
    assert found["spread_percent"] == pytest.approx(150)
    assert stats.describe([0.0] * 3)["spread_percent"] == 0
    assert stats.describe([0.0, 0.0, 100.0])["spread_percent"] is None
    assert stats.describe([1.0, 2.0])["spread_percent"] is None


@pytest.mark.parametrize("freedom, t", [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262),
                                        (30, 2.042)])
def test_students_t(freedom, t):
    """The quantiles equal those of published tables."""
    assert stats.critical(freedom) == pytest.approx(t, abs=0.001)
    assert stats.two_sided(t, freedom) == pytest.approx(0.05, abs=0.0001)
    assert stats.two_sided(0, freedom) == pytest.approx(1)


def test_ratio_of_pairs():
    """A disturbance that both subjects share in a repeat does not hide the difference."""
    base = [100.0, 50.0, 200.0, 120.0, 90.0]
    found = stats.ratio([2.00 * base[0], 2.02 * base[1], 1.98 * base[2], 2.01 * base[3],
                         1.99 * base[4]], base)
    assert found["median"] == pytest.approx(2, rel=0.01)
    assert found["low"] < 2 < found["high"] and found["within_noise"] is False


def test_ratio_within_noise():
    assert stats.ratio([100, 120, 90], [110, 100, 95])["within_noise"] is True
    assert stats.ratio([100.1, 100.2, 100.3], [100, 100.1, 100.2])["within_noise"] is True
    assert stats.ratio([100], [50])["within_noise"] is None


def test_ratio_is_that_of_the_printed_medians():
    """Even if a repeat of one of them has failed."""
    values = {"a": {2: 300.0, 3: 310.0, 4: 320.0},
              "b": {0: 100.0, 1: 110.0, 2: 300.0, 3: 310.0, 4: 320.0}}
    results = [{"case": "c", "subject": name, "repeat": repeat, "metrics": {"mb_s": value}}
               for name, rows in values.items() for repeat, value in rows.items()]
    a, b = document.summarize([{"name": "mb_s"}], [{"name": "a"}, {"name": "b"}],
                              [{"name": "c", "base": "a"}], results)
    assert (a["median"], b["median"]) == (310, 300)
    assert b["ratio"]["median"] == pytest.approx(300 / 310)
    assert b["ratio"]["within_noise"] is None


@pytest.mark.parametrize("better, best, other", [("higher", "a", "b"), ("lower", "c", "b")])
def test_the_factor_of_a_verdict_is_that_of_its_row(better, best, other):
    """Even if a repeat of a third subject has failed, and their number is even then."""
    amounts = {"a": (148, 150, 152, 156, 154), "b": (100, 101, 102, 99, 90),
               "c": (50, 51, 49, 50)}
    metric, case = {"name": "m", "better": better}, {"name": "1", "base": other}
    subjects = [{"name": name, "title": name} for name in amounts]
    results = [{"case": "1", "subject": name, "repeat": repeat, "metrics": {"m": amount}}
               for name, row in amounts.items() for repeat, amount in enumerate(row)]
    rows = {row["subject"]: row for row in document.summarize([metric], subjects, [case], results)}
    found, = document.verdicts(metric, subjects, [case], results)
    ratio = rows[best]["ratio"]["median"]
    assert found["best"] == best
    assert f"{ratio if better == 'higher' else 1 / ratio:.2f} times as good as" in found["text"]


@pytest.mark.parametrize("subjects", [3, 4, 13])
def test_no_verdict_contradicts_its_row(subjects):
    """With three repeats, the t of many subjects is below the one that a pair alone needs."""
    rng, checked = random.Random(1), 0
    for _ in range(400):
        noisy = {name: rng.lognormvariate(-4, 1) for name in range(subjects)}
        rows = {name: [(1 + 0.2 * (name == 0)) * rng.lognormvariate(0, noise) for _ in range(3)]
                for name, noise in noisy.items()}
        (best, *_others), beaten = stats.ranking(rows, subjects * (subjects - 1) // 2)
        checked += len(beaten)
        for other in beaten:
            assert stats.ratio(rows[best], rows[other])["within_noise"] is False
    assert checked > 100


def test_a_failing_subject_does_not_hide_the_verdict():
    """One that failed in most repeats is left out and named."""
    amounts = {"a": (200, 202, 201), "b": (100, 101, 102), "c": (50,), "d": (10, 11)}
    subjects = [{"name": name, "title": f"the {name}"} for name in amounts]
    results = [{"case": "1", "subject": name, "repeat": repeat, "metrics": {"m": amount}}
               for name, row in amounts.items() for repeat, amount in enumerate(row)]

    def verdicts(names):
        return document.verdicts({"name": "m", "better": "higher"}, subjects, [{"name": "1"}],
                                 [row for row in results if row["subject"] in names])

    found, = verdicts("abcd")
    assert (found["best"], found["beaten"]) == ("a", ["b"])
    assert found["text"] == ("the a is best, 1.99 times as good as the b; fewer than three "
                             "repeats: the c and the d")
    assert "fewer" not in verdicts("ab")[0]["text"]
    assert verdicts("acd") == [] and verdicts("cd") == []


@pytest.mark.parametrize("value, text", [
    (None, "-"), (0, "0.00"), (0.00512, "0.00512"), (0.0123, "0.0123"), (0.5, "0.500"),
    (0.9996, "1.00"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (1234.5, "1,234"),
    (-0.0123, "-0.0123"), (1e-9, "0.000000"), (float("inf"), "inf")])
def test_three_digits(value, text):
    assert number(value) == text


def test_ratio_is_rarely_wrong():
    """Equal subjects are distinguished in about 5 of 100 cases, and no more."""
    rng = random.Random(1)
    wrong = sum(not stats.ratio([rng.lognormvariate(0, 0.1) for _ in range(5)],
                                [rng.lognormvariate(0, 0.1) for _ in range(5)])["within_noise"]
                for _ in range(1000))
    assert wrong < 80


def test_holm():
    assert stats.holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06],
                                                                 nan_ok=True)


@pytest.mark.parametrize("noise", [0.005, 0.03, 0.15])
@pytest.mark.parametrize("repeats", [3, 5])
def test_identical_runs_do_not_differ(make_report, noise, repeats):
    """In nine of ten cases: a run of 16 measurements against another of the same."""
    differing = 0
    for seed in range(100):
        before, after = (make_report(2 * seed + half, {"a": 1000.0, "b": 50.0}, repeats, noise)
                         for half in (0, 1))
        rows = compare.compare(before, after)
        assert len(rows) == 16
        differing += any(row["verdict"] in (compare.BETTER, compare.WORSE) for row in rows)
    assert differing <= 10


def test_a_change_is_seen(make_report):
    before = make_report(1, {"a": 100.0, "b": 100.0})
    after = make_report(2, {"a": 75.0, "b": 140.0})
    verdicts = {(row["subject"], row["verdict"]) for row in compare.compare(before, after)}
    assert verdicts == {("a", compare.WORSE), ("b", compare.BETTER)}
    rows = compare.compare(before, after)
    assert len(compare.worse(rows, 10)) == 8 and not compare.worse(rows, 40)


def speeds(make_report, *rows):
    """Return a report with a case for each row of MB/s, one a repeat."""
    report = make_report(1, {"a": 1.0}, repeats=len(rows[0]), cases=len(rows))
    for result in report["results"]:
        result["metrics"]["mb_s"] = rows[int(result["case"][1:])][result["repeat"]]
    return report


def test_a_change_within_the_noise_is_not_denied(make_report):
    """Only a small printed change is no difference; a loss that may be noise is not certain."""
    before = speeds(make_report, (100.0, 105.0, 95.0), (100.0, 105.0, 95.0))
    after = speeds(make_report, (80.0, 95.0, 70.0), (102.0, 101.0, 99.0))
    rows = compare.compare(before, after)
    assert [row["verdict"] for row in rows] == [compare.UNCERTAIN, compare.SAME]
    lines = compare.render(rows, before, after)
    assert "0 better, 0 worse, 1 no difference, 1 not certain" in lines
    assert "more --repeats" in "\n".join(lines)
    assert not compare.worse(rows, 10) and compare.doubt(rows, after, 30) is None
    assert "1 of 2 results" in compare.doubt(rows, after, 10)


def test_less_is_better(make_report):
    before, after = make_report(1, {"a": 100.0}), make_report(2, {"a": 50.0})
    for each in (before, after):
        each["metrics"] = [dict(each["metrics"][2])]
    assert {row["verdict"] for row in compare.compare(before, after)} == {compare.WORSE}


def test_times_get_worse_by_more_than_100_percent(make_report):
    """--fail-if-worse uses the printed numbers."""
    before = make_report(1, {"a": 100.0})
    for factor, percent, worse in ((1.9, 50, 8), (1.9, 100, 0), (2.5, 100, 8)):
        after = make_report(2, {"a": 100.0})
        for each in (before, after):
            each["metrics"] = [{"name": "total_s", "title": "total", "unit": "s",
                                "better": "lower"}]
            for row in each["results"]:
                speed = row["metrics"]["mb_s"]
                row["metrics"]["total_s"] = (factor if each is after else 1.0) * 1e4 / speed
        rows = compare.compare(before, after)
        assert len(compare.worse(rows, percent)) == worse
        for row in rows:
            assert row["worse_by"] == pytest.approx(row["change"])


@pytest.mark.parametrize("old, new, change, verdict", [
    (0.0, 30.0, "+30.0 points", compare.BETTER), (60.0, 30.0, "-30.0 points", compare.WORSE),
    (0.5, 1.0, "+0.5 points", compare.SAME)])
def test_percentages_change_by_points(make_report, old, new, change, verdict):
    """A base of 0 has no quotient, and twice a hit ratio of 0.5 % is not much."""
    before, after = (make_report(1, {"a": 1.0}, repeats=3, cases=1) for _ in range(2))
    for report, hits in ((before, old), (after, new)):
        for row in report["results"]:
            row["metrics"]["hit_percent"] = hits + 0.1 * row["repeat"]
    rows = compare.compare(before, after, "hit_percent")
    assert rows[0]["verdict"] == verdict
    assert change in compare.render(rows, before, after, "hit_percent")[2]
    assert len(compare.worse(rows, 29)) == (verdict == compare.WORSE)
    assert not compare.worse(rows, 31)


def test_what_is_missing_is_told(make_report):
    before, after = make_report(1, {"a": 1.0, "b": 1.0}), make_report(2, {"a": 1.0, "c": 1.0})
    after["results"] = [row for row in after["results"]
                        if (row["case"], row["subject"]) != ("c3", "a")]
    rows = compare.compare(before, after)
    gone, new = compare.missing(before, after)
    assert len(rows) == 7 and len(gone) == 9 and len(new) == 8 and ("c3", "a") in gone
    lines = compare.render(rows, before, after)
    assert "- Only in the first report: case 3, the a." in lines
    assert "- Only in the second report: case 0, the c." in lines


def test_another_metric(make_report):
    before, after = (make_report(seed, {"a": level}, noise=0.005)
                     for seed, level in ((1, 100.0), (2, 50.0)))
    for row in after["results"]:
        row["metrics"]["mb_s"] *= 2
    assert {row["verdict"] for row in compare.compare(before, after)} == {compare.SAME}
    rows = compare.compare(before, after, "lat_mean_us")
    assert {(row["metric"], row["verdict"]) for row in rows} == {("lat_mean_us", compare.WORSE)}
    assert "before us" in compare.render(rows, before, after, "lat_mean_us")[0]
    with pytest.raises(BadInput, match="--metric speed: must be one of mb_s, iops, lat_mean_us"):
        compare.compare(before, after, "speed")
    with pytest.raises(BadInput, match="in common that have a hit_percent"):
        compare.compare(before, after, "hit_percent")
    after["metrics"] = after["metrics"][1:]
    with pytest.raises(BadInput, match="second is iops: select one with --metric; must be one"):
        compare.compare(before, after)
    assert compare.compare(before, after, "iops")


def test_measured_once_is_unknown(make_report):
    rows = compare.compare(make_report(1, {"a": 100.0}, 1), make_report(2, {"a": 10.0}, 1))
    assert {row["verdict"] for row in rows} == {compare.UNKNOWN} and not compare.worse(rows, 0)


def test_incomparable(make_report):
    before, after = make_report(1, {"a": 1.0}), make_report(2, {"b": 1.0})
    with pytest.raises(BadInput, match="in common"):
        compare.compare(before, after)
    after["workload"] = "dd"
    with pytest.raises(BadInput, match="profile.*dd"):
        compare.compare(before, after)


def test_what_differs_is_told(make_report):
    before, after = make_report(1, {"a": 1.0}), make_report(2, {"a": 1.0})
    after["machine"] = {**after["machine"], "kernel": "7.2"}
    after["settings"] = {"size": 2}
    text = "\n".join(compare.render(compare.compare(before, after), before, after))
    assert "kernel 6.12 before, 7.2 after" in text and "size 1 before, 2 after" in text


def beaten_by_chance(make_report, subjects, **options):
    """Return the number of 1,000 reports of equals in which one is beaten."""
    levels = {f"s{number}": 100.0 for number in range(subjects)}
    return sum(any(verdict["beaten"] for verdict in
                   make_report(seed, levels, **options)["verdicts"]) for seed in range(1000))


@pytest.mark.parametrize("subjects, cases, repeats, noise", [(13, 1, 5, 0.05), (13, 1, 3, 0.2),
                                                             (3, 4, 3, 0.05), (2, 1, 5, 0.1)])
def test_equals_beat_nobody(make_report, subjects, cases, repeats, noise):
    assert beaten_by_chance(make_report, subjects, cases=cases, repeats=repeats,
                            noise=noise) <= 50


def test_unsteady_equals_beat_nobody(make_report, monkeypatch):
    """One of 13 is ten times as noisy as the others, at five repeats."""
    def noisy(rng, name):
        return rng.lognormvariate(0, 0.3 if name == "s5" else 0.03)
    monkeypatch.setattr("conftest.noise_of", lambda rng, name, noise: noisy(rng, name))
    assert beaten_by_chance(make_report, 13, cases=1) <= 50


def test_a_real_difference_is_found(make_report):
    """20 % at five repeats with a spread of 5 %, among 13."""
    levels = {f"s{number}": 100.0 for number in range(12)}
    # Five normal values lie 2.33 deviations apart on average.
    noise = 0.05 / 2.33
    found = 0
    for seed in range(200):
        verdict, = make_report(seed, {**levels, "fast": 120.0}, cases=1, noise=noise)["verdicts"]
        found += verdict["best"] == "fast" and len(verdict["beaten"]) == 12
    assert found >= 180


def test_two_repeats_tell_nothing(make_report):
    """Two repeats do not even show that 12 s are more than one."""
    report = make_report(1, {"a": 0.75, "b": 12.3}, repeats=2)
    assert report["verdicts"] == []
    assert {row["ratio"]["within_noise"] for row in report["summary"] if row["ratio"]} == {None}
    assert stats.chance([1.0, 1.01], [9.0, 9.01]) is None
