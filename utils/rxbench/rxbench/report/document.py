# SPDX-License-Identifier: GPL-2.0-only
"""report.json: built from a plan and its results, written atomically, checked when read."""

import json
import math
import os
import re
import tempfile

from .. import VERSION
from ..run.plan import HIGHER, LOWER
from ..system.errors import BadInput
from . import stats

FORMAT, FORMAT_VERSION = "rxbench", 1
NUMBER, MAYBE_NUMBER, MAYBE_TEXT = (int, float), (int, float, type(None)), (str, type(None))
# The expected structure: types, the keys of an object, and the entries of a list.
SHAPE = {
    "workload": str, "command": [str], "started": str, "seconds": NUMBER, "complete": bool,
    "ended_by": MAYBE_TEXT, "warnings": [str], "notes": [str], "settings": dict, "repeats": int,
    "machine": {"kernel": str, "cpu": str, "cpus": int, "memory": int, "memory_available": int,
                "governor": str, "load": [NUMBER], "busy_percent": NUMBER, "virtualization": str,
                "fio": str},
    "metrics": [{"name": str, "title": str, "unit": str, "better": str}],
    "subjects": [{"name": str, "title": str, "details": dict}],
    "cases": [{"name": str, "title": str, "base": MAYBE_TEXT, "reference": dict}],
    "results": [{"case": str, "subject": str, "repeat": int, "metrics": dict}],
    "summary": [{"case": str, "subject": str, "metric": str, "n": int, "median": NUMBER,
                 "low": NUMBER, "high": NUMBER, "spread_percent": MAYBE_NUMBER,
                 "ratio": (dict, type(None))}],
    "verdicts": [{"case": str, "text": str}],
    "failures": [{"message": str}],
}
RATIO = {"median": NUMBER, "within_noise": (bool, type(None))}
POINT = {"block": int, "depth": int, "read_percent": int}
NAMES = {str: "text", int: "a whole number", bool: "true or false", dict: "an object",
         list: "a list", float: "a number", type(None): "null"}


def _values(results, case, subject, metric):
    """Values by repeat, so that values measured side by side are compared side by side."""
    return {row["repeat"]: row["metrics"][metric] for row in results
            if row["case"] == case and row["subject"] == subject
            and row["metrics"].get(metric) is not None}


def _ratio(values, base, name):
    both = sorted(set(values) & set(base))
    if not both:
        return None
    found = stats.ratio([values[repeat] for repeat in both], [base[repeat] for repeat in both])
    if len(both) < max(len(values), len(base)):
        # The medians beside it are of all repeats, so the noise of the common ones is not its own.
        found = {"median": stats.quotient(values.values(), base.values()),
                 "low": None, "high": None, "within_noise": None}
    return {"to": name, **found}


def summarize(metrics, subjects, cases, results):
    """Return a row for each case, subject and metric."""
    rows = []
    for case in cases:
        base = case["base"]
        for subject in subjects:
            for metric in metrics:
                values = _values(results, case["name"], subject["name"], metric["name"])
                if not values:
                    continue
                ratio = None
                if base is not None and subject["name"] != base:
                    ratio = _ratio(values, _values(results, case["name"], base, metric["name"]),
                                   base)
                rows.append({"case": case["name"], "subject": subject["name"],
                             "metric": metric["name"], **stats.describe(list(values.values())),
                             "ratio": ratio})
    return rows


