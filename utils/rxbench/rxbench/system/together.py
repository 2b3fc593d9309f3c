# SPDX-License-Identifier: GPL-2.0-only
"""Run calls in parallel, each in its own process, and leave no process behind."""

import json
import os
import signal

from .errors import BenchError
from .undo import interruptible

# Bytes of a process's answer to read at once.
PIECE = 4096


class Process:
    """A process that makes a call and reports its result."""

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
        """Write to no stream here, because a thread of the parent may hold its lock."""
        code = 1
        try:
            # Only the parent handles Ctrl-C.
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
        """Return the result of the call."""
        said = b""
        with interruptible():
            # After the process is gone, the pipe has no other end.
            while data := os.read(self.reader, PIECE):
                said += data
        code = self._reap()
        if code:
            raise BenchError(said.decode(errors="replace") or f"a process ended with {code}")
        return json.loads(said)

    def end(self):
        """End the process, if it was not waited for."""
        if self.child:
            os.kill(self.child, signal.SIGTERM)
            self._reap()
        os.close(self.reader)


def run(calls):
    """Run the calls and return their results, which must fit JSON; one failure ends all."""
    running = []
    try:
        for call in calls:
            running.append(Process(call))
        return [process.wait() for process in running]
    finally:
        for process in running:
            process.end()
