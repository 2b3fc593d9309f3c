# SPDX-License-Identifier: GPL-2.0-only
"""The end of an export waits for I/O in flight. Meanwhile, other disks and exports can change."""

import contextlib
import fcntl
import functools
import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

from rxdlib import dm, nvme
from rxdlib.command import ENVIRONMENT, KERNEL, as_nobody, program, run
from rxdlib.configuration import NAMESPACE, complaints, disk_of, exporting
from rxdlib.direct import MIB
from rxdlib.sampled import long

DEVICE, BUSY = 4, 5
SECONDS = 60
HAS_LOOP = KERNEL != "6.1"      # Debian's is built without
NQN = "nqn.2026-11.example:hangs"
TCP = ("--transport", "tcp", "--address", "127.0.0.1")
ANY = (*TCP, "--allow-any-host")
LOCKS = "/run/rxadm.lock"


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with exporting(tmp_path) as config:
        yield config


@pytest.fixture(name="slow")
def slow_disk(lab):
    """A disk that answers nothing while it is suspended."""
    name, path = lab.linear(64 * MIB)
    lab.stack.callback(run, "dmsetup", "resume", name, check=False)
    return name, path


def begin(*args):
    # pylint: disable-next=consider-using-with
    return subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=ENVIRONMENT)


def end(process):
    """The process ends in time and without an error or a report of a wait."""
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, ""), process.args
    return output.strip()


def ok(*args):
    # run() would wait for a killed process, which the kernel may keep.
    return end(begin(program("rxadm"), *args))


def until(condition):
    limit = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def in_flight(path):
    with open(f"/sys/dev/block/{dm.number(path)}/inflight", encoding="ascii") as file:
        return sum(map(int, file.read().split()))


def waits_for_io(process):
    """The kernel removes the namespace, or the port of loop, and waits for the I/O in flight."""
    assert process.poll() is None, process.communicate()
    with open(f"/proc/{process.pid}/stack", encoding="ascii") as file:
        stack = file.read()
    return "nvmet_ns_disable" in stack or "nvmet_disable_port" in stack


@contextlib.contextmanager
def hanging(slow, remote):
    """I/O of a host is in flight to an origin that answers nothing until the end of the block."""
    run("dmsetup", "suspend", "--nolockfs", "--noflush", slow[0])
    with begin("dd", "if=/dev/zero", f"of={remote}", "bs=4k", "count=1", "oflag=direct"):
        try:
            until(lambda: in_flight("/dev/mapper/c"))
            yield
        finally:
            run("dmsetup", "resume", slow[0])
            # The host tries to connect again, or gives up at once.
            nvme.disconnect(NQN)


def others_go_on(config, cache, transport):
    """None of these commands waits for the export that ends."""
    made = ok("create", "--size", "4M")
    for how in (transport, (*TCP, "--port", "4421")):
        for device in made, cache.path:
            ok("export", device, *how, "--allow-any-host", "--nqn", f"{NQN}-other")
            shown = ok("list", "-rno", "EXPORT") + ok("status", "-rno", "EXPORT")
            assert f"{NQN}-other" in shown
            ok("unexport", device)
    ok("limit", made, "2M")
    ok("set", made, "--name", "rxdtest-other")
    ok("stats", "reset", cache.name)
    ok("remove", made)
    ok("apply", "--config", config.path, "export/b")
    ok("apply", "--config", config.path, "--stop", "b")
    ok("apply", "--config", config.path, "b")


@pytest.mark.parametrize("transport", [
    TCP, pytest.param(("--transport", "loop"), marks=pytest.mark.skipif(
        not HAS_LOOP, reason="the kernel has no loop transport"))], ids=lambda how: how[1])
