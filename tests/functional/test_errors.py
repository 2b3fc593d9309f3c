# SPDX-License-Identifier: GPL-2.0-only
"""An error once found reaches whoever asked, through splits, chains and stacks."""

import errno
import os

import pytest

from rxdlib.command import run
from rxdlib.direct import GIB, KIB, MIB, SECTOR, Direct, stamp


def refused(function, *args):
    """It must fail with ENOSPC."""
    with pytest.raises(OSError) as caught:
        function(*args)
    assert caught.value.errno == errno.ENOSPC


def test_error_of_an_earlier_part(lab):
    """The block layer splits a long write-zeroes and chains the parts: the first one fails."""
    size = 4 * GIB + 60 * KIB
    ramdisk = lab.ramdisk(size, overcommit=True, mem_limit=64 * KIB)
    with Direct(ramdisk.path) as device:
        device.write(size - 64 * KIB, stamp(1, 64 * KIB))
        refused(device.zero_out, 0, size)
        assert ramdisk.query().nospc == 1
        refused(device.zero_range, 0, size)
        assert ramdisk.query().nospc == 2
    result = run("blkdiscard", "--zeroout", ramdisk.path, check=False)
    assert result.returncode and os.strerror(errno.ENOSPC) in result.stderr
    assert ramdisk.query().nospc == 3


@pytest.fixture(params=["raid0", "stripe"])
def striped(lab, request):
    """A function that makes one disk of several."""
    def build(*members):
        paths = [member.path for member in members]
        if request.param == "raid0":
            run("modprobe", "raid0")
            path = "/dev/md7"
            run("mdadm", "--build", path, "--level=0", "--chunk=64",
                f"--raid-devices={len(paths)}", *paths)
            lab.stack.callback(run, "mdadm", "--stop", path)
            return path
        run("modprobe", "dm_mod")
        sectors = sum(member.query().size for member in members) // SECTOR
        legs = " ".join(f"{path} 0" for path in paths)
        return "/dev/mapper/" + lab.mapped(
            f"0 {sectors} striped {len(paths)} {64 * KIB // SECTOR} {legs}")
    return build


@pytest.mark.parametrize("full", [0, 1, 2])
def test_one_member_at_its_limit(lab, striped, full):
    """Whichever part of a request fails, the request does."""
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