def _listed(names):
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _verdict(case, metric, titles, found, comparisons):
    """Return the best subject and the beaten ones, if the difference exceeds the noise."""
    values, lower = _in_turn(found), metric["better"] == LOWER
    if lower:
        values = {name: [1 / max(value, stats.TINY) for value in row]
                  for name, row in values.items()}
    (best, *others), beaten = stats.ranking(values, comparisons)
    if beaten is None:
        return None
    if not beaten:
        text = "no difference beyond the noise"
    elif len(beaten) == len(others):
        # As in the rows of the table, which are of all repeats.
        pair = [found[name].values() for name in (best, others[0])]
        factor = stats.quotient(*(reversed(pair) if lower else pair))
        text = f"{titles[best]} is best, {factor:.2f} times as good as {titles[others[0]]}"
    else:
        text = (f"{titles[best]} is better than "
                f"{_listed([titles[name] for name in others if name in beaten])}; it does not "
                "differ beyond the noise from "
                f"{_listed([titles[name] for name in others if name not in beaten])}")
    return {"case": case["name"], "metric": metric["name"], "text": text,
            "best": best if len(beaten) == len(others) else None,
            "beaten": [name for name in others if name in beaten]}


def _in_turn(found):
    """The values of each subject in the repeats that all of them have."""
    repeats = sorted(set.intersection(*map(set, found.values())))
    return {name: [values[repeat] for repeat in repeats] for name, values in found.items()}


def verdicts(metric, subjects, cases, results):
    """Return what is certain of each case, corrected for all comparisons of the report."""
    titles = {subject["name"]: subject["title"] for subject in subjects}
    tables = []
    for case in cases:
        every = {subject["name"]: _values(results, case["name"], subject["name"], metric["name"])
                 for subject in subjects if subject.get("ranks", True)}
        # One that mostly failed has too few repeats in common with the others.
        found = {name: values for name, values in every.items()
                 if len(values) >= stats.LEAST_REPEATS}
        few = [titles[name] for name, values in every.items() if values and name not in found]
        if len(found) > 1 and all(_in_turn(found).values()):
            tables.append((case, found, few))
    comparisons = sum(math.comb(len(found), 2) for _case, found, _few in tables)
    made = []
    for case, found, few in tables:
        verdict = _verdict(case, metric, titles, found, comparisons)
        if verdict and few:
            verdict["text"] += f"; fewer than three repeats: {_listed(few)}"
        made += [verdict] if verdict else []
    return made


def make(workload, command, started, described, warnings, plan, outcome):
    """Return the whole report."""
    metrics = [vars(metric) for metric in plan.metrics]
    subjects = [vars(subject) for subject in plan.subjects]
    base = plan.base
    if base is None and len(subjects) > 1:
        base = subjects[0]["name"]
    cases = [{"name": case.name, "title": case.title, "base": case.base or base,
              "reference": case.reference, **({"point": case.point} if case.point else {})}
             for case in plan.cases()]
    summary = summarize(metrics, subjects, cases, outcome.results)
    return {"format": FORMAT, "version": FORMAT_VERSION, "rxbench": VERSION,
            "workload": workload, "command": command, "started": started,
            "seconds": outcome.seconds, "complete": not outcome.ended_by and not outcome.failures,
            "ended_by": outcome.ended_by, "machine": described, "warnings": list(warnings),
            "notes": list(plan.notes), "settings": plan.settings, "repeats": plan.repeats,
            "metrics": metrics, "subjects": subjects, "cases": cases,
            "results": outcome.results, "summary": summary,
            "verdicts": verdicts(metrics[0], subjects, cases, outcome.results),
            "failures": outcome.failures}


def put(path, text):
    """Replace a file completely or not at all. A device or a pipe is written to."""
    # Names of files may be no valid text.
    encoded = {"encoding": "utf-8", "errors": "backslashreplace"}
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", **encoded) as file:
            file.write(text)
        return
    path = os.path.realpath(path)
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=directory, prefix=".rxbench-")
    try:
        with os.fdopen(fd, "w", **encoded) as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write(document, path):
    """Write one report, or a list of reports."""
    put(path, json.dumps(document, indent=1) + "\n")


def load(path):
    """Read a report from a file."""
    made = load_all(path)
    if len(made) != 1:
        raise BadInput(f"{path}: holds {len(made)} reports: must be one")
    return made[0]


