# SPDX-License-Identifier: GPL-2.0-only
"""--dry-run: it checks everything, prints what would be done, and changes nothing."""

import errno
import re
import uuid
from pathlib import Path

import pytest

from rxdlib import direct, dm, modules
from rxdlib.command import program, rxadm, run
from rxdlib.control import CLEAR, CREATE, CREATE_RESERVE, REMOVE, RESIZE
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK, state

pytestmark = pytest.mark.one_kernel
PARAMETERS, MEMORY, DEVICE, BUSY = 1, 3, 4, 5
NOTE = "rxadm: %s: note: the driver did not check this, because the module rxd %s\n"
SYS_IOCTL = 16
UUID = "5f0c7a1e-6c2b-4d0e-9a55-0123456789ab"


def available():
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(re.search(r"MemAvailable: +(\d+)", text).group(1)) * 1024


def dry(*args):
    """Return what would be done; nothing is done."""
    before = state()
    result = rxadm(*args, "--dry-run")
    assert (result.returncode, result.stderr) == (0, ""), result
    assert state() == before
    return result.stdout


def agrees(code, *args, words):
    """--dry-run is refused by the same line as the command without it."""
    before = state()
    results = [rxadm(*args, *more) for more in ((), ("--dry-run",))]
    assert [result.returncode for result in results] == [code, code], results
    # The amount of available memory changes all the time.
    said = [re.sub(r"[\d.]+\w+ of memory", "", result.stderr) for result in results]
    assert said[0] == said[1]
    assert len(results[0].stderr.splitlines()) == 1
    assert [result.stdout for result in results] == ["", ""]
    for word in words:
        assert word in results[0].stderr
    assert state() == before


def test_create():
    nil = "00000000-0000-0000-0000-000000000000"
    assert dry("create", "--size", "64M") == (
        "ioctl(/dev/rxd-control, RXD_CREATE, {version=1, flags=0, index=-1, "
        "logical_block_size=0, size=67108864, mem_limit=0, folio_size=0, node=-1, "
        f"uuid={nil}}})\n")
    assert dry("create", "--size", "1T", "--overcommit", "--detect-zeroes", "--index", "3",
               "--logical-block-size", "4096", "--mem-limit", "1M", "--folio-size", "2M",
               "--node", "interleave", "--uuid", UUID) == (
        "ioctl(/dev/rxd-control, RXD_CREATE, {version=1, "
        "flags=RXD_CREATE_OVERCOMMIT|RXD_CREATE_DETECT_ZEROES, index=3, "
        "logical_block_size=4096, size=1099511627776, mem_limit=1048576, folio_size=2097152, "
        f"node=-2, uuid={UUID}}})\n")


def test_create_refused(lab):
    lab.ramdisk(4 * MIB, index=3, uuid=uuid.UUID(UUID).bytes)
    agrees(BUSY, "create", "--size", "4M", "--index", "3", words=("/dev/rxd3",))
    agrees(BUSY, "create", "--size", "4M", "--uuid", UUID, words=(UUID, "another RAM disk"))
    agrees(PARAMETERS, "create", "--size", "1T", words=("'1T'", "--overcommit"))
    agrees(PARAMETERS, "create", "--size", "4M", "--node", "1023", words=("'1023'",))
    # If there are several errors, the driver determines which one is reported.
    agrees(PARAMETERS, "create", "--size", "4M", "--node", "31", "--index", "3", words=("'31'",))
    agrees(BUSY, "create", "--size", "1T", "--uuid", UUID, words=(UUID,))
    # The available memory is more than a RAM disk can get.
    size = f"{available() // MIB}M"
    agrees(MEMORY, "create", "--size", size, "--reserve", "--overcommit", words=(size,))


def test_resize_of_reserved_memory(lab):
    """The driver searches for data beyond the new end, and decides whether growth is possible."""
    ramdisk = lab.ramdisk(8 * MIB, flags=CREATE_RESERVE)
    call = "ioctl(/dev/rxd-control, RXD_RESIZE, {version=1, flags=0, index=0, size=%d})\n"
    assert dry("resize", "rxd0", "4M") == call % (4 * MIB)
    agrees(PARAMETERS, "resize", "rxd0", "1T", words=("'1T'", "--overcommit"))
    ramdisk.set_attribute("mem_limit", 8 * MIB)
    agrees(MEMORY, "resize", "rxd0", "16M", words=("'16M'",))
    direct.write(ramdisk.path, 6 * MIB, stamp(1))
    agrees(BUSY, "resize", "rxd0", "4M", words=("'4M'", "--force"))


