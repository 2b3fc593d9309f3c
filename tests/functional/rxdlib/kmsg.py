# SPDX-License-Identifier: GPL-2.0-only
"""The kernel log, as it grows."""

import errno
import os
import re

TROUBLE = re.compile(
    r"WARNING:|BUG:|Oops|Call Trace|KASAN|KFENCE|UBSAN|KCSAN|lockdep|INFO: task|"
    r"blocked for more than|general protection fault|unable to handle|soft lockup|"
    r"possible (circular|recursive)|suspicious RCU|rcu.* detected.* stalls?|"
    r"list_(add|del) corruption|refcount_t:|bad page|Bad page|Out of memory: Killed|"
    r"sleeping function called from invalid context|scheduling while atomic|"
    r"page allocation failure|Kernel panic|memory leak")


class KernelLog:
    """A reader of /dev/kmsg that starts at its end."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self.fd, 0, os.SEEK_END)
        self.pending = []
        self.overrun = False

    def close(self):
        os.close(self.fd)

    def lines(self):
        """All lines since the last rewind."""
        while True:
            try:
                record = os.read(self.fd, 8192)
            except BlockingIOError:
                return self.pending
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                self.overrun = True
                continue
            text = record.decode("utf-8", "replace").split(";", 1)[1]
            self.pending.append(text.split("\n", 1)[0])

    def rewind(self):
        """Forget the lines so far."""
        self.lines()
        self.pending = []
        self.overrun = False

    def trouble(self):
        """The lines that no test may cause."""
        found = [line for line in self.lines() if TROUBLE.search(line)]
        if self.overrun:
            found.append("lines of the kernel log were lost")
        return found
