# SPDX-License-Identifier: GPL-2.0-only
"""A report as text for a terminal."""

from ..system.units import duration, number, size

NOISE, UNKNOWN = "~", "?"


def table(head, rows, left=1):
    """Columns as wide as they must be; the first `left` flush left. None is a rule."""
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
    """A number as its unit wants it."""
    if amount is None:
        return "-"
    if metric["unit"] == "us":
        return duration(amount)
    if metric["unit"] == "IOPS":
        return f"{amount:,.0f}"
    return number(amount)


def times(ratio):
    """A ratio with the mark of what is noise."""
    if not ratio:
        return ""
    mark = {True: NOISE, False: "", None: UNKNOWN}[ratio["within_noise"]]
    return f"{mark}{number(ratio['median'])} x"


def _heading(metric):
    return metric["title"] if metric["unit"] in ("us", "IOPS") else metric["unit"] \
        if metric["unit"] == "MB/s" else f"{metric['title']} {metric['unit']}".strip()


def columns(document):
    """Head and rows of the summary: a row for each case and subject, None between cases."""
    metrics = document["metrics"]
    references = list(dict.fromkeys(key for case in document["cases"]
                                    for key in case.get("reference", {})))
    base = {subject["name"]: subject["title"] for subject in document["subjects"]}.get(
        document["base"])
    head = ["", "subject", *map(_heading, metrics), "spread"]
    head[-1:] = ["spread"]
    if base:
        head.append(f"beside {base}")
    head += references
    found = {(row["case"], row["subject"], row["metric"]): row for row in document["summary"]}
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
                    *(value(metric, cell and cell["median"])
                      for metric, cell in zip(metrics, cells)),
                    f"{first['spread_percent']:.0f} %"]
            if base:
                line.append(times(first["ratio"]))
            lines.append(line + [number(case["reference"][key])
                                 if key in case.get("reference", {}) else ""
                                 for key in references])
        if lines:
            rows += ([None] if rows else []) + lines
    return head, rows


def machine_line(machine):
    return (f"Linux {machine['kernel']}, {machine['cpus']} CPUs ({machine['cpu']}), "
            f"{size(machine['memory'])} of memory, virtualization: {machine['virtualization']}, "
            f"governor: {machine['governor']}, load {machine['load'][0]:.2f}, {machine['fio']}")


def legend(document):
    """What must be known to read the table."""
    if document["base"]:
        yield (f"{NOISE}: within the noise (95 % confidence, repeats measured in turn); "
               f"{UNKNOWN}: measured too few times to know.")
    yield (f"Medians of {document['repeats']} repeats; spread: from the lowest to the highest, in "
           f"percent of the median, of {document['metrics'][0]['title']}.")


def render(document):
    """The report as lines."""
    lines = [machine_line(document["machine"]), ""]
    head, rows = columns(document)
    lines += table(head, rows, left=2) if rows else ["Nothing was measured."]
    lines.append("")
    titles = {case["name"]: case["title"] for case in document["cases"]}
    notes = [*(f"{titles[verdict['case']]}: {verdict['text']}."
               for verdict in document["verdicts"]),
             *legend(document), *document["notes"],
             *(f"Warning: {text}." for text in document["warnings"])]
    if document["ended_by"]:
        notes.append(f"Ended early by {document['ended_by']}: what was measured until then.")
    notes += [f"Failed: {failure['message']}." for failure in document["failures"]]
    for note in notes:
        lines += wrap(note)
    return lines
