# SPDX-License-Identifier: GPL-2.0-only
"""Do things at once, each in a process of its own, and never leave one behind."""

import json
import os
import signal

from .errors import BenchError
from .undo import interruptible

# Read at once of what a process says.
PIECE = 4096


class Process:
    """Makes a call, and says what came of it."""

    def __init__(self, call):
        self.reader, writer = os.pipe()
        try:
            self.child = os.fork()
        except OSError:
            os.close(self.reader)
            os.close(writer)
            raise
        if self.child:
            os.close(writer)
        else:
            self._serve(call, writer)

    @staticmethod
    def _serve(call, writer):
        """A thread of the parent may hold a lock of a stream: nothing is written to any here."""
        code = 1
        try:
            # Ctrl-C reaches the parent alone.
            os.setsid()
            os.write(writer, json.dumps(call()).encode())
            code = 0
        except BaseException as error:
            os.write(writer, (str(error) or repr(error)).encode()[:PIECE])
        finally:
            os._exit(code)

    def _reap(self):
        child, self.child = self.child, None
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def wait(self):
        """What the call returned."""
        said = b""
        with interruptible():
            # It has no other end once the process is gone.
            while data := os.read(self.reader, PIECE):
                said += data
        code = self._reap()
        if code:
            raise BenchError(said.decode(errors="replace") or f"a process ended with {code}")
        return json.loads(said)

    def end(self):
        """Nothing, if it was waited for."""
        if self.child:
            os.kill(self.child, signal.SIGTERM)
            self._reap()
        os.close(self.reader)


def run(calls):
    """Make the calls, and return what they do, which must fit JSON; a failure ends them all."""
    running = []
    try:
        for call in calls:
            running.append(Process(call))
        return [process.wait() for process in running]
    finally:
        for process in running:
            process.end()
