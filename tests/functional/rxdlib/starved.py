# SPDX-License-Identifier: GPL-2.0-only
"""Processes that get little time, so that their work is long on any machine."""

import contextlib
import os
import subprocess
import sys
import threading

CPU = max(os.sched_getaffinity(0))


@contextlib.contextmanager
def busy_cpu(seconds):
    """A program that keeps a CPU busy for some seconds, if it is not killed before."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        timer = threading.Timer(seconds, busy.kill)
        try:
            os.sched_setaffinity(busy.pid, {CPU})
            timer.start()
            yield busy
        finally:
            timer.cancel()
            busy.kill()


def starve(pid=0, nice=19):
    """Let a process have a hundredth of that CPU; with a nice value of 15, a thirtieth."""
    os.sched_setaffinity(pid, {CPU})
    os.setpriority(os.PRIO_PROCESS, pid, nice)


def starved(*command):
    """A command that has a hundredth from its start."""
    return ["taskset", "--cpu-list", str(CPU), "nice", "-n", "19", *command]
