# SPDX-License-Identifier: GPL-2.0-only
"""The path of rxbench, and made-up reports for the tests."""

import os
import random
import sys

import pytest

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "utils/rxbench"))

from rxbench.report import document  # noqa: E402
from rxbench.run.plan import FIO, Case, Metric, Plan, Round, Subject  # noqa: E402
from rxbench.run.runner import Outcome  # noqa: E402

MACHINE = {"host": "h", "kernel": "6.12", "kernel_version": "#1", "architecture": "x86_64",
           "cpu": "a <processor> & more", "cpus": 2, "memory": 4 << 30,
           "memory_available": 3 << 30, "governor": "none", "load": [0.0, 0.1, 0.2],
           "busy_percent": 1.5, "virtualization": "none", "emulated": False, "fio": "fio-3.39"}
HITS = Metric("hit_percent", "hit ratio", "%", "higher")


def noise_of(rng, _name, noise):
    """The factor by which a measurement of a subject is off."""
    return rng.lognormvariate(0, noise)


def made(seed, levels, repeats=5, noise=0.03, cases=8, unranked=()):
    """A report of subjects with these MB/s, each measurement off by some noise."""
    rng = random.Random(seed)
    subjects = [Subject(name, f"the {name}", {"device": name}, name not in unranked)
                for name in levels]
    listed = [Case(f"c{number}", f"case {number}", reference={"page": 3.5} if not number else {})
              for number in range(cases)]
    plan = Plan(subjects=subjects, rounds=[Round((case,)) for case in listed], open=None,
                metrics=(*FIO, HITS), repeats=repeats, settings={"size": 1})
    outcome = Outcome(seconds=1.0)
    for repeat in range(repeats):
        for case in listed:
            for name, level in levels.items():
                speed = level * noise_of(rng, name, noise)
                outcome.results.append({
                    "case": case.name, "subject": name, "repeat": repeat,
                    "order": len(outcome.results),
                    "metrics": {"mb_s": speed, "iops": speed * 256, "lat_mean_us": 1e5 / speed,
                                "lat_p99_us": 3e5 / speed, "hit_percent": None},
                    "percentiles": {"50": 80.0, "99": 3e5 / speed, "99.9": 9e5 / speed},
                    "series": {"mb_s": [[1.0, speed], [2.0, speed]],
                               "lat_mean_us": [[1.0, 5.0], [2.0, 6.0]],
                               "hit_percent": [[1.0, 10.0], [2.0, 90.0]]}})
    return document.make("profile", ["rxbench", "profile", "<x>"], "2026-01-01T00:00:00+0000",
                         MACHINE, ["a warning"], plan, outcome)


@pytest.fixture
def make_report():
    return made
