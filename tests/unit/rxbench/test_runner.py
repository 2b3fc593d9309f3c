# SPDX-License-Identifier: GPL-2.0-only
"""The runner: its order, and the results that it keeps when a run ends early."""

import collections
import contextlib
import glob
import os
import random
import signal

import pytest

from conftest import MACHINE
from rxbench.report import document, text
from rxbench.run.plan import MB_S, Case, Plan, Round, Subject
from rxbench.run.progress import Lines, Silent
from rxbench.run.runner import Runner
from rxbench.system import places, undo
from rxbench.system.errors import BenchError, Interrupted
from rxbench.tools import fio

SUBJECTS = [Subject(name, name) for name in "abc"]
ONE, TWO, THREE = (Case(str(number), f"case {number}") for number in (1, 2, 3))


class Fake:
    """Record what the runner does; act may do more."""

    def __init__(self, act=lambda subject, case, repeat: None, rounds=None, repeats=3):
        self.act, self.seen, self.undone, self.complaints = act, [], [], []
        self.plan = Plan(subjects=SUBJECTS, rounds=rounds or [Round((ONE,)), Round((TWO, THREE))],
                         open=self.open, set_up=self.set_up, repeats=repeats)

    def set_up(self, undoing):
        undoing.do("a thing", lambda: None, lambda _: self.undone.append("a thing"))

    @contextlib.contextmanager
    def open(self, subject, _round, repeat):
        def measure(case):
            self.seen.append((repeat, subject.name, case.name))
            self.act(subject.name, case.name, repeat)
            return {"metrics": {"mb_s": 1.0}}
        try:
            yield measure
        finally:
            self.undone.append(subject.name)

    def run(self):
        return Runner(self.plan, Silent(), self.complaints.append).run()


