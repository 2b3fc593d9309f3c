# SPDX-License-Identifier: GPL-2.0-only
"""Signals that programs get at random moments."""

import random
import subprocess
import time

SECONDS = 60


class Moments:
    """Random moments during a program, and a little later."""

    def __init__(self, seed, took):
        self.chance, self.shortest = random.Random(seed), took

    def interrupt(self, process, sig):
        """Send a signal to a program that was just started, if it has not ended by then."""
        begin = time.monotonic()
        try:
            process.wait(self.chance.uniform(0, 1.2 * self.shortest))
        except subprocess.TimeoutExpired:
            process.send_signal(sig)
        else:
            # The first run may have been a slow one.
            self.shortest = min(self.shortest, time.monotonic() - begin)


def rounds(number, is_enough):
    """So many rounds, and then some more, for a minute, until it is enough."""
    end, done = time.monotonic() + SECONDS, 0
    while done < number or (not is_enough() and time.monotonic() < end):
        yield
        done += 1
