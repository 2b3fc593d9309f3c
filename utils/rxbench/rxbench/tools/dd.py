# SPDX-License-Identifier: GPL-2.0-only
"""dd: command line, and its last line as numbers."""

import re

from ..system import command
from ..system.errors import BenchError


def argv(source, target, block, size, direct="", flush=False, device=False):
    """A copy of size bytes; direct is "", "iflag" or "oflag" (or both, with a comma)."""
    line = ["dd", f"if={source}", f"of={target}", f"bs={block}", f"count={size // block}"]
    line += [f"{flag}=direct" for flag in direct.split(",") if flag]
    conversions = (["fsync"] if flush else []) + (["notrunc", "nocreat"] if device else [])
    return line + ([f"conv={','.join(conversions)}"] if conversions else [])


def numbers(text):
    """Bytes and seconds from the last line of dd."""
    match = re.search(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s,", text, re.MULTILINE)
    if not match or not float(match[2]):
        raise BenchError(f"dd: no speed in its output: {text.strip()[-80:]!r}")
    return int(match[1]), float(match[2])


def measure(*args, **options):
    """The sample of one copy."""
    size, seconds = numbers(command.run(*argv(*args, **options))[1])
    return {"metrics": {"mb_s": size / seconds / 1e6, "seconds": seconds}}
