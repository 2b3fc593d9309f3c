# SPDX-License-Identifier: GPL-2.0-only
"""RXD_DRY_RUN: the driver checks what it always checks, and changes nothing."""

import contextlib
import errno
import os
import threading
import time
import uuid

import pytest

from rxdlib import control as ctl
from rxdlib import direct
from rxdlib.command import run
from rxdlib.control import CREATE_OVERCOMMIT, CREATE_RESERVE, DRY_RUN, RESIZE_FORCE, Control
from rxdlib.direct import BLOCK, MIB, Direct, stamp
from rxdlib.lab import state
from rxdlib.sampled import long

UUID = uuid.UUID("3b1f0d52-86a4-4f0e-8d5c-0123456789ab").bytes
SHARE = "/sys/module/rxd/parameters/memory_share"


@pytest.fixture
def control():
    with Control() as node:
        yield node


def outcome(call, *args, **options):
    try:
        call(*args, **options)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    raise LookupError("MemAvailable")


def dry(call, *args, flags=0, **options):
    """Return the result of the driver, which must have changed nothing."""
    before = state()
    result = outcome(call, *args, flags=flags | DRY_RUN, **options)
    assert state() == before
    return result


def agrees(expected, call, *args, **options):
    """The call is refused with the flag as without it."""
    assert dry(call, *args, **options) == expected
    before = state()
    assert outcome(call, *args, **options) == expected
    assert state() == before


def test_argument_is_not_changed(control):
    """Neither a number nor a UUID is given away."""
    values = (ctl.ABI_VERSION, DRY_RUN, ctl.INDEX_ANY, 512, MIB, 0, 0, ctl.NODE_LOCAL, bytes(16),
              0, 0, 0, 0)
    assert control.call(ctl.CREATE, ctl.CREATE_FIELDS, *values) == values
    assert not control.query_all()


def test_what_another_disk_has(lab, control):
    lab.ramdisk(MIB, index=3, uuid=UUID)
    agrees("EEXIST", control.create, MIB, index=3)
    agrees("EEXIST", control.create, MIB, uuid=UUID)
    # Which of several errors is reported is the driver's choice, and does not depend on the flag.
    agrees("ENXIO", control.create, MIB, index=3, node=31)
    agrees("EEXIST", control.create, 1 << 40, uuid=UUID)
    agrees("ERANGE", control.create, 1 << 40, index=3)
    assert dry(control.create, MIB, index=4) == "done"


def test_busy(lab, control):
    """An open, claimed or read-only disk is refused as without the flag."""
    ramdisk = lab.ramdisk(8 * MIB, index=0)
    with Direct(ramdisk.path):
        for call in control.remove, control.clear:
            agrees("EBUSY", call, 0)
        agrees("EBUSY", control.resize, 0, 4 * MIB)
        assert dry(control.resize, 0, 4 * MIB, flags=RESIZE_FORCE) == "done"
        assert dry(control.resize, 0, 16 * MIB) == "done"
    run("blockdev", "--setro", ramdisk.path)
    agrees("EROFS", control.clear, 0)
    assert dry(control.remove, 0) == "done"
    run("blockdev", "--setrw", ramdisk.path)

    cache = lab.cache(cache_size=8 * MIB)
    index = cache.ramdisk.index
    for call in control.remove, control.clear:
        agrees("EBUSY", call, index)
    agrees("EBUSY", control.resize, index, 4 * MIB, flags=RESIZE_FORCE)
    assert dry(control.resize, index, 16 * MIB) == "done"


def test_clone_and_reset(lab, control):
    """Each reason to refuse them, with the flag and without it. ENOTSUP is EOPNOTSUPP here."""
    source = lab.ramdisk(8 * MIB, index=0)
    target = lab.ramdisk(8 * MIB, index=1)
    lab.ramdisk(4 * MIB, index=2)
    lab.ramdisk(8 * MIB, index=3, flags=CREATE_RESERVE)
    lab.adopt_ramdisk(control.clone(3, index=4, flags=ctl.CLONE_EXPENDABLE))
    direct.write(source.path, MIB, stamp(1) + stamp(2))
    with Direct(source.path):
        agrees("EBUSY", control.reset, 1, 0)
    with Direct(target.path):
        agrees("EBUSY", control.reset, 1, 0)
    for reserved in 3, 4:
        agrees("ENOTSUP", control.clone, reserved)
        agrees("ENOTSUP", control.clone, reserved, flags=CREATE_OVERCOMMIT)
        agrees("ENOTSUP", control.reset, 1, reserved)
        assert dry(control.clone, reserved, flags=ctl.CLONE_EXPENDABLE) == "done"
    agrees("ENOTSUP", control.reset, 3, 0)
    assert dry(control.reset, 4, 0) == "done"
    agrees("EEXIST", control.clone, 0, index=2)
    agrees("ERANGE", control.reset, 2, 0)
    agrees("ESTALE", control.reset, 1, 0, flags=ctl.IF_SAME)
    run("blockdev", "--setro", target.path)
    agrees("EROFS", control.reset, 1, 0)
    run("blockdev", "--setrw", target.path)
    with open("/sys/block/rxd1/rxd/mem_limit", "w", encoding="ascii") as file:
        file.write(str(BLOCK))
    agrees("ENOSPC", control.reset, 1, 0)

    # Neither the source nor the target shares anything after a dry run.
    with open("/sys/block/rxd1/rxd/mem_limit", "w", encoding="ascii") as file:
        file.write("0")
    assert dry(control.clone, 0) == dry(control.reset, 1, 0) == "done"
    control.reset(1, 0)
    assert direct.read(target.path, MIB, 2 * BLOCK) == stamp(1) + stamp(2)


