# SPDX-License-Identifier: GPL-2.0-only
"""Arguments that the control ioctls must refuse without a change."""

import ctypes
import errno
import mmap
import os
import stat
import uuid

import pytest

from rxdlib import control as ctl
from rxdlib.command import as_nobody
from rxdlib.control import Control
from rxdlib.direct import BLOCK, KIB, MIB
from rxdlib.lab import state

pytestmark = pytest.mark.one_kernel

U32, U64 = (1 << 32) - 1, (1 << 64) - 1


STATE = bytes(range(16))
TAKEN = uuid.UUID("7a3d6c10-1f4e-4b52-9d07-c0ffee123456")


@pytest.fixture
def control(lab):
    """The node, and /dev/rxd3 that must not change."""
    lab.ramdisk(index=3, uuid=TAKEN.bytes)
    with Control() as node:
        yield node


libc = ctypes.CDLL(None, use_errno=True)


def raw_ioctl(fd, request, address):
    """An ioctl whose argument is just an address."""
    if libc.ioctl(fd, ctypes.c_ulong(request), ctypes.c_void_p(address)) < 0:
        raise OSError(ctypes.get_errno(), "ioctl")


DRY = pytest.mark.parametrize("dry_run", [0, ctl.DRY_RUN], ids=["", "dry-run"])


def refused(code, call, *args, **options):
    before = state()
    with pytest.raises(OSError) as caught:
        call(*args, **options)
    assert errno.errorcode[caught.value.errno] == errno.errorcode[code]
    assert state() == before


def flagged(arguments, flag):
    return {**arguments, "flags": arguments.get("flags", 0) | flag}


