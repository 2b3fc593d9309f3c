# SPDX-License-Identifier: GPL-2.0-only
"""rxadm save DEVICE - and load -: images through pipes, complete or refused."""

import ctypes
import os
import pty
import signal
import subprocess
import time

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, as_nobody, program
from rxdlib.control import STATE_OPEN
from rxdlib.direct import BLOCK, KIB, MIB, stamp
from rxdlib.lab import state
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long, sampled
from test_save_load import (BUSY, DEVICE, PARAMETERS, PERMISSION, SHAPES, content, damaged_image,
                            fill, noise, read_by, running, wait_for_none)

pytestmark = pytest.mark.one_kernel


@pytest.fixture(name="folder")
def folder_fixture(folder, monkeypatch):
    """The folder is the current one, too, where a file named "-" would be created."""
    monkeypatch.chdir(folder)
    return folder


def stream(*args, data=None, stdin=None, stdout=subprocess.PIPE):
    """Run rxadm with bytes, not text: exit code, output, errors."""
    result = subprocess.run([program("rxadm"), *map(str, args)], input=data, stdin=stdin,
                            stdout=stdout, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=300,
                            check=False)
    return result.returncode, result.stdout, result.stderr.decode()


def saved(device, *args):
    code, image, errors = stream("save", device, "-", *args)
    assert (code, errors) == (0, "")
    return image


def loaded(lab, image, *args):
    code, output, errors = stream("load", "-", *args, data=image)
    assert (code, errors) == (0, "")
    return lab.adopt_ramdisk(int(output.decode().strip()[len("/dev/rxd"):]))


def unchanged():
    """The state of all disks, without the counters that change when a disk is emptied."""
    found = state()
    for ramdisk in found["ramdisks"]:
        del ramdisk["discards"], ramdisk["mem_max_used"]
    return found


def stopped(code, *args, names=(), **options):
    """It fails with one line that has these words, and changes nothing."""
    before = unchanged()
    found, output, errors = stream(*args, **options)
    assert found == code, (found, errors)
    assert len(errors.splitlines()) == 1 and errors.startswith("rxadm: "), errors
    for name in names:
        assert name in errors
    assert unchanged() == before
    return output


@pytest.mark.parametrize("shape, compress", sampled([
    (shape, compress) for compress in ((), ("--compress", "zstd")) for shape in SHAPES]), ids=str)
def test_round_trip(lab, path, shape, compress):
    """The pipe has the same bytes as a file, except for the identity of the image."""
    size, pieces = SHAPES[shape]
    ramdisk = lab.ramdisk(size)
    fill(ramdisk.path, pieces)
    before = content(ramdisk.path)
    image = saved(ramdisk.path, *compress)
    ok("save", ramdisk.path, path, *compress)
    assert len(image) == os.path.getsize(path)
    uuid = ramdisk.query().uuid
    ramdisk.remove()
    copy = loaded(lab, image)
    assert (copy.query().uuid, copy.query().size) == (uuid, size)
    assert content(copy.path) == before
    copy.clear()
    assert stream("load", "-", "--into", copy.path, data=image) == (0, b"", "")
    assert content(copy.path) == before


def test_pipe_from_one_to_the_other(lab, folder):
    assert os.listdir(folder) == []
    ramdisk = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(MIB, noise(9 * MIB))])
    with running("save", ramdisk.path, "-") as source:
        code, output, errors = stream("load", "-", "--uuid", "random", stdin=source.stdout)
        assert source.wait(60) == 0 and source.stderr.read() == b""
    assert (code, errors) == (0, "")
    copy = lab.adopt_ramdisk(int(output.decode().strip()[len("/dev/rxd"):]))
    assert content(copy.path) == content(ramdisk.path)


def test_regular_file(lab, path):
    """The shell redirects regular files, and rxadm uses their current offset."""
    ramdisk = lab.ramdisk(8 * MIB)
    fill(ramdisk.path, [(MIB, noise(5 * MIB))])
    before = content(ramdisk.path)
    with open(path, "wb", buffering=0) as file:
        file.write(b"prefix")
        assert stream("save", ramdisk.path, "-", stdout=file)[0] == 0
    ramdisk.remove()
    with open(path, "rb", buffering=0) as file:
        file.seek(len("prefix"))
        code, output, errors = stream("load", "-", stdin=file)
    assert (code, output, errors) == (0, b"/dev/rxd0\n", "")
    assert content(lab.adopt_ramdisk(0).path) == before


def test_file_of_that_name(lab, folder):
    ramdisk = lab.ramdisk(MIB)
    fill(ramdisk.path, [(0, stamp(1))])
    ok("save", ramdisk.path, "./-")
    assert os.listdir(folder) == ["-"]
    ramdisk.clear()
    ok("load", "./-", "--into", ramdisk.path)
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    os.unlink("-")


