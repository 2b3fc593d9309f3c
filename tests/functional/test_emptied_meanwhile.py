# SPDX-License-Identifier: GPL-2.0-only
"""Commands that discard the data of a RAM disk, beside saves of it and commands for others."""

import contextlib
import hashlib
import os
import signal
import subprocess
import time

import pytest

from rxdlib import direct, dm, locks
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.control import CREATE_RESERVE
from rxdlib.direct import MIB, stamp
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long

pytestmark = pytest.mark.one_kernel
DEVICE, BUSY = 4, 5
SAVES = [("save",), ("save", "--update")]


@pytest.fixture(name="disk", params=[0, CREATE_RESERVE], ids=["thin", "reserved"])
def saved_disk(lab, path, request):
    """A disk that was saved, so that its data may be discarded."""
    ramdisk = lab.ramdisk(8 * MIB, flags=request.param)
    direct.write(ramdisk.path, 0, stamp(1, MIB))
    ok("save", ramdisk.path, path)
    return ramdisk.path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def number_of(ramdisk):
    with open(f"/sys/block/rxd{ramdisk.index}/dev", encoding="ascii") as file:
        return os.makedev(*map(int, file.read().split(":")))


def replaced(lab, ramdisk):
    """Another disk with the same numbers. The kernel frees that of the block device later."""
    number, end, other = number_of(ramdisk), time.monotonic() + 60, 100
    # The kernel takes the lowest number that is free.
    while number_of(lab.ramdisk(MIB, index=other)) < number:
        other += 1
    ramdisk.remove()
    while True:
        new = lab.ramdisk(8 * MIB, index=ramdisk.index)
        if number_of(new) == number:
            direct.write(new.path, 0, stamp(2))
            return new
        assert time.monotonic() < end
        new.remove()
        time.sleep(0.1)


