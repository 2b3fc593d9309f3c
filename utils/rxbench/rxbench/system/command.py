# SPDX-License-Identifier: GPL-2.0-only
"""Run other programs, and leave none behind."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
import time

from .errors import BenchError
from .undo import interruptible, signals_held

# How a program, which it names, reports an error.
ERROR = re.compile(r"[\w.-]+: (fatal|error)\b", re.IGNORECASE)
# Bytes of a program's output to read at once.
PIECE = 1 << 20
# The settings of a make that runs this program must not affect programs below it.
DROPPED = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
# Join a control group before the program is executed.
JOIN = ("sh", "-c", 'echo $$ >"$0" && exec "$@"')

_before = ()


class CommandFailed(BenchError):
    """A program ended with an exit code that is not 0."""

    def __init__(self, message, code, stdout=""):
        super().__init__(message)
        self.code = code
        self.stdout = stdout


def environment():
    env = {key: value for key, value in os.environ.items() if key not in DROPPED}
    env["LC_ALL"] = "C"
    return env


def _stop(process, grace, signum=signal.SIGTERM):
    with signals_held():
        process.send_signal(signum)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # Programs that the program itself has started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()


@contextlib.contextmanager
def within(procs):
    """Programs that the block starts join a control group by its cgroup.procs, if there is one."""
    global _before
    earlier, _before = _before, (*JOIN, procs) if procs else ()
    try:
        yield
    finally:
        _before = earlier


def _start(argv, **options):
    """Start argv in a session of its own, so that Ctrl-C reaches only this program."""
    try:
        return subprocess.Popen([*_before, *argv], stdin=subprocess.DEVNULL, text=True,
                                errors="replace", start_new_session=True, env=environment(),
                                **options)
    except FileNotFoundError as error:
        raise BenchError(f"{argv[0]}: no such program") from error
    except PermissionError as error:
        raise BenchError(f"{argv[0]}: cannot be executed") from error


def _spawn(argv, grace, **options):
    process = None
    try:
        process = _start(argv, **options)
        with interruptible():
            stdout, stderr = process.communicate()
    except BaseException:
        if process:
            _stop(process, grace)
        raise
    return process.returncode, stdout, stderr


def _failure(argv, code, stdout, stderr):
    lines = stderr.strip().splitlines() or [f"exit code {code}"]
    # Some programs tell there what they do.
    line = next(filter(ERROR.match, lines), lines[0])
    name = os.path.basename(argv[0])
    named = line.startswith(name) or ERROR.match(line)
    return CommandFailed(line if named else f"{name}: {line}", code, stdout)


def run(*argv, cwd=None):
    """Run a program; returns what it wrote to stdout and to stderr."""
    code, stdout, stderr = _spawn(argv, 5, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd)
    if code:
        raise _failure(argv, code, stdout, stderr)
    return stdout, stderr


def show(*argv):
    """Run a program with the terminal as its output; returns its exit code."""
    return _spawn(argv, 60)[0]


@contextlib.contextmanager
def ahead(steps):
    """Run the block, and what it starts, with a priority so much higher; the gain is the value.

    It is 0 where that is not allowed.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before - steps)
        yield before - os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def follow(argv, on_text):
    """Run a program, and pass on its standard output as it arrives, in whole lines."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = _start(argv, stdout=subprocess.PIPE, stderr=errors)
        rest = b""
        try:
            while True:
                with interruptible():
                    data = os.read(process.stdout.fileno(), PIECE)
                lines, end, rest = (rest + data).rpartition(b"\n")
                if end:
                    on_text((lines + end).decode(errors="replace"))
                if not data:
                    break
            if rest:
                on_text(rest.decode(errors="replace"))
            with interruptible():
                code = process.wait()
        except BaseException:
            _stop(process, 5)
            raise
        process.stdout.close()
        if code:
            errors.seek(0)
            raise _failure(argv, code, "", errors.read())


@contextlib.contextmanager
def meanwhile(*argv, log=subprocess.DEVNULL, stop=signal.SIGTERM, grace=5):
    """Run a program as long as the block runs; it is an error if it ends before.

    It has so many seconds to end after the signal.
    """
    process = _start(argv, stdout=log, stderr=log)
    try:
        yield process
        if process.poll() is not None:
            raise BenchError(f"{argv[0]}: exited too early, with exit code {process.returncode}")
    finally:
        _stop(process, grace, stop)


def timed(*argv, cwd=None):
    """Run a program for its time; return real, user and sys in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(*argv, cwd=cwd)
    real, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"real_s": real, "user_s": after.ru_utime - before.ru_utime,
            "sys_s": after.ru_stime - before.ru_stime}
