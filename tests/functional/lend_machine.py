# SPDX-License-Identifier: GPL-2.0-only
"""Caches that are lent memory, and programs that take it: on a machine of 1, 2 or 4 GiB.

Not collected with the others: the stages "lend", "lend-1024", "lend-2048" and "lend-4096" boot
guests of their own for it.
"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, run
from rxdlib.direct import BLOCK, MIB, SECTOR
from rxdlib.elastic import MIN, all_memory, elastic_cache, fill, hog, read, report, used
from rxdlib.lab import LONG, Cache
from rxdlib.memory import meminfo, vmstat

ROUNDS = 100 if LONG else 3
LRU_GEN = Path("/sys/kernel/mm/lru_gen/enabled")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
GROUPS = 50

# Reads a file again and again, through the page cache.
READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
while True:
    for offset in range(0, size, 1 << 20):
        os.pread(fd, 1 << 20, offset)
    print("read", flush=True)
"""

# Has some idle memory in each of the control groups.
MEMBER = """
import mmap, sys, time
areas = []
for group in sys.argv[2:]:
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write("0")
    areas.append(mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    for at in range(0, int(sys.argv[1]), 4096):
        areas[-1][at] = 1
print("full", flush=True)
time.sleep(3600)
"""


@pytest.fixture
def elastic(lab):
    return elastic_cache(lab)


@pytest.fixture(autouse=True)
def nothing_is_killed():
    kills = vmstat("oom_kill")
    yield
    assert vmstat("oom_kill") == kills


@contextlib.contextmanager
def swap(device):
    run("mkswap", device)
    run("swapon", device)
    try:
        yield
    finally:
        run("swapoff", device)
        direct.write(device, 0, bytes(MIB))


@contextlib.contextmanager
def verifying(path, size):
    """fio writes with checksums and reads them back, all the time."""
    command = ["fio", "--name=io", f"--filename={path}", "--ioengine=libaio", "--direct=1",
               "--iodepth=8", "--rw=randrw", "--bsrange=4k-64k", "--bs_unaligned=0",
               f"--size={size}", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=256",
               "--randseed=1", "--time_based", "--runtime=36000"]
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as fio:
        try:
            yield
            assert fio.poll() is None, fio.stdout.read()
        finally:
            fio.terminate()
            output, _ = fio.communicate(timeout=60)
        # Told to end, fio still reports the errors that it found.
        assert " err= 0" in output and "verify:" not in output, output


