# SPDX-License-Identifier: GPL-2.0-only
"""Undo what was set up, in reverse order, however a run ends."""

import contextlib
import signal

from .errors import BenchError, Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A handler that raised at any point could raise before an undo is registered, or after it was
# removed. So it records the signal, and raises only during a wait.
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
    """Ignore signals, because there is nothing left to end."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def check():
    """Raise Interrupted if a signal has arrived and is not held."""
    global _pending
    if not _held and _pending is not None:
        signum, _pending = _pending, None
        raise Interrupted(signum)


@contextlib.contextmanager
def signals_held():
    """Hold signals until the end of the block."""
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
    """A context manager that undoes what do() set up."""

    def __init__(self, complain):
        self.complain = complain
        self.steps = []
        self.failed = False

    def do(self, what, make, unmake):
        """Call make() and remember unmake(RESULT), without a signal in between."""
        with signals_held():
            result = make()
            self.steps.append((what, lambda: unmake(result)))
        return result

    def mark(self):
        """A position for back_to()."""
        return len(self.steps)

    def back_to(self, mark):
        """Undo everything that was done since the mark."""
        self.unwind(mark)
        if self.failed:
            raise BenchError("not everything could be undone")

    def unwind(self, mark):
        """Undo like back_to(), but report errors only and store them in "failed"."""
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
