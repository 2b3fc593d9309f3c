# SPDX-License-Identifier: GPL-2.0-only
"""Protect devices and files that hold data, unless the user gave them up."""

import contextlib
import errno
import fcntl
import glob
import os
import stat
import sys
import tempfile

from . import command, machine
from .errors import BadInput, TooSmall
from .undo import check
from .units import size as human

BLKGETSIZE64, BLKSSZGET, BLKROGET = 0x80081272, 0x1268, 0x125e
SAMPLE = 64 << 10
SAMPLES = 64


def _ioctl(device, request, length):
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int.from_bytes(fcntl.ioctl(fd, request, bytes(length)), sys.byteorder)
    finally:
        os.close(fd)


def device_size(device):
    return _ioctl(device, BLKGETSIZE64, 8)


def logical_block_size(device):
    """The smallest I/O of a block device, in bytes."""
    return _ioctl(device, BLKSSZGET, 4)


def need_block_device(path):
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    if not stat.S_ISBLK(mode):
        raise BadInput(f"{path}: not a block device")


def sysfs_folder(device):
    """The sysfs folder of a block device, regardless of the name of its node."""
    number = os.stat(device).st_rdev
    return os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")


def _partitions(base):
    return sorted(name for name in os.listdir(base)
                  if os.path.exists(os.path.join(base, name, "partition")))


def _users(device):
    """Why a device is in use; if it is, nothing may write to it."""
    base = sysfs_folder(device)
    parts = _partitions(base)
    for folder in [base, *(os.path.join(base, part) for part in parts)]:
        holders = os.path.join(folder, "holders")
        for holder in os.listdir(holders) if os.path.isdir(holders) else ():
            name = machine.read(f"/sys/block/{holder}/dm/name")
            yield f"{os.path.basename(folder)} is in use by {name or holder}"
        number = machine.read(os.path.join(folder, "dev"))
        for line in machine.read("/proc/self/mountinfo").splitlines():
            if line.split()[2] == number:
                yield f"{os.path.basename(folder)} is mounted on {line.split()[4]}"
    nodes = {os.path.realpath(device), *(f"/dev/{part}" for part in parts)}
    for line in machine.read("/proc/swaps").splitlines()[1:]:
        if os.path.realpath(line.split()[0]) in nodes:
            yield f"{line.split()[0]} is used as swap"
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            yield "another program has it open exclusively"
        else:
            yield error.strerror


def _sampled(fd, size):
    """Describe where samples contain bytes other than zero; None if nowhere."""
    step = max(SAMPLE, size // SAMPLES)
    for offset in [*range(0, size, step), max(0, size - SAMPLE)]:
        data = os.pread(fd, SAMPLE, offset)
        if data.strip(b"\0"):
            return offset
    return None


def _contents(device):
    """The content of a device that is not in use; None if there is none."""
    parts = _partitions(sysfs_folder(device))
    if parts:
        return "partitions (" + ", ".join(parts) + ")"
    found = command.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE",
                        device)[0].split()
    if found:
        return "a signature (" + ", ".join(found) + ")"
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        offset = _sampled(fd, device_size(device))
    finally:
        os.close(fd)
    return None if offset is None else f"data (near byte {offset})"


def need_free_device(device, least, destroy=()):
    """Refuse a device that is in use, too small, or not empty and not given up."""
    need_block_device(device)
    for user in _users(device):
        raise BadInput(f"{device}: in use: {user}")
    if _ioctl(device, BLKROGET, 4):
        raise BadInput(f"{device}: is read-only")
    size = device_size(device)
    if size < least:
        raise TooSmall(f"{device}: has {human(size)}, must have at least {human(least)}")
    if os.path.realpath(device) in {os.path.realpath(name) for name in destroy}:
        return
    held = _contents(device)
    if held:
        raise BadInput(f"{device}: holds {held}; --destroy {device} allows overwriting it")


def need_readable_device(device, least=1):
    """Check a device that is only read; it may be in use."""
    need_block_device(device)
    try:
        size = device_size(device)
    except OSError as error:
        raise BadInput(f"{device}: {error.strerror}") from error
    if size < least:
        raise TooSmall(f"{device}: has {human(size)}, must have at least {human(least)}")


def _loop_device(path):
    """The loop device that has this file, which the kernel lets anyone write to; or None."""
    for backing in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if os.path.samefile(machine.read(backing).strip(), path):
                return f"/dev/{backing.split('/')[3]}"
    return None


def need_free_file(path, destroy=()):
    """Refuse a file in use, and one with data other than zeros that is not given up."""
    user = _loop_device(path)
    if user:
        raise BadInput(f"{path}: in use: {user} has it")
    if os.path.realpath(path) in {os.path.realpath(name) for name in destroy}:
        return
    with open(path, "rb") as file:
        while True:
            check()
            data = file.read(1 << 20)
            if not data:
                return
            if data.strip(b"\0"):
                raise BadInput(f"{path}: holds data; --destroy {path} allows overwriting it")


def need_directory(path, writable=True):
    if not os.path.isdir(path):
        raise BadInput(f"{path}: must be an existing directory")
    if writable and not os.access(path, os.W_OK):
        raise BadInput(f"{path}: cannot be written")


def takes_direct(path):
    """Whether a file, or a new file in a directory, supports direct I/O."""
    try:
        if not os.path.isdir(path):
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC))
            return True
        with tempfile.TemporaryFile(prefix="rxbench-", dir=path) as file:
            os.close(os.open(f"/proc/self/fd/{file.fileno()}",
                             os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC))
        return True
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise BadInput(f"{path}: {error.strerror}") from error


def no_direct(path):
    """Why direct I/O is not possible there."""
    mount = machine.mount_of(path)
    return (f"{path}: {mount['type'] if mount else 'its file system'} does not support direct "
            f"I/O on Linux {os.uname().release}")
