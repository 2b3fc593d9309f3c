# SPDX-License-Identifier: GPL-2.0-only
"""rxadm apply: exports as the configuration says, after their disks and gone before them."""

import os
import random
import signal
import time

import pytest

from rxdlib import direct, dm, nvme
from rxdlib.command import ENVIRONMENT, KERNEL, program, run, rxadm
from rxdlib.configuration import (BUSY, DEVICE, PARAMETERS, RECORDS, disk_of, exporting,
                                  records)
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK, LONG, state
from rxdlib.nvme import HOST, OTHER
from rxdlib.sampled import long

# Debian's 6.1 is built without the loop transport and without keys.
HAS_LOOP = HAS_KEYS = KERNEL != "6.1"
ADDRESS = ("transport = loop" if HAS_LOOP else "transport = tcp\naddress = 127.0.0.1")
WHERE = "loop" if HAS_LOOP else "tcp 127.0.0.1:4420"
TRANSPORT = "loop" if HAS_LOOP else "tcp"
NQN = "nqn.2026-11.example:apply"
EXPORT = f"[export e]\ndevice = ramdisk/a\n{ADDRESS}\n"
DISK_A = "[ramdisk a]\nsize = 16M\n"
SHARED = EXPORT + f"nqn = {NQN}\nallow-host = {HOST}\n"
TCP = "transport = tcp\naddress = 127.0.0.1\n"


@pytest.fixture(name="config")
def configuration(nothing_left, tmp_path):
    with exporting(tmp_path) as config:
        yield config


def nvmet_has(nqn):
    return os.path.isdir(f"{nvme.ROOT}/subsystems/{nqn}")


def everything():
    return state(), nvme.tree()


def test_make_and_stop(config):
    """The export comes first in the file, but starts after its disk and stops before it."""
    config.write(SHARED + DISK_A)
    before = everything()
    plan = config.ok("--dry-run")
    assert everything() == before
    assert plan == ["ramdisk a: create a RAM disk of 16M", f"export e: export ramdisk/a ({WHERE})"]
    assert config.ok() == plan
    disk = disk_of("ramdisk/a")
    nvme.connect(NQN, transport=TRANSPORT)
    direct.write(nvme.disk(NQN), 0, stamp(1, MIB))
    assert direct.read(disk.path, 0, MIB) == stamp(1, MIB)

    made = everything()
    assert config.ok() == config.ok("--dry-run") == []
    assert everything() == made
    direct.read(nvme.disk(NQN), 0, MIB)     # the host is still connected
    nvme.disconnect(NQN)

    stop = ["export e: end the export of ramdisk/a", f"ramdisk a: remove {disk.path}"]
    assert config.refused(BUSY, "--stop", "ramdisk/a", names=(NQN, "rxadm unexport")) == []
    assert everything() == made
    assert config.ok("--stop", "e") == stop[:1]
    assert nvme.tree() == [] and disk_of("ramdisk/a")
    assert config.ok("export/e") == plan[1:]
    assert config.ok("--stop") == stop
    assert everything() == before
    assert config.ok("--stop") == []


def test_cached_disk(config):
    config.write(f"[export e]\ndevice = cache/data\n{ADDRESS}\nnqn = {NQN}\n"
                 f"allow-any-host = yes\n[cache data]\norigin = {DISK}\nsize = 8M\n")
    assert config.ok()[-1] == f"export e: export cache/data ({WHERE})"
    nvme.connect(NQN, transport=TRANSPORT, host=OTHER)
    direct.write(nvme.disk(NQN), 0, stamp(2, MIB))
    assert direct.read("/dev/mapper/data", 0, MIB) == stamp(2, MIB)
    nvme.disconnect(NQN)
    assert config.ok() == []
    assert len(config.ok("--stop")) == 3
    assert nvme.tree() == [] and "data" not in dm.names()