def test_track(lab, control):
    """Each reason to refuse it, with the flag and without it; and no record begins or ends."""
    ramdisk = lab.ramdisk(8 * MIB, index=0)
    reserved = lab.ramdisk(8 * MIB, index=1, flags=CREATE_RESERVE)
    cache = lab.cache(cache_size=8 * MIB)
    agrees("ENODEV", control.track, 9, UUID)
    agrees("ENOTSUP", control.clone, 1, flags=ctl.CLONE_TRACK, state=UUID)
    agrees("EBUSY", control.track, cache.ramdisk.index, UUID)
    agrees("EBUSY", control.track, cache.ramdisk.index, flags=ctl.TRACK_STOP)
    agrees("ESTALE", control.track, 0, UUID, flags=ctl.IF_SAME)
    for index in ramdisk.index, reserved.index:
        with Direct(f"/dev/rxd{index}", os.O_RDONLY) as device:
            assert dry(control.track, index, UUID) == "done"
            assert outcome(ctl.changed_all, device.fd, 0, 8 * MIB) == "ENODATA"
            control.track(index, UUID)
            for call, arguments in (
                    (control.track, {"flags": ctl.TRACK_STOP}),
                    (control.track, {"state": bytes(reversed(UUID))}),
                    (control.clone, {"flags": ctl.CLONE_TRACK | ctl.CLONE_EXPENDABLE,
                                     "state": UUID})):
                assert dry(call, index, **arguments) == "done"
                assert ctl.changed_all(device.fd, 0, 8 * MIB) == ([], UUID)


@pytest.mark.parametrize("flags", [0, CREATE_RESERVE], ids=["thin", "reserved"])
def test_data_stays(lab, control, flags):
    """The data that would be lost stays, in the page cache and on the disk."""
    ramdisk = lab.ramdisk(8 * MIB, index=0, flags=flags)
    direct.write(ramdisk.path, 6 * MIB, stamp(1))
    agrees("ENOTEMPTY", control.resize, 0, 4 * MIB)
    with open(ramdisk.path, "rb") as buffered:
        buffered.seek(6 * MIB)
        assert buffered.read(BLOCK) == stamp(1)
        assert dry(control.resize, 0, 4 * MIB, flags=RESIZE_FORCE) == "done"
        buffered.seek(6 * MIB)
        assert buffered.read(BLOCK) == stamp(1)
    for call, arguments in ((control.resize, (7 * MIB,)), (control.resize, (16 * MIB,)),
                            (control.clear, ()), (control.remove, ())):
        assert dry(call, 0, *arguments) == "done"
        assert direct.read(ramdisk.path, 6 * MIB, BLOCK) == stamp(1)
    # An operation that the dry run permitted succeeds.
    control.resize(0, 7 * MIB)
    control.clear(0)
    control.remove(0)


def test_limit_of_a_reserved_disk(lab, control):
    ramdisk = lab.ramdisk(4 * MIB, index=0, flags=CREATE_RESERVE)
    ramdisk.set_attribute("mem_limit", 6 * MIB)
    agrees("ENOSPC", control.resize, 0, 8 * MIB)
    assert dry(control.resize, 0, 6 * MIB) == "done"


