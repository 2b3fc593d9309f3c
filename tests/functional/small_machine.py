# SPDX-License-Identifier: GPL-2.0-only
"""A machine of 1 GiB, or of half as much, and disks of 8: full means ENOSPC, and nothing else.

Not collected with the others: the stages "small" and "small-512" boot guests of their own
for it. The stage "small-2048" runs the tests of scattered writes, in one of 2 GiB.
"""

import concurrent.futures
import contextlib
import ctypes
import errno
import hashlib
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rxdlib import direct, dm, memory, nvme
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.control import (CLONE_EXPENDABLE, CLONE_NO_FREEZE, CREATE_RESERVE,
                            RESIZE_OVERCOMMIT, SIZE_MAX, STATE_LOST, STATE_RESERVED, Control)
from rxdlib.direct import BLOCK, GIB, KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, state
from rxdlib.outcome import ok
from rxdlib.stacks import STACKS, data_offset
from test_clone_in_use import exhaust, rewrite
from test_export import ALLOWED, TCP, connected, exported
from test_save_in_use import Stalled, disks, is_clean_up_done

SLOW_DISK = "/dev/vdc"      # 150 requests a second
# Seconds: a write waits for memory, half as long before it gives up clones. It takes longer than
# that on a busy machine, which is emulated, and begins anew when it gets a page that others free.
WAIT, WAIT_BEFORE_GIVING_UP, LATE = 10, 5, 10
CHUNK = 4 * MIB
PATTERN = stamp(1, CHUNK + MIB)
CRYPT = f"crypt aes-xts-plain64 {bytes(range(64)).hex()} 0 {{}} {{}}"

# Starts a program ten times a second, and tells how long the slowest took. Time that the host
# keeps from the guest does not count: another process, which needs no more memory and goes
# before all others, wakes a hundred times a second, and adds up how late it does.
SHELL = """
import ctypes, mmap, os, signal, sys, time

PAUSE, LOCK_ALL = 0.01, 3
late = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")  # seconds, times

def reference():
    parent = os.getppid()
    if ctypes.CDLL(None).mlockall(LOCK_ALL):
        return
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    begin = time.monotonic()
    while os.getppid() == parent:
        time.sleep(PAUSE)
        now = time.monotonic()
        late[0] += now - begin - PAUSE
        late[1] += 1
        begin = now

def wait_for_reference(beside):
    seen = late[1]
    while late[1] == seen:
        if os.waitpid(beside, os.WNOHANG)[0]:
            sys.exit("no reference")
        time.sleep(PAUSE / 4)

beside = os.fork()
if not beside:
    try:
        reference()
    finally:
        os._exit(1)
over, slowest, count = [], 0, 0
signal.signal(signal.SIGTERM, lambda *_: over.append(True))
wait_for_reference(beside)
print("ready", flush=True)
while not over:
    before, begin = late[0], time.monotonic()
    pid = os.fork()
    if not pid:
        try:
            os.execv("/bin/true", ["true"])
        finally:
            os._exit(127)
    if os.waitpid(pid, 0)[1]:
        sys.exit("true failed")
    wait_for_reference(beside)
    took = time.monotonic() - begin - (late[0] - before)
    slowest, count = max(slowest, took), count + 1
    time.sleep(0.1)
print(count, slowest, late[0])
"""


def chunk(number):
    """Data that differs from all other chunks in each of its blocks."""
    return PATTERN[number * 16:number * 16 + CHUNK]