@pytest.mark.one_kernel
def test_others_stay(config, lab):
    """Exports stay that are not in the configuration, or that another program created."""
    other = lab.ramdisk(MIB)
    config.write(SHARED + DISK_A)
    options = ("--transport", "tcp", "--address", "127.0.0.1", "--allow-any-host")
    assert rxadm("export", other.path, *options).returncode == 0
    before = everything()
    config.ok()
    config.ok("--stop")
    assert everything() == before
    assert rxadm("unexport", other.path).returncode == 0

    run("modprobe", "nvmet")
    config.ok("ramdisk/a")
    subsystem = f"{nvme.ROOT}/subsystems/nqn.2026-11.example:another"
    for path in subsystem, f"{subsystem}/namespaces/1":
        os.mkdir(path)
    try:
        with open(f"{subsystem}/namespaces/1/device_path", "w", encoding="ascii") as file:
            file.write(disk_of("ramdisk/a").path)
        before = everything()
        config.refused(BUSY, names=("export e: device '/dev/rxd", "another", "not by rxadm"))
        assert config.ok("--stop", "export/e") == []
        assert everything() == before
    finally:
        os.rmdir(f"{subsystem}/namespaces/1")
        os.rmdir(subsystem)


@pytest.mark.one_kernel
@pytest.mark.parametrize("text, key", [
    (f"{TCP}port = 4421\nallow-host = {HOST}\nnqn = {NQN}\n",
     "address 'tcp 127.0.0.1:4421': is tcp 127.0.0.1:4420 on the existing device"),
    (f"{TCP}allow-host = {HOST}\n", "nqn 'nqn.2014-08.org.nvmexpress:uuid:"),
    (f"{TCP}allow-host = {HOST} {OTHER}\nnqn = {NQN}\n", f"allow-host '{HOST} {OTHER}'"),
    (f"{TCP}allow-host = {OTHER}\nnqn = {NQN}\n", f"allow-host '{OTHER}': is {HOST} on"),
    (f"{TCP}allow-any-host = yes\nnqn = {NQN}\n", "allow-any-host 'yes': is no on"),
], ids=["port", "nqn", "more-hosts", "other-host", "any-host"])
def test_what_an_export_keeps(config, text, key):
    head = "[export e]\ndevice = ramdisk/a\n"
    config.write(DISK_A + head + f"{TCP}allow-host = {HOST}\nnqn = {NQN}\n")
    config.ok()
    before = everything()
    config.write(DISK_A + head + text)
    for args in (), ("--dry-run",):
        assert config.refused(BUSY, *args, names=(f"export e: {key}", "--stop export/e")) == []
    assert everything() == before
    config.ok("--stop", "export/e")
    config.ok("export/e")
    assert config.ok() == []


def test_key(config):
    """DH-HMAC-CHAP, where the kernel has it."""
    path = config.folder / "key"
    keys = [run("nvme", "gen-dhchap-key", "-n", HOST).stdout for _ in range(2)]
    text = DISK_A + f"[export e]\ndevice = ramdisk/a\n{TCP}nqn = {NQN}\nallow-host = {HOST}\n"
    config.write(text + f"dhchap-key = {path}\n")
    assert config.refused(DEVICE, names=(f"key file '{path}'", "No such file")) == \
        ["ramdisk a: create a RAM disk of 16M"]
    path.write_text(keys[0])
    path.chmod(0o644)
    config.refused(PARAMETERS, names=(str(path), "0600"))
    path.chmod(0o600)
    if not HAS_KEYS:
        config.refused(DEVICE, names="CONFIG_NVME_TARGET_AUTH")
        assert nvme.tree() == []
        return
    assert len(config.ok()) == 1
    assert nvme.connect(NQN, check=False).returncode
    nvme.connect(NQN, f"--dhchap-secret={keys[0].strip()}")
    nvme.disk(NQN)
    nvme.disconnect(NQN)
    assert config.ok() == []
    path.write_text(keys[1])
    config.refused(BUSY, names=f"dhchap-key '{path}': is another on the existing device")
    config.write(text)
    config.refused(BUSY, names="dhchap-key 'none': is another on the existing device")