@pytest.mark.one_kernel
def test_memory(lab, control):
    """A shortage is detected, and no memory is allocated."""
    lab.ramdisk(MIB, index=0, flags=CREATE_RESERVE)
    free = available()
    # All available memory is too much, because some is left to others.
    size = free // MIB * MIB
    agrees("ENOSPC", control.create, size, flags=CREATE_RESERVE | CREATE_OVERCOMMIT)
    agrees("ENOSPC", control.resize, 0, size, flags=ctl.RESIZE_OVERCOMMIT)
    size = free // 4 // MIB * MIB
    for _ in range(16):
        assert dry(control.create, size, flags=CREATE_RESERVE) == "done"
        assert dry(control.resize, 0, size) == "done"
    assert available() > free - size // 2

    thin = lab.ramdisk(MIB)
    # Indexes of a GiB, until there is no memory for another.
    while dry(control.create, ctl.SIZE_MAX, flags=CREATE_OVERCOMMIT) == "done":
        lab.ramdisk(ctl.SIZE_MAX, overcommit=True)
    agrees("ENOMEM", control.create, ctl.SIZE_MAX, flags=CREATE_OVERCOMMIT)
    agrees("ENOMEM", control.resize, thin.index, ctl.SIZE_MAX, flags=ctl.RESIZE_OVERCOMMIT)


def test_share_is_not_promised(lab, control):
    """Dry runs beside each other do not add up."""
    share = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 100
    with open(SHARE, "w", encoding="ascii") as file:
        file.write("1")
    try:
        half = share // 2 // BLOCK * BLOCK
        lab.ramdisk(half, index=0)
        for _ in range(4):
            assert dry(control.create, half - MIB) == "done"
            assert dry(control.resize, 0, 2 * half - MIB) == "done"
        agrees("ERANGE", control.create, half + MIB)
        agrees("ERANGE", control.resize, 0, 2 * half + MIB)
        lab.ramdisk(half - MIB, index=1)
    finally:
        with open(SHARE, "w", encoding="ascii") as file:
            file.write("75")


@contextlib.contextmanager
def hammer(*calls):
    """Dry runs in other processes, until the block ends; none may fail with another error."""
    children = []
    for call in calls:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                with Control() as control:
                    while True:
                        result = outcome(call, control)
                        assert result in ("done", "EEXIST", "ENODEV", "EBUSY", "ENOTEMPTY",
                                          "ERANGE"), result
            finally:
                os._exit(code)
        children.append(pid)
    try:
        yield
        for pid in children:
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), "a dry run failed"
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", [*long([0]), CREATE_RESERVE], ids=["thin", "reserved"])
def test_beside_real_changes(control, kind):
    """A dry run has no effect on others: it takes no number, UUID, share or open from them."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 200 // MIB * MIB
    with open(SHARE, "w", encoding="ascii") as file:
        file.write("1")     # just enough for the disk when it is large
    try:
        with hammer(lambda node: node.create(size, index=7, uuid=UUID, flags=kind | DRY_RUN),
                    lambda node: node.resize(7, MIB, flags=DRY_RUN),
                    lambda node: node.resize(7, 2 * size, flags=DRY_RUN),
                    lambda node: (node.clear(7, flags=DRY_RUN), node.remove(7, flags=DRY_RUN))):
            end = time.monotonic() + 10
            rounds = 0
            while time.monotonic() < end or rounds < 3:
                rounds += 1
                assert control.create(size, index=7, uuid=UUID, flags=kind) == 7
                for _ in range(5):
                    direct.write("/dev/rxd7", 0, stamp(rounds))
                    assert direct.read("/dev/rxd7", 0, BLOCK) == stamp(rounds)
                control.resize(7, 2 * size - MIB)
                control.resize(7, size)
                assert direct.read("/dev/rxd7", 0, BLOCK) == stamp(rounds)
                control.clear(7)
                assert direct.read("/dev/rxd7", 0, BLOCK) == bytes(BLOCK)
                control.remove(7)
            print(f"{rounds} rounds")
        assert not control.query_all()
    finally:
        with open(SHARE, "w", encoding="ascii") as file:
            file.write("75")
        with contextlib.suppress(OSError):
            control.remove(7)


@pytest.mark.one_kernel
def test_opens_while_data_is_looked_for(lab, control):
    """A real shrink keeps a reserved disk closed during the search; a dry run does not."""
    size = 512 * MIB
    ramdisk = lab.ramdisk(size, index=0, flags=CREATE_RESERVE)
    refused, opens, over = [], [0], threading.Event()

    def opener():
        while not over.is_set():
            opens[0] += 1
            try:
                os.close(os.open(ramdisk.path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                refused.append(error.errno)
            time.sleep(0.001)

    thread = threading.Thread(target=opener)
    thread.start()
    looked = 0
    try:
        end = time.monotonic() + 60
        while looked < 3 and time.monotonic() < end:
            # The opener may be faster.
            looked += outcome(control.resize, 0, MIB, flags=DRY_RUN) == "done"
    finally:
        over.set()
        thread.join()
    assert looked == 3 and opens[0] > 3
    assert not refused
    assert ramdisk.query().size == size
