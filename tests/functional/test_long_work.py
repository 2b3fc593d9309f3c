# SPDX-License-Identifier: GPL-2.0-only
"""Long work on one disk delays neither the control node nor other disks."""

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from unittest import mock

import pytest

from rxdlib import direct
from rxdlib.control import CREATE_RESERVE, RESIZE_FORCE, Control
from rxdlib.direct import BLOCK, MIB, Direct, stamp
from rxdlib.lab import RamDisk
from rxdlib.memory import meminfo, missing, spare
from rxdlib.starved import busy_cpu, starve

# The largest size without overcommit, beside some small disks.
SIZE = meminfo()["MemTotal"] * 55 // 100 // MIB * MIB
IDENTITY = uuid.UUID("5bd4d7fb-9c5a-4b5c-8d7e-0123456789ab").bytes
INDEX = 9
ENOUGH = 10         # rounds of others, during which an operation is held up
HELD = 2, 20        # for how many seconds at least and at most
PATIENCE = 60


class Others:
    """Queries, I/O and short-lived disks beside the long work."""

    def __init__(self, ramdisk):
        self.ramdisk = ramdisk
        self.rounds, self.longest, self.errors = 0, 0, []
        self.after_round = lambda: None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        data = stamp(1)
        try:
            with Control() as control:
                while not self.over.is_set():
                    begun = time.monotonic()
                    assert control.query(self.ramdisk.index).size == self.ramdisk.query().size
                    with Direct(self.ramdisk.path) as device:
                        device.write(0, data)
                        assert device.read(0, BLOCK) == data
                    # sync(2) locks each disk of which there are cached pages.
                    with open(self.ramdisk.path, "r+b", buffering=0) as device:
                        device.write(data)
                        os.sync()
                    # The creation and removal of a disk have waits of their own, such as for RCU.
                    if self.rounds % 8 == 0:
                        index = control.create(MIB)
                        control.resize(index, 2 * MIB)
                        control.remove(index)
                    self.rounds += 1
                    self.longest = max(self.longest, time.monotonic() - begun)
                    self.after_round()
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(repr(error))

    def __enter__(self):
        self.thread.start()
        while self.rounds < 8 and self.thread.is_alive():
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@contextlib.contextmanager
def held_up(others):
    """The next ioctl gets a hundredth of a CPU, until the others have done enough."""
    cpus, ioctl = os.sched_getaffinity(0), fcntl.ioctl
    with busy_cpu(HELD[1]) as busy:
        begun, enough, least = False, 0, 0

        def after_round():
            if others.rounds >= enough and time.monotonic() >= least:
                others.after_round = lambda: None
                # A task that holds a lock for a moment got little time for that, too.
                if others.longest < HELD[1] / 2:
                    others.longest = 0
                busy.kill()

        def slow_ioctl(*args):
            nonlocal begun, enough, least
            if threading.current_thread() is threading.main_thread() and not begun:
                begun = True
                enough, least = others.rounds + ENOUGH, time.monotonic() + HELD[0]
                others.after_round = after_round
                starve()
            return ioctl(*args)

        try:
            with mock.patch("fcntl.ioctl", slow_ioctl):
                yield
        finally:
            busy.kill()
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            os.sched_setaffinity(0, cpus)


@pytest.fixture
def beside(lab):
    """Run a long operation, and require that others make progress.

    If it is held, it is long on any machine, and others must complete while it has not ended.
    """
    ramdisk = lab.ramdisk(MIB, index=0)

    def run(what, function, *args, held=False):
        with Others(ramdisk) as others:
            # One second; or five times the time of a round alone, if the host starves the guest.
            patience = max(1, 5 * others.longest)
            others.longest, rounds, begun = 0, others.rounds, time.monotonic()
            with held_up(others) if held else contextlib.nullcontext():
                result = function(*args)
                took, rounds = time.monotonic() - begun, others.rounds - rounds
        print(f"{what}: {took:.2f} s, {rounds} rounds, longest {others.longest:.2f} s")
        assert not others.errors
        # Even on a slow machine, many other operations must complete during the long one.
        assert rounds > 5 or (took < patience and not held), what
        assert others.longest < max(patience, took / 2), what
        return result
    return run


def fill(ramdisk, size):
    data = stamp(5, 4 * MIB)
    with Direct(ramdisk.path) as device:
        for offset in range(0, size, len(data)):
            device.write(offset, data[:size - offset])