@pytest.mark.one_kernel
def test_disk_that_is_not_there(config):
    config.write(SHARED + DISK_A)
    before = everything()
    for args in ("e",), ("e", "--dry-run"):
        config.refused(DEVICE, *args, names=("export e: device 'ramdisk/a'", "does not exist",
                                             "'rxadm apply ramdisk/a'"))
    assert everything() == before
    config.write("[cache c]\norigin = /dev/disk/by-id/gone\nsize = 8M\n"
                 f"[export e]\ndevice = cache/c\n{TCP}allow-any-host = yes\n")
    result = config.apply()
    assert result.returncode == DEVICE and len(result.stderr.splitlines()) == 2
    assert everything() == before


@pytest.mark.one_kernel
def test_disk_without_a_record(config):
    """The disk was started by an rxadm without records: its export is still found."""
    config.write(SHARED + DISK_A)
    config.ok()
    os.unlink(f"{RECORDS}/ramdisk-a")
    config.write(SHARED)
    config.refused(DEVICE, "--stop", "export/e",
                   names=("export e: device 'ramdisk/a'", "export 'e'", "missing"))
    assert records() == ["export-e"] and nvmet_has(NQN)
    config.write(SHARED + DISK_A + "[ramdisk b]\nsise = 4M\n")
    assert config.ok("--stop", "export/e") == ["export e: end the export of ramdisk/a"]
    assert records() == [] and nvme.tree() == []
    config.write(SHARED + DISK_A)
    config.ok("--stop")
    assert not disk_of("ramdisk/a")


@pytest.mark.one_kernel
def test_export_of_what_is_gone(config):
    """Nothing is exported: a record without an export is not an error."""
    config.write(SHARED + DISK_A)
    config.ok()
    rxadm("unexport", NQN, check=True)
    config.ok("--stop", "ramdisk/a")
    config.write("[ramdisk b]\nsize = 4M\n")
    assert config.ok("--stop", "export/e") == [] and records() == []


@pytest.mark.one_kernel
def test_other_device(config):
    """Another device is refused: the first export would be forgotten, and its disk never saved."""
    disks = DISK_A + "[ramdisk b]\nsize = 16M\n"
    other = SHARED.replace("ramdisk/a", "ramdisk/b").replace(NQN, f"{NQN}-b") + disks
    config.write(SHARED + disks)
    config.ok()
    before = everything()
    config.write(other)
    for args in (), ("--dry-run",):
        assert config.refused(BUSY, *args, names=("device 'ramdisk/b': is ramdisk/a on",
                                                  "--stop export/e")) == []
    assert everything() == before
    assert config.ok("--stop", "e") == ["export e: end the export of ramdisk/a"]
    assert config.ok("e") == [f"export e: export ramdisk/b ({WHERE})"]
    # Without an export, there is nothing that could be forgotten.
    rxadm("unexport", f"{NQN}-b", check=True)
    config.write(SHARED + disks)
    assert config.ok("e") == [f"export e: export ramdisk/a ({WHERE})"]
    config.ok("--stop")


@pytest.mark.one_kernel
@pytest.mark.parametrize("when, error", [("1+", "EPROTONOSUPPORT"), ("2+", "EIO")])
def test_disk_that_cannot_be_asked_for(config, when, error):
    """The disk may exist and be exported."""
    config.write(SHARED + DISK_A)
    config.ok()
    before = everything()
    result = config.failing(f"inject=ioctl:error={error}:when={when}", "--stop", "export/e")
    assert result.returncode == DEVICE and result.stdout == "" and result.stderr, result
    assert everything() == before and "export-e" in records()
    config.ok("--stop")


@pytest.mark.one_kernel
def test_exports_that_cannot_be_read(config):
    """The disk may be exported."""
    config.write(SHARED + DISK_A)
    config.ok()
    before = everything()
    result = run("strace", "-o", "/dev/null", "-P", f"{nvme.ROOT}/subsystems", "-e",
                 "trace=openat", "-e", "inject=openat:error=EMFILE", program("rxadm"), "apply",
                 "--config", config.path, "--stop", "export/e", check=False)
    assert result.returncode == DEVICE and "cannot read the exports" in result.stderr, result
    assert everything() == before and "export-e" in records()
    config.ok("--stop")


