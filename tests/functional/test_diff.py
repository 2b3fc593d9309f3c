# SPDX-License-Identifier: GPL-2.0-only
"""RXD_DIFF and rxadm diff: which ranges two RAM disks do not share."""

import ctypes
import errno
import fcntl
import json
import os
import random
import threading
import time

import pytest

from rxdlib import control as ctl
from rxdlib import direct
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.control import Control, diff_all, diff_extents
from rxdlib.direct import BLOCK, KIB, MIB, Direct, ranges, stamp
from rxdlib.lab import DISK, state
from rxdlib.outcome import ok, refused
from rxdlib.stacks import wait_for
from test_clone_in_use import give_up

SIZE = 8 * MIB
TOTAL = SIZE // BLOCK
LEAF = 2 * MIB      # the range that one leaf of the driver's index describes
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
DEVICE = 4


def clone(lab, source, *options):
    path = ok("clone", source.path, *options).strip()
    return lab.adopt_ramdisk(int(path[len("/dev/rxd"):]))


@pytest.fixture(name="pair")
def pair_of_disks(lab):
    """A RAM disk with data in its first 5 MiB, and its clone."""
    source = lab.ramdisk(SIZE)
    direct.write(source.path, 0, stamp(1, 5 * MIB))
    return source, clone(lab, source)


def diff(disk, base, start=0, length=SIZE, count=ctl.MAP_MAX):
    """The ranges that the disks do not share, and how many bytes they share."""
    with Direct(disk.path, os.O_RDONLY) as left, Direct(base.path, os.O_RDONLY) as right:
        return diff_all(left.fd, right.fd, start, length, count)


