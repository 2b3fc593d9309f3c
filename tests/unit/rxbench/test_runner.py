# SPDX-License-Identifier: GPL-2.0-only
"""The runner: its order, and what it keeps whatever ends a run."""

import contextlib
import glob
import os
import signal

import pytest

from rxbench.run.plan import Case, Plan, Round, Subject
from rxbench.run.progress import Lines, Silent
from rxbench.run.runner import Runner
from rxbench.system import undo
from rxbench.system.errors import BenchError
from rxbench.tools import fio

SUBJECTS = [Subject(name, name) for name in "abc"]
ONE, TWO, THREE = (Case(str(number), f"case {number}") for number in (1, 2, 3))


class Fake:
    """Notes what the runner does; act may do anything more."""

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
    assert begins == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert [row["order"] for row in outcome.results] == list(range(27))
    assert fake.undone[-1] == "a thing" and not outcome.failures and not outcome.ended_by


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
                                 "message": "it broke"}]
    assert fake.complaints == ["b, case 2: it broke"]


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


def test_lines(capsys):
    import sys
    fake = Fake(repeats=1)
    Runner(fake.plan, Lines(fake.plan, sys.stdout), lambda text: None).run()
    assert capsys.readouterr().out.splitlines()[0] == "1/1 a: case 1"


def nices():
    """Of all threads of our children: how many have which nice value."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/task/*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found[int(fields[16])] = found.get(int(fields[16]), 0) + 1
    return found


def test_the_counter_goes_first(tmp_path):
    """fio's jobs run as all else does, who counts them before that; intervals stay whole."""
    seen = {}
    options = {"ioengine": "psync", "thread": 1, "rw": "randread", "bs": "4k", "size": "1m",
               "time_based": 1, "runtime": 4, "filename": tmp_path / "data", "numjobs": 24}
    (tmp_path / "data").write_bytes(bytes(1 << 20))

    def look(moment):
        if 1.5 < moment.seconds < 3.5:
            for nice, count in nices().items():
                seen[nice] = max(count, seen.get(nice, 0))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    moments = fio.run(options, [("jobs", {})], on_moment=look)
    assert seen.get(before, 0) >= 24 and seen.get(before - 10, 0) >= 1 and len(seen) == 2
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    whole = fio.joined(moments, 1)
    assert [round(each.seconds) for each in whole] == [1, 2, 3, 4]
    assert all(abs(each.seconds - round(each.seconds)) < 0.25 for each in whole)
