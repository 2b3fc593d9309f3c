# SPDX-License-Identifier: GPL-2.0-only
"""The interface between a workload, the runner and the report."""

import math
from dataclasses import dataclass, field
from typing import Callable

HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class Metric:
    """A measured number; the first one of a plan decides."""
    name: str
    title: str
    unit: str
    better: str


MB_S = Metric("mb_s", "throughput", "MB/s", HIGHER)
IOPS = Metric("iops", "I/O rate", "IOPS", HIGHER)
REQUESTED = Metric("iops_requested", "requested", "IOPS", HIGHER)
MEAN = Metric("lat_mean_us", "mean latency", "us", LOWER)
P99 = Metric("lat_p99_us", "99 % latency", "us", LOWER)
NINES = Metric("lat_p99999_us", "99.999 % latency", "us", LOWER)
LONGEST = Metric("lat_max_us", "longest latency", "us", LOWER)
REAL = Metric("real_s", "real", "s", LOWER)
USER = Metric("user_s", "user", "s", LOWER)
SYS = Metric("sys_s", "sys", "s", LOWER)
FIO = (MB_S, IOPS, MEAN, P99)
# A larger deviation from the requested rate is marked, if it is no chance: requests come at random
# times, and their count is rarely off by more than three times its square root.
MOST_OFF, RARELY = 0.05, 3


def misses(requested, achieved, seconds=None):
    """Does a rate that was measured for so long differ from the requested one?"""
    chance = RARELY / math.sqrt(requested * seconds) if seconds and seconds > 0 else 0
    return not achieved or abs(achieved / requested - 1) > max(MOST_OFF, chance)


@dataclass(frozen=True)
class Subject:
    """One of the places or programs that are compared. A verdict names only those that rank."""
    name: str
    title: str
    details: dict = field(default_factory=dict, compare=False)
    ranks: bool = True


@dataclass(frozen=True)
class Case:
    """A measurement that is the same for each subject."""
    name: str
    title: str
    seconds: float = 1.0
    reference: dict = field(default_factory=dict, compare=False)
    base: str = None
    point: dict = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Round:
    """Cases that one subject runs one after the other, before the next subject does."""
    cases: tuple
    subjects: tuple = None


@dataclass
class Plan:
    """open(subject, round, repeat) is a context manager that gives measure(case).

    Rounds whose figures lie far apart are repeated up to most_repeats times.
    """
    subjects: list
    rounds: list
    open: Callable
    metrics: tuple = FIO
    base: str = None
    repeats: int = 3
    most_repeats: int = 0
    set_up: Callable = lambda undo: None
    settings: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    live: bool = False

    def cases(self):
        """All cases, in the order of their first appearance."""
        return list({case.name: case for each in self.rounds for case in each.cases}.values())

    def steps(self, repeat, rounds=None):
        """(round, subject) of a repeat. Each begins with the next subject, in the other direction.

        What a subject leaves behind must not meet the same one each time.
        """
        for each in self.rounds if rounds is None else rounds:
            taking = [subject for subject in self.subjects
                      if each.subjects is None or subject.name in each.subjects]
            for place in range(len(taking)):
                yield each, taking[(repeat + (-place if repeat % 2 else place)) % len(taking)]

    def seconds(self, rounds=None):
        """The expected duration of a repeat."""
        return sum(case.seconds for each, _subject in self.steps(0, rounds)
                   for case in each.cases)
