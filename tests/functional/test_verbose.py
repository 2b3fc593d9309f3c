# SPDX-License-Identifier: GPL-2.0-only
"""rxadm --verbose: what a command waits for."""

import fcntl
import functools
import os
import re
import subprocess
import time

import pytest

from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.control import CREATE_RESERVE
from rxdlib.direct import MIB

pytestmark = pytest.mark.one_kernel
VERBOSE = [[], ["-v"], ["--verbose"]]
SOON = 0.3      # seconds until a wait is announced in any case, or given up
LATE = 0.9      # seconds from which on rxadm may have given up a device that is open
BUSY = 5


def said(release, *args, line=True):
    """Return the output of rxadm while it waits, which is one line or empty; it then continues.

    None: the release came so late that rxadm had given up.
    """
    begin = time.monotonic()
    with subprocess.Popen([program("rxadm"), *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=ENVIRONMENT, text=True) as process:
        if line:
            told = process.stderr.readline()
        else:
            time.sleep(SOON)
            told = ""
        was_over = process.poll() is not None
        release()
        took = time.monotonic() - begin
        output, errors = process.communicate(timeout=60)
    if process.returncode == BUSY and took > LATE:
        return None
    assert not was_over
    assert (process.returncode, output) == (0, "")
    # A wait of two seconds is announced, which it may be if the machine is slow.
    assert not errors or not line and time.monotonic() - begin >= 2, errors
    return told


def said_while_open(path, *args, line):
    """The same while a device is open, repeated while this process is too slow to close it."""
    for _ in range(5):
        opened = os.open(path, os.O_RDONLY)
        told = said(functools.partial(os.close, opened), *args, line=line)
        if told is not None:
            return told
    raise AssertionError("rxadm always gave up")


@pytest.mark.parametrize("option", VERBOSE, ids=str)
def test_lock(lab, option):
    """The other rxadm is named, at once or after two seconds."""
    ramdisk = lab.ramdisk(MIB)
    with open("/run/rxadm.lock", "a+b") as lock:
        def release():
            fcntl.lockf(lock, fcntl.LOCK_UN)

        fcntl.lockf(lock, fcntl.LOCK_EX)
        begin = time.monotonic()
        told = said(release, *option, "clear", ramdisk.path)
        assert re.fullmatch(f"rxadm: clear: waiting for process {os.getpid()}, which is changing "
                            ".*\n", told)
        assert option or time.monotonic() - begin >= 2
        fcntl.lockf(lock, fcntl.LOCK_EX)
        said(release, *option, "clear", ramdisk.path, line=bool(option))


@pytest.mark.parametrize("option", VERBOSE, ids=str)
@pytest.mark.parametrize("command", ["remove", "save"])
def test_open(lab, tmp_path, command, option):
    """The disk may be open in udev, which closes it soon."""
    ramdisk = lab.ramdisk(MIB)
    rest = [str(tmp_path / "image")] if command == "save" else []
    told = said_while_open(ramdisk.path, *option, command, ramdisk.path, *rest,
                           line=bool(option))
    assert told == (f"rxadm: {command}: waiting until '{ramdisk.path}' is closed\n"
                    if option else "")


@pytest.mark.parametrize("option", VERBOSE, ids=str)
def test_open_cache(lab, option):
    ramdisk = lab.ramdisk(4 * MIB)
    _, origin = lab.linear(8 * MIB)
    path = rxadm("map", "--cache", ramdisk.path, "--origin", origin, "--name", "rxdtest-open",
                 check=True).stdout.strip()
    lab.adopt_mapped("rxdtest-open")
    told = said_while_open(path, *option, "unmap", "rxdtest-open", line=bool(option))
    assert told == ("rxadm: unmap: waiting until '/dev/mapper/rxdtest-open' is closed\n"
                    if option else "")


@pytest.mark.parametrize("option", VERBOSE, ids=str)
def test_work_of_the_driver(lab, option):
    """What takes long in one ioctl is announced."""
    ramdisk = lab.ramdisk(16 * MIB, flags=CREATE_RESERVE)
    result = rxadm(*option, "clear", "--force", ramdisk.path, check=True)
    assert result.stderr == (f"rxadm: clear: waiting until the memory of '{ramdisk.path}' is "
                             "zeroed\n" if option else "")
    for size, what in ("24M", "reserved"), ("16M", "searched for data"):
        result = rxadm(*option, "resize", ramdisk.path, size, check=True)
        assert result.stderr == (f"rxadm: resize: waiting until the memory of '{ramdisk.path}' is "
                                 f"{what}\n" if option else "")
    assert rxadm(*option, "resize", ramdisk.path, "16M", check=True).stderr == ""
    result = rxadm(*option, "create", "--size", "8M", "--reserve", check=True)
    lab.adopt_ramdisk(int(result.stdout.strip()[len("/dev/rxd"):]))
    assert result.stderr == ("rxadm: create: waiting until the memory is reserved\n" if option
                             else "")
    run("mkfs.ext4", "-q", ramdisk.path)
    lab.mount(ramdisk.path)
    result = rxadm(*option, "clone", "--expendable", ramdisk.path, check=True)
    lab.adopt_ramdisk(int(result.stdout.strip()[len("/dev/rxd"):]))
    lines = result.stderr.splitlines()
    assert len(lines) == (2 if option else 0)
    assert not option or lines[0] == ("rxadm: clone: waiting until the file systems on "
                                      f"'{ramdisk.path}' are frozen")


@pytest.mark.parametrize("option", VERBOSE, ids=str)
def test_nothing_to_wait_for(lab, option):
    ramdisk = lab.ramdisk(MIB)
    for command in (["list"], ["clear", ramdisk.path], ["limit", ramdisk.path, "none"],
                    ["help"], ["--version"]):
        assert rxadm(*option, *command, check=True).stderr == ""


@pytest.mark.parametrize("arguments, words", [
    (("-v",), ("command is missing",)), (("-v", "lsit"), ("'lsit'", "list")),
    (("-v", "-v", "list"), ("'-v'",)), (("--verbos", "list"), ("did you mean '--verbose'",)),
    (("-v", "list", "more"), ("'more'",))], ids=str)
def test_bad_input(arguments, words):
    result = rxadm(*arguments)
    assert result.returncode == 1 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    for word in words:
        assert word in result.stderr
