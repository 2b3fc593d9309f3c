# SPDX-License-Identifier: GPL-2.0-only
"""Several readers of a block that is being read from the origin: the origin reads it once."""

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, run
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, bytes_read
from rxdlib.traced import wait_until_in

SIZE = 32 * MIB


def slow(lab, size, delay):
    """The disk, with a delay in ms for each read."""
    name = lab.mapped(f"0 {size // SECTOR} delay {DISK} 0 {delay} {DISK} 0 0")
    return name, f"/dev/mapper/{name}"


def prepare(size, generation=1):
    data = stamp(0, size, generation)
    for offset in range(0, size, MIB):
        direct.write(DISK, offset, data[offset:offset + MIB])
    return data


def in_threads(functions):
    """Run functions side by side; return what each returns, or raises."""
    results = [None] * len(functions)

    def keep(number, function):
        try:
            results[number] = function()
        except (OSError, EOFError) as error:
            results[number] = error

    threads = [threading.Thread(target=keep, args=case) for case in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def read_by_threads(path):
    """Read as eight threads do that share a file: each takes the next part."""
    offsets = iter(range(0, SIZE, 128 * KIB))
    lock = threading.Lock()

    def work():
        with Direct(path, os.O_RDONLY) as device:
            while True:
                with lock:
                    offset = next(offsets, None)
                if offset is None:
                    return
                device.read(offset, 128 * KIB)

    assert in_threads([work] * 8) == [None] * 8


@pytest.mark.parametrize("engine", [
    "libaio", "io_uring", pytest.param("threads", marks=pytest.mark.one_kernel)])
def test_sequential_reader_at_depth(lab, engine):
    """Reads of 128 KiB, eight at once, over blocks of 1 MiB."""
    prepare(SIZE)
    _, origin = slow(lab, SIZE, 5)
    cache = lab.cache(SIZE, cache_size=2 * SIZE, origin=origin, block_size=MIB)
    before = bytes_read(origin)
    if engine == "threads":
        read_by_threads(cache.path)
    else:
        run("fio", "--name=x", f"--filename={cache.path}", "--direct=1", "--rw=read",
            "--bs=128k", f"--size={SIZE}", f"--ioengine={engine}", "--iodepth=8")
    read = bytes_read(origin) - before
    assert SIZE <= read <= 1.1 * SIZE, read / SIZE
    assert cache.status().fills == SIZE // MIB


def blocked(origin):
    """The origin, suspended: I/O to it waits until it is resumed."""
    run("dmsetup", "suspend", "--nolockfs", origin)


class Held:
    """Readers of one block of 1 MiB whose fill waits for the origin."""

    def __init__(self, lab, size=4 * MIB):
        self.data = prepare(size)
        self.name, self.origin = lab.linear(size)
        self.cache = lab.cache(size, origin=self.origin, block_size=MIB)

    def read(self, offset, length=128 * KIB):
        return direct.read(self.cache.path, offset, length)


def wait_for_misses(cache, number):
    end = time.monotonic() + 60
    while cache.status().read_misses < number:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_each_reader_gets_what_he_asked_for(lab):
    data = prepare(4 * MIB)
    wishes = [(number * 100 * KIB, (5 * number + 1) * 4 * KIB) for number in range(8)] + \
             [(512, 512), (MIB - 512, 512), (MIB - 64 * KIB, 128 * KIB)]
    with ThreadPoolExecutor(len(wishes)) as pool, lab.held(4 * MIB, reads=True) as origin:
        cache = lab.cache(4 * MIB, origin=origin.path, block_size=MIB)
        before = bytes_read(origin.path)
        seen = [pool.submit(direct.read, cache.path, *wishes[0])]
        # A reader that arrives when a fill has its slot, but is not in the list yet, cannot join.
        origin.wait_for(1)
        seen += [pool.submit(direct.read, cache.path, *wish) for wish in wishes[1:]]
        wait_for_misses(cache, len(wishes) + 1)
        origin.release()
        for (offset, length), result in zip(wishes, seen):
            assert result.result() == data[offset:offset + length], (offset, length)
    assert cache.status().fills == 2
    assert bytes_read(origin.path) - before == 2 * MIB


def test_failing_fill(lab):
    """A fill reads more than its readers and fails: each reader then reads the origin itself."""
    held = Held(lab)
    bad = MIB // 2 // SECTOR
    blocked(held.name)
    wishes = [(number * 128 * KIB, 64 * KIB) for number in range(8)]

    def replace():
        wait_for_misses(held.cache, len(wishes))
        run("dmsetup", "load", held.name, stdin=f"0 {bad} linear {DISK} 0\n"
            f"{bad} 8 error\n{bad + 8} {8192 - bad - 8} linear {DISK} {bad + 8}\n")
        run("dmsetup", "resume", held.name)

    replacing = threading.Thread(target=replace)
    replacing.start()
    seen = in_threads([lambda wish=wish: held.read(*wish) for wish in wishes])
    replacing.join()
    for (offset, length), result in zip(wishes, seen):
        if offset == MIB // 2:
            assert isinstance(result, OSError)
        else:
            assert result == held.data[offset:offset + length], offset
    status = held.cache.status()
    assert status.fills == 0 == status.used
    # The fill that all waited for, and the separate read of the bad part.
    assert status.origin_errors == 2


def test_no_reader_joins_what_a_write_has_overtaken(lab):
    """A read after a write returns the new data, although an older fill is in flight."""
    prepare(SIZE)
    fresh, seen = stamp(7, BLOCK, 7), []
    with lab.held(SIZE, reads=True) as origin:
        cache = lab.cache(SIZE, cache_size=2 * SIZE, origin=origin.path, block_size=MIB)
        first = threading.Thread(target=direct.read, args=(cache.path, 0, 128 * KIB))
        first.start()
        origin.wait_for(1)
        direct.write(cache.path, 0, fresh)
        second = threading.Thread(target=lambda: seen.append(direct.read(cache.path, 0, BLOCK)))
        second.start()
        origin.wait_for(2)
        origin.release()
        first.join()
        second.join()
    assert seen == [fresh]
    assert cache.status().used == 0
    assert direct.read(cache.path, 0, BLOCK) == fresh


def test_suspend_waits_for_joined_readers(lab):
    data = prepare(SIZE)
    results = []

    def read(number):
        with Direct(cache.path, os.O_RDONLY) as device:
            offset = number * 128 * KIB
            results.append(device.read(offset, 64 * KIB) == data[offset:offset + 64 * KIB])

    threads = [threading.Thread(target=read, args=[number]) for number in range(8)]
    with lab.held(SIZE, reads=True) as origin:
        cache = lab.cache(SIZE, cache_size=2 * SIZE, origin=origin.path, block_size=MIB)
        for thread in threads:
            thread.start()
        wait_for_misses(cache, 8)
        with subprocess.Popen(["dmsetup", "suspend", cache.name], env=ENVIRONMENT) as suspending:
            wait_until_in(suspending, "dm_wait")
            origin.release()
        try:
            assert suspending.returncode == 0 and cache.status().fills == 1
        finally:
            run("dmsetup", "resume", cache.name)
        for thread in threads:
            thread.join()
    assert results == [True] * 8


def test_prefetch_is_read_once(lab):
    """A reader joins a prefetch in flight."""
    data = prepare(SIZE)
    with lab.held(SIZE, reads=True) as origin:
        cache = lab.cache(SIZE, cache_size=2 * SIZE, origin=origin.path, block_size=MIB)
        before = bytes_read(origin.path)
        with subprocess.Popen(["dmsetup", "message", cache.name, "0", "prefetch", "0", "2048"],
                              env=ENVIRONMENT, stdout=subprocess.DEVNULL) as prefetch:
            origin.wait_for(1)
            misses = cache.status().read_misses
            with subprocess.Popen(["dd", f"if={cache.path}", "bs=128k", "count=1",
                                   "iflag=direct", "status=none"], env=ENVIRONMENT,
                                  stdout=subprocess.PIPE) as reader:
                wait_for_misses(cache, misses + 1)
                origin.release()
                out, _ = reader.communicate()
    assert prefetch.returncode == 0 == reader.returncode
    assert out == data[:128 * KIB]
    assert bytes_read(origin.path) - before == MIB