@pytest.mark.parametrize("how", ["apply", "unexport"])
def test_end_of_an_export_that_hangs(config, lab, slow, transport, how):
    _, other = lab.linear(64 * MIB, offset=64 * MIB)
    cache = lab.cache(origin=other)
    where = "transport = tcp\naddress = 127.0.0.1\n" if transport == TCP else "transport = loop\n"
    config.write(f"[cache c]\norigin = {slow[1]}\nsize = 8M\n[ramdisk b]\nsize = 4M\n"
                 f"[export e]\ndevice = cache/c\n{where}nqn = {NQN}\nallow-any-host = yes\n"
                 f"[export b]\ndevice = ramdisk/b\n{where}nqn = {NQN}-b\nallow-any-host = yes\n")
    config.ok("cache/c", "ramdisk/b", "export/e")
    nvme.connect(NQN, transport=transport[1])
    ends = (program("rxadm"), "apply", "--config", config.path, "--stop", "export/e")
    ended = (program("rxadm"), "unexport", NQN)
    if how == "unexport":
        ends, ended = ended, ends
    with hanging(slow, nvme.disk(NQN)):
        ending = begin(*ends)
        until(lambda: waits_for_io(ending))
        others_go_on(config, cache, transport)
        assert waits_for_io(ending)
        # The same export again: this wait is announced.
        again = begin(*ended)
        line = again.stderr.readline()
        assert f"waiting for process {ending.pid}, which is changing export '{NQN}'" in line
        assert waits_for_io(ending) and again.poll() is None
    end(ending)
    end(again)
    config.ok("--stop")
    assert nvme.tree() == []


@pytest.fixture(name="made")
def ramdisk(config):
    return ok("create", "--size", "4M")


@functools.cache
def locks():
    # To close it at any place would give all locks back.
    return os.open(LOCKS, os.O_RDWR | os.O_CREAT, 0o600)


@contextlib.contextmanager
def locked(nqn="", key=None):
    """Another process has the lock of an export, that of the target, or that of a key."""
    key = key or int.from_bytes(uuid.uuid5(NAMESPACE, nqn).bytes[:8], sys.byteorder)
    byte = (1, key % (2 ** 63 - 2) + 1)
    fcntl.lockf(locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, *byte)
    try:
        yield
    finally:
        fcntl.lockf(locks(), fcntl.LOCK_UN, *byte)


def data_of(disk):
    """The key of the lock that, for example, 'rxadm clear' has."""
    with open(f"/sys/class/block/{os.path.basename(disk)}/diskseq", encoding="ascii") as file:
        return 1 << 61 | int(file.read())


def begin_waiting(*args):
    """Start rxadm, which waits for a lock of this process."""
    process = begin(program("rxadm"), *args)
    line = process.stderr.readline()
    assert f"waiting for process {os.getpid()}" in line, (line, end(process))
    return process