def test_order_interleaves_and_rotates():
    fake = Fake()
    outcome = fake.run()
    first = [(subject, case) for repeat, subject, case in fake.seen if repeat == 0]
    assert first == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("a", "3"), ("b", "2"),
                     ("b", "3"), ("c", "2"), ("c", "3")]
    begins = [[subject for repeat, subject, case in fake.seen if (repeat, case) == (number, "1")]
              for number in range(3)]
    assert begins == [["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]]
    assert [row["order"] for row in outcome.results] == list(range(27))
    assert fake.undone[-1] == "a thing" and not outcome.failures and not outcome.ended_by


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_each_follows_others(count):
    """What a subject leaves behind, such as pages to be written, does not meet always the same."""
    plan = Plan(subjects=[Subject(str(number), "") for number in range(count)],
                rounds=[Round((ONE,))], open=None)
    before = {subject.name: set() for subject in plan.subjects}
    begins = []
    for repeat in range(2 * count):
        order = [subject.name for _round, subject in plan.steps(repeat)]
        assert sorted(order) == sorted(before)
        begins.append(order[0])
        for earlier, later in zip(order, order[1:]):
            before[later].add(earlier)
    assert len(set(begins[:count])) == count
    assert all(len(earlier) >= min(2, count - 1) for earlier in before.values())


def test_rounds_of_some_subjects():
    fake = Fake(rounds=[Round((ONE,), ("b", "c")), Round((TWO,), ("a",))], repeats=2)
    fake.run()
    assert fake.seen == [(0, "b", "1"), (0, "c", "1"), (0, "a", "2"),
                         (1, "c", "1"), (1, "b", "1"), (1, "a", "2")]


def test_a_failure_costs_only_its_round():
    def act(subject, case, repeat):
        if (subject, case, repeat) == ("b", "2", 1):
            raise BenchError("it broke")
    fake = Fake(act)
    outcome = fake.run()
    assert len(outcome.results) == 25
    assert outcome.failures == [{"case": "2", "subject": "b", "repeat": 1,
                                 "message": "it broke; skipped: case 3"}]
    assert fake.complaints == ["b, case 2: it broke; skipped: case 3"]


@pytest.mark.parametrize("where", ["measure", "open", "set_up"])
def test_an_error_that_nobody_expects(where):
    """It is a failure like any other, and the report has the results of the other cases."""
    def act(subject, case, repeat):
        if where == "measure" and (subject, case, repeat) == ("b", "2", 1):
            raise ValueError("x")

    def broken(*_where):
        raise ValueError("x")
    fake = Fake(act)
    if where != "measure":
        setattr(fake.plan, where, broken)
    outcome = fake.run()
    assert len(outcome.results) == (25 if where == "measure" else 0)
    assert {each["message"].removesuffix("; skipped: case 3")
            for each in outcome.failures} == {"ValueError('x')"}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_measured(signum):
    undo.catch_signals()
    try:
        fake = Fake(lambda *step: os.kill(os.getpid(), signum) if step == ("c", "2", 0) else None)
        outcome = fake.run()
    finally:
        for each in undo.SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert outcome.ended_by == signum.name and outcome.signum == signum
    assert len(outcome.results) == 8 and fake.undone[-1] == "a thing"


def test_what_cannot_be_undone_is_told():
    fake = Fake(repeats=1)

    def set_up(undoing):
        def fail(_made):
            raise BenchError("stuck")
        undoing.do("a thing", lambda: None, fail)
    fake.plan.set_up = set_up
    outcome = fake.run()
    assert len(outcome.results) == 9 and "stuck" in outcome.failures[0]["message"]


@pytest.mark.parametrize("ends", [None, Interrupted(signal.SIGINT)])
def test_nothing_is_measured_beside_what_is_left(ends):
    """A failure to undo ends the run, and does not hide a signal."""
    fake = Fake(repeats=2)
    left = {}

    @contextlib.contextmanager
    def opened(subject, _round, _repeat):
        def fail(_made):
            raise BenchError("stuck")

        def measure(case):
            fake.seen.append((subject.name, case.name))
            if ends:
                raise ends
            return {"metrics": {"mb_s": 1.0}}
        with places.since(left["undo"]):
            left["undo"].do("a mount", lambda: None, fail)
            yield measure
    fake.plan.set_up = lambda undoing: left.update(undo=undoing)
    fake.plan.open = opened
    outcome = fake.run()
    assert fake.seen == [("a", "1")]
    assert outcome.ended_by == (ends and "SIGINT")
    assert "stuck" in outcome.failures[0]["message"]


def test_lines(capsys):
    import sys
    fake = Fake(repeats=1)
    Runner(fake.plan, Lines(fake.plan, sys.stdout), lambda text: None).run()
    assert capsys.readouterr().out.splitlines()[0] == "1/1 a: case 1"


def nices():
    """Return the nice values of all threads of the child processes, and their numbers."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/task/*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found[int(fields[16])] = found.get(int(fields[16]), 0) + 1
    return found


@pytest.mark.machine
def test_the_counter_goes_first(tmp_path):
    """fio's jobs have the usual priority, and the process that counts them a higher one."""
    seen = {}
    options = {"ioengine": "psync", "thread": 1, "rw": "randread", "bs": "4k", "size": "1m",
               "time_based": 1, "runtime": 4, "filename": tmp_path / "data", "numjobs": 24}
    (tmp_path / "data").write_bytes(bytes(1 << 20))

    def look(_moment):
        for nice, count in nices().items():
            seen[nice] = max(count, seen.get(nice, 0))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    fio.run(options, [("jobs", {})], on_moment=look)
    assert seen.get(before, 0) >= 2 and seen.get(before - 10, 0) >= 1 and len(seen) == 2
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def noisy(sigma, subjects=3, repeats=5, most=10, seed=0):
    """A plan of one case with equal subjects, whose measurements have this noise."""
    rng = random.Random(seed)
    named = [Subject(str(number), str(number)) for number in range(subjects)]

    @contextlib.contextmanager
    def open_place(subject, _round, _repeat):
        yield lambda case: {"metrics": {"mb_s": 100 * rng.lognormvariate(
            0, sigma(subject.name, case.name))}}
    return Plan(subjects=named, rounds=[Round((ONE,)), Round((TWO,))], open=open_place,
                metrics=(MB_S,), repeats=repeats, most_repeats=most)


def repeats_of(outcome):
    """The number of repeats, by case and subject."""
    return collections.Counter((row["case"], row["subject"]) for row in outcome.results)


def test_more_repeats_where_the_spread_is_large():
    """All subjects of this case are repeated in turn, and no other case; the report says so."""
    plan = noisy(lambda subject, case: 0.5 if (subject, case) == ("1", "2") else 0.01, repeats=3)
    outcome = Runner(plan, Silent(), print).run()
    assert repeats_of(outcome) == {**{("1", name): 3 for name in "012"},
                                   **{("2", name): 10 for name in "012"}}
    assert plan.notes == ["Repeated more often, because the results varied: case 2 (10 times)."]
    text_of = "\n".join(text.render(document.make("dd", ["x"], "now", MACHINE, [], plan, outcome)))
    assert "Medians of 3 to 10 repeats" in text_of


@pytest.mark.parametrize("sigma, repeats, most, wanted", [
    (0.01, 3, 6, 3), (0.5, 2, 4, 2), (0.5, 3, 3, 3), (0.5, 3, 1, 3), (0.5, 5, 7, 7)])
def test_no_more_repeats(sigma, repeats, most, wanted):
    plan = noisy(lambda _subject, _case: sigma, repeats=repeats, most=most)
    assert set(repeats_of(Runner(plan, Silent(), print).run()).values()) == {wanted}
    assert bool(plan.notes) is (wanted > repeats)


def test_it_is_enough_when_it_is_known():
    """The repeats end when the result is known, neither at once nor never."""
    counts = [len(Runner(noisy(lambda *_name: 0.1, 2, 3, 30, seed), Silent(), print).run().results)
              for seed in range(20)]
    assert all(12 < count < 120 for count in counts)


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.3])
def test_more_repeats_let_equals_beat_nobody(sigma):
    """In 1,000 reports of 13 equals, at most 5 % name a beaten one, however often it repeats."""
    beaten = 0
    for seed in range(1000):
        plan = noisy(lambda *_name: sigma, 13, 5, 10, seed)
        plan.rounds = plan.rounds[:1]
        outcome = Runner(plan, Silent(), print).run()
        made = document.make("dd", ["x"], "now", MACHINE, [], plan, outcome)
        beaten += any(verdict["beaten"] for verdict in made["verdicts"])
    assert beaten <= 50
