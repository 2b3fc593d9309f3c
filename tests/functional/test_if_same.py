# SPDX-License-Identifier: GPL-2.0-only
"""RXD_REMOVE and RXD_CLEAR with RXD_IF_SAME, and a cache that takes a disk: only data seen."""

import errno
import mmap
import os
import random
import threading
import time

import pytest

from rxdlib import direct, dm
from rxdlib.command import run
from rxdlib.control import CHANGES_ANY, CREATE_RESERVE, DRY_RUN, IF_SAME, Control
from rxdlib.direct import BLOCK, MIB, SECTOR, stamp
from rxdlib.lab import DISK, state

SECONDS = 60
COMMANDS = pytest.mark.parametrize("command", ["remove", "clear"])
KINDS = pytest.mark.parametrize("flags", [0, CREATE_RESERVE], ids=["thin", "reserved"])


@pytest.fixture(name="control")
def control_node():
    with Control() as control:
        yield control


def call(control, command, ramdisk, seen, flags=0):
    """The name of the error, or None."""
    try:
        getattr(control, command)(ramdisk.index, flags=IF_SAME | flags, **seen)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def stale(control, command, ramdisk, seen):
    """Nothing changes, with and without RXD_DRY_RUN."""
    before = state()
    for flags in DRY_RUN, 0:
        assert call(control, command, ramdisk, seen, flags) == "ESTALE"
    assert state() == before


def is_done(command, ramdisk):
    if command == "remove":
        return not os.path.exists(ramdisk.path)
    return direct.read(ramdisk.path, 0, BLOCK) == bytes(BLOCK)


@COMMANDS
@KINDS
def test_same(lab, control, command, flags):
    ramdisk = lab.ramdisk(MIB, flags=flags)
    direct.write(ramdisk.path, 0, stamp(1))
    seen = ramdisk.seen()
    assert call(control, command, ramdisk, seen, DRY_RUN) is None
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    assert call(control, command, ramdisk, seen) is None
    assert is_done(command, ramdisk)


@KINDS
def test_cleared(lab, control, flags):
    """What was seen before a clear is not the data that the disk has now."""
    ramdisk = lab.ramdisk(MIB, flags=flags)
    direct.write(ramdisk.path, 0, stamp(1))
    seen = ramdisk.seen()
    control.clear(ramdisk.index)
    stale(control, "remove", ramdisk, seen)
    stale(control, "clear", ramdisk, seen)


@COMMANDS
@KINDS
def test_written(lab, control, command, flags):
    """Each write counts that began after the number was read, also of the same data."""
    ramdisk = lab.ramdisk(MIB, flags=flags)
    seen = ramdisk.seen()
    for _ in range(2):
        direct.write(ramdisk.path, 0, stamp(1))
        stale(control, command, ramdisk, seen)
        assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
        seen = ramdisk.seen()
    direct.write(ramdisk.path, 0, stamp(2))
    assert call(control, command, ramdisk, {**seen, "changes": CHANGES_ANY}) is None
    assert is_done(command, ramdisk)


@COMMANDS
def test_through_the_page_cache(lab, control, command):
    """Data in the page cache is written when the last opener closes the disk."""
    ramdisk = lab.ramdisk(MIB)
    seen = ramdisk.seen()
    with open(ramdisk.path, "r+b", buffering=0) as file:
        file.write(stamp(1))
        assert call(control, command, ramdisk, seen) == "EBUSY"
    stale(control, command, ramdisk, seen)
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)


@COMMANDS
def test_replaced(lab, control, command):
    ramdisk = lab.ramdisk(MIB)
    seen = ramdisk.seen()
    control.remove(ramdisk.index)
    assert call(control, command, ramdisk, seen) == "ENODEV"
    assert control.create(MIB, index=ramdisk.index) == ramdisk.index
    for changes in seen["changes"], CHANGES_ANY:
        stale(control, command, ramdisk, {**seen, "changes": changes})
    assert call(control, command, ramdisk, ramdisk.seen()) is None


def table(ramdisk, seen):
    return (f"0 {MIB // SECTOR} rxcache {DISK} {ramdisk.path} "
            f"3 if_same {seen['diskseq']} {seen['changes']}\n")


