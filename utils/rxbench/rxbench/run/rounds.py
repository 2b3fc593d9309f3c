# SPDX-License-Identifier: GPL-2.0-only
"""Rounds of one measurement until their figures stay where they are.

The rule is that of SNIA's Solid State Storage Performance Test Specification: in five rounds one
after the other, the figures lie within 20 % of their mean, and the straight line that fits them
best (least squares) rises or falls by no more than 10 % of it from the first to the last.
"""

from dataclasses import dataclass

WINDOW, MOST = 5, 25
RANGE_PERCENT, SLOPE_PERCENT = 20, 10


@dataclass(frozen=True)
class Window:
    """Five rounds: the spread of their figures, and their trend."""
    range_percent: float
    slope_percent: float

    @classmethod
    def of(cls, amounts):
        count = len(amounts)
        mean = sum(amounts) / count
        if mean <= 0:
            return cls(float("inf"), float("inf"))
        middle = (count - 1) / 2
        slope = sum((place - middle) * amount for place, amount in enumerate(amounts)) \
            / sum((place - middle) ** 2 for place in range(count))
        return cls(100 * (max(amounts) - min(amounts)) / mean,
                   100 * abs(slope) * (count - 1) / mean)

    @property
    def steady(self):
        return self.range_percent <= RANGE_PERCENT and self.slope_percent <= SLOPE_PERCENT


@dataclass
class Rounds:
    """The results of the rounds, each with the figure that judges it."""
    taken: list
    amounts: list

    def window(self):
        """The window of the last rounds; None if there are too few."""
        return Window.of(self.amounts[-WINDOW:]) if len(self.amounts) >= WINDOW else None

    def last(self):
        """The rounds that the result uses."""
        return self.taken[-WINDOW:]


def until_steady(take, amount, most):
    """Run rounds until the last five are steady, or until the maximum."""
    rounds = Rounds([], [])
    while len(rounds.taken) < most:
        rounds.taken.append(take())
        rounds.amounts.append(amount(rounds.taken[-1]))
        window = rounds.window()
        if window and window.steady:
            break
    return rounds
