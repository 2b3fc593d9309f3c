# SPDX-License-Identifier: GPL-2.0-only
"""Which functions of the kernel a call runs, as ftrace records them."""

import contextlib
import os
import re
from pathlib import Path


@contextlib.contextmanager
def traced(lab, functions):
    """Get a function that makes a call, and returns the names of those @functions that ran in it.

    @functions may have wildcards, as set_ftrace_filter does.
    """
    folder = Path(lab.mount("none", "-t", "tracefs"))

    def write(name, text):
        (folder / name).write_text(text, encoding="ascii")

    def trace(function, *args):
        write("trace", "")
        function(*args)
        text = (folder / "trace").read_text(encoding="ascii")
        return re.findall(r": (\w+)(?: \[\w+\])? <-", text)

    write("set_ftrace_filter", f"{functions}\n")
    write("set_ftrace_pid", f"{os.getpid()}\n")
    write("current_tracer", "function\n")
    try:
        yield trace
    finally:
        for name, text in (("current_tracer", "nop"), ("set_ftrace_pid", ""),
                           ("set_ftrace_filter", "")):
            write(name, f"{text}\n")
