# SPDX-License-Identifier: GPL-2.0-only
"""rxcp: a copy is exact, or does not exist."""

import errno
import hashlib
import json
import os
import random
import re
import signal
import stat
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, as_nobody, program, run
from rxdlib.direct import BLOCK, GIB, KIB, MIB, Direct, stamp
from rxdlib.lab import DISK, LONG, state
from rxdlib.moments import Moments, rounds
from rxdlib.sampled import long

KILLS = 30 if LONG else 6
CLOCKS = "/sys/devices/system/clocksource/clocksource0"


def rxcp(*args, check=False):
    return run(program("rxcp"), *args, check=check)


def ok(*args):
    result = rxcp(*args)
    assert (result.returncode, result.stderr) == (0, ""), f"{args}: {result}"
    return result.stdout


def refused(*args, names=()):
    before = state()
    result = rxcp(*args)
    assert result.returncode == 1 and result.stdout == "", result
    lines = result.stderr.splitlines()
    assert lines and all(line.startswith("rxcp: ") for line in lines)
    for name in names:
        assert name in result.stderr, result.stderr
    assert state() == before


def noise(length, seed=1):
    return random.Random(seed).randbytes(length)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def write_file(path, size, pieces):
    """A file with holes."""
    with open(path, "wb") as file:
        for offset, data in pieces:
            file.seek(offset)
            file.write(data)
        file.truncate(size)
    return path


def taken(path):
    return os.stat(path).st_blocks * 512


@pytest.fixture
def folder(lab):
    """A folder on a file system with holes; no hidden file may be left in it."""
    loop = lab.loop(96 * MIB)
    run("mkfs.ext4", "-q", "-O", "^has_journal", loop)
    directory = lab.mount(loop)
    yield directory
    assert [name for name in os.listdir(directory) if name.startswith(".")] == []


@pytest.fixture
def files(folder):
    """A source that is not written yet, and a destination."""
    return os.path.join(folder, "source"), os.path.join(folder, "copy")


SHAPES = {
    "nothing": (0, []),
    "byte": (1, [(0, b"x")]),
    "odd": (3 * BLOCK + 1, [(0, noise(3 * BLOCK + 1))]),
    "data": (5 * MIB, [(0, noise(5 * MIB))]),
    "hole": (20 * MIB + 7, []),
    "zeros": (6 * MIB + 3, [(0, bytes(6 * MIB + 3))]),
    "ends": (9 * MIB, [(0, b"begin"), (9 * MIB - 3, b"end")]),
    "mixed": (12 * MIB + 77, [(0, bytes(MIB)), (MIB, noise(MIB)), (3 * MIB, bytes(MIB)),
                              *((5 * MIB + at * 2 * BLOCK, stamp(at)) for at in range(500)),
                              (11 * MIB + 5, noise(MIB + 70))]),
}
REPEATED = "byte", "data"     # "mixed" and "odd" have what these have
ALL = [(), ("-s", "never"), ("-s", "always", "-S", "no"), ("-S", "yes"),
       ("-s", "never", "-S", "no"), ("--buffer-size=64K", "--sync")]


@pytest.mark.one_kernel
@pytest.mark.parametrize("shape", [
    *(shape for shape in SHAPES if shape not in REPEATED), *long(REPEATED)])
def test_files(files, shape):
    source, copy = files
    write_file(source, *SHAPES[shape])
    data = content(source)
    blocks = [data[at:at + BLOCK] for at in range(0, len(data), BLOCK)]
    not_zero = sum(len(block) for block in blocks if block.count(0) < len(block))
    os.chmod(source, 0o640)
    for options in ALL:
        output = ok("-v", *options, source, copy)
        assert content(copy) == data, options
        assert stat.S_IMODE(os.stat(copy).st_mode) == 0o640
        found = dict((line[:24].strip(), line[24:].strip()) for line in output.splitlines()[1:])
        copied, skipped = int(found["copied bytes"]), int(found["write skipped"])
        assert copied + skipped == int(found["total bytes"]) == int(found["file size"]) == \
            len(data)
        if "never" in options:
            assert skipped == 0
        else:
            assert taken(copy) <= taken(source)
            assert copied <= not_zero
        assert int(found["read skipped"]) == 0 or "no" not in options
        os.unlink(copy)


@pytest.mark.one_kernel
@pytest.mark.parametrize("size, options", [(10 * GIB, ()), pytest.param(
    5 * GIB, ("-S", "no"), marks=pytest.mark.long)], ids=str)
