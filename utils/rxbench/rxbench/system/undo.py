# SPDX-License-Identifier: GPL-2.0-only
"""Undo what was set up, in reverse order, however a run ends."""

import contextlib
import signal

from .errors import BenchError, Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A handler that raised just anywhere could raise where nothing is undone any
# more, or not yet. So it notes the signal, and raises only in a wait.
_held = 0
_waiting = False
_pending = None


def _on_signal(signum, _frame):
    global _pending, _waiting
    _pending = signum
    if _waiting:
        _waiting = False
        check()


def catch_signals():
    """Turn signals that end a program into Interrupted."""
    for signum in SIGNALS:
        signal.signal(signum, _on_signal)


def ignore_signals():
    """Nothing is left that a signal could end."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def check():
    """Raise Interrupted if a signal came and none holds it."""
    global _pending
    if not _held and _pending is not None:
        signum, _pending = _pending, None
        raise Interrupted(signum)


@contextlib.contextmanager
def signals_held():
    """Put signals off to the end of the block."""
    global _held
    _held += 1
    try:
        yield
    finally:
        _held -= 1
    check()


@contextlib.contextmanager
def interruptible():
    """A wait that a signal ends, unless it is held."""
    global _waiting
    _waiting = not _held
    try:
        check()
        yield
    finally:
        _waiting = False


class Undo:
    """A context manager that takes down what do() set up."""

    def __init__(self, complain):
        self.complain = complain
        self.steps = []
        self.failed = False

    def do(self, what, make, unmake):
        """Call make() and remember unmake(RESULT); no signal comes between."""
        with signals_held():
            result = make()
            self.steps.append((what, lambda: unmake(result)))
        return result

    def mark(self):
        """Where back_to() may go back to."""
        return len(self.steps)

    def back_to(self, mark):
        """Undo all that was done since the mark."""
        self.unwind(mark)
        if self.failed:
            raise BenchError("not everything could be undone")

    def unwind(self, mark):
        """As back_to(), but what fails is only complained about and kept in "failed"."""
        with signals_held():
            while len(self.steps) > mark:
                what, step = self.steps.pop()
                try:
                    step()
                except Exception as error:
                    self.failed = True
                    self.complain(f"could not undo: {what}: {error}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_exception):
        self.unwind(0)
        if self.failed and kind is None:
            raise BenchError("not everything could be undone")
