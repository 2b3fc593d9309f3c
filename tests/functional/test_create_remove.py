# SPDX-License-Identifier: GPL-2.0-only
"""Making and removing RAM disks."""

import errno
import glob
import os
import threading
import time

import pytest

from rxdlib import direct, dm, modules
from rxdlib.command import run
from rxdlib.control import INDEX_MAX, STATE_OPEN, STATE_READONLY, Control
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp


@pytest.mark.parametrize("size", [BLOCK, 20 * KIB, 3 * MIB, 64 * MIB])
def test_size(lab, size):
    ramdisk = lab.ramdisk(size)
    with Direct(ramdisk.path) as device:
        assert device.size() == size
        assert device.read(size - BLOCK, BLOCK) == bytes(BLOCK)
        with pytest.raises(EOFError):
            device.read(size, BLOCK)
    assert ramdisk.query().size == size


@pytest.mark.parametrize("asked, given", [(0, 512), (512, 512), (4096, 4096)])
def test_block_sizes(lab, asked, given):
    ramdisk = lab.ramdisk(logical_block_size=asked)
    assert ramdisk.query().logical_block_size == given
    assert dm.queue(ramdisk.path, "logical_block_size") == str(given)
    assert dm.queue(ramdisk.path, "physical_block_size") == "4096"
    assert dm.queue(ramdisk.path, "rotational") == "0"
    with Direct(ramdisk.path) as device:
        device.write(BLOCK, bytes([1]) * given)
        if given > 512:
            with pytest.raises(OSError) as caught:
                device.write(512, bytes(512))
            assert caught.value.errno == errno.EINVAL


def test_data(lab):
    """Each sector keeps what was written to it, and no other sector changes."""
    ramdisk = lab.ramdisk(4 * MIB)
    model = bytearray(4 * MIB)
    with Direct(ramdisk.path) as device:
        for number, (offset, length) in enumerate([
                (0, 512), (512, 512), (3584, 1024), (4096, 4096), (64 * KIB + 512, 96 * KIB),
                (2 * MIB - 4096, 8192), (MIB, MIB), (4 * MIB - 512, 512), (4608, 512)]):
            data = stamp(number + 1, length)
            device.write(offset, data)
            model[offset:offset + length] = data
        assert direct.first_difference(device.read(0, 4 * MIB), bytes(model)) is None


def test_numbers_are_those_of_extended_devices(lab):
    """LVM and others look for the name of the driver in /proc/devices."""
    ramdisk = lab.ramdisk()
    number = os.stat(ramdisk.path).st_rdev
    with open("/proc/devices", encoding="ascii") as file:
        blocks = file.read().split("Block devices:")[1].split("\n")
    assert f"{os.major(number):3} blkext" in blocks
    query = ramdisk.query()
    assert (query.major, query.minor) == (os.major(number), os.minor(number))


def test_lowest_free_number(lab):
    made = [lab.ramdisk() for _ in range(4)]
    assert [ramdisk.index for ramdisk in made] == [0, 1, 2, 3]
    made[1].remove()
    assert lab.ramdisk().index == 1
    assert lab.ramdisk().index == 4


@pytest.mark.parametrize("index", [0, 7, 300, INDEX_MAX])
def test_number_of_choice(lab, index):
    ramdisk = lab.ramdisk(index=index)
    assert ramdisk.index == index
    assert os.path.exists(f"/dev/rxd{index}")
    direct.write(ramdisk.path, 0, stamp(index))
    with Control() as control:
        assert [device.index for device in control.query_all()] == [index]


def test_query_next_walks_in_order(lab):
    for index in (9, 2, 5):
        lab.ramdisk(index=index, size=(index + 1) * MIB)
    with Control() as control:
        found = control.query_all()
    assert [(device.index, device.size) for device in found] == [
        (2, 3 * MIB), (5, 6 * MIB), (9, 10 * MIB)]


def test_remove_frees_number_and_node(lab):
    ramdisk = lab.ramdisk()
    direct.write(ramdisk.path, 0, stamp(1))
    ramdisk.remove()
    assert not os.path.exists(ramdisk.path)
    assert not os.path.exists(f"/sys/block/{ramdisk.name}")
    again = lab.ramdisk()
    assert again.index == ramdisk.index
    assert direct.read(again.path, 0, BLOCK) == bytes(BLOCK)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_EXCL])
