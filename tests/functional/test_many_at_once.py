# SPDX-License-Identifier: GPL-2.0-only
"""Twenty rxadm in parallel: each succeeds or reports why not, and leaves nothing incomplete."""

import random
import subprocess
import threading

import pytest

from rxdlib import dm
from rxdlib.command import ENVIRONMENT, program, rxadm
from rxdlib.configuration import complaints
from rxdlib.control import Control, STATE_CACHE, STATE_OPEN
from rxdlib.direct import MIB

pytestmark = pytest.mark.one_kernel
WORKERS = 20
ROUNDS = 6
DOCUMENTED = {0, 1, 2, 3, 4, 5}
# Errors that other processes can cause: gone, exists, or in use.
EXPECTED = {0, 4, 5}


def command(chance, origins):
    number = chance.randrange(6)
    kind = chance.choice(["create", "create", "map", "map", "unmap", "remove"])
    return {"create": ("create", "--size", "4M", "--index", str(number)),
            "map": ("map", "--cache", f"rxd{number}", "--origin", chance.choice(origins),
                    "--name", f"many{chance.randrange(4)}"),
            "unmap": ("unmap", f"many{chance.randrange(4)}"),
            "remove": ("remove", f"rxd{number}")}[kind]


def worker(seed, origins, results):
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        args = command(chance, origins)
        done = subprocess.run([program("rxadm"), *args], env=ENVIRONMENT, capture_output=True,
                              text=True, timeout=300, check=False)
        results.append((args, done))


def test_create_map_unmap_remove(lab):
    origins = [lab.ramdisk(MIB, index=100 + number).path for number in range(3)]
    for number in range(6):
        lab.adopt_ramdisk(number)
    for number in range(4):
        lab.adopt_mapped(f"many{number}")
    results = []
    threads = [threading.Thread(target=worker, args=(seed, origins, results))
               for seed in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == WORKERS * ROUNDS
    for args, done in results:
        assert done.returncode in DOCUMENTED
        assert done.returncode in EXPECTED, (args, done)
        lines = complaints(done.stderr)
        assert bool(lines) == bool(done.returncode) and len(lines) <= 1, (args, done)
    done = {kind: sum(not result.returncode for args, result in results if args[0] == kind)
            for kind in ("create", "map", "unmap", "remove")}
    assert done["create"] and done["map"], done

    # All disks that were created and not removed are there and complete, and no others.
    mapped = dm.names()
    assert len(mapped) == done["map"] - done["unmap"]
    tables = [dm.table(name).split() for name in mapped]
    assert all(table[2] == "rxcache" for table in tables)
    with Control() as control:
        disks = {f"{disk.major}:{disk.minor}": disk for disk in control.query_all()
                 if disk.index < 100}
    assert len(disks) == done["create"] - done["remove"]
    assert {table[4] for table in tables} == \
        {number for number, disk in disks.items() if disk.state & STATE_CACHE}
    assert all(disk.state & STATE_CACHE or not disk.state & STATE_OPEN
               for disk in disks.values())
    for name in mapped:
        assert rxadm("unmap", name).returncode == 0
    for disk in disks.values():
        assert rxadm("remove", f"rxd{disk.index}").returncode == 0