def killed(call, *args, when=1):
    """Kill rxadm at a call of a function, which has no effect then."""
    result = run("strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                 f"inject={call}:signal=KILL:when={when}", program("rxadm"), *args, check=False)
    assert result.returncode < 0, result


def remove_export(nqn):
    """Remove it from port 1 as another process would, which has its lock."""
    subsystem = f"{nvme.ROOT}/subsystems/{nqn}"
    os.unlink(f"{nvme.ROOT}/ports/1/subsystems/{nqn}")
    os.rmdir(f"{subsystem}/namespaces/1")
    os.rmdir(subsystem)
    os.unlink(f"{nvme.RECORDS}/subsystems/{nqn}")


def offered():
    return [nqn for port in os.listdir(f"{nvme.ROOT}/ports")
            for nqn in os.listdir(f"{nvme.ROOT}/ports/{port}/subsystems")]


@pytest.mark.one_kernel
def test_export_after_the_end_of_a_killed_process(made):
    """The process that it waits for leaves a part of the export: it removes that part first."""
    ok("export", made, *ANY, "--nqn", NQN)
    killed("rmdir", "unexport", NQN)
    assert offered() == []
    with locked(NQN):
        process = begin_waiting("export", made, *ANY, "--nqn", NQN)
    assert end(process) == NQN
    assert offered() == [NQN]


@pytest.mark.one_kernel
@pytest.mark.parametrize("key_of", [data_of, lambda disk: None], ids=["data", "target"])
def test_export_of_a_disk_that_was_replaced(config, key_of):
    """The disk is another one after any wait: it does not get the NQN and UUID of the first."""
    config.write("[ramdisk b]\nsize = 4M\n")
    config.ok()
    disk = disk_of("ramdisk/b").path
    with locked(key=key_of(disk)):
        process = begin_waiting("export", disk, *ANY)
        config.ok("--stop")
        assert ok("create", "--size", "4M") == disk
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == BUSY and "was replaced" in errors, errors
    assert nvme.tree() == []


def begin_slowly(*args):
    """Start rxadm, and let it wait for some seconds before it makes the record of an export."""
    return begin("strace", "-f", "-o", "/dev/null", "-e", "trace=symlink,symlinkat", "-e",
                 "inject=symlink,symlinkat:delay_enter=6s:when=1", program("rxadm"), *args)


def is_locked(nqn):
    try:
        with locked(nqn):
            return False
    except OSError:
        return True


EXPORT_B = (f"[ramdisk b]\nsize = 4M\n[export b]\ndevice = ramdisk/b\ntransport = tcp\n"
            f"address = 127.0.0.1\nnqn = {NQN}\nallow-any-host = yes\n")


@pytest.mark.one_kernel
def test_start_while_the_export_ends(config):
    """The export still exists when apply looks for it: apply waits, and makes it again."""
    config.write(EXPORT_B)
    config.ok()
    with locked(NQN):
        process = begin_waiting("apply", "--config", config.path, "b")
        os.unlink(f"{nvme.ROOT}/ports/1/subsystems/{NQN}")
    assert "export ramdisk/b" in end(process)
    assert offered() == [NQN]
    config.ok("--stop")


@pytest.mark.one_kernel
def test_apply_while_the_export_is_made(config):
    """apply waits, and then there is nothing to do."""
    config.write(EXPORT_B)
    config.ok("ramdisk/b")
    other = begin_slowly("export", disk_of("ramdisk/b").path, *ANY, "--nqn", NQN)
    until(lambda: is_locked(NQN))
    process = begin(program("rxadm"), "apply", "--config", config.path, "export/b")
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output, complaints(errors)) == (0, "", [])
    assert end(other) == NQN
    assert offered() == [NQN]
    config.ok("--stop")


@pytest.mark.one_kernel
def test_apply_before_the_export_is_made(config):
    """Another process makes it after apply has looked: that is what apply wants."""
    config.write(EXPORT_B)
    config.ok("ramdisk/b")
    log = config.folder / "log"
    log.touch()
    # It looks whether the disk is exported, and then begins to export it.
    process = begin("strace", "-f", "-o", log, "-P", nvme.MACHINE_ID, "-e", "trace=openat", "-e",
                    "inject=openat:signal=STOP:when=2", program("rxadm"), "apply", "--config",
                    config.path, "export/b")
    until(lambda: "stopped by SIGSTOP" in log.read_text() or process.poll() is not None)
    ok("export", disk_of("ramdisk/b").path, *ANY, "--nqn", NQN)
    os.kill(int(log.read_text().split()[0]), signal.SIGCONT)
    assert "export ramdisk/b" in end(process)
    assert offered() == [NQN]
    config.ok("--stop")


@pytest.mark.one_kernel
def test_export_that_waits_does_not_lock_the_disk(made):
    """Another disk's export of this name ends, and hangs: the RAM disk can change meanwhile."""
    with locked(NQN):
        process = begin_waiting("export", made, *ANY, "--nqn", NQN)
        ok("remove", made)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == DEVICE and made in errors, errors
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_records_can_be_read(made):
    """Other users see by the records which exports are rxadm's, so that lists do not wait."""
    folders = [nvme.RECORDS, *(f"{nvme.RECORDS}/{name}"
                               for name in ("hosts", "ports", "subsystems"))]
    for folder in reversed(folders):
        if os.path.isdir(folder):
            os.rmdir(folder)
    run("sh", "-c", 'umask 077; exec "$@"', "sh", program("rxadm"), "export", made, *ANY)
    assert [os.stat(folder).st_mode & 0o777 for folder in folders] == [0o755] * 4
    ok("unexport", made)
    for folder in folders:
        os.chmod(folder, 0o700)
    ok("export", made, *ANY)
    assert [os.stat(folder).st_mode & 0o777 for folder in folders] == [0o755] * 4
    ok("unexport", made)


