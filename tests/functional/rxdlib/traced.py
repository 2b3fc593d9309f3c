# SPDX-License-Identifier: GPL-2.0-only
"""Processes that wait for a disk, or that "strace -D" holds at a system call."""

import contextlib
import os
import re
import signal
import subprocess
import time

from .command import ENVIRONMENT, program

# LeakSanitizer cannot work beside strace.
TRACED = {**ENVIRONMENT, "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
SECONDS = 60


def read_status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return file.read()


def status(process):
    """The state of the first thread, the signals that the process is to take, and the tracer."""
    text = read_status(process.pid)
    return (re.search(r"^State:\s+(\w)", text, re.MULTILINE)[1],
            int(re.search(r"^ShdPnd:\s+(\w+)", text, re.MULTILINE)[1], 16),
            int(re.search(r"^TracerPid:\s+(\d+)", text, re.MULTILINE)[1]))


def wait_until_blocked(process):
    """Until the first thread sleeps in an I/O that does not end."""
    end, same, before = time.monotonic() + SECONDS, 0, None
    while same < 10:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)
        text = read_status(process.pid)
        now = re.search(r"^State:\s+D", text, re.MULTILINE) and \
            re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.MULTILINE)[1]
        same = same + 1 if now and now == before else 0
        before = now


def function_of(process):
    """The function of the kernel in which the first thread sleeps, or "0"."""
    with open(f"/proc/{process.pid}/wchan", encoding="ascii") as file:
        return file.read()


def wait_until_in(process, function):
    """Until its first thread sleeps in a function of the kernel whose name begins so."""
    end, place = time.monotonic() + SECONDS, ""
    while not place.startswith(function):
        assert process.poll() is None and time.monotonic() < end, place
        time.sleep(0.05)
        place = function_of(process)


@contextlib.contextmanager
def held(process):
    """Stop the tracer: the process does not get beyond its next system call that is traced."""
    tracer = status(process)[2]
    os.kill(tracer, signal.SIGSTOP)
    try:
        end = time.monotonic() + SECONDS
        while not re.search(r"^State:\s+T", read_status(tracer), re.MULTILINE):
            assert time.monotonic() < end
            time.sleep(0.01)
        yield
    finally:
        os.kill(tracer, signal.SIGCONT)


def let_go(process):
    """End the tracer. What it has held goes on."""
    tracer = status(process)[2]
    if tracer:
        os.kill(tracer, signal.SIGKILL)


@contextlib.contextmanager
def held_at(log, call, *args, number=1, error=None, options=()):
    """Run rxadm, and hold it until let_go() as it begins a system call: the first one of a kind,
    or another number. If it gets an error instead, it is held as that is returned."""
    where = f"error={error}:delay_exit" if error else "delay_enter"
    command = ["strace", "-D", "-f", "-o", log, "-e", f"trace={call}", *options, "-e",
               f"inject={call}:{where}=600s:when={number}", program("rxadm"), *args]
    sign, count = ("(INJECTED)", 1) if error else (f"{call}(", number)
    with subprocess.Popen([str(word) for word in command], env=TRACED, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            end = time.monotonic() + SECONDS
            while not log.exists() or log.read_text().count(sign) < count:
                assert process.poll() is None and time.monotonic() < end, call
                time.sleep(0.02)
            yield process
        finally:
            if process.poll() is None:
                let_go(process)
                process.kill()
