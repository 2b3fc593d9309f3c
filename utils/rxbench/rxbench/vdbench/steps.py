# SPDX-License-Identifier: GPL-2.0-only
"""The runs of an rd=: one for each combination of its loops."""

import collections
import itertools
from dataclasses import dataclass, replace

from ..system.units import short
from .model import CURVED, MAX


@dataclass(frozen=True)
class Step:
    """One run of fio; works have the values of this run. threads None means unchanged."""
    name: str
    title: str
    run: object
    works: tuple
    rate: object
    threads: int = None
    percent: int = None
    base: str = None

    def is_skewed(self):
        return any(work.skew for work in self.works)

    def needs_shares(self):
        """Is this the first run of a curve, whose workloads have the shares that this run shows?"""
        return self.rate == MAX and CURVED in self.run.rates and not self.is_skewed()


# The name that a step shows for each loop, and the attribute of a workload that it sets.
TEXTS = {"threads": str, "xfersize": lambda transfer: short(transfer.largest()),
         "rdpct": "{:g}".format, "seekpct": "{:g}".format}
ATTRIBUTES = {"xfersize": "transfer", "rdpct": "rdpct", "seekpct": "seekpct"}


def steps(run):
    """In vdbench's order: the first loop in the file is the outermost."""
    counts = collections.Counter()

    def made(*what):
        """A step, which has a number if the file has it more than once."""
        step = _step(run, *what)
        counts[step.name] += 1
        count = counts[step.name]
        return step if count == 1 else replace(step, name=f"{step.name}-{count}",
                                               title=f"{step.title} ({count})")

    for values in itertools.product(*run.loops.values()):
        chosen = dict(zip(run.loops, values))
        for rate in run.rates:
            if rate != CURVED:
                yield made(f"iorate={rate}", chosen, rate)
                continue
            first = made("iorate=max (for the curve)", chosen, MAX)
            yield first
            for percent in run.curve:
                yield made(f"iorate={percent}%", chosen, CURVED, percent, first.name)


def _step(run, rate_text, chosen, rate, percent=None, base=None):
    texts = [rate_text, *(f"{key}={TEXTS[key](value)}" for key, value in chosen.items())]
    name = "-".join([run.name, *(text.split(" ")[0].replace("=", "-").replace("%", "pct")
                                 for text in texts)])
    if percent is None and "(for the curve)" in rate_text:
        name += "-curve"
    changes = {ATTRIBUTES[key]: value for key, value in chosen.items() if key in ATTRIBUTES}
    return Step(name, f"{run.name} {', '.join(texts)}", run,
                tuple(replace(work, **changes) for work in run.works), rate,
                chosen.get("threads"), percent, base)