def test_large_file(files, size, options):
    """Byte counters must exceed 32 bits."""
    source, copy = files
    pieces = [(0, b"begin"), (size // 2 - BLOCK, noise(3 * BLOCK)), (size - 3, b"end")]
    write_file(source, size, pieces)
    output = ok("-v", *options, source, copy)
    found = dict((line[:24].strip(), line[24:].strip()) for line in output.splitlines()[1:])
    assert int(found["file size"]) == int(found["total bytes"]) == size
    assert int(found["copied bytes"]) + int(found["write skipped"]) == size
    assert int(found["read skipped"]) == 0 or "no" not in options
    assert os.stat(copy).st_size == size and taken(copy) <= taken(source)
    with open(copy, "rb") as file:
        for offset, data in pieces:
            file.seek(offset)
            assert file.read(len(data)) == data


def traced(calls, *args, inject=()):
    """Copy, and return the system calls of these names as strace shows them."""
    # LeakSanitizer cannot work beside strace.
    environment = {**ENVIRONMENT, "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    with tempfile.NamedTemporaryFile() as trace:
        result = run("strace", "-f", "-o", trace.name, "-e", f"trace={calls}",
                     *(f"--inject={each}" for each in inject), program("rxcp"), "-T", "none",
                     *args, check=False, environment=environment)
        assert (result.returncode, result.stdout + result.stderr) == (0, ""), result
        return content(trace.name).decode()


@pytest.mark.one_kernel
def test_data_is_looked_for_once(lab, folder):
    """On each query, tmpfs looks at each page up to the next hole."""
    tmpfs = lab.mount("rxdtest-tmpfs", "-t", "tmpfs", "-o", "size=64m")
    for directory in folder, tmpfs:
        source, copy = (os.path.join(directory, name) for name in ("source", "copy"))
        write_file(source, 18 * MIB, [(0, noise(8 * MIB)), (9 * MIB, noise(8 * MIB))])
        for options in ("-s", "always"), ("-s", "never"):
            trace = traced("lseek", *options, source, copy)
            assert trace.count("SEEK_DATA") <= 3 and trace.count("SEEK_HOLE") <= 3, trace
            assert content(copy) == content(source)


@pytest.mark.one_kernel
def test_the_kernel_copies(files):
    """The kernel copies if rxcp need not look at the data; the rest is read and written."""
    source, copy = files
    write_file(source, 22 * MIB + 5, [(0, noise(10 * MIB + 3)), (11 * MIB, noise(11 * MIB + 5))])
    data, never = content(source), ("-s", "never")
    by_hand = re.compile(r"pread64\(.* 262144, \d+\)")
    trace = traced("copy_file_range,pread64", *never, source, copy)
    assert "copy_file_range" in trace and not by_hand.search(trace), trace
    assert content(copy) == data and taken(copy) >= len(data)
    write_file(source, 4 * MIB + 5, [(0, noise(MIB + 3)), (2 * MIB, noise(2 * MIB + 5))])
    data = content(source)
    for wrong in ("error=EXDEV", "error=EINVAL:when=2", "error=EIO:when=2", "retval=0:when=2"):
        trace = traced("copy_file_range,pread64", *never, source, copy,
                       inject=[f"copy_file_range:{wrong}"])
        # It does not ask again after one refusal.
        assert trace.count("INJECTED") == 1 and by_hand.search(trace), trace
        assert content(copy) == data and taken(copy) >= len(data), wrong
    for options in (), ("-s", "always"), (*never, "-c", "md5"), (*never, "-S", "no"):
        run("rm", "-f", copy)
        trace = run("strace", "-f", "-e", "trace=copy_file_range", program("rxcp"), "-T", "none",
                    *options, source, copy, check=False,
                    environment={**ENVIRONMENT, "ASAN_OPTIONS": "detect_leaks=0"})
        assert "copy_file_range" not in trace.stderr and content(copy) == data, options


@pytest.mark.one_kernel
def test_the_kernel_copies_no_further(lab):
    """The file system is full, or has the data elsewhere."""
    tmpfs = lab.mount("rxdtest-tmpfs", "-t", "tmpfs", "-o", "size=3m")
    other = lab.mount("rxdtest-tmpfs", "-t", "tmpfs", "-o", "size=3m")
    source, copy = (os.path.join(tmpfs, name) for name in ("source", "copy"))
    write_file(source, 2 * MIB, [(0, noise(2 * MIB))])
    refused("-s", "never", source, copy, names=(f"'{copy}'", "No space left"))
    assert os.listdir(tmpfs) == ["source"]
    ok("-s", "never", source, os.path.join(other, "copy"))
    assert content(os.path.join(other, "copy")) == content(source)


@pytest.mark.one_kernel
def test_shared(lab):
    """Files share their data unless rxcp must look at it; -s never does not share holes."""
    loop = lab.loop(96 * MIB)
    run("mkfs.xfs", "-q", "-f", "--unsupported", loop)
    directory = lab.mount(loop)
    source, copy = (os.path.join(directory, name) for name in ("source", "copy"))
    for shape, never in ("data", True), ("ends", None):
        write_file(source, *SHAPES[shape])
        os.sync()
        for options, shares in (((), True), (("-s", "never"), never), (("-s", "always"), False),
                                (("-c", "md5"), False), (("-S", "no"), False),
                                (("-s", "never", "-S", "no"), False)):
            rxcp(*options, source, copy, check=True)
            os.sync()
            assert content(copy) == content(source)
            assert "never" not in options or taken(copy) >= os.path.getsize(source)
            extents = run("filefrag", "-v", copy).stdout
            assert shares is None or ("shared" in extents) is shares, (options, extents)


@pytest.mark.one_kernel
@pytest.mark.parametrize("file_system", ["xfs", "ext4"])
@pytest.mark.parametrize("shape", ["zeros", "holes", "end"])
def test_holes_take_no_space(lab, file_system, shape):
    """xfs allocates space beyond the end of a file that grows; holes must not get it."""
    loop = lab.loop(96 * MIB)
    run(f"mkfs.{file_system}", "-q", *(["-f", "--unsupported"] if file_system == "xfs" else []),
        loop)
    directory = lab.mount(loop)
    source, copy = (os.path.join(directory, name) for name in ("source", "copy"))
    data, size = noise(4 * KIB), 16 * MIB
    if shape == "end":
        write_file(source, size, [(0, noise(4 * MIB))])
    elif shape == "holes":
        write_file(source, size, [(at, data) for at in range(0, size, 64 * KIB)])
    else:
        write_file(source, size, [(0, (data + bytes(60 * KIB)) * (size // (64 * KIB)))])
    for options in (("-s", "always"), ("-c", "md5")):
        rxcp(*options, source, copy, check=True)
        os.sync()
        assert content(copy) == content(source)
        assert taken(copy) <= (4 if shape == "end" else 1) * MIB + 128 * KIB, options


@pytest.mark.one_kernel
def test_shared_in_part(files):
    """FICLONE may return 0 although the file system has stopped half-way."""
    source, copy = files
    write_file(source, *SHAPES["mixed"])
    traced("ioctl", source, copy, inject=["ioctl:retval=0"])
    assert content(copy) == content(source)


@pytest.mark.one_kernel
@pytest.mark.parametrize("file_system", ["xfs", "ext4"])
def test_allocated_and_never_written(lab, file_system):
    """For -s never it is a hole, which must not be shared, whatever its block count is."""
    loop = lab.loop(96 * MIB)
    run(f"mkfs.{file_system}", "-q", *(["-f", "--unsupported"] if file_system == "xfs" else []),
        loop)
    directory = lab.mount(loop)
    source, copy = (os.path.join(directory, name) for name in ("source", "copy"))
    with open(source, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 8 * MIB)
        file.write(noise(MIB))
    os.sync()
    assert taken(source) >= 8 * MIB
    rxcp("-s", "never", source, copy, check=True)
    os.sync()
    assert content(copy) == content(source)
    extents = run("filefrag", "-v", copy).stdout
    assert taken(copy) >= 8 * MIB and "unwritten" not in extents, extents


@pytest.mark.one_kernel
def test_summary(files):
    """The summary has the required lines, in order."""
    source, copy = files
    write_file(source, *SHAPES["mixed"])
    names = [line[:24].strip() for line in ok("-v", source, copy).splitlines()[1:]]
    assert names == ["file size", "read skipped", "write skipped", "copied bytes", "total bytes",
                     "scanned zeros", "elapsed time", "time on scan", "time on read",
                     "time on write", "reader: get free buffer", "reader: put full buffer",
                     "writer: get full buffer", "writer: put free buffer"]


@pytest.mark.one_kernel
def test_records(files):
    source, copy = files
    write_file(source, *SHAPES["mixed"])
    for options in ALL if LONG else ALL[:2]:
        lines = ok("-T", "json", *options, source, copy).splitlines()
        first, record = json.loads(lines[0]), json.loads(lines[-1])
        assert first == {**record, "t": "0", "copied": "0", "write_skipped": "0",
                         "read_skipped": "0"} and len(lines) > 1
        assert list(record) == ["r", "v", "t", "total", "copied", "write_skipped", "read_skipped"]
        assert (record["r"], record["v"]) == ("data", 1)
        assert int(record["copied"]) + int(record["write_skipped"]) == int(record["total"]) == \
            os.path.getsize(source)
    assert ok("-T", "none", source, copy) == ""
    for options in ALL if LONG else ALL[-1:]:
        result = rxcp("-g", *options, source, copy)
        shown = result.stderr.splitlines()
        assert result.returncode == 0 and f"{source}   0% [" in shown[1], "also if it is short"
        assert shown[-1] == "\33[K"


@pytest.mark.one_kernel
@pytest.mark.parametrize("algorithm", [*long(["md5", "sha256"]), "sha3-256"])
def test_checksum(files, algorithm):
    source, copy = files
    write_file(source, *SHAPES["mixed"])
    wanted = hashlib.new(algorithm.replace("sha3-", "sha3_"), content(source)).hexdigest()
    for options in (), ("-s", "never"), ("-S", "no"):
        assert ok("-c", algorithm, *options, source, copy) == f"{wanted}  {copy}\n"
    refused("-c", "crc", source, copy, names=("'crc'", "sha256"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", ["a\\nb\n", *long(["two\nlines", "back\\slash"])],
                         ids=ascii)
def test_checksum_is_one_line(files, name):
    """md5sum and the like find the file by the printed path."""
    source, copy = files
    write_file(source, *SHAPES["mixed"])
    copy = os.path.join(os.path.dirname(copy), name)
    line = ok("-c", "sha256", source, copy)
    assert line.startswith("\\") and line.count("\n") == 1
    assert line == run("sha256sum", copy).stdout
    assert run("sha256sum", "-c", stdin=line).returncode == 0


def seconds(output):
    """The times of the summary, by name."""
    return {line[:24].strip(): float(line.split()[-2]) for line in output.splitlines()
            if line.endswith(" s")}


@pytest.mark.one_kernel
def test_checksum_is_not_writing(files):
    source, copy = files
    write_file(source, *SHAPES["data"])
    without = seconds(ok("-v", source, copy))
    assert "time on checksum" not in without
    # The slowest checksum: writing takes little time beside it.
    found = seconds(ok("-v", "-c", "whirlpool", source, copy))
    assert found["time on checksum"] > found["time on write"]
    assert found["time on checksum"] + found["time on write"] <= found["elapsed time"]


@pytest.mark.one_kernel
def test_folders(files, folder):
    source, copy = files
    write_file(source, *SHAPES["odd"])
    other = write_file(os.path.join(folder, "other"), *SHAPES["ends"])
    os.mkdir(copy)
    ok(source, other, copy)
    assert sorted(os.listdir(copy)) == ["other", "source"]
    assert content(os.path.join(copy, "other")) == content(other)
    # A failed copy does not prevent the others.
    refused(source, "/nothing", other, copy, names=("'/nothing'",))
    assert content(os.path.join(copy, "source")) == content(source)
    os.mkdir(os.path.join(folder, "more"))
    same = write_file(os.path.join(folder, "more/source"), *SHAPES["ends"])
    refused(other, source, same, copy, names=(f"'{source}'", f"'{same}'", f"'{copy}/source'"))
    assert content(os.path.join(copy, "source")) == content(source)
    run("rm", "-r", copy)
    refused(source, other, copy, names=("must be a directory",))
    refused(source, f"{copy}/", names=(f"'{copy}/': no such directory",))
    refused(folder, copy, names=("is a directory",))


@pytest.fixture
def slow_clock():
    """Programs need a system call to read the clock, as where the TSC is unstable."""
    current = Path(CLOCKS, "current_clocksource")
    found = {"acpi_pm", "hpet"}.intersection(
        Path(CLOCKS, "available_clocksource").read_text(encoding="ascii").split())
    if not found:
        pytest.skip("no clock that needs a system call")
    before = current.read_text(encoding="ascii")
    try:
        current.write_text(max(found), encoding="ascii")
        trace = run("strace", "-e", "trace=clock_gettime", "dd", "if=/dev/null", "of=/dev/null")
        assert "clock_gettime(" in trace.stderr, trace
        yield
    finally:
        current.write_text(before, encoding="ascii")


@pytest.mark.one_kernel
def test_calls_for_a_small_file(folder, slow_clock):
    """No unnecessary calls: it opens a folder once, and does not ask for the time."""
    sources, calls = [], []
    for index in range(60):
        sources.append(write_file(os.path.join(folder, f"{index}"), 5000, [(0, noise(5000))]))
    copy = os.path.join(folder, "copies")
    for count in 10, 60:
        os.mkdir(copy)
        # Signals are read from a descriptor once or more for each file, depending on the time.
        trace = traced("all", *sources[:count], copy)
        trace = [line for line in trace.splitlines() if not re.search(r" (read|m\w+)\(", line)]
        calls.append(len(trace))
        for source in sources[:count]:
            assert content(os.path.join(copy, os.path.basename(source))) == content(source)
        run("rm", "-r", copy)
    # Source: open, fstat, read, close; copy: stat, open, fstat, write, link, close.
    assert calls[1] - calls[0] <= 10 * 50 + 5, calls


@pytest.mark.one_kernel
def test_replaced_file(files, folder):
    """It keeps the owner and permissions, and its other hard link the old content."""
    source, copy = files
    write_file(source, *SHAPES["odd"])
    write_file(copy, 4, [(0, b"old\n")])
    os.chmod(copy, 0o604)
    os.chown(copy, 65534, 65534)
    os.link(copy, os.path.join(folder, "link"))
    ok(source, copy)
    assert content(copy) == content(source) and content(os.path.join(folder, "link")) == b"old\n"
    assert access(copy) == (0o604, 65534, 65534, None)


ACL = "system.posix_acl_access"


def access(path):
    found = os.stat(path)
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, \
        os.getxattr(path, ACL) if ACL in os.listxattr(path) else None


def acl(user, group, mask):
    """A list that names user 1234."""
    entries = (1, 6, -1), (2, user, 1234), (4, group, -1), (16, mask, -1), (32, 0, -1)
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)


@pytest.mark.one_kernel
@pytest.mark.parametrize("folder_mode, inherited, old", [
    (0o2775, None, None), (0o755, None, acl(6, 0, 6)), (0o755, acl(6, 4, 6), None)],
    ids=["group", "list", "inherited"])
def test_replaced_file_gives_no_other_access(files, folder, folder_mode, inherited, old):
    """Neither the group nor a list of the folder, and the list of the old file."""
    source, copy = files
    write_file(source, *SHAPES["odd"])
    write_file(copy, 4, [(0, b"old\n")])
    os.chmod(copy, 0o660)
    if old:
        os.setxattr(copy, ACL, old)
    before = access(copy)
    os.chown(folder, 0, 100)
    os.chmod(folder, folder_mode)
    if inherited:
        os.setxattr(folder, "system.posix_acl_default", inherited)
    ok(source, copy)
    assert content(copy) == content(source) and access(copy) == before


def queue_times(output):
    """Seconds that reader and writer waited for each other."""
    return [float(line.split()[-2]) for line in output.splitlines()
            if line.startswith(("reader: ", "writer: "))]


@pytest.mark.one_kernel
def test_threads_only_where_something_waits(lab, tmp_path):
    """From memory to memory, one thread is faster; from a disk, the writer waits for the reader."""
    write_file(tmp_path / "source", *SHAPES["data"])
    assert queue_times(ok("-v", tmp_path / "source", tmp_path / "copy")) == [0] * 4
    with Direct(DISK) as disk:
        for offset in range(0, 32 * MIB, MIB):
            disk.write(offset, noise(MIB, offset + 1))
    slow = lab.mapped(f"0 {32 * MIB // 512} delay {DISK} 0 5")
    assert max(queue_times(ok("-v", "-S", "no", f"/dev/mapper/{slow}",
                              tmp_path / "copy"))) > 0
    assert content(tmp_path / "copy") == b"".join(noise(MIB, offset + 1)
                                                  for offset in range(0, 32 * MIB, MIB))


# Block devices


def test_ram_disk(lab, folder, files):
    """Holes of the source are not read, and zeros take no memory in the copy."""
    source, target = lab.ramdisk(16 * MIB), lab.ramdisk(17 * MIB)
    with Direct(source.path) as device:
        device.write(MIB, noise(2 * MIB))
        device.write(8 * MIB, bytes(MIB))
    with Direct(target.path) as device:
        device.write(0, noise(17 * MIB, 2))
    record = json.loads(ok("-T", "json", source.path, target.path).splitlines()[-1])
    assert int(record["read_skipped"]) == 13 * MIB and int(record["copied"]) == 2 * MIB
    assert content(target.path) == content(source.path) + noise(17 * MIB, 2)[16 * MIB:]
    assert target.query().mem_used == 3 * MIB
    # Buffered data that is not in the map yet.
    with open(source.path, "r+b", buffering=0) as file:
        file.seek(12 * MIB)
        file.write(b"late")
        ok(source.path, files[1])
    assert content(files[1]) == content(source.path)
    assert taken(files[1]) <= 2 * MIB + 64 * KIB
    ok("-s", "never", files[1], target.path)
    assert content(target.path)[:16 * MIB] == content(files[1])
    assert target.query().mem_used == 17 * MIB


@pytest.mark.one_kernel
def test_part_of_a_ram_disk(lab, files):
    """The map of the RAM disk is not that of a device on a part of it."""
    disk = lab.ramdisk(16 * MIB)
    with Direct(disk.path) as device:
        device.write(9 * MIB, noise(MIB))
    _, path = lab.linear(8 * MIB, device=disk.path, offset=8 * MIB)
    ok(path, files[1])
    assert content(files[1]) == bytes(MIB) + noise(MIB) + bytes(6 * MIB)


@pytest.mark.one_kernel
def test_disk_without_discard(lab, files):
    """Zeros are written if the device cannot create them by discard."""
    write_file(files[0], *SHAPES["mixed"])
    size = 13 * MIB
    _, path = lab.linear(size, device=DISK)
    direct.write(path, 0, noise(size))
    ok(files[0], path)
    data = content(files[0])
    assert content(path) == data + noise(size)[len(data):]


@pytest.mark.one_kernel
def test_devices_that_cannot_be(lab, files, folder):
    small = lab.ramdisk(MIB)
    write_file(files[0], 2 * MIB, [(0, b"x")])
    before = content(small.path)
    refused(files[0], small.path, names=(small.path, str(MIB), str(2 * MIB)))
    refused(small.path, small.path, names=("same device",))
    assert content(small.path) == before
    used = lab.ramdisk(4 * MIB)
    run("mkfs.ext4", "-q", used.path)
    directory = lab.mount(used.path)
    refused(files[0], used.path, names=("in use",))
    run("umount", directory)
    # A loop device does not claim the device below it.
    lab.mount(lab.loop_on(used.path), "-o", "ro")
    before = content(used.path)
    refused(files[0], used.path, names=(used.path, "in use"))
    assert content(used.path) == before
    refused("/dev/null", files[1], names=("'/dev/null'",))
    refused(files[0], "/dev/null", names=("'/dev/null'",))
    assert not os.path.exists(files[1])


@pytest.mark.one_kernel
def test_no_medium(files):
    """A drive without one opens, and is not an empty disk."""
    run("modprobe", "loop")
    drive = run("losetup", "--find").stdout.strip()
    write_file(files[1], 4, [(0, b"old\n")])
    refused(drive, files[1], names=(f"'{drive}'", "no medium"))
    assert content(files[1]) == b"old\n"


DISCARD = re.compile(r"fallocate\(\d+, [A-Z_|]+, (\d+), (\d+)")


@pytest.mark.one_kernel
def test_discards(lab, files):
    """A disk may take long for each, and signals wait until then."""
    write_file(files[0], 3 * GIB, [(GIB // 2, noise(MIB))])
    trace = traced("fallocate", files[0], lab.loop(3 * GIB))
    assert [(int(at), int(length)) for at, length in DISCARD.findall(trace)] == [
        (0, GIB // 2), (GIB // 2 + MIB, GIB // 2 - MIB), (GIB, GIB), (2 * GIB, GIB)]


@pytest.mark.one_kernel
def test_interrupted_between_discards(lab, files):
    write_file(files[0], 64 * GIB, [])
    with tempfile.NamedTemporaryFile() as trace:
        command = ["strace", "-D", "-f", "-o", trace.name, "-e", "trace=fallocate", "-e",
                   "inject=fallocate:delay_enter=100000", program("rxcp"), files[0],
                   lab.loop(64 * GIB)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={
                **ENVIRONMENT, "ASAN_OPTIONS": "detect_leaks=0"}) as process:
            while len(DISCARD.findall(content(trace.name).decode())) < 2:
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            err = process.stderr.read()
        assert process.returncode == -signal.SIGINT and "interrupted" in err
        assert len(DISCARD.findall(content(trace.name).decode())) < 32


@pytest.mark.one_kernel
def test_two_names_of_a_device(lab, folder):
    """It keeps the first copy."""
    disk, target = lab.ramdisk(MIB), os.path.join(folder, "to")
    os.mkdir(target)
    sources = []
    for number, name in enumerate(("a", "b")):
        os.symlink(disk.path, os.path.join(target, name))
        sources.append(write_file(os.path.join(folder, name), MIB, [(0, noise(MIB, number + 1))]))
    result = rxcp(*sources, target)
    assert (result.returncode, result.stdout, result.stderr) == (
        1, "", f"rxcp: destination '{target}/b': '{sources[0]}' was just copied there\n")
    assert content(disk.path) == noise(MIB, 1)


@pytest.mark.one_kernel
@pytest.mark.parametrize("block", [1024, *long([4096])])
def test_unused_blocks(lab, files, block):
    """A file system without its unused blocks is still intact."""
    ramdisk = lab.ramdisk(24 * MIB)
    with Direct(ramdisk.path) as device:
        device.write(0, noise(24 * MIB))
    run("mkfs.ext4", "-q", "-E", "nodiscard", "-b", block, ramdisk.path, f"{20 * MIB // block}")
    # ext4 would zero its inode tables after a while, and the RAM disk would free their pages.
    directory = lab.mount(ramdisk.path, "-o", "noinit_itable")
    write_file(os.path.join(directory, "file"), *SHAPES["mixed"])
    # A file system that is mounted for writing is copied completely.
    run("sync")
    record = json.loads(ok("-T", "json", "-S", "yes", ramdisk.path, files[1]).splitlines()[-1])
    assert record["read_skipped"] == "0"
    run("umount", directory)
    record = json.loads(ok("-T", "json", "-S", "yes", ramdisk.path, files[1]).splitlines()[-1])
    assert int(record["read_skipped"]) > 3 * MIB
    assert content(files[1])[20 * MIB:] == content(ramdisk.path)[20 * MIB:]
    assert run("e2fsck", "-fn", files[1], check=False).returncode == 0
    directory = lab.mount(files[1], "-o", "loop,ro")
    data = content(write_file(files[0], *SHAPES["mixed"]))
    assert content(os.path.join(directory, "file")) == data
    run("umount", directory)
    ok(ramdisk.path, files[1])
    assert content(files[1]) == content(ramdisk.path)


# Refusals and errors


@pytest.mark.one_kernel
@pytest.mark.parametrize("args, names", [
    ((), ("missing",)), (("a",), ("missing",)), (("-s", "maybe", "a", "b"), ("'maybe'",)),
    (("-S", "1", "a", "b"), ("'1'", "yes or no")), (("-T", "xml", "a", "b"), ("'xml'",)),
    (("-b", "0", "a", "b"), ("'0'", "4K")), (("-b", "1G", "a", "b"), ("'1G'",)),
    (("-b", "-4K", "a", "b"), ("'-4K'",)), (("-b", "99999999999999999999", "a", "b"), ("4K",)),
    (("-x", "a", "b"), ("'-x'",)), (("--nonsense", "a", "b"), ("unknown", "--nonsense")),
    (("-c",), ("'-c'", "value")), (("/nothing", "b"), ("'/nothing'", "No such")),
    (("/etc/passwd", "/nothing/b"), ("'/nothing/b'",)), (("/etc/passwd", ""), ("''",)),
    (("/proc/version", "/tmp/b"), ("size is unknown",))], ids=str)
def test_wrong_arguments(args, names):
    refused(*args, names=names)


FULL = {"ext4": [(), ("-s", "never"), ("-y",)],
        "tmpfs": [(), ("-s", "never"), ("-y",)] if LONG else [()]}


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", FULL)
def test_full_file_system(lab, folder, kind):
    """The old file stays, and no other file is left."""
    source = write_file(os.path.join(folder, "big"), *SHAPES["data"])
    if kind == "tmpfs":
        directory = lab.mount("rxdtest-tmpfs", "-t", "tmpfs", "-o", "size=3m")
    else:
        loop = lab.loop(4 * MIB)
        run("mkfs.ext4", "-q", "-O", "^has_journal", loop)
        directory = lab.mount(loop)
    copy = write_file(os.path.join(directory, "copy"), 4, [(0, b"old\n")])
    for options in FULL[kind]:
        refused(*options, source, copy, names=(f"'{copy}'", "No space left"))
        assert content(copy) == b"old\n"
        assert set(os.listdir(directory)) - {"lost+found"} == {"copy"}


@pytest.mark.one_kernel
def test_full_device(lab, files):
    """A block device cannot be restored, and the message says so."""
    target = lab.ramdisk(8 * MIB, mem_limit=2 * MIB)
    write_file(files[0], *SHAPES["data"])
    result = rxcp(files[0], target.path)
    assert result.returncode == 1
    assert "No space left" in result.stderr and "contains only a part of" in result.stderr


@pytest.mark.one_kernel
@pytest.mark.parametrize("options", [(), *long([(("-s", "never"),), (("-y",),)])], ids=str)
def test_limit_of_the_size_of_files(folder, files, options):
    """It is an error as that of a full file system, and no signal that ends rxcp."""
    source = write_file(files[0], *SHAPES["data"])
    copy = write_file(files[1], 4, [(0, b"old\n")])
    result = run("prlimit", f"--fsize={2 * MIB}", program("rxcp"), *options, source, copy,
                 check=False)
    assert (result.returncode, result.stdout) == (1, ""), result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"rxcp: destination '{copy}': "), result
    assert lines[0].endswith(": File too large"), result
    assert content(copy) == b"old\n"
    assert set(os.listdir(folder)) - {"lost+found"} == {"source", "copy"}


@pytest.mark.one_kernel
@pytest.mark.parametrize("closed, code", [("<&-", 0), (">&-", 1), ("2>&-", 0),
                                          ("<&- >&- 2>&-", 1)])
def test_closed_streams(files, closed, code):
    """No file that is opened later takes the number of one, and gets what is printed."""
    source, copy = files
    write_file(source, *SHAPES["data"])
    result = run("sh", "-c", f"exec {program('rxcp')} -v -T json {source} {copy} {closed}",
                 check=False)
    assert result.returncode == code, result
    assert content(copy) == content(source)
    if closed == ">&-":
        assert "rxcp: cannot write the output: Bad file descriptor\n" in result.stderr


@pytest.mark.one_kernel
def test_same_file(files, folder):
    source = write_file(files[0], *SHAPES["odd"])
    os.symlink("source", files[1])
    before = content(source)
    for name in source, files[1], folder:
        refused(source, name, names=("same file",))
    assert content(source) == before


@pytest.mark.one_kernel
def test_without_permission(files, folder):
    write_file(files[0], *SHAPES["odd"])
    os.chmod(files[0], 0o600)
    result = as_nobody(program("rxcp"), files[0], files[1], check=False)
    assert result.returncode == 1 and "Permission denied" in result.stderr
    os.chmod(files[0], 0o644)
    result = as_nobody(program("rxcp"), files[0], files[1], check=False)
    assert result.returncode == 1 and "Permission denied" in result.stderr
    assert sorted(os.listdir(folder)) == ["lost+found", "source"]


@pytest.mark.one_kernel
def test_drop_box(files, folder):
    """A folder that its users may write but not read; only a sync would read it."""
    box = os.path.join(folder, "box")
    os.mkdir(box)
    os.chmod(box, 0o733)
    write_file(files[0], *SHAPES["odd"])
    for name in box, os.path.join(box, "other"):
        as_nobody(program("rxcp"), files[0], name)
    for name in box, os.path.join(box, "synced"):
        result = as_nobody(program("rxcp"), "-y", files[0], name, check=False)
        assert result.returncode == 1 and "Permission denied" in result.stderr, result
    assert sorted(os.listdir(box)) == ["other", "source"]
    for name in os.listdir(box):
        assert content(os.path.join(box, name)) == content(files[0])


def interrupt(folder, size, sig):
    """The old file or the new one is there, and no other file."""
    source, copy = (os.path.join(folder, name) for name in ("source", "copy"))
    write_file(source, size, [(0, noise(size * 5 // 6))])
    new = content(source)
    options = ["-s", "never", "-c", "sha512", "-b", "64K"]
    begin = time.monotonic()
    ok(*options, source, copy)
    moments = Moments(sig, time.monotonic() - begin)
    found = {True: 0, False: 0}
    for _ in rounds(KILLS, lambda: found[False]):
        write_file(copy, 4, [(0, b"old\n")])
        with subprocess.Popen([program("rxcp"), *options, source, copy], env=ENVIRONMENT,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            moments.interrupt(process, sig)
            code = process.wait()
        assert code in (0, -sig)
        is_new = os.path.getsize(copy) != 4
        assert content(copy) == (new if is_new else b"old\n")
        assert is_new or code
        left = set(os.listdir(folder)) - {"copy", "lost+found", "source"}
        if sig == signal.SIGKILL:
            # A kill between the two names leaves one behind.
            for name in left:
                assert re.fullmatch(r"\.rxd-[0-9a-f]+", name)
                os.unlink(os.path.join(folder, name))
        else:
            assert not left
        found[is_new] += 1
    assert found[False]


@pytest.mark.one_kernel
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL], ids=lambda sig: sig.name)
def test_interrupted(folder, sig):
    interrupt(folder, (24 if LONG else 12) * MIB, sig)


@pytest.mark.one_kernel
@pytest.mark.long
def test_interrupted_while_it_has_a_name():
    """On file systems without O_TMPFILE, it has a name before it is complete."""
    with tempfile.TemporaryDirectory(dir="/out") as folder:
        with pytest.raises(OSError) as failure:
            os.open(folder, os.O_TMPFILE | os.O_RDWR)
        assert failure.value.errno == errno.EOPNOTSUPP
        interrupt(folder, 6 * MIB, signal.SIGINT)
