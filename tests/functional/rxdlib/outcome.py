# SPDX-License-Identifier: GPL-2.0-only
"""What must come of a call of rxadm."""

from .command import rxadm
from .lab import state


def ok(*args):
    """It succeeds, with nothing on standard error. Returns its output."""
    result = rxadm(*args)
    assert (result.returncode, result.stderr) == (0, ""), f"{args}: {result}"
    return result.stdout


def refused(code, *args, names=(), runner=rxadm):
    """It fails with one line that has these words, and changes nothing. Returns the line."""
    before = state()
    result = runner(*args)
    assert (result.returncode, result.stdout) == (code, ""), result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("rxadm: "), result
    for name in [names] if isinstance(names, str) else names:
        assert name in lines[0], lines[0]
    assert state() == before
    return lines[0]
