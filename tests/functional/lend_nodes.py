# SPDX-License-Identifier: GPL-2.0-only
"""Caches that are lent memory, on a machine with two NUMA nodes.

Not collected with the others: the stage "lend-nodes" boots a guest of its own for it.
"""

import re
from pathlib import Path

import pytest

from rxdlib import memory
from rxdlib.control import NODE_INTERLEAVE
from rxdlib.direct import KIB, MIB
from rxdlib.elastic import MIN, all_memory, elastic_cache, explained, fill, hog, used

NODES = 0, 1


def lent(node):
    """What counts as reclaimable on a node, beside slabs."""
    text = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text(encoding="ascii")
    values = {key: int(value) * KIB for key, value in re.findall(r"(\w+): +(\d+) kB", text)}
    return values["KReclaimable"] - values["SReclaimable"]


@pytest.fixture(autouse=True)
def nothing_is_killed():
    kills = memory.vmstat("oom_kill")
    yield
    assert memory.vmstat("oom_kill") == kills


@pytest.mark.parametrize("node", NODES)
@explained()
def test_grows_on_its_node(lab, node):
    """A cache of one node takes nothing from the other, however much is free there."""
    other = 1 - node
    cache = elastic_cache(lab, node=node)
    before = memory.free_memory(other)
    assert fill(cache) > all_memory() // 8
    assert before - memory.free_memory(other) < 64 * MIB
    assert lent(other) < 8 * MIB
    assert abs(lent(node) - (used(cache) - MIN)) < 8 * MIB
    # The node keeps its part of what is left to others.
    assert memory.free_memory(node) > all_memory() // 2 // 10


@pytest.mark.parametrize("node", NODES)
@explained()
def test_program_gets_its_node(lab, node):
    """A program that is bound to a node takes what was lent on it, and no more."""
    other = 1 - node
    cache = elastic_cache(lab, node=NODE_INTERLEAVE)
    fill(cache)
    before = [lent(number) for number in NODES]
    assert min(before) > 128 * MIB
    with hog(memory.free_memory(node) + before[node] - 96 * MIB, node=node):
        assert lent(node) < before[node] // 2
        assert lent(other) > before[other] * 0.9
    assert used(cache) >= before[other] * 0.9


@explained()
def test_bound_cache_and_bound_program(lab):
    """The cache of the other node keeps all it has."""
    spared, asked = (elastic_cache(lab, node=node) for node in NODES)
    fill(spared)
    fill(asked)
    before = used(spared)
    with hog(memory.free_memory(1) + used(asked) - MIN - 96 * MIB, node=1):
        assert used(asked) < MIN + 192 * MIB
    assert used(spared) > before * 0.95
