# SPDX-License-Identifier: GPL-2.0-only
"""A report as text for a terminal."""

from ..run.plan import IOPS, MOST_OFF, REQUESTED, misses
from ..system.units import duration, number, size
from . import sweep

NOISE, UNKNOWN, MISSED = "~", "?", "!"
MOST_COLUMNS = 8


def table(head, rows, left=1):
    """Columns with the necessary width; the first `left` are aligned left. None is a rule."""
    widths = [max(len(line[column]) for line in [head, *filter(None, rows)])
              for column in range(len(head))]

    def text(line):
        cells = (cell.ljust(width) if column < left else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths)))
        return "  ".join(cells).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return [text(head), rule] + [text(row) if row else rule for row in rows]


def wrap(text, width=96, indent="  "):
    """Break a note into lines."""
    line = "-"
    for word in text.split():
        if len(line) + 1 + len(word) > width:
            yield line
            line = indent + word
        else:
            line += " " + word if line.strip() else word
    yield line


def value(metric, amount):
    """A number in the form that its unit needs."""
    if amount is None:
        return "-"
    if metric["unit"] == "us":
        return duration(amount)
    if metric["unit"] == "IOPS":
        return f"{amount:,.0f}"
    return number(amount)


def times(ratio):
    """A ratio, with a mark if it is noise."""
    if not ratio:
        return ""
    mark = {True: NOISE, False: "", None: UNKNOWN}[ratio["within_noise"]]
    return f"{mark}{number(ratio['median'])} x"


def spread(row):
    percent = row["spread_percent"]
    return UNKNOWN if percent is None else f"{percent:.0f} %"


def _heading(metric):
    # The requested rate has the unit of the achieved one.
    if metric["name"] in ("iops", "mb_s"):
        return metric["unit"]
    return metric["title"] if metric["unit"] == "us" else f"{metric['title']} {metric['unit']}"


def _missed_rate(cells, seconds):
    """Did the case of a row achieve another rate than the requested one?"""
    found = {cell["metric"]: cell["median"] for cell in filter(None, cells)}
    wanted, reached = found.get(REQUESTED.name), found.get(IOPS.name)
    return bool(wanted and reached is not None and misses(wanted, reached, seconds))


def _cells(metrics, cells, seconds):
    missed = _missed_rate(cells, seconds)
    return [(MISSED if missed and metric["name"] == IOPS.name else "")
            + value(metric, cell and cell["median"]) for metric, cell in zip(metrics, cells)]


def columns(document):
    """Head and rows of the summary: a row for each case and subject, None between cases."""
    metrics = document["metrics"]
    titles = {subject["name"]: subject["title"] for subject in document["subjects"]}
    bases = {case["base"] for case in document["cases"]} - {None}
    head = ["", "subject", *map(_heading, metrics), "spread"]
    if bases:
        base = min(bases)
        head.append(f"beside {titles.get(base, base)}" if len(bases) == 1 else "ratio")
    found = {(row["case"], row["subject"], row["metric"]): row for row in document["summary"]}
    seconds = {(row["case"], row["subject"]): row["metrics"].get("average_s")
               for row in document["results"]}
    rows = []
    for case in document["cases"]:
        lines = []
        for subject in document["subjects"]:
            cells = [found.get((case["name"], subject["name"], metric["name"]))
                     for metric in metrics]
            first = next(filter(None, cells), None)
            if not first:
                continue
            line = ["" if lines else case["title"], subject["title"],
                    *_cells(metrics, cells, seconds.get((case["name"], subject["name"]))),
                    spread(first)]
            if len(head) > len(line):
                line.append("1 x" if subject["name"] == case["base"] else times(first["ratio"]))
            lines.append(line)
        if lines:
            rows += ([None] if rows and len(document["subjects"]) > 1 else []) + lines
    return head, rows