@pytest.mark.one_kernel
def test_unexport_keeps_a_newer_export(made):
    """The export that it waits for ends, and another one takes its name: that one is kept."""
    ok("export", made, *ANY, "--nqn", NQN)
    record = f"{nvme.RECORDS}/subsystems/{NQN}"
    with locked(NQN):
        process = begin_waiting("unexport", NQN)
        os.unlink(record)
        os.symlink(made, record)
    assert end(process) == ""
    assert offered() == [NQN]
    ok("unexport", NQN)


@pytest.mark.one_kernel
@pytest.mark.parametrize("ends", [
    *long([(("unexport", NQN),), (("unexport", "/dev/mapper/c"),)]),
    ("export", "/dev/mapper/c", *ANY, "--nqn", f"{NQN}-c")], ids=["nqn", "device", "export"])
def test_remnant_that_hangs(config, slow, ends):
    """An unexport was killed before it waited: only a command for this export waits instead."""
    config.write(f"[cache c]\norigin = {slow[1]}\nsize = 8M\n")
    config.ok()
    made = ok("create", "--size", "4M")
    ok("export", "/dev/mapper/c", *ANY, "--nqn", NQN)
    nvme.connect(NQN)
    with hanging(slow, nvme.disk(NQN)):
        killed("rmdir", "unexport", NQN)
        ok("export", made, *ANY, "--nqn", f"{NQN}-other")
        ok("unexport", made)
        ending = begin(program("rxadm"), *ends)
        until(lambda: waits_for_io(ending))
    end(ending)
    assert not os.path.exists(f"{nvme.RECORDS}/subsystems/{NQN}")
    if ends[0] == "export":
        ok("unexport", "/dev/mapper/c")
    assert nvme.tree() == []
    config.ok("--stop")


@pytest.mark.one_kernel
def test_record_that_appears_in_a_wait(made):
    """Another export is killed after the record of its port, before the port."""
    with locked(key=data_of(made)):
        process = begin_waiting("export", made, *ANY, "--nqn", NQN)
        os.makedirs(f"{nvme.RECORDS}/ports", exist_ok=True)
        os.symlink("x", f"{nvme.RECORDS}/ports/1")
    assert end(process) == NQN
    ok("unexport", made)


@pytest.mark.one_kernel
def test_list_of_a_user_while_an_export_ends(made):
    """A user may not look for the lock of the process that is ending it."""
    ok("export", made, *ANY, "--nqn", NQN)
    killed("rmdir", "unexport", NQN, when=2)
    show = (program("rxadm"), "list", "-rno", "EXPORT")
    with locked(NQN):
        assert NQN in run(*show).stdout
        assert NQN in as_nobody(*show).stdout
    ok("unexport", NQN)


@pytest.fixture(name="cached")
def cached_disk(config, slow):
    config.write(f"[cache c]\norigin = {slow[1]}\nsize = 8M\n")
    config.ok()
    yield "/dev/mapper/c"
    config.ok("--stop")


@pytest.mark.one_kernel
def test_record_of_a_port_that_is_gone(cached, made):
    """It does not keep the next export from the number, though ports in configfs would stay."""
    ok("export", cached, *ANY, "--nqn", NQN)
    os.symlink("x", f"{nvme.RECORDS}/ports/2")
    ok("export", made, *ANY, "--port", "4421", "--nqn", f"{NQN}-other")
    assert sorted(offered()) == [NQN, f"{NQN}-other"]
    ok("unexport", made, cached)


