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
import contextlib, errno, os, signal, sys, time, types
sys.path.insert(0, sys.argv.pop(1))
from rxbench import cli, workloads
from rxbench.report import document
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
        print("a row", file=rows)
    return {"metrics": {"mb_s": 1.0}}

def put(path, text, put=document.put):
    if os.path.basename(path) in sys.argv:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    put(path, text)

document.put, notes = put, []
rows = Rows(None, notes)

def plan(options):
    rows.out = sys.stdout
    cases = [Case(str(number), f"case {number} " + 80 * "-") for number in range(300)]
    return Plan(subjects=[Subject("a", "caf\\udce9")], rounds=[Round(tuple(cases))], set_up=set_up,
                open=lambda *_: contextlib.nullcontext(measure), notes=notes)

workloads.ALL = [types.SimpleNamespace(
    NAME="fake", SUMMARY="nothing", EXPLANATION="", plan=plan, needs_root=lambda _: False,
    add_arguments=lambda parser: parser.add_argument("what", nargs="*"))]
sys.exit(cli.main())
"""


LAUNCHER = [sys.executable, "-B", os.path.join(TOP, "utils/rxbench/run")]
UTF8 = {**os.environ, "LC_ALL": "C.UTF-8"}


def started(tmp_path, *what, page="--no-html", shell=(), **outputs):
    return subprocess.Popen([*shell, sys.executable, "-B", "-c", FAKE,
                             os.path.join(TOP, "utils/rxbench"), "fake", *what, "--repeats", "1",
                             page, "--output", "."], cwd=tmp_path, env=UTF8, **outputs)


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


def test_no_space_for_the_rows(tmp_path):
    """The measurements go on."""
    with open("/dev/full", "w", encoding="ascii") as full, started(
            tmp_path, "print", "-q", stdout=full, stderr=subprocess.PIPE) as process:
        process.communicate()
    made = report(tmp_path)
    assert process.returncode == 1 and made["complete"] and len(made["results"]) == 300
    assert made["notes"] == ["The lines of the intervals are not complete: No space left on device "
                             "for the standard output."]


@pytest.mark.parametrize("name", ["report.json", "report.html"])
def test_no_space_for_the_report(tmp_path, name):
    """The table is printed, and what was written is named."""
    with started(tmp_path, name, page="--quiet", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                 text=True) as process:
        out, err = process.communicate()
    assert process.returncode == 1 and "Medians of 1 repeat" in out
    assert err.splitlines()[-1] == (f"rxbench: ./{name}: cannot be written: No space left on "
                                    "device")
    assert ("Report: ./report.json" in out) is (name == "report.html")


def test_no_output_at_all(tmp_path):
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh"]
    for command in ([*LAUNCHER, "list"], [*LAUNCHER, "list", "x"]):
        assert subprocess.run([*closed, *command], check=False).returncode == 2 * ("x" in command)
    with started(tmp_path, "print", shell=closed) as process:
        pass
    assert process.returncode == 0 and len(report(tmp_path)["results"]) == 300


def test_a_name_that_is_no_text(tmp_path):
    """The name of the place is not UTF-8, but everything else is as usual."""
    with started(tmp_path, page="--quiet", stdout=subprocess.PIPE) as process:
        out = process.communicate()[0].decode()
    assert process.returncode == 0 and "caf\\udce9" in out
    assert report(tmp_path)["subjects"][0]["title"] == "caf\udce9"
    assert "caf\\udce9" in (tmp_path / "report.html").read_text()
    shown = subprocess.run([*LAUNCHER, "report", tmp_path / "report.json"], check=True, env=UTF8,
                           capture_output=True, text=True).stdout
    assert "caf\\udce9" in shown


def test_a_signal_while_a_report_is_written(tmp_path):
    """Nothing was measured: the command ends at once."""
    with started(tmp_path, stdout=subprocess.DEVNULL):
        pass
    os.mkfifo(tmp_path / "page")
    with subprocess.Popen([*LAUNCHER, "report", "report.json", "--html", "page"], cwd=tmp_path,
                          stderr=subprocess.PIPE, text=True) as process:
        # Python itself catches only SIGINT.
        while not caught(process.pid) & 1 << signal.SIGHUP - 1:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        try:
            err = process.communicate(timeout=20)[1]
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT and err == "rxbench: interrupted by SIGINT\n"


def caught(pid):
    """The signals that a process handles, as bits."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith("SigCgt:")), 16)


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
