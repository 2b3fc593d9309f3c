# SPDX-License-Identifier: GPL-2.0-only
"""Locks of rxadm, held as by another process of it."""

import contextlib
import fcntl
import os

EMPTY, SAVE, DATA = 59, 60, 61     # as enum disk_lock in utils/rxadm/kernel/ramdisk.h


@contextlib.contextmanager
def byte(*offsets):
    """Hold the locks of these bytes; yields a function that releases them early.

    The end of the block releases all locks of this process: do not nest it.
    """
    with open("/run/rxadm.lock", "a+b") as lock:
        for offset in offsets:
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, offset)
        yield lambda: fcntl.lockf(lock, fcntl.LOCK_UN)


def held(path, *locks):
    """Hold locks of a RAM disk, as byte()."""
    with open(f"/sys/block/{os.path.basename(path)}/diskseq", encoding="ascii") as file:
        number = int(file.read())
    return byte(*((1 << what | number) + 1 for what in locks))
