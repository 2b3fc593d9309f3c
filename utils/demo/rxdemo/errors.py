# SPDX-License-Identifier: GPL-2.0-only
"""What may end the demo early."""

import signal


class DemoError(Exception):
    """One line for the user."""


class Interrupted(BaseException):
    """A signal asked the demo to end; not an error that a step may handle."""

    def __init__(self, signum):
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.signum = signum
