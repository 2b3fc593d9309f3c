# SPDX-License-Identifier: GPL-2.0-only
"""dd: command line, and its last line as numbers."""

import re

from .errors import DemoError

BLOCK = 1 << 20

READ, WRITE = "read", "write"


def command(device, direction, size):
    """argv of a direct copy of size bytes, in blocks of 1 MiB."""
    if direction == WRITE:
        ends = ["if=/dev/zero", f"of={device}", "oflag=direct", "conv=fsync,notrunc,nocreat"]
    else:
        ends = [f"if={device}", "of=/dev/null", "iflag=direct"]
    return ["dd", *ends, "bs=1M", f"count={size // BLOCK}"]


def row(text):
    """Bytes, seconds and MB/s out of what dd says at its end."""
    match = re.search(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s,", text, re.MULTILINE)
    if not match or not float(match[2]):
        raise DemoError(f"dd: no speed in its output: {text.strip()[-80:]!r}")
    size, seconds = int(match[1]), float(match[2])
    return {"bytes": size, "seconds": seconds, "bw_mb_s": size / seconds / 1e6}