def test_resize(lab):
    ramdisk = lab.ramdisk(8 * MIB)
    direct.write(ramdisk.path, 6 * MIB, stamp(1))
    call = "ioctl(/dev/rxd-control, RXD_RESIZE, {version=1, flags=%s, index=0, size=%d})\n"
    assert dry("resize", "rxd0", "16M") == call % ("0", 16 * MIB)
    assert dry("resize", "rxd0", "7M") == call % ("0", 7 * MIB)
    assert dry("resize", "rxd0", "1T", "--overcommit") == \
        call % ("RXD_RESIZE_OVERCOMMIT", 1 << 40)
    assert dry("resize", "rxd0", "4M", "--force") == call % ("RXD_RESIZE_FORCE", 4 * MIB)
    agrees(BUSY, "resize", "rxd0", "4M", words=("'4M'", "--force"))
    agrees(PARAMETERS, "resize", "rxd0", "1T", words=("'1T'", "--overcommit"))
    with direct.Direct(ramdisk.path):
        agrees(BUSY, "resize", "rxd0", "7M", words=("open in process",))
    assert direct.read(ramdisk.path, 6 * MIB, 4096) == stamp(1)
    cache = lab.cache()
    agrees(BUSY, "resize", cache.ramdisk.name, "4M", "--force", words=(cache.name,))


