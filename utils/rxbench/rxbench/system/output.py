# SPDX-License-Identifier: GPL-2.0-only
"""Output whose reader may be gone, such as a closed pipe or terminal."""

import os
import signal

from .errors import Interrupted


def say(text, out):
    """Write text, or nothing from now on: no error of the output may end what undoes a run."""
    try:
        out.write(text)
        out.flush()
    except OSError:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), out.fileno())
        out.flush()


class Rows:
    """Output of a run that ends when nobody reads it any more, but not when its disk is full."""

    def __init__(self, out, notes):
        self.out, self.notes, self.lost = out, notes, False

    def write(self, text):
        if self.lost:
            return
        try:
            self.out.write(text)
            self.out.flush()
        except BrokenPipeError as error:
            raise Interrupted(signal.SIGPIPE) from error
        except OSError as error:
            self.lost = True
            self.notes.append(f"The lines of the intervals are not complete: {error.strerror} for "
                              "the standard output.")

    def flush(self):
        """All text is written at once."""
