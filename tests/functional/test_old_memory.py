# SPDX-License-Identifier: GPL-2.0-only
"""A reader never gets the previous content of memory, not even for a moment."""

import contextlib
import re
import subprocess
import threading
import time

import pytest

from rxdlib.command import ENVIRONMENT, program
from rxdlib.control import CREATE_DETECT_ZEROES, CREATE_RESERVE, RESIZE_FORCE
from rxdlib.direct import KIB, MIB, Direct
from rxdlib.lab import LONG

pytestmark = pytest.mark.one_kernel

SIZE = 4 * MIB
OLD = b"\xa5"
SECONDS = 8 if LONG else 3


@contextlib.contextmanager
def old_memory(lab):
    """Another disk, which is written and discarded all the time: free pages hold its bytes."""
    other = lab.ramdisk(64 * MIB)
    over = threading.Event()
    data = OLD * MIB

    def churn():
        with Direct(other.path) as device:
            while not over.is_set():
                for offset in range(0, 16 * MIB, MIB):
                    device.write(offset, data)
                device.discard(0, 64 * MIB)

    with Direct(other.path) as device:
        for offset in range(0, 64 * MIB, MIB):
            device.write(offset, data)
        device.discard(0, 64 * MIB)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("options", [
    {}, {"folio_size": 64 * KIB}, {"folio_size": 2 * MIB}, {"flags": CREATE_DETECT_ZEROES},
    {"flags": CREATE_RESERVE}, {"mem_limit": 2 * MIB}],
    ids=["pages", "64K", "2M", "detect-zeroes", "reserved", "limited"])
def test_never_seen(lab, options):
    """Beside partial first writes, discards, and a disk that shrinks and grows."""
    ramdisk = lab.ramdisk(SIZE, **options)
    with old_memory(lab):
        spy = subprocess.Popen([program("bufspy"), "fresh", ramdisk.path, str(SIZE), "60"],
                               env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        # Before that, a signal would kill it.
        assert spy.stdout.readline() == "ready\n"
        end = time.monotonic() + SECONDS
        resized = 0
        try:
            while spy.poll() is None and (time.monotonic() < end or resized < 3):
                ramdisk.resize(SIZE // 4, RESIZE_FORCE)
                ramdisk.resize(SIZE)
                resized += 1
            spy.terminate()
            output = spy.communicate()[0]
        finally:
            spy.kill()
            spy.wait()
    assert spy.returncode == 0, output
    looks, ios = (int(number) for number in re.findall(r"\d+", output))
    assert looks > 10 and ios > 100 and resized > 2


def test_spy_notices(lab):
    """The spy itself: it must find bytes that it did not write."""
    ramdisk = lab.ramdisk(SIZE)
    with Direct(ramdisk.path) as device:
        device.write(0, OLD * SIZE)
        spy = subprocess.Popen([program("bufspy"), "fresh", ramdisk.path, str(SIZE), "60"],
                               env=ENVIRONMENT, text=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
        # The spy's own discards would remove all of them before its first read.
        while spy.poll() is None:
            device.write(0, OLD * SIZE)
    assert spy.returncode == 1 and "old memory" in spy.communicate()[1]