@pytest.mark.one_kernel
def test_machine_without_an_id(config):
    with open(nvme.MACHINE_ID, encoding="ascii") as file:
        old = file.read()
    config.write(DISK_A + EXPORT + f"allow-host = {HOST}\n")
    try:
        with open(nvme.MACHINE_ID, "w", encoding="ascii"):
            pass
        config.refused(PARAMETERS, names=("/etc/machine-id", "give the key nqn"))
    finally:
        with open(nvme.MACHINE_ID, "w", encoding="ascii") as file:
            file.write(old)
    config.ok("--stop")


@pytest.mark.one_kernel
def test_address_of_another_machine(config):
    """The kernel refuses it at the last step: the disk stays, and no part of the export."""
    config.write(DISK_A + "[export e]\ndevice = ramdisk/a\ntransport = tcp\n"
                 f"address = 192.0.2.1\nallow-host = {HOST}\n")
    assert config.refused(PARAMETERS, names=("'192.0.2.1'", "not an address of this machine")) == \
        ["ramdisk a: create a RAM disk of 16M"]
    assert nvme.tree() == []


@pytest.mark.one_kernel
@pytest.mark.parametrize("name, calls", [*long([("unlink", 5)]), ("rmdir", 4)])
def test_killed_stop(config, name, calls):
    """The next stop removes what is left, whichever call was the last."""
    config.write(DISK_A + f"[export e]\ndevice = ramdisk/a\n{TCP}nqn = {NQN}\n"
                 f"allow-host = {HOST}\n")
    for when in sorted({*range(1, calls + 1, 1 if LONG else 2), calls}):
        config.ok()
        result = run("strace", "-f", "-o", "/dev/null", "-e", f"trace={name}", "-e",
                     f"inject={name}:signal=KILL:when={when}", program("rxadm"), "apply",
                     "--config", config.path, "--stop", "e", check=False, environment=dict(
                         ENVIRONMENT,
                         ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"))
        assert result.returncode < 0, result
        config.ok("--stop", "e")
        assert nvme.tree() == [], when
    config.ok("--stop")


@pytest.mark.one_kernel
@pytest.mark.skipif(not HAS_LOOP, reason="the kernel has no loop transport")
@pytest.mark.parametrize("args", [(), ("--stop",)], ids=["start", "stop"])
def test_killed_stop_over_loop(config, args):
    """The namespace is gone, and the port still offers it: the next run does not keep this."""
    config.write(SHARED + DISK_A)
    config.ok()
    result = run("strace", "-f", "-o", "/dev/null", "-e", "trace=unlink", "-e",
                 "inject=unlink:signal=KILL:when=1", program("rxadm"), "apply", "--config",
                 config.path, "--stop", "e", check=False)
    assert result.returncode < 0, result
    assert os.listdir(f"{nvme.ROOT}/subsystems/{NQN}/namespaces") == []
    assert os.listdir(f"{nvme.ROOT}/ports/1/subsystems") == [NQN]
    assert len(config.ok(*args, "e")) == 1
    if args:
        assert nvme.tree() == []
    else:
        assert os.listdir(f"{nvme.ROOT}/subsystems/{NQN}/namespaces") == ["1"]
    config.ok("--stop")
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_killed(config):
    """If it is killed at any moment, the next run has the intended result."""
    config.write(DISK_A + f"[export e]\ndevice = ramdisk/a\n{TCP}nqn = {NQN}\n"
                 f"allow-host = {HOST} {OTHER}\n")
    config.ok()
    made = everything()
    begin = time.monotonic()
    config.ok("--stop", "e")
    config.ok()
    whole = time.monotonic() - begin
    chance = random.Random(7)
    for number in range(6 if LONG else 3):
        for args in ("--stop", "e"), ():
            process = config.start(*args)
            time.sleep(chance.random() * whole / 2)
            process.send_signal(signal.SIGINT if number % 3 == 0 else signal.SIGKILL)
            process.communicate(timeout=60)
            if args and number % 2:
                config.ok(*args)
                assert nvme.tree() == []
        config.ok()
        assert everything() == made
    config.ok("--stop")