@pytest.mark.one_kernel
def test_remnant_without_a_namespace(config, cached):
    """The target has closed the device, so it can go."""
    ok("export", cached, *ANY, "--nqn", NQN)
    killed("rmdir", "unexport", NQN, when=2)
    assert os.listdir(f"{nvme.ROOT}/subsystems/{NQN}/namespaces") == []
    with locked(NQN):
        # The namespace of an export that hangs cannot be seen either.
        config.refused(BUSY, "--stop", "c", names=("in use", NQN))
    config.ok("--stop", "c")
    ok("unexport", NQN)


@pytest.mark.one_kernel
def test_stop_of_an_export_that_is_gone(config):
    """Another process ends it after apply has found it: that is what apply wants."""
    config.write(EXPORT_B)
    config.ok()
    with locked():
        process = begin_waiting("apply", "--config", config.path, "--stop", "export/b")
        remove_export(NQN)
    assert "end the export of ramdisk/b" in end(process)
    config.ok("--stop")


def make_export(nqn, device):
    """Make it at port 1 as another process would, which has the locks."""
    subsystem = f"{nvme.ROOT}/subsystems/{nqn}"
    os.symlink(device, f"{nvme.RECORDS}/subsystems/{nqn}")
    for path in subsystem, f"{subsystem}/namespaces/1":
        os.mkdir(path)
    for name, text in ("attr_allow_any_host", "1"), ("namespaces/1/device_path", device), \
            ("namespaces/1/enable", "1"):
        with open(f"{subsystem}/{name}", "w", encoding="ascii") as file:
            file.write(text)
    os.symlink(subsystem, f"{nvme.ROOT}/ports/1/subsystems/{nqn}")


@pytest.mark.one_kernel
def test_stop_keeps_the_export_of_another_disk(config):
    """The disk is removed in the wait. Another one has its path then, and is exported."""
    config.write(EXPORT_B)
    config.ok()
    disk = disk_of("ramdisk/b").path
    with locked():
        process = begin_waiting("apply", "--config", config.path, "--stop", "export/b")
        remove_export(NQN)
        ok("remove", "--force", disk)
        assert ok("create", "--size", "4M") == disk
        make_export(f"{NQN}-other", disk)
    end(process)
    assert offered() == [f"{NQN}-other"]
    ok("unexport", disk)


@contextlib.contextmanager
def replaced(config, lab, cached):
    number = dm.number(cached)
    config.ok("--stop")
    _, other = lab.linear(MIB)
    config.ok()
    assert dm.number(other) == number != dm.number(cached)
    yield


@contextlib.contextmanager
def renamed(*_):
    run("dmsetup", "rename", "c", "rxdtest-renamed")
    run("dmsetup", "create", "c", "--table", "0 2048 zero")
    yield
    run("dmsetup", "remove", "c")
    run("dmsetup", "rename", "rxdtest-renamed", "c")


@pytest.mark.one_kernel
@pytest.mark.parametrize("changed", [replaced, renamed])
def test_export_of_a_cached_disk_that_was_replaced(config, lab, cached, changed):
    with contextlib.ExitStack() as stack:
        with locked():
            process = begin_waiting("export", cached, *ANY)
            stack.enter_context(changed(config, lab, cached))
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == BUSY and "was replaced" in errors, errors
        assert nvme.tree() == []


@pytest.mark.one_kernel
def test_export_of_a_cached_disk_that_is_gone(config, cached):
    with locked(NQN):
        process = begin_waiting("export", cached, *ANY, "--nqn", NQN)
        config.ok("--stop")
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == DEVICE and cached in errors and "RAM" not in errors, errors
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_export_under_another_name(made):
    """The export of the disk ends: the next one waits for that, whatever its name is."""
    ok("export", made, *ANY, "--nqn", NQN)
    with locked(NQN):
        process = begin_waiting("export", made, *ANY, "--nqn", f"{NQN}-other")
        remove_export(NQN)
    assert end(process) == f"{NQN}-other"
    assert offered() == [f"{NQN}-other"]
    ok("unexport", made)
