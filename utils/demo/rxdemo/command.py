# SPDX-License-Identifier: GPL-2.0-only
"""Run other programs, and never leave one behind."""

import contextlib
import os
import signal
import subprocess

from .errors import DemoError
from .undo import interruptible, signals_held

# A make above this one must not steer those below.
DROPPED = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")


class CommandFailed(DemoError):
    """A program ended with an exit code that is not 0."""

    def __init__(self, message, code, stdout=""):
        super().__init__(message)
        self.code = code
        self.stdout = stdout


def environment():
    env = {key: value for key, value in os.environ.items() if key not in DROPPED}
    env["LC_ALL"] = "C"
    return env


def _stop(process, grace):
    with signals_held():
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # What the program itself had started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()


def _spawn(argv, grace, **options):
    """Run argv in a session of its own, so that Ctrl-C reaches us alone."""
    process = None
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, text=True,
                                   start_new_session=True, env=environment(), **options)
        with interruptible():
            stdout, stderr = process.communicate()
    except FileNotFoundError as error:
        raise DemoError(f"{argv[0]}: no such program") from error
    except BaseException:
        if process and process.poll() is None:
            _stop(process, grace)
        raise
    return process.returncode, stdout, stderr


def run(*argv):
    """Run a program; returns what it wrote to stdout and to stderr."""
    code, stdout, stderr = _spawn(argv, 5, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if code:
        lines = stderr.strip().splitlines() or [f"exit code {code}"]
        name = os.path.basename(argv[0])
        reason = lines[0] if lines[0].startswith(name) else f"{name}: {lines[0]}"
        raise CommandFailed(reason, code, stdout)
    return stdout, stderr


def show(*argv):
    """Run a program with the terminal as its output; returns its exit code."""
    return _spawn(argv, 60)[0]
