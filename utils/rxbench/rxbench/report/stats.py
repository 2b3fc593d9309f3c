# SPDX-License-Identifier: GPL-2.0-only
"""Medians, spreads, ratios and noise."""

import functools
import math
import statistics

CONFIDENCE = 0.95
# With fewer repeats, a difference cannot be distinguished from noise, which is not known.
LEAST_REPEATS = 3
# A smaller difference does not matter, even if it is certain.
LEAST_EFFECT = 0.01
# Two runs are further apart in time than the repeats of one run.
LEAST_CHANGE = 0.03
# The same for a percentage, in points: a quotient has no meaning where one is near 0.
LEAST_POINTS = 1
# A time of 0 at the clock's resolution still needs a logarithm.
TINY = 1e-9


def _continued_fraction(a, b, x):
    """Lentz's method, for the incomplete beta function."""
    tiny, c = 1e-300, 1.0
    d = 1.0 / max(1.0 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 300):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                          -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-12:
            break
    return result


def _incomplete_beta(a, b, x):
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
                     + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, 1 - x) / b


def two_sided(t, freedom):
    """The probability that |t| of Student's distribution is at least this large by chance."""
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@functools.cache
def critical(freedom, chance=1 - CONFIDENCE):
    """The t that chance exceeds with this probability, on either side."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > chance else (low, middle)
    return high


def _logs(values):
    return [math.log(max(value, TINY)) for value in values]


def describe(values):
    """Median and spread of repeats; the spread is None if they are too few or their median 0."""
    low, high, median = min(values), max(values), statistics.median(values)
    spread = None
    if len(values) >= LEAST_REPEATS:
        spread = 100 * (high - low) / median if median else (None if high > low else 0.0)
    return {"n": len(values), "median": median, "low": low, "high": high, "spread_percent": spread}


def quotient(values, base):
    """How many times the median of the base the median of the values is."""
    return max(statistics.median(values), TINY) / max(statistics.median(base), TINY)


def ratio(values, base):
    """How many times the base the medians are; the noise is that of pairs measured in turn.

    It is None where there are fewer than LEAST_REPEATS pairs.
    """
    logs = [a - b for a, b in zip(_logs(values), _logs(base))]
    middle = statistics.fmean(logs)
    found = {"median": quotient(values, base), "low": None, "high": None, "within_noise": None}
    if len(logs) >= LEAST_REPEATS:
        reach = critical(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        found.update(low=math.exp(middle - reach), high=math.exp(middle + reach),
                     within_noise=abs(middle) <= max(reach, math.log1p(LEAST_EFFECT)))
    return found


def ranking(rows, comparisons):
    """Subjects from the largest to the smallest, and which of them the first exceeds for certain.

    rows maps a subject to its repeats, measured in turn: equal numbers of them. comparisons is
    how many pairs the whole report compares, for which Bonferroni's correction is made. A pair
    must differ by more than the noise of all subjects after what a repeat has in common is
    taken off (a two-way analysis of variance), and by more than the noise of the pair itself,
    which is larger where one subject is less steady than the others. So it never contradicts
    ratio(), which has only the noise of the pair.

    The chance that equals beat one another is as CONFIDENCE says if all are equally noisy. The
    noise of the pair has fewer degrees of freedom than the t that it is multiplied by, which is
    at least that of ratio(): where one of 13 is ten times as noisy as the others, the chance is
    some 8 % at three repeats, and less than 5 % at five. With a t of its own that is corrected
    for all comparisons, few real differences would be found at five.

    Returns names and a set of names, which is None with fewer than LEAST_REPEATS repeats.
    """
    logs = {name: _logs(values) for name, values in rows.items()}
    order = sorted(logs, key=lambda name: statistics.fmean(logs[name]), reverse=True)
    count, repeats = len(order), len(logs[order[0]])
    if repeats < LEAST_REPEATS or count < 2:
        return order, None
    means = [statistics.fmean(each) for each in zip(*logs.values())]
    residuals = [value - mean for values in logs.values() for value, mean in zip(values, means)]
    apart = sum(repeats * (statistics.fmean(values) - statistics.fmean(means)) ** 2
                for values in logs.values())
    freedom = (count - 1) * (repeats - 1)
    pooled = 2 * max(0.0, sum(each * each for each in residuals) - apart) / freedom
    certain = critical(freedom, (1 - CONFIDENCE) / comparisons)
    alone = max(certain, critical(repeats - 1))

    def exceeds(best, other):
        gaps = [a - b for a, b in zip(logs[best], logs[other])]
        noise = max(certain * math.sqrt(pooled), alone * statistics.stdev(gaps))
        return statistics.fmean(gaps) > max(noise / math.sqrt(repeats), math.log1p(LEAST_EFFECT))

    return order, {other for other in order[1:] if exceeds(order[0], other)}


def chance(before, after, logs=True):
    """The probability of this difference between equals (Welch's test); None if unknown."""
    if min(len(before), len(after)) < LEAST_REPEATS:
        return None
    a, b = (_logs(before), _logs(after)) if logs else (before, after)
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    gap = abs(statistics.fmean(a) - statistics.fmean(b))
    if va + vb == 0:
        return 1.0 if gap == 0 else 0.0
    freedom = (va + vb) ** 2 / (va * va / (len(a) - 1) + vb * vb / (len(b) - 1))
    return two_sided(gap / math.sqrt(va + vb), freedom)


def holm(chances):
    """Probabilities corrected by Holm for the number of tests; None stays None."""
    known = sorted((value, index) for index, value in enumerate(chances) if value is not None)
    corrected, least = [None] * len(chances), 0.0
    for rank, (value, index) in enumerate(known):
        least = max(least, min(1.0, value * (len(known) - rank)))
        corrected[index] = least
    return corrected
