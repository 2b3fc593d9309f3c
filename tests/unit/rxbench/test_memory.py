# SPDX-License-Identifier: GPL-2.0-only
"""The workload memory: its plan, its arithmetic, and what it refuses."""

import os

import pytest

from rxbench import cli
from rxbench.memory import ground, ways, works
from rxbench.peers import Missing
from rxbench.report import document, markdown, text
from rxbench.run.runner import Outcome
from rxbench.system import command, devices, guard, machine
from rxbench.system.errors import BadInput, BenchError
from rxbench.workloads import memory

from conftest import MACHINE

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture(autouse=True)
def any_machine(monkeypatch):
    """A machine of 1 GiB that has everything, and whose disk is /dev/disk."""
    for each in ("need_root", "need_tools", "need_space"):
        monkeypatch.setattr(machine, each, lambda *_args: None)
    monkeypatch.setattr(machine, "fio_version", lambda: "fio-3.39")
    monkeypatch.setattr(machine, "meminfo",
                        lambda key: {"MemAvailable": GIB + 5 * MIB, "MemTotal": 5 * GIB // 4}[key])
    monkeypatch.setattr(devices, "need_rxd", lambda: None)
    monkeypatch.setattr(guard, "need_free_device", lambda *_args: None)
    for way in ways.ALL:
        monkeypatch.setitem(way.__dict__, "need", lambda: None)


def planned(*args):
    made = memory.plan(cli.parser().parse_args(["memory", "--disk", "/dev/disk", *args]))
    made.repeats = 3
    return made


def test_all_ways_in_turn():
    plan = planned()
    names = [way.name for way in ways.ALL]
    assert [subject.name for subject in plan.subjects] == names
    assert [case.name for case in plan.cases()] == [
        "0.5-zipf", "2-zipf", "0.5-zipf-copy", "2-zipf-copy", "0.5-zipf-direct", "2-zipf-direct",
        "0.5-tree"]
    assert plan.rounds[0].subjects == tuple(names)
    # A RAM disk cannot hold twice the memory.
    assert plan.rounds[1].subjects == tuple(names[:-1])
    steps = [(each.cases[0].name, subject.name) for each, subject in plan.steps(1)]
    assert steps[:3] == [("0.5-zipf", "low"), ("0.5-zipf", "rxcache"), ("0.5-zipf", "dm-cache")]
    assert plan.settings["memory"] == GIB and plan.settings["cache"] == 768 * MIB
    assert plan.settings["sets"] == {"0.5": 512 * MIB, "2": 2 * GIB}
    assert "Left out: tree after a backup, 2 x: larger than the memory." in plan.notes
    assert [metric.name for metric in plan.metrics] == ["disk_reads", "saved_percent", "iops",
                                                        "lat_p99_us", "copy_mb_s", "real_s"]


def test_only_some():
    plan = planned("--ways", "rxcache,pagecache", "--works", "zipf-direct", "--sets", "0.25",
                   "--seconds", "3", "--memory", "256m")
    assert [subject.name for subject in plan.subjects] == ["pagecache", "rxcache"]
    assert [case.name for case in plan.cases()] == ["0.25-zipf-direct"]
    assert plan.settings["sets"] == {"0.25": 64 * MIB}
    assert plan.settings["copied"] == 0
    assert planned("--works", "tree,zipf", "--memory", "256m").settings["copied"] == 768 * MIB
    assert any("the page cache can use more memory" in note for note in plan.notes)
    assert [metric.name for metric in plan.metrics] == ["disk_reads", "saved_percent", "iops",
                                                        "lat_p99_us"]


def test_what_is_missing_is_left_out(monkeypatch):
    def missing():
        raise Missing("this kernel has no module bcache")
    way = next(way for way in ways.ALL if way.name == "bcache")
    monkeypatch.setitem(way.__dict__, "need", missing)
    plan = planned()
    assert "bcache" not in [subject.name for subject in plan.subjects]
    assert "Left out: bcache, write-through: this kernel has no module bcache." in plan.notes
    with pytest.raises(BadInput, match="--ways bcache: this kernel has no module bcache"):
        planned("--ways", "pagecache,bcache")


@pytest.mark.parametrize("args, names", [
    (["--ways", "magic"], ["--ways magic", "pagecache, low, rxcache"]),
    (["--ways", "low,low"], ["--ways low", "twice"]),
    (["--ways", ""], ["--ways", "must be one of"]),
    (["--works", "pgbanch"], ["--works pgbanch", "zipf, zipf-copy"]),
    (["--works", "tree", "--sets", "2"], ["--works tree --sets 2", "nothing is left"]),
    (["--sets", "0"], ["--sets 0", "from 0.01 to 16"]),
    (["--sets", "17"], ["--sets 17", "from 0.01 to 16"]),
    (["--sets", "nan"], ["--sets nan", "from 0.01 to 16"]),
    (["--sets", "half"], ["--sets half", "from 0.01 to 16"]),
    (["--sets", "2,2.0"], ["--sets 2.0", "twice"]),
    (["--sets", "0.01"], ["--sets 0.01", "10 MiB", "16 MiB or more"]),
    (["--seconds", "0"], ["--seconds 0", "1 or more"]),
    (["--memory", "1m"], ["--memory 1048576", "64 MiB"]),
    (["--memory", "100000k"], ["--memory 102400000", "whole MiB"]),
    (["--memory", "2g"], ["2 GiB of free memory", "1.0 GiB"]),
    (["--ways", "ramdisk", "--sets", "2"], ["--ways ramdisk", "--sets 2", "nothing is left"]),
    (["--sets", "0.5,0.5000001"], ["--sets 0.5000001", "twice"]),
])
def test_bad_input(args, names):
    with pytest.raises(BadInput) as refused:
        planned(*args)
    assert "\n" not in str(refused.value)
    for name in names:
        assert name in str(refused.value)


def test_parts_of_the_disk():
    """One part for all sets of a kind, and three times the memory to copy."""
    sizes = {0.5: 512 * MIB, 2.0: 2 * GIB}
    parts = memory.parts(GIB, works.ALL, sizes)
    assert parts == {"set": ground.room(2 * GIB), "tree": ground.room(512 * MIB), "copy": 3 * GIB}
    assert ground.total(parts) == sum(parts.values()) + 8192
    assert ground.room(512 * MIB) % MIB == 0 and ground.room(512 * MIB) >= 1.06 * 512 * MIB


def test_small_machines(monkeypatch):
    """rxd leaves an eighth to others; a cache without memory is left out."""
    assert memory.kept(1 << 40) == (2 << 30) + memory.PROGRAMS
    monkeypatch.setattr(machine, "meminfo",
                        lambda key: {"MemAvailable": 330 * MIB, "MemTotal": 480 * MIB}[key])
    with pytest.raises(BadInput, match="330 MiB of memory available: a RAM disk of 240 MiB leaves "
                                       "90 MiB, 124 MiB are needed; give a smaller --memory"):
        planned()
    assert planned("--memory", "240m").settings["cache"] == 180 * MIB


def test_pieces_follow_each_other():
    pieces = [("/dev/a", 0, 8192), ("/dev/b", MIB, 4 * MIB)]
    assert ground.table(pieces) == "0 16 linear /dev/a 0\n16 8192 linear /dev/b 2048\n"


@pytest.mark.parametrize("count, of, left, saved", [
    (1000, 1000, 1000.0, 0.0), (250, 1000, 250.0, 75.0), (0, 5000, 1.0, 100.0),
    (3, 50000, 1.0, 99.994), (1500, 1000, 1500.0, -50.0)])
def test_reads_saved(count, of, left, saved):
    found = works.reads(count, of, real_s=2.0)
    assert found["disk_reads"] == pytest.approx(left)
    assert found["saved_percent"] == pytest.approx(saved) and found["real_s"] == 2.0


@pytest.mark.parametrize("passes, count", [
    ([100, 0, 0], 2), ([100, 96], 2), ([100, 90, 80, 0], 4), ([0], 1),
    ([1000 * 0.9 ** turn for turn in range(25)], 20)])
def test_warm_until_nothing_changes(monkeypatch, passes, count):
    """The bytes that each pass reads from the disk, and the number of passes."""
    done = []
    monkeypatch.setattr(ground, "counters", lambda _device: {"bytes": sum(done)})
    works.warm(ways.Stand("/", "/dev/copy", "/dev/set"),
               lambda: done.append(passes[len(done)]))
    assert len(done) == count


def test_hot_blocks_are_the_same_in_each_run(monkeypatch):
    """The order differs between runs, but the hot blocks are those that were warmed."""
    runs = []

    def run(shared, _jobs, **_how):
        runs.append(shared)
        raise BenchError("enough")
    monkeypatch.setattr(works.fio, "run", run)
    for repeat in range(2):
        for turn in (1, 2):
            with pytest.raises(BenchError):
                works.ALL[0]._run("/set/data", GIB, 5, 2 * repeat + turn)
    assert [each["randseed"] for each in runs] == [1, 2, 3, 4]
    assert {each["random_distribution"] for each in runs} == {"zipf:0.99:0.5"}
    assert {each["direct"] for each in runs} == {0}


def test_programs_in_a_control_group(tmp_path):
    """Programs join the group before they begin, and no others do."""
    procs = tmp_path / "cgroup.procs"
    with command.within(str(procs)):
        said, _errors = command.run("sh", "-c", "echo $$")
    assert procs.read_text() == said
    procs.unlink()
    with command.within(None):
        command.run("true")
    command.run("true")
    assert not procs.exists()


def test_meanwhile(tmp_path):
    """The program ends with the block; if it ends before, this is an error."""
    with command.meanwhile("sh", "-c", 'echo $$ >"$0"; while sleep 0.1; do :; done',
                           str(tmp_path / "pid")):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            pass
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(BenchError, match="sh: exited too early, with exit code 3"):
        with command.meanwhile("sh", "-c", "exit 3"):
            command.run("sleep", "0.5")


def test_its_table():
    """Saved reads are beside the remaining ones; Markdown has requests and latency, too."""
    plan, outcome = planned("--works", "zipf", "--sets", "0.5"), Outcome(seconds=1.0)
    for repeat in range(3):
        for rank, subject in enumerate(plan.subjects):
            outcome.results.append({
                "case": "0.5-zipf", "subject": subject.name, "repeat": repeat, "order": 0,
                "metrics": {**works.reads(1 + rank * 100, 1000), "iops": 1e4 / (1 + rank),
                            "lat_p99_us": 100.0 * (rank + 1)}})
    made = document.make("memory", ["rxbench", "memory"], "2026-01-01T00:00:00+0000",
                         {**MACHINE, "emulated": True},
                         ["the CPU is emulated in software (QEMU TCG)"], plan, outcome)
    assert "page cache alone is best" in made["verdicts"][0]["text"]
    shown = "\n".join(text.render(made))
    assert "disk reads per 1,000  saved %" in shown and "emulated" in shown
    tables = "\n".join(markdown.render([made]))
    assert "| Zipf reads, buffered, 0.5 x | page cache alone | 1.00 | 99.9 | 10,000 |" in tables
    assert "emulated" in tables
