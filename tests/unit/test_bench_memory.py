# SPDX-License-Identifier: GPL-2.0-only
"""tests/bench/memory and rxbench: what they keep and leave, with programs that are made up."""

import json
import os
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# A guest that measures what the file "measures" says, and pages made of the folders there are.
STUBS = {
    "run": 'out=build/guest/$1/out/memory; mkdir -p $out\n'
           'read -r results <measures || exit 1\n'
           'printf \'{\\n "results": %s\\n}\\n\' "$results" >$out/report.json\n',
    "build": "exit 0\n", "chroot": "ls build/bench/memory >merged\n"}
PIECES = ["pgbench-select,pgbench-tpcb,tree", "zipf,nvme-buffered,zipf-copy", "zipf-direct,nvme"]


@pytest.fixture
def tree(tmp_path):
    """A tree with the script and an earlier report of each piece, and of a piece of a piece."""
    for name, text in STUBS.items():
        path = tmp_path / "tests/guest" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}")
        path.chmod(0o755)
    (tmp_path / "tests/bench").mkdir()
    (tmp_path / "tests/bench/postgres-tree").symlink_to("/bin/true")
    shutil.copy(os.path.join(TOP, "tests/bench/memory"), tmp_path / "tests/bench")
    for name in [*PIECES, "nvme"]:
        folder = tmp_path / "build/bench/memory" / name
        folder.mkdir(parents=True)
        (folder / "report.json").write_text('{"results": "old"}')
    return tmp_path


def measured(tree, results, *options):
    """Run it in guests that measure this, or nothing at all; return its status and the reports."""
    (tree / "measures").write_text("" if results is None else json.dumps(results) + "\n")
    done = subprocess.run([tree / "tests/bench/memory", "7.2", *options], check=False,
                          capture_output=True, text=True)
    folders = tree / "build/bench/memory"
    return done, {path.parent.name: json.loads(path.read_text())["results"]
                  for path in folders.glob("*/report.json")}


@pytest.mark.parametrize("options", [(), ("--works", "nvme")])
@pytest.mark.parametrize("results", [None, []])
def test_nothing_is_lost_without_results(tree, results, options):
    done, reports = measured(tree, results, *options)
    assert done.returncode and reports == dict.fromkeys([*PIECES, "nvme"], "old")
    assert "kept" in done.stderr


def test_all_are_new(tree):
    done, reports = measured(tree, [1])
    assert done.returncode == 0 and reports == dict.fromkeys(PIECES, [1]), done.stderr
    assert (tree / "merged").read_text().split() == PIECES


def test_one_is_new(tree):
    done, reports = measured(tree, [1], "--works", "nvme")
    assert done.returncode == 0 and reports == {**dict.fromkeys(PIECES, "old"), "nvme": [1]}


@pytest.mark.skipif(os.path.isdir("/sys/module/rxd"), reason="it would stay loaded")
def test_the_host_is_left_as_it_was(tmp_path):
    """Modules that were not loaded are unloaded, and the loop device is detached."""
    (tmp_path / "tests/bench").mkdir(parents=True)
    (tmp_path / "utils/rxbench").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    shutil.copy(os.path.join(TOP, "tests/bench/rxbench"), tmp_path / "tests/bench")
    for path in ["utils/rxbench/run", *(f"bin/{name}" for name in (
            "id", "make", "modprobe", "insmod", "rmmod", "losetup"))]:
        (tmp_path / path).write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{tmp_path}/calls\n'
                                     f'case $0 in */id) echo 0 ;; */losetup) echo /dev/x; esac\n')
        (tmp_path / path).chmod(0o755)
    subprocess.run([tmp_path / "tests/bench/rxbench", "--host", tmp_path], check=False,
                   env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
                   capture_output=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum(call.startswith("insmod ") for call in calls) == 2
    assert [call.split("/")[0] for call in calls[-3:]] == [
        "losetup --detach ", "rmmod dm-rxcache", "rmmod rxd"]
