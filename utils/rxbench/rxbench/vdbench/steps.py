# SPDX-License-Identifier: GPL-2.0-only
"""The runs of an rd=: one for each combination of its loops."""

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


# The name that a step shows for each loop, and the attribute of a workload that it sets.
TEXTS = {"threads": str, "xfersize": lambda transfer: short(transfer.largest()),
         "rdpct": "{:g}".format, "seekpct": "{:g}".format}
ATTRIBUTES = {"xfersize": "transfer", "rdpct": "rdpct", "seekpct": "seekpct"}


def steps(run):
    """In vdbench's order: the first loop in the file is the outermost."""
    for values in itertools.product(*run.loops.values()):
        chosen = dict(zip(run.loops, values))
        for rate in run.rates:
            if rate != CURVED:
                yield _step(run, f"iorate={rate}", chosen, rate)
                continue
            first = _step(run, "iorate=max (for the curve)", chosen, MAX)
            yield first
            for percent in run.curve:
                yield _step(run, f"iorate={percent}%", chosen, CURVED, percent, first.name)


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
