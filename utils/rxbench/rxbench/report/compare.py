# SPDX-License-Identifier: GPL-2.0-only
"""Compare two reports of one workload."""

from ..run.plan import LOWER
from ..system.errors import BadInput
from . import stats
from .text import table, value, wrap

BETTER, WORSE, SAME = "better", "worse", "no difference"
# A change that may be noise, and one of too few repeats.
UNCERTAIN, UNKNOWN = "not certain", "unknown"


def metric_of(before, after, name=None):
    """The metric to compare: the deciding one, unless another is named."""
    others = {metric["name"] for metric in after["metrics"]}
    both = {metric["name"]: metric for metric in before["metrics"] if metric["name"] in others}
    wanted = name or before["metrics"][0]["name"]
    if wanted in both and (name or after["metrics"][0]["name"] == wanted):
        return both[wanted]
    there = f"must be one of {', '.join(both)}" if both else "the reports have none in common"
    if name:
        raise BadInput(f"--metric {name}: {there}")
    raise BadInput(f"the default metric of the first report is {wanted}, that of the second is "
                   f"{after['metrics'][0]['name']}: select one with --metric; {there}")


def _repeats(document, metric):
    """Values of a metric, by case and subject."""
    found = {}
    for row in document["results"]:
        amount = row["metrics"].get(metric["name"])
        if amount is not None:
            found.setdefault((row["case"], row["subject"]), []).append(amount)
    return found


def compare(before, after, name=None):
    """Return a row for each case and subject that both reports have."""
    if before["workload"] != after["workload"]:
        raise BadInput(f"one report is of {before['workload']}, the other of "
                       f"{after['workload']}: must be the same workload")
    metric = metric_of(before, after, name)
    old, new = _repeats(before, metric), _repeats(after, metric)
    common = [key for key in old if key in new]
    if not common:
        raise BadInput("the reports have no case and subject in common that have a "
                       f"{metric['name']}")
    points = metric["unit"] == "%"
    corrected = stats.holm([stats.chance(old[key], new[key], logs=not points) for key in common])
    least = stats.LEAST_POINTS if points else 100 * stats.LEAST_CHANGE
    rows = []
    for (case, subject), chance in zip(common, corrected):
        a, b = (stats.describe(values[case, subject])["median"] for values in (old, new))
        # This is the printed change: a time can get worse by more than 100 %.
        change = b - a if points else 100 * (stats.quotient([b], [a]) - 1)
        worsening = change if metric["better"] == LOWER else -change
        if chance is None:
            verdict = UNKNOWN
        elif abs(change) < least:
            verdict = SAME
        elif chance > 1 - stats.CONFIDENCE:
            verdict = UNCERTAIN
        else:
            verdict = WORSE if worsening > 0 else BETTER
        rows.append({"case": case, "subject": subject, "metric": metric["name"],
                     "before": a, "after": b, "change": change,
                     "unit": "points" if points else "%", "worse_by": max(0.0, worsening),
                     "chance": chance, "verdict": verdict})
    return rows


def worse(rows, most, verdict=WORSE):
    """Rows that got worse by more than this, in percent or in points."""
    return [row for row in rows if row["verdict"] == verdict and row["worse_by"] > most]


def doubt(rows, after, most):
    """Why something may be worse that is not among the worse rows, or None."""
    unknown = sum(row["verdict"] == UNKNOWN for row in rows)
    if unknown:
        return (f"fewer than three repeats of {unknown} of {len(rows)} results: measure with "
                "--repeats 3 or more")
    uncertain = worse(rows, most, UNCERTAIN)
    if uncertain:
        return (f"{len(uncertain)} of {len(rows)} results got worse by more than {most:g} "
                f"{uncertain[0]['unit']}, which may be noise: measure with more --repeats")
    return None if after["complete"] else "the second report is not complete"


def missing(before, after, name=None):
    """Rows that are only in the first report, and rows that are only in the second."""
    metric = metric_of(before, after, name)
    old, new = _repeats(before, metric), _repeats(after, metric)
    return [key for key in old if key not in new], [key for key in new if key not in old]


def _only(before, after, name):
    """Return a note for each row that cannot be compared."""
    for number, document, keys in zip(("first", "second"), (before, after),
                                      missing(before, after, name)):
        cases, subjects = _titles(document)
        for case, subject in keys:
            yield f"Only in the {number} report: {cases[case]}, {subjects[subject]}."


def _titles(document):
    return ({case["name"]: case["title"] for case in document["cases"]},
            {subject["name"]: subject["title"] for subject in document["subjects"]})


def _differences(before, after):
    """Reasons why the reports may not be comparable."""
    for key in ("cpu", "cpus", "kernel", "fio", "governor", "memory"):
        if before["machine"].get(key) != after["machine"].get(key):
            yield (f"The machines differ: {key} {before['machine'].get(key)} before, "
                   f"{after['machine'].get(key)} after.")
    for key in sorted({*before["settings"], *after["settings"]}):
        if key == "text" and before["settings"].get(key) != after["settings"].get(key):
            yield "The texts of the parameter files differ."
        elif before["settings"].get(key) != after["settings"].get(key):
            yield (f"The settings differ: {key} {before['settings'].get(key)} before, "
                   f"{after['settings'].get(key)} after.")
    for name, document in (("first", before), ("second", after)):
        if not document["complete"]:
            yield f"The {name} report is not complete."


def render(rows, before, after, name=None):
    """The comparison as lines."""
    metric = metric_of(before, after, name)
    cases, subjects = _titles(before)
    lines = table(("", "subject", f"before {metric['unit']}", "after", "change", ""),
                  [(cases[row["case"]], subjects[row["subject"]], value(metric, row["before"]),
                    value(metric, row["after"]), f"{row['change']:+.1f} {row['unit']}",
                    row["verdict"])
                   for row in rows], left=2)
    lines.append("")
    counts = {verdict: sum(row["verdict"] == verdict for row in rows)
              for verdict in (BETTER, WORSE, SAME, UNCERTAIN, UNKNOWN)}
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()
                           if count or verdict in (BETTER, WORSE, SAME)))
    if counts[UNCERTAIN]:
        lines += wrap("A change that is not certain may be noise: use more --repeats.")
    if counts[UNKNOWN]:
        lines += wrap("Results of fewer than three repeats cannot be told from noise: use "
                      "--repeats 3 or more.")
    for note in [*_only(before, after, name), *_differences(before, after)]:
        lines += wrap(note)
    return lines
