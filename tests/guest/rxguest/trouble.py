# SPDX-License-Identifier: GPL-2.0-only
"""Lines that a kernel log must not contain."""

import re

PATTERN = re.compile(
    r"WARNING:|BUG:|\bOops\b|Call Trace|KASAN|KFENCE|UBSAN|KCSAN|lockdep|INFO: task|"
    r"blocked for more than|general protection fault|[Uu]nable to handle|soft lockup|"
    r"hard LOCKUP|possible (?:circular|recursive)|suspicious RCU|rcu.* detected.* stalls?|"
    r"list_(?:add|del) corruption|refcount_t:|[Bb]ad page|Out of memory: Killed|"
    r"sleeping function called from invalid context|scheduling while atomic|"
    r"page allocation failure|Kernel panic|memory leak|not syncing|inconsistent lock state")


def find(text):
    """Return the lines of a kernel log that report a fault."""
    return [line for line in text.splitlines() if PATTERN.search(line)]


def report(text, most):
    """Return the lines from the first one that reports a fault, which end with its trace."""
    lines = text.splitlines()
    first = next((nr for nr, line in enumerate(lines) if PATTERN.search(line)), len(lines))
    return lines[first:first + most]
