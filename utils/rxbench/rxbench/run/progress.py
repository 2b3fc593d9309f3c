# SPDX-License-Identifier: GPL-2.0-only
"""A line on the terminal: the present step, the progress, and the time left."""

import shutil
import threading
import time

from ..system.output import say
from ..system.units import clock

BAR = 24
BEAT = 0.5


def count(plan, repeat):
    """The number of the repeat, and their count, which may grow if figures are far apart."""
    return f"{repeat + 1}/{plan.repeats if repeat < plan.repeats else plan.most_repeats}"


class Silent:
    """For output that is not a terminal, or that has lines of its own."""

    def step(self, case, subject, repeat):
        pass

    def done(self, case):
        pass

    def more(self, seconds):
        """There is more to do than was known."""

    def end(self):
        pass


class Lines(Silent):
    """One line a step, for a log."""

    def __init__(self, plan, out):
        self.plan, self.out = plan, out

    def step(self, case, subject, repeat):
        say(f"{count(self.plan, repeat)} {subject.title}: {case.title}\n", self.out)


class Bar(Silent):
    """A bar that moves while a step runs."""

    def __init__(self, plan, out):
        self.plan, self.out = plan, out
        self.total = plan.repeats * plan.seconds() or 1.0
        self.passed, self.text, self.expected = 0.0, "setting up", 0.0
        self.begin = self.since = time.monotonic()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._beat, daemon=True)
        self.thread.start()

    def step(self, case, subject, repeat):
        self.text = f"{count(self.plan, repeat)} {subject.title}: {case.title}"
        self.expected, self.since = case.seconds, time.monotonic()

    def done(self, case):
        self.passed += case.seconds
        self.expected = 0.0

    def more(self, seconds):
        self.total += seconds

    def left(self):
        """Seconds left, by comparing the steps so far with their expected times."""
        now = time.monotonic()
        running = min(now - self.since, self.expected)
        share = min(1.0, (self.passed + running) / self.total)
        pace = (now - self.begin) / (self.passed + running) if self.passed else 1.0
        return share, (self.total - self.passed - running) * max(pace, 0.1)

    def _draw(self):
        share, left = self.left()
        full = round(share * BAR)
        line = f"[{'#' * full}{'.' * (BAR - full)}] {100 * share:3.0f} % {clock(left)} left  "
        width = shutil.get_terminal_size().columns - 1
        say("\r\033[K" + (line + self.text)[:width], self.out)

    def _beat(self):
        while not self.ended.wait(BEAT):
            self._draw()

    def end(self):
        self.ended.set()
        self.thread.join()
        say("\r\033[K", self.out)


def for_output(plan, out, quiet=False):
    """Choose the class that suits the output of messages."""
    if quiet or plan.live:
        return Silent()
    return Bar(plan, out) if out.isatty() else Lines(plan, out)