@pytest.mark.parametrize("code, arguments", [
    (errno.EINVAL, {"size": 0}),
    (errno.EINVAL, {"size": 1}),
    (errno.EINVAL, {"size": 512}),
    (errno.EINVAL, {"size": BLOCK + 512}),
    (errno.EINVAL, {"size": MIB - 1}),
    (errno.EINVAL, {"size": U64}),
    (errno.EINVAL, {"size": U64, "flags": ctl.CREATE_OVERCOMMIT}),
    (errno.EFBIG, {"size": 1 << 63, "flags": ctl.CREATE_OVERCOMMIT}),
    (errno.EFBIG, {"size": U64 - 4095, "flags": ctl.CREATE_OVERCOMMIT}),
    (errno.ERANGE, {"size": 1 << 40}),
    (errno.EEXIST, {"index": 3}),
    (errno.EINVAL, {"index": -2}),
    (errno.EINVAL, {"index": -(1 << 31)}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"index": (1 << 31) - 1}),
    (errno.EINVAL, {"logical_block_size": 1}),
    (errno.EINVAL, {"logical_block_size": 256}),
    (errno.EINVAL, {"logical_block_size": 1024}),
    (errno.EINVAL, {"logical_block_size": 8192}),
    (errno.EINVAL, {"logical_block_size": U32}),
    (errno.EINVAL, {"mem_limit": 1}),
    (errno.EINVAL, {"mem_limit": BLOCK - 1}),
    (errno.EINVAL, {"mem_limit": U64}),
    (errno.EINVAL, {"flags": 16}),
    (errno.EINVAL, {"flags": U32}),
    (errno.EINVAL, {"flags": ctl.CREATE_RESERVE | ctl.CREATE_DETECT_ZEROES}),
    (errno.EINVAL, {"flags": ctl.CREATE_ELASTIC | ctl.CREATE_OVERCOMMIT}),
    (errno.EINVAL, {"flags": ctl.CREATE_ELASTIC | ctl.CREATE_RESERVE}),
    (errno.EINVAL, {"flags": ctl.CREATE_RESERVE, "mem_limit": BLOCK}),
    (errno.EINVAL, {"folio_size": 1}),
    (errno.EINVAL, {"folio_size": 4095}),
    (errno.EINVAL, {"folio_size": 8192}),
    (errno.EINVAL, {"folio_size": 65536 + 4096}),
    (errno.EINVAL, {"folio_size": 4 * MIB}),
    (errno.EINVAL, {"folio_size": U32}),
    (errno.EINVAL, {"node": -3}),
    (errno.EINVAL, {"node": -(1 << 31)}),
    (errno.ENXIO, {"node": 1}),
    (errno.ENXIO, {"node": 31}),
    (errno.EEXIST, {"uuid": TAKEN.bytes}),
    (errno.EEXIST, {"uuid": TAKEN.bytes, "index": 5}),
    (errno.EINVAL, {"reserved": (1, 0, 0, 0)}),
    (errno.EINVAL, {"reserved": (0, 0, 0, 1 << 63)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
    (errno.EPROTONOSUPPORT, {"version": U32}),
], ids=str)
@DRY
def test_create(control, dry_run, code, arguments):
    refused(code, control.create, **{"size": MIB, **flagged(arguments, dry_run)})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"index": 2}),
    (errno.ENODEV, {"index": ctl.INDEX_MAX}),
    (errno.EINVAL, {"index": -1}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"flags": 2}),
    (errno.ESTALE, {"flags": ctl.IF_SAME}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"diskseq": 1}),
    (errno.EINVAL, {"changes": 1}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
@pytest.mark.parametrize("name", ["remove", "clear"])
@DRY
def test_remove_and_clear(control, dry_run, name, code, arguments):
    refused(code, getattr(control, name), **{"index": 3, **flagged(arguments, dry_run)})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"source": 2}),
    (errno.ENODEV, {"source": ctl.INDEX_MAX}),
    (errno.EINVAL, {"source": -1}),
    (errno.EINVAL, {"source": ctl.INDEX_MAX + 1}),
    (errno.EEXIST, {"index": 3}),
    (errno.EINVAL, {"index": -2}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EEXIST, {"uuid": TAKEN.bytes}),
    (errno.EINVAL, {"flags": 4}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"held_ns": 1}),
    (errno.EINVAL, {"frozen_ns": 1}),
    (errno.EINVAL, {"changes": 1}),
    (errno.EINVAL, {"state": bytes(15) + b"\1"}),
    (errno.EINVAL, {"flags": ctl.CLONE_TRACK}),
    (errno.ENODEV, {"source": 2, "flags": ctl.CLONE_TRACK, "state": STATE}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
@DRY
def test_clone(control, dry_run, code, arguments):
    refused(code, control.clone, **{"source": 3, **flagged(arguments, dry_run)})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"source": 2}),
    (errno.ENODEV, {"index": 2, "source": 3}),
    (errno.EINVAL, {"source": 3}),
    (errno.EINVAL, {"source": -1}),
    (errno.EINVAL, {"index": -1, "source": 3}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1, "source": 3}),
    (errno.EINVAL, {"source": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"flags": 2}),
    (errno.EINVAL, {"diskseq": 1}),
    (errno.EINVAL, {"changes": 1}),
    (errno.EINVAL, {"reserved": (0, 1)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
@DRY
def test_reset(control, dry_run, code, arguments):
    refused(code, control.reset, **{"index": 3, "source": 2, **flagged(arguments, dry_run)})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"index": 2}),
    (errno.ENODEV, {"index": 2, "flags": ctl.TRACK_STOP, "state": bytes(16)}),
    (errno.EINVAL, {"index": -1}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"flags": 2}),
    (errno.EINVAL, {"flags": ctl.TRACK_STOP}),
    (errno.EINVAL, {"state": bytes(16)}),
    (errno.ESTALE, {"flags": ctl.IF_SAME}),
    (errno.ESTALE, {"flags": ctl.IF_SAME | ctl.TRACK_STOP, "state": bytes(16)}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"diskseq": 1}),
    (errno.EINVAL, {"changes": 1}),
    (errno.EINVAL, {"reserved": (0, 1)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
@DRY
def test_track(control, dry_run, code, arguments):
    refused(code, control.track, **{"index": 3, "state": STATE, **flagged(arguments, dry_run)})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"index": 2}),
    (errno.EINVAL, {"index": -1}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"size": 0}),
    (errno.EINVAL, {"size": 512}),
    (errno.EINVAL, {"size": U64}),
    (errno.EFBIG, {"size": 1 << 63, "flags": ctl.RESIZE_OVERCOMMIT}),
    (errno.ERANGE, {"size": 1 << 40}),
    (errno.EINVAL, {"flags": 4}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"reserved": (0, 1)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
@DRY
def test_resize(control, dry_run, code, arguments):
    refused(code, control.resize, **{"index": 3, "size": MIB, **flagged(arguments, dry_run)})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"index": 2}),
    (errno.ENODEV, {"index": 4, "flags": ctl.QUERY_NEXT}),
    (errno.ENODEV, {"index": ctl.INDEX_MAX + 1, "flags": ctl.QUERY_NEXT}),
    (errno.EINVAL, {"index": -1, "flags": ctl.QUERY_NEXT}),
    (errno.EINVAL, {"index": -1}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"flags": 2}),
    (errno.EINVAL, {"flags": ctl.DRY_RUN}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"reserved": (0, 0, 1, 0)}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