@pytest.mark.parametrize("with_swap", [False, True], ids=["alone", "swap"])
def test_hand_over(lab, with_swap):
    """A program takes all that a cache was lent, beside I/O to the cache and to a RAM disk."""
    size = 64 * MIB
    _, written = lab.linear(size)
    _, device = lab.linear(512 * MIB, offset=size)
    cache = elastic_cache(lab, (written, size))
    ramdisk = lab.ramdisk(32 * MIB)
    # It takes no more memory later.
    direct.write(ramdisk.path, 0, b"r" * 32 * MIB)
    with contextlib.ExitStack() as stack:
        if with_swap:
            stack.enter_context(swap(device))
        stack.enter_context(verifying(cache.path, size))
        stack.enter_context(verifying(ramdisk.path, 32 * MIB))
        for number in range(ROUNDS):
            lent = fill(cache) - MIN
            report(cache, f"round {number}")
            assert lent > all_memory() // 8
            with hog(meminfo()["MemFree"] + lent - max(64 * MIB, all_memory() // 32)):
                report(cache, "taken")
            assert used(cache) >= MIN - BLOCK
    assert ramdisk.query().nospc == 0 and cache.status().origin_errors == 0


def test_takes_and_is_counted(elastic):
    before = meminfo()
    report(elastic, "before")
    lent = fill(elastic) - MIN
    after = meminfo()
    report(elastic, "filled")
    assert lent > before["MemFree"] // 4
    assert after["KReclaimable"] - before["KReclaimable"] >= lent - 8 * MIB
    assert after["MemAvailable"] > before["MemAvailable"] * 0.7
    assert after["MemFree"] > 32 * MIB
    elastic.drop()
    assert meminfo()["KReclaimable"] < before["KReclaimable"] + 8 * MIB


def test_grows_again(elastic):
    """As soon as the memory is free, misses make the cache grow; then all is there again."""
    most = fill(elastic)
    size = meminfo()["MemFree"] + most - MIN - 48 * MIB
    with hog(size):
        pass
    low = used(elastic)
    assert low < most / 2
    begin = time.monotonic()
    while used(elastic) < low + 16 * MIB:
        assert time.monotonic() < begin + 10
        read(elastic, 16 * MIB, start=most + (int(time.monotonic() * 1000) % 64) * MIB)
    fill(elastic)
    assert used(elastic) >= most - 32 * MIB
    rest = elastic.status().rest
    values = dict(zip(rest[1::2], map(int, rest[2::2])))
    assert values["given_back"] >= (most - low) // 4096
    assert values["taken"] - values["given_back"] <= values["lent"] + 16384
    assert values["lent"] == (used(elastic) - MIN) // 4096


def test_suspended_gives(elastic):
    """A suspended cache gives back what it was lent: others must not wait for its resume."""
    most = fill(elastic)
    run("dmsetup", "suspend", elastic.name)
    try:
        with hog(meminfo()["MemFree"] + most - MIN - 64 * MIB):
            pass
        assert used(elastic) < most / 2
    finally:
        run("dmsetup", "resume", elastic.name)
    assert used(elastic) >= MIN


@pytest.fixture(params=["classic", "generations"])
def lru(request):
    """Both ways in which Linux may choose pages to reclaim."""
    if not LRU_GEN.exists():
        if request.param == "generations":
            pytest.skip("this kernel has no generations")
        yield
        return
    old = LRU_GEN.read_text(encoding="ascii")
    LRU_GEN.write_text("y" if request.param == "generations" else "n", encoding="ascii")
    yield
    LRU_GEN.write_text(old, encoding="ascii")


@contextlib.contextmanager
def hot_file(lab):
    """A file of a sixth of the memory is read all the time; without a limit, it stays cached."""
    _, device = lab.linear(384 * MIB)
    run("mkfs.ext4", "-qF", device)
    path = f"{lab.mount(device)}/file"
    size = min(all_memory() // 6, 320 * MIB) // MIB
    run("dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={size}", "conv=fsync")
    with subprocess.Popen([sys.executable, "-c", READER, path], env=ENVIRONMENT, text=True,
                          stdout=subprocess.PIPE) as reader:
        try:
            for _ in range(3):
                assert reader.stdout.readline() == "read\n"
            yield
            assert reader.poll() is None
        finally:
            reader.kill()


@contextlib.contextmanager
def many_groups(lab):
    """An eighth of the memory is idle, and belongs to many control groups."""
    root = lab.directory()
    run("mount", "-t", "cgroup2", "none", root)
    groups = [Path(root, f"rxd{number}") for number in range(GROUPS)]
    try:
        Path(root, "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        for group in groups:
            group.mkdir()
        size = all_memory() // 8 // GROUPS // BLOCK * BLOCK
        with subprocess.Popen([sys.executable, "-c", MEMBER, str(size), *map(str, groups)],
                              env=ENVIRONMENT, text=True, stdout=subprocess.PIPE) as member:
            try:
                assert member.stdout.readline() == "full\n"
                yield
            finally:
                member.kill()
    finally:
        for group in groups:
            if group.exists():
                group.rmdir()
        run("umount", root)


@contextlib.contextmanager
def nothing(_lab):
    yield


@pytest.mark.parametrize("beside", [nothing, hot_file, many_groups])
def test_swaps_no_more(lab, lru, beside):
    """The same program on the machine with and without lent memory."""
    _, device = lab.linear(512 * MIB, offset=384 * MIB)
    swapped = []
    with swap(device), beside(lab):
        size = meminfo()["MemFree"] - 160 * MIB
        cache = elastic_cache(lab)
        for lends in False, True:
            if lends:
                assert fill(cache) > all_memory() // 4
                report(cache, "filled")
            before = vmstat("pswpout")
            with hog(size):
                swapped.append((vmstat("pswpout") - before) * BLOCK)
    print(f"swapped out: {[nr // MIB for nr in swapped]} MiB of {size // MIB}", file=sys.stderr)
    assert swapped[1] <= swapped[0] + size // 20


def test_idle_cache_gives_first(lab):
    """Of two caches, the busy one keeps what it uses as long as the other has more."""
    total = all_memory()
    part = total // 4 // MIB * MIB
    origin = lab.mapped(f"0 {2 * total // SECTOR} zero")
    caches = []
    for _ in range(2):
        copy, path = lab.linear(part, f"/dev/mapper/{origin}", len(caches) * part)
        ramdisk = lab.ramdisk(part, overcommit=True)
        name = lab.mapped(f"0 {part // SECTOR} rxcache {path} {ramdisk.path} 0 2 min_size {MIN}")
        caches.append(Cache(name, path, ramdisk))
    idle, busy = caches
    for cache in caches:
        read(cache, part)
        assert used(cache) >= part * 0.8
    end = time.monotonic() + 12
    while time.monotonic() < end:
        read(busy, part // 4)
    before = used(busy)
    size = meminfo()["MemFree"] + (used(idle) - MIN) // 2
    with hog(size):
        pass
    assert used(busy) >= before * 0.9
    assert used(idle) < part * 0.8


def test_stream_does_not_drain(elastic):
    """A file that is read through the page cache leaves most of what the cache was lent."""
    fill(elastic)
    lent = used(elastic) - MIN
    origin = elastic.origin
    total = all_memory() // MIB
    report(elastic, "before the stream")
    for _ in range(2):
        run("dd", f"if={origin}", "of=/dev/null", "bs=1M", f"count={2 * total}")
    report(elastic, "after the stream")
    assert used(elastic) - MIN >= lent * 0.8


def test_large_pieces_take_nothing(elastic):
    """Reclaim for a large piece begins while single pages are free, and no block makes one."""
    before = fill(elastic)
    old = HUGE_PAGES.read_text(encoding="ascii")
    try:
        for _ in range(10):
            HUGE_PAGES.write_text("16", encoding="ascii")
            HUGE_PAGES.write_text("0", encoding="ascii")
    finally:
        HUGE_PAGES.write_text(old, encoding="ascii")
    time.sleep(1)
    assert used(elastic) == before


def test_reload_keeps_all(elastic):
    """The new table allocates an index, in large pieces. Memory for it is free."""
    fill(elastic)
    before = used(elastic)
    dm.replace(elastic.name, dm.table(elastic.name))
    time.sleep(1)
    assert used(elastic) == before
    run("dmsetup", "suspend", elastic.name)
    run("dmsetup", "resume", elastic.name)
    assert used(elastic) == before
