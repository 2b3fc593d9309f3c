# SPDX-License-Identifier: GPL-2.0-only
"""rxadm apply of several sections in parallel: none waits for long work of another."""

import fcntl
import os
import struct
import subprocess
import time
import uuid

import pytest

from rxdlib import direct, dm, locks
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.configuration import Configuration, complaints, disk_of, records
from rxdlib.control import DRY_RUN, Control
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK
from rxdlib.memory import meminfo
from rxdlib.starved import busy_cpu, starved
from rxdlib.traced import wait_until_blocked

pytestmark = pytest.mark.one_kernel
SECONDS = 60
STARVED = 30    # seconds, at most


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with Configuration(tmp_path) as config:
        yield config


@pytest.fixture(name="slow")
def slow_disk(lab):
    """A device that answers nothing while it is suspended."""
    name, path = lab.linear(64 * MIB)
    lab.stack.callback(run, "dmsetup", "resume", name, check=False)
    return name, path


def hang(name):
    run("dmsetup", "suspend", "--nolockfs", "--noflush", name)


def in_time(config, *args):
    """Apply without an error, and without a wait for another process."""
    process = config.start(*args)
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert (process.returncode, errors) == (0, b"")
    return output.decode().splitlines()


def wait_until_it_hangs(process):
    """Until it holds the lock of what it changes, and waits for the disk."""
    end = time.monotonic() + SECONDS
    while holder() != process.pid:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    wait_until_blocked(process)


def waits_for_lock(process):
    """Whether it reports that it waits for a lock of this process, as it does after a while."""
    return f"waiting for process {os.getpid()}, " in process.stderr.readline().decode()


def holder():
    """The process that holds the lock of this byte, or 0. The first byte is the common lock."""
    ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1, 0, 0)
    try:
        with open("/run/rxadm.lock", "rb+") as lock:
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(lock, fcntl.F_GETLK, ask))
    except FileNotFoundError:
        return 0
    return answer[4] if answer[0] != fcntl.F_UNLCK else 0


def ends_well(process):
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return output.decode().splitlines()


def others_go_on(config):
    assert in_time(config, "b") == ["ramdisk b: create a RAM disk of 4M"]
    made = rxadm("create", "--size", "4M", check=True).stdout.strip()
    rxadm("remove", made, check=True)
    assert in_time(config, "--stop", "b")[-1].startswith("ramdisk b: remove")
    # This also holds if it has an image by now.
    assert in_time(config, "b")[0] == "ramdisk b: create a RAM disk of 4M"


def test_image_that_hangs(config, lab, slow):
    """Others are created, saved and removed during a load or save; a wait is reported."""
    name, path = slow
    run("mkfs.ext4", "-q", path)
    folder = lab.mount(path)
    image = f"{folder}/a.img"
    config.write(f"[ramdisk a]\nsize = 16M\nimage = {image}\n"
                 f"[ramdisk b]\nsize = 4M\nimage = {config.folder}/b.img\n")
    config.ok("a")
    direct.write(disk_of("ramdisk/a").path, 0, stamp(1, 4 * MIB))
    hang(name)
    saving = config.start("--stop", "ramdisk/a")
    wait_until_it_hangs(saving)
    others_go_on(config)
    second = config.start("--stop", "ramdisk/a")
    line = second.stderr.readline().decode()
    assert f"waiting for process {saving.pid}, which is changing ramdisk a" in line
    assert second.poll() is None and saving.poll() is None
    run("dmsetup", "resume", name)
    assert len(ends_well(saving)) == 2
    assert second.communicate(timeout=SECONDS)[1] == b"" and second.returncode == 0
    config.ok("--stop")

    run("umount", folder)
    run("mount", path, folder)
    hang(name)
    loading = config.start("ramdisk/a")
    wait_until_it_hangs(loading)
    in_time(config, "b")
    run("dmsetup", "resume", name)
    ends_well(loading)
    assert direct.read(disk_of("ramdisk/a").path, 0, 4 * MIB) == stamp(1, 4 * MIB)
    config.ok("--stop")
    run("umount", folder)


def test_other_uuid(config):
    """A section has one record: a start with another UUID waits for a stop with the old one."""
    text = f"[ramdisk a]\nsize = 4M\nimage = {config.folder}/a.img\n"
    config.write(text)
    config.ok()
    with locks.held(disk_of("ramdisk/a").path, locks.SAVE) as release:
        stopping = config.start("--stop")
        assert b"waiting for process" in stopping.stderr.readline()
        config.write(text + f"uuid = {uuid.uuid4()}\n")
        starting = config.start()
        line = starting.stderr.readline().decode()
        assert f"waiting for process {stopping.pid}, which is changing ramdisk a" in line
        release()
        ends_well(stopping)
        assert ends_well(starting)[0] == "ramdisk a: create a RAM disk of 4M"
    assert records() == ["ramdisk-a"]
    config.ok("--stop")
    assert records() == []


def test_origin_that_hangs(config, slow):
    name, path = slow
    config.write(f"[cache c]\norigin = {path}\nsize = 8M\n[ramdisk b]\nsize = 4M\n")
    hang(name)
    mapping = config.start("cache/c")
    wait_until_it_hangs(mapping)
    others_go_on(config)
    run("dmsetup", "resume", name)
    ends_well(mapping)
    hang(name)
    # When the cache closes its origin, the kernel writes this.
    with open(path, "r+b", buffering=0) as device:
        device.write(stamp(1))
    ending = config.start("--stop", "cache/c")
    wait_until_it_hangs(ending)
    in_time(config, "--stop", "b")
    assert ending.poll() is None
    run("dmsetup", "resume", name)
    ends_well(ending)


