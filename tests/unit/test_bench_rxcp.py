# SPDX-License-Identifier: GPL-2.0-only
"""tests/bench/rxcp: when rxcp counts as slower, and the tree that must be slower."""

import importlib.machinery
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LOADER = importlib.machinery.SourceFileLoader("bench_rxcp", f"{TOP}/tests/bench/rxcp")
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(bench)


def found(clock, processors, noise=0.02, repeats=9):
    """The results for an rxcp that takes so many times as long as cp."""
    rng = random.Random(1)
    return {name: [tuple(factor * rng.uniform(1 - noise, 1 + noise) for factor in factors) + (8,)
                   for _ in range(repeats)]
            for name, factors in (("cp", (1, 1)), ("rxcp", (clock, processors)))}


@pytest.mark.parametrize("clock, processors, verdicts", [
    (1, 1, [False, False]), (0.5, 1, [False, False]), (1.1, 1, [True, False]),
    (1, 1.1, [False, True]), (1.1, 1.1, [True, True])])
def test_verdicts(clock, processors, verdicts):
    """It is slower if either time is longer."""
    assert [verdict for _, verdict in bench.judge(found(clock, processors), .95)] == verdicts


def test_noise():
    """An uncertain result does not count as slower."""
    ratios = bench.judge(found(1.06, 1.06, noise=0.3), .95)
    assert [verdict for _, verdict in ratios] == [None, None]


def test_more_repeats(monkeypatch):
    """It repeats until the result is certain, but not forever."""
    for noise, times in ((0.01, 9), (0.9, 9 * bench.MOST)):
        figures = found(1, 1, noise, 1 + 9 * bench.MOST)
        monkeypatch.setattr(bench, "timed", lambda argv, *_: figures[argv[0]].pop())
        measured = bench.compare({"cp": ["cp"], "rxcp": ["rxcp"]}, [], "", 9, .95)
        assert [len(values) for values in measured.values()] == [times, times]


@pytest.mark.parametrize("kind, least", [("tmpfs", .95), ("ext4", 1 / 1.15), ("btrfs", 1 / 1.3)])
def test_small_files_by_file_system(monkeypatch, kind, least):
    monkeypatch.setattr(bench.machine, "mount_of", lambda path: {"type": kind})
    assert bench.least_of_many("/somewhere") == least


def test_space():
    assert bench.took_the_same({"cp": [(1, 1, 8)], "rxcp": [(1, 1, 16)]})
    assert not bench.took_the_same({"cp": [(1, 1, 16384)], "rxcp": [(1, 1, 131072)]})


def test_copies_that_take_more_space(monkeypatch, tmp_path):
    """Where rxcp leaves holes, a larger copy is a failure."""
    monkeypatch.setattr(bench, "timed",
                        lambda argv, *_: (1, 1, 16384 if argv[0] == "cp" else 131072))
    options = bench.argparse.Namespace(large=None, only="data", size=1 << 20, repeats=3, buffer=[])
    assert [(row[-1], failed) for row, failed in bench.measure(str(tmp_path), "x", options, "rxcp")
            ] == [("larger", True), ("larger", True), ("cp left holes", False)]


def test_slower_tree():
    """The change applies to this tree, and is made once."""
    with open(os.path.join(TOP, bench.SLOWER[0]), encoding="utf-8") as file:
        text = file.read()
    changed = bench.slower(text)
    assert len(changed.splitlines()) == len(text.splitlines()) + 4
    with pytest.raises(ValueError, match="found 0 times"):
        bench.slower(changed.replace("step = timed_read", "step = read"))


def test_slower_tree_works(tmp_path):
    """The slower rxcp is built from this tree, and still copies."""
    rxcp = bench.build_slower(str(tmp_path / "tree"))
    (tmp_path / "source").write_bytes(os.urandom(300_000))
    subprocess.run([rxcp, "-T", "none", tmp_path / "source", tmp_path / "copy"], check=True)
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()


@pytest.mark.parametrize("options, status", [([], 0), (["--slower"], 1)])
@pytest.mark.parametrize("clock, processors", [(1.1, 1), (1, 1.1)])
def test_exit_status(monkeypatch, tmp_path, options, status, clock, processors):
    """1 if the slower tree takes 10 % more of either time, and 0 for this tree."""
    rng = random.Random(1)

    def timed(argv, *_):
        factors = (clock, processors) if argv[0] == "slower" else (1, 1)
        return tuple(factor * rng.uniform(.98, 1.02) for factor in factors) + (8,)
    monkeypatch.setattr(bench, "timed", timed)
    monkeypatch.setattr(bench, "build_slower", lambda work: "slower")
    monkeypatch.setattr(bench, "SIGNALS", ())
    monkeypatch.setattr(sys, "argv", ["rxcp", str(tmp_path), "--size", "1m", "--only", "data",
                                      *options])
    assert bench.main() == status and not os.listdir(tmp_path)


# A copy that takes long, within a file system that is mounted in words only.
INTERRUPTED = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("bench_rxcp", sys.argv[1])
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(bench)
def mounted(stack, *_):
    stack.callback(lambda: open("unmounted", "w").close())
    return "."
bench.mounted = mounted
sys.argv[1:] = ["ext4", "--size", "1m", "--only", "data", "--rxcp", "./copy"]
sys.exit(bench.main())
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(tmp_path, signum):
    """What runs is stopped, and the file system is unmounted."""
    (tmp_path / "copy").write_text("#!/bin/sh\necho $$ >new; mv new pid; exec sleep 99\n")
    (tmp_path / "copy").chmod(0o755)
    with subprocess.Popen([sys.executable, "-B", "-c", INTERRUPTED, LOADER.path], cwd=tmp_path,
                          stderr=subprocess.DEVNULL) as process:
        while not (tmp_path / "pid").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signum)
    assert process.returncode == 128 + signum
    assert sorted(os.listdir(tmp_path)) == ["copy", "pid", "unmounted"]
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")


def test_a_new_file_system(monkeypatch, tmp_path):
    """It has room for the files, and is unmounted, also after an error."""
    ran = []

    def run(argv, **_):
        ran.append(argv)
        return subprocess.CompletedProcess(argv, 0, stdout="/dev/loop9\n")
    monkeypatch.setattr(bench, "IMAGES", str(tmp_path))
    monkeypatch.setattr(bench.subprocess, "run", run)
    options = bench.argparse.Namespace(size=256 << 20, large=None)
    monkeypatch.setattr(bench, "measure", lambda folder, *_: (yield 1 / int(folder == "x")))
    with pytest.raises(ZeroDivisionError):
        list(bench.measure_in("xfs", options, "rxcp"))
    assert [argv[0] for argv in ran] == ["losetup", "mkfs.xfs", "mount", "umount", "losetup"]
    assert [argv[-1] for argv in ran[1:]] == ["/dev/loop9", *[ran[2][-1]] * 2, "/dev/loop9"]
    assert not os.listdir(tmp_path)
