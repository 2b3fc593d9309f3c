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


class Sequence:
    """Rounds of a job; one that is sequential goes on where the previous one ended."""

    def __init__(self, path, options):
        self.path, self.options, self.begin = path, options, 0

    def take(self):
        options = self.options
        if self.begin:
            options = {**options, "offset": self.begin, "size": options["size"] - self.begin}
        moment = fio.total(self.path, options)
        if options["rw"] in ("read", "write"):
            done = moment.both().bytes
            self.begin += done
            # What is left must last for a round, which would repeat it.
            if self.begin + done > self.options["size"]:
                self.begin = 0
        return moment


def measure(path, options, most, after_round=None):
    """Return the sample of the last rounds of one job; options set the length of a round."""
    def take():
        moment = sequence.take()
        if after_round:
            after_round()
        return moment

    # Otherwise each round would use the same order of offsets as the previous one.
    sequence = Sequence(path, {"randrepeat": 0, **options})
    found = rounds.until_steady(take, lambda moment: moment.metrics()["iops"], most)
    window = found.window()
    total = functools.reduce(operator.add, found.last())
    return {"metrics": total.metrics(), "percentiles": total.both().percentiles(),
            "series": _series(found.taken),
            "facts": {"steady": {"reached": window.steady, "rounds": len(found.taken),
                                 "iops": found.amounts, **vars(window)}}}