def test_remove(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    seen = ramdisk.seen()
    assert dry("remove", "rxd0") == \
        "ioctl(/dev/rxd-control, RXD_REMOVE, {version=1, flags=RXD_IF_SAME, index=0, " \
        f"diskseq={seen['diskseq']}, changes={seen['changes']}}})\n"
    with direct.Direct(ramdisk.path):
        agrees(BUSY, "remove", "rxd0", words=("open in process",))
    agrees(DEVICE, "remove", "rxd9", words=("rxd9",))


def test_clear(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    agrees(BUSY, "clear", "rxd0", words=("--force",))
    assert dry("clear", "rxd0", "--force") == \
        "ioctl(/dev/rxd-control, RXD_CLEAR, {version=1, flags=RXD_IF_SAME, index=0, " \
        f"diskseq={ramdisk.seen()['diskseq']}, changes=RXD_CHANGES_ANY}})\n"
    assert direct.read(ramdisk.path, 0, 4096) == stamp(1)
    with direct.Direct(ramdisk.path):
        agrees(BUSY, "clear", "rxd0", words=("open in process",))
    run("blockdev", "--setro", ramdisk.path)
    agrees(DEVICE, "clear", "rxd0", "--force", words=("read-only", "--setrw"))
    agrees(DEVICE, "clear", "rxd9", words=("rxd9",))


def test_limit(lab):
    """The printed command has the same effect in a shell."""
    ramdisk = lab.ramdisk(4 * MIB)
    line = dry("limit", "rxd0", "1M")
    number = Path(f"/sys/block/{ramdisk.name}/dev").read_text(encoding="ascii").strip()
    assert line == f"echo '1048576' > '/sys/dev/block/{number}/rxd/mem_limit'\n"
    run("sh", "-c", line)
    assert ramdisk.query().mem_limit == MIB
    assert dry("limit", "rxd0", "none") == line.replace("1048576", "0")
    agrees(PARAMETERS, "limit", "rxd0", "4097", words=("'4097'",))
    agrees(DEVICE, "limit", "rxd9", "1M", words=("rxd9",))


def test_map_and_unmap(lab):
    """The printed command has the same effect as rxadm."""
    lab.ramdisk(16 * MIB)
    command = ("map", "--cache", "rxd0", "--origin", DISK, "--name", "one", "--mode",
               "writearound")
    line = dry(*command)
    sectors = int(run("blockdev", "--getsz", DISK).stdout)
    assert re.fullmatch(r"dmsetup create one --uuid RXCACHE-\d+:\d+ --table '0 (\d+) rxcache "
                        r"\d+:\d+ \d+:\d+ 6 writearound block_size 8 if_same \d+ 0 0'\n", line)
    assert f"'0 {sectors} rxcache " in line
    run("sh", "-c", line)
    lab.adopt_mapped("one")
    table = re.search("'(.*)'", line).group(1)
    assert dm.table("one") == re.sub(" 6 (.*) if_same .* 0$", r" 3 \1 0", table)
    assert dry("unmap", "one") == "dmsetup remove one\n"
    with direct.Direct("/dev/mapper/one"):
        agrees(BUSY, "unmap", "one", words=("open in process",))
    agrees(BUSY, "map", "--cache", "rxd0", "--origin", DISK, words=("already", "rxadm unmap"))
    agrees(DEVICE, "unmap", "two", words=("'two'",))


OLD_MODULE = f"""
import ctypes
import os
import struct
import sys

def call(code, yes=0, no=0, value=0):
    return struct.pack("=HBBI", code, yes, no, value)

# RXD_DRY_RUN comes in each of these ioctls, and an older module refuses it.
load, equal, give = 0x20, 0x15, 0x06
requests = {[CREATE, REMOVE, RESIZE, CLEAR]}
allow, refuse = call(give, value=0x7fff0000), call(give, value=0x50000 | {errno.EINVAL})
program = call(load, value=0) + call(equal, 0, 1 + len(requests), {SYS_IOCTL})
program += call(load, value=24)
program += b"".join(call(equal, len(requests) - i, 0, request)
                    for i, request in enumerate(requests))
program += allow + refuse
text = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(program) // 8,
                                                 ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, ctypes.byref(filter)):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


def old(*args):
    """--dry-run beside a module that does not know RXD_DRY_RUN."""
    before = state()
    result = run("python3", "-c", OLD_MODULE, program("rxadm"), *args, "--dry-run", check=False)
    assert state() == before
    return result


def test_older_module(lab, tmp_path):
    """A line says that the driver did not check; rxadm still checks what it can without it."""
    ramdisk = lab.ramdisk(8 * MIB)
    lab.ramdisk(8 * MIB)
    for args in (("create", "--size", "64M"), ("resize", "rxd0", "4M"), ("clear", "rxd0"),
                 ("remove", "rxd0"), ("remove", "--all")):
        result = old(*args)
        assert (result.returncode, result.stderr) == (
            0, NOTE % (args[0], "is older than rxadm")), result
        assert result.stdout == dry(*args)
    result = old("create", "--size", "1T")
    assert (result.returncode, result.stdout) == (PARAMETERS, "")
    assert result.stderr.startswith(NOTE % ("create", "is older than rxadm"))
    assert len(result.stderr.splitlines()) == 2
    config = tmp_path / "rxd.conf"
    config.write_text("[ramdisk a]\nsize = 64M\n", encoding="ascii")
    result = old("apply", "--config", config, "a")
    assert (result.returncode, result.stdout, result.stderr) == (
        0, "ramdisk a: create a RAM disk of 64M\n",
        NOTE % ("apply: ramdisk a", "is older than rxadm"))
    with direct.Direct(ramdisk.path):
        for command in "remove", "clear":
            result = old(command, "rxd0")
            assert (result.returncode, result.stdout) == (BUSY, "")
            assert len(result.stderr.splitlines()) == 1


def test_modules_stay_unloaded(tmp_path):
    modules.unload()
    try:
        result = rxadm("create", "--size", "64M", "--dry-run")
        assert (result.returncode, result.stderr) == (
            0, NOTE % ("create", "is not loaded"))
        assert result.stdout.startswith("modprobe rxd\nioctl(")
        # A guessed error comes with the note, too. It assumes the default share of memory.
        for size in "1T", "90%":
            result = rxadm("create", "--size", size, "--dry-run")
            assert (result.returncode, result.stdout) == (PARAMETERS, "")
            assert result.stderr.startswith(NOTE % ("create", "is not loaded"))
            lines = result.stderr.splitlines()
            assert len(lines) == 2 and f"'{size}'" in lines[1] and "(75 % of" in lines[1]
        config = tmp_path / "rxd.conf"
        config.write_text("[ramdisk a]\nsize = 64M\n", encoding="ascii")
        result = rxadm("apply", "--config", config, "--dry-run")
        assert (result.returncode, result.stdout, result.stderr) == (
            0, "ramdisk a: create a RAM disk of 64M\n",
            NOTE % ("apply: ramdisk a", "is not loaded"))
        assert not modules.loaded() & {modules.RXD, modules.RXCACHE}
    finally:
        modules.load()
