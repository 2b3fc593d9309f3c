# SPDX-License-Identifier: GPL-2.0-only
"""Writes, zeroes, holes, discards and what fails of them, on RAM disks and what lies on them.

RXD_STACKING_SECONDS says for how long each of the models runs.
"""

import contextlib
import errno
import os
import re
import subprocess
import threading

import pytest

from rxdlib.command import ENVIRONMENT, program
from rxdlib.control import CREATE_DETECT_ZEROES
from rxdlib.direct import BLOCK, GIB, KIB, MIB, Direct
from rxdlib.lab import LONG
from rxdlib.sampled import long
from rxdlib.stacks import RESIZED, STACKS

SECONDS = int(os.environ.get("RXD_STACKING_SECONDS", 60 if LONG else 1))
WRITES = 200        # at least, even if the machine is slow
AREA = MIB
LIMIT = 320 * KIB
REBUILT = ["raid1", "raid5"]
FAILING = [name for name in STACKS if name not in REBUILT]
RESIZED_SHORT = ["disk", "linear", "cache"]


def answered(process, stack):
    """Do what rwmodel requests; return its other output."""
    steps = {"try": stack.attempt, "cut": stack.cut, "mend": stack.mend}
    said = ""
    for line in process.stdout:
        step = steps.get(line.strip())
        if step:
            step()
            # It may have ended because it found a fault.
            with contextlib.suppress(BrokenPipeError):
                os.write(process.stdin.fileno(), b"\n")
        else:
            said += line
    return said


def model(stack, *options, area=AREA):
    """Run rwmodel; return its counters."""
    command = [program("rwmodel"), "-x", "-s", SECONDS, "-m", WRITES, "-b", area // BLOCK,
               *(["-d"] if stack.bare else []), *(["-z"] if stack.discards else []),
               *(["-U"] if stack.scrambled else []),
               *(["-o", stack.origin] if stack.origin else []), *options, stack.path]
    with subprocess.Popen([str(word) for word in command], env=ENVIRONMENT, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        watchdog = threading.Timer(SECONDS + 300, process.kill)
        watchdog.start()
        try:
            said = answered(process, stack)
        except BaseException:
            process.kill()
            raise
        finally:
            watchdog.cancel()
    print(said)
    assert process.returncode == 0, said
    return {key: int(value) for key, value in re.findall(r"(\S+) (\d+)", said)}


def counters(stack):
    """The counters of failed writes of the RAM disks."""
    return [word for ramdisk in stack.ramdisks
            for word in ("-c", f"/sys/block/{ramdisk.name}/rxd")]


def foretold(stack):
    """With one writer, each error is predictable."""
    return ["-l", f"/sys/block/{stack.ramdisks[0].name}/rxd"] if stack.whole else []


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", STACKS)
def test_with_room(lab, name):
    """No operation fails."""
    stack = STACKS[name](lab, AREA)
    counts = model(stack, "-O", "-w", 3, "-r", 2)
    assert counts["failed"] == 0
    assert min(counts[kind] for kind in ("write-zeroes", "zero-out")) > 0
    if stack.discards:
        assert min(counts[kind] for kind in ("hole", "discard")) > 0


@pytest.mark.parametrize("name", FAILING)
def test_at_its_limit(lab, name):
    """One operation at a time: it fails if, and only if, memory was short for it."""
    stack = STACKS[name](lab, AREA, mem_limit=LIMIT)
    counts = model(stack, "-n", "-w", 1, "-r", 1, *stack.errors, *counters(stack),
                   *foretold(stack))
    assert counts["failed"] > 0


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", FAILING)
def test_many_at_its_limit(lab, name):
    stack = STACKS[name](lab, AREA, mem_limit=LIMIT)
    counts = model(stack, "-n", "-w", 4, "-r", 2, *stack.errors, *counters(stack))
    assert counts["failed"] > 0


@pytest.mark.parametrize("name", REBUILT)
def test_array_with_a_member_at_its_limit(lab, name):
    """The member fails, and no I/O of the array does."""
    stack = STACKS[name](lab, AREA, mem_limit=LIMIT)
    assert stack.survives
    counts = model(stack, "-O", "-w", 3, "-r", 2)
    assert counts["failed"] == 0
    assert stack.ramdisks[-1].query().nospc > 0
    assert sum(ramdisk.query().nospc for ramdisk in stack.ramdisks[:-1]) == 0


@pytest.mark.one_kernel
@pytest.mark.parametrize("options", [
    {"folio_size": 64 * KIB}, {"folio_size": 2 * MIB}, {"logical_block_size": 4096},
    {"flags": CREATE_DETECT_ZEROES}], ids=str)
def test_disks_at_their_limit(lab, options):
    stack = STACKS["disk"](lab, AREA, mem_limit=LIMIT, **options)
    unit = options.get("logical_block_size", 512) // 512
    counts = model(stack, "-n", "-w", 1, "-r", 1, "-u", unit, *counters(stack), *foretold(stack))
    assert counts["failed"] > 0


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", RESIZED)
def test_resizes(lab, name):
    """The second half comes and goes; growing, and refused shrinking, change nothing."""
    stack = RESIZED[name](lab, AREA)
    counts = model(stack, "-O", "-w", 3, "-r", 2, *stack.resizing())
    assert counts["resizes"] > 0
    assert counts["failed"] == 0 or stack.shrinks


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", RESIZED_SHORT + long(
    name for name in RESIZED if name not in RESIZED_SHORT + REBUILT))
def test_resizes_at_its_limit(lab, name):
    """An array that rebuilds a member needs memory for all of it, so it can have no limit."""
    # In order, each block is written first: with zeros, which then need no memory.
    flags = CREATE_DETECT_ZEROES if name == "thin_in_order" else 0
    stack = RESIZED[name](lab, AREA, mem_limit=LIMIT, flags=flags)
    counts = model(stack, "-n", "-O", "-w", 3, "-r", 2, *stack.errors, *stack.resizing())
    assert counts["resizes"] > 0
    assert counts["failed"] > 0


def test_more_than_one_request(lab):
    """Zeroing more than 64 MiB takes several requests, any of which may fail."""
    gap = 64 * MIB - BLOCK
    stack = STACKS["disk"](lab, AREA + gap, overcommit=True, mem_limit=LIMIT)
    counts = model(stack, "-n", "-w", 1, "-r", 1, "-g", gap, *counters(stack),
                   *foretold(stack))
    assert counts["failed"] > 0


def test_zeroes_of_a_full_disk(lab):
    """Only the end of the disk has memory: its success must not hide the earlier failure."""
    size = 4 * GIB + 60 * KIB
    ramdisk = lab.ramdisk(size, overcommit=True, mem_limit=64 * KIB)
    with Direct(ramdisk.path) as device:
        device.write(size - 64 * KIB, b"\xa5" * (64 * KIB))
        for zero in device.zero_out, device.zero_range:
            before = ramdisk.query().nospc
            with pytest.raises(OSError) as caught:
                zero(0, size)
            assert caught.value.errno == errno.ENOSPC
            assert ramdisk.query().nospc > before
