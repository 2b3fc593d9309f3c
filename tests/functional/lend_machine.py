# SPDX-License-Identifier: GPL-2.0-only
"""Caches that are lent memory, and programs that take it: on a machine of some 100 MiB to 4 GiB.

Not collected with the others: the stages "lend", "lend-1024", "lend-2048" and "lend-4096" boot
guests of their own for it.
"""

import contextlib
import errno
import os
import random
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rxdlib import direct, dm
from rxdlib.command import ENVIRONMENT, run
from rxdlib.direct import BLOCK, GIB, MIB, SECTOR, Direct, stamp
from rxdlib.elastic import (MIN, all_memory, changes, counters, elastic_cache, explained, fill,
                            given_back, headroom, hit_ratio, hog, hole, read, report, settle,
                            stream, used, values)
from rxdlib.lab import DISK, LONG, WRITES, Cache
from rxdlib.memory import meminfo, on_cpu_lists, resident, vmstat, watermarks
from rxdlib.outcome import ok

ROUNDS = 100 if LONG else 3
RESIZES = 1000 if LONG else 30
# Reads, and writes, a second of each fio. Without a limit, they would take the processors from
# what the test is about.
RATE = 100
PATIENCE = 60
LRU_GEN = Path("/sys/kernel/mm/lru_gen/enabled")
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
GROUPS = 50
IDLE_SECONDS = 10
# Releases whose kernels are built without generations, or with them.
CLASSIC, GENERATIONS = ("6.1.",), ("6.12.", "7.")
# Free memory, or memory on its way, that a test does not look at.
NOISE = 16 * MIB

