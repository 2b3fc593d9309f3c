# SPDX-License-Identifier: GPL-2.0-only
"""Reports as one HTML file without external parts."""

from html import escape

from ..system.units import size
from . import plots, text

STYLE = """
body { font: 15px/1.45 sans-serif; max-width: 68em; margin: 2em auto; padding: 0 1em;
  color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px; }
th, td { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
tr.first td { border-top: 2px solid #888; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1em 1em; font-size: 13px; }
dt { color: #666; } dd { margin: 0; }
figure { margin: 1.5em 0; } figcaption { font-weight: bold; } svg { max-width: 100%; height: auto; }
.warning { background: #fff3cd; padding: .4em .8em; }
code { background: #f4f4f4; }
"""


def _list(items):
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>" \
        if items else ""


def _table(head, rows):
    if not rows:
        return ""
    lines = ["<table><thead><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head)
             + "</tr></thead><tbody>"]
    first = True
    for row in rows:
        if row is None:
            first = True
            continue
        lines.append(f"<tr{' class=first' if first else ''}>"
                     + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
        first = False
    return "".join(lines) + "</tbody></table>"


def _fact(value):
    text = escape(str(value))
    return f"<pre>{text}</pre>" if "\n" in text else text


def _facts(pairs):
    return "<dl>" + "".join(f"<dt>{escape(str(name))}</dt><dd>{_fact(value)}</dd>"
                            for name, value in pairs) + "</dl>"


def _flat(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _machine(document):
    machine = {**document["machine"]}
    for key in ("memory", "memory_available"):
        machine[key] = size(machine[key])
    machine["load"] = " ".join(f"{load:.2f}" for load in machine["load"])
    machine["busy_percent"] = f"{machine['busy_percent']:.0f}"
    return _facts((key.replace("_", " "), _flat(value)) for key, value in machine.items())


def section(document, number):
    """One report."""
    parts = [f"<section id=report-{number}><h2>{escape(document['workload'])}</h2>",
             f"<p><code>{escape(' '.join(document['command']))}</code><br>"
             f"{escape(document['started'])}, {document['seconds']:.0f} s</p>"]
    warnings = [*document["warnings"], *(failure["message"] for failure in document["failures"])]
    if document["ended_by"]:
        warnings.append(f"ended early by {document['ended_by']}")
    if warnings:
        parts.append(f"<div class=warning>{_list(warnings)}</div>")
    head, rows = text.columns(document)
    parts += [_table(head, rows) or "<p>Nothing was measured.</p>",
              *(_table(head, rows) for head, rows in text.side_by_side(document)),
              _list(text.verdicts(document)),
              _list([*text.legend(document), *document["notes"]])]
    if not plots.available():
        parts.append("<p>The plots need matplotlib (python3-matplotlib).</p>")
    for name, title, svg in plots.draw(document, f"report-{number}") if plots.available() else ():
        parts.append(f"<figure id=plot-{number}-{name}><figcaption>{escape(title)}</figcaption>"
                     f"{svg}</figure>")
    parts += ["<h3>The machine</h3>", _machine(document), "<h3>What was compared</h3>",
              _facts((subject["title"], _flat(subject["details"]))
                     for subject in document["subjects"]),
              "<h3>Settings</h3>", _facts((key, _flat(value))
                                          for key, value in document["settings"].items()),
              "</section>"]
    return "\n".join(filter(None, parts))


def render(documents):
    """Reports, one after the other, as one page."""
    sections = [section(document, number) for number, document in enumerate(documents, 1)]
    title = "rxbench: " + ", ".join(document["workload"] for document in documents)
    return (f"<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>{escape(title)}"
            f"</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>\n"
            + "\n".join(sections) + "\n</body></html>\n")