def test_query(control, code, arguments):
    refused(code, control.query, **{"index": 3, **arguments})


@pytest.mark.parametrize("code, arguments", [
    (errno.ENODEV, {"index": 2}),
    (errno.ENODEV, {"index": ctl.INDEX_MAX}),
    (errno.EINVAL, {"index": -1}),
    (errno.EINVAL, {"index": ctl.INDEX_MAX + 1}),
    (errno.EINVAL, {"start": 512}),
    (errno.EINVAL, {"start": U64 - 4095}),
    (errno.EINVAL, {"length": 512}),
    (errno.EINVAL, {"length": U64}),
    (errno.EINVAL, {"flags": 1}),
    (errno.EINVAL, {"flags": ctl.DRY_RUN}),
    (errno.EINVAL, {"pad": 1}),
    (errno.EINVAL, {"following": BLOCK}),
    (errno.EINVAL, {"shared": 1}),
    (errno.EINVAL, {"reserved": (0, 1)}),
    (errno.ESTALE, {"diskseq": U64}),
    (errno.EPROTONOSUPPORT, {"version": 0}),
    (errno.EPROTONOSUPPORT, {"version": 2}),
], ids=str)
def test_count_shared(control, code, arguments):
    refused(code, control.count_shared, **{"index": 3, **arguments})


A_CREATE = ctl.CREATE_FIELDS.pack(ctl.ABI_VERSION, 0, ctl.INDEX_ANY, 0, MIB, 0, 0, ctl.NODE_LOCAL,
                                  bytes(16), 0, 0, 0, 0)


@pytest.mark.parametrize("request_number", [
    ctl.number(ctl.READ | ctl.WRITE, 1, ctl.CREATE_FIELDS.size - 8),
    ctl.number(ctl.READ | ctl.WRITE, 1, ctl.CREATE_FIELDS.size + 8),
    ctl.number(ctl.WRITE, 1, ctl.CREATE_FIELDS.size),
    ctl.number(ctl.WRITE, 2, 16),
    ctl.number(ctl.READ | ctl.WRITE, 2, 32),
    ctl.number(ctl.WRITE, 3, 48),
    ctl.number(ctl.READ | ctl.WRITE, 4, 96),
    ctl.number(ctl.WRITE, 0, 32),
    ctl.number(ctl.READ | ctl.WRITE, 5, 32),
    ctl.number(ctl.WRITE, 6, 32),
    ctl.number(ctl.READ | ctl.WRITE, 9, ctl.COUNT_FIELDS.size - 8),
    ctl.number(ctl.WRITE, 9, ctl.COUNT_FIELDS.size),
    ctl.MAP,
    ctl.number(0, 1, 0),
    0, U32, 0x1260,
], ids=hex)
def test_unknown_ioctl(control, request_number):
    buffer = (ctypes.c_char * 256).from_buffer(bytearray(A_CREATE) + bytes(256))
    refused(errno.ENOTTY, raw_ioctl, control.fd, request_number, ctypes.addressof(buffer))


@pytest.mark.parametrize("request_number", [ctl.CREATE, ctl.REMOVE, ctl.RESIZE, ctl.QUERY,
                                            ctl.CLEAR, ctl.TRACK, ctl.COUNT_SHARED])
@pytest.mark.parametrize("address", [0, 1, 0x7ffffffff000, 4096])
def test_bad_address(control, request_number, address):
    refused(errno.EFAULT, raw_ioctl, control.fd, request_number, address)


