# SPDX-License-Identifier: GPL-2.0-only
"""RXD_TRACK, RXD_CHANGED and RXD_CLONE_TRACK: which pages were changed since a state."""

import contextlib
import errno
import fcntl
import os
import random
import threading
import time
import uuid

import pytest

from rxdlib import control as ctl
from rxdlib import direct
from rxdlib.command import run
from rxdlib.control import Control, changed_all, changed_extents
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, ranges, stamp
from rxdlib.memory import settled

SIZE = 8 * MIB
LEAF = 2 * MIB
BLOCKS = SIZE // BLOCK
FITHAW = 0xC0045878


def name():
    """The name of a state."""
    return uuid.uuid4().bytes


@pytest.fixture(name="control")
def control_node():
    with Control() as control:
        yield control


@pytest.fixture(name="cloner")
def make_cloner(lab, control):
    """Clone a disk and its record; the source has the state from then on."""
    def clone(ramdisk, state, flags=0, **options):
        return lab.adopt_ramdisk(control.clone(
            ramdisk.index, flags=ctl.CLONE_TRACK | flags, state=state, **options))
    return clone


def changed(ramdisk, count=ctl.MAP_MAX):
    """The extents, and the name of the state."""
    with Direct(ramdisk.path, os.O_RDONLY) as device:
        return changed_all(device.fd, 0, device.size(), count)


