# SPDX-License-Identifier: GPL-2.0-only
"""Growing and shrinking RAM disks."""

import errno
import os
import re
import threading
import time

import pytest

from rxdlib import direct
from rxdlib.control import CREATE_RESERVE, RESIZE_FORCE, RESIZE_OVERCOMMIT, STATE_OVERCOMMIT
from rxdlib.direct import BLOCK, MIB, Direct, stamp
from rxdlib.ftrace import traced

SIZE = 4 * MIB


def refused(ramdisk, size, code, flags=0):
    """A resize that must fail with this errno and change nothing."""
    before = ramdisk.query()
    with pytest.raises(OSError) as caught:
        ramdisk.resize(size, flags)
    assert caught.value.errno == code
    assert ramdisk.query() == before


def test_grow(lab):
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, SIZE - BLOCK, stamp(1))
    ramdisk.resize(2 * SIZE)
    assert ramdisk.query().size == 2 * SIZE
    with Direct(ramdisk.path) as device:
        assert device.size() == 2 * SIZE
        assert device.read(SIZE - BLOCK, 2 * BLOCK) == stamp(1) + bytes(BLOCK)
        device.write(2 * SIZE - BLOCK, stamp(2))
        assert device.read(2 * SIZE - BLOCK, BLOCK) == stamp(2)


def test_grow_while_open(lab):
    ramdisk = lab.ramdisk(SIZE)
    with Direct(ramdisk.path) as device:
        with pytest.raises(OSError):
            device.write(SIZE, stamp(1))
        ramdisk.resize(2 * SIZE)
        assert device.size() == 2 * SIZE
        device.write(SIZE, stamp(1))
        assert device.read(SIZE, BLOCK) == stamp(1)


def test_same_size(lab):
    ramdisk = lab.ramdisk(SIZE)
    before = ramdisk.query()
    ramdisk.resize(SIZE)
    assert ramdisk.query() == before


def test_shrink_where_nothing_lies(lab):
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, 0, stamp(1))
    ramdisk.resize(BLOCK)
    with Direct(ramdisk.path) as device:
        assert device.size() == BLOCK
        assert device.read(0, BLOCK) == stamp(1)
        with pytest.raises(OSError):
            device.write(BLOCK, stamp(2))


