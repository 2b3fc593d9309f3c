# SPDX-License-Identifier: GPL-2.0-only
"""One report of several, which measured parts of one workload on one machine."""

import shlex

from ..system.errors import BadInput
from . import document

MACHINE = ("kernel", "cpu", "cpus", "emulated", "fio")
MEMORY_TOLERANCE = 0.01  # MemTotal depends on where a boot places the kernel


def _setting(name, old, new):
    """A setting that both reports agree with: parts are united, and one may have none."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _setting(f"{name}.{key}", old.get(key), value)
                          for key, value in new.items()}}
    if old and new and old != new:
        raise BadInput(f"--merge: {name} is {old} in one report and {new} in another: must be "
                       "the same")
    return old or new


def _settings(documents):
    merged = {}
    for each in documents:
        merged = _setting("settings", merged, each["settings"])
    return merged


def _check(documents):
    first = documents[0]
    for other in documents[1:]:
        pairs = [("the workload", first["workload"], other["workload"]),
                 ("the first metric", first["metrics"][0]["name"], other["metrics"][0]["name"]),
                 *((key, first["machine"].get(key), other["machine"].get(key))
                   for key in MACHINE)]
        for name, old, new in pairs:
            if old != new:
                raise BadInput(f"--merge: {name} is {old} in one report and {new} in another: "
                               "must be the same")
        old, new = (each["machine"].get("memory") or 0 for each in (first, other))
        if abs(old - new) > MEMORY_TOLERANCE * max(old, new):
            raise BadInput(f"--merge: memory is {old} in one report and {new} in another: "
                           f"must be the same within {MEMORY_TOLERANCE * 100:g} %")


def _united(documents, key):
    """Named entries, in the order of their first appearance."""
    found = {}
    for each in documents:
        for entry in each[key]:
            found.setdefault(entry["name"], entry)
    return list(found.values())


def _results(documents):
    """All results. What was measured again has repeats of its own."""
    results, seen = [], {}
    for each in documents:
        later = dict(seen)
        for row in each["results"]:
            repeat = row["repeat"] + later.get(row["case"], 0)
            seen[row["case"]] = max(seen.get(row["case"], 0), repeat + 1)
            results.append({**row, "repeat": repeat, "order": len(results)})
    return results


def _unique(documents, key):
    return list(dict.fromkeys(text for each in documents for text in each[key]))


def merge(documents):
    """Return one report; its notes name the commands that measured its parts."""
    _check(documents)
    metrics, subjects, cases = (_united(documents, key)
                                for key in ("metrics", "subjects", "cases"))
    results = _results(documents)
    notes = _unique(documents, "notes") + [
        f"Merged: {shlex.join(each['command'])} ({each['started']})." for each in documents]
    return {**documents[0],
            "started": min(each["started"] for each in documents),
            "seconds": sum(each["seconds"] for each in documents),
            "complete": all(each["complete"] for each in documents),
            "ended_by": next(filter(None, (each["ended_by"] for each in documents)), None),
            "warnings": _unique(documents, "warnings"), "notes": notes,
            "settings": _settings(documents),
            "repeats": min(each["repeats"] for each in documents),
            "metrics": metrics, "subjects": subjects, "cases": cases, "results": results,
            "summary": document.summarize(metrics, subjects, cases, results),
            "verdicts": document.verdicts(metrics[0], subjects, cases, results),
            "failures": [failure for each in documents for failure in each["failures"]]}
