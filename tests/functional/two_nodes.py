# SPDX-License-Identifier: GPL-2.0-only
"""A machine with two NUMA nodes: memory comes from where it was asked for.

Not collected with the others: the stage "numa" boots a guest of its own for it.
"""

import errno
import mmap
import os
import time
from pathlib import Path

import pytest

from rxdlib import memory
from rxdlib.command import rxadm
from rxdlib.control import CREATE_RESERVE, NODE_INTERLEAVE, NODE_LOCAL, Control
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct
from rxdlib.lab import state

NODES = 0, 1
SIZE = 128 * MIB
NOISE = 12 * MIB


def free():
    """The free memory of each node once it is the same for a while: disks are freed later."""
    now, end = None, time.monotonic() + 60
    while time.monotonic() < end:
        memory.settled()
        before, now = now, [memory.free_memory(node) for node in NODES]
        if before and all(abs(has - had) < MIB for has, had in zip(now, before)):
            break
        time.sleep(0.3)
    return now


@pytest.fixture(scope="module")
def machine():
    """The free memory of each node without RAM disks. The test's own memory stays where it is."""
    balancing = Path("/proc/sys/kernel/numa_balancing")
    old = balancing.read_text(encoding="ascii")
    balancing.write_text("0", encoding="ascii")
    yield free()
    balancing.write_text(old, encoding="ascii")


@pytest.fixture(autouse=True)
def nothing_is_left(machine):
    """The disks of the test before are free. The tests themselves take some memory."""
    end = time.monotonic() + 60
    while any(had - has > SIZE // 4 for had, has in zip(machine, free())):
        assert time.monotonic() < end, (machine, free())


def written(ramdisk, size, cpu=None, length=MIB, step=MIB):
    """Write a disk from one buffer; return the memory that each node has lost."""
    with Direct(ramdisk.path) as device, mmap.mmap(-1, length) as buffer:
        buffer[:] = b"\x5a" * length
        before = free()
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        try:
            for offset in range(0, size, step):
                assert os.pwritev(device.fd, [buffer], offset) == length
        finally:
            os.sched_setaffinity(0, set(range(os.cpu_count())))
        return [had - has for had, has in zip(before, free())]


def near(taken, expected):
    return all(abs(have - want) < NOISE for have, want in zip(taken, expected))


def test_machine():
    for node in NODES:
        with open(f"/sys/devices/system/node/node{node}/cpulist", encoding="ascii") as file:
            assert file.read() == f"{node}\n"
    with open("/sys/devices/system/node/has_memory", encoding="ascii") as file:
        assert file.read() == "0-1\n"


@pytest.mark.parametrize("folio_size", [0, 64 * KIB, 2 * MIB], ids=["pages", "64K", "2M"])
@pytest.mark.parametrize("node", NODES)
def test_node(lab, node, folio_size):
    """The node is used regardless of the CPU that writes."""
    ramdisk = lab.ramdisk(SIZE, node=node, folio_size=folio_size)
    taken = written(ramdisk, SIZE, cpu=1 - node)
    assert near(taken, [SIZE * (node == number) for number in NODES]), taken
    assert ramdisk.attribute("node") == str(node)


@pytest.mark.parametrize("folio_size", [0, 64 * KIB, 2 * MIB], ids=["pages", "64K", "2M"])
def test_interleave(lab, folio_size):
    """Half is on each node, and each 2 MiB is on one node."""
    ramdisk = lab.ramdisk(SIZE, node=NODE_INTERLEAVE, folio_size=folio_size)
    taken = written(ramdisk, SIZE, cpu=0)
    assert near(taken, [SIZE // 2] * 2), taken
    with Direct(ramdisk.path) as device:
        before = free()
        for offset in range(0, SIZE, 4 * MIB):
            device.discard(offset, 2 * MIB)
        given = [has - had for had, has in zip(before, free())]
        # RCU frees the memory later.
        for _ in range(20):
            if near(given, [0, SIZE // 2]) or near(given, [SIZE // 2, 0]):
                break
            given = [has - had for had, has in zip(before, free())]
    assert near(given, [0, SIZE // 2]) or near(given, [SIZE // 2, 0]), given


@pytest.mark.parametrize("cpu", NODES)
def test_local(lab, cpu):
    """The node of the CPU that writes is used."""
    ramdisk = lab.ramdisk(SIZE, node=NODE_LOCAL)
    taken = written(ramdisk, SIZE, cpu=cpu)
    assert near(taken, [SIZE * (cpu == number) for number in NODES]), taken


@pytest.mark.parametrize("length", [MIB, SECTOR], ids=["whole", "parts"])
@pytest.mark.parametrize("node, cpu, share", [(NODE_LOCAL, 1, (0, 1)), (1, 0, (0, 1)),
                                              (NODE_INTERLEAVE, 0, (0.5, 0.5))],
                         ids=["local", "node", "interleave"])
def test_clone(lab, node, cpu, share, length):
    """The node of a shared page does not matter for the page that replaces it."""
    size = SIZE if length == MIB else SIZE // 2
    source = lab.ramdisk(size, node=node)
    written(source, size, cpu=0)
    with Control() as control:
        copy = lab.adopt_ramdisk(control.clone(source.index))
    taken = written(copy, size, cpu, length, max(length, BLOCK))
    assert near(taken, [size * part for part in share]), taken


def test_reserve(lab):
    before = free()
    lab.ramdisk(SIZE, node=1, flags=CREATE_RESERVE)
    taken = [had - has for had, has in zip(before, free())]
    assert near(taken, [0, SIZE]), taken


def test_others_help_out(lab):
    """If a node has no free memory, others are used."""
    size = (free()[1] + 128 * MIB) // MIB * MIB
    ramdisk = lab.ramdisk(size, node=1, overcommit=True)
    taken = written(ramdisk, size, cpu=1)
    assert taken[0] > 64 * MIB and taken[0] + taken[1] > size - 2 * NOISE, taken
    assert ramdisk.query().nospc == 0


def test_fragmented_node(lab):
    """Small pieces of the requested node are preferred to large ones of another node."""
    size = (free()[1] - 64 * MIB) // MIB * MIB
    filler = lab.ramdisk(size, node=1, overcommit=True)
    written(filler, size, cpu=1)
    with Direct(filler.path) as device:
        for offset in range(0, size, 128 * KIB):
            device.discard(offset, 64 * KIB)
    # RCU frees the memory later.
    for _ in range(20):
        if free()[1] > size // 2 + 32 * MIB:
            break
    # The lists of the other CPU may have 50 MiB, and the node stays above its low watermark.
    small = SIZE // 2
    ramdisk = lab.ramdisk(small, node=1, folio_size=2 * MIB, overcommit=True)
    taken = written(ramdisk, small, cpu=0)
    assert near(taken, [0, small]), taken


@pytest.mark.parametrize("node", [2, 63])
def test_no_such_node(lab, node):
    before = state()
    with pytest.raises(OSError) as caught:
        lab.ramdisk(SIZE, node=node)
    assert caught.value.errno == errno.ENXIO
    result = rxadm("create", "--size", "4M", "--node", str(node))
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert f"'{node}'" in result.stderr and "with memory: 0-1" in result.stderr
    assert state() == before
