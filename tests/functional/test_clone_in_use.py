# SPDX-License-Identifier: GPL-2.0-only
"""RXD_CLONE of a disk that is open or mounted: a clone is what the disk was at one moment."""

import contextlib
import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

from rxdlib import direct, memory
from rxdlib.command import run
from rxdlib.control import (CLONE_EXPENDABLE, CLONE_FDS_MAX, CLONE_NO_FREEZE, CLONE_READ_ONLY,
                            CREATE_OVERCOMMIT, CREATE_RESERVE, DRY_RUN, RESIZE_FORCE,
                            STATE_EXPENDABLE, STATE_LOST, STATE_OVERCOMMIT, STATE_RESERVED,
                            TRACK_STOP, Control)
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp
from rxdlib.lab import LONG
from rxdlib.stacks import wait_for
from rxdlib.traced import wait_until_blocked

RWF_NOWAIT = 8
TIMES = 4 if LONG else 1     # how many times as often to do what may fail at random
FITHAW = 0xC0045878


@pytest.fixture(name="cloner")
def fixture_cloner(lab):
    """Clone a disk by one ioctl; returns the clone and the results."""
    def clone(source, **options):
        with Control() as control:
            result = control.clone_in_use(source.index, **options)
        return lab.adopt_ramdisk(result.index), result
    return clone


def fails(error, source, **options):
    """The clone is refused, and nothing is left of it."""
    with Control() as control:
        before = [device.index for device in control.query_all()]
        with pytest.raises(OSError) as raised:
            control.clone_in_use(source.index, **options)
        assert raised.value.errno == getattr(errno, error)
        assert [device.index for device in control.query_all()] == before


@contextlib.contextmanager
def descriptors(*directories):
    fds = [os.open(directory, os.O_RDONLY | os.O_CLOEXEC) for directory in directories]
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


class Background:
    """Calls a function again and again in a thread, with 1, 2, 3..."""

    def __init__(self, function):
        self.function, self.number, self.error = function, 0, None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self.stop.is_set():
                self.number += 1
                self.function(self.number)
        except OSError as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def go_on(self, steps=2, seconds=120):
        """Wait until it has done some more."""
        end, wanted = time.monotonic() + seconds, self.number + steps
        while self.number < wanted:
            assert self.error is None and time.monotonic() < end, self.error
            time.sleep(0.001)


def number_at(path, offset):
    return struct.unpack_from("=Q", direct.read(path, offset, BLOCK))[0]


