# SPDX-License-Identifier: GPL-2.0-only
"""The workload memory: its plan, its arithmetic, and what it refuses."""

import math
import os
import re
import signal

import pytest

from rxbench import cli
from rxbench.memory import ground, nvme, sets, ways, works
from rxbench.peers import Missing
from rxbench.report import document, markdown, text
from rxbench.run.runner import Outcome
from rxbench.system import command, devices, guard, machine
from rxbench.system.errors import BadInput, BenchError
from rxbench.system.undo import Undo
from rxbench.tools import postgres
from rxbench.workloads import memory

from conftest import MACHINE, TOP

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
    for each in (*ways.ALL, *works.ALL):
        monkeypatch.setitem(each.__dict__, "need", lambda: None)


def planned(*args):
    made = memory.plan(cli.parser().parse_args(["memory", "--disk", "/dev/disk", *args]))
    made.repeats = 3
    return made


def test_all_ways_in_turn():
    plan = planned()
    names = [way.name for way in ways.ALL]
    assert [subject.name for subject in plan.subjects] == names
    assert [case.name for case in plan.cases()] == [
        "0.5-zipf", "0.5-nvme-buffered", "0.5-zipf-copy",
        "2-zipf", "2-nvme-buffered", "2-zipf-copy",
        "0.5-zipf-direct", "0.5-nvme", "2-zipf-direct", "2-nvme",
        "0.5-pgbench-select", "0.5-pgbench-tpcb", "2-pgbench-select", "2-pgbench-tpcb",
        "0.5-tree"]
    assert plan.rounds[0].subjects == tuple(names)
    # A RAM disk cannot hold twice the memory.
    assert plan.rounds[1].subjects == tuple(names[:-1])
    steps = [(each.cases[0].name, subject.name) for each, subject in plan.steps(1)]
    assert steps[:3] == [("0.5-zipf", "low"), ("0.5-zipf", "pagecache"), ("0.5-zipf", "ramdisk")]
    assert plan.settings["memory"] == GIB and plan.settings["cache"] == 768 * MIB
    assert plan.settings["sets"] == {"0.5": 512 * MIB, "2": 2 * GIB}
    assert "Left out: tree after a backup, 2 x: larger than the memory." in plan.notes
    assert [metric.name for metric in plan.metrics] == [
        "disk_reads", "saved_percent", "iops", "lat_p99_us", "copy_mb_s", "tps", "real_s"]


def documented():
    """The minutes of each row in the table for make bench-memory."""
    with open(os.path.join(TOP, "tests/bench/README.rst"), encoding="utf-8") as file:
        table = file.read().partition("workloads                             minutes\n")[2]
    rows = table.split("\n\n")[0].splitlines()
    return {row.split()[0]: int(row.split()[1]) for row in rows if not row.startswith("=")}


def bench_memory(name):
    """A setting of tests/bench/memory."""
    with open(os.path.join(TOP, "tests/bench/memory"), encoding="utf-8") as file:
        return re.search(rf'^{name}="?([^"\n]+)"?$', file.read(), re.MULTILINE)[1]


def test_minutes_of_each_work(monkeypatch):
    """The table has those of the plan, and a piece of make bench-memory ends before its limit."""
    monkeypatch.setattr(nvme, "need_module", lambda _name: None)
    rows = documented()
    assert {name for name in rows if "," not in name} == {work.name for work in works.ALL}
    for name, minutes in rows.items():
        plan = planned("--memory", bench_memory("memory"), "--seconds", "10", "--works", name)
        assert math.ceil(plan.seconds() * plan.repeats / 60) == minutes, name
        # Half the memory fits into a RAM disk, whatever is stored beside the set.
        assert not [note for note in plan.notes if "RAM disk" in note and ", 0.5 x" in note]
    pieces = bench_memory("pieces").split()
    assert max(rows[name] for name in pieces) < int(bench_memory("piece_seconds")) / 60 <= 100
    assert sum(rows[name] for name in pieces) < int(bench_memory("seconds")) / 60 <= 240
    assert sorted(",".join(pieces).split(",")) == sorted(work.name for work in works.ALL)


def test_hours_of_all(monkeypatch):
    """The manual says how long everything takes."""
    monkeypatch.setattr(nvme, "need_module", lambda _name: None)
    monkeypatch.setattr(machine, "meminfo", lambda _key: 64 * GIB)
    with open(os.path.join(TOP, "utils/rxbench/rxbench.1.scd"), encoding="utf-8") as file:
        page = " ".join(file.read().split())
    found = re.findall(r"([\d.]+) hours with (\d+) GiB", page)
    assert len(found) == 3
    for hours, gib in found:
        plan = planned("--memory", f"{gib}g")
        assert f"{plan.seconds() * plan.repeats / 3600:.1f}" == hours


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


