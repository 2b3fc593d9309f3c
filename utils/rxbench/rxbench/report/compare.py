# SPDX-License-Identifier: GPL-2.0-only
"""What got better or worse between two reports of one workload."""

import math

from ..run.plan import HIGHER
from ..system.errors import BadInput
from . import stats
from .text import table, value, wrap

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "no difference", "unknown"


def _repeats(document):
    """Values of the metric that decides, by case and subject."""
    metric, found = document["metrics"][0], {}
    for row in document["results"]:
        amount = row["metrics"].get(metric["name"])
        if amount is not None:
            found.setdefault((row["case"], row["subject"]), []).append(amount)
    return metric, found


def compare(before, after):
    """A row for each case and subject that both have."""
    if before["workload"] != after["workload"]:
        raise BadInput(f"one report is of {before['workload']}, the other of "
                       f"{after['workload']}: only the same workload can be compared")
    metric, old = _repeats(before)
    other, new = _repeats(after)
    common = [key for key in old if key in new]
    if metric["name"] != other["name"] or not common:
        raise BadInput("the reports have no case and subject in common")
    corrected = stats.holm([stats.chance(old[key], new[key]) for key in common])
    rows = []
    for (case, subject), chance in zip(common, corrected):
        a, b = (stats.describe(values[case, subject]) for values in (old, new))
        factor = max(b["median"], stats.TINY) / max(a["median"], stats.TINY)
        good = factor if metric["better"] == HIGHER else 1 / factor
        if chance is None:
            verdict = UNKNOWN
        elif chance > 1 - stats.CONFIDENCE or abs(math.log(good)) < math.log1p(
                stats.LEAST_CHANGE):
            verdict = SAME
        else:
            verdict = BETTER if good > 1 else WORSE
        rows.append({"case": case, "subject": subject, "metric": metric["name"],
                     "before": a["median"], "after": b["median"],
                     "percent": 100 * (factor - 1), "worse_percent": max(0.0, 100 * (1 - good)),
                     "chance": chance, "verdict": verdict})
    return rows


def worse(rows, percent):
    """Rows that got worse by more than so many percent."""
    return [row for row in rows if row["verdict"] == WORSE and row["worse_percent"] > percent]


def _differences(before, after):
    """Why the reports may not be comparable."""
    for key in ("cpu", "cpus", "kernel", "fio", "governor", "memory"):
        if before["machine"].get(key) != after["machine"].get(key):
            yield (f"The machines differ: {key} {before['machine'].get(key)} before, "
                   f"{after['machine'].get(key)} after.")
    for key in sorted({*before["settings"], *after["settings"]}):
        if before["settings"].get(key) != after["settings"].get(key):
            yield (f"The settings differ: {key} {before['settings'].get(key)} before, "
                   f"{after['settings'].get(key)} after.")
    for name, document in (("first", before), ("second", after)):
        if not document["complete"]:
            yield f"The {name} report is not complete."


def render(rows, before, after):
    """The comparison as lines."""
    metric = before["metrics"][0]
    cases = {case["name"]: case["title"] for case in before["cases"]}
    subjects = {subject["name"]: subject["title"] for subject in before["subjects"]}
    lines = table(("", "subject", f"before {metric['unit']}", "after", "change", ""),
                  [(cases[row["case"]], subjects[row["subject"]], value(metric, row["before"]),
                    value(metric, row["after"]), f"{row['percent']:+.1f} %", row["verdict"])
                   for row in rows], left=2)
    lines.append("")
    counts = {verdict: sum(row["verdict"] == verdict for row in rows)
              for verdict in (BETTER, WORSE, SAME, UNKNOWN)}
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()
                           if count or verdict != UNKNOWN))
    if counts[UNKNOWN]:
        lines += wrap("What was measured only once cannot be told from noise: --repeats 3 or more.")
    for note in _differences(before, after):
        lines += wrap(note)
    return lines
