# SPDX-License-Identifier: GPL-2.0-only
"""fio in rounds, until the result is steady."""

import functools
import operator

from ..run import rounds
from . import fio

# Number of times that the file is written before the first round, as in SNIA's PTS.
TIMES = 2


def _series(moments):
    """Return a point for each round, at its end."""
    series, seconds = {"mb_s": [], "lat_mean_us": []}, 0.0
    for each in moments:
        seconds += each.seconds
        figures = each.metrics()
        for name, points in series.items():
            points.append([round(seconds, 3), figures[name]])
    return series


def measure(path, options, most, after_round=None):
    """Return the sample of the last rounds of one job; options set the length of a round."""
    def take():
        moment = fio.total(path, options)
        if after_round:
            after_round()
        return moment

    # Otherwise each round would use the same order of offsets as the previous one.
    options = {"randrepeat": 0, **options}
    found = rounds.until_steady(take, lambda moment: moment.metrics()["iops"], most)
    window = found.window()
    total = functools.reduce(operator.add, found.last())
    return {"metrics": total.metrics(), "percentiles": total.both().percentiles(),
            "series": _series(found.taken),
            "facts": {"steady": {"reached": window.steady, "rounds": len(found.taken),
                                 "iops": found.amounts, **vars(window)}}}