def test_answer_that_cannot_be_written(control):
    """A structure in read-only memory: nothing may be created."""
    memory = mmap.mmap(-1, 4096)
    memory[:len(A_CREATE)] = A_CREATE
    view = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(view)
    assert libc.mprotect(ctypes.c_void_p(address), 4096, mmap.PROT_READ) == 0
    refused(errno.EFAULT, raw_ioctl, control.fd, ctl.CREATE, address)
    libc.mprotect(ctypes.c_void_p(address), 4096, mmap.PROT_READ | mmap.PROT_WRITE)


def test_node_is_private():
    mode = os.stat(ctl.NODE)
    assert stat.S_ISCHR(mode.st_mode)
    assert stat.S_IMODE(mode.st_mode) == 0o600
    assert (mode.st_uid, mode.st_gid) == (0, 0)


def child_errno(function):
    """The errno that a function raises in a child process, or 0."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            function()
            code = 0
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("call", [
    lambda node: node.create(MIB), lambda node: node.remove(3),
    lambda node: node.resize(3, 2 * MIB), lambda node: node.query(3),
    lambda node: node.clear(3), lambda node: node.clone(3), lambda node: node.reset(2, 3),
    lambda node: node.track(3, STATE), lambda node: node.track(3, STATE, flags=ctl.DRY_RUN),
    lambda node: node.create(MIB, flags=ctl.DRY_RUN),
    lambda node: node.remove(3, flags=ctl.DRY_RUN),
    lambda node: node.resize(3, 2 * MIB, flags=ctl.DRY_RUN),
    lambda node: node.clear(3, flags=ctl.DRY_RUN), lambda node: node.count_shared(3)],
    ids=["create", "remove", "resize", "query", "clear", "clone", "reset", "track",
         "track-dry-run", "create-dry-run", "remove-dry-run", "resize-dry-run", "clear-dry-run",
         "count-shared"])
def test_privilege_for_each_ioctl(control, call):
    """A descriptor that root opened gives an unprivileged user no rights."""
    before = state()

    def unprivileged():
        os.setresuid(65534, 65534, 65534)
        call(control)

    assert child_errno(unprivileged) == errno.EPERM
    assert state() == before


def test_privilege_to_open():
    """An unprivileged user may not open it, even if the file mode permits it."""
    os.chmod(ctl.NODE, 0o666)
    try:
        result = as_nobody("python3", "-c", "open('/dev/rxd-control', 'rb+', buffering=0)",
                           check=False)
    finally:
        os.chmod(ctl.NODE, 0o600)
    assert result.returncode
    assert "PermissionError: [Errno 1]" in result.stderr


@pytest.mark.parametrize("text", ["", "1", "-4096", "4095", "4096x", "x", "1e6",
                                  "18446744073709551616", "18446744073709551615"])
def test_mem_limit_file(lab, text):
    ramdisk = lab.ramdisk(mem_limit=256 * KIB)
    before = state()
    with pytest.raises(OSError) as caught:
        ramdisk.set_attribute("mem_limit", text)
    assert caught.value.errno in (errno.EINVAL, errno.ERANGE)
    assert ramdisk.attribute("mem_limit") == str(256 * KIB)
    assert state() == before


@pytest.mark.parametrize("text", ["0", "101", "-1", "75%", "x", "4294967297"])
def test_memory_share_parameter(text):
    path = "/sys/module/rxd/parameters/memory_share"
    with open(path, encoding="ascii") as file:
        before = file.read()
    assert before == "75\n"
    with pytest.raises(OSError) as caught:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    assert caught.value.errno in (errno.EINVAL, errno.ERANGE)
    with open(path, encoding="ascii") as file:
        assert file.read() == before


def test_memory_share_counts_all(lab):
    """The share is for all devices together; those overcommitted do not count."""
    path = "/sys/module/rxd/parameters/memory_share"
    share = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 10
    with open(path, "w", encoding="ascii") as file:
        file.write("10")
    try:
        half = share // 2 // BLOCK * BLOCK
        lab.ramdisk(half, index=0)
        lab.ramdisk(4 * share // BLOCK * BLOCK, index=1, overcommit=True)
        lab.ramdisk(half - 4 * MIB, index=2)
        with pytest.raises(OSError) as caught:
            lab.ramdisk(8 * MIB, index=3)
        assert caught.value.errno == errno.ERANGE
        with Control() as control:
            control.remove(2)
        lab.ramdisk(8 * MIB, index=3)
    finally:
        with open(path, "w", encoding="ascii") as file:
            file.write("75")
