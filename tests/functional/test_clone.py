# SPDX-License-Identifier: GPL-2.0-only
"""rxadm clone and reset: RAM disks that share memory, and change independently."""

import contextlib
import functools
import glob
import itertools
import json
import mmap
import os
import random
import signal
import subprocess
import time
import zlib

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.configuration import Configuration, disk_of
from rxdlib.control import CREATE_OVERCOMMIT, CREATE_RESERVE, Control
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, LONG, RamDisk, state
from rxdlib.memory import missing, spare
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long, sampled
from rxdlib.stacks import wait_for
from rxdlib.traced import held_at, let_go
from test_clone_in_use import give_up

PARAMETERS, MEMORY, DEVICE, BUSY = 1, 3, 4, 5
EMPTY = bytes(MIB)
MANY = 256 if LONG else 64
FAMILY = 1000 if LONG else 24
SHARE = "/sys/module/rxd/parameters/memory_share"
NIL = "00000000-0000-0000-0000-000000000000"


def clone(lab, source, *options):
    """Return the clones."""
    made = [lab.adopt_ramdisk(int(path[len("/dev/rxd"):]))
            for path in ok("clone", source.path, *options).splitlines()]
    assert made
    return made


def digest(ramdisk):
    """A checksum of all data, read past the page cache."""
    found = 0
    with Direct(ramdisk.path, os.O_RDONLY) as device, mmap.mmap(-1, MIB) as buffer, \
            memoryview(buffer) as view:
        size = device.size()
        for offset in range(0, size, MIB):
            done = os.preadv(device.fd, [view], offset)
            assert done == min(MIB, size - offset)
            # Most of the time goes into checksums, and half of most disks is empty.
            is_empty = buffer[:done] == EMPTY[:done]
            found = zlib.crc32(b"0" if is_empty else view[:done], found)
    return found


