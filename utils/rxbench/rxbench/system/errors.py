# SPDX-License-Identifier: GPL-2.0-only
"""Errors that end a run early."""

import signal


class BenchError(Exception):
    """An error that is reported to the user in one line."""


class BadInput(BenchError):
    """The request of the user is impossible; nothing was written."""


class TooSmall(BadInput):
    """A device is smaller than required."""


class Interrupted(BaseException):
    """A signal requested the end; steps must not handle this as an error."""

    def __init__(self, signum):
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.signum = signum