# Reads the beginning of a file or of a disk again and again.
READER = """
import mmap, os, sys
fd, buffer = os.open(sys.argv[1], os.O_RDONLY | int(sys.argv[3])), mmap.mmap(-1, 1 << 20)
while True:
    for offset in range(0, int(sys.argv[2]), 1 << 20):
        os.preadv(fd, [buffer], offset)
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


def uses_generations():
    return LRU_GEN.exists() and bool(int(LRU_GEN.read_text(encoding="ascii"), 16) & 1)


@pytest.fixture(autouse=True, scope="module")
def kernel_has_its_lru():
    """The kernels of the stages reclaim in both ways, and each in the way that is expected."""
    release = os.uname().release
    assert release.startswith(CLASSIC + GENERATIONS), release
    assert uses_generations() == release.startswith(GENERATIONS)


@contextlib.contextmanager
def swap(device):
    run("mkswap", device)
    run("swapon", device)
    try:
        yield
    finally:
        run("swapoff", device)
        direct.write(device, 0, bytes(MIB))


def writes(path):
    """The number of writes that a disk has completed."""
    with open(f"/sys/dev/block/{dm.number(path)}/stat", encoding="ascii") as file:
        return int(file.read().split()[WRITES])


@contextlib.contextmanager
def verifying(path, size):
    """fio writes with checksums and reads them back, all the time.

    Gives a function that waits until it has written more.
    """
    command = ["fio", "--name=io", f"--filename={path}", "--ioengine=libaio", "--direct=1",
               "--iodepth=8", "--rw=randrw", "--bsrange=4k-64k", "--bs_unaligned=0",
               f"--size={size}", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64",
               f"--rate_iops={RATE}", "--randseed=1", "--time_based", "--runtime=36000"]
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as fio:
        def goes_on():
            before, end = writes(path), time.monotonic() + PATIENCE
            while writes(path) < before + 16:
                assert fio.poll() is None, fio.stdout.read()
                assert time.monotonic() < end, f"{path}: {writes(path) - before} writes"
                time.sleep(0.02)

        try:
            goes_on()
            yield goes_on
            assert fio.poll() is None, fio.stdout.read()
        finally:
            fio.terminate()
            output, _ = fio.communicate(timeout=2 * PATIENCE)
        # Told to end, fio still reports the errors that it found.
        assert " err= 0" in output and "verify:" not in output, output


@contextlib.contextmanager
def reading(path, size, flags=0, program=READER):
    """A program reads the same again and again, or does something else to all of it.

    Gives a function that waits until it has read all a number of times, from now on.
    """
    with subprocess.Popen([sys.executable, "-c", program, path, str(size), str(flags)],
                          env=ENVIRONMENT, stdout=subprocess.PIPE) as reader:
        out = reader.stdout.fileno()

        def passes(number=1):
            # Forget those that have ended, and the one that has begun.
            while select.select([out], [], [], 0)[0]:
                assert os.read(out, 4096)
            number += 1
            while number > 0:
                lines = os.read(out, 4096)
                assert lines
                number -= lines.count(b"\n")

        try:
            yield passes
            assert reader.poll() is None
        finally:
            reader.kill()


@pytest.mark.parametrize("with_swap", [False, True], ids=["alone", "swap"])
def test_hand_over(lab, with_swap):
    """A program takes all that a cache was lent, beside I/O to the cache and to a RAM disk.

    It takes what is free and lent, but for 128 MiB. So all but these must be given back, and but
    for what came from elsewhere: page cache, per-CPU lists, and the little that was swapped out.
    The little is 5 % of what the program takes, because without the cache, all of that would be
    free, and nothing would be swapped out.

    fio verifies more of the cache than its minimum, so blocks that were given back as well.
    """
    size, of_ramdisk = MIN * 3 // 2, 32 * MIB
    _, written = lab.linear(size)
    _, device = lab.linear(512 * MIB, offset=size)
    cache = elastic_cache(lab, (written, size))
    ramdisk = lab.ramdisk(of_ramdisk)
    # It takes no more memory later.
    direct.write(ramdisk.path, 0, b"r" * of_ramdisk)
    with contextlib.ExitStack() as stack:
        if with_swap:
            stack.enter_context(swap(device))
        io = [stack.enter_context(verifying(path, part))
              for path, part in ((cache.path, size), (ramdisk.path, of_ramdisk))]
        stack.enter_context(explained())
        for number in range(ROUNDS):
            lent = fill(cache) - MIN
            report(cache, f"round {number}")
            assert lent > all_memory() // 8
            given, before, cached = given_back(cache), counters(), meminfo()["Cached"]
            listed = on_cpu_lists()
            # Less would be free than the high watermarks.
            wanted = meminfo()["MemFree"] + lent - 128 * MIB
            with hog(wanted):
                found = changes(before)
                report(cache, "taken")
                for goes_on in io:
                    goes_on()
            given = given_back(cache) - given
            swapped = found.get("pswpout", 0) * BLOCK
            print(f"taken {wanted // MIB} MiB, given back {given // MIB} of {lent // MIB}, "
                  f"swapped out {swapped // MIB}: {found}", file=sys.stderr)
            # Writes drop blocks that they find no memory for.
            assert used(cache) >= MIN - MIB
            assert swapped <= wanted // 20
            assert given >= lent - 128 * MIB - cached - listed - swapped - NOISE
        assert ramdisk.query().nospc == 0 and cache.status().origin_errors == 0


@explained()
def test_takes_and_is_counted(elastic):
    """The cache takes all but the headroom, and all that it was lent counts as available.

    MemAvailable leaves out a part of what is reclaimable, up to the low watermarks, and does not
    count free pages on per-CPU lists. Replaced blocks are free after a grace period only.
    """
    before, listed = meminfo(), on_cpu_lists()
    report(elastic, "before")
    lent = fill(elastic) - MIN
    least = before["MemAvailable"] + listed - MIN - watermarks("low") - NOISE
    end = time.monotonic() + PATIENCE
    while (after := meminfo())["MemAvailable"] + on_cpu_lists() < least:
        assert time.monotonic() < end, (after["MemAvailable"], on_cpu_lists(), least)
        time.sleep(0.1)
    report(elastic, "filled")
    left = headroom() + watermarks("high") + on_cpu_lists()
    print(f"lent {lent // MIB} MiB, to be left {left // MIB} MiB, on lists {listed // MIB} before "
          f"and {on_cpu_lists() // MIB} after", file=sys.stderr)
    assert lent >= before["MemFree"] - MIN - left - 2 * NOISE
    assert after["KReclaimable"] - before["KReclaimable"] >= lent - 8 * MIB
    assert after["MemFree"] > headroom() // 2
    elastic.drop()
    assert meminfo()["KReclaimable"] < before["KReclaimable"] + 8 * MIB


@explained()
def test_write_takes_what_is_lent(lab, elastic):
    """A RAM disk that is written until it is full gets all but the headroom and the minimum.

    Less than the headroom is available then. Caches keep three quarters of that free, so they
    have no more than the rest.
    """
    least = meminfo()["MemAvailable"] + on_cpu_lists() - MIN - headroom() - 2 * NOISE
    lent = fill(elastic) - MIN
    report(elastic, "filled")
    assert lent > all_memory() // 4
    ramdisk, written = lab.ramdisk(2 * all_memory(), overcommit=True), 0
    with Direct(ramdisk.path) as device:
        with pytest.raises(OSError) as caught:
            while True:
                device.write(written, stamp(written // MIB, MIB))
                written += MIB
    left = used(elastic) - MIN
    report(elastic, "written")
    print(f"written {written // MIB} MiB of at least {least // MIB}, lent {lent // MIB} MiB "
          f"before and {left // MIB} after", file=sys.stderr)
    assert caught.value.errno == errno.ENOSPC
    assert written >= least
    assert left <= headroom() // 4


@explained()
def test_fills_reclaim_nothing(lab, elastic):
    """A file stays in the page cache while more is read through the cache than fits."""
    run("mkfs.ext4", "-qF", DISK)
    size = all_memory() // 6 // MIB * MIB
    path = hole(lab.mount(DISK), size)
    stream(path)
    assert resident(path) == size
    before = counters()
    for start in 0, all_memory():
        read(elastic, all_memory(), start)
    found = changes(before)
    report(elastic, f"filled, {resident(path) // MIB} of {size // MIB} MiB in the page cache, "
                    f"{found}")
    assert used(elastic) - MIN > all_memory() // 4 and elastic.status().evictions > 0
    assert resident(path) == size
    assert found.get("pgscan_kswapd", 0) == found.get("pgscan_direct", 0) == 0


@explained()
def test_idle_machine_sleeps(lab, elastic):
    """Nothing is given back, and the worker only looks before half of what is free can be gone."""
    fill(elastic)
    trace = lab.mount("none", "-t", "tracefs")
    event = Path(trace, "events/workqueue/workqueue_execute_start/enable")
    # What the end of the fill has left to do.
    settle(elastic)
    before, given = used(elastic), given_back(elastic)
    event.write_text("1", encoding="ascii")
    try:
        begin = time.monotonic()
        time.sleep(IDLE_SECONDS)
        seconds = time.monotonic() - begin
        events = Path(trace, "trace").read_text(encoding="ascii")
    finally:
        event.write_text("0", encoding="ascii")
    looks = len(re.findall(r"function give_early\b", events))
    # At 1 GiB/s. Three quarters of the headroom are free at least, beyond the watermarks.
    most = 1 + seconds * GIB / (headroom() * 3 / 8)
    print(f"{looks} looks in {seconds:.1f} s, {most:.0f} at most", file=sys.stderr)
    assert seconds / 2 <= looks <= most
    assert given_back(elastic) == given and used(elastic) == before


@explained()
def test_grows_again(elastic):
    """As soon as the memory is free, misses make the cache grow; then all is there again."""
    step = 16 * MIB
    working = meminfo()["MemFree"] * 5 // 8 // step * step
    read(elastic, working)
    most = used(elastic)
    before = elastic.status()
    read(elastic, working)
    alone = hit_ratio(before, elastic.status())
    with hog(meminfo()["MemFree"] + most - MIN - 48 * MIB):
        pass
    low = used(elastic)
    assert low < working / 2
    misses, begin, grown = elastic.status().read_misses, None, None
    for start in range(0, working, step):
        now = time.monotonic()
        read(elastic, step, start)
        if not begin and elastic.status().read_misses > misses:
            begin = now
        if begin and not grown and used(elastic) >= low + 16 * MIB:
            grown = time.monotonic()
    end = time.monotonic() + PATIENCE
    while used(elastic) < most - 32 * MIB:
        assert time.monotonic() < end, used(elastic)
        read(elastic, working)
    before = elastic.status()
    read(elastic, working)
    again = hit_ratio(before, elastic.status())
    print(f"from {most // MIB} to {low // MIB} MiB, misses at {begin}, growth at {grown}, hit "
          f"ratio {alone:.4f} before, {again:.4f} after it", file=sys.stderr)
    assert begin and grown and grown - begin < 60
    assert again >= alone - 0.01
    assert used(elastic) >= most - 32 * MIB
    after = values(elastic)
    assert after["given_back"] >= (most - low) // BLOCK
    assert after["taken"] - after["given_back"] <= after["lent"] + 16384
    assert after["lent"] == (used(elastic) - MIN) // BLOCK


@explained()
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
    assert uses_generations() == (request.param == "generations")
    yield
    LRU_GEN.write_text(old, encoding="ascii")


@contextlib.contextmanager
def hot_file(lab):
    """A file of a sixth of the memory is read all the time; without a limit, it stays cached."""
    _, device = lab.linear(384 * MIB)
    run("mkfs.ext4", "-qF", device)
    path = f"{lab.mount(device)}/file"
    size = min(all_memory() // 6, 320 * MIB) // MIB * MIB
    run("dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={size // MIB}", "conv=fsync")
    with reading(path, size) as passes:
        passes(3)
        yield


@contextlib.contextmanager
def control_groups(lab, number):
    """Control groups that can limit memory; gives their directories."""
    root = lab.directory()
    run("mount", "-t", "cgroup2", "none", root)
    groups = [Path(root, f"rxd{number}") for number in range(number)]
    try:
        Path(root, "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        for group in groups:
            group.mkdir()
        yield groups
    finally:
        for group in groups:
            if group.exists():
                group.rmdir()
        run("umount", root)


@contextlib.contextmanager
def many_groups(lab):
    """An eighth of the memory is idle, and belongs to many control groups."""
    size = all_memory() // 8 // GROUPS // BLOCK * BLOCK
    with (control_groups(lab, GROUPS) as groups,
          subprocess.Popen([sys.executable, "-c", MEMBER, str(size), *map(str, groups)],
                           env=ENVIRONMENT, text=True, stdout=subprocess.PIPE) as member):
        try:
            assert member.stdout.readline() == "full\n"
            yield
        finally:
            member.kill()


@contextlib.contextmanager
def nothing(_lab):
    yield


@pytest.mark.parametrize("beside", [nothing, hot_file, many_groups])
@explained()
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
            before = counters()
            with hog(size):
                found = changes(before)
            swapped.append(found.get("pswpout", 0) * BLOCK)
            print(f"{'lent' if lends else 'not lent'}: swapped out {swapped[-1] // MIB} MiB of "
                  f"{size // MIB}: {found}", file=sys.stderr)
    assert swapped[1] <= swapped[0] + size // 20


@explained()
def test_idle_cache_gives_first(lab):
    """Of two caches, the busy one keeps what it uses as long as the other has more.

    Its hit ratio stays about what it was before there was another cache.
    """
    total = all_memory()
    part = total // 4 // MIB * MIB
    origin = lab.mapped(f"0 {2 * total // SECTOR} zero")

    def filled(offset):
        copy, path = lab.linear(part, f"/dev/mapper/{origin}", offset)
        ramdisk = lab.ramdisk(part, overcommit=True)
        name = lab.mapped(f"0 {part // SECTOR} rxcache {path} {ramdisk.path} 0 2 min_size {MIN}")
        cache = Cache(name, path, ramdisk)
        end = time.monotonic() + PATIENCE
        while used(cache) < part * 0.8:
            assert time.monotonic() < end, used(cache)
            read(cache, part)
        return cache

    busy = filled(0)
    working = part * 3 // 4 // MIB * MIB
    assert working > 2 * MIN
    with reading(busy.path, working, os.O_DIRECT) as passes:
        passes()
        first = busy.status()
        passes(3)
        alone = hit_ratio(first, busy.status())
        idle = filled(part)
        # Their use is compared every five seconds.
        end = time.monotonic() + 12
        while time.monotonic() < end:
            passes()
        before, second = used(busy), busy.status()
        with contextlib.ExitStack() as stack:
            # So much as is kept free stays free.
            stack.enter_context(hog(meminfo()["MemFree"] - 160 * MIB +
                                    (used(idle) - MIN) * 3 // 4))
            end = time.monotonic() + PATIENCE
            # More than a step takes with its program, and than is given back early.
            while used(idle) > MIN + 2 * NOISE:
                assert used(busy) >= before - NOISE, used(idle)
                assert time.monotonic() < end
                stack.enter_context(hog(8 * MIB))
            report(idle, "idle")
            report(busy, "busy")
            last = used(busy)
            # Now the busy one has to give.
            stack.enter_context(hog(3 * NOISE))
            passes(3)
        pressed = hit_ratio(second, busy.status())
    print(f"hit ratio {alone:.4f} alone, {pressed:.4f} under pressure; used {before // MIB} MiB, "
          f"{last // MIB} when the other had no more", file=sys.stderr)
    assert last >= before - NOISE
    assert pressed >= alone * 0.9
    assert used(idle) <= MIN + 8 * MIB


@explained()
def test_stream_does_not_drain(lab, elastic):
    """A file of ten times the memory is read through the page cache, beside hits."""
    fill(elastic)
    run("mkfs.ext4", "-qF", DISK)
    path = hole(lab.mount(DISK), 10 * all_memory())
    lent = used(elastic) - MIN
    working = lent // 4 // MIB * MIB
    for _ in range(3):
        read(elastic, working)
    given = given_back(elastic)
    report(elastic, "before the stream")
    with reading(elastic.path, working, os.O_DIRECT) as passes:
        passes()
        before = elastic.status()
        stream(path)
        passes()
        hits = hit_ratio(before, elastic.status())
    report(elastic, "after the stream")
    given = given_back(elastic) - given
    print(f"lent {lent // MIB} MiB, given back {given // MIB}, hit ratio beside it {hits:.4f}",
          file=sys.stderr)
    assert hits > 0.9
    # Neither did blocks leave, nor others enter in their place.
    assert given <= lent * 0.2
    assert used(elastic) - MIN >= lent * 0.8


@explained()
def test_resize_under_fio(lab):
    """The minimum and the maximum move while fio writes with checksums and reads them back."""
    most = all_memory() // MIB // 8
    # The target wants at least this part of the RAM disk.
    least = all_memory() // MIB // 32 + 1
    # More than many of the minimums, so that blocks that fio verifies are lent.
    size = most // 2 * MIB
    _, written = lab.linear(size)
    cache = elastic_cache(lab, (written, size))
    chance, last = random.Random(1), 0
    with verifying(cache.path, size) as goes_on:
        for _ in range(RESIZES):
            low = chance.randrange(least, most)
            high = chance.randrange(low, most + 1)
            before = used(cache)
            ok("resize", cache.name, f"{low}M..{high}M")
            read(cache, 8 * MIB, chance.randrange(size // MIB, 2 * most) * MIB)
            # What fits stays, but for the I/O in flight. What is larger than the last size may
            # still be leaving.
            if before <= last * MIB:
                assert used(cache) >= min(before, high * MIB) - MIB
            last = high
        goes_on()
        end = time.monotonic() + PATIENCE
        while used(cache) > last * MIB:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert cache.status().origin_errors == 0
    for offset in range(0, size, MIB):
        assert direct.read(cache.path, offset, MIB) == direct.read(written, offset, MIB)


@explained()
def test_large_pieces_take_little(elastic):
    """Reclaim for a large piece begins while single pages are free, and no block makes one.

    But it boosts the watermarks by up to 150 %, and memory is given back up to these.
    """
    before, free = fill(elastic), meminfo()["MemFree"] - 16 * 2 * MIB
    boosted = watermarks("high") * 5 // 2
    old = HUGE_PAGES.read_text(encoding="ascii")
    try:
        for _ in range(10):
            HUGE_PAGES.write_text("16", encoding="ascii")
            HUGE_PAGES.write_text("0", encoding="ascii")
    finally:
        HUGE_PAGES.write_text(old, encoding="ascii")
    time.sleep(1)
    assert used(elastic) >= before - max(0, boosted - free) - 16 * MIB


@explained()
def test_reload_keeps_all(elastic):
    """The new table allocates an index, in large pieces. Memory for it is free."""
    fill(elastic)
    settle(elastic)
    before = used(elastic)
    dm.replace(elastic.name, dm.table(elastic.name))
    time.sleep(1)
    assert used(elastic) == before
    run("dmsetup", "suspend", elastic.name)
    run("dmsetup", "resume", elastic.name)
    assert used(elastic) == before
