# SPDX-License-Identifier: GPL-2.0-only
"""dd: command line, and its last line as a row."""

from rxbench.tools import dd

BLOCK = 1 << 20

READ, WRITE = "read", "write"


def command(device, direction, size):
    """argv of a direct copy of size bytes, in blocks of 1 MiB."""
    if direction == WRITE:
        return dd.argv("/dev/zero", device, BLOCK, size, "oflag", flush=True, device=True)
    return dd.argv(device, "/dev/null", BLOCK, size, "iflag")


def row(text):
    """Bytes, seconds and MB/s out of what dd says at its end."""
    size, seconds = dd.numbers(text)
    return {"bytes": size, "seconds": seconds, "bw_mb_s": size / seconds / 1e6}