def test_life_of_a_large_disk(lab, beside):
    """The disk is removed, cleared and shrunk; shrunk while it is open and has cached pages."""
    def shrink(ramdisk):
        with open(ramdisk.path, "rb", buffering=0) as device:
            assert device.read(BLOCK) == stamp(5)
            ramdisk.resize(MIB, RESIZE_FORCE)

    size = SIZE // 4
    for what, change in (("clear", RamDisk.clear), ("shrink", shrink),
                         ("remove", RamDisk.remove)):
        ramdisk = lab.ramdisk(size, index=INDEX)
        fill(ramdisk, size)
        beside(what, change, ramdisk)
        if what != "remove":
            assert direct.read(ramdisk.path, 0, MIB) == (
                bytes(MIB) if what == "clear" else stamp(5, MIB))
            ramdisk.remove()


def test_life_of_a_large_reserved_disk(lab, beside):
    """The disk is created, searched, grown, cleared and removed."""
    ramdisk = beside("create", lambda: lab.ramdisk(SIZE // 2, index=INDEX, flags=CREATE_RESERVE),
                     held=True)
    assert ramdisk.query().mem_used == SIZE // 2
    direct.write(ramdisk.path, SIZE // 2 - BLOCK, stamp(1))
    assert beside("shrink in vain", errno_of, ramdisk.resize, MIB, held=True) == errno.ENOTEMPTY
    assert ramdisk.query().mem_used == SIZE // 2
    beside("grow", ramdisk.resize, SIZE, held=True)
    beside("clear", ramdisk.clear, held=True)
    assert direct.read(ramdisk.path, SIZE // 2 - BLOCK, BLOCK) == bytes(BLOCK)
    beside("shrink", ramdisk.resize, SIZE // 2, held=True)
    assert ramdisk.query().mem_used == ramdisk.query().size == SIZE // 2
    beside("remove", ramdisk.remove)


CREATE = """
import errno
import sys
sys.path.insert(0, {folder!r})
from rxdlib.control import Control, CREATE_RESERVE
def until_idle(function, *args):
    while True:
        try:
            return function(*args)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
with Control() as control:
    print(flush=True)
    sys.stdin.readline()
    {action}
    print("done", flush=True)
"""


class Child:
    """Another process that calls an ioctl which takes long, because it is starved until done()."""

    def __init__(self, action):
        self.text = CREATE.format(folder=os.path.dirname(__file__), action=action)
        self.stack = contextlib.ExitStack()
        self.process = self.busy = None

    def __enter__(self):
        self.busy = self.stack.enter_context(busy_cpu(PATIENCE))
        self.process = self.stack.enter_context(subprocess.Popen(
            [sys.executable, "-c", self.text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True))
        self.process.stdout.readline()
        starve(self.process.pid, 15)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def __exit__(self, *_):
        self.busy.kill()
        self.process.kill()
        self.process.communicate()
        self.stack.close()

    def done(self):
        """Wait for its end; return whether the ioctl was completed."""
        self.busy.kill()
        return self.process.communicate(timeout=300)[0] == "done\n"


def free():
    return meminfo()["MemFree"]


def wait_until_filling(before):
    end = time.monotonic() + 60
    while before - free() < 64 * MIB:
        assert time.monotonic() < end
        time.sleep(0.01)


def errno_of(function, *args, **options):
    with pytest.raises(OSError) as caught:
        function(*args, **options)
    return caught.value.errno


def test_what_a_disk_in_the_making_keeps(lab):
    """Number, identity and share of memory are allocated, but the disk is not visible yet."""
    before = free()
    with Control() as control, \
         Child(f"control.create({SIZE}, index={INDEX}, uuid={IDENTITY!r}, "
               "flags=CREATE_RESERVE)") as child:
        wait_until_filling(before)
        assert errno_of(control.create, MIB, index=INDEX) == errno.EEXIST
        assert errno_of(control.create, MIB, uuid=IDENTITY) == errno.EEXIST
        assert errno_of(control.create, SIZE) == errno.ERANGE
        for function in control.query, control.remove, control.clear:
            assert errno_of(function, INDEX) == errno.ENODEV
        assert errno_of(control.resize, INDEX, MIB) == errno.ENODEV
        assert control.query_all() == []
        assert not os.path.exists(f"/dev/rxd{INDEX}")
        # All of this happened while it was being created.
        assert child.process.poll() is None
        assert child.done()
        ramdisk = lab.adopt_ramdisk(INDEX)
        assert ramdisk.query().mem_used == SIZE


def test_killed_while_reserving(lab):
    """If the creator is killed, no part of the disk is left."""
    memory = spare()
    before = free()
    with Child(f"control.create({SIZE}, index={INDEX}, uuid={IDENTITY!r}, "
               "flags=CREATE_RESERVE)") as child:
        wait_until_filling(before)
        child.process.send_signal(signal.SIGKILL)
        assert not child.done()
    with Control() as control:
        assert control.query_all() == []
    # Number, identity and share are free again.
    lab.ramdisk(SIZE, index=INDEX, uuid=IDENTITY).remove()
    assert missing(memory, 32 * MIB) < 32 * MIB


def test_killed_while_growing(lab):
    """If the growth is killed, the disk is unchanged."""
    ramdisk = lab.ramdisk(MIB, index=INDEX, flags=CREATE_RESERVE)
    direct.write(ramdisk.path, 0, stamp(1))
    memory, before, free_before = spare(), ramdisk.query(), free()
    with Child(f"control.resize({INDEX}, {SIZE})") as child:
        wait_until_filling(free_before)
        # The disk can be queried, written and read meanwhile.
        assert ramdisk.query().size == MIB
        direct.write(ramdisk.path, 0, stamp(2))
        assert child.process.poll() is None
        child.process.send_signal(signal.SIGKILL)
        assert not child.done()
    after = ramdisk.query()
    assert after.size == MIB == after.mem_used
    assert (after.mem_limit, after.mem_index, after.state) == \
        (before.mem_limit, before.mem_index, before.state)
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(2)
    lab.ramdisk(SIZE).remove()
    assert missing(memory, 32 * MIB) < 32 * MIB


def wait_until_shut(ramdisk):
    """The attempt to open may itself keep the other operation out."""
    end = time.monotonic() + 60
    while True:
        try:
            os.close(os.open(ramdisk.path, os.O_RDONLY))
        except OSError as error:
            assert error.errno == errno.EBUSY
            return
        assert time.monotonic() < end
        time.sleep(0.01)


def test_killed_while_clearing(lab):
    """Zeroing of reserved memory ends when the caller is killed."""
    ramdisk = lab.ramdisk(SIZE, index=INDEX, flags=CREATE_RESERVE)
    direct.write(ramdisk.path, SIZE - BLOCK, stamp(1))
    with Child(f"until_idle(control.clear, {INDEX})") as child:
        wait_until_shut(ramdisk)
        child.process.send_signal(signal.SIGKILL)
        assert not child.done()
    kept = direct.read(ramdisk.path, SIZE - BLOCK, BLOCK) == stamp(1)
    assert kept
    ramdisk.clear()
    assert direct.read(ramdisk.path, SIZE - BLOCK, BLOCK) == bytes(BLOCK)


def test_killed_while_shrinking(lab):
    """The search ends when the caller is killed; the disk keeps its size."""
    ramdisk = lab.ramdisk(SIZE, index=INDEX, flags=CREATE_RESERVE)
    with Child(f"until_idle(control.resize, {INDEX}, {MIB})") as child:
        wait_until_shut(ramdisk)
        child.process.send_signal(signal.SIGKILL)
        assert not child.done()
    assert ramdisk.query().size == SIZE == ramdisk.query().mem_used
    ramdisk.resize(MIB)


def test_operations_on_one_disk(lab):
    """A second operation during the removal finds no disk; nothing is done twice."""
    allowed = {errno.ENODEV, errno.EBUSY}
    wrong, over = [], threading.Event()

    def worker(operation):
        with Control() as control:
            while not over.is_set():
                try:
                    operation(control)
                except OSError as error:
                    if error.errno not in allowed | {errno.EEXIST}:
                        wrong.append(str(error))

    operations = (lambda control: control.create(MIB, index=INDEX, uuid=IDENTITY),
                  lambda control: control.remove(INDEX),
                  lambda control: control.resize(INDEX, 2 * MIB, RESIZE_FORCE),
                  lambda control: control.clear(INDEX),
                  lambda control: control.query(INDEX))
    threads = [threading.Thread(target=worker, args=(operation,)) for operation in operations]
    for thread in threads:
        thread.start()
    time.sleep(8)
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong
    with Control() as control:
        assert {device.index for device in control.query_all()} <= {INDEX}
        if control.query_all():
            control.remove(INDEX)
    # The share was returned as often as it was taken.
    lab.ramdisk(meminfo()["MemTotal"] * 70 // 100 // MIB * MIB).remove()