def test_works_without_their_programs_are_left_out(monkeypatch, tmp_path):
    """A note says what is missing; if nothing else is requested, this is refused."""
    for work in works.ALL:
        monkeypatch.delitem(work.__dict__, "need")

    def missing(name, _hint=None):
        raise Missing(f"this kernel has no module {name}")
    monkeypatch.setattr(nvme, "need_module", missing)
    monkeypatch.setattr(postgres, "PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = planned("--sets", "0.5")
    assert [case.name for case in plan.cases()] == ["0.5-zipf", "0.5-zipf-copy", "0.5-zipf-direct",
                                                    "0.5-tree"]
    assert ("Left out: NVMe export, target buffered: this kernel has no module nvmet."
            in plan.notes)
    assert any(note.startswith("Left out: PostgreSQL, TPC-B: no folder in PATH")
               and note.endswith("has all of postgres, initdb, pgbench, psql.")
               for note in plan.notes)
    assert "Left out: NVMe export, target with O_DIRECT: this kernel has no module nvmet." in \
        planned("--works", "nvme,zipf").notes
    with pytest.raises(BadInput, match="--works nvme,nvme-buffered: this kernel has no module "
                                       "nvmet$"):
        planned("--works", "nvme,nvme-buffered")


def test_transport(monkeypatch):
    """The loop where this kernel has it, or TCP; the reason names all that is missing."""
    there = {"nvmet", "nvmet-tcp", "nvme-tcp", "nvme-loop"}

    def need(name):
        if name not in there:
            raise Missing(f"this kernel has no module {name}")
    monkeypatch.setattr(nvme, "need_module", need)
    assert nvme.transport().name == "loop"
    there.remove("nvme-loop")
    assert nvme.transport().name == "tcp"
    there.remove("nvme-tcp")
    with pytest.raises(Missing, match="no module nvme-loop and this kernel has no module nvme-tcp"):
        nvme.transport()
    assert nvme.controller("instance=3,cntlid=1\n") == "nvme3"
    with pytest.raises(BenchError, match="no instance in 'cntlid'"):
        nvme.controller("cntlid\n")


def test_works_of_one_set_share_what_is_warm(monkeypatch):
    """A way is set up and warmed once for all buffered works of a set, and once for the others."""
    plan = planned("--works", "zipf,zipf-copy,zipf-direct", "--sets", "0.5", "--ways", "pagecache")
    assert [[case.name for case in each.cases] for each in plan.rounds] == [
        ["0.5-zipf", "0.5-zipf-copy"], ["0.5-zipf-direct"]]
    done = []
    made = plan.open.__self__
    made.undo = Undo(done.append)
    stand = ways.Stand("/set", "/dev/copy", "/dev/set", made.undo)
    monkeypatch.setattr(machine, "drop_caches", lambda: done.append("drop"))
    monkeypatch.setitem(made.ways["pagecache"].__dict__, "open",
                        lambda _undo, task: done.append((task.part, task.copies)) or stand)
    monkeypatch.setattr(works, "warm", lambda _stand, once, size: once() or done.append(size))
    monkeypatch.setattr(sets.Data, "read", lambda *args: done.append(args[-1]))
    monkeypatch.setattr(works.Zipf, "measure", lambda work, *_args: done.append(work.name))
    for each, subject in plan.steps(0):
        with plan.open(subject, each, 0) as measure:
            for case in each.cases:
                measure(case)
    assert done == ["drop", ("set", True), "drop", False, 512 * MIB, "zipf", "zipf-copy",
                    "drop", ("set", False), "drop", True, 512 * MIB, "zipf-direct"]


@pytest.mark.parametrize("args, names", [
    (["--ways", "magic"], ["--ways magic", "pagecache, low, rxcache"]),
    (["--ways", "low,low"], ["--ways low", "twice"]),
    (["--ways", ""], ["--ways", "must be one of"]),
    (["--works", "pgbanch"], ["--works pgbanch", "zipf, nvme-buffered"]),
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
    assert parts == {"set": ground.room(2 * GIB), "tree": ground.room(512 * MIB), "copy": 3 * GIB,
                     "postgres-0.5": ground.room(512 * MIB) + sets.LOGS,
                     "postgres-2": ground.room(2 * GIB) + sets.LOGS}
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


@pytest.mark.parametrize("direct", [False, True])
def test_a_disk_that_the_page_cache_would_have_is_refused(monkeypatch, tmp_path, direct):
    """A loop device without direct I/O caches the disk in the memory that is measured."""
    monkeypatch.setattr(devices, "loop", lambda _undo, _path: "/dev/loop0")
    monkeypatch.setattr(devices, "loop_is_direct", lambda _device: direct)
    made = memory.Memory(cli.parser().parse_args(["memory", "--dir", str(tmp_path)]), [], GIB)
    made.ground = ground.Ground({})
    with Undo(print) as undo:
        if direct:
            assert made._disk(undo) == "/dev/loop0"
        else:
            with pytest.raises(BenchError, match=f"--dir {tmp_path}: .*direct I/O.*--disk"):
                made._disk(undo)


def test_a_file_system_without_direct_io_is_refused(monkeypatch, tmp_path):
    """This is known before anything is written."""
    monkeypatch.setattr(guard, "takes_direct", lambda _path: False)
    with pytest.raises(BadInput, match=f"--dir {tmp_path}: .* does not support direct I/O"):
        memory.plan(cli.parser().parse_args(["memory", "--dir", str(tmp_path)]))


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
    ([1000 * 0.9 ** turn for turn in range(25)], 20),
    ([10000 * 0.94 ** turn for turn in range(25)], 8)])
def test_warm_until_nothing_changes(monkeypatch, passes, count):
    """The bytes that each pass reads from the disk, and the number of passes."""
    done = []
    monkeypatch.setattr(ground, "counters", lambda _device: {"bytes": sum(done)})
    works.warm(ways.Stand("/", "/dev/copy", "/dev/set"),
               lambda: done.append(passes[len(done)]), 10000)
    assert len(done) == count


@pytest.mark.parametrize("size, scale", [(16 * MIB, 1), (140 * MIB, 2), (320 * MIB, 5),
                                         (1280 * MIB, 23)])
def test_scale_of_pgbench(size, scale):
    assert works.CLUSTER.scale(size) == scale
    assert works.CLUSTER.room(size) >= scale * sets.SCALE + sets.EMPTY + sets.LOGS


def test_output_of_pgbench():
    """Older releases have one more line, with the time to connect."""
    assert postgres.rate("latency average = 1 ms\ntps = 1234.5 (without initial connection time)\n"
                         ) == 1234.5
    assert postgres.rate("tps = 1.0 (including connections establishing)\n"
                         "tps = 2.0 (excluding connections establishing)\n") == 2.0
    with pytest.raises(BenchError, match="pgbench: no tps in its output: 'nothing'"):
        postgres.rate("nothing\n")
    run = postgres.Run(2.0, postgres.times([f"0 {number} {1000 - number} 0 1700000000 5\n"
                                            for number in range(1000)]))
    assert run.times[0] == 1.0 and run.percentile(99) == 990.0 and run.percentile(50) == 500.0
    assert "99.9" not in run.percentiles() and run.percentiles()["99"] == 990.0
    assert postgres.Run(2.0, [5.0] * 10_000).percentiles()["99.9"] == 5.0


def test_where_postgresql_is(monkeypatch, tmp_path):
    """A folder with all programs; of several releases the newest."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(postgres, "PLACES", (f"{tmp_path}/*/bin",))
    assert postgres.folder() is None
    for version in "9", "10":
        inner = tmp_path / version / "bin"
        inner.mkdir(parents=True)
        for name in postgres.NEEDED:
            (inner / name).touch(0o755)
    assert postgres.folder() == str(tmp_path / "10/bin")
    (tmp_path / "10/bin/pgbench").unlink()
    assert postgres.folder() == str(tmp_path / "9/bin")


def test_server_is_ready(tmp_path):
    assert not postgres.ready(tmp_path)
    (tmp_path / "postmaster.pid").write_text("1\n" * 7 + "starting\n")
    assert not postgres.ready(tmp_path)
    (tmp_path / "postmaster.pid").write_text("1\n" * 7 + "ready   \n")
    assert postgres.ready(tmp_path)


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
                works.ALL[0]._run(("/set/data", False), GIB, 5, 2 * repeat + turn)
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
    with command.meanwhile("sh", "-c", 'trap "echo stopped >$0; exit" INT; echo . >"$0"; '
                           'while sleep 0.1; do :; done', str(tmp_path / "log"),
                           stop=signal.SIGINT):
        while not (tmp_path / "log").exists():
            pass
    assert (tmp_path / "log").read_text() == "stopped\n"
    with pytest.raises(BenchError, match="sh: exited too early, with exit code 3"):
        with command.meanwhile("sh", "-c", "exit 3") as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


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
