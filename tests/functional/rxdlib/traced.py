# SPDX-License-Identifier: GPL-2.0-only
"""Processes that "strace -D" holds at a system call."""

import os
import re
import signal


def status(process):
    """The state of the first thread, the signals that the process is to take, and the tracer."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        text = file.read()
    return (re.search(r"^State:\s+(\w)", text, re.MULTILINE)[1],
            int(re.search(r"^ShdPnd:\s+(\w+)", text, re.MULTILINE)[1], 16),
            int(re.search(r"^TracerPid:\s+(\d+)", text, re.MULTILINE)[1]))


def let_go(process):
    """End the tracer. What it has held goes on."""
    tracer = status(process)[2]
    if tracer:
        os.kill(tracer, signal.SIGKILL)
