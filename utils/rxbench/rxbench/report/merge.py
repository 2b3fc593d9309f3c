# SPDX-License-Identifier: GPL-2.0-only
"""One report of several, which measured parts of one workload on one machine."""

import itertools
import json
import shlex

from ..system.errors import BadInput
from . import document

MACHINE = ("kernel", "cpu", "cpus", "emulated", "fio")
MEMORY_TOLERANCE = 0.01  # MemTotal depends on where a boot places the kernel


# Settings that only some parts of a workload have.
PARTIAL = ("copied", "file system")


def _refuse(name, old, new):
    values = f"is {old} in one report and {new} in another"
    if "\n" in values:
        values = "differs between the reports"
    raise BadInput(f"--merge: {name} {values}: must be the same")


def _settings(documents):
    """The settings, which must be equal; sets of named values are united."""
    merged = dict(documents[0]["settings"])
    for each in documents[1:]:
        for key in dict.fromkeys([*merged, *each["settings"]]):
            old, new = merged.get(key), each["settings"].get(key)
            if isinstance(old, dict) and isinstance(new, dict):
                for name in old.keys() & new.keys():
                    if old[name] != new[name]:
                        _refuse(f"settings.{key}.{name}", old[name], new[name])
                merged[key] = {**old, **new}
            elif key in PARTIAL and not (old and new):
                merged[key] = old or new
            elif old != new:
                _refuse(f"settings.{key}", old, new)
    return merged


def _measured(document):
    """The results themselves, whatever their order and the numbers of their repeats."""
    return {json.dumps([row["case"], row["subject"], row["metrics"]], sort_keys=True)
            for row in document["results"]}


def _refuse_copies(documents):
    """The same results twice would look like more repeats."""
    for one, other in itertools.combinations(documents, 2):
        few, many = sorted((_measured(one), _measured(other)), key=len)
        if few and few <= many:
            raise BadInput(f"--merge: {shlex.join(one['command'])} ({one['started']}) and "
                           f"{shlex.join(other['command'])} ({other['started']}) have the same "
                           "results: give each report once, and no merged one with its parts")


def _check(documents):
    first = documents[0]
    for other in documents[1:]:
        pairs = [("the workload", first["workload"], other["workload"]),
                 ("the first metric", first["metrics"][0]["name"], other["metrics"][0]["name"]),
                 *((key, first["machine"].get(key), other["machine"].get(key))
                   for key in MACHINE)]
        for name, old, new in pairs:
            if old != new:
                _refuse(name, old, new)
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
    _refuse_copies(documents)
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
