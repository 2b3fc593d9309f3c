# SPDX-License-Identifier: GPL-2.0-only
"""rxadm top: on a terminal, in a pipe, as JSON."""

import contextlib
import fcntl
import itertools
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

import pyte
import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, program, rxadm
from rxdlib.direct import BLOCK, KIB, MIB, Direct
from rxdlib.sampled import long, sampled

pytestmark = pytest.mark.one_kernel
KEYS = {"time", "name", "kind", "read_hit_percent", "read_iops", "write_iops", "read_mbps",
        "write_mbps", "latency_us", "lent_mb", "given_back_mbps", "taken_mbps"}
PATIENCE = 60   # seconds
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@contextlib.contextmanager
def reading(path, size=64 * KIB):
    """A process that reads the start of a device all the time."""
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


def lines_beside(count, delay, *args):
    """The lines of three looks; with each, the rate at which a reader has read since the last one.

    It is 0 if the reader was held up, or this process, so that the line says nothing about it.
    """
    command = [program("rxadm"), "top", "-d", str(delay), "-n", "3", *args]
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        begin, before = time.monotonic(), count[0]
        for line in process.stdout:
            now, number = time.monotonic(), count[0]
            is_in_time = delay / 2 < now - begin < delay * 2
            yield line.rstrip("\n"), (number - before) / (now - begin) if is_in_time else 0
            begin, before = now, number
        assert process.stderr.read() == ""
    assert process.returncode == 0


def beside_reader(path, size, delay, *args):
    """Runs of top while a device is read, until three lines can be judged; as lines_beside()."""
    found, end = [], time.monotonic() + PATIENCE
    with reading(path, size) as count:
        while sum(rate > 0 for run in found for _, rate in run) < 3:
            assert time.monotonic() < end
            found.append(list(lines_beside(count, delay, *args)))
    return found


def test_json(lab):
    cache = lab.cache(4 * MIB, cache_size=4 * MIB)
    idle = lab.ramdisk(4 * MIB)
    direct.read(cache.path, 0, 64 * KIB)
    found = beside_reader(cache.path, 64 * KIB, 1, "--json")
    assert {len(run) for run in found} == {3}
    for line, rate in itertools.chain(*found):
        look = {row["name"]: row for row in json.loads(line)["top"]}
        assert set(look) == {cache.name, cache.ramdisk.name, idle.name}
        assert all(set(row) == KEYS for row in look.values())
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", look[cache.name]["time"])
        busy = look[cache.name]
        assert busy["kind"] == "cache" and busy["write_iops"] == 0
        assert busy["read_mbps"] == pytest.approx(busy["read_iops"] * 0.065536, rel=0.01, abs=0.1)
        if rate:
            assert busy["read_hit_percent"] == 100 and busy["latency_us"] is not None
            assert rate / 3 < busy["read_iops"] < rate * 3
        quiet = look[idle.name]
        assert quiet["kind"] == "ramdisk" and quiet["read_iops"] == 0
        assert quiet["latency_us"] is None and quiet["read_hit_percent"] is None


def cells(heading, line):
    """What a line says below each heading: texts begin where it does, numbers end there."""
    names = [(match[0], *match.span()) for match in re.finditer(r"\S+", heading)]
    texts, numbers = names[:3], names[3:]
    assert len(line) <= numbers[-1][2]
    begins = [begin for _, begin, _ in texts] + [names[2][1] + len("ramdisk")]
    found = {text[0]: line[begin:end] for text, begin, end in zip(texts, begins, begins[1:])}
    at = begins[-1]
    for name, _, end in numbers:
        found[name] = line[at:end]
        assert re.fullmatch(r" +[0-9]+\.[0-9]| *", found[name]), (name, heading, line)
        at = end
    assert all(not found[text[0]].startswith(" ") for text in texts), (heading, line)
    return {name: cell.strip() for name, cell in found.items()}


@pytest.mark.parametrize("kind", ["ramdisk", "cache"])
def test_plain_lines(lab, kind):
    """One heading, then lines that begin with the time and have their columns in place."""
    device = lab.cache(4 * MIB, cache_size=4 * MIB) if kind == "cache" else lab.ramdisk(4 * MIB)
    if kind == "ramdisk":
        lab.ramdisk(4 * MIB)
    names = ["rxd0", "rxd1"] if kind == "ramdisk" else [device.name, "rxd0"]
    for (heading, first), *lines in beside_reader(device.path, BLOCK, 0.5):
        assert heading.split()[:3] == ["TIME", "NAME", "KIND"] and len(lines) == 6
        rows = [cells(heading, line) for line, _ in lines]
        assert [row["NAME"] for row in rows] == names * 3
        rates = [rate for _, rate in lines[::2]]
        # The first line may come at once after the heading.
        rates[0] = max(rates[0], first)
        for busy, idle, rate in zip(rows[::2], rows[1::2], rates):
            assert (busy["KIND"], idle["KIND"]) == (kind, "ramdisk")
            if rate:
                assert float(busy["READ_IOPS"]) > 0 and busy["LATENCY_US"]
                assert bool(busy["READ_HIT_PERCENT"]) == (kind == "cache")
            assert not idle["READ_HIT_PERCENT"]
        assert not any("\x1b" in line for line, _ in lines)