# Damage


@pytest.mark.parametrize("into, step", [(False, 1), (True, 4), *long([(True, 1)])])
def test_truncated(lab, path, into, step):
    """At each boundary, and beside it: no disk is left, or the disk is empty."""
    image, blocks = damaged_image(lab, path)
    other = lab.ramdisk(16 * MIB)
    args = ["--into", other.path] if into else []
    lengths = {cut for at in [*blocks, *(at + BLOCK for at in blocks[:-1])]
               for cut in (at - 1, at, at + 1) if 0 <= cut < len(image)}
    for length in sorted(lengths | {len(image) - 1})[::step]:
        stopped(PARAMETERS, "load", "-", *args, data=image[:length],
                names=("image '-': is ", f"byte {length}" if length >= 8 else
                       "begin" if length else "is empty"))
    assert content(other.path) == bytes(16 * MIB)


def test_truncated_by_a_zero(lab, path):
    """The last byte of the header is missing, and it was zero."""
    header = bytearray(damaged_image(lab, path)[0][:BLOCK])
    checksum = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    checksum.argtypes, checksum.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64
    while header[-1]:
        header[16:24] = os.urandom(8)
        found = checksum(bytes(header), BLOCK - 8)
        header[-8:] = found.to_bytes(8, "little")
    stopped(PARAMETERS, "load", "-", data=bytes(header[:-1]), names=("image '-': is ", "byte 4095"))


def test_damaged(lab, path):
    image, blocks = damaged_image(lab, path)
    other = lab.ramdisk(16 * MIB)
    flipped = bytearray(image)
    flipped[blocks[-2] + BLOCK + 5] ^= 1
    for data, word in [(flipped, "checksum"), (image + b"x", "data follows"),
                       (image + image, "data follows"), (b"", "is empty"),
                       (noise(MIB), "not an image"),
                       (image[:blocks[-2]] + image[blocks[-1]:], "do not match the frames")]:
        stopped(PARAMETERS, "load", "-", data=bytes(data), names=("image '-'", word))
        stopped(PARAMETERS, "load", "-", "--into", other.path, data=bytes(data), names=(word,))
        assert content(other.path) == bytes(16 * MIB)


def test_written_meanwhile(lab, folder):
    """An image that is not one state of the disk has no end."""
    assert folder
    ramdisk = lab.ramdisk(64 * MIB)
    fill(ramdisk.path, [(0, noise(40 * MIB))])
    with running("save", ramdisk.path, "-") as process:
        end = time.monotonic() + 60
        while read_by(process) < 4 * MIB:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        direct.write(ramdisk.path, 63 * MIB, stamp(1))
        image, errors = process.communicate()
    assert process.returncode == BUSY and b"another process wrote" in errors
    assert len(errors.splitlines()) == 1
    assert len(image) > 4 * MIB
    stopped(PARAMETERS, "load", "-", "--uuid", "random", data=image, names=("truncated",))


# The other end of the pipe


def test_terminals(lab, folder):
    ramdisk = lab.ramdisk(MIB)
    ours, theirs = pty.openpty()
    try:
        stopped(PARAMETERS, "save", ramdisk.path, "-", stdout=theirs,
                names=("'-'", "standard output is a terminal"))
        stopped(PARAMETERS, "load", "-", stdin=theirs,
                names=("'-'", "standard input is a terminal"))
    finally:
        os.close(ours)
        os.close(theirs)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("command, redirection", [("save rxd0 -", ">&-"), ("load -", "<&-")])
def test_closed(lab, folder, command, redirection):
    """A file that is opened later does not get the number of the closed one."""
    assert folder
    ramdisk = lab.ramdisk(MIB)
    fill(ramdisk.path, [(0, stamp(1))])
    result = subprocess.run(f"exec {program('rxadm')} {command} {redirection}", shell=True,
                            stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60, check=False)
    assert result.returncode == PARAMETERS and len(result.stderr.splitlines()) == 1
    assert b"is closed" in result.stderr
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)


