# SPDX-License-Identifier: GPL-2.0-only
"""An error reaches the caller, through splits, chains and stacks."""

import errno
import mmap
import os

import pytest

from rxdlib import dm
from rxdlib.command import run
from rxdlib.control import CREATE_DETECT_ZEROES
from rxdlib.direct import BLOCK, GIB, KIB, MIB, SECTOR, Direct, stamp

ZEROED_AT_ONCE = 64 * MIB
CHUNK = 2 * ZEROED_AT_ONCE


def refused(function, *args):
    """It must fail with ENOSPC."""
    with pytest.raises(OSError) as caught:
        function(*args)
    assert caught.value.errno == errno.ENOSPC


def test_error_of_an_earlier_part(lab):
    """The block layer splits a long write-zeroes and chains the parts: the first one fails."""
    size = 4 * GIB + 60 * KIB
    ramdisk = lab.ramdisk(size, overcommit=True, mem_limit=64 * KIB)
    counted = 0
    with Direct(ramdisk.path) as device:
        device.write(size - 64 * KIB, stamp(1, 64 * KIB))
        for attempt in device.zero_out, device.zero_range:
            refused(attempt, 0, size)
            # Before Linux 6.12, the kernel tries again with pages of zeros after any error.
            assert ramdisk.query().nospc > counted
            counted = ramdisk.query().nospc
    result = run("blkdiscard", "--zeroout", ramdisk.path, check=False)
    assert result.returncode and os.strerror(errno.ENOSPC) in result.stderr
    assert ramdisk.query().nospc > counted


@pytest.fixture(params=["raid0", "stripe"])
def striped(lab, request):
    """Return a function that combines several disks into one."""
    def build(*members, chunk=64 * KIB):
        paths = [member.path for member in members]
        if request.param == "raid0":
            run("modprobe", "raid0")
            path = "/dev/md7"
            run("mdadm", "--build", path, "--level=0",
                f"--chunk={chunk // KIB}", f"--raid-devices={len(paths)}", *paths)
            lab.stack.callback(run, "mdadm", "--stop", path)
            return path
        run("modprobe", "dm_mod")
        sectors = sum(member.query().size for member in members) // SECTOR
        legs = " ".join(f"{path} 0" for path in paths)
        return "/dev/mapper/" + lab.mapped(
            f"0 {sectors} striped {len(paths)} {chunk // SECTOR} {legs}")
    return build


@pytest.mark.parametrize("full", [0, 1, 2])
def test_one_member_at_its_limit(lab, striped, full):
    """A request fails if any of its parts fails."""
    members = [lab.ramdisk(8 * MIB, mem_limit=64 * KIB if number == full else 0)
               for number in range(3)]
    with Direct(striped(*members)) as device:
        data = stamp(1, 192 * KIB)
        device.write(0, data)
        for step, attempt in enumerate((lambda: device.write(192 * KIB, stamp(2, 384 * KIB)),
                                        lambda: device.zero_out(192 * KIB, 384 * KIB),
                                        lambda: device.zero_range(192 * KIB, 3 * MIB))):
            refused(attempt)
            assert members[full].query().nospc > step
        assert device.read(0, 192 * KIB) == data
        device.write(0, stamp(3, 192 * KIB))
        assert device.read(0, 192 * KIB) == stamp(3, 192 * KIB)
    assert not any(member.query().nospc for member in members if member is not members[full])


@pytest.mark.parametrize("full", [0, 1])
def test_one_member_of_long_chunks_at_its_limit(lab, striped, full):
    """A write-zeroes is split for the members, too: a chunk is longer than one may zero at once."""
    members = [lab.ramdisk(2 * CHUNK, overcommit=True, mem_limit=64 * KIB if number == full else 0)
               for number in range(2)]
    path = striped(*members, chunk=CHUNK)
    # More of the first chunk than a request may zero.
    parts = [ZEROED_AT_ONCE + MIB, MIB]
    start = CHUNK - parts[0]
    assert int(dm.queue(path, "write_zeroes_max_bytes")) == ZEROED_AT_ONCE
    with Direct(path) as device:
        for offset in start - BLOCK, start, CHUNK, CHUNK + MIB:
            device.write(offset, stamp(offset))
        refused(device.zero_range, start, sum(parts))
        for offset in start - BLOCK, CHUNK + MIB:
            assert device.read(offset, BLOCK) == stamp(offset)
        assert device.read(CHUNK if full == 0 else start, BLOCK) == bytes(BLOCK)
    assert members[full].query().nospc > 0
    assert members[1 - full].query().nospc == 0
    assert members[1 - full].query().mem_used == parts[1 - full] + BLOCK


def test_limit_without_waiting(lab):
    """At the limit, a later retry does not help, so RWF_NOWAIT must not return EAGAIN."""
    ramdisk = lab.ramdisk(4 * MIB, mem_limit=64 * KIB)
    with Direct(ramdisk.path) as device, mmap.mmap(-1, 64 * KIB) as buffer:
        assert os.pwritev(device.fd, [buffer], 0, os.RWF_NOWAIT) == 64 * KIB
        refused(os.pwritev, device.fd, [buffer], MIB, os.RWF_NOWAIT)
        assert ramdisk.query().nospc == 1
        # A page that exists needs no memory.
        assert os.pwritev(device.fd, [buffer], 0, os.RWF_NOWAIT) == 64 * KIB


def test_zeroes_that_are_not_stored(lab):
    """A disk that detects zeros uses no memory for them, whatever request writes them."""
    ramdisk = lab.ramdisk(4 * MIB, flags=CREATE_DETECT_ZEROES, mem_limit=MIB)
    with Direct(ramdisk.path) as device:
        device.zero_range(0, 4 * MIB)
        assert ramdisk.query().mem_used == 0
        device.write(MIB, stamp(1, MIB))
        device.zero_out(MIB + 512, MIB - 512)
        assert ramdisk.query().mem_used == BLOCK
        assert device.read(MIB, BLOCK) == stamp(1)[:512] + bytes(BLOCK - 512)
        assert device.read(MIB + BLOCK, MIB - BLOCK) == bytes(MIB - BLOCK)
    assert ramdisk.query().nospc == 0