@contextlib.contextmanager
def waiting(*args):
    """A command that waits for a lock that the test holds."""
    with subprocess.Popen([program("rxadm"), "--verbose", *args], text=True, env=ENVIRONMENT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert f"waiting for process {os.getpid()}" in process.stderr.readline()
            yield process
        finally:
            process.kill()


def ended(process):
    errors = process.communicate(timeout=60)[1]
    return process.returncode, errors


@pytest.mark.parametrize("save, in_use", [
    (SAVES[0], False), (SAVES[1], True), *long([(SAVES[0], True), (SAVES[1], False)])], ids=str)
def test_save_that_waited(disk, path, save, in_use):
    """It does not save what the disk holds after a clear: nobody wanted that to be the image."""
    before = digest(path)
    with locks.held(disk, locks.SAVE) as release, waiting(*save, disk, path) as process:
        ok("clear", disk)
        opened = os.open(disk, os.O_RDONLY) if in_use else None
        release()
        code, errors = ended(process)
        if in_use:
            os.close(opened)
    assert code == BUSY and f"'{disk}': was emptied or loaded meanwhile" in errors, errors
    assert digest(path) == before
    # A new decision, by a user who knows that it is empty.
    assert rxadm(*save, disk, path).returncode == 0
    assert digest(path) != before


@pytest.mark.parametrize("save", [*SAVES, ("save", "-")], ids=" ".join)
def test_save_beside_a_clear(disk, path, save):
    """If the clear is killed while the save waits, half of the data may be left."""
    before = digest(path)
    args = ["save", disk, "-"] if "-" in save else [*save, disk, path]
    with locks.held(disk, locks.DATA, locks.EMPTY, locks.SAVE):
        refused(BUSY, *args, names=(f"'{disk}'", f"process {os.getpid()} is discarding its data"))
    assert digest(path) == before
    if "-" not in args:
        assert rxadm(*args).returncode == 0


def test_other_disks_do_not_wait(lab, disk):
    """While one disk is cleared, and others wait for that, all commands go on for other disks."""
    others = [lab.ramdisk(8 * MIB) for _ in range(3)]
    one, two, three = (ramdisk.path for ramdisk in others)
    direct.write(one, 0, stamp(2))
    with locks.held(disk, locks.DATA) as release, \
         waiting("clear", "--force", disk) as clear, waiting("remove", "--force", disk) as remove:
        ok("limit", one, "8M")
        ok("clear", "--force", two)
        ok("reset", two, "--to", one)
        ok("remove", "--force", three)
        assert clear.poll() is None and remove.poll() is None
        release()
        assert ended(remove) == (0, "")
        # If the other was faster, there is no disk any more.
        assert ended(clear)[0] in (0, DEVICE)
    assert direct.read(two, 0, 4096) == stamp(2)
    assert not os.path.exists(disk)


def test_save_beside_commands_that_only_wait(lab, disk, path):
    """Nothing is discarded yet: a save goes on, also of the source of a reset."""
    other = lab.ramdisk(8 * MIB)
    with locks.held(disk, locks.DATA), waiting("clear", "--force", disk), \
         waiting("reset", "--force", other.path, "--to", disk):
        ok("save", disk, path)


def test_discard_that_fails(lab, path):
    """A save that has waited meanwhile finds the same data, and goes on."""
    ramdisk, origin = lab.ramdisk(8 * MIB), lab.ramdisk(16 * MIB).path
    direct.write(ramdisk.path, 0, stamp(1, MIB))
    # Another mapping has the UUID that a cache of this origin gets.
    run("dmsetup", "create", "rxdtest-other", "--notable", "--uuid",
        f"RXCACHE-{dm.number(origin)}")
    lab.adopt_mapped("rxdtest-other")
    with locks.held(ramdisk.path, locks.SAVE) as release, \
         waiting("save", ramdisk.path, path) as process:
        assert rxadm("map", "--cache", ramdisk.path, "--origin", origin, "--force", "--name",
                     "rxdtest-fails").returncode == BUSY
        release()
        assert ended(process) == (0, "")
    ok("remove", ramdisk.path)


def test_reset_waits_for_both(lab):
    """Neither its data nor that of its source may be discarded meanwhile."""
    target, source = lab.ramdisk(8 * MIB), lab.ramdisk(8 * MIB)
    direct.write(source.path, 0, stamp(3))
    for disk in target.path, source.path:
        with locks.held(disk, locks.DATA) as release, \
             waiting("reset", "--force", target.path, "--to", source.path) as process:
            assert process.poll() is None
            release()
            assert ended(process) == (0, "")
    assert direct.read(target.path, 0, 4096) == stamp(3)


def test_source_that_is_replaced(lab):
    """The reset does not take the data of another disk that has the number of the source now."""
    source, target = lab.ramdisk(8 * MIB), lab.ramdisk(8 * MIB)
    direct.write(target.path, 0, stamp(1))
    with locks.held(target.path, locks.DATA) as release, \
         waiting("reset", "--force", target.path, "--to", source.path) as process:
        replaced(lab, source)
        release()
        code, errors = ended(process)
    assert code == BUSY and f"'{source.path}': was replaced meanwhile" in errors, errors
    assert direct.read(target.path, 0, 4096) == stamp(1)


def test_all_but_a_cache(lab):
    """A mapping that waits for its origin does not keep other disks from being removed."""
    cache, other = lab.cache(), lab.ramdisk(MIB)
    with locks.held(cache.ramdisk.path, locks.DATA):
        result = rxadm("remove", "--all")
    assert result.returncode == BUSY and f"'{cache.ramdisk.path}'" in result.stderr, result
    assert os.path.exists(cache.ramdisk.path) and not os.path.exists(other.path)


@pytest.mark.parametrize("interrupted", [True, False])
def test_map_looks_after_the_wait(lab, interrupted):
    """What another command has left decides, and the wait can be interrupted."""
    ramdisk = lab.ramdisk(8 * MIB)
    _, origin = lab.linear(16 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    with locks.held(ramdisk.path, locks.DATA) as release, \
         waiting("map", "--cache", ramdisk.path, "--origin", origin, "--name",
                 "rxdtest-looks") as process:
        if interrupted:
            process.send_signal(signal.SIGINT)
            assert ended(process)[0] == -signal.SIGINT
            return
        lab.adopt_mapped("rxdtest-looks")
        ramdisk.clear()
        release()
        assert ended(process) == (0, "")
    ok("unmap", "rxdtest-looks")


def test_ramdisk_that_is_replaced(lab):
    """While it waits for its origin, another disk gets the number of the RAM disk."""
    ramdisk, origin = lab.ramdisk(8 * MIB), lab.ramdisk(16 * MIB)
    with locks.byte(number_of(origin) + 1) as release, \
         waiting("map", "--force", "--cache", ramdisk.path, "--origin", origin.path, "--name",
                 "rxdtest-replaced") as process:
        new = replaced(lab, ramdisk)
        release()
        code, errors = ended(process)
    assert code == BUSY and f"'{ramdisk.path}': was replaced meanwhile" in errors, errors
    assert direct.read(new.path, 0, 4096) == stamp(2)


def test_reset_after_a_clear(lab):
    """A reset needs no --force if the clear that it waited for has discarded the data."""
    target, source = lab.ramdisk(8 * MIB), lab.ramdisk(8 * MIB)
    direct.write(target.path, 0, stamp(1))
    with locks.held(target.path, locks.DATA) as release, \
         waiting("reset", target.path, "--to", source.path) as process:
        target.clear()
        release()
        assert ended(process) == (0, "")


def test_map_waits(lab):
    """Mapping empties the disk, too."""
    ramdisk = lab.ramdisk(8 * MIB)
    _, origin = lab.linear(16 * MIB)
    with locks.held(ramdisk.path, locks.DATA) as release, \
         waiting("map", "--cache", ramdisk.path, "--origin", origin, "--name",
                 "rxdtest-waits") as process:
        lab.adopt_mapped("rxdtest-waits")
        release()
        assert ended(process) == (0, "")
    ok("unmap", "rxdtest-waits")
