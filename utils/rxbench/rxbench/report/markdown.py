# SPDX-License-Identifier: GPL-2.0-only
"""Reports as tables of Markdown, for use in other texts."""

import re
import shlex

from . import text

BRACKETS = "In brackets, % is the spread, and x the ratio to the subject that has no ratio."
SPECIAL = re.compile(r"([\\|*_`<~])")


def _escaped(words):
    return SPECIAL.sub(r"\\\1", words)


def _row(cells):
    return f"| {' | '.join(map(_escaped, cells))} |"


def _table(head, rows, left=1):
    yield _row(head)
    yield f"|{'|'.join(' --- ' if column < left else ' ---: ' for column in range(len(head)))}|"
    yield from map(_row, filter(None, rows))
    yield ""


def _section(document):
    """Return the command, its tables, and their notes."""
    yield from (f"`{shlex.join(document['command'])}`", "")
    tables = text.side_by_side(document, alone=True)
    for head, rows in tables:
        yield from _table(head, rows)
    # Steady states and caches have other metrics besides the deciding one.
    if not tables or document["settings"].get("steady") or document["workload"] == "memory":
        yield from _table(*text.columns(document), left=2)
    notes = [*text.verdicts(document), *([BRACKETS] if tables else []), *text.legend(document),
             *document["notes"], *(f"Warning: {warning}." for warning in document["warnings"]),
             *(f"Failed: {failure['message']}." for failure in document["failures"])]
    if document["ended_by"]:
        notes.append(f"Ended early by {document['ended_by']}.")
    yield from (f"- {_escaped(note)}" for note in notes)
    yield ""


def render(documents):
    """Return reports as lines, one after the other; the machine is printed only if it changes."""
    machine = None
    for document in documents:
        here = text.machine_line(document["machine"], load=False)
        if here != machine:
            yield from (f"{_escaped(here)}.", "")
            machine = here
        yield from _section(document)