def test_shrink_below_data(lab):
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, 0, stamp(1))
    direct.write(ramdisk.path, SIZE - BLOCK, stamp(2))
    refused(ramdisk, SIZE // 2, errno.ENOTEMPTY)
    assert direct.read(ramdisk.path, SIZE - BLOCK, BLOCK) == stamp(2)

    ramdisk.resize(SIZE // 2, RESIZE_FORCE)
    assert ramdisk.query().size == SIZE // 2
    assert ramdisk.query().mem_used == BLOCK
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)

    ramdisk.resize(SIZE)
    assert direct.read(ramdisk.path, SIZE - BLOCK, BLOCK) == bytes(BLOCK)


def test_shrink_while_open(lab):
    ramdisk = lab.ramdisk(SIZE)
    direct.write(ramdisk.path, 0, stamp(1))
    with Direct(ramdisk.path) as device:
        refused(ramdisk, SIZE // 2, errno.EBUSY)
        assert device.size() == SIZE
        ramdisk.resize(SIZE // 2, RESIZE_FORCE)
        assert device.size() == SIZE // 2
        assert device.read(0, BLOCK) == stamp(1)


@pytest.mark.parametrize("flags", [0, RESIZE_FORCE])
def test_shrinking_a_cache(cache, flags):
    direct.write(cache.path, 0, stamp(1))
    refused(cache.ramdisk, 8 * MIB, errno.EBUSY, flags)
    assert direct.read(cache.path, 0, BLOCK) == stamp(1)


def test_share(lab):
    """A size above the machine-wide share requires the flag."""
    ramdisk = lab.ramdisk(SIZE)
    huge = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // BLOCK * BLOCK
    refused(ramdisk, huge, errno.ERANGE)
    ramdisk.resize(huge, RESIZE_OVERCOMMIT)
    assert ramdisk.query().size == huge
    assert ramdisk.query().state & STATE_OVERCOMMIT


def test_resize_under_io(lab):
    """Data below the smallest size never changes; above it, only ENOSPC or EIO are allowed."""
    ramdisk = lab.ramdisk(SIZE)
    over = threading.Event()
    wrong = []
    rounds = [0, 0]

    def worker(number):
        kept, cut = number * BLOCK, SIZE - (number + 1) * BLOCK
        with Direct(ramdisk.path) as device:
            while not over.is_set():
                rounds[number] += 1
                data = stamp(number, generation=rounds[number])
                device.write(kept, data)
                if device.read(kept, BLOCK) != data:
                    wrong.append(f"worker {number}, round {rounds[number]}")
                try:
                    device.write(cut, data)
                    back = device.read(cut, BLOCK)
                    if back not in (data, bytes(BLOCK)):
                        wrong.append(f"worker {number}: foreign data beyond the end")
                except EOFError:
                    pass
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EIO):
                        wrong.append(f"worker {number}: {error}")

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    resized = 0
    begin = time.monotonic()
    try:
        while time.monotonic() < begin + 4 or \
                min(resized, *rounds) <= 3 and time.monotonic() < begin + 60:
            ramdisk.resize(SIZE // 2, RESIZE_FORCE)
            ramdisk.resize(SIZE)
            resized += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert resized > 3 and min(rounds) > 3
    assert ramdisk.query().mem_used <= 4 * BLOCK


def test_partition_forgets_what_is_cut_off(lab):
    """Neither the disk's page cache nor a partition's may make the data reappear."""
    ramdisk = lab.ramdisk(64 * MIB)
    with Direct(ramdisk.path) as device:
        device.partition_table(direct.PARTITION_ADD, 1, MIB, 62 * MIB)
    fd = os.open(f"{ramdisk.path}p1", os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(fd, stamp(7, MIB), 40 * MIB)
        os.fsync(fd)
        assert os.pread(fd, MIB, 40 * MIB) == stamp(7, MIB)
        os.pwrite(fd, stamp(8, MIB), 50 * MIB)
        ramdisk.resize(16 * MIB, RESIZE_FORCE)
        ramdisk.resize(64 * MIB)
        assert os.pread(fd, MIB, 40 * MIB) == bytes(MIB) == os.pread(fd, MIB, 50 * MIB)
        # What was written, and is lost, is not lost silently.
        with pytest.raises(OSError) as caught:
            os.fsync(fd)
        assert caught.value.errno == errno.EIO
    finally:
        os.close(fd)
        with Direct(ramdisk.path) as device:
            device.partition_table(direct.PARTITION_DELETE, 1)


# A uevent is sent by code that cannot be traced, which first looks whether anybody listens.
UEVENT, FREEZE, UNFREEZE = "netlink_has_listeners", "blk_mq_freeze_queue", "blk_mq_unfreeze_queue"


def changes(calls):
    """The uevents and freezes among some calls. Some kernels have other names for the latter."""
    return re.findall(rf"\b({UEVENT}|{FREEZE}|{UNFREEZE})(?:_nomem\w+)?\b", " ".join(calls))


@pytest.mark.one_kernel
@pytest.mark.parametrize("flags", [0, CREATE_RESERVE], ids=["thin", "reserved"])
def test_no_uevent_while_frozen(lab, flags):
    """To send a uevent may wait for tasks, and these for I/O to the disk."""
    ramdisk = lab.ramdisk(SIZE, flags=flags)
    with traced(lab, f"{UEVENT} blk_mq_*freeze_queue*") as trace:
        for args in (2 * SIZE,), (SIZE,), (BLOCK, RESIZE_FORCE):
            calls = changes(trace(ramdisk.resize, *args))
            assert UEVENT in calls
            assert FREEZE in calls or args == (2 * SIZE,)
            for number, call in enumerate(calls):
                before = calls[:number]
                assert call != UEVENT or before.count(FREEZE) == before.count(UNFREEZE), calls
