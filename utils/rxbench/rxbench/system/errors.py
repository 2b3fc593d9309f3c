# SPDX-License-Identifier: GPL-2.0-only
"""What may end a run early."""

import signal


class BenchError(Exception):
    """One line for the user."""


class BadInput(BenchError):
    """What the user asked for cannot be done; nothing was written."""


class TooSmall(BadInput):
    """A device does not have the size that is needed."""


class Interrupted(BaseException):
    """A signal asked to end; not an error that a step may handle."""

    def __init__(self, signum):
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.signum = signum