@contextlib.contextmanager
def shell(report):
    """A process that acts as a shell user; report gets the requests and the longest wait."""
    process = subprocess.Popen([sys.executable, "-c", SHELL], env=ENVIRONMENT, text=True,
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "ready\n"
        yield
        process.terminate()
        count, slowest, held_up = process.communicate(timeout=60)[0].split()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    report.update(count=int(count), slowest=float(slowest), held_up=float(held_up))


@pytest.fixture(scope="session")
def patience():
    """A second; or five times what an idle guest takes, on a slow host."""
    report = {}
    with shell(report):
        time.sleep(5)
    return max(1, 5 * report["slowest"])


@contextlib.contextmanager
def answers_within(patience):
    report = {}
    with shell(report):
        yield
    print(f"{report['count']} programs started, the slowest took {report['slowest']:.2f} s of "
          f"{patience:.2f} s; the host kept {report['held_up']:.1f} s from the guest")
    assert report["count"] > 10 and report["slowest"] < patience


def attempts():
    """At least five, for as long as it takes to tell whether others can go on."""
    end = time.monotonic() + 5
    number = 0
    while number < 5 or time.monotonic() < end:
        yield number
        number += 1


def fill(device):
    """Write until there is no more; returns how many chunks were acknowledged."""
    number = 0
    with pytest.raises(OSError) as caught:
        while True:
            device.write(number * CHUNK, chunk(number))
            number += 1
    assert caught.value.errno == errno.ENOSPC
    return number


def check(device, chunks):
    for number in range(chunks):
        assert device.read(number * CHUNK, CHUNK) == chunk(number), f"chunk {number}"


@pytest.fixture
def unharmed(kernel_log):
    """No program is killed, and the memory is freed to within 2 percent."""
    total = memory.meminfo()["MemTotal"]
    assert 384 * MIB < total < 2100 * MIB
    killed = memory.vmstat("oom_kill")
    before = memory.spare()
    yield
    assert memory.vmstat("oom_kill") == killed
    assert not [line for line in kernel_log.lines() if "oom" in line.lower()]
    assert memory.missing(before, total // 50) < total // 50


@pytest.mark.parametrize("folio_size", [0, 2 * MIB], ids=["pages", "2M"])
def test_fill(patience, unharmed, lab, folio_size):
    ramdisk = lab.ramdisk(8 << 30, overcommit=True, folio_size=folio_size)
    with Direct(ramdisk.path) as device, answers_within(patience):
        chunks = fill(device)
        assert chunks * CHUNK > memory.meminfo()["MemTotal"] // 2
        check(device, chunks)
        # The disk remains full, and its data can still be overwritten.
        for _ in range(50):
            with pytest.raises(OSError) as caught:
                device.write(4 << 30, chunk(0))
            assert caught.value.errno == errno.ENOSPC
        device.write(0, chunk(7))
        device.write(0, chunk(0))
        check(device, 1)
    assert ramdisk.query().nospc > 0
    ramdisk.remove()


def test_fill_to_the_limit(patience, unharmed, lab):
    limit = memory.meminfo()["MemTotal"] // 4 // CHUNK * CHUNK
    ramdisk = lab.ramdisk(8 << 30, overcommit=True, mem_limit=limit)
    with Direct(ramdisk.path) as device, answers_within(patience):
        chunks = fill(device)
        assert chunks == limit // CHUNK
        assert ramdisk.query().mem_used == limit == ramdisk.query().mem_max_used
        check(device, chunks)
        device.discard(0, CHUNK)
        device.write(1 << 30, chunk(3))
        assert device.read(1 << 30, CHUNK) == chunk(3)
        assert device.read(0, CHUNK) == bytes(CHUNK)
        with pytest.raises(OSError) as caught:
            device.write(2 << 30, bytes(BLOCK))
        assert caught.value.errno == errno.ENOSPC
    ramdisk.remove()


def test_slab_is_reclaimed(unharmed, lab):
    """A write gets the memory of cached names of files, which only kswapd can reclaim."""
    total = memory.meminfo()["MemTotal"]
    run("mkfs.ext4", "-qF", DISK)
    directory = lab.mount(DISK)
    number = 0
    while memory.meminfo()["SReclaimable"] < total // 2:
        for number in range(number, number + 10000):
            os.path.exists(f"{directory}/{number:0200}")
    ramdisk = lab.ramdisk(8 << 30, overcommit=True)
    with Direct(ramdisk.path) as device:
        with pytest.raises(OSError) as caught:
            device.zero_out(0, GIB)
    assert caught.value.errno == errno.ENOSPC
    assert memory.meminfo()["SReclaimable"] < total // 4


def test_reserved_memory_is_kept(unharmed, lab):
    """Another disk takes all available memory; the reserved disk needs none of it."""
    total = memory.meminfo()["MemTotal"]
    size = total // 16 // CHUNK * CHUNK
    reserved = lab.ramdisk(size, flags=CREATE_RESERVE)
    greedy = lab.ramdisk(8 << 30, overcommit=True)
    with Direct(reserved.path) as device, Direct(greedy.path) as other:
        chunks = fill(other)
        for number in range(size // CHUNK):
            device.write(number * CHUNK, chunk(number))
        check(device, size // CHUNK)
        check(other, chunks)
        with pytest.raises(OSError) as caught:
            lab.ramdisk(total // 4 // CHUNK * CHUNK, flags=CREATE_RESERVE, overcommit=True)
        assert caught.value.errno == errno.ENOSPC
    assert reserved.query().nospc == 0
    greedy.remove()
    reserved.remove()


def test_clone_of_reserved_memory_gives_way(unharmed, lab):
    """Another disk takes all available memory. Each page that the clone shares is written."""
    total = memory.meminfo()["MemTotal"]
    size = total // 16 // CHUNK * CHUNK
    reserved = lab.ramdisk(size, flags=CREATE_RESERVE)
    greedy = lab.ramdisk(8 << 30, overcommit=True)
    with Direct(reserved.path) as device, Direct(greedy.path) as other:
        for number in range(size // CHUNK):
            device.write(number * CHUNK, chunk(number))
        with Control() as control:
            clone = lab.adopt_ramdisk(control.clone(
                reserved.index, flags=CLONE_EXPENDABLE | CLONE_NO_FREEZE))
        assert direct.read(clone.path, size - CHUNK, CHUNK) == chunk(size // CHUNK - 1)
        chunks = fill(other)
        for generation in 1000, 2000:
            for number in range(size // CHUNK):
                device.write(number * CHUNK, chunk(generation + number))
            for number in range(size // CHUNK):
                assert device.read(number * CHUNK, CHUNK) == chunk(generation + number)
        check(other, chunks)
    query = reserved.query()
    assert (query.nospc, query.mem_used, query.state) == (0, size, STATE_RESERVED)
    assert clone.query().state & STATE_LOST
    with pytest.raises(OSError) as caught:
        direct.read(clone.path, 0, BLOCK)
    assert caught.value.errno == errno.EIO
    for ramdisk in greedy, clone, reserved:
        ramdisk.remove()


@pytest.mark.parametrize("name", ["linear", "raid1"])
def test_clone_below_a_stack_gives_way(unharmed, lab, name):
    """Another disk takes all available memory. The stack sees no error, nor loses a member."""
    size = memory.meminfo()["MemTotal"] // 32 // CHUNK * CHUNK
    numbers = range(size // CHUNK)
    stack = STACKS[name](lab, size, flags=CREATE_RESERVE)
    reserved = stack.ramdisks[-1]
    with Direct(stack.path) as device:
        for number in numbers:
            device.write(number * CHUNK, chunk(number))
        with Control() as control:
            clone = lab.adopt_ramdisk(control.clone(
                reserved.index, flags=CLONE_EXPENDABLE | CLONE_NO_FREEZE))
        exhaust(lab)
        assert not clone.query().state & STATE_LOST
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: device.write(number * CHUNK, chunk(1000 + number)),
                          numbers))
        assert clone.query().state & STATE_LOST
        for number in numbers:
            assert device.read(number * CHUNK, CHUNK) == chunk(1000 + number)
    with pytest.raises(OSError) as caught:
        direct.read(clone.path, 0, BLOCK)
    assert caught.value.errno == errno.EIO
    if name == "raid1":
        for ramdisk in stack.ramdisks:
            assert stack.attribute(f"dev-{ramdisk.name}/state") == "in_sync"
            assert stack.attribute(f"dev-{ramdisk.name}/bad_blocks") == ""
            offset = data_offset(stack.path, ramdisk)
            for number in numbers:
                assert direct.read(ramdisk.path, offset + number * CHUNK, CHUNK) == \
                    chunk(1000 + number)
        assert stack.attribute("degraded") == "0"
    assert reserved.query().nospc == 0


def test_reserve_more_than_there_is(unharmed, lab):
    """No trace of the attempt is left, and rxadm prints how much memory there is."""
    size = memory.meminfo()["MemTotal"] // MIB * MIB
    before = state()
    with pytest.raises(OSError) as caught:
        lab.ramdisk(size, overcommit=True, flags=CREATE_RESERVE)
    assert caught.value.errno == errno.ENOSPC
    result = rxadm("create", "--size", f"{size // MIB}M", "--reserve", "--overcommit")
    assert result.returncode == 3 and len(result.stderr.splitlines()) == 1
    assert f"'{size // MIB}M'" in result.stderr and "available" in result.stderr
    assert state() == before

    ramdisk = lab.ramdisk(8 * MIB, flags=CREATE_RESERVE)
    with pytest.raises(OSError) as caught:
        ramdisk.resize(size, RESIZE_OVERCOMMIT)
    assert caught.value.errno == errno.ENOSPC
    query = ramdisk.query()
    assert (query.size, query.mem_used, query.state) == (8 * MIB, 8 * MIB, STATE_RESERVED)
    with Direct(ramdisk.path) as device:
        device.write(4 * MIB, chunk(1))
        assert device.read(4 * MIB, CHUNK) == chunk(1)
    ramdisk.remove()


def test_buffered_writer(patience, unharmed, lab):
    """Through the page cache, as dd and cp write: an error, in time, and no deadlock."""
    ramdisk = lab.ramdisk(4 * memory.meminfo()["MemTotal"], overcommit=True)
    with answers_within(patience):
        result = subprocess.run(["dd", "if=/dev/zero", f"of={ramdisk.path}", "bs=1M",
                                 "conv=fsync"], env=ENVIRONMENT, capture_output=True, text=True,
                                timeout=300, check=False)
    assert result.returncode == 1
    assert "No space left" in result.stderr or "Input/output error" in result.stderr
    os.sync()
    ramdisk.remove()


@contextlib.contextmanager
def much_may_be_dirty():
    """Programs need not wait for writeback before nearly all of the page cache is dirty."""
    setting = Path("/proc/sys/vm/dirty_ratio")
    old = setting.read_text(encoding="ascii")
    setting.write_text("99", encoding="ascii")
    try:
        yield
    finally:
        setting.write_text(old, encoding="ascii")


def dirty_pages():
    info = memory.meminfo()
    return info["Dirty"] + info["Writeback"]


def clean_memory():
    """Memory that programs can get without waiting for a disk."""
    return memory.available() - dirty_pages()


@contextlib.contextmanager
def stuck_disk(lab, size):
    """A disk for which so much memory is dirty, and which writes nothing until release()."""
    with lab.held(size, writes=True) as disk, open(disk.path, "wb", buffering=0) as file:
        for number in range(size // CHUNK):
            assert file.write(chunk(number)) == CHUNK
        assert dirty_pages() > size * 9 // 10
        yield disk
        disk.release()


@pytest.fixture
def stuck(lab):
    with much_may_be_dirty(), \
            stuck_disk(lab, memory.meminfo()["MemTotal"] * 3 // 10 // CHUNK * CHUNK) as disk:
        yield disk


def is_clean_memory_low():
    """About half of the headroom is not dirty."""
    return headroom() // 4 < clean_memory() < headroom() * 3 // 4


def programs_get_memory():
    with mmap.mmap(-1, headroom() // 4) as buffer:
        for offset in range(0, len(buffer), BLOCK):
            buffer[offset] = 1


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        yield executor


def timed_write(device, number):
    """Returns how long it took and the error, if any."""
    begin, error = time.monotonic(), 0
    try:
        device.write(number * CHUNK, chunk(number))
    except OSError as caught:
        error = caught.errno
    return time.monotonic() - begin, error


def write_until_one_waits(pool, device):
    """Returns how many chunks were written, and the next write, which waits for memory."""
    for number in range(memory.meminfo()["MemTotal"] // CHUNK):
        write = pool.submit(timed_write, device, number)
        while not concurrent.futures.wait([write], timeout=0.2).done:
            if is_clean_memory_low():
                return number, write
        assert write.result()[1] == 0
        assert clean_memory() > headroom() // 4, "only dirty pages are left for programs"
    raise AssertionError("no write had to wait")


def fill_until_little_is_clean(device, more):
    """Leave little more clean memory than a write may take; returns the number of chunks."""
    number = 0
    while clean_memory() > headroom() // 2 + more:
        device.write(number * CHUNK, chunk(number))
        number += 1
    return number


def write_beside_a_clone(lab, pool, ramdisk, device):
    """Returns an expendable clone, and the results of write_until_one_waits()."""
    device.write(0, chunk(0))
    with Control() as control:
        clone = lab.adopt_ramdisk(control.clone(ramdisk.index, flags=CLONE_EXPENDABLE |
                                                CLONE_NO_FREEZE))
    return clone, *write_until_one_waits(pool, device)


@contextlib.contextmanager
def connected_over_tcp(path):
    nvme.network()
    with exported(path, *TCP, *ALLOWED) as nqn, connected(nqn) as remote:
        yield remote


@pytest.mark.parametrize("through", ["disk", "crypt", "nvme"])
def test_wait_for_dirty_pages(unharmed, lab, stuck, pool, through):
    """Direct I/O takes no clean page if the rest is dirty. It goes on once that is written."""
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    path = ramdisk.path
    if through == "crypt":
        table = CRYPT.format(ramdisk.path, 4 * GIB // SECTOR)
        path = f"/dev/mapper/{lab.mapped(f'0 {4 * GIB // SECTOR} {table}')}"
    remote = connected_over_tcp(path) if through == "nvme" else contextlib.nullcontext(path)
    with remote as path, Direct(path) as device:
        clone, count, write = write_beside_a_clone(lab, pool, ramdisk, device)
        programs_get_memory()
        assert not write.done()
        stuck.release()
        took, error = write.result(timeout=20)
        assert not error and took < 10
        check(device, count + 1)
    assert ramdisk.query().nospc == 0
    assert not clone.query().state & STATE_LOST


def test_dirty_pages_remain(unharmed, lab, stuck, pool):
    """After 10 s, the write fails. The expendable clone was given up before."""
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    with Direct(ramdisk.path) as device:
        clone, count, write = write_beside_a_clone(lab, pool, ramdisk, device)
        took, error = write.result(timeout=60)
        # To give up the clone frees a few pages, with which a part of the write may succeed.
        while not error:
            count += 1
            took, error = timed_write(device, count)
        assert error == errno.ENOSPC
        assert WAIT - 1 < took < WAIT_BEFORE_GIVING_UP + WAIT + LATE
        assert is_clean_memory_low()
        programs_get_memory()
        check(device, count)
        device.write(0, chunk(0))
    assert ramdisk.query().nospc > 0
    assert clone.query().state & STATE_LOST


def test_reserve_beside_dirty_pages(unharmed, lab, stuck, pool):
    """The memory is there, but not yet clean: wait for it."""
    size = (memory.meminfo()["MemAvailable"] - headroom() - 32 * MIB) // MIB * MIB
    disk = pool.submit(lab.ramdisk, size, overcommit=True, flags=CREATE_RESERVE)
    end = time.monotonic() + 60
    while not is_clean_memory_low():
        assert time.monotonic() < end and not disk.done()
        time.sleep(0.1)
    time.sleep(2)
    assert is_clean_memory_low() and not disk.done()
    stuck.release()
    assert disk.result(timeout=30).query().mem_used == size


def test_own_dirty_pages(unharmed, lab, stuck):
    """A disk does not wait for dirty pages that only its own writes clean."""
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    Path(f"/sys/block/{ramdisk.name}/bdi/min_ratio").write_text("99", encoding="ascii")
    background = Path("/proc/sys/vm/dirty_background_ratio")
    old = background.read_text(encoding="ascii")
    with Direct(ramdisk.path) as device, open(ramdisk.path, "r+b", buffering=0) as file:
        count = fill_until_little_is_clean(device, 8 * MIB)
        background.write_text("98", encoding="ascii")
        try:
            number = 0
            while clean_memory() > headroom() * 3 // 8:
                assert number < count
                file.write(chunk(number))
                number += 1
            begin = time.monotonic()
            device.write(4 * GIB, chunk(1)[:MIB])
            assert time.monotonic() - begin < 4
            assert clean_memory() < headroom() // 2
        finally:
            background.write_text(old, encoding="ascii")
    assert ramdisk.query().nospc == 0


@pytest.mark.parametrize("target", [
    pytest.param("linear {} {}", id="linear"), pytest.param(CRYPT, id="crypt"),
    # The task that writes encrypts, too.
    pytest.param(f"{CRYPT} 2 no_read_workqueue no_write_workqueue", id="crypt-inline")])
def test_dirty_pages_of_stacked_device(unharmed, lab, stuck, target):
    """Writeback through a device on the disk cleans as many pages as it takes: it does not wait."""
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    table = target.format(ramdisk.path, 4 * GIB // SECTOR)
    path = f"/dev/mapper/{lab.mapped(f'0 {GIB // SECTOR} {table}')}"
    with Direct(ramdisk.path) as device:
        count = fill_until_little_is_clean(device, 8 * MIB)
        number = 0
        with open(path, "wb", buffering=0) as file:
            while clean_memory() > headroom() * 3 // 8:
                file.write(chunk(number))
                number += 1
            begin = time.monotonic()
            os.fsync(file.fileno())
            assert time.monotonic() - begin < 5
        check(device, count)
    with Direct(path) as device:
        check(device, number)
    assert ramdisk.query().nospc == 0


def below_loop(lab, kind):
    """Returns the RAM disk, and the device on it."""
    if kind == "thin":
        stack = STACKS["thin"](lab, GIB)
        return stack.ramdisks[0], stack.path
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    if kind == "disk":
        return ramdisk, ramdisk.path
    inline = " 2 no_read_workqueue no_write_workqueue" if kind == "crypt-inline" else ""
    table = CRYPT.format(ramdisk.path, 4 * GIB // SECTOR) + inline
    return ramdisk, f"/dev/mapper/{lab.mapped(f'0 {GIB // SECTOR} {table}')}"


@pytest.mark.parametrize("below, direct_io, is_exempt", [
    ("disk", True, True), ("thin", True, True), ("crypt-inline", True, True),
    # The threads of dm-crypt write copies of the pages.
    ("crypt", True, False), ("crypt", False, True)])
def test_writeback_through_loop(unharmed, lab, stuck, below, direct_io, is_exempt):
    """Writeback passes a loop device, which may make direct I/O of it."""
    ramdisk, path = below_loop(lab, below)
    path = lab.loop_on(path, f"--direct-io={'on' if direct_io else 'off'}")
    filler = lab.ramdisk(8 * GIB, overcommit=True)
    with Direct(filler.path) as device, open(path, "wb", buffering=0) as file:
        fill_until_little_is_clean(device, 8 * MIB)
        number = 0
        while clean_memory() > headroom() * 3 // 8:
            file.write(chunk(number))
            number += 1
        begin, error = time.monotonic(), 0
        try:
            os.fsync(file.fileno())
        except OSError as caught:
            error = caught.errno
        took = time.monotonic() - begin
    print(f"{number} chunks, error {error} after {took:.1f} s")
    if is_exempt:
        assert not error and took < 5 and ramdisk.query().nospc == 0
        with Direct(path) as device:
            check(device, number)
    else:
        assert error in (errno.EIO, errno.ENOSPC) and ramdisk.query().nospc > 0


PR_SET_IO_FLUSHER = 57


@contextlib.contextmanager
def io_flusher():
    """This thread serves a block device."""
    prctl = ctypes.CDLL(None).prctl
    assert not prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    try:
        yield
    finally:
        assert not prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0)


@pytest.mark.parametrize("through", ["flusher", "loop"])
def test_exempt_direct_io(unharmed, lab, stuck, through):
    """Direct I/O of a thread that may be writing back, for which it cannot be told, is exempt."""
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    path = lab.loop_on(ramdisk.path, "--direct-io=on") if through == "loop" else ramdisk.path
    with Direct(ramdisk.path) as device:
        count = fill_until_little_is_clean(device, 8 * MIB)
    writer = io_flusher() if through == "flusher" else contextlib.nullcontext()
    with Direct(path) as device, writer:
        begin = time.monotonic()
        while clean_memory() > headroom() * 3 // 8:
            device.write(count * CHUNK, chunk(count))
            count += 1
        assert time.monotonic() - begin < 5
        check(device, count)
    assert ramdisk.query().nospc == 0


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_journal_beside_dirty_pages(unharmed, lab, fs):
    """Files and journal are flushed in a loop, beside dirty pages of a slow disk: none fails."""
    size = memory.meminfo()["MemTotal"] // 4 // CHUNK * CHUNK
    part = 128 * KIB
    filler = lab.ramdisk(8 * GIB, overcommit=True)
    ramdisk = lab.ramdisk(8 * GIB, overcommit=True)
    run(f"mkfs.{fs}", "-q", ramdisk.path)
    path = os.path.join(lab.mount(ramdisk.path), "file")
    with much_may_be_dirty(), open(SLOW_DISK, "wb", buffering=0) as slow:
        try:
            for offset in range(0, 2 * size, 2 * BLOCK):
                os.pwrite(slow.fileno(), PATTERN[:BLOCK], offset)
            with Direct(filler.path) as device:
                fill_until_little_is_clean(device, 8 * MIB)
            number = 0
            end = time.monotonic() + 20
            with Direct(path, os.O_RDWR | os.O_CREAT) as file:
                while time.monotonic() < end:
                    file.write(number * part, PATTERN[:part])
                    os.fsync(file.fd)
                    number += 1
                    assert clean_memory() > headroom() // 4
                assert is_clean_memory_low() and dirty_pages() > size // 4
                assert number * part > 10 * MIB
            programs_get_memory()
            assert ramdisk.query().nospc == 0
        finally:
            # Otherwise the last close would write the rest.
            run("blkdiscard", "--zeroout", SLOW_DISK)


def test_reload_after_growth(unharmed, lab, kernel_log):
    """A reload needs memory for the old index and for one of the new size, not for a third."""
    share = memory.meminfo()["MemAvailable"] - headroom()
    old, new = (share * part // 100 // SLOT * BLOCK for part in (15, 60))
    ramdisk = lab.ramdisk(old, overcommit=True)
    cache = lab.cache(16 * MIB, ramdisk=ramdisk)
    before = cache.status()
    assert before.metadata > share // 10
    ramdisk.resize(new, RESIZE_OVERCOMMIT)
    dm.replace(cache.name, dm.table(cache.name))
    status = cache.status()
    assert status.total > before.total * 2 and status.used == before.used
    assert not [line for line in kernel_log.lines() if "no memory" in line]


def headroom():
    """The memory that a disk leaves to the rest of the machine."""
    return min(max(memory.meminfo()["MemTotal"] // 8, 32 * MIB), 2 << 30)


@contextlib.contextmanager
def one_buffer(ramdisk):
    """Write 4 KiB at a place, fast: there are many places."""
    with Direct(ramdisk.path) as device, mmap.mmap(-1, BLOCK) as buffer:
        buffer[:] = stamp(1)
        yield device, lambda offset: os.pwritev(device.fd, [buffer], offset)


# The place of the n-th page on a disk of 1 TiB: no two pages have the same.
TIB = 1 << 40
PLACES = {"2M": lambda n: n * 2 * MIB,
          "64K": lambda n: n * 64 * KIB,
          "random": lambda n: n * 0x9E3779B1 * BLOCK % TIB}


@pytest.mark.parametrize("pattern, free", [
    ("2M", "discard"), ("2M", "clear"), ("2M", "remove"), ("64K", "discard"),
    ("random", "discard")])
def test_scattered(unharmed, lab, pattern, free):
    """A page in each 2 MiB takes as much memory for the index. It counts, too, and is freed."""
    total = memory.meminfo()["MemTotal"]
    before = memory.spare()
    place = PLACES[pattern]
    ramdisk = lab.ramdisk(TIB, overcommit=True)
    written = 0
    with one_buffer(ramdisk) as (device, write):
        with pytest.raises(OSError) as caught:
            while written < total // BLOCK:
                write(place(written))
                written += 1
        assert caught.value.errno == errno.ENOSPC
        assert memory.available() > headroom() // 2
        # A write that fails takes no memory. It may get memory that others free meanwhile: a
        # page, and one of the index.
        index = ramdisk.query().mem_index
        more = 0
        for number in range(1000):
            try:
                write(place(written + number))
                more += 1
            except OSError as error:
                assert error.errno == errno.ENOSPC
        print(f"{written} pages, {more} of 1000 more, {index} bytes of index of {total}")
        assert more < 500
        assert ramdisk.query().mem_index <= index + more * BLOCK
        assert ramdisk.query().mem_used == (written + more) * BLOCK
        assert memory.available() > headroom() // 2
        assert device.read(place(written - 1), BLOCK) == stamp(1)
        if free == "discard":
            device.discard(0, TIB)
    if free == "clear":
        ramdisk.clear()
    elif free == "remove":
        ramdisk.remove()
    assert memory.missing(before, total // 50) < total // 50
    if free != "remove":
        assert ramdisk.query().mem_used == 0
        with Direct(ramdisk.path) as device:
            assert device.read(place(written - 1), BLOCK) == bytes(BLOCK)
        ramdisk.remove()


SLOT = 11   # bytes that the index of a cache takes for a block


@pytest.mark.parametrize("pattern", PLACES)
def test_cache_larger_than_memory(patience, unharmed, lab, pattern):
    """It takes the available memory, then bypasses: no read fails, and others have memory."""
    total = memory.meminfo()["MemTotal"]
    place = PLACES[pattern]
    origin = lab.ramdisk(TIB, overcommit=True)
    most = total // BLOCK
    direct.write(origin.path, place(most), stamp(9))
    cache = lab.cache(TIB, origin=origin.path, ramdisk=lab.ramdisk(
        64 * total // MIB * MIB, overcommit=True))
    with Direct(cache.path) as device, mmap.mmap(-1, BLOCK) as buffer, answers_within(patience):
        for number in range(most):
            assert os.preadv(device.fd, [buffer], place(number)) == BLOCK
            if number % 4096 == 0:
                status = cache.status()
                if status.evictions + status.bypasses > 10000:
                    break
        print(f"{number} reads, {status.used} blocks, {status.metadata} bytes of index of "
              f"{total}, {status.counters}")
        assert status.evictions + status.bypasses > 10000 and status.origin_errors == 0
        assert status.used * BLOCK > total // 8
        assert os.preadv(device.fd, [buffer], place(most)) == BLOCK
        assert buffer[:] == stamp(9)
        assert memory.available() > headroom() // 2
    dm.remove(cache.name)
    assert cache.ramdisk.query().mem_used == 0


@pytest.mark.parametrize("share", [0.95, 4], ids=["almost-all", "too-much"])
def test_cache_index_larger_than_memory(patience, unharmed, lab, share):
    """An index that leaves too little memory to others is refused, and is freed completely."""
    memory.settled()
    wanted = int(memory.meminfo()["MemAvailable"] * share)
    ramdisk = lab.ramdisk(wanted // SLOT * BLOCK // MIB * MIB, overcommit=True)
    name = lab.next_name("rxdtest")
    before = state()
    with answers_within(patience):
        for _ in attempts():
            result = run("dmsetup", "create", name, check=False,
                         stdin=f"0 {GIB // SECTOR} rxcache {DISK} {ramdisk.path}\n")
            available = memory.meminfo()["MemAvailable"]
            lab.adopt_mapped(name)
            assert result.returncode and os.strerror(errno.ENOMEM) in result.stderr, \
                f"{wanted} bytes of index: {available} left"
            assert state() == before


@pytest.mark.parametrize("grow", [False, True], ids=["create", "grow"])
def test_directory_larger_than_memory(patience, unharmed, lab, grow):
    """The directory of a disk of many TiB leaves enough memory to others before any write."""
    memory.settled()
    size = min(int(memory.meminfo()["MemAvailable"] * 0.95) // 8 * 2 * MIB, SIZE_MAX)
    ramdisk = lab.ramdisk(CHUNK) if grow else None
    before = state()
    with answers_within(patience):
        for _ in attempts():
            with pytest.raises(OSError) as caught:
                if grow:
                    ramdisk.resize(size, RESIZE_OVERCOMMIT)
                else:
                    lab.ramdisk(size, overcommit=True)
            assert caught.value.errno == errno.ENOMEM
            assert state() == before


def test_next_disk_waits_for_the_last(unharmed, lab):
    """Memory that one disk has just freed is available to writes of the next disk."""
    info = memory.settled()
    usable = info["MemAvailable"] - headroom()
    size = usable - headroom() // 2
    print(f"{size} bytes each time, {usable} usable, {info['AnonPages']} taken by programs, "
          f"{memory.spare(info)} spare")
    assert 2 * size > usable
    for _ in range(4):
        ramdisk = lab.ramdisk(8 << 30, overcommit=True)
        with Direct(ramdisk.path) as device:
            for offset in range(0, size // CHUNK * CHUNK, CHUNK):
                device.write(offset, PATTERN[:CHUNK])
        assert ramdisk.query().nospc == 0
        ramdisk.remove()


@pytest.mark.parametrize("flags", [0, CREATE_RESERVE], ids=["thin", "reserved"])
def test_save_gives_way(unharmed, lab, flags):
    """A write to a disk that is being saved finds no memory: it succeeds, and the save fails."""
    source = lab.ramdisk(64 * MIB, flags=flags)
    direct.write(source.path, 0, stamp(1, 48 * MIB))
    with Direct(source.path) as device, Stalled(source) as save:
        exhaust(lab)
        for offset in range(0, 48 * MIB, MIB):
            device.write(offset, stamp(offset, MIB))
        _, errors = save.process.communicate(timeout=300)
        assert save.process.returncode == 4 and b"memory is short" in errors, errors
    assert [disk["index"] for disk in state()["ramdisks"]][0] == source.index
    assert is_clean_up_done()


def checksum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def stopped_save(source, image, report):
    """A save to a file, which is stopped when its clone is there. It goes on at the end."""
    before = disks()
    with subprocess.Popen([program("rxadm"), "save", source.path, image, "--no-freeze"],
                          env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        try:
            while disks() == before:
                assert process.poll() is None
            process.send_signal(signal.SIGSTOP)
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            _, report["errors"] = process.communicate(timeout=300)
    report["code"] = process.returncode


def test_save_of_reserved_memory(unharmed, lab):
    """The disk can be rewritten during a save to a file, which fails. The old image stays."""
    size = 64 * MIB
    run("mkfs.ext4", "-qF", DISK)
    image = os.path.join(lab.mount(DISK), "image")
    source = lab.ramdisk(size, flags=CREATE_RESERVE)
    rewrite(source.path, 0, size)
    ok("save", source.path, image)
    before, report = checksum(image), {}
    with Direct(source.path) as device:
        with stopped_save(source, image, report):
            exhaust(lab)
            rewrite(source.path, 1000, size)
        assert report["code"] == 4 and "memory is short" in report["errors"], report
        assert len(report["errors"].splitlines()) == 1, report
        for number in range(size // MIB):
            assert device.read(number * MIB, MIB) == stamp(1000 + number, MIB)
    assert source.query().nospc == 0 and source.query().state == STATE_RESERVED
    assert checksum(image) == before
    assert disks()[0] == source.index and is_clean_up_done()
