# SPDX-License-Identifier: GPL-2.0-only
"""rxadm top: on a terminal, in a pipe, as JSON."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, program, rxadm
from rxdlib.direct import BLOCK, KIB, MIB, Direct

pytestmark = pytest.mark.one_kernel
KEYS = {"time", "name", "kind", "read_hit_percent", "read_iops", "write_iops", "read_mbps",
        "write_mbps", "latency_us"}
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@contextlib.contextmanager
def reading(path, size=64 * KIB):
    """Somebody reads the beginning of a device all the time."""
    over = threading.Event()
    count = [0]

    def read():
        with Direct(path, os.O_RDONLY) as device:
            while not over.is_set():
                device.read(0, size)
                count[0] += 1

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


def looks(*args):
    result = rxadm("top", "--json", *args)
    assert (result.returncode, result.stderr) == (0, "")
    return [{row["name"]: row for row in json.loads(line)["top"]}
            for line in result.stdout.splitlines()]


def test_json(lab):
    cache = lab.cache(4 * MIB, cache_size=4 * MIB)
    idle = lab.ramdisk(4 * MIB)
    direct.read(cache.path, 0, 64 * KIB)
    with reading(cache.path) as count:
        begin, before = time.monotonic(), count[0]
        found = looks("-d", "1", "-n", "3")
        rate = (count[0] - before) / (time.monotonic() - begin)
    assert len(found) == 3
    for look in found:
        assert set(look) == {cache.name, cache.ramdisk.name, idle.name}
        assert all(set(row) == KEYS for row in look.values())
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", look[cache.name]["time"])
        busy = look[cache.name]
        assert busy["kind"] == "cache" and busy["read_hit_percent"] == 100
        assert rate / 3 < busy["read_iops"] < rate * 3
        assert busy["read_mbps"] == pytest.approx(busy["read_iops"] * 0.065536, rel=0.01, abs=0.1)
        assert busy["write_iops"] == 0 and busy["latency_us"] is not None
        quiet = look[idle.name]
        assert quiet["kind"] == "ramdisk" and quiet["read_iops"] == 0
        assert quiet["latency_us"] is None and quiet["read_hit_percent"] is None


def test_plain_lines(lab):
    """One heading, then lines that begin with the time and have their columns in place."""
    ramdisk = lab.ramdisk(4 * MIB)
    lab.ramdisk(4 * MIB)
    with reading(ramdisk.path, BLOCK):
        result = rxadm("top", "-d", "0.2", "-n", "3")
    assert (result.returncode, result.stderr) == (0, "")
    heading, *lines = result.stdout.splitlines()
    assert heading.split()[:3] == ["TIME", "NAME", "KIND"] and len(lines) == 6
    assert [line.split()[1] for line in lines] == ["rxd0", "rxd1"] * 3
    assert {line.index("ramdisk") for line in lines} == {heading.index("KIND")}
    assert "\x1b" not in result.stdout


def test_of_none():
    assert rxadm("top", "-d", "0.1", "-n", "1").stdout == ""
    assert [json.loads(line) for line in
            rxadm("top", "-J", "-d", "0.1", "-n", "2").stdout.splitlines()] == [{"top": []}] * 2


def test_devices_come_and_go(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    with subprocess.Popen([program("rxadm"), "top", "-d", "0.5", "-J"], env=ENVIRONMENT,
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            assert [row["name"] for row in json.loads(process.stdout.readline())["top"]] == ["rxd0"]
            other = lab.ramdisk(4 * MIB)
            ramdisk.remove()
            names = []
            while names != ["rxd1"]:
                rows = json.loads(process.stdout.readline())["top"]
                names = [row["name"] for row in rows]
            assert other.name == "rxd1"
            assert json.loads(process.stdout.readline())["top"][0]["read_iops"] == 0
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


class Terminal:
    """rxadm top on a terminal of its own."""

    def __init__(self, rows, columns, *args):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [program("rxadm"), "top", "-d", "0.3", *args], env=ENVIRONMENT, stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, wanted, seconds=60):
        end = time.monotonic() + seconds
        while wanted not in self.text:
            left = end - time.monotonic()
            assert left > 0, f"no {wanted!r} in {self.text!r}"
            if select.select([self.master], [], [], left)[0]:
                self.text += os.read(self.master, 65536).decode()
        found, self.text = self.text.split(wanted, 1)
        return found

    def key(self, key):
        os.write(self.master, key)

    def end(self):
        """It has gone, and the terminal is as it was."""
        code = self.process.wait(60)
        self.read_until(LEAVE)
        assert termios.tcgetattr(self.slave) == self.before
        return code

    def wait_until_stopped(self, seconds=60):
        """A SIGCONT before that would be lost, and it would stop for good."""
        end = time.monotonic() + seconds
        state = None
        while state != "T":
            assert time.monotonic() < end, f"in state {state}"
            time.sleep(0.01)
            with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
                state = file.read().rpartition(")")[2].split()[0]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    made = []

    def make(*args):
        made.append(Terminal(*args))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("how", ["q", "ctrl-c", "term"])
def test_terminal(lab, terminal, how):
    """Drawn in place, again and again, and left as it was found."""
    lab.ramdisk(4 * MIB)
    shown = terminal(24, 100)
    shown.read_until(ENTER)
    for _ in range(3):
        shown.read_until("\x1b[H")
        shown.read_until("rxadm top, every 0.3 s")
        assert "READ_IOPS" in shown.read_until("rxd0")
    assert not termios.tcgetattr(shown.slave)[3] & termios.ICANON
    shown.key(b"x")
    shown.read_until("rxd0")
    if how == "term":
        shown.process.terminate()
    else:
        shown.key({"q": b"q", "ctrl-c": b"\x03"}[how])
    assert shown.end() == 0


def test_terminal_count(lab, terminal):
    lab.ramdisk(4 * MIB)
    assert terminal(24, 100, "-n", "2").end() == 0


def test_small_terminal(lab, terminal):
    """What does not fit is counted; a larger one shows it at once."""
    for _ in range(6):
        lab.ramdisk(MIB)
    shown = terminal(4, 100, "-d", "60")
    shown.read_until("... 5 more")
    shown.resize(20, 100)
    shown.read_until("rxd5", seconds=50)     # it looks each 60
    for rows in 1, 2, 0:
        shown.resize(rows, 1)
        shown.read_until("\x1b[J")
    shown.key(b"q")
    assert shown.end() == 0


def test_stopped(lab, terminal):
    """Ctrl-Z gives the terminal back, and going on takes it again."""
    lab.ramdisk(4 * MIB)
    shown = terminal(24, 100)
    shown.read_until("rxd0")
    shown.key(b"\x1a")
    shown.read_until(LEAVE)
    shown.wait_until_stopped()
    assert termios.tcgetattr(shown.slave) == shown.before
    shown.process.send_signal(signal.SIGCONT)
    shown.read_until(ENTER)
    shown.read_until("rxd0")
    shown.key(b"q")
    assert shown.end() == 0


@pytest.mark.parametrize("arguments, words", [
    (("rxd0",), "'rxd0'"),
    (("-d",), "-d"),
    (("-d", "0"), ("'0'", "0.1 to 3600")),
    (("-d", "0.01"), "'0.01'"),
    (("-d", "3601"), "'3601'"),
    (("-d", "-1"), "'-1'"),
    (("-d", "nan"), "'nan'"),
    (("-d", "1e1"), "'1e1'"),
    (("-d", "0x1"), "'0x1'"),
    (("-d", ""), "''"),
    (("-d", "1.2.3"), "'1.2.3'"),
    (("-n", "0"), ("'0'", "from 1 to 4294967295")),
    (("-n", "-1"), "'-1'"),
    (("-n", "x"), ("'x'", "from 1 to 4294967295")),
    (("-n", "4294967296"), "'4294967296'"),
    (("--colour",), "--colour"),
], ids=str)
def test_bad_arguments(arguments, words):
    result = rxadm("top", *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    for word in [words] if isinstance(words, str) else words:
        assert word in result.stderr
