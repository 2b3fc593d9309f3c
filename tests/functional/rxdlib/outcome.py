# SPDX-License-Identifier: GPL-2.0-only
"""What must come of a call of rxadm."""

import re

from .command import rxadm
from .lab import LONG, state

# What takes --dry-run.
CHANGES = {"apply", "clear", "clone", "create", "export", "limit", "map", "mode", "remove", "reset",
           "resize", "set", "unexport", "unmap"}


def ok(*args):
    """It succeeds, with nothing on standard error. Returns its output."""
    result = rxadm(*args)
    assert (result.returncode, result.stderr) == (0, ""), f"{args}: {result}"
    return result.stdout


def _agrees(result, args, runner):
    """--dry-run is refused by the same line, but for the amount of memory that is available."""
    again = runner(args[0], "--dry-run", *args[1:])
    said = [re.sub(r"[\d.]+\w+ of memory", "", text) for text in (again.stderr, result.stderr)]
    assert (again.returncode, again.stdout, said[0]) == (result.returncode, "", said[1]), again


def refused(code, *args, names=(), runner=rxadm, dry_run=True):
    """It fails with one line that has these words, and changes nothing. Returns the line.

    Runs that take long see that --dry-run says the same, unless @dry_run is not set.
    """
    before = state()
    result = runner(*args)
    assert (result.returncode, result.stdout) == (code, ""), result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("rxadm: "), result
    for name in [names] if isinstance(names, str) else names:
        assert name in lines[0], lines[0]
    if LONG and dry_run and args and args[0] in CHANGES and "--dry-run" not in args:
        _agrees(result, args, runner)
    assert state() == before
    return lines[0]