def test_plain_lines_of_new_devices(lab):
    """Columns stay in place beside a device that was not there at the update before."""
    cache = lab.cache(4 * MIB, cache_size=4 * MIB)
    with subprocess.Popen([program("rxadm"), "top", "-d", "0.5", "--batch"], env=ENVIRONMENT,
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            heading = process.stdout.readline().rstrip("\n")
            new = lab.ramdisk(4 * MIB)
            rows = []
            while [row["NAME"] for row in rows].count(new.name) < 2:
                line = process.stdout.readline()
                assert line
                rows.append(cells(heading, line.rstrip("\n")))
        finally:
            process.send_signal(signal.SIGINT)
    first, second = [row["READ_IOPS"] for row in rows if row["NAME"] == new.name]
    assert not first and second
    assert {row["NAME"] for row in rows} >= {cache.name, new.name}


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


class Screen(pyte.Screen):
    """The content of a terminal. An unknown escape sequence fails the test."""

    def debug(self, *args, **_options):
        raise AssertionError(f"unknown to the terminal: {args}")

    def keypad(self):
        """The keys send other codes, or the usual ones."""

    def rows(self):
        return [row.rstrip() for row in self.display]


class Stream(pyte.ByteStream):
    escape = dict(pyte.ByteStream.escape, **{"=": "keypad", ">": "keypad"})


class Terminal:
    """rxadm top on its own terminal."""

    def __init__(self, rows, columns, *args, term="screen", locale="C"):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.screen = Screen(columns or 80, rows or 24)
        self.stream = Stream(self.screen)
        self.text = ""
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        environment = dict(ENVIRONMENT, LC_ALL=locale, TERM=term or "")
        if term is None:
            del environment["TERM"]
        self.process = subprocess.Popen(
            [program("rxadm"), "top", "-d", "0.3", *args], env=environment, stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        if rows and columns:
            self.screen.resize(rows, columns)
            self.screen.erase_in_display(2)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, condition, wanted, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            left = end - time.monotonic()
            assert left > 0, f"no {wanted!r} in {self.text!r}; on the screen: {self.screen.rows()}"
            if select.select([self.master], [], [], left)[0]:
                data = os.read(self.master, 65536)
                self.stream.feed(data)
                self.text += data.decode()

    def read_until(self, wanted, seconds=60):
        """Return the output before this text."""
        self.until(lambda: wanted in self.text, wanted, seconds)
        found, self.text = self.text.split(wanted, 1)
        return found

    def shows(self, wanted, seconds=60):
        """Wait for rows that begin with these words, and for empty rows below."""
        def shown():
            rows = self.screen.rows()
            return (all(row.startswith(want) for row, want in zip(rows, wanted)) and
                    not any(rows[len(wanted):]))

        self.until(shown, wanted, seconds)

    def key(self, key):
        os.write(self.master, key)

    def raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO)

    def end(self):
        """It has exited, and the terminal is as before."""
        code = self.process.wait(60)
        # A resize leaves the screen, too, and enters it again.
        self.until(lambda: self.text.rfind(LEAVE) > self.text.rfind(ENTER) and
                   not self.screen.cursor.hidden, LEAVE)
        assert termios.tcgetattr(self.slave) == self.before
        return code

    def wait_until_stopped(self, seconds=60):
        """An earlier SIGCONT would be lost, and it would stop forever."""
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

    def make(*args, **options):
        made.append(Terminal(*args, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


TITLE = "rxadm top, every 0.3 s; q exits"


@pytest.mark.parametrize("how, locale", [
    ("q", "C"), ("ctrl-c", "C.UTF-8"), (signal.SIGTERM, "C"), (signal.SIGHUP, "C.UTF-8"),
    (signal.SIGQUIT, "C"), *long([
        ("q", "C.UTF-8"), ("Q", "C"), ("Q", "C.UTF-8"), ("ctrl-c", "C"), (signal.SIGHUP, "C"),
        (signal.SIGTERM, "C.UTF-8"), (signal.SIGQUIT, "C.UTF-8")])], ids=str)
def test_terminal(lab, terminal, locale, how):
    """It draws in place repeatedly, and restores the terminal."""
    lab.ramdisk(4 * MIB)
    shown = terminal(24, 100, locale=locale)
    shown.read_until(ENTER)
    shown.shows([TITLE, "NAME", "rxd0"])
    assert shown.screen.rows()[1].split()[:3] == ["NAME", "KIND", "READ_HIT_PERCENT"]
    assert shown.screen.cursor.hidden and shown.raw()
    other = lab.ramdisk(4 * MIB)
    shown.shows([TITLE, "NAME", "rxd0", "rxd1"])
    with reading(other.path, BLOCK):
        shown.until(lambda: re.match("rxd1 +ramdisk +[1-9]", shown.screen.rows()[3]), "READ_IOPS")
    shown.key(b"x")
    other.remove()
    shown.shows([TITLE, "NAME", "rxd0"])
    if isinstance(how, signal.Signals):
        shown.process.send_signal(how)
    else:
        shown.key({"q": b"q", "Q": b"Q", "ctrl-c": b"\x03"}[how])
    assert shown.end() == 0


def test_terminal_count(lab, terminal):
    lab.ramdisk(4 * MIB)
    assert terminal(24, 100, "-n", "2").end() == 0


def test_small_terminal(lab, terminal):
    """Rows that do not fit are counted; a larger terminal shows them. Long lines are cut."""
    for _ in range(6):
        lab.ramdisk(MIB)
    shown = terminal(4, 100, "-d", "60")
    title = TITLE.replace("0.3", "60")
    shown.shows([title, "NAME", "rxd0", "... 5 more"])
    shown.resize(20, 100)     # the interval is 60 seconds
    shown.shows([title, "NAME", *(f"rxd{i}" for i in range(6))], seconds=50)
    shown.resize(8, 12)
    shown.shows([title[:12], "NAME", *(f"rxd{i}" for i in range(6))], seconds=50)
    shown.resize(2, 100)
    shown.shows([title, "... 7 more"], seconds=50)
    shown.resize(2, 2)
    shown.shows(["rx", ".."], seconds=50)
    for rows in 1, 2:
        shown.resize(rows, 1)
        shown.read_until("\x1b[J")
    shown.resize(0, 1)
    shown.key(b"q")
    assert shown.end() == 0


def test_terminal_of_unknown_size(lab, terminal):
    lab.ramdisk(4 * MIB)
    shown = terminal(0, 0)
    shown.shows([TITLE, "NAME", "rxd0"])
    shown.key(b"q")
    assert shown.end() == 0


@pytest.mark.parametrize("how", ["ctrl-z", "kill -STOP"])
def test_stopped(lab, terminal, how):
    """Ctrl-Z restores the terminal; fg takes it again, even if its settings have changed."""
    lab.ramdisk(4 * MIB)
    shown = terminal(24, 100)
    shown.read_until(ENTER)
    shown.shows([TITLE, "NAME", "rxd0"])
    if how == "ctrl-z":
        shown.key(b"\x1a")
        shown.read_until(LEAVE)
        shown.wait_until_stopped()
        assert termios.tcgetattr(shown.slave) == shown.before
    else:
        shown.process.send_signal(signal.SIGSTOP)
        shown.wait_until_stopped()
        termios.tcsetattr(shown.slave, termios.TCSANOW, shown.before)
    os.write(shown.slave, b"\x1b[H\x1b[2Ja shell")
    shown.shows(["a shell"])
    shown.resize(10, 40)
    shown.process.send_signal(signal.SIGCONT)
    shown.read_until(ENTER)
    shown.shows([TITLE, "NAME", "rxd0"])
    assert shown.raw()
    shown.key(b"q")
    assert shown.end() == 0


def test_terminal_gone(lab):
    """It exits although neither a key nor a signal reports the end."""
    lab.ramdisk(4 * MIB)
    master, slave = pty.openpty()
    with subprocess.Popen([program("rxadm"), "top", "-d", "3600"], stdin=subprocess.DEVNULL,
                          env=dict(ENVIRONMENT, TERM="screen"), stdout=slave,
                          start_new_session=True) as process:
        os.close(slave)
        os.read(master, 1)
        os.close(master)
        try:
            process.wait(60)
        finally:
            process.kill()


@pytest.mark.parametrize("term", sampled(
    ["dumb", "unknown", "no-such-type", "", None], every=2))
def test_terminal_that_cannot(lab, terminal, term):
    """One line gives the reason, and names the options that need no such terminal."""
    lab.ramdisk(4 * MIB)
    shown = terminal(24, 100, term=term)
    assert shown.process.wait(60) == 1
    assert termios.tcgetattr(shown.slave) == shown.before
    error = shown.read_until("\r\n")
    assert f"'{term or ''}' (TERM)" in error and "--batch" in error
    for option in "-b", "--batch":
        shown = terminal(24, 200, option, "-n", "1", term=term)
        heading, line = (shown.read_until("\r\n") for _ in range(2))
        assert shown.process.wait(60) == 0
        assert heading.split()[:2] == ["TIME", "NAME"] and line.split()[1] == "rxd0"
        assert "\x1b" not in heading + line


@pytest.mark.parametrize("arguments, words", sampled([
    (("rxd0",), "'rxd0'"),
    (("-d",), "-d"),
    (("-b", "rxd0"), "'rxd0'"),
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
], every=2), ids=str)
def test_bad_arguments(arguments, words):
    result = rxadm("top", *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    for word in [words] if isinstance(words, str) else words:
        assert word in result.stderr
