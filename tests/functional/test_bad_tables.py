# SPDX-License-Identifier: GPL-2.0-only
"""Table lines that rxcache must refuse with a reason, and without a change."""

import errno
import os

import pytest

from rxdlib.command import run
from rxdlib.direct import MIB
from rxdlib.lab import DISK, state

pytestmark = pytest.mark.one_kernel

CASES = [
    # arguments, errno, a word of the reason
    ("", errno.EINVAL, "origin"),
    ("{disk}", errno.EINVAL, "cache device"),
    ("{disk} {rxd} x", errno.EINVAL, "feature count"),
    ("{disk} {rxd} -1", errno.EINVAL, "feature count"),
    ("{disk} {rxd} 99", errno.EINVAL, "feature count"),
    ("{disk} {rxd} 1 if_same", errno.EINVAL, "if_same must have two numbers"),
    ("{disk} {rxd} 2 if_same 1", errno.EINVAL, "if_same must have two numbers"),
    ("{disk} {rxd} 3 if_same 1 -1", errno.EINVAL, "if_same must have two numbers"),
    ("{disk} {rxd} 3 if_same x 1", errno.EINVAL, "if_same must have two numbers"),
    ("{disk} {rxd} 6 if_same 1 1 if_same 1 1", errno.EINVAL, "unknown or repeated feature"),
    ("{disk} {rxd} 1", errno.EINVAL, ""),
    ("{disk} {rxd} 1 writeback", errno.EINVAL, "writethrough"),
    ("{disk} {rxd} 1 7", errno.EINVAL, "feature"),
    ("{disk} {rxd} 1 Writethrough", errno.EINVAL, "feature"),
    ("{disk} {rxd} 2 writethrough writethrough", errno.EINVAL, "repeated"),
    ("{disk} {rxd} 1 block_size", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 0", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 4", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 9", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 24", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 4096", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size -8", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 8k", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 4294967304", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 2 block_size 18446744073709551624", errno.EINVAL, "block_size"),
    ("{disk} {rxd} 3 block_size 8 block_size", errno.EINVAL, "repeated"),
    ("{disk} {rxd} 2 writethrough passthrough", errno.EINVAL, "repeated"),
    ("{disk} {rxd} 1 writethrough 2 key value", errno.EINVAL, "policy"),
    ("{disk} {rxd} 0 1 seq_cutoff", errno.EINVAL, "policy"),
    ("{disk} {rxd} 0 2 seq_cutoff", errno.EINVAL, ""),
    ("{disk} {rxd} 0 2 size 1M", errno.EINVAL, "size must be a number"),
    ("{disk} {rxd} 0 2 size 65537", errno.EINVAL, "size must be a multiple"),
    ("{disk} {rxd} 0 2 size 4096", errno.EINVAL, "size must be 0, or at least"),
    ("{disk} {rxd} 0 2 size 1099511627776", errno.EINVAL, "size must be 0, or at most"),
    ("{disk} {rxd} 0 2 min_size 1M", errno.EINVAL, "min_size must be a number"),
    ("{disk} {rxd} 0 2 min_size 65537", errno.EINVAL, "min_size must be a multiple"),
    ("{disk} {rxd} 0 2 min_size 4096", errno.EINVAL, "min_size must be 0, or at least"),
    ("{disk} {rxd} 0 2 min_size 1099511627776", errno.EINVAL, "min_size must be 0, or at most"),
    ("{disk} {rxd} 0 4 size 1048576 min_size 1052672", errno.EINVAL,
     "min_size must be 0, or at most size"),
    ("{disk} {rxd} 0 2 seq_cutoff -1", errno.EINVAL, "seq_cutoff"),
    ("{disk} {rxd} 0 2 seq_cutoff 513", errno.EINVAL, "seq_cutoff"),
    ("{disk} {rxd} 0 2 seq_cutoff 1M", errno.EINVAL, "seq_cutoff"),
    ("{disk} {rxd} 0 2 seq_cutoff 18446744073709552128", errno.EINVAL, "seq_cutoff"),
    ("{disk} {rxd} 0 4 seq_cutoff 0 seq_cutoff 0", errno.EINVAL, "policy"),
    ("{disk} {rxd} 0 x", errno.EINVAL, "policy"),
    ("{disk} {rxd} 0 0 surplus", errno.EINVAL, "too many"),
    ("{disk} {rxd} writethrough", errno.EINVAL, "feature count"),
    ("{rxd} {rxd}", errno.EINVAL, "same disk"),
    ("/dev/nothing {rxd}", errno.ENODEV, "origin"),
    ("{disk} /dev/nothing", errno.ENODEV, "cache device"),
    ("/etc/passwd {rxd}", errno.ENODEV, "origin"),
    ("{disk} {loop}", errno.ENODEV, "rxd RAM disk"),
    ("{disk} {linear}", errno.ENODEV, "rxd RAM disk"),
    ("{disk} {tiny}", errno.ENOSPC, "16 cache blocks"),
    ("{disk} {rxd} 2 block_size 2048", errno.ENOSPC, "16 cache blocks"),
    ("{small} {rxd}", errno.ERANGE, "longer than the origin"),
]


@pytest.mark.parametrize("arguments, code, reason", CASES, ids=[case[0] for case in CASES])
def test_refused(lab, kernel_log, arguments, code, reason):
    rxd = lab.ramdisk(8 * MIB)
    names = {"disk": DISK, "rxd": rxd.path}
    if "{tiny}" in arguments:
        names["tiny"] = lab.ramdisk(15 * 4096).path
    if "{small}" in arguments:
        names["small"] = lab.ramdisk(4 * MIB - 4096).path
    if "{loop}" in arguments:
        names["loop"] = lab.loop(4 * MIB)
    if "{linear}" in arguments:
        names["linear"] = lab.linear(4 * MIB, lab.ramdisk(4 * MIB).path)[1]
    before = state()
    kernel_log.rewind()
    result = run("dmsetup", "create", "bad", check=False,
                 stdin=f"0 8192 rxcache {arguments.format(**names)}\n")
    assert result.returncode
    expected = {os.strerror(code)}
    if code == errno.ENODEV:
        # The error for a path that does not exist depends on the kernel version.
        expected |= {os.strerror(errno.ENOENT), os.strerror(errno.ENOTBLK)}
    assert any(text in result.stderr for text in expected), result.stderr
    lines = [line for line in kernel_log.lines() if "rxcache" in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("device-mapper: ") and reason in lines[0]
    assert state() == before
    assert rxd.attribute("state") == "idle"