def load_all(path):
    """Read the reports of a file, which contains one or a list."""
    made = _read(path)
    if not isinstance(made, list):
        made = [made]
    if not made:
        raise BadInput(f"{path}: not a report of rxbench")
    for each in made:
        _check(path, each)
    return made


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from error


def _check(path, document):
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadInput(f"{path}: not a report of rxbench")
    if document.get("version") != FORMAT_VERSION:
        raise BadInput(f"{path}: version {document.get('version')!r} of the format, this rxbench "
                       f"reads {FORMAT_VERSION}")
    # Report only the first error, because later checks rely on earlier ones.
    wrong = next(_wrong(document, SHAPE, ""), None) or next(_astray(document), None)
    if wrong:
        raise BadInput(f"{path}: truncated or modified: {wrong}")


def _must_be(where, kinds):
    kinds = [kind for kind in kinds if kind is not int or float not in kinds]
    return f"{where}: must be {' or '.join(NAMES[kind] for kind in kinds)}"


def _wrong(value, shape, where):
    """Return what does not have the expected structure."""
    kinds = shape if isinstance(shape, tuple) else (
        shape if isinstance(shape, type) else type(shape),)
    if not isinstance(value, kinds):
        yield _must_be(where, kinds)
    elif isinstance(shape, dict):
        missing = [key for key in shape if key not in value]
        if missing:
            yield f"no {', '.join(missing)}" + (f" in {where}" if where else "")
            return
        for key, part in shape.items():
            yield from _wrong(value[key], part, f"{where}.{key}" if where else key)
    elif isinstance(shape, list):
        for number, each in enumerate(value):
            yield from _wrong(each, shape[0], f"{where}[{number}]")


def _figures(values, kinds, where):
    """Objects by name that hold figures only."""
    for name, value in values.items():
        yield from _wrong(value, kinds, f"{where}.{name}")


def _astray(document):
    """Return references to nothing, and values that are not among the choices."""
    for key in ("metrics", "subjects", "cases"):
        if not document[key]:
            yield f"{key}: empty, must be one or more"
    if not document["machine"]["load"]:
        yield "machine.load: empty, must be one or more"
    for metric in document["metrics"]:
        if metric["better"] not in (HIGHER, LOWER):
            yield (f"metrics: better {metric['better']!r} of {metric['name']}: must be {HIGHER} "
                   f"or {LOWER}")
    known = {"case": {case["name"] for case in document["cases"]},
             "subject": {subject["name"] for subject in document["subjects"]}}
    for key in ("results", "summary", "verdicts"):
        for number, row in enumerate(document[key]):
            for what, names in known.items():
                if what in row and row[what] not in names:
                    yield f"{key}[{number}]: {what} {row[what]!r} is none of the {what}s"
    for case in document["cases"]:
        yield from _figures(case["reference"], NUMBER, f"reference of {case['name']}")
        if "point" in case:
            yield from _wrong(case["point"], POINT, f"point of {case['name']}")
    for number, row in enumerate(document["results"]):
        yield from _result(row, f"results[{number}]")
    for number, row in enumerate(document["summary"]):
        if row["ratio"] is not None:
            yield from _wrong(row["ratio"], RATIO, f"summary[{number}].ratio")


def _result(row, where):
    """Check the values of a measurement that the plots and the comparison use."""
    yield from _figures(row["metrics"], MAYBE_NUMBER, f"{where}.metrics")
    percentiles, series = row.get("percentiles", {}), row.get("series", {})
    yield from _wrong(percentiles, dict, f"{where}.percentiles")
    yield from _wrong(series, dict, f"{where}.series")
    yield from _figures(percentiles, NUMBER, f"{where}.percentiles")
    for percent in percentiles:
        if not re.fullmatch(r"\d+(\.\d+)?", percent, re.ASCII):
            yield f"{where}.percentiles: {percent!r} is not a number"
    for name, points in series.items():
        yield from _wrong(points, [[NUMBER]], f"{where}.series.{name}")
        if any(len(point) != 2 for point in points):
            yield f"{where}.series.{name}: must be pairs"
