# SPDX-License-Identifier: GPL-2.0-only
"""Ways to copy, parallel copies, and what they evict from the page cache."""

import mmap
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

from conftest import TOP
from rxbench import cli
from rxbench.system import machine, pagecache, together
from rxbench.system.errors import BadInput, BenchError
from rxbench.system.undo import Undo
from rxbench.tools import copying
from rxbench.workloads import copy

pytestmark = pytest.mark.machine
MIB = 1 << 20
SIZE = MIB + 264 * 1024
WAYS = {way.name: way for way in copying.ways()}


@pytest.fixture
def room():
    """A directory on a disk, because a tmpfs is always in memory."""
    with tempfile.TemporaryDirectory(prefix="rxbench-test-", dir="/var/tmp") as path:
        yield path


def written(path, size=SIZE):
    data = os.urandom(size)
    with open(path, "wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    return data


def forget(path, offset=0, length=0):
    """Drop clean pages of a file."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), offset, length, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("name", WAYS)
def test_a_way_copies(room, name):
    data = written(f"{room}/source")
    apart = WAYS[name].copy(f"{room}/source", f"{room}/copy")
    with open(f"{room}/copy", "rb") as file:
        found = file.read()
    assert len(found) == SIZE
    assert (found == data) == WAYS[name].copies == (name != copying.URING)
    assert (apart is not None) == (name == copying.URING)


@pytest.mark.parametrize("name, advice", [("sequential", mmap.MADV_SEQUENTIAL), ("populate", 22)])
def test_windows_are_advised(room, monkeypatch, name, advice):
    """256 KiB at a time, the last one as long as the rest."""
    windows, advised = [], []

    class Seen(mmap.mmap):
        def __new__(cls, fd, length, **options):
            windows.append((options["offset"], length))
            return super().__new__(cls, fd, length, **options)

        def madvise(self, *args):
            advised.append(args)
            return super().madvise(*args)

    written(f"{room}/source")
    monkeypatch.setattr(mmap, "mmap", Seen)
    WAYS[f"mmap-256K-{name}"].copy(f"{room}/source", f"{room}/copy")
    assert windows == [(number << 18, min(1 << 18, SIZE - (number << 18))) for number in range(6)]
    assert advised == [(advice,)] * 6


def test_what_is_resident(room, monkeypatch):
    path = f"{room}/file"
    written(path, 8 * MIB)
    assert pagecache.resident(path) == 8 * MIB
    forget(path, 0, 2 * MIB)
    assert pagecache.resident(path) == 6 * MIB
    monkeypatch.setattr(pagecache, "WINDOW", MIB)
    assert pagecache.resident(path) == 6 * MIB
    forget(path)
    assert pagecache.resident(path) == 0
    with open(f"{room}/empty", "wb") as file:
        file.write(b"")
    assert pagecache.resident(f"{room}/empty") == 0
    written(path, 10)
    assert pagecache.resident(path) == mmap.PAGESIZE


def test_together(tmp_path):
    """Each call waits until all of them have begun."""
    def meet():
        (tmp_path / str(os.getpid())).touch()
        deadline = time.monotonic() + 60
        while len(os.listdir(tmp_path)) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return os.getsid(0)

    sessions = together.run([meet] * 4)
    assert len(set(sessions)) == 4 and os.getsid(0) not in sessions


def test_a_failure_ends_the_others(monkeypatch):
    def fail():
        raise BenchError("it is broken")

    def fork(real=os.fork):
        children.append(real())
        return children[-1]

    children = []
    monkeypatch.setattr(os, "fork", fork)
    start = time.monotonic()
    with pytest.raises(BenchError, match="^it is broken$"):
        together.run([fail, lambda: time.sleep(60)])
    with pytest.raises(BenchError, match="ended with -9"):
        together.run([lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: time.sleep(60)])
    assert time.monotonic() - start < 30
    assert len(children) == 4
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


# A number of seconds for which no other program sleeps.
NAP = f"61.{os.getpid()}"


def test_a_signal_ends_all():
    """The signal also ends the program that each of them has started."""
    text = textwrap.dedent("""\
        import sys
        sys.path.insert(0, sys.argv[1])
        from rxbench.system import command, together, undo
        undo.catch_signals()
        print(flush=True)
        try:
            together.run([lambda: command.run("sleep", sys.argv[2])] * 3)
        except undo.Interrupted as interrupted:
            sys.exit(interrupted.signum)
        """)
    with subprocess.Popen([sys.executable, "-B", "-c", text, os.path.join(TOP, "utils/rxbench"),
                           NAP], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        deadline = time.monotonic() + 30
        while sleepers() < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == signal.SIGTERM
    assert sleepers() == 0


def sleepers():
    """Return the number of programs that sleep as the test above makes them do."""
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        found += machine.read(f"/proc/{name}/cmdline").startswith("sleep\0" + NAP)
    return found


def planned(room, monkeypatch, *args):
    """The plan of a run in a directory; the caches of the machine are not dropped."""
    monkeypatch.setattr(machine, "drop_caches", lambda: None)
    return copy.plan(cli.parser().parse_args(["copy", room, "--size", "1m", *args]))


def measured(plan, case="cold"):
    """The metrics of each way."""
    found = {}
    with Undo(pytest.fail) as undo:
        plan.set_up(undo)
        for subject in plan.subjects:
            with plan.open(subject, plan.rounds[0], 0) as measure:
                found[subject.name] = measure(
                    next(each for each in plan.cases() if each.name == case))["metrics"]
    return found


def test_at_once(room, monkeypatch):
    plan = planned(room, monkeypatch, "--jobs", "3", "--ways", "cp,direct-1M,direct-uring")
    assert [case.title for case in plan.cases()] == ["cold, 3 at once", "warm, 3 at once"]
    found = measured(plan, "warm")
    for name, metrics in found.items():
        assert metrics["mb_s"] == pytest.approx(3 * MIB / 1e6 / metrics["real_s"])
        assert ("cpu_s_gb" in metrics) == (name != "direct-uring")
    # The kernel may reclaim any page meanwhile.
    assert found["cp"]["cached_mb"] == pytest.approx(6 * MIB / 1e6, rel=0.02)
    for name in ("direct-1M", "direct-uring"):
        assert found[name]["cached_mb"] == pytest.approx(3 * MIB / 1e6, rel=0.02)
    assert "pushed_percent" not in found["cp"] and os.listdir(room) == []


def test_what_is_pushed_out(room, monkeypatch):
    """One way evicts half of the witness, and the other evicts nothing."""
    def half(source, target):
        WAYS["cp"].copy(source, target)
        forget(os.path.join(os.path.dirname(source), copy.WITNESS), 0, 4 * MIB)

    ways = [WAYS["cp"], copying.Way("half", "half", half)]
    monkeypatch.setattr(copying, "ways", lambda: ways)
    plan = planned(room, monkeypatch, "--witness", "8m")
    assert plan.metrics[-1].name == "pushed_percent"
    found = measured(plan)
    assert found["cp"]["pushed_percent"] == pytest.approx(0, abs=1)
    assert found["half"]["pushed_percent"] == pytest.approx(50, abs=1)


def test_a_witness_that_does_not_stay(room, monkeypatch):
    plan = planned(room, monkeypatch, "--witness", "2m", "--ways", "cp")
    monkeypatch.setattr(pagecache, "resident", lambda path: MIB)
    with pytest.raises(BenchError, match="--witness 2097152: only 1048576 bytes of it stay in"):
        measured(plan)


def test_a_copy_that_differs(room, monkeypatch):
    """The last of several parallel copies differs."""
    def damage(source, target):
        WAYS["cp"].copy(source, target)
        if target.endswith(".1"):
            with open(target, "r+b") as file:
                file.write(b"damage")

    monkeypatch.setattr(copying, "ways", lambda: [copying.Way("x", "x", damage)])
    with pytest.raises(BenchError, match="x: the copy differs"):
        measured(planned(room, monkeypatch, "--jobs", "2"))


def test_what_copies_nothing_does_not_rank(room, monkeypatch):
    monkeypatch.setattr(machine, "takes_io_uring", lambda: True)
    ranks = {subject.name: subject.ranks for subject in planned(room, monkeypatch).subjects}
    assert [name for name, does in ranks.items() if not does] == ["direct-uring"]
    assert ranks["cp"]


def test_without_io_uring(room, monkeypatch):
    monkeypatch.setattr(machine, "takes_io_uring", lambda: False)
    plan = planned(room, monkeypatch)
    assert "direct-uring" not in [subject.name for subject in plan.subjects]
    assert any("io_uring cannot be used" in note and "direct-uring" in note for note in plan.notes)
    with pytest.raises(BadInput, match="--ways direct-uring: io_uring cannot be used"):
        planned(room, monkeypatch, "--ways", "cp,direct-uring")


@pytest.mark.parametrize("args, text", [
    (["--jobs", "0"], "--jobs 0: must be from 1 to 512"),
    (["--jobs", "513"], "--jobs 513: must be from 1 to 512"),
    (["--jobs", "500", "--size", "1t"], "needs .* of free space"),
    (["--witness", "900t"], "needs .* of free space"),
])
def test_refused(room, monkeypatch, args, text):
    with pytest.raises(BadInput, match=text):
        planned(room, monkeypatch, *args)