def test_closed_output_of_load(lab, folder):
    """No later file gets the number of the closed output; only the path cannot be printed."""
    assert folder
    ramdisk = lab.ramdisk(MIB)
    fill(ramdisk.path, [(0, stamp(1))])
    ok("save", ramdisk.path, "image")
    ramdisk.clear()
    result = subprocess.run(f"exec {program('rxadm')} load - --into rxd0 <image >&-", shell=True,
                            stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    ramdisk.remove()
    result = subprocess.run(f"exec {program('rxadm')} load - <image >&-", shell=True,
                            stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60, check=False)
    lab.adopt_ramdisk(0)
    assert result.returncode == DEVICE and b"cannot write the output" in result.stderr


def test_output_that_fails(lab, folder):
    """A pipe without a reader, a full device, and one that cannot be written."""
    assert folder
    ramdisk = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(0, noise(12 * MIB))])
    switch = f"/sys/block/{ramdisk.name}/queue/iostats"
    with open(switch, "w", encoding="ascii") as file:
        file.write("0")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        stopped(DEVICE, "save", ramdisk.path, "-", stdout=writing, names=("'-'", "Broken pipe"))
    finally:
        os.close(writing)
    with open("/dev/full", "wb") as file:
        stopped(DEVICE, "save", ramdisk.path, "-", stdout=file, names=("'-'", "No space left"))
    with open("/dev/null", "rb") as file:
        stopped(DEVICE, "save", ramdisk.path, "-", stdout=file, names=("'-'",))
    with open(switch, encoding="ascii") as file:
        assert file.read() == "0\n"


def test_reader_that_ends(lab, folder):
    """The reader exits in the middle of the image."""
    assert folder
    ramdisk = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(0, noise(12 * MIB))])
    with running("save", ramdisk.path, "-") as process:
        assert len(process.stdout.read(MIB)) == MIB
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(60) == DEVICE
    assert errors == "rxadm: save: file '-': Broken pipe; the image is incomplete\n"


def test_input_that_fails(lab, folder):
    assert lab
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        stopped(DEVICE, "load", "-", stdin=descriptor, names=("'-'", "directory"))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("sig", [signal.SIGINT, *long([signal.SIGTERM]), signal.SIGKILL],
                         ids=lambda sig: sig.name)
def test_save_interrupted(lab, folder, sig):
    """The signal arrives while the pipe is full."""
    ramdisk = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(0, noise(12 * MIB))])
    with running("save", ramdisk.path, "-") as process:
        assert len(process.stdout.read(64 * KIB)) == 64 * KIB
        time.sleep(0.3)
        process.send_signal(sig)
        assert process.wait(30) == -sig
        errors = process.stderr.read().decode()
    assert errors == ("" if sig == signal.SIGKILL else
                      "rxadm: save: interrupted; the image is incomplete\n")
    assert not ramdisk.query().state & STATE_OPEN
    assert os.listdir(folder) == []


@pytest.mark.parametrize("sig, into", [
    (signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGKILL, True),
    *long([(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGKILL, False)])])
def test_load_interrupted(lab, path, sig, into):
    """The signal arrives while it waits for data, or for the end after the last byte."""
    image, _ = damaged_image(lab, path)
    if into:
        other = lab.ramdisk(16 * MIB)
    for length in 0, 2 * BLOCK, len(image) // 2, len(image):
        with subprocess.Popen([program("rxadm"), "load", "-",
                               *(["--into", other.path] if into else [])], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=ENVIRONMENT) as process:
            process.stdin.write(image[:length])
            process.stdin.flush()
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(sig)
            assert process.wait(30) == -sig
            assert process.stdout.read() == b""
        if into:
            end = time.monotonic() + 60
            while other.query().state & STATE_OPEN:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert content(other.path) == bytes(16 * MIB)
        else:
            wait_for_none()


# Bad input


@pytest.mark.parametrize("args, names", [
    (("save", "-"), ("DEVICE FILE",)),
    (("save", "rxd0", "-", "x"), ("'x'",)),
    (("save", "rxd0", "-", "--progress", "json"), ("'json'", "standard output")),
    (("load", "-", "x"), ("'x'",)),
    (("load", "-", "--into", "rxd0", "--index", "1"), ("--into",))], ids=str)
def test_wrong_arguments(folder, args, names):
    refused(PARAMETERS, *args, names=names)
    assert os.listdir(folder) == []


def test_needs_privilege(lab, folder):
    assert folder
    ramdisk = lab.ramdisk(MIB)

    def nobody(*args):
        return as_nobody(program("rxadm"), *args, check=False)

    refused(PERMISSION, "save", ramdisk.path, "-", names=("CAP_SYS_ADMIN",), runner=nobody)
    refused(PERMISSION, "load", "-", names=("CAP_SYS_ADMIN",), runner=nobody)


def test_progress(lab, folder):
    """On standard error, or in the records of load."""
    assert folder
    ramdisk = lab.ramdisk(64 * MIB)
    fill(ramdisk.path, [(0, noise(8 * MIB))])
    image = saved(ramdisk.path, "--progress", "none")
    ramdisk.remove()
    code, output, errors = stream("load", "-", "--progress", "json", data=image)
    lab.adopt_ramdisk(0)
    assert (code, errors) == (0, "")
    assert output.decode().splitlines()[-1] == "/dev/rxd0" and b'"copied": "8388608"' in output