def test_remove_while_open(lab, flags):
    ramdisk = lab.ramdisk()
    direct.write(ramdisk.path, 0, stamp(1))
    with Direct(ramdisk.path, flags) as device:
        assert ramdisk.query().state & STATE_OPEN
        assert ramdisk.attribute("state") == "open"
        with pytest.raises(OSError) as caught:
            ramdisk.remove()
        assert caught.value.errno == errno.EBUSY
        assert device.read(0, BLOCK) == stamp(1)
    assert ramdisk.attribute("state") == "idle"
    ramdisk.remove()


def test_remove_while_mounted(lab):
    ramdisk = lab.ramdisk()
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    with open(os.path.join(directory, "file"), "wb") as file:
        file.write(stamp(1))
    with pytest.raises(OSError) as caught:
        ramdisk.remove()
    assert caught.value.errno == errno.EBUSY
    with open(os.path.join(directory, "file"), "rb") as file:
        assert file.read() == stamp(1)


def test_remove_races_openers(lab):
    """A device that a process has open works; all others find none."""
    over = threading.Event()
    wrong = []

    def opener():
        while not over.is_set():
            try:
                with Direct("/dev/rxd0") as device:
                    device.write(0, stamp(3))
                    if device.read(0, BLOCK) != stamp(3):
                        wrong.append("data")
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
                    wrong.append(str(error))
            # Let the remover win sometimes.
            time.sleep(0.003)

    threads = [threading.Thread(target=opener) for _ in range(2)]
    for thread in threads:
        thread.start()
    removed = busy = 0
    begin = time.monotonic()
    try:
        while time.monotonic() < begin + 4 or \
                (removed <= 3 or not busy) and time.monotonic() < begin + 60:
            ramdisk = lab.ramdisk(index=0)
            # Removal does not wait for memory, so the openers would hardly ever find a disk.
            if removed % 2:
                time.sleep(0.005)
            while True:
                try:
                    ramdisk.remove()
                    removed += 1
                    break
                except OSError as error:
                    assert error.errno == errno.EBUSY
                    busy += 1
                    time.sleep(0)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    print(f"removed {removed}, busy {busy}")
    assert removed > 3 and busy > 0


def test_partitions(lab):
    """An MBR with one partition is found, and the partition is at its offset."""
    ramdisk = lab.ramdisk()
    with Direct(ramdisk.path) as device:
        device.partition(2048, 4096)
    path = ramdisk.path + "p1"
    assert os.path.exists(path)
    with Direct(path) as partition:
        assert partition.size() == 2 * MIB
        partition.write(0, stamp(5))
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(5)
    with Direct(path):
        with pytest.raises(OSError) as caught:
            ramdisk.remove()
        assert caught.value.errno == errno.EBUSY


def test_read_only(lab):
    ramdisk = lab.ramdisk()
    direct.write(ramdisk.path, 0, stamp(1))
    run("blockdev", "--setro", ramdisk.path)
    assert ramdisk.query().state & STATE_READONLY
    with pytest.raises(OSError) as caught:
        direct.write(ramdisk.path, 0, stamp(2))
    assert caught.value.errno in (errno.EPERM, errno.EACCES, errno.EROFS)
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    run("blockdev", "--setrw", ramdisk.path)
    assert not ramdisk.query().state & STATE_READONLY
    direct.write(ramdisk.path, 0, stamp(2))
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(2)


def test_module_stays_while_a_device_lives(lab):
    ramdisk = lab.ramdisk()
    direct.write(ramdisk.path, 0, stamp(1))
    run("rmmod", "dm_rxcache")
    try:
        refused = run("rmmod", "rxd", check=False)
        assert refused.returncode
        assert "in use" in refused.stderr
        with pytest.raises(OSError) as caught:
            modules.delete(modules.RXD)
        assert caught.value.errno in (errno.EAGAIN, errno.EBUSY)
        assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
        ramdisk.remove()
        run("rmmod", "rxd")
        assert not glob.glob("/dev/rxd*")
    finally:
        modules.load()


def test_module_stays_while_the_target_is_loaded():
    refused = run("rmmod", "rxd", check=False)
    assert refused.returncode
    assert "in use" in refused.stderr
    assert modules.RXD in modules.loaded()