def filled(lab, size=16 * MIB, data=8 * MIB, **options):
    """A RAM disk with data at its start and in its last page."""
    ramdisk = lab.ramdisk(size, **options)
    for offset in range(0, data, MIB):
        direct.write(ramdisk.path, offset, stamp(offset // MIB, MIB))
    direct.write(ramdisk.path, size - BLOCK, stamp(99))
    return ramdisk


@pytest.fixture(name="share")
def memory_share():
    """Set the share of memory in percent; returns it in bytes."""
    def set_share(percent):
        with open(SHARE, "w", encoding="ascii") as file:
            file.write(str(percent))
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * percent // 100
    yield set_share
    set_share(75)


def test_same_data_and_no_memory(lab):
    source = filled(lab, 64 * MIB, 48 * MIB)
    golden = digest(source)
    before = spare()
    copies = clone(lab, source, "--count", "4")
    assert [copy.path for copy in copies] == [f"/dev/rxd{index}" for index in range(1, 5)]
    assert missing(before, 8 * MIB) < 8 * MIB
    assert digest(copies[0]) == digest(copies[3]) == golden
    for copy in copies:
        assert copy.query().mem_used == source.query().mem_used == 48 * MIB + BLOCK
        assert copy.extents() == source.extents()
    for copy in copies:
        copy.remove()
    assert missing(before, 4 * MIB) < 4 * MIB
    source.remove()


@pytest.mark.parametrize("options", [
    {"logical_block_size": 4096}, {"folio_size": 2 * MIB}, {"mem_limit": 12 * MIB}, {"node": 0},
    {"flags": 4}, *long([{}, {"folio_size": 64 * KIB}])], ids=str)
def test_properties(lab, options):
    """All are those of the source but for the identity."""
    source = filled(lab, **options)
    copy, = clone(lab, source)
    query, other = vars(source.query()), vars(copy.query())
    for name in "index", "uuid", "minor", "mem_max_used", "mem_index":
        assert (query.pop(name) == other.pop(name)) == (name[:3] == "mem"), name
    assert query == other
    assert digest(copy) == digest(source)


def test_options(lab):
    source = filled(lab)
    wanted = "5f0c7a1e-6c2b-4d0e-9a55-0123456789ab"
    copy, = clone(lab, source, "--index", "7", "--uuid", wanted, "--name", "fresh",
                  "--read-only", "--overcommit")
    assert (copy.index, copy.query().uuid, copy.attribute("name")) == (7, wanted, "fresh")
    assert copy.attribute("state") == "overcommit readonly"
    with pytest.raises(OSError):
        direct.write(copy.path, 0, stamp(1))
    run("blockdev", "--setrw", copy.path)
    direct.write(copy.path, 0, stamp(1))
    ok("clone", "fresh", "--index", "3")
    assert lab.adopt_ramdisk(3).attribute("parent") == wanted
    refused(BUSY, "clone", "rxd0", "--index", "7", names=("'7'", "/dev/rxd7"))
    refused(BUSY, "clone", "rxd0", "--uuid", wanted, names=(wanted, "another RAM disk"))
    refused(BUSY, "clone", "rxd0", "--name", "fresh", names=("'fresh'", "/dev/rxd7"))
    refused(DEVICE, "clone", "rxd9", names="rxd9")
    refused(DEVICE, "clone", "/dev/null", names="/dev/null")


def test_independent(lab):
    """Each write, discard and write-zeroes changes one disk only."""
    source = filled(lab)
    golden = digest(source)
    copy, = clone(lab, source)
    changes = (
        lambda device: device.write(0, stamp(7)),
        lambda device: device.write(3 * MIB + 512, stamp(8)[:512]),
        lambda device: device.write(4 * MIB - 64 * KIB, stamp(9, 128 * KIB)),
        lambda device: device.discard(5 * MIB, MIB),
        lambda device: device.discard(2 * MIB, 2 * MIB),
        lambda device: device.discard(6 * MIB + 512, 8 * KIB),
        lambda device: device.zero_out(MIB + 512, 8 * KIB),
        lambda device: device.zero_range(7 * MIB, 64 * KIB),
        lambda device: device.punch_hole(7 * MIB + 512 * KIB + 512, 16 * KIB))
    for change in changes:
        before = digest(copy)
        with Direct(copy.path) as device:
            change(device)
        assert digest(copy) != before
        assert digest(source) == golden
    for change in changes:
        with Direct(source.path) as device:
            change(device)
    assert digest(source) == digest(copy)
    for ramdisk in source, copy:
        ramdisk.clear()
    assert digest(source) == digest(copy) != golden


def shared(ramdisk, *args):
    """How many bytes of its data other disks share."""
    with Control() as control:
        return control.count_shared(ramdisk.index, *args)[1]


def test_shared(lab):
    source = filled(lab)
    used = source.query().mem_used
    assert shared(source) == 0
    copy, = clone(lab, source)
    assert shared(source) == shared(copy) == used == 8 * MIB + BLOCK
    parts = [shared(copy, offset, MIB) for offset in range(0, 16 * MIB, MIB)]
    assert parts == [MIB] * 8 + [0] * 7 + [BLOCK]

    direct.write(copy.path, 64 * KIB, stamp(7, 64 * KIB))
    assert shared(source) == shared(copy) == used - 64 * KIB
    assert shared(copy, 0, 2 * MIB) == 2 * MIB - 64 * KIB
    assert shared(copy, 64 * KIB, 64 * KIB) == shared(source, 64 * KIB, 64 * KIB) == 0
    direct.write(copy.path, 12 * MIB, stamp(8, MIB))
    with Direct(source.path) as device:
        device.discard(2 * MIB, 2 * MIB)
    used -= 2 * MIB + 64 * KIB
    assert shared(source) == shared(copy) == used

    other, = clone(lab, copy)
    assert shared(copy) == shared(other) == copy.query().mem_used
    assert shared(source) == used
    for ramdisk in source, copy:
        line, = (line for line in ok("info", ramdisk.path, "-b").splitlines()
                 if line.startswith("shared:"))
        assert int(line.split()[1]) == shared(ramdisk)
    other.remove()
    ok("reset", copy.path, "--to", source.path, "--force")
    assert shared(source) == shared(copy) == source.query().mem_used
    with open(copy.path, "rb"):
        assert shared(copy) == copy.query().mem_used
    copy.remove()
    # The memory of a disk that was removed is freed in the background.
    wait_for(lambda: not shared(source), "end of sharing")


@pytest.mark.one_kernel
def test_shared_of_a_large_disk(lab):
    """One call counts a part, and rxadm goes on."""
    source = lab.ramdisk(64 << 30, overcommit=True)
    end = source.query().size
    for offset in 0, 9 << 30, end - BLOCK:
        direct.write(source.path, offset, stamp(1))
    copy, = clone(lab, source, "--overcommit")
    at, sums = 0, []
    with Control() as control:
        while at < end:
            following, part = control.count_shared(copy.index, at, end - at)
            assert following > at
            at = following
            sums.append(part)
    assert at == end and len(sums) > 1
    assert sum(sums) == 3 * BLOCK and sums[0] == BLOCK
    assert json.loads(ok("info", copy.path, "-J"))["info"][0]["shared"] == 3 * BLOCK


@pytest.mark.parametrize("how, changed", [
    ("discard", 0), ("zeroes", 1), ("shrink", 0),
    pytest.param("clear", 1, marks=pytest.mark.one_kernel),
    pytest.param("remove", 0, marks=pytest.mark.one_kernel),
    *long([("discard", 1), ("zeroes", 0), ("shrink", 1), ("clear", 0), ("remove", 1)])])
def test_whole_disk_goes(lab, how, changed):
    """The other disk keeps all of its data."""
    disks = filled(lab), None
    golden = digest(disks[0])
    disks = disks[0], *clone(lab, disks[0])
    victim, other = disks[changed], disks[not changed]
    if how == "discard":
        run("blkdiscard", victim.path)
    elif how == "zeroes":
        run("blkdiscard", "--zeroout", victim.path)
    elif how == "clear":
        ok("clear", "--force", victim.path)
    elif how == "shrink":
        # In the middle of a leaf, and then away with it.
        ok("resize", "--force", victim.path, "5M")
        assert direct.read(victim.path, 4 * MIB, MIB) == stamp(4, MIB)
        ok("resize", victim.path, "16M")
        assert direct.read(victim.path, 5 * MIB, MIB) == bytes(MIB)
        direct.write(victim.path, 5 * MIB, stamp(77, MIB))
    else:
        ok("remove", "--force", victim.path)
    assert digest(other) == golden
    direct.write(other.path, MIB, stamp(55))
    assert direct.read(other.path, MIB, BLOCK) == stamp(55)


@pytest.mark.one_kernel
@pytest.mark.parametrize("order", sampled([
    (order,) for order in itertools.permutations(range(3))], every=2), ids=str)
def test_removed_in_any_order(lab, order):
    """A clone of a clone, each with changes of its own."""
    source = filled(lab, data=2 * MIB)
    first, = clone(lab, source)
    direct.write(first.path, BLOCK, stamp(1))
    second, = clone(lab, first)
    direct.write(second.path, 2 * BLOCK, stamp(2))
    direct.write(first.path, 3 * BLOCK, stamp(3))
    disks = [source, first, second]
    digests = [digest(disk) for disk in disks]
    assert len(set(digests)) == 3
    for number, removed in enumerate(order):
        ok("remove", "--force", disks[removed].path)
        for left in order[number + 1:]:
            assert digest(disks[left]) == digests[left]


def listed(ramdisk):
    """The parent in each place."""
    (line,) = [line for line in json.loads(ok("list", "--json"))["ramdisks"]
               if line["device"] == ramdisk.path]
    found = {line["parent"], json.loads(ok("info", ramdisk.path, "--json"))["info"][0]["parent"],
             ramdisk.attribute("parent") or None}
    assert len(found) == 1
    return found.pop()


def test_parent(lab):
    source = lab.ramdisk(4 * MIB)
    copy, = clone(lab, source)
    other = lab.ramdisk(4 * MIB)
    uuid = source.query().uuid
    assert [listed(disk) for disk in (source, copy, other)] == [None, uuid, None]
    assert "PARENT" not in ok("list")
    assert ok("list", "-rno", "DEVICE,PARENT").splitlines()[1] == f"/dev/rxd1 {uuid}"
    assert f"parent: {uuid}" in " ".join(ok("info", "rxd1").split())
    ok("reset", other.path, "--to", copy.path)
    assert listed(other) == copy.query().uuid
    source.remove()
    assert listed(copy) == uuid


@pytest.mark.one_kernel
def test_parent_of_an_older_module(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    result = run("unshare", "--mount", "sh", "-euc",
                 f"mount -t tmpfs tmpfs /sys/block/{ramdisk.name}/rxd; "
                 f"{program('rxadm')} list -J; {program('rxadm')} info -J {ramdisk.name} || :")
    assert '"parent": null' in result.stdout


@pytest.mark.one_kernel
def test_count_all_or_none(lab, share):
    limit = share(10)
    size = limit // 8 // MIB * MIB
    source = lab.ramdisk(size)
    direct.write(source.path, 0, stamp(1))
    for options in (), ("--dry-run",):
        refused(PARAMETERS, "clone", "rxd0", "--count", "8", *options,
                names=("'/dev/rxd0'", "8 clones", "RAM disks may have", "--overcommit"))
    assert ok("clone", "rxd0", "--count", "2", "--dry-run") == 2 * (
        f"ioctl(/dev/rxd-control, RXD_CLONE, {{version=1, flags=0, source=0, index=-1, "
        f"uuid={NIL}}})\n")
    assert len(clone(lab, source, "--count", "7")) == 7
    refused(PARAMETERS, "clone", "rxd0", names=("a clone", "--overcommit"))
    assert ok("clone", "rxd0", "--overcommit", "--read-only", "--dry-run") == (
        "ioctl(/dev/rxd-control, RXD_CLONE, {version=1, flags=RXD_CREATE_OVERCOMMIT|"
        f"RXD_CLONE_READ_ONLY, source=0, index=-1, uuid={NIL}}})\n")
    clone(lab, source, "--overcommit", "--count", "8")


@pytest.mark.one_kernel
def test_share_of_an_expendable_clone(lab, share, tmp_path):
    """It promises nothing: other disks can still have all that the source leaves of the share."""
    limit = share(10)
    source = lab.ramdisk(limit // 3 * 2 // MIB * MIB)
    rest = (limit - source.query().size) // MIB * MIB - MIB
    direct.write(source.path, 0, stamp(1, MIB))
    with Direct(source.path, os.O_RDONLY):
        refused(PARAMETERS, "clone", "rxd0", names=("a clone", "--overcommit"))
        for options in (), ("--update",):
            result = rxadm("save", *options, "rxd0", tmp_path / "image")
            assert (result.returncode, result.stdout) == (0, ""), result
        clone(lab, source, "--expendable", "--count", "2")
        lab.ramdisk(rest)
        refused(PARAMETERS, "create", "--size", "2M", names="--overcommit")


def traced(tmp_path, inject, *args):
    """Start rxadm beside strace, which disturbs its ioctls."""
    # LeakSanitizer cannot work beside strace.
    environment = {**ENVIRONMENT,
                   "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    return subprocess.Popen(
        ["strace", "-f", "-o", str(tmp_path / "log"), "-e", "trace=ioctl", "-e", inject,
         program("rxadm"), *args], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)


def last_of(tmp_path, ioctl, *command):
    """Run rxadm; return which of its ioctls is the last one of a kind."""
    run("strace", "-f", "-o", tmp_path / "whole", "-e", "trace=ioctl", program("rxadm"), *command)
    calls = [line for line in (tmp_path / "whole").read_text().splitlines() if "ioctl(" in line]
    return [number for number, line in enumerate(calls, 1) if ioctl in line][-1]


def child_of(parent):
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                return int(path.split("/")[2])
    raise LookupError(parent)


CLONES = "0xb7, 0x6,"


@pytest.mark.one_kernel
def test_count_and_an_error(lab, tmp_path):
    """The fourth fails: the first three are removed again."""
    filled(lab)
    # The first ioctls find the version of the module, look at the source and count the promises.
    run("strace", "-f", "-o", tmp_path / "whole", "-e", "trace=ioctl", program("rxadm"), "clone",
        "rxd0", "--count", "5")
    calls = [line for line in (tmp_path / "whole").read_text().splitlines() if "ioctl(" in line]
    fourth = [number for number, line in enumerate(calls, 1) if CLONES in line][3]
    for index in range(1, 6):
        RamDisk(index).remove()
    before = state()
    with traced(tmp_path, f"inject=ioctl:error=ENOMEM:when={fourth}", "clone", "rxd0", "--count",
                "5") as process:
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (MEMORY, ""), errors
    assert "enough memory" in errors and len(errors.splitlines()) == 1
    assert (tmp_path / "log").read_text().count(CLONES) == 4
    assert state() == before


@pytest.mark.one_kernel
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_count_and_a_signal(lab, tmp_path, number):
    filled(lab)
    before = state()
    process = traced(tmp_path, "inject=ioctl:delay_enter=20000", "clone", "rxd0", "--count",
                     "1024", "--overcommit")
    with process:
        end = time.monotonic() + 120
        while not os.path.exists("/dev/rxd3"):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        os.kill(child_of(process.pid), number)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == -number and (output, errors) == ("", "")
    assert state() == before


@pytest.mark.one_kernel
@pytest.mark.parametrize("name, options, ioctl", [
    ("reset", ("--to", "rxd0"), "0xb7, 0x7,"), ("clear", (), "0xb7, 0x5,")])
def test_a_signal_while_data_is_discarded(lab, tmp_path, name, options, ioctl):
    """The records of the disk say what it holds, although the signal ends rxadm."""
    filled(lab)
    target = clone(lab, RamDisk(0))[0]
    without = glob.glob("/run/rxadm/disk-*")
    ok("save", target.path, tmp_path / "image")
    command = [name, "--force", target.path, *options]
    number = last_of(tmp_path, ioctl, *command)

    ok("save", target.path, tmp_path / "image")
    record, = set(glob.glob("/run/rxadm/disk-*")) - set(without)
    assert not glob.glob("/run/rxadm/*-kept")
    with traced(tmp_path, f"inject=ioctl:signal=INT:when={number}", *command) as process:
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output, errors) == (-signal.SIGINT, "", "")
    assert ioctl in (tmp_path / "log").read_text().splitlines()[number - 1]
    assert not glob.glob("/run/rxadm/*-kept") and not os.path.exists(record)


def failing(error, *args):
    """A module whose ioctls for clones fail."""
    environment = {**ENVIRONMENT,
                   "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    code = ("import ctypes, errno, os, struct, sys\n"
            "def op(code, yes=0, no=0, value=0):\n"
            "    return struct.pack('=HBBI', code, yes, no, value)\n"
            f"requests = [{number_of('CLONE')}, {number_of('RESET')}, "
            f"{number_of('COUNT_SHARED')}]\n"
            "program = op(0x20) + op(0x15, 0, 4, 16) + op(0x20, value=24)\n"
            "program += op(0x15, 3, 0, requests[0]) + op(0x15, 2, 0, requests[1])\n"
            "program += op(0x15, 1, 0, requests[2])\n"
            f"program += op(6, value=0x7fff0000) + op(6, value=0x50000 | errno.{error})\n"
            "text = ctypes.create_string_buffer(program)\n"
            "filter = ctypes.create_string_buffer(struct.pack('=HxxxxxxQ', len(program) // 8,"
            " ctypes.addressof(text)))\n"
            "libc = ctypes.CDLL(None)\n"
            "assert not libc.prctl(22, 2, ctypes.byref(filter))\n"
            "os.execv(sys.argv[1], sys.argv[1:])\n")
    return run("python3", "-c", code, program("rxadm"), *args, check=False,
               environment=environment)


def old_module(*args):
    """A module without these ioctls."""
    return failing("ENOTTY", *args)


def number_of(name):
    from rxdlib import control
    return getattr(control, name)


@pytest.mark.one_kernel
def test_older_module(lab):
    for _ in range(2):
        filled(lab)
    for options in (), ("--dry-run",):
        refused(DEVICE, "clone", "rxd0", *options, runner=old_module,
                names=("'/dev/rxd0'", "cannot be cloned", "older", "same release"))
        refused(DEVICE, "reset", "rxd1", "--to", "rxd0", "--force", *options, runner=old_module,
                names=("'/dev/rxd1'", "cannot be reset", "older", "same release"))
    result = old_module("info", "rxd0")
    assert (result.returncode, result.stderr) == (0, "")
    assert "used: " in result.stdout and "shared" not in result.stdout
    assert json.loads(old_module("info", "rxd0", "-J").stdout)["info"][0]["shared"] is None


@pytest.mark.one_kernel
@pytest.mark.parametrize("error, words", [("EIO", "Input/output error"),
                                          ("ENOSPC", "No space left on device")])
def test_error_of_the_page_cache(lab, error, words):
    """The disk is not lost, and device numbers are free."""
    filled(lab)
    for options in (), ("--index", "7"):
        line = refused(DEVICE, "clone", "rxd0", *options, runner=functools.partial(failing, error),
                       names=("'/dev/rxd0'", f"written back: {words}; "))
        assert line.endswith("; --no-freeze copies only the data that is already on the disk")


def test_reset(lab):
    """The golden state is back, and the memory of the changes is free."""
    source = filled(lab, 32 * MIB, 16 * MIB)
    golden = digest(source)
    copy, = clone(lab, source)
    before = spare()
    for number in range(12):
        direct.write(copy.path, number * MIB, stamp(1000 + number, MIB))
    direct.write(copy.path, 26 * MIB, stamp(9))
    run("blkdiscard", "--offset", 14 * MIB, "--length", 2 * MIB, copy.path)
    assert digest(copy) != golden and before - spare() > 8 * MIB
    # No --force: the changes of a clone are what is to go.
    ok("reset", copy.path, "--to", source.path)
    assert digest(copy) == golden == digest(source)
    assert copy.query().mem_used == source.query().mem_used
    assert missing(before, 4 * MIB) < 4 * MIB
    for number in range(3):
        direct.write(copy.path, number * BLOCK, stamp(number + 50))
        ok("reset", copy.path, "--to", source.path)
        assert digest(copy) == golden
    direct.write(source.path, 0, stamp(4))
    assert digest(copy) == golden


@pytest.mark.one_kernel
def test_reset_of_foreign_data(lab, tmp_path):
    source, other = filled(lab), filled(lab, data=MIB)
    golden, foreign = digest(source), digest(other)
    for options in (), ("--dry-run",):
        refused(BUSY, "reset", "rxd1", "--to", "rxd0", *options,
                names=("'/dev/rxd1'", "was not saved", "--force", "'rxadm save'"))
    assert digest(other) == foreign
    seen = other.seen()
    assert ok("reset", "rxd1", "--to", "rxd0", "--force", "--dry-run") == (
        "ioctl(/dev/rxd-control, RXD_RESET, {version=1, flags=RXD_IF_SAME, index=1, source=0, "
        f"diskseq={seen['diskseq']}, changes=RXD_CHANGES_ANY}})\n")
    ok("save", "rxd1", tmp_path / "image")
    assert f"changes={seen['changes']}" in ok("reset", "rxd1", "--to", "rxd0", "--dry-run")
    assert digest(other) == foreign
    ok("reset", "rxd1", "--to", "rxd0")
    assert digest(other) == golden
    # It is a clone now. The data that it had is in the image.
    ok("reset", "rxd1", "--to", "rxd0")
    refused(BUSY, "reset", "rxd0", "--to", "rxd1", names=("was not saved", "--force"))
    ok("reset", "rxd0", "--to", "rxd1", "--force")
    # Empty disks have nothing to lose.
    lab.ramdisk(16 * MIB, index=5)
    ok("reset", "rxd5", "--to", "rxd0")
    assert digest(RamDisk(5)) == golden


@pytest.mark.one_kernel
def test_clone_counts_as_unsaved(lab, tmp_path):
    """Also if it was never written: its source may be gone."""
    source = filled(lab)
    copy, = clone(lab, source)
    source.remove()
    for command in "remove", "clear":
        refused(BUSY, command, copy.path, names=("was not saved", "--force"))
    ok("save", copy.path, tmp_path / "image")
    ok("remove", copy.path)


@pytest.mark.one_kernel
def test_clone_of_a_saved_disk(lab, tmp_path):
    """The image is of the source, and only the source counts as saved."""
    source = filled(lab)
    ok("save", source.path, tmp_path / "image")
    copy, = clone(lab, source)
    refused(BUSY, "remove", copy.path, names="--force")
    ok("remove", source.path)


@pytest.mark.one_kernel
def test_in_use(lab):
    """Neither of the two may be swap space or a cache, nor open or mounted for a reset."""
    source = filled(lab)
    other = lab.ramdisk(16 * MIB)
    clones = (("clone", "rxd0"), ("clone", "rxd0", "--count", "3"))
    resets = ("reset", "rxd1", "--to", "rxd0"), ("reset", "rxd0", "--to", "rxd1", "--force")

    def all_refused(*words, lines=(*clones, *resets)):
        for line in *lines, (*lines[0], "--dry-run"):
            refused(BUSY, *line, names=("'/dev/rxd0'", "is in use", *words))

    with Direct(source.path):
        all_refused("open in process", lines=resets)
    run("mkfs.ext4", "-q", "-F", source.path)
    directory = lab.mount(source.path)
    all_refused(directory, lines=resets)
    run("umount", directory)
    run("mkswap", source.path)
    run("swapon", source.path)
    try:
        all_refused("swap")
    finally:
        run("swapoff", source.path)
    source.clear()
    cache = lab.cache(16 * MIB, ramdisk=source)
    all_refused(cache.name)
    assert other.query().mem_used == 0


@pytest.mark.one_kernel
def test_udev_has_it_open(lab):
    """A disk that is closed soon is waited for."""
    source, other = filled(lab), lab.ramdisk(16 * MIB)
    for _ in range(5):
        fd, begin = os.open(source.path, os.O_RDONLY), time.monotonic()
        with subprocess.Popen([program("rxadm"), "-v", "reset", other.path, "--to", "rxd0"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=ENVIRONMENT) as process:
            told = process.stderr.readline()
            os.close(fd)
            took = time.monotonic() - begin
            output, _ = process.communicate(timeout=60)
        # rxadm gives up after a second, which this process may have overslept.
        if process.returncode != BUSY or took < 0.9:
            break
    assert "until '/dev/rxd0' is closed" in told
    assert (process.returncode, output) == (0, "")
    assert digest(other) == digest(source)


@pytest.mark.one_kernel
def test_reset_refused(lab):
    source = filled(lab)
    small, reserved = lab.ramdisk(8 * MIB), lab.ramdisk(16 * MIB, flags=CREATE_RESERVE)
    limited = lab.ramdisk(16 * MIB, mem_limit=4 * MIB)
    readonly, = clone(lab, source, "--read-only")
    coarse = lab.ramdisk(16 * MIB, logical_block_size=4096)
    for options in (), ("--dry-run",):
        refused(PARAMETERS, "reset", coarse.path, "--to", "rxd0", *options,
                names=(coarse.path, "'/dev/rxd0'", "logical blocks of 4096", "512"))
        refused(PARAMETERS, "reset", "rxd1", "--to", "rxd0", *options,
                names=("'/dev/rxd1'", "'/dev/rxd0'", str(8 * MIB), str(16 * MIB)))
        refused(DEVICE, "reset", "rxd2", "--to", "rxd0", "--force", *options,
                names=("'/dev/rxd2'", "its memory is reserved", "'rxadm load --into'"))
        refused(DEVICE, "reset", "rxd3", "--to", "rxd2", "--force", *options,
                names=("'/dev/rxd2'", "its memory is reserved", "'rxadm clone --expendable'"))
        refused(MEMORY, "reset", "rxd3", "--to", "rxd0", *options,
                names=("'/dev/rxd3'", "4M", "'rxadm limit'"))
        refused(DEVICE, "reset", "rxd4", "--to", "rxd0", *options,
                names=("/dev/rxd4", "read-only", "--setrw"))
        refused(DEVICE, "reset", "rxd4", "--to", "rxd9", *options, names="rxd9")
        refused(DEVICE, "reset", "rxd9", "--to", "rxd0", *options, names="rxd9")
        refused(PARAMETERS, "reset", "rxd0", "--to", "/dev/rxd0", *options, names="another")
    assert [disk.query().mem_used for disk in (small, limited)] == [0, 0]
    assert digest(readonly) == digest(source)
    assert reserved.query().mem_used == 16 * MIB
    ok("limit", "rxd3", "none")
    ok("reset", "rxd3", "--to", "rxd0")
    assert digest(limited) == digest(source)


@pytest.mark.one_kernel
def test_reserved(lab):
    """Its clones, and clones of them, are expendable; no disk is reset to one of these."""
    source, other = filled(lab, flags=CREATE_RESERVE), lab.ramdisk(16 * MIB)
    golden = digest(source)
    assert "RXD_CLONE_EXPENDABLE" in ok("clone", source.path, "--expendable", "--dry-run")
    copy, = clone(lab, source, "--expendable")
    second, third = clone(lab, copy, "--expendable", "--count", "2")
    assert source.attribute("state") == "reserved"
    assert copy.attribute("state") == second.attribute("state") == "overcommit expendable"
    assert digest(copy) == digest(second) == golden
    for options in (), ("--dry-run",):
        # Also if 1024 disks exceed the share of memory.
        for count in "1", "1024":
            refused(DEVICE, "clone", source.path, "--count", count, *options,
                    names=(f"'{source.path}'", "its memory is reserved", "give --expendable"))
        for disk in copy, second:
            words = f"'{disk.path}'", "shares data with a RAM disk whose memory is reserved"
            refused(DEVICE, "clone", disk.path, "--overcommit", *options,
                    names=(*words, "give --expendable"))
            refused(DEVICE, "clone", disk.path, "--count", "1024", *options,
                    names=(*words, "give --expendable"))
            refused(DEVICE, "reset", other.path, "--to", disk.path, *options,
                    names=(*words, "'rxadm clone --expendable' makes a new RAM disk"))

    direct.write(source.path, 0, stamp(40, MIB))
    direct.write(copy.path, MIB, stamp(41, MIB))
    changed = digest(source), digest(copy)
    assert len({golden, *changed}) == 3 and digest(second) == digest(third) == golden
    query = source.query()
    assert (query.mem_used, query.nospc) == (16 * MIB, 0)

    # With other data, they are as other disks.
    plain = filled(lab, data=MIB)
    ok("reset", copy.path, "--to", plain.path, "--force")
    ok("clear", third.path, "--force")
    for disk in copy, third:
        ok("reset", other.path, "--to", disk.path, "--force")
        assert digest(clone(lab, disk, "--overcommit")[0]) == digest(disk) == digest(other)
    assert digest(second) == golden and digest(source) == changed[0]
    source.remove()
    assert digest(second) == golden
    assert digest(clone(lab, second, "--expendable")[0]) == golden


@pytest.fixture(name="lost")
def fixture_lost(lab):
    """A RAM disk with data, and a clone of it that was given up."""
    source = filled(lab)
    copy, = clone(lab, source, "--expendable")
    give_up(lab, source)
    assert copy.attribute("state") == "overcommit expendable lost"
    return source, copy


@pytest.mark.one_kernel
def test_lost(lab, lost, kernel_log):
    """A message names the disk that is lost, and not the other one."""
    source, copy = lost
    golden = digest(source)
    words = "its data is lost", "'rxadm remove' removes it"
    for options in (), ("--dry-run",):
        refused(DEVICE, "clone", copy.path, *options, names=(f"device '{copy.path}'", *words))
        refused(DEVICE, "reset", copy.path, "--to", source.path, *options,
                names=(f"device '{copy.path}': cannot be reset", *words))
        refused(DEVICE, "reset", source.path, "--to", copy.path, "--force", *options,
                names=(f"source '{copy.path}': cannot be the source of a reset", *words))
        refused(DEVICE, "clear", copy.path, *options,
                names=(copy.path, "Input/output error; if 'rxadm list' shows it as lost",
                       "can only be removed"))
        for size in "8M", "32M", "+16M":
            refused(DEVICE, "resize", copy.path, size, *options,
                    names=(f"device '{copy.path}': cannot be resized", *words))
    table = f"0 {MIB // SECTOR} rxcache {DISK} {copy.path} 0 0\n"
    assert "Input/output error" in run("dmsetup", "create", "c", check=False, stdin=table).stderr
    assert any("the cache device was given up" in line for line in kernel_log.lines())
    ok("remove", copy.path)
    assert digest(source) == golden


@pytest.mark.one_kernel
def test_save_of_a_lost_disk(lost, tmp_path, kernel_log):
    """Whether it is open or not. The kernel log has named it."""
    copy = lost[1]
    image = tmp_path / "image"
    for opened in False, True:
        with contextlib.ExitStack() as stack:
            if opened:
                stack.enter_context(Direct(copy.path, os.O_RDONLY))
            for args in (image,), (image, "--update"), ("-",), (image, "--no-freeze"):
                refused(DEVICE, "save", copy.path, *args,
                        names=(f"device '{copy.path}': cannot be saved", "its data is lost"))
    assert not image.exists()
    assert any(f"{copy.name} was given up" in line for line in kernel_log.lines())


def test_limit_of_a_clone(lab):
    """The limit counts what a disk refers to, shared or not."""
    source = filled(lab, mem_limit=8 * MIB + 2 * BLOCK)
    copy, = clone(lab, source)
    direct.write(copy.path, 0, stamp(1, MIB))
    direct.write(copy.path, 10 * MIB, stamp(2))
    with pytest.raises(OSError):
        direct.write(copy.path, 11 * MIB, stamp(3))
    assert copy.query().mem_used == 8 * MIB + 2 * BLOCK
    assert source.query().mem_used == 8 * MIB + BLOCK
    direct.write(source.path, 11 * MIB, stamp(3))


@pytest.mark.one_kernel
def test_written_before_it_is_reset(lab, tmp_path):
    """The driver compares, and rxadm looks at the disk again."""
    source, other, first = filled(lab), filled(lab, data=MIB), filled(lab, data=MIB)
    for disk in other, first:
        ok("save", disk.path, f"{tmp_path}/{disk.name}")
    number = last_of(tmp_path, "0xb7, 0x7,", "reset", first.path, "--to", "rxd0")
    with held_at(tmp_path / "log", "ioctl", "reset", other.path, "--to", "rxd0",
                 number=number) as process:
        direct.write(other.path, 4 * MIB, stamp(5))
        let_go(process)
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (BUSY, "") and "was not saved" in errors, errors
    assert direct.read(other.path, 4 * MIB, BLOCK) == stamp(5)
    assert source.query().mem_used != other.query().mem_used


@pytest.mark.one_kernel
def test_reset_leaves_the_image(lab, tmp_path, nothing_left):
    """The next stop must not save foreign data over the image."""
    source = filled(lab)
    image = tmp_path / "image"
    with Configuration(tmp_path) as config:
        config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n")
        config.ok()
        direct.write(disk_of("ramdisk/a").path, 0, stamp(1))
        config.ok("--stop")
        old = image.read_bytes()
        # A reset that the driver refuses changes nothing.
        config.ok()
        disk = disk_of("ramdisk/a")
        run("blockdev", "--setro", disk.path)
        refused(DEVICE, "reset", disk.path, "--to", source.path, "--force", names="read-only")
        run("blockdev", "--setrw", disk.path)
        direct.write(disk.path, BLOCK, stamp(2))
        config.ok("--stop")
        assert image.read_bytes() != old and not list(tmp_path.glob("image.new-*"))
        old = image.read_bytes()
        config.ok()
        ok("reset", disk_of("ramdisk/a").path, "--to", source.path, "--force")
        assert config.apply("--stop").returncode == BUSY
        assert image.read_bytes() == old and len(list(tmp_path.glob("image.new-*"))) == 1


# The size, the options of mount for clones, what checks it, and the number of clones.
FILESYSTEMS = {"ext4": (64 * MIB, (), ("e2fsck", "-fn"), 2),
               "xfs": (320 * MIB, ("-o", "nouuid"), ("xfs_repair", "-n"), 1)}


@pytest.mark.parametrize("kind", FILESYSTEMS)
def test_filesystem(lab, kind):
    """Source and clone are mounted at once, changed, checked, and reset."""
    size, options, check, count = FILESYSTEMS[kind]
    source = lab.ramdisk(size)
    run(f"mkfs.{kind}", "-q", source.path)
    directory = lab.mount(source.path)
    for number in range(8):
        with open(os.path.join(directory, f"file{number}"), "wb") as file:
            file.write(stamp(number, MIB))
    run("umount", directory)
    copies = clone(lab, source, "--count", count)
    first = lab.mount(source.path)
    mounted = [lab.mount(copy.path, *options) for copy in copies]
    for number, folder in enumerate([first, *mounted]):
        with open(os.path.join(folder, f"file{number}"), "wb") as file:
            file.write(stamp(100 + number, MIB))
        os.unlink(os.path.join(folder, f"file{number + 3}"))
        with open(os.path.join(folder, "own"), "wb") as file:
            file.write(stamp(200 + number, 2 * MIB))
    for folder in first, *mounted:
        run("umount", folder)
    for number, disk in enumerate([source, *copies]):
        run(*check, disk.path)
        folder = lab.mount(disk.path, *(options if number else ()))
        assert sorted(set(os.listdir(folder)) - {"lost+found"}) == sorted(
            [f"file{other}" for other in range(8) if other != number + 3] + ["own"])
        for other in range(3):
            with open(os.path.join(folder, f"file{other}"), "rb") as file:
                assert file.read() == stamp(other + 100 * (other == number), MIB)
        with open(os.path.join(folder, "own"), "rb") as file:
            assert file.read() == stamp(200 + number, 2 * MIB)
        run("umount", folder)
    for copy in copies:
        ok("reset", copy.path, "--to", source.path)
    run(*check, copies[-1].path)
    assert digest(copies[-1]) == digest(source)


def partitions(ramdisk):
    return sorted(name for name in os.listdir(f"/sys/block/{ramdisk.name}")
                  if name.startswith(f"{ramdisk.name}p"))


def test_partitions(lab):
    source = lab.ramdisk(64 * MIB)
    with Direct(source.path) as device:
        device.partition(2048, 2 * 2048)
    run("mkfs.ext4", "-q", "/dev/rxd0p1")
    copy, other = *clone(lab, source), lab.ramdisk(64 * MIB)
    assert partitions(copy) == ["rxd1p1"] and partitions(other) == []
    directory = lab.mount("/dev/rxd1p1")
    refused(BUSY, "reset", "rxd1", "--to", "rxd0", names=directory)
    run("umount", directory)
    run("e2fsck", "-fn", "/dev/rxd0p1")
    # The partitions are those of the data.
    ok("reset", other.path, "--to", source.path)
    assert partitions(other) == ["rxd2p1"]
    directory = lab.mount("/dev/rxd2p1")
    run("umount", directory)
    with Direct(source.path) as device:
        device.write(0, bytes(BLOCK))
        run("blockdev", "--rereadpt", source.path)
    ok("reset", other.path, "--to", source.path)
    assert partitions(other) == partitions(source) == [] != partitions(copy)


@pytest.mark.parametrize("options", [
    pytest.param(("--bs=4k",), id="4k", marks=[pytest.mark.one_kernel, pytest.mark.long]),
    pytest.param(("--bs=512", f"--io_size={8 if LONG else 1}M"), id="512",
                 marks=pytest.mark.one_kernel),
    pytest.param(("--bsrange=4k-128k", "--bs_unaligned=0"), id="mixed")])
def test_verified_beside_each_other(lab, options):
    """All disks are written at random at once, and verified."""
    source = filled(lab, 16 * MIB, 15 * MIB)
    disks = [source, *clone(lab, source, "--count", "2")]
    disks += clone(lab, disks[1])
    golden = digest(clone(lab, source, "--read-only")[0])
    processes = []
    for number, disk in enumerate(disks):
        processes.append(subprocess.Popen(
            ["fio", "--name=verify", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
             "--iodepth=8", "--size=16M", f"--io_size={8 if LONG else 3}M",
             "--rw=randwrite", "--verify=crc32c",
             "--verify_fatal=1", f"--randseed={number}", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for process in processes:
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
    assert len({digest(disk) for disk in disks}) == 4
    assert digest(RamDisk(4)) == golden
    ok("reset", disks[0].path, "--to", "/dev/rxd4", "--force")
    assert digest(disks[0]) == golden


@pytest.mark.one_kernel
def test_many(lab):
    """Clones of a disk with holes."""
    source = filled(lab, 8 * MIB, 2 * MIB)
    golden = digest(source)
    made = clone(lab, source, "--count", MANY, "--overcommit")
    assert len({copy.query().uuid for copy in made}) == MANY
    with Control() as control:
        assert len(control.query_all()) == MANY + 1
    assert digest(made[-1]) == digest(made[MANY // 2]) == golden
    ok("remove", "--all", "--force")


# Which disk is the parent of the next clone.
PARENTS = {"clones": lambda disks, chosen: disks[0], "chain": lambda disks, chosen: disks[-1],
           "tree": lambda disks, chosen: chosen.choice(disks)}


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", PARENTS)
def test_many_removed_in_random_order(lab, kind):
    """Each disk is changed on its own, and the others keep their data while it is removed."""
    chosen = random.Random(FAMILY)
    # A part of a disk, in two leaves, and the numbers of the stamps in its pages.
    start, pages = 2 * MIB - 32 * BLOCK, 64
    numbers, stamps = {}, []

    def change(ramdisk):
        page = chosen.randrange(pages)
        numbers[ramdisk] = [*numbers[ramdisk]]
        numbers[ramdisk][page] = len(stamps)
        stamps.append(stamp(len(stamps)))
        direct.write(ramdisk.path, start + page * BLOCK, stamps[-1])

    def check(ramdisk):
        wanted = b"".join(stamps[number] for number in numbers[ramdisk])
        is_same = direct.read(ramdisk.path, start, len(wanted)) == wanted
        assert is_same, ramdisk.path

    disks = [lab.ramdisk(4 * MIB)]
    stamps += [stamp(number) for number in range(pages)]
    numbers[disks[0]] = list(range(pages))
    direct.write(disks[0].path, start, b"".join(stamps))
    with Control() as control:
        for _ in range(FAMILY):
            parent = PARENTS[kind](disks, chosen)
            index = control.clone(parent.index, flags=CREATE_OVERCOMMIT)
            disks.append(lab.adopt_ramdisk(index))
            numbers[disks[-1]] = numbers[parent]
            change(disks[-1])
            change(parent)
        for ramdisk in disks:
            check(ramdisk)
        chosen.shuffle(disks)
        while disks:
            control.remove(disks.pop().index)
            for ramdisk in chosen.sample(disks, min(2, len(disks))):
                check(ramdisk)
                change(ramdisk)