def blocks(ramdisk):
    return {block for start, length in changed(ramdisk)[0]
            for block in range(start // BLOCK, (start + length) // BLOCK)}


def fails(code, call, *args, **options):
    with pytest.raises(OSError) as raised:
        call(*args, **options)
    assert errno.errorcode[raised.value.errno] == errno.errorcode[code]


def has_no_record(ramdisk):
    fails(errno.ENODATA, changed, ramdisk)


def write(ramdisk, *numbers):
    with Direct(ramdisk.path) as device:
        for number in numbers:
            device.write(number * BLOCK, stamp(number))


def tracked(lab, control, size=SIZE, **options):
    ramdisk = lab.ramdisk(size, **options)
    state = name()
    control.track(ramdisk.index, state)
    return ramdisk, state


def test_begin_and_stop(lab, control):
    ramdisk = lab.ramdisk(SIZE)
    write(ramdisk, 1, 2)
    has_no_record(ramdisk)
    control.track(ramdisk.index, flags=ctl.TRACK_STOP)
    first, second = name(), name()
    control.track(ramdisk.index, first)
    assert changed(ramdisk) == ([], first)
    write(ramdisk, 2, 3, BLOCKS - 1)
    assert changed(ramdisk) == (ranges([2, 3, BLOCKS - 1]), first)
    write(ramdisk, 2)
    assert changed(ramdisk) == (ranges([2, 3, BLOCKS - 1]), first)
    with Direct(ramdisk.path) as device:
        device.write(0, stamp(7))
        # Also a disk in use gets another record.
        control.track(ramdisk.index, second)
        assert changed_all(device.fd, 0, SIZE) == ([], second)
        device.write(5 * BLOCK, stamp(8))
        assert changed_all(device.fd, 0, SIZE) == (ranges([5]), second)
        control.track(ramdisk.index, flags=ctl.TRACK_STOP)
        fails(errno.ENODATA, changed_all, device.fd, 0, SIZE)
        fails(errno.ENODATA, changed_all, device.fd, 0, 0)
    control.track(ramdisk.index, flags=ctl.TRACK_STOP)
    has_no_record(ramdisk)


CHANGES = {
    "page": (lambda device: device.write(5 * BLOCK, stamp(1)), range(5, 6)),
    "sector": (lambda device: device.write(9 * BLOCK + SECTOR, bytes(SECTOR)), range(9, 10)),
    "sectors of two pages": (
        lambda device: device.write(9 * BLOCK - SECTOR, bytes(2 * SECTOR)), range(8, 10)),
    "over two leaves": (
        lambda device: device.write(LEAF - MIB, stamp(3, 2 * MIB)), range(256, 768)),
    "discard": (lambda device: device.discard(MIB, 3 * MIB), range(256, 1024)),
    "discard of a part": (
        lambda device: device.discard(MIB + SECTOR, 3 * BLOCK), range(257, 259)),
    "write zeroes": (
        lambda device: device.zero_out(MIB + SECTOR, 3 * BLOCK), range(256, 260)),
    "zero range": (lambda device: device.zero_range(LEAF - BLOCK, 64 * KIB), range(511, 527)),
    "punch hole": (
        lambda device: device.punch_hole(LEAF + SECTOR, 16 * KIB), range(512, 517)),
    "zeros": (lambda device: device.write(700 * BLOCK, bytes(4 * BLOCK)), range(700, 704)),
    "last": (lambda device: device.write(SIZE - SECTOR, bytes(SECTOR)), range(2047, 2048)),
}


@pytest.mark.parametrize("flags", [0, ctl.CREATE_DETECT_ZEROES], ids=["", "detect-zeroes"])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
def test_each_way_to_change(lab, control, cloner, flags, shared, full):
    """Whether there are pages, and whether they are shared, makes no difference."""
    ramdisk = lab.ramdisk(SIZE, flags=flags)
    if full:
        direct.write(ramdisk.path, 0, stamp(0, SIZE))
    for change, expected in CHANGES.values():
        if shared:
            cloner(ramdisk, name())
        else:
            control.track(ramdisk.index, name())
        with Direct(ramdisk.path) as device:
            change(device)
        assert blocks(ramdisk) == set(expected)


@pytest.mark.one_kernel
def test_parts(lab, control):
    """As RXD_MAP reports them: cut to the range, and by as few or many as there is room for."""
    ramdisk, state = tracked(lab, control)
    write(ramdisk, *range(0, BLOCKS, 3))
    expected = ranges(range(0, BLOCKS, 3))
    for count in 1, 127, 128, 129, len(expected), ctl.MAP_MAX:
        assert changed(ramdisk, count) == (expected, state)
    with Direct(ramdisk.path, os.O_RDONLY) as device:
        for start, length, found in (
                (0, 0, []), (BLOCK, 2 * BLOCK, []), (3 * BLOCK, BLOCK, [(3 * BLOCK, BLOCK)]),
                (SIZE, MIB, []), (SIZE - 3 * BLOCK, MIB, [(SIZE - 2 * BLOCK, BLOCK)])):
            assert changed_extents(device.fd, start, length) == (found, start + length, state)
        assert changed_extents(device.fd, 0, SIZE, 2) == (expected[:2], 4 * BLOCK, state)


@pytest.mark.one_kernel
@pytest.mark.parametrize("code, arguments", [
    (errno.EINVAL, {"flags": 1}), (errno.EINVAL, {"pad": 1}), (errno.EINVAL, {"following": 1}),
    (errno.EINVAL, {"state": bytes(15) + b"\1"}), (errno.EINVAL, {"reserved": (0, 1)}),
    (errno.EINVAL, {"count": 0}), (errno.EINVAL, {"count": ctl.MAP_MAX + 1}),
    (errno.EINVAL, {"start": 1}), (errno.EINVAL, {"length": 512}),
    (errno.EINVAL, {"start": (1 << 64) - BLOCK}), (errno.EPROTONOSUPPORT, {"version": 2})],
    ids=str)
def test_changed_with_bad_input(lab, control, code, arguments):
    ramdisk, _ = tracked(lab, control)
    with Direct(ramdisk.path, os.O_RDONLY) as device:
        fails(code, changed_extents, device.fd, **{"start": 0, "length": SIZE, **arguments})
    with Direct(ramdisk.path, os.O_WRONLY) as device:
        fails(errno.EBADF, changed_extents, device.fd, 0, SIZE)


def test_partition_has_none(lab, control):
    ramdisk, _ = tracked(lab, control)
    with Direct(ramdisk.path) as device:
        device.partition_table(direct.PARTITION_ADD, 1, MIB, MIB)
        with Direct(ramdisk.path + "p1") as partition:
            fails(errno.ENOTTY, changed_extents, partition.fd, 0, MIB)
            partition.write(0, stamp(1))
        assert changed_all(device.fd, 0, SIZE)[0] == ranges([MIB // BLOCK])


def test_if_same(lab, control):
    ramdisk = lab.ramdisk(SIZE)
    write(ramdisk, 1)
    seen = ramdisk.seen()
    for flags in ctl.DRY_RUN, 0:
        control.track(ramdisk.index, name(), flags=ctl.IF_SAME | flags, **seen)
    with Direct(ramdisk.path) as device:
        # Open, but the same.
        state = name()
        control.track(ramdisk.index, state, flags=ctl.IF_SAME, **seen)
        device.write(2 * BLOCK, stamp(2))
        for flags in ctl.DRY_RUN, 0, ctl.TRACK_STOP, ctl.TRACK_STOP | ctl.DRY_RUN:
            fails(errno.ESTALE, control.track, ramdisk.index,
                  bytes(16) if flags & ctl.TRACK_STOP else name(), flags=ctl.IF_SAME | flags,
                  **seen)
            fails(errno.ESTALE, control.track, ramdisk.index,
                  bytes(16) if flags & ctl.TRACK_STOP else name(), flags=ctl.IF_SAME | flags,
                  diskseq=seen["diskseq"] + 1, changes=ctl.CHANGES_ANY)
        assert changed_all(device.fd, 0, SIZE) == (ranges([2]), state)
        control.track(ramdisk.index, name(), flags=ctl.IF_SAME, diskseq=seen["diskseq"],
                      changes=ctl.CHANGES_ANY)
        assert changed_all(device.fd, 0, SIZE)[0] == []


def test_refused(lab, control, cloner):
    reserved = lab.ramdisk(SIZE, flags=ctl.CREATE_RESERVE)
    taken = lab.cache(cache_size=SIZE).ramdisk
    for flags in 0, ctl.DRY_RUN:
        fails(errno.EOPNOTSUPP, cloner, reserved, name(), flags=flags)
        fails(errno.EBUSY, control.track, taken.index, name(), flags=flags)
        fails(errno.EBUSY, cloner, taken, name(), flags=flags)
    has_no_record(reserved)
    with open(taken.path, "rb") as device:
        fails(errno.EBUSY, changed_extents, device.fileno(), 0, SIZE)


def test_reserved(lab, control, cloner):
    """As that of another disk, but only an expendable clone takes the record."""
    ramdisk, first = tracked(lab, control, flags=ctl.CREATE_RESERVE)
    assert changed(ramdisk) == ([], first)
    write(ramdisk, 1, 2)
    second = name()
    fails(errno.EOPNOTSUPP, cloner, ramdisk, second)
    assert changed(ramdisk) == (ranges([1, 2]), first)
    for ends in False, True:
        clone = cloner(ramdisk, second, flags=ctl.CLONE_EXPENDABLE)
        assert changed(clone) == (ranges([1, 2]), first)
        assert changed(ramdisk) == ([], second)
        write(ramdisk, 2)
        with Direct(ramdisk.path) as device:
            device.zero_out(7 * BLOCK, 2 * BLOCK)
        assert changed(ramdisk) == (ranges([2, 7, 8]), second)
        if not ends:
            clone.remove()
            assert changed(ramdisk) == (ranges([1, 2, 7, 8]), first)
            control.track(ramdisk.index, first)
            write(ramdisk, 1, 2)
            continue
        control.track(clone.index, flags=ctl.TRACK_STOP)
        clone.remove()
        assert changed(ramdisk) == (ranges([2, 7, 8]), second)


def test_dry_run_changes_nothing(lab, control):
    ramdisk = lab.ramdisk(SIZE)
    control.track(ramdisk.index, name(), flags=ctl.DRY_RUN)
    has_no_record(ramdisk)
    state = name()
    control.track(ramdisk.index, state)
    write(ramdisk, 3)
    control.track(ramdisk.index, flags=ctl.TRACK_STOP | ctl.DRY_RUN)
    control.track(ramdisk.index, name(), flags=ctl.DRY_RUN)
    control.clone(ramdisk.index, flags=ctl.CLONE_TRACK | ctl.DRY_RUN, state=name())
    assert changed(ramdisk) == (ranges([3]), state)


def test_memory_is_counted(lab, control):
    ramdisk = lab.ramdisk(8 << 40, overcommit=True)
    before = ramdisk.query().mem_index
    control.track(ramdisk.index, name())
    # 32 KiB for each GiB.
    assert 0 <= ramdisk.query().mem_index - before - 256 * MIB < BLOCK
    write(ramdisk, (8 << 40) // BLOCK - 1)
    # Most bits are 0, and are not looked at one by one.
    begin = time.monotonic()
    assert changed(ramdisk)[0] == [((8 << 40) - BLOCK, BLOCK)]
    assert time.monotonic() - begin < 60
    control.track(ramdisk.index, flags=ctl.TRACK_STOP)
    assert ramdisk.query().mem_index - before < MIB


@pytest.mark.one_kernel
def test_without_memory(lab, control, cloner):
    """A record that does not fit is refused, and nothing changes."""
    # An index of an eighth of the memory.
    ramdisk = lab.ramdisk(settled()["MemTotal"] * 8 * BLOCK, overcommit=True)
    for flags in ctl.DRY_RUN, 0:
        fails(errno.ENOMEM, control.track, ramdisk.index, name(), flags=flags)
        fails(errno.ENOMEM, cloner, ramdisk, name(),
              flags=flags | ctl.CREATE_OVERCOMMIT)
    has_no_record(ramdisk)
    assert [disk.index for disk in control.query_all()] == [ramdisk.index]


def ends_by_cache(lab, ramdisk):
    cache = lab.cache(cache_size=SIZE, ramdisk=ramdisk)
    run("dmsetup", "remove", cache.name)


def ends_by_reset(lab, ramdisk):
    with Control() as control:
        control.reset(ramdisk.index, lab.ramdisk(SIZE).index)


ENDS = {
    "grow": lambda lab, ramdisk: ramdisk.resize(2 * SIZE),
    "shrink": lambda lab, ramdisk: ramdisk.resize(SIZE - BLOCK),
    "clear": lambda lab, ramdisk: ramdisk.clear(),
    "cache": ends_by_cache,
    "reset": ends_by_reset,
}


@pytest.mark.parametrize("end", ["clear", "cache", "reset"])
def test_if_same_after_data_was_dropped(lab, control, end):
    """A disk that has lost its data meanwhile must not get the name of the earlier state."""
    ramdisk = lab.ramdisk(SIZE)
    write(ramdisk, 1)
    seen = ramdisk.seen()
    ENDS[end](lab, ramdisk)
    for flags in ctl.DRY_RUN, 0:
        fails(errno.ESTALE, control.track, ramdisk.index, name(), flags=ctl.IF_SAME | flags,
              **seen)
    has_no_record(ramdisk)
    control.track(ramdisk.index, name(), flags=ctl.IF_SAME, **ramdisk.seen())


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_ends(lab, control, end):
    ramdisk, _ = tracked(lab, control)
    write(ramdisk, 1)
    end(lab, ramdisk)
    has_no_record(ramdisk)
    state = name()
    control.track(ramdisk.index, state)
    write(ramdisk, 0)
    assert changed(ramdisk) == (ranges([0]), state)


def test_goes_on(lab, control):
    """What changes no data, and fails, leaves the record as it is."""
    ramdisk, state = tracked(lab, control)
    write(ramdisk, 1, BLOCKS - 1)
    ramdisk.resize(SIZE)
    fails(errno.ENOTEMPTY, ramdisk.resize, MIB)
    with Direct(ramdisk.path):
        fails(errno.EBUSY, ramdisk.clear)
    fails(errno.ERANGE, control.reset, ramdisk.index, lab.ramdisk(MIB).index)
    other = lab.ramdisk(SIZE)
    control.reset(other.index, ramdisk.index)
    control.clone(ramdisk.index)
    lab.adopt_ramdisk(2)
    lab.adopt_ramdisk(3)
    assert changed(ramdisk) == (ranges([1, BLOCKS - 1]), state)
    for index in 2, 3:
        with contextlib.suppress(OSError), open(f"/dev/rxd{index}", "rb") as device:
            fails(errno.ENODATA, changed_extents, device.fileno(), 0, SIZE)


@pytest.mark.parametrize("in_use", [False, True], ids=["idle", "open"])
def test_moves_to_the_clone(lab, control, cloner, in_use):
    ramdisk, first = tracked(lab, control)
    write(ramdisk, 1, 2)
    second = name()
    with contextlib.ExitStack() as stack:
        if in_use:
            stack.enter_context(Direct(ramdisk.path))
        clone = cloner(ramdisk, second)
    write(ramdisk, 2, 3)
    assert changed(clone) == (ranges([1, 2]), first)
    assert changed(ramdisk) == (ranges([2, 3]), second)
    assert direct.read(clone.path, 2 * BLOCK, BLOCK) == stamp(2)

    # An update of the image that succeeded.
    control.track(clone.index, flags=ctl.TRACK_STOP)
    has_no_record(clone)
    clone.remove()
    assert changed(ramdisk) == (ranges([2, 3]), second)


def test_first_record_by_a_clone(lab, control, cloner):
    ramdisk = lab.ramdisk(SIZE)
    write(ramdisk, 1)
    state = name()
    clone = cloner(ramdisk, state)
    has_no_record(clone)
    assert changed(ramdisk) == ([], state)
    write(ramdisk, 2)
    control.track(clone.index, flags=ctl.TRACK_STOP)
    clone.remove()
    assert changed(ramdisk) == (ranges([2]), state)
    # It was not written to an image, and there is nothing to be given back.
    cloner(ramdisk, name()).remove()
    assert changed(ramdisk) == (ranges([2]), state)
    control.track(ramdisk.index, flags=ctl.TRACK_STOP)
    cloner(ramdisk, name()).remove()
    has_no_record(ramdisk)


def test_goes_back(lab, control, cloner):
    ramdisk, first = tracked(lab, control)
    write(ramdisk, 1, 2)
    for number in range(10, 13):
        clone = cloner(ramdisk, name(), flags=ctl.CLONE_EXPENDABLE)
        write(ramdisk, 2, number)
        assert changed(ramdisk)[0] == ranges([2, number])
        with Direct(ramdisk.path) as device:
            clone.remove()
            device.write(20 * BLOCK, stamp(1))
    assert changed(ramdisk) == (ranges([1, 2, 10, 11, 12, 20]), first)


def test_goes_back_through_clones(lab, control, cloner):
    """A clone of a clone, and clones of one disk that are removed in either order."""
    ramdisk, first = tracked(lab, control)
    write(ramdisk, 1)
    clone = cloner(ramdisk, name())
    write(clone, 2)
    other = cloner(clone, name())
    write(clone, 3)
    write(ramdisk, 4)
    other.remove()
    assert changed(clone) == (ranges([1, 2, 3]), first)
    clone.remove()
    assert changed(ramdisk) == (ranges([1, 2, 3, 4]), first)

    clones = []
    for number in 5, 6:
        clones.append(cloner(ramdisk, name()))
        write(ramdisk, number)
    for clone in reversed(clones):
        clone.remove()
    assert changed(ramdisk) == (ranges(range(1, 7)), first)

    # The clone has a record of another time: that of the source can end, but not be wrong.
    clone = cloner(ramdisk, name())
    other = cloner(clone, name())
    control.track(other.index, flags=ctl.TRACK_STOP)
    other.remove()
    clone.remove()
    has_no_record(ramdisk)


OTHER_RECORDS = {
    "another record": lambda control, source, state: control.track(source.index, state),
    "another clone": lambda control, source, state: control.clone(
        source.index, flags=ctl.CLONE_TRACK, state=state),
    "another clone that was kept": lambda control, source, state: control.track(
        control.clone(source.index, flags=ctl.CLONE_TRACK, state=state), flags=ctl.TRACK_STOP),
}


@pytest.mark.parametrize("begin", OTHER_RECORDS.values(), ids=OTHER_RECORDS)
def test_other_record_stays(lab, control, cloner, begin):
    """What an earlier update has left does not end the record of a later one."""
    ramdisk, _ = tracked(lab, control)
    write(ramdisk, 1)
    clone = cloner(ramdisk, name())
    write(ramdisk, 2)
    state = name()
    begin(control, ramdisk, state)
    for disk in control.query_all():
        lab.adopt_ramdisk(disk.index)
    write(ramdisk, 3)
    clone.remove()
    assert changed(ramdisk) == (ranges([3]), state)
    write(ramdisk, 4)
    assert changed(ramdisk) == (ranges([3, 4]), state)


OTHER_STATES = {
    "stop": lambda lab, control, source: control.track(source.index, flags=ctl.TRACK_STOP),
    **{end: lambda lab, control, source, call=call: call(lab, source)
       for end, call in ENDS.items()},
}


@pytest.mark.parametrize("meanwhile", OTHER_STATES.values(), ids=OTHER_STATES)
def test_does_not_go_back(lab, control, cloner, meanwhile):
    """The source is not as the clone has left it: no record is better than a wrong one."""
    ramdisk, _ = tracked(lab, control)
    write(ramdisk, 1)
    clone = cloner(ramdisk, name())
    meanwhile(lab, control, ramdisk)
    clone.remove()
    has_no_record(ramdisk)
    control.track(ramdisk.index, name())


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_clone_without_its_record(lab, control, cloner, end):
    ramdisk, _ = tracked(lab, control)
    clone = cloner(ramdisk, name())
    end(lab, clone)
    clone.remove()
    has_no_record(ramdisk)


def test_source_is_gone(lab, control, cloner):
    """Another disk with the number and the UUID gets nothing, and loses nothing."""
    identity = {"index": 7, "uuid": name()}
    ramdisk, _ = tracked(lab, control, **identity)
    clone = cloner(ramdisk, name())
    ramdisk.remove()
    clone.remove()
    ramdisk, _ = tracked(lab, control, **identity)
    clone = cloner(ramdisk, name())
    ramdisk.remove()
    ramdisk, state = tracked(lab, control, **identity)
    write(ramdisk, 1)
    clone.remove()
    assert changed(ramdisk) == (ranges([1]), state)


def test_frozen_file_system(lab, cloner):
    """The file system is whole, and what it writes after the thaw is in the new record."""
    ramdisk = lab.ramdisk(16 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    clones, states = [], []
    for number in range(2):
        with open(f"{directory}/{number}", "wb") as file:
            file.write(stamp(number, MIB))
        states.append(name())
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            clones.append(cloner(ramdisk, states[-1], fds=[fd], flags=ctl.CLONE_READ_ONLY))
        finally:
            os.close(fd)
    has_no_record(clones[0])
    extents, state = changed(clones[1])
    assert state == states[0]
    assert MIB <= sum(length for _, length in extents) < 8 * MIB
    run("e2fsck", "-fn", clones[1].path)
    covers_difference(*clones, blocks(clones[1]))


def test_refused_clone_gives_back(lab, control, cloner):
    """A clone that is refused when it has the record already: a file system was thawed, which
    later kernels prevent."""
    ramdisk = lab.ramdisk(16 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    state = name()
    base = cloner(ramdisk, state, flags=ctl.CREATE_OVERCOMMIT)
    over = threading.Event()

    def thaw():
        while not over.is_set():
            with contextlib.suppress(OSError):
                fcntl.ioctl(fd, FITHAW, 0)
            time.sleep(0.001)

    thread = threading.Thread(target=thaw)
    refused = 0
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        thread.start()
        for number in range(40):
            with open(f"{directory}/{number}", "wb") as file:
                file.write(stamp(number, 64 * KIB))
            try:
                cloner(ramdisk, name(), flags=ctl.CREATE_OVERCOMMIT, fds=[fd]).remove()
            except OSError as error:
                assert error.errno == errno.EBUSY
                refused += 1
            assert changed(ramdisk)[1] == state
            if refused == 3:
                break
    finally:
        over.set()
        thread.join()
        os.close(fd)
    assert refused or not os.uname().release.startswith("6.1.")
    run("umount", directory)
    covers_difference(base, ramdisk, blocks(ramdisk))
    assert control.query(ramdisk.index).mem_index < MIB


def covers_difference(old, new, found):
    """No page differs that was not found."""
    with Direct(old.path, os.O_RDONLY) as before, Direct(new.path, os.O_RDONLY) as after:
        for offset in range(0, before.size(), MIB):
            data = before.read(offset, MIB), after.read(offset, MIB)
            if data[0] == data[1]:
                continue
            for at in range(0, MIB, BLOCK):
                if data[0][at:at + BLOCK] != data[1][at:at + BLOCK]:
                    assert (offset + at) // BLOCK in found


def test_no_change_is_lost(lab, control, cloner):
    """Beside writers, each difference between two clones is in the record, also of those between
    which a record went back."""
    ramdisk, _ = tracked(lab, control, size=3 * MIB)
    over = threading.Event()
    errors = []

    def change(seed):
        choice = random.Random(seed)
        try:
            with Direct(ramdisk.path) as device:
                while not over.is_set():
                    at = choice.randrange(3 * MIB // BLOCK - 16) * BLOCK
                    kind = choice.randrange(8)
                    if kind == 0:
                        device.discard(at, 16 * BLOCK)
                    elif kind == 1:
                        device.zero_out(at + SECTOR, 2 * BLOCK)
                    else:
                        device.write(at, stamp(choice.randrange(1 << 30), BLOCK << kind % 3))
                    time.sleep(0.0001)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=change, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        last = None
        end = time.monotonic() + 5
        rounds = 0
        while time.monotonic() < end or rounds < 4:
            rounds += 1
            clone = cloner(ramdisk, name(), flags=ctl.CREATE_OVERCOMMIT)
            if last and rounds % 3:
                covers_difference(last, clone, blocks(clone))
                control.track(clone.index, flags=ctl.TRACK_STOP)
                last.remove()
                last = clone
            elif last:
                clone.remove()
            else:
                control.track(clone.index, flags=ctl.TRACK_STOP)
                last = clone
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not errors