def block_of(number):
    return struct.pack("=Q", number) * (BLOCK // 8)


def test_moment(lab, cloner):
    """A write that began after another one had ended is never in a clone without it."""
    source = lab.ramdisk(64 * MIB)
    places = [0, 33 * MIB, 512 * BLOCK - BLOCK, 512 * BLOCK, 50 * MIB + 5 * BLOCK]
    for place in places:
        direct.write(source.path, place, block_of(0))

    with contextlib.ExitStack() as stack:
        device = stack.enter_context(Direct(source.path))
        writer = stack.enter_context(Background(
            lambda number: [device.write(place, block_of(number)) for place in places]))
        other = stack.enter_context(Background(
            lambda number: device.write(4 * MIB + number % 256 * BLOCK, block_of(number))))
        held = []
        for _ in range(20 * TIMES):
            writer.go_on(1)
            other.go_on(1)
            clone, result = cloner(source, flags=CLONE_NO_FREEZE)
            numbers = [number_at(clone.path, place) for place in places]
            assert numbers == sorted(numbers, reverse=True)
            assert numbers[0] - numbers[-1] in (0, 1)
            assert result.held_ns > 0 and result.frozen_ns == 0
            held.append(result.held_ns)
            clone.remove()
    assert writer.error is None and other.error is None
    assert [number_at(source.path, place) for place in places] == [writer.number] * len(places)


def test_reads_and_writes_verified(lab, cloner):
    """fio verifies the source while it is cloned, and what it has not changed is in each clone."""
    source = lab.ramdisk(32 * MIB)
    direct.write(source.path, 31 * MIB, stamp(31, MIB))
    made, end = [], time.monotonic() + 120
    # fio may be faster than some clones.
    while len(made) <= 8:
        assert time.monotonic() < end
        with subprocess.Popen(
                ["fio", "--name=verify", f"--filename={source.path}", "--ioengine=libaio",
                 "--direct=1", "--iodepth=8", "--size=12M", f"--io_size={16 * TIMES}M",
                 "--rw=randwrite", "--bsrange=4k-128k", "--verify=crc32c", "--verify_fatal=1"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as fio:
            while fio.poll() is None and len(made) < 200:
                made.append(cloner(source, flags=CLONE_NO_FREEZE)[0])
                if len(made) % 8 == 0:
                    for clone in made[-8:-1]:
                        clone.remove()
            output, _ = fio.communicate(timeout=600)
        assert fio.returncode == 0, output
    for clone in made[7::8]:
        assert direct.read(clone.path, 31 * MIB, MIB) == stamp(31, MIB)


def test_discards_and_zeroes(lab, cloner):
    """What was zeroed stays so, whatever is cloned meanwhile."""
    source = lab.ramdisk(16 * MIB)

    def step(number):
        at = number % 3 * MIB + 512 * KIB
        device.write(at, stamp(number, 3 * MIB))
        assert device.read(at, 3 * MIB) == stamp(number, 3 * MIB)
        if number % 2:
            device.zero_out(at, 3 * MIB)
        else:
            device.punch_hole(at + 512, 3 * MIB - 1024)
        assert device.read(at + 512, 3 * MIB - 1024) == bytes(3 * MIB - 1024)

    with Direct(source.path) as device, Background(step) as writer:
        for _ in range(12 * TIMES):
            writer.go_on(1)
            cloner(source, flags=CLONE_NO_FREEZE)[0].remove()
    assert writer.error is None


def test_changes(lab, cloner):
    """The number is that of the sysfs file, and goes on with the next write only."""
    source = lab.ramdisk(4 * MIB)
    direct.write(source.path, 0, stamp(1))
    for opened in False, True:
        with contextlib.ExitStack() as stack:
            if opened:
                stack.enter_context(Direct(source.path))
            clone, result = cloner(source, flags=CLONE_NO_FREEZE)
            assert result.changes == int(source.attribute("changes")) > 0
            assert (result.held_ns > 0) == opened
            assert clone.attribute("changes") == "1"
            direct.write(source.path, 0, stamp(1))
            assert int(source.attribute("changes")) == result.changes + 1
            direct.write(source.path, 0, stamp(1))
            after, result = cloner(source, flags=CLONE_NO_FREEZE)
            assert int(source.attribute("changes")) == result.changes
            assert direct.read(after.path, 0, BLOCK) == stamp(1)


WRITES_AT_ONCE = """
import mmap, os, sys, time
os.sched_setaffinity(0, [0])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
with mmap.mmap(-1, 4096) as buffer:
    print("ready", flush=True)
    for line in sys.stdin:
        number, delay = line.split()
        buffer[:8] = int(number).to_bytes(8, sys.byteorder)
        time.sleep(float(delay))
        fd = os.open({path!r}, os.O_RDWR | os.O_DIRECT)
        os.pwrite(fd, buffer, 0)
        os.close(fd)
        print("written", flush=True)
"""


@pytest.mark.one_kernel
def test_changes_beside_an_opener(lab):
    """A write that waits for a clone to open the disk is not counted as part of the clone."""
    source = lab.ramdisk(1 << 40, overcommit=True)
    direct.write(source.path, 0, stamp(0))
    # On one CPU, the writer of higher priority runs as soon as it can.
    os.sched_setaffinity(0, [0])
    try:
        with subprocess.Popen([sys.executable, "-c", WRITES_AT_ONCE.format(path=source.path)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              bufsize=1) as writer, Control() as control:
            writer.stdout.readline()
            for number in range(1, 40 * TIMES + 1):
                print(number, 0.002 * (number % 40), file=writer.stdin)
                result = control.clone_in_use(source.index,
                                              flags=CLONE_NO_FREEZE | CREATE_OVERCOMMIT)
                clone = lab.adopt_ramdisk(result.index)
                writer.stdout.readline()
                has_it = number_at(clone.path, 0) == number
                assert has_it == (int(source.attribute("changes")) == result.changes)
                clone.remove()
            writer.stdin.close()
    finally:
        os.sched_setaffinity(0, range(os.cpu_count()))


def test_nowait(lab, cloner):
    """A write that must not wait succeeds, or fails with EAGAIN and has no other effect."""
    source = lab.ramdisk(16 * MIB)
    direct.write(source.path, 0, stamp(0, MIB))
    done = {"written": 0, "again": 0}

    def step(number):
        try:
            written = os.pwritev(device.fd, [buffer], number % 256 * BLOCK, RWF_NOWAIT)
            assert written == BLOCK
            done["written"] += 1
        except BlockingIOError:
            done["again"] += 1

    with direct.mmap.mmap(-1, BLOCK) as buffer:
        buffer[:] = stamp(7)
        with Direct(source.path) as device, Background(step) as writer:
            for _ in range(20 * TIMES):
                writer.go_on(1)
                cloner(source, flags=CLONE_NO_FREEZE)[0].remove()
    assert writer.error is None and done["written"] > 20 * TIMES
    print(done)


def test_page_cache_is_written(lab, cloner):
    """Without a file system, what the page cache holds is written, unless it is NO_FREEZE."""
    source = lab.ramdisk(16 * MIB)
    with open(source.path, "r+b", buffering=0) as file:
        file.write(stamp(1))
        clone, result = cloner(source, flags=CLONE_NO_FREEZE)
        assert direct.read(clone.path, 0, BLOCK) == bytes(BLOCK)
        clone, result = cloner(source, flags=CLONE_READ_ONLY)
        assert direct.read(clone.path, 0, BLOCK) == stamp(1)
        assert result.frozen_ns == 0


def test_refused(lab):
    """Caches, swap space, and descriptors that are none."""
    source = lab.ramdisk(16 * MIB)
    fails("EINVAL", source, nr_fds=CLONE_FDS_MAX + 1, address=4096)
    fails("EINVAL", source, nr_fds=0, address=4096)
    fails("EINVAL", source, nr_fds=1, fds=(0,), flags=CLONE_NO_FREEZE)
    fails("EFAULT", source, nr_fds=1, address=8)
    fails("EBADF", source, fds=(999,))
    fails("EBADF", source, fds=(-1,), flags=DRY_RUN)
    with descriptors("/proc") as fds:
        fails("EOPNOTSUPP", source, fds=fds)

    run("mkswap", source.path)
    run("swapon", source.path)
    try:
        for flags in 0, CLONE_NO_FREEZE, DRY_RUN:
            fails("EBUSY", source, flags=flags)
    finally:
        run("swapoff", source.path)
    with Direct(source.path) as device:
        device.partition(2048, 2 * 2048)
        run("mkswap", f"{source.path}p1")
        run("swapon", f"{source.path}p1")
        try:
            fails("EBUSY", source)
        finally:
            run("swapoff", f"{source.path}p1")
    source.clear()
    lab.cache(16 * MIB, ramdisk=source)
    for flags in 0, CLONE_NO_FREEZE, DRY_RUN:
        fails("EBUSY", source, flags=flags)


FILESYSTEMS = {"ext4": (64 * MIB, ()), "xfs": (320 * MIB, ("-o", "nouuid"))}
ROUNDS = {"ext4": 3 * TIMES, "xfs": TIMES}      # the programs of XFS take long


def check(lab, kind, path, *options):
    """A frozen ext4 is clean without a replay of its log. XFS always leaves something there, which
    the next mount looks at."""
    if kind == "ext4":
        run("e2fsck", "-fn", path)
    else:
        directory = lab.mount(path, *options)
        run("umount", directory)
        run("xfs_repair", "-n", path)


def fill(directory, number):
    """Files that are not written to the disk yet."""
    with open(os.path.join(directory, f"file{number % 16}"), "wb") as file:
        file.write(stamp(number, 256 * KIB))


def is_frozen(directory):
    """Whether a write to a file system waits."""
    with subprocess.Popen(["touch", os.path.join(directory, "probe")]) as process:
        try:
            return process.wait(timeout=60) is None
        except subprocess.TimeoutExpired:
            run("fsfreeze", "--unfreeze", directory, check=False)
            return True


@pytest.mark.parametrize("kind", FILESYSTEMS)
def test_filesystem_on_the_disk(lab, cloner, kind):
    """Clean without a replay of the log, with everything that was written before."""
    size, options = FILESYSTEMS[kind]
    source = lab.ramdisk(size)
    run(f"mkfs.{kind}", "-q", source.path)
    directory = lab.mount(source.path)
    fill(directory, 100)
    with Background(lambda number: fill(directory, number % 3)) as writer:
        for _ in range(ROUNDS[kind]):
            writer.go_on()
            with descriptors(directory, directory) as fds:
                clone, result = cloner(source, fds=fds)
            assert result.frozen_ns > result.held_ns > 0
            check(lab, kind, clone.path, *options)
            clone.remove()
        with descriptors(directory) as fds:
            clone, result = cloner(source, fds=fds)
    check(lab, kind, clone.path, *options)
    mounted = lab.mount(clone.path, *options)
    with open(os.path.join(mounted, "file4"), "rb") as file:
        assert file.read() == stamp(100, 256 * KIB)
    assert writer.error is None and not is_frozen(directory)
    fill(mounted, 5)
    run("umount", mounted)
    # As after a power cut: the log is replayed.
    fill(directory, 6)
    clone, result = cloner(source, flags=CLONE_NO_FREEZE)
    assert result.frozen_ns == 0
    mounted = lab.mount(clone.path, *options)
    run("umount", mounted)
    check(lab, kind, clone.path, *options)


def on_partition(lab, source):
    with Direct(source.path) as device:
        device.partition(2048, source.query().size // 512 - 2048)
    return f"{source.path}p1", lambda clone: f"{clone.path}p1"


def on_linear(lab, source):
    return (lab.linear(source.query().size, source.path)[1],
            lambda clone: lab.linear(clone.query().size, clone.path)[1])


@pytest.mark.parametrize("stack", [on_partition, on_linear], ids=lambda stack: stack.__name__)
@pytest.mark.parametrize("kind", FILESYSTEMS)
def test_filesystem_by_descriptor(lab, cloner, kind, stack):
    size, options = FILESYSTEMS[kind]
    source = lab.ramdisk(size + 2 * MIB)
    path, path_of = stack(lab, source)
    run(f"mkfs.{kind}", "-q", path)
    directory = lab.mount(path)
    fill(directory, 100)
    with Background(lambda number: fill(directory, number % 3)) as writer:
        for _ in range(ROUNDS[kind]):
            writer.go_on()
            with descriptors(directory, os.path.join(directory, "file4")) as fds:
                clone, result = cloner(source, fds=fds)
            assert result.frozen_ns > result.held_ns > 0
            # The first open finds the partitions.
            direct.read(clone.path, 0, BLOCK)
            inner = path_of(clone)
            check(lab, kind, inner, *options)
    assert writer.error is None and not is_frozen(directory)
    with open(os.path.join(lab.mount(inner, *options), "file4"), "rb") as file:
        assert file.read() == stamp(100, 256 * KIB)


def test_frozen_by_another(lab, cloner):
    """A file system that is frozen already is cloned or refused, and stays frozen."""
    source = lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", source.path)
    directory = lab.mount(source.path)
    run("fsfreeze", "--freeze", directory)
    try:
        with descriptors(directory) as fds:
            clone, _ = cloner(source, fds=fds)
        run("e2fsck", "-fn", clone.path)
    except OSError as error:
        assert error.errno == errno.EBUSY
    with subprocess.Popen(["touch", os.path.join(directory, "probe")]) as process:
        wait_until_blocked(process)
        run("fsfreeze", "--unfreeze", directory)
        assert process.wait(timeout=120) == 0


def test_thawed_by_another(lab, cloner):
    """A clone of a file system that another task thawed is refused, and the disk can be mounted."""
    source = lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", source.path)
    directory = lab.mount(source.path)

    def thaw(_number):
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, FITHAW, 0)
        time.sleep(0.001)

    done = {"cloned": 0, "refused": 0}
    with descriptors(directory) as (fd,), \
            Background(lambda number: fill(directory, number % 3)) as writer, \
            Background(thaw) as thawer:
        for _ in range(8 * TIMES):
            writer.go_on(1)
            try:
                clone, _ = cloner(source, fds=[fd])
            except OSError as error:
                assert error.errno == errno.EBUSY
                done["refused"] += 1
                continue
            run("e2fsck", "-fn", clone.path)
            clone.remove()
            done["cloned"] += 1
    assert writer.error is None and thawer.error is None
    print(done)
    run("umount", directory)
    assert not is_frozen(lab.mount(source.path))


CLONES_FOR_EVER = """
import os, sys
sys.path.insert(0, os.path.dirname({lib!r}))
from rxdlib.control import Control
for _ in sys.stdin:
    child = os.fork()
    if child:
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
        continue
    fd = os.open({directory!r}, os.O_RDONLY)
    with Control() as control:
        while True:
            control.remove(control.clone({index}, fds=(fd,)))
"""


def test_killed(lab):
    """Nothing stays frozen, nor anything half done."""
    source = lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", source.path)
    directory = lab.mount(source.path)
    program = CLONES_FOR_EVER.format(lib=os.path.dirname(direct.__file__), directory=directory,
                                     index=source.index)
    with Background(lambda number: fill(directory, number)) as writer, Control() as control, \
            subprocess.Popen([sys.executable, "-c", program], text=True, bufsize=1,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cloning:
        for number in range(12 * TIMES):
            print(file=cloning.stdin)
            child = int(cloning.stdout.readline())
            time.sleep(0.011 * (number % 12))
            os.kill(child, signal.SIGKILL)
            assert cloning.stdout.readline() == "gone\n"
            writer.go_on()
            for device in control.query_all():
                if device.index != source.index:
                    control.remove(device.index)
        cloning.stdin.close()
    assert writer.error is None and not is_frozen(directory)


def test_resized_and_removed_meanwhile(lab, cloner):
    """Each clone is a whole disk of some size; either it is refused, or the resize."""
    source = lab.ramdisk(16 * MIB)
    sizes = [16 * MIB, 12 * MIB + 4 * KIB]

    def resize(number):
        try:
            source.resize(sizes[number % 2], RESIZE_FORCE)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise

    with Direct(source.path), Background(resize) as resizer:
        for _ in range(15 * TIMES):
            resizer.go_on(1)
            try:
                clone, _ = cloner(source)
            except OSError as error:
                assert error.errno == errno.EBUSY
                continue
            assert clone.query().size in sizes
            clone.remove()
    assert resizer.error is None


HEADROOM = 8        # the share of memory that RAM disks leave to others


def exhaust(lab):
    """Take all memory that RAM disks may have. Returns a disk that is full."""
    info = memory.settled()
    left = info["MemAvailable"] - info["MemTotal"] // HEADROOM - 96 * MIB
    lab.ramdisk(left // MIB * MIB, overcommit=True, flags=CREATE_RESERVE)
    filler = lab.ramdisk(info["MemTotal"] // MIB * MIB, overcommit=True)
    take_the_rest(filler)
    return filler


def take_the_rest(filler):
    with Direct(filler.path) as device:
        for offset in range(0, filler.query().size, MIB):
            try:
                device.write(offset, stamp(offset // MIB, MIB))
            except OSError as error:
                assert error.errno == errno.ENOSPC
                return
    raise AssertionError("memory is endless")


def give_up(lab, source):
    """Have the expendable clones of a disk given up by writes to it."""
    filler = exhaust(lab)
    rewrite(source.path, 1, MIB)
    filler.remove()


def rewrite(path, number, size=32 * MIB):
    with Direct(path) as device:
        for offset in range(0, size, MIB):
            device.write(offset, stamp(number + offset // MIB, MIB))


@pytest.mark.parametrize("changed", [
    pytest.param(False, id="same", marks=pytest.mark.one_kernel),
    pytest.param(True, id="changed")])
def test_expendable(lab, cloner, changed):
    """Given up, so that the source can be written."""
    source = lab.ramdisk(64 * MIB)
    rewrite(source.path, 0)
    golden = direct.read(source.path, 0, 32 * MIB)
    with Direct(source.path):
        clone, _ = cloner(source, flags=CLONE_EXPENDABLE | CLONE_NO_FREEZE)
    assert clone.attribute("state") == "overcommit expendable"
    assert clone.query().state == STATE_OVERCOMMIT | STATE_EXPENDABLE
    assert direct.read(clone.path, 0, 32 * MIB) == golden
    if changed:
        rewrite(clone.path, 500, 16 * MIB)
    exhaust(lab)
    rewrite(source.path, 1000)
    assert clone.attribute("state") == "overcommit expendable lost"
    assert clone.query().state & STATE_LOST and clone.query().mem_used == 0
    for number in range(32):
        assert direct.read(source.path, number * MIB, MIB) == stamp(1000 + number, MIB)

    for offset in 0, 20 * MIB, 60 * MIB:
        with pytest.raises(OSError) as raised:
            direct.read(clone.path, offset, BLOCK)
        assert raised.value.errno == errno.EIO
        with pytest.raises(OSError) as raised:
            direct.write(clone.path, offset, stamp(1))
        assert raised.value.errno == errno.EIO
    fails("EIO", clone)
    with Control() as control:
        for call in (lambda: clone.extents(), lambda: clone.clear(), lambda: clone.resize(MIB),
                     lambda: control.reset(clone.index, source.index),
                     lambda: control.reset(source.index, clone.index)):
            with pytest.raises(OSError) as raised:
                call()
            assert raised.value.errno == errno.EIO
        # An update of an image may have ended with the last read before.
        control.track(clone.index, flags=TRACK_STOP)
        with pytest.raises(OSError) as raised:
            control.track(clone.index, bytes(range(16)))
        assert raised.value.errno == errno.EIO
    clone.remove()
    rewrite(source.path, 2000)


@pytest.mark.one_kernel
def test_reserved(lab, cloner):
    """Writes to it never lack memory: its clones give way, and so do clones of them."""
    size = 64 * MIB
    source = lab.ramdisk(size, flags=CREATE_RESERVE)
    rewrite(source.path, 0, size)
    golden = direct.read(source.path, 0, size)
    with Direct(source.path):
        clone, _ = cloner(source, flags=CLONE_EXPENDABLE)
        second, _ = cloner(clone, flags=CLONE_EXPENDABLE | CLONE_NO_FREEZE)
        for disk in source, clone, second:
            for flags in 0, CREATE_OVERCOMMIT, CLONE_READ_ONLY, CLONE_NO_FREEZE, DRY_RUN:
                fails("EOPNOTSUPP", disk, flags=flags)
    rewrite(second.path, 500, 16 * MIB)
    assert direct.read(clone.path, 0, size) == golden
    exhaust(lab)
    rewrite(source.path, 1000, size)
    for number in range(size // MIB):
        assert direct.read(source.path, number * MIB, MIB) == stamp(1000 + number, MIB)
    query = source.query()
    assert (query.state, query.mem_used, query.nospc) == (STATE_RESERVED, size, 0)
    for disk in clone, second:
        assert disk.attribute("state") == "overcommit expendable lost"
        wait_for(lambda disk=disk: disk.query().mem_used == 0, "memory of the clone")
        with pytest.raises(OSError) as raised:
            direct.read(disk.path, 20 * MIB, BLOCK)
        assert raised.value.errno == errno.EIO
        fails("EIO", disk, flags=CLONE_EXPENDABLE)
        disk.remove()
    rewrite(source.path, 2000, size)


@pytest.mark.one_kernel
def test_not_expendable(lab, cloner):
    """Beside another clone, a write finds no memory, and neither disk changes."""
    source = lab.ramdisk(64 * MIB)
    rewrite(source.path, 0)
    golden = direct.read(source.path, 0, 32 * MIB)
    clone, _ = cloner(source, flags=CREATE_OVERCOMMIT)
    unrelated = lab.ramdisk(16 * MIB)
    direct.write(unrelated.path, 0, stamp(7, MIB))
    other, _ = cloner(unrelated, flags=CLONE_EXPENDABLE)
    exhaust(lab)
    with pytest.raises(OSError) as raised:
        rewrite(source.path, 1000)
    assert raised.value.errno == errno.ENOSPC
    assert direct.read(clone.path, 0, 32 * MIB) == golden
    assert other.attribute("state") == "overcommit expendable"
    assert direct.read(other.path, 0, MIB) == stamp(7, MIB)


@pytest.mark.one_kernel
def test_expendable_as_a_cache(lab, cloner):
    """A cache drops the data, and keeps its memory."""
    source = lab.ramdisk(16 * MIB)
    direct.write(source.path, 0, stamp(1))
    clone, _ = cloner(source, flags=CLONE_EXPENDABLE)
    cache = lab.cache(16 * MIB, ramdisk=clone)
    assert clone.attribute("state") == "open cache overcommit"
    direct.read(cache.path, 0, BLOCK)