def test_map_of_a_disk_that_hangs(lab, slow):
    """This also holds for commands: those that change another disk do not wait."""
    name, path = slow
    disk = lab.ramdisk()
    hang(name)
    with subprocess.Popen([program("rxadm"), "map", "--cache", disk.path, "--origin", path,
                           "--name", "rxdtest-hangs"], env=ENVIRONMENT) as mapping:
        try:
            wait_until_blocked(mapping)
            made = rxadm("create", "--size", "4M", check=True, timeout=SECONDS).stdout.strip()
            rxadm("resize", made, "8M", check=True, timeout=SECONDS)
            rxadm("clear", made, check=True, timeout=SECONDS)
            rxadm("remove", made, check=True, timeout=SECONDS)
        finally:
            run("dmsetup", "resume", name)
        assert mapping.wait(timeout=SECONDS) == 0
    rxadm("unmap", "rxdtest-hangs", check=True)


def is_taken(control, index):
    """Is there a disk of this number, or is one being made?"""
    try:
        control.create(MIB, index=index, flags=DRY_RUN)
    except FileExistsError:
        return True
    return False


def beside_a_reservation(lab, create, remove):
    """The creation of a disk that takes long delays none of these commands.

    It is starved until they have been run once.
    """
    size = meminfo()["MemTotal"] // 2 // MIB * MIB
    rounds, begun = 0, time.monotonic()
    slow = lab.adopt_ramdisk(0)
    with Control() as control, busy_cpu(STARVED) as busy, subprocess.Popen(
            starved(program("rxadm"), "create", "--size", str(size), "--reserve", "--index", "0"),
            stdout=subprocess.DEVNULL, env=ENVIRONMENT) as making:
        while making.poll() is None and not is_taken(control, 0):
            time.sleep(0.01)
        while making.poll() is None:
            create()
            # It appears when its memory is reserved.
            rounds += not os.path.exists(slow.path)
            remove()
            if rounds:
                busy.kill()
        assert making.returncode == 0
    print(f"{time.monotonic() - begun:.2f} s, {rounds} rounds")
    assert rounds > 0


def test_create_beside_a_reservation(lab):
    beside_a_reservation(lab, lambda: rxadm("create", "--size", "4M", "--index", "7", check=True),
                         lambda: rxadm("remove", "/dev/rxd7", check=True))


def test_two_caches_of_one_disk(config, lab, slow):
    """Without the common lock, still only one of them is created."""
    link = "/dev/rxdtest-link"
    os.symlink(slow[1], link)
    lab.stack.callback(os.unlink, link)
    config.write("".join(f"[cache c{number}]\norigin = {origin}\nsize = 4M\n"
                         for number, origin in enumerate([slow[1], link])))
    processes = [config.start(f"c{number}") for number in range(2)]
    codes = sorted(process.wait(timeout=SECONDS) for process in processes)
    for process in processes:
        process.communicate()
    assert codes == [0, 5]
    config.ok("--stop")


def test_settings_of_a_cache(config, slow):
    """They wait for whoever has read the table of the cache, and may replace it."""
    _name, path = slow
    text = f"[cache c]\norigin = {path}\nsize = 4M\n"
    config.write(text)
    config.ok()
    config.write(text + "mode = writearound\n")
    with locks.byte(os.stat(path).st_rdev + 1):
        applying = config.start()
        assert waits_for_lock(applying)
    assert ends_well(applying) == ["cache c: change the mode from writethrough to writearound"]
    config.ok("--stop")


def test_changes_of_a_size(lab):
    """Each of two commands adds to the size that the other one has left."""
    cache = lab.cache(16 * MIB)
    rxadm("resize", cache.name, "4M", check=True)
    with locks.byte(os.stat(DISK).st_rdev + 1):
        # pylint: disable-next=consider-using-with
        processes = [subprocess.Popen([program("rxadm"), "resize", cache.name, "+1M"],
                                      stderr=subprocess.PIPE, env=ENVIRONMENT) for _ in range(2)]
        assert all(waits_for_lock(process) for process in processes)
    assert [process.wait(timeout=SECONDS) for process in processes] == [0, 0]
    assert f"size {6 * MIB}" in dm.table(cache.name)


def test_number_that_another_makes(config, lab):
    """This also holds for the choice of a free number."""
    config.write("[ramdisk b]\nsize = 4M\n")
    beside_a_reservation(lab, lambda: in_time(config, "b"), lambda: in_time(config, "--stop", "b"))


def test_many_sections_at_once(config):
    """Each section has its own process, as at boot: numbers and records are consistent."""
    config.write("".join(f"[ramdisk d{number}]\nsize = 4M\nimage = {config.folder}/{number}.img\n"
                         for number in range(8)))
    for args in (), ("--stop",), (), ("--stop",):
        processes = [config.start(*args, f"d{number}") for number in range(8)]
        for process in processes:
            _, errors = process.communicate(timeout=SECONDS * 2)
            assert (process.returncode, complaints(errors.decode())) == (0, [])
        assert bool(disk_of("ramdisk/d3")) == (not args)
