# SPDX-License-Identifier: GPL-2.0-only
"""Signals and outputs without a reader: a run is undone and reported all the same."""

import contextlib
import json
import os
import pty
import random
import signal
import subprocess
import sys
import time

import pytest

from conftest import TOP

# A workload that measures nothing. It notes what it undoes, and its second step cannot be undone
# if the name of the output says so.
FAKE = """
import contextlib, os, signal, sys, time, types
sys.path.insert(0, sys.argv.pop(1))
from rxbench import cli, workloads
from rxbench.run.plan import Case, Plan, Round, Subject
from rxbench.system.output import Rows
from rxbench.system.undo import interruptible

def undo_step(name):
    with open("undone", "a") as file:
        file.write(name)
    if name == "b" and "stuck" in sys.argv:
        raise OSError("it is stuck")

def set_up(undo):
    for name in "abc":
        undo.do(name, lambda: None, lambda _, name=name: undo_step(name))

def measure(case):
    if "wait" in sys.argv:
        open("waiting", "w").close()
        with interruptible():
            time.sleep(60)
    if "slow" in sys.argv:
        with interruptible():
            time.sleep(0.01)
    if "print" in sys.argv:
        print("a row", file=Rows(sys.stdout))
    return {"metrics": {"mb_s": 1.0}}

def plan(options):
    cases = [Case(str(number), f"case {number} " + 80 * "-") for number in range(300)]
    return Plan(subjects=[Subject("a", "a")], rounds=[Round(tuple(cases))], set_up=set_up,
                open=lambda *_: contextlib.nullcontext(measure))

workloads.ALL = [types.SimpleNamespace(
    NAME="fake", SUMMARY="nothing", EXPLANATION="", plan=plan, needs_root=lambda _: False,
    add_arguments=lambda parser: parser.add_argument("what", nargs="*"))]
sys.exit(cli.main())
"""


def started(tmp_path, *what, **outputs):
    return subprocess.Popen([sys.executable, "-B", "-c", FAKE, os.path.join(TOP, "utils/rxbench"),
                             "fake", *what, "--repeats", "1", "--no-html", "--output", "."],
                            cwd=tmp_path, **outputs)


def report(tmp_path):
    return json.loads((tmp_path / "report.json").read_text())


@pytest.fixture
def closed():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_nobody_reads_the_table(tmp_path, closed):
    with started(tmp_path, stdout=closed, stderr=subprocess.PIPE) as process:
        err = process.communicate()[1].decode()
    assert process.returncode == 128 + 13 and "Error" not in err
    assert report(tmp_path)["complete"] and len(report(tmp_path)["results"]) == 300


def test_no_space_for_the_table(tmp_path):
    with open("/dev/full", "w", encoding="ascii") as full, started(
            tmp_path, "-q", stdout=full, stderr=subprocess.PIPE) as process:
        err = process.communicate()[1].decode()
    assert process.returncode == 1 and report(tmp_path)["complete"]
    *warnings, last = err.splitlines()
    assert "No space left" in last and all("warning: " in line for line in warnings)


def test_the_terminal_is_closed(tmp_path):
    master, slave = pty.openpty()
    with started(tmp_path, "wait", stdout=slave, stderr=slave) as process:
        os.close(slave)
        while not (tmp_path / "waiting").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.close(master)
        process.send_signal(1)
    assert process.returncode == 128 + 1
    assert report(tmp_path)["ended_by"] == "SIGHUP"
    assert (tmp_path / "undone").read_text() == "cba"


@pytest.mark.parametrize("on_tty", [False, True])
def test_nobody_reads_what_cannot_be_undone(tmp_path, closed, on_tty):
    with contextlib.ExitStack() as stack:
        if on_tty:
            master, closed = pty.openpty()
            os.close(master)
            stack.callback(os.close, closed)
        with started(tmp_path, "stuck", stdout=subprocess.DEVNULL, stderr=closed) as process:
            pass
    assert (tmp_path / "undone").read_text() == "cba"
    assert process.returncode == 1
    assert "it is stuck" in report(tmp_path)["failures"][0]["message"]


def test_nobody_reads_the_rows(tmp_path, closed):
    """The run ends as by a signal: it does not go on, nor is it a failed measurement."""
    with started(tmp_path, "print", stdout=closed, stderr=subprocess.PIPE) as process:
        err = process.communicate()[1].decode()
    made = report(tmp_path)
    assert process.returncode == 128 + 13 and made["ended_by"] == "SIGPIPE", err
    assert made["results"] == made["failures"] == [] and "Error" not in err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_time(tmp_path, signum):
    """After a random line of the progress, and a second one soon after it."""
    wanted = random.randrange(1, 100)
    with started(tmp_path, "slow", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                 text=True) as process:
        lines = (line for line in process.stderr if line.startswith("1/1 "))
        for _ in range(wanted):
            next(lines)
        process.send_signal(signum)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    made, name = report(tmp_path), signal.Signals(signum).name
    assert process.returncode in (128 + signum, 128 + signal.SIGTERM), err
    assert made["ended_by"] in (name, "SIGTERM") and not made["complete"] and "Ended early" in out
    assert wanted - 1 <= len(made["results"]) < 300 and not made["failures"]
    assert (tmp_path / "undone").read_text() == "cba" and "could not undo" not in err