def blocks_of(extents):
    return {block for start, length in extents
            for block in range(start // BLOCK, (start + length) // BLOCK)}


def contents(disk):
    data = direct.read(disk.path, 0, SIZE)
    return [data[at:at + BLOCK] for at in range(0, SIZE, BLOCK)]


def test_random_against_a_model(lab):
    """Disks that were cloned from each other, written, discarded and reset, in all pairs."""
    chance = random.Random(16)
    disks = [lab.ramdisk(SIZE)]
    direct.write(disks[0].path, 0, stamp(1, 5 * MIB))
    disks += [clone(lab, disks[0])]
    disks += [clone(lab, disks[1]), lab.ramdisk(SIZE)]
    # The number of the write that made each block, if there is one.
    models = [{block: -1 for block in range(5 * MIB // BLOCK)} for _ in range(3)] + [{}]
    for step in range(200):
        number = chance.randrange(4)
        disk, model = disks[number], models[number]
        first = chance.randrange(TOTAL)
        count = min(chance.choice([1, 1, 2, 7, 64, 300, 700]), TOTAL - first)
        what = chance.random()
        if what < 0.04:
            source = chance.choice([other for other in range(4) if other != number])
            with Control() as control:
                control.reset(disk.index, disks[source].index)
            models[number] = dict(models[source])
        elif what < 0.6:
            direct.write(disk.path, first * BLOCK, stamp(step, count * BLOCK))
            model.update((block, step) for block in range(first, first + count))
        elif what < 0.7:
            direct.write(disk.path, first * BLOCK + 512, stamp(step, 512))
            model[first] = step
        else:
            with Direct(disk.path) as device:
                device.discard(first * BLOCK, count * BLOCK)
            for block in range(first, first + count):
                model.pop(block, None)
        left, right = chance.sample(range(4), 2)
        start, end = sorted(chance.sample(range(TOTAL + 9), 2))
        both = [(models[left].get(block), models[right].get(block), block)
                for block in range(start, min(end, TOTAL))]
        expected = (ranges(block for one, other, block in both if one != other),
                    BLOCK * sum(one == other is not None for one, other, _ in both))
        assert diff(disks[left], disks[right], start * BLOCK, (end - start) * BLOCK,
                    chance.choice([1, 3, 128, 129, ctl.MAP_MAX])) == expected
        if step % 20 == 0:
            listed = blocks_of(diff(disks[left], disks[right])[0])
            differ = {block for block, (one, other)
                      in enumerate(zip(contents(disks[left]), contents(disks[right])))
                      if one != other}
            assert differ <= listed


def test_parts(pair):
    """The number of extents is limited by the array, and they are cut to the range."""
    source, copy = pair
    with Direct(source.path) as base, Direct(copy.path) as device:
        assert diff_extents(device.fd, base.fd, 0, SIZE) == ([], SIZE, 5 * MIB)
        assert diff_extents(device.fd, base.fd, SIZE, BLOCK) == ([], SIZE + BLOCK, 0)
        assert diff_extents(device.fd, base.fd, 0, 0) == ([], 0, 0)
        for block in 1, 2, 600, TOTAL - 1:
            device.write(block * BLOCK, stamp(2))
        base.discard(MIB, BLOCK)
        expected = [(BLOCK, 2 * BLOCK), (MIB, BLOCK), (600 * BLOCK, BLOCK), (SIZE - BLOCK, BLOCK)]
        for first, second in (device, base), (base, device):
            for count in range(1, 6):
                assert diff_all(first.fd, second.fd, 0, SIZE, count) == \
                    (expected, 5 * MIB - 4 * BLOCK)
        # The search goes on until an extent does not fit.
        assert diff_extents(device.fd, base.fd, 0, SIZE, 1) == \
            (expected[:1], MIB, MIB - 2 * BLOCK)
        assert diff_extents(device.fd, base.fd, 0, SIZE, 4)[:2] == (expected, SIZE)
        assert diff_extents(device.fd, base.fd, 2 * BLOCK, MIB) == \
            ([(2 * BLOCK, BLOCK), (MIB, BLOCK)], MIB + 2 * BLOCK, MIB - 2 * BLOCK)


def test_unrelated(lab, pair):
    """What either disk holds is listed, and nothing is shared."""
    other = lab.ramdisk(SIZE)
    direct.write(other.path, 4 * MIB, stamp(1, 2 * MIB))
    assert diff(pair[0], other) == diff(other, pair[0]) == ([(0, 6 * MIB)], 0)


def test_other_sizes(pair):
    """What the larger disk holds beyond the end of the smaller one is listed."""
    source, copy = pair
    copy.resize(2 * SIZE)
    direct.write(copy.path, SIZE + LEAF, stamp(1, LEAF))
    for first, second in (source, copy), (copy, source):
        assert diff(first, second, 0, 4 * SIZE) == ([(SIZE + LEAF, LEAF)], 5 * MIB)
    source.resize(LEAF + BLOCK, ctl.RESIZE_FORCE)
    for first, second in (source, copy), (copy, source):
        assert diff(first, second, 0, 4 * SIZE) == \
            ([(LEAF + BLOCK, 5 * MIB - LEAF - BLOCK), (SIZE + LEAF, LEAF)], LEAF + BLOCK)


def test_large(lab):
    """Empty tebibytes take no time. They would, if each page were looked at."""
    size = 8 << 40
    source = lab.ramdisk(size, overcommit=True)
    direct.write(source.path, size // 2, stamp(1, 4 * MIB))
    copy = clone(lab, source, "--overcommit")
    direct.write(copy.path, size - BLOCK, stamp(2))
    begin = time.monotonic()
    assert diff(copy, source, 0, size) == ([(size - BLOCK, BLOCK)], 4 * MIB)
    assert time.monotonic() - begin < 60


def test_beside_writes_and_discards(pair):
    """Whether untouched blocks are listed is always correct; the rest is well-formed."""
    source, copy = pair
    shared = {block for block in range(5 * MIB // BLOCK) if block % 8 in (0, 1)}
    changed = {block for block in range(TOTAL) if block % 8 == 2}
    wild = [block for block in range(TOTAL) if block % 8 in (4, 5, 6)]
    over = threading.Event()
    changes = [0, 0]

    def change(number):
        chance = random.Random(number)
        with Direct(pair[number].path) as device:
            while not over.is_set():
                block = chance.choice(wild)
                if chance.random() < 0.5:
                    device.write(block * BLOCK, stamp(block))
                else:
                    device.discard(block * BLOCK, BLOCK)
                changes[number] += 1

    with Direct(copy.path) as device:
        for block in changed:
            device.write(block * BLOCK, stamp(2))
    threads = [threading.Thread(target=change, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        begin, looks = time.monotonic(), 0
        while time.monotonic() < begin + 3 or \
                min(looks, *changes) <= 10 and time.monotonic() < begin + 60:
            looks += 1
            extents, _ = diff(source, copy, 0, SIZE, 1 + looks % 200)
            assert extents == sorted(extents)
            listed = blocks_of(extents)
            assert sum(length for _, length in extents) == BLOCK * len(listed)
            assert changed <= listed <= changed | set(wild)
            assert not listed & shared
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert looks > 10 and min(changes) > 10


@pytest.mark.one_kernel
@pytest.mark.parametrize("code, arguments", [
    (errno.EINVAL, {"start": 512}),
    (errno.EINVAL, {"start": U64}),
    (errno.EINVAL, {"length": BLOCK + 1}),
    (errno.EINVAL, {"start": BLOCK, "length": U64 - 4095}),
    (errno.EINVAL, {"count": 0}),
    (errno.EINVAL, {"count": ctl.MAP_MAX + 1}),
    (errno.EINVAL, {"count": U32}),
    (errno.EINVAL, {"flags": 1}),
    (errno.EINVAL, {"flags": ctl.DRY_RUN}),
    (errno.EINVAL, {"following": BLOCK}),
    (errno.EINVAL, {"shared": 1}),
    (errno.EINVAL, {"reserved": (1, 0)}),
    (errno.EINVAL, {"reserved": (0, 1 << 63)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
    (errno.EBADF, {"base": -1}),
    (errno.EBADF, {"base": (1 << 31) - 1}),
    (errno.EBADF, {"base": -(1 << 31)}),
], ids=str)
def test_bad_values(pair, code, arguments):
    with Direct(pair[0].path) as base, Direct(pair[1].path) as device:
        before = state()
        with pytest.raises(OSError) as caught:
            diff_extents(device.fd, **{"base": base.fd, "start": 0, "length": SIZE, **arguments})
        assert errno.errorcode[caught.value.errno] == errno.errorcode[code]
        assert state() == before


def test_bad_base(lab, pair):
    """The descriptor must be one of another whole RAM disk, and open for reading."""
    lab.cache(ramdisk=lab.ramdisk(index=7))
    with Direct(pair[0].path) as device:
        device.partition(2048, 4096)
    pipe = os.pipe()
    try:
        for base, flags, code in (
                (pair[0].path, os.O_WRONLY, errno.EBADF), (pair[0].path, os.O_PATH, errno.EBADF),
                (pair[0].path + "p1", os.O_RDONLY, errno.ENODEV),
                (DISK, os.O_RDONLY, errno.ENODEV), ("/dev/null", os.O_RDONLY, errno.ENODEV),
                (ctl.NODE, os.O_RDWR, errno.ENODEV), ("/etc/passwd", os.O_RDONLY, errno.ENODEV),
                ("/", os.O_RDONLY, errno.ENODEV), (f"/dev/fd/{pipe[0]}", os.O_RDONLY, errno.ENODEV),
                (pair[1].path, os.O_RDONLY, errno.EINVAL),
                ("/dev/rxd7", os.O_RDONLY, errno.EBUSY)):
            fd = os.open(base, flags | os.O_CLOEXEC)
            try:
                with Direct(pair[1].path, os.O_RDONLY) as device:
                    with pytest.raises(OSError) as caught:
                        diff_extents(device.fd, fd, 0, SIZE)
                assert errno.errorcode[caught.value.errno] == errno.errorcode[code], (base, flags)
            finally:
                os.close(fd)
    finally:
        os.close(pipe[0])
        os.close(pipe[1])
    # The same of the disk itself.
    for path, flags, code in ((pair[0].path, os.O_WRONLY, errno.EBADF),
                              (pair[0].path + "p1", os.O_RDONLY, errno.ENOTTY),
                              ("/dev/rxd7", os.O_RDONLY, errno.EBUSY)):
        with Direct(path, flags) as device, Direct(pair[1].path) as base:
            with pytest.raises(OSError) as caught:
                diff_extents(device.fd, base.fd, 0, SIZE)
            assert errno.errorcode[caught.value.errno] == errno.errorcode[code], path


@pytest.mark.one_kernel
@pytest.mark.parametrize("address", [0, 1, 4096, 0x7ffffffff000, 1 << 63, U64])
def test_bad_address(pair, address):
    """The address of the structure, or of the array in it, is invalid."""
    direct.write(pair[1].path, 0, stamp(2))
    libc = ctypes.CDLL(None, use_errno=True)
    with Direct(pair[0].path) as base, Direct(pair[1].path) as device:
        assert libc.ioctl(device.fd, ctypes.c_ulong(ctl.DIFF), ctypes.c_void_p(address)) == -1
        assert ctypes.get_errno() == errno.EFAULT
        argument = ctl.DIFF_FIELDS.pack(ctl.ABI_VERSION, 0, 0, SIZE, address, 16, base.fd,
                                        0, 0, 0, 0)
        with pytest.raises(OSError) as caught:
            fcntl.ioctl(device.fd, ctl.DIFF, bytearray(argument), True)
        assert caught.value.errno == errno.EFAULT


def test_command(pair):
    source, copy = pair
    assert ok("diff", "rxd1", "--base", "rxd0", "-n") == ""
    assert json.loads(ok("diff", "rxd1", "--base", "rxd0", "--json")) == {"diff": []}
    direct.write(copy.path, 0, stamp(2, 3 * BLOCK))
    with Direct(source.path) as device:
        device.discard(MIB, MIB)
    expected = {"diff": [{"start": 0, "length": 3 * BLOCK}, {"start": MIB, "length": MIB}]}
    for options in (), ("--compare",):
        assert json.loads(ok("diff", copy.path, "--base", source.path, "-J", *options)) == expected
    assert ok("diff", "--base=rxd1", "-r", "rxd0") == \
        f"START LENGTH\n0 12288\n{MIB} {MIB}\n"
    assert ok("diff", "rxd0", "--base", "rxd1", "-n", "-r", "-o", "LENGTH") == f"12288\n{MIB}\n"


@pytest.mark.one_kernel
def test_compare(lab, pair):
    """Pages with the same data are left out, shared or not."""
    source, copy = pair
    other = lab.ramdisk(SIZE + BLOCK)
    direct.write(other.path, 0, stamp(1, 5 * MIB))
    direct.write(other.path, SIZE - BLOCK, bytes(2 * BLOCK))
    direct.write(other.path, 3 * MIB + 5 * KIB, stamp(9, 512))
    direct.write(other.path, 2 * MIB - BLOCK, stamp(9, 2 * BLOCK))
    for first, second in (source, other), (other, source):
        assert diff(first, second, 0, 2 * SIZE) == \
            ([(0, 5 * MIB), (SIZE - BLOCK, 2 * BLOCK)], 0)
        assert ok("diff", first.path, "--base", second.path, "--compare", "-n", "-r") == \
            f"{2 * MIB - BLOCK} {2 * BLOCK}\n{3 * MIB + BLOCK} {BLOCK}\n"
    direct.write(copy.path, MIB, stamp(1, 5 * MIB)[MIB:2 * MIB])
    assert diff(copy, source) == ([(MIB, MIB)], 4 * MIB)
    assert ok("diff", "rxd1", "--base", "rxd0", "--compare", "-n") == ""


def test_many_extents(lab, pair):
    """More extents than one call of RXD_DIFF returns."""
    source = lab.ramdisk(64 * MIB)
    direct.write(source.path, 0, stamp(1, 40 * MIB))
    copy = clone(lab, source)
    with Direct(copy.path) as device:
        for offset in range(BLOCK, 40 * MIB, 2 * BLOCK):
            device.discard(offset, BLOCK)
    expected = [f"{offset} {BLOCK}" for offset in range(BLOCK, 40 * MIB, 2 * BLOCK)]
    for options in (), ("--compare",):
        assert ok("diff", copy.path, "--base", source.path, "-r", "-n",
                  *options).splitlines() == expected


@pytest.mark.one_kernel
def test_message_about_unrelated_disks(lab, pair):
    """One line says why everything is listed. There is none if nothing is."""
    other = lab.ramdisk(SIZE)
    direct.write(other.path, 7 * MIB, stamp(1))
    result = rxadm("diff", "rxd1", "--base", "rxd2", "-n", "-r")
    assert (result.returncode, result.stdout) == (0, f"0 {5 * MIB}\n{7 * MIB} {BLOCK}\n")
    line, = result.stderr.splitlines()
    assert line.startswith("rxadm: ") and "/dev/rxd1" in line and "/dev/rxd2" in line and \
        "shares no memory" in line
    assert ok("diff", "rxd1", "--base", "rxd2", "-n", "-r", "--compare")
    other.clear()
    lab.ramdisk(SIZE)
    assert ok("diff", "rxd2", "--base", "rxd3", "-n") == ""


def test_mounted(lab):
    """A clone of a file system, while it is mounted."""
    source = lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", source.path)
    copy = clone(lab, source)
    directory = lab.mount(copy.path)
    with open(f"{directory}/file", "wb") as file:
        file.write(stamp(1, MIB))
        file.flush()
        os.fsync(file.fileno())
    found = json.loads(ok("diff", copy.path, "--base", source.path, "-J"))["diff"]
    assert sum(extent["length"] for extent in found) >= MIB
    assert ok("diff", copy.path, "--base", source.path, "--compare", "-n")


def injected(trace, error, *args):
    """Run rxadm, and let its ioctls fail."""
    # LeakSanitizer cannot work beside strace.
    environment = {**ENVIRONMENT, "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    return run("strace", "-o", trace, "-e", "trace=ioctl", "-e", f"inject=ioctl:{error}",
               program("rxadm"), *args, check=False, environment=environment)


@pytest.mark.one_kernel
def test_older_module(pair):
    result = injected("/dev/null", "error=ENOTTY", "diff", "rxd1", "--base", "rxd0")
    assert (result.returncode, result.stdout) == (DEVICE, "")
    line, = result.stderr.splitlines()
    assert "/dev/rxd1" in line and "older than rxadm" in line


@pytest.mark.one_kernel
def test_interrupted(pair, tmp_path):
    """A stopped and continued process calls the ioctl again."""
    direct.write(pair[1].path, 0, stamp(2))
    traces = ""
    for when in range(1, 5):
        result = injected(tmp_path / "trace", f"error=EINTR:when={when}", "diff", "rxd1",
                          "--base", "rxd0", "-r", "-n")
        assert (result.returncode, result.stdout, result.stderr) == (0, f"0 {BLOCK}\n", "")
        traces += (tmp_path / "trace").read_text()
    assert any("0xb7, 0x11," in line and "INJECTED" in line for line in traces.splitlines())


@pytest.mark.one_kernel
def test_refused(lab, pair):
    refused(DEVICE, "diff", "rxd1", "--base", "rxd9", names="base '/dev/rxd9'")
    refused(DEVICE, "diff", "rxd9", "--base", "rxd0", names="device '/dev/rxd9'")
    refused(DEVICE, "diff", "rxd1", "--base", DISK, names=("base", DISK))


@pytest.mark.one_kernel
def test_lost(lab):
    """A message names the disk that was given up, and not the other one."""
    source = lab.ramdisk(SIZE)
    direct.write(source.path, 0, stamp(1, 5 * MIB))
    lost = clone(lab, source, "--expendable")
    give_up(lab, source)
    assert lost.attribute("state") == "overcommit expendable lost"
    wait_for(lambda: lost.query().mem_used == 0, "memory of the clone")
    for options in (), ("--compare",):
        for disk, base, role in (lost, source, "device"), (source, lost, "base"):
            refused(DEVICE, "diff", disk.path, "--base", base.path, *options,
                    names=(f"{role} '{lost.path}': cannot be compared with another one",
                           "its data is lost", "'rxadm remove' removes it"))