def _beside(document, cases, alone):
    """One table of side_by_side()."""
    metric = document["metrics"][0]
    names = {case["name"] for case in cases}
    found = {(row["case"], row["subject"]): row for row in document["summary"]
             if row["metric"] == metric["name"] and row["case"] in names}
    references = list(dict.fromkeys(key for case in cases for key in case.get("reference", {})))
    subjects = [subject for subject in document["subjects"]
                if any(name == subject["name"] for _case, name in found)]
    if not subjects or len(subjects) + len(references) < 2 or len(subjects) > MOST_COLUMNS:
        return None

    def cell(case, subject):
        row = found.get((case["name"], subject["name"]))
        if not row:
            return value(metric, None)
        beside = "; ".join(filter(None, [spread(row), times(row["ratio"])]))
        return value(metric, row["median"]) + (f" ({beside})" if alone else "")

    rows = [[case["title"], *(cell(case, subject) for subject in subjects),
             *(value(metric, case.get("reference", {}).get(key)) for key in references)]
            for case in cases
            if any((case["name"], subject["name"]) in found for subject in subjects)]
    return [metric["unit"], *(subject["title"] for subject in subjects), *references], rows


def side_by_side(document, alone=False):
    """Head and rows of the metric that decides: a column for each subject, then others' figures.

    One table for each subject that others are compared with; those of too many columns are left
    out. A sweep has its own. Where these tables stand alone, without those of columns(), they
    have spreads and ratios.
    """
    if sweep.points(document):
        return sweep.tables(document, spread if alone else None)
    groups = {}
    for case in document["cases"]:
        groups.setdefault(case["base"], []).append(case)
    made = (_beside(document, cases, alone) for cases in groups.values())
    return [each for each in made if each]


def machine_line(machine, load=True):
    now = f"load {machine['load'][0]:.2f}, " if load else ""
    return (f"Linux {machine['kernel']}, {machine['cpus']} CPUs ({machine['cpu']}), "
            f"{size(machine['memory'])} of memory, virtualization: {machine['virtualization']}, "
            f"governor: {machine['governor']}, {now}{machine['fio']}")


def how_often(document):
    """The number of repeats, and the cases that were repeated because of their spread."""
    asked = document["repeats"]
    most = max([asked, *(row["n"] for row in document["summary"])])
    return (f"{asked} to {most} repeats" if most > asked else
            f"{asked} repeat" + ("s" if asked > 1 else ""))


def verdicts(document):
    titles = {case["name"]: case["title"] for case in document["cases"]}
    return [f"{titles[verdict['case']]}: {verdict['text']}." for verdict in document["verdicts"]]


def legend(document):
    """The explanation of the marks in the table."""
    if any(case["base"] for case in document["cases"]):
        yield (f"{NOISE}: within the noise (95 % confidence for each ratio alone, "
               "repeats measured in turn).")
    if any(metric["name"] == REQUESTED.name for metric in document["metrics"]):
        yield (f"{MISSED}: the achieved rate differs from the requested one by more than "
               f"{MOST_OFF:.0%}, and by more than the chance of random arrivals.")
    yield (f"Medians of {how_often(document)}; spread: from the lowest to the highest, in percent "
           f"of the median, of {document['metrics'][0]['title']}; {UNKNOWN}: too few measurements "
           "to tell.")


def render(document):
    """The report as lines."""
    lines = [machine_line(document["machine"]), ""]
    head, rows = columns(document)
    lines += table(head, rows, left=2) if rows else ["Nothing was measured."]
    lines.append("")
    for head, rows in side_by_side(document):
        lines += [*table(head, rows), ""]
    notes = [*verdicts(document), *legend(document), *document["notes"],
             *(f"Warning: {text}." for text in document["warnings"])]
    if document["ended_by"]:
        notes.append(f"Ended early by {document['ended_by']}: these are the results until then.")
    notes += [f"Failed: {failure['message']}." for failure in document["failures"]]
    for note in notes:
        lines += wrap(note)
    return lines