def test_taken(lab, kernel_log):
    """A cache does not take a disk that was written to, not even in the page cache."""
    ramdisk = lab.ramdisk(MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    lab.stack.callback(run, "dmsetup", "remove", "taken", check=False)
    run("dmsetup", "create", "taken", "--notable")
    seen = ramdisk.seen()
    for wrong in {**seen, "diskseq": 1}, {**seen, "changes": 0}, seen:
        run("dmsetup", "load", "taken", stdin=table(ramdisk, wrong))
        with open(ramdisk.path, "r+b", buffering=0) as file:
            if wrong is seen:
                file.write(stamp(2))
            kernel_log.rewind()
            result = run("dmsetup", "resume", "taken", check=False)
            assert result.returncode and os.strerror(errno.ESTALE) in result.stderr, result
        assert any("was replaced or written to" in line for line in kernel_log.lines())
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(2)

    run("dmsetup", "load", "taken", stdin=table(ramdisk, ramdisk.seen()))
    run("dmsetup", "resume", "taken")
    run("dmsetup", "mknodes")
    assert direct.read("/dev/mapper/taken", 0, BLOCK) == direct.read(DISK, 0, BLOCK)
    # The condition was for this resume only.
    assert "if_same" not in dm.table("taken")
    run("dmsetup", "remove", "--retry", "taken")
    assert direct.read(ramdisk.path, 0, BLOCK) == bytes(BLOCK)


def test_buffered_write_while_taken(lab):
    """A cache that takes the disk at this moment fails, or the writer gets an error."""
    ramdisk = lab.ramdisk(MIB)
    lab.stack.callback(run, "dmsetup", "remove", "taken", check=False)
    run("dmsetup", "create", "taken", "--notable")
    delay, end = 0.05, time.monotonic() + 15
    while time.monotonic() < end:
        direct.write(ramdisk.path, 0, stamp(1))
        run("dmsetup", "load", "taken", stdin=table(ramdisk, ramdisk.seen()))
        errors = []

        def write(file, pause, errors):
            time.sleep(pause)
            try:
                file.write(stamp(2))
                os.fsync(file.fileno())
            except OSError as error:
                errors.append(error)

        with open(ramdisk.path, "r+b", buffering=0) as file:
            writer = threading.Thread(target=write, args=(file, delay, errors))
            writer.start()
            taken = not run("dmsetup", "resume", "taken", check=False).returncode
            writer.join()
        assert not taken or errors
        # Aim at the border between a write that counts and one that fails.
        delay = max(0.001, delay + (random.random() - taken) * 0.006)
        if taken:
            run("dmsetup", "remove", "--retry", "taken")
            run("dmsetup", "create", "taken", "--notable")
        else:
            run("dmsetup", "clear", "taken")


def test_write_while_its_page_cache_is_dropped(lab):
    """The write comes after the disk was taken, and before its page is dropped."""
    ramdisk = lab.ramdisk(128 * MIB)
    lab.stack.callback(run, "dmsetup", "remove", "taken", check=False)
    taken, resumed = threading.Event(), threading.Event()
    errors = []

    def write(file, disk):
        # Direct I/O fails as soon as the disk is taken.
        buffer = mmap.mmap(-1, BLOCK)
        try:
            while not resumed.is_set():
                os.preadv(disk, [buffer], 0)
        except OSError:
            taken.set()
        try:
            os.pwrite(file.fileno(), stamp(2), 128 * MIB - BLOCK)
            resumed.wait(SECONDS)
            os.fsync(file.fileno())
        except OSError as error:
            errors.append(error)

    run("dmsetup", "create", "taken", "--notable")
    run("dmsetup", "load", "taken", stdin=table(ramdisk, ramdisk.seen()))
    disk = os.open(ramdisk.path, os.O_RDONLY | os.O_DIRECT)
    lab.stack.callback(os.close, disk)
    with open(ramdisk.path, "r+b", buffering=0) as file:
        # Dropping so many pages takes long enough for the write.
        while file.read(MIB):
            pass
        writer = threading.Thread(target=write, args=(file, disk))
        writer.start()
        result = run("dmsetup", "resume", "taken", check=False)
        resumed.set()
        writer.join()
    assert result.returncode == 0 and taken.is_set(), result
    assert errors


def test_taken_with_any_changes(lab):
    """CHANGES_ANY: the page cache may be dirty, and writers get an error."""
    ramdisk = lab.ramdisk(MIB)
    lab.stack.callback(run, "dmsetup", "remove", "taken", check=False)
    errors = []

    def write(file, done):
        try:
            while True:
                os.pwrite(file.fileno(), bytes(MIB), 0)
                if done.is_set():
                    os.fsync(file.fileno())
                    break
        except OSError as error:
            errors.append(error)

    for _ in range(5):
        run("dmsetup", "create", "taken", "--notable")
        seen = {**ramdisk.seen(), "changes": CHANGES_ANY}
        run("dmsetup", "load", "taken", stdin=table(ramdisk, seen))
        done = threading.Event()
        with open(ramdisk.path, "r+b", buffering=0) as file:
            writer = threading.Thread(target=write, args=(file, done))
            writer.start()
            result = run("dmsetup", "resume", "taken", check=False)
            done.set()
            writer.join()
        assert result.returncode == 0, result
        assert errors
        errors.clear()
        run("dmsetup", "remove", "--retry", "taken")
