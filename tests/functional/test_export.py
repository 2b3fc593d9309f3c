# SPDX-License-Identifier: GPL-2.0-only
"""rxadm export: other machines reach a device over NVMe, completely or not at all."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import uuid

import pytest

from rxdlib import direct, nvme
from rxdlib.command import KERNEL, as_nobody, program, run, rxadm
from rxdlib.configuration import Configuration
from rxdlib.direct import MIB, stamp
from rxdlib.lab import DISK, LONG
from rxdlib.nvme import HOST, OTHER
from rxdlib.outcome import ok
from rxdlib.sampled import long, sampled

PARAMETERS, PERMISSION, DEVICE, BUSY = 1, 2, 4, 5
TCP = ("--transport", "tcp", "--address", "127.0.0.1")
ALLOWED = ("--allow-host", HOST)
NQN = "nqn.2026-11.example:test"
HAS_LOOP = HAS_KEYS = KERNEL != "6.1"   # Debian's is built without


def refused(code, *args, names):
    before = nvme.tree()
    result = rxadm(*args)
    assert result.returncode == code and result.stdout == "", result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("rxadm: "), result.stderr
    for name in [names] if isinstance(names, str) else names:
        assert name in lines[0]
    assert nvme.tree() == before


@pytest.fixture(scope="module", autouse=True)
def network():
    nvme.network()


@pytest.fixture
def target(lab):
    """Nothing is exported, and no host is connected, before and after a test."""
    assert nvme.tree() == []
    with contextlib.ExitStack() as stack:
        yield stack
    left = nvme.end_all()
    assert left == [] == nvme.tree()


@contextlib.contextmanager
def exported(device, *options):
    nqn = ok("export", device, *options).strip()
    try:
        yield nqn
    finally:
        ok("unexport", device)


@contextlib.contextmanager
def connected(nqn, *options, **more):
    nvme.connect(nqn, *options, **more)
    try:
        yield nvme.disk(nqn)
    finally:
        nvme.disconnect(nqn)


def check_both_sides(path, remote):
    direct.write(path, 0, stamp(1, MIB))
    assert direct.read(remote, 0, MIB) == stamp(1, MIB)
    direct.write(remote, MIB, stamp(2, MIB))
    assert direct.read(path, MIB, MIB) == stamp(2, MIB)


def export_line(device):
    return json.loads(ok("info", device, "--json"))["info"][0]["export"]


def test_tcp(lab, target):
    """Each side reads what the other writes; names and numbers come from this RAM disk."""
    ramdisk = lab.ramdisk(16 * MIB)
    number = nvme.identity(ramdisk.query().uuid)
    with exported("rxd0", *TCP, *ALLOWED) as nqn:
        assert nqn == f"nqn.2014-08.org.nvmexpress:uuid:{number}"
        assert nvme.read("subsystems", nqn, "attr_allow_any_host") == "0"
        assert json.loads(ok("list", "--json"))["ramdisks"][0]["export"] == \
            f"{nqn} (tcp 127.0.0.1:4420)"
        assert export_line("rxd0") == f"{nqn} (tcp 127.0.0.1:4420)"
        with connected(nqn) as remote:
            check_both_sides(ramdisk.path, remote)
            with direct.Direct(remote) as device:
                assert device.size() == 16 * MIB
            with open(f"/sys/block/{os.path.basename(remote)}/uuid", encoding="ascii") as file:
                assert file.read().strip() == number
    assert json.loads(ok("list", "--json"))["ramdisks"][0]["export"] is None
    assert export_line("rxd0") is None
    assert nvme.tree() == []
    ramdisk.remove()


def test_by_name(lab, target):
    ramdisk = lab.ramdisk(4 * MIB)
    ramdisk.set_attribute("name", "scratch")
    with exported("scratch", *TCP, *ALLOWED, "--nqn", NQN):
        assert export_line("rxd0") == f"{NQN} (tcp 127.0.0.1:4420)"
        refused(BUSY, "export", "scratch", *TCP, *ALLOWED, names="/dev/rxd0")
    assert nvme.tree() == []


def test_loop(lab, target):
    ramdisk = lab.ramdisk(16 * MIB)
    if not HAS_LOOP:
        refused(DEVICE, "export", "rxd0", "--transport", "loop", *ALLOWED, names="nvme-loop")
        return
    with exported(ramdisk.path, "--transport", "loop", *ALLOWED, "--nqn", NQN) as nqn:
        assert nqn == NQN
        assert ok("list", "-rno", "EXPORT") == f"{NQN}\\x20(loop)\n"
        with connected(nqn, transport="loop") as remote:
            check_both_sides(ramdisk.path, remote)
    assert nvme.tree() == []


def test_cached_disk(lab, target):
    cache = lab.cache(16 * MIB)
    refused(BUSY, "export", cache.ramdisk.path, *TCP, *ALLOWED, names=(cache.path,))
    with exported(cache.path, *TCP, *ALLOWED, "--nqn", NQN) as nqn:
        assert json.loads(ok("status", "--json"))["caches"][0]["export"] == \
            f"{NQN} (tcp 127.0.0.1:4420)"
        assert export_line(cache.name) == f"{NQN} (tcp 127.0.0.1:4420)"
        with connected(nqn) as remote:
            check_both_sides(cache.path, remote)
            assert direct.read(DISK, MIB, MIB) == stamp(2, MIB)
        refused(BUSY, "unmap", cache.name, names=(NQN, "rxadm unexport"))


@pytest.fixture
def machine_id():
    """Set the machine ID for a while."""
    with open(nvme.MACHINE_ID, encoding="ascii") as file:
        old = file.read()

    def write(text):
        with open(nvme.MACHINE_ID, "w", encoding="ascii") as file:
            file.write(text)
    yield write
    write(old)


MACHINES = "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdee"


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", ["ramdisk", "cache"])
def test_identity(lab, target, machine_id, kind):
    """The identity is the same after each boot, and differs between machines; the UUID stays."""
    device = lab.cache(MIB) if kind == "cache" else lab.ramdisk(MIB)
    name = device.path if kind == "cache" else device.query().uuid
    seen = []
    for machine in MACHINES:
        expected = str(uuid.uuid5(uuid.UUID(machine), name))
        machine_id(machine + "\n")
        for _ in range(2):
            with exported(device.path, *TCP, *ALLOWED) as nqn:
                seen.append(nvme.number(nqn))
                assert nqn == f"nqn.2014-08.org.nvmexpress:uuid:{expected}"
                assert seen[-1][2] == expected
                assert machine not in "".join(seen[-1]).replace("-", "")
        with exported(device.path, *TCP, *ALLOWED, "--nqn", NQN):
            assert nvme.number(NQN)[1:] == seen[-1][1:]
    assert seen[0] == seen[1] and seen[2] == seen[3]
    assert not set(seen[0]) & set(seen[2])
    if kind == "ramdisk":
        assert device.query().uuid == name not in seen[0]
    for text in "", "uninitialized\n", MACHINES[0][:-1]:
        machine_id(text)
        refused(PARAMETERS, "export", device.path, *TCP, *ALLOWED,
                names=("/etc/machine-id", "give --nqn"))
    with exported(device.path, *TCP, *ALLOWED, "--nqn", NQN):
        pass


@pytest.mark.one_kernel
def test_two_machines_of_one_configuration(lab, target, machine_id, tmp_path):
    """A host that connects to both sees two disks, not two paths to one."""
    seen = []
    with Configuration(tmp_path) as config:
        for machine in MACHINES:
            config.write("[ramdisk scratch]\nsize = 8M\n[export scratch]\n"
                         "device = ramdisk/scratch\ntransport = tcp\naddress = 127.0.0.1\n"
                         "allow-any-host = yes\n")
            machine_id(machine + "\n")
            config.ok()
            nqn = ok("list", "-rno", "EXPORT").partition("\\x20")[0].strip()
            with connected(nqn) as remote:
                with open(f"/sys/block/{os.path.basename(remote)}/wwid", encoding="ascii") as file:
                    seen.append((file.read(), *nvme.number(nqn)))
            config.ok("--stop")
    assert not set(seen[0]) & set(seen[1])


def test_busy(lab, target):
    """An exported device cannot be removed, and the message gives the reason."""
    lab.ramdisk(16 * MIB)
    with exported("rxd0", *TCP, *ALLOWED) as nqn:
        for command in ("remove", "rxd0"), ("clear", "rxd0"), \
                ("export", "rxd0", *TCP, *ALLOWED, "--nqn", NQN), \
                ("map", "--cache", "rxd0", "--origin", DISK):
            refused(BUSY, *command, names=(nqn, "rxadm unexport /dev/rxd0"))
    ok("clear", "rxd0")


def test_keys(lab, target):
    """DH-HMAC-CHAP, where the kernel supports it; only root can read the key."""
    lab.ramdisk(16 * MIB)
    path = lab.file(0)
    key, wrong = (run("nvme", "gen-dhchap-key", "-n", HOST).stdout.strip() for _ in range(2))
    with open(path, "w", encoding="ascii") as file:
        file.write(key + "\n")
    command = ("export", "rxd0", *TCP, *ALLOWED, "--dhchap-key", path)
    os.chmod(path, 0o640)
    refused(PARAMETERS, *command, names=(path, "0640", "0600"))
    os.chmod(path, 0o600)
    os.chown(path, 65534, 65534)
    refused(PARAMETERS, *command, names=(path, "UID 65534", "root"))
    os.chown(path, 0, 0)
    if not HAS_KEYS:
        refused(DEVICE, *command, names="CONFIG_NVME_TARGET_AUTH")
        return
    assert key not in ok(*command, "--dry-run")
    with exported(*command[1:]) as nqn:
        secret = f"{nvme.ROOT}/hosts/{HOST}/dhchap_key"
        assert nvme.read(secret) == key
        assert os.stat(secret).st_mode & 0o7777 == 0o600
        for command in ("cat", secret), ("ls", os.path.dirname(secret)):
            assert as_nobody(*command, check=False).returncode, "readable by everybody"
        assert nvme.connect(nqn, check=False).returncode
        with contextlib.suppress(subprocess.TimeoutExpired):    # some kernels try for long
            assert nvme.connect(nqn, f"--dhchap-secret={wrong}", check=False,
                                timeout=5).returncode
        with pytest.raises(TimeoutError):
            nvme.disk(nqn, timeout=1)
        nvme.disconnect(nqn)
        with connected(nqn, f"--dhchap-secret={key}") as remote:
            check_both_sides("/dev/rxd0", remote)
        lab.ramdisk(MIB)
        refused(BUSY, "export", "rxd1", *TCP, *ALLOWED, names=(HOST, "a key"))


@pytest.mark.skipif(not HAS_KEYS, reason="the kernel knows no DH-HMAC-CHAP")
def test_key_that_all_could_read(lab, target):
    """A host entry that an older release of rxadm has made."""
    path = lab.file(0)
    with open(path, "w", encoding="ascii") as file:
        file.write(run("nvme", "gen-dhchap-key", "-n", HOST).stdout)
    os.chmod(path, 0o600)
    options = (*TCP, *ALLOWED, "--dhchap-key", path)
    secret = f"{nvme.ROOT}/hosts/{HOST}/dhchap_key"
    for _ in range(2):
        lab.ramdisk(MIB)
    with exported("rxd0", *options):
        os.chmod(secret, 0o644)
        os.chmod(f"{nvme.ROOT}/hosts", 0o755)
        as_nobody("cat", secret)
        with exported("rxd1", *options):
            assert os.stat(secret).st_mode & 0o7777 == 0o600
            assert as_nobody("ls", os.path.dirname(secret), check=False).returncode


def test_who_may_connect(lab, target):
    lab.ramdisk(MIB)
    with exported("rxd0", *TCP, *ALLOWED) as nqn:
        assert nvme.connect(nqn, host=OTHER, check=False).returncode
        assert nvme.connect(NQN, check=False).returncode
    with exported("rxd0", *TCP, *ALLOWED, "--allow-host", OTHER) as nqn:
        for host in HOST, OTHER:
            with connected(nqn, host=host):
                pass
    with exported("rxd0", *TCP, "--allow-any-host") as nqn:
        with connected(nqn, host=OTHER):
            pass


def test_hosts_lose_it(lab, target):
    """The target does not wait for connected hosts."""
    ramdisk = lab.ramdisk(MIB)
    nqn = ok("export", "rxd0", *TCP, *ALLOWED).strip()
    nvme.connect(nqn)
    nvme.disk(nqn)
    ok("unexport", nqn)
    assert nvme.tree() == []
    ramdisk.remove()
    nvme.disconnect(nqn)


@pytest.mark.one_kernel
def test_one_port_for_two(lab, target):
    """Exports at one address share its port and their host."""
    lab.ramdisk(MIB)
    lab.ramdisk(2 * MIB)
    with exported("rxd0", *TCP, *ALLOWED) as nqn:
        with exported("rxd1", *TCP, *ALLOWED) as other:
            assert len([path for path in nvme.tree() if "config/nvmet/ports/" in path]) == 1
            with connected(nqn), connected(other):
                pass
        with connected(nqn):
            pass
        with exported("rxd1", *TCP, "--port", "4421", *ALLOWED):
            assert sorted(os.listdir(f"{nvme.ROOT}/ports")) == ["1", "2"]
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_others_exports_stay(lab, target):
    """Exports that rxadm did not make are neither used nor removed."""
    lab.ramdisk(MIB)
    lab.ramdisk(MIB)
    run("modprobe", "nvmet-tcp")
    made = [f"{nvme.ROOT}/{name}" for name in
            (f"subsystems/{NQN}", f"subsystems/{NQN}/namespaces/1", f"hosts/{HOST}", "ports/7")]
    for path in made:
        os.mkdir(path)
    for name, value in (("addr_trtype", "tcp"), ("addr_adrfam", "ipv4"),
                        ("addr_traddr", "127.0.0.1"), ("addr_trsvcid", "4420")):
        with open(f"{made[3]}/{name}", "w", encoding="ascii") as file:
            file.write(value)
    with open(f"{made[1]}/device_path", "w", encoding="ascii") as file:
        file.write("/dev/rxd1")
    before = nvme.tree()
    try:
        for name in "rxd1", NQN:
            refused(DEVICE, "unexport", name, names=(f"'{name}'", "not exported by rxadm"))
        refused(BUSY, "export", "rxd0", *TCP, *ALLOWED, "--nqn", NQN, names=f"'{NQN}'")
        with exported("rxd0", *TCP, *ALLOWED) as nqn:
            assert os.listdir(f"{nvme.ROOT}/ports") == ["7"]
            with connected(nqn):
                pass
        assert nvme.tree() == before
    finally:
        for path in made[1], made[0], made[2], made[3]:
            os.rmdir(path)


@pytest.mark.one_kernel
def test_twice(lab, target):
    lab.ramdisk(MIB)
    refused(DEVICE, "unexport", "rxd0", names=("'rxd0'", "is not exported"))
    nqn = ok("export", "rxd0", *TCP, *ALLOWED).strip()
    refused(BUSY, "export", "/dev/rxd0", *TCP, *ALLOWED, names=(nqn, "rxadm unexport"))
    lab.ramdisk(MIB)
    refused(BUSY, "export", "rxd1", *TCP, *ALLOWED, "--nqn", nqn, names=(nqn, "exists"))
    assert ok("unexport", nqn) == ""
    refused(DEVICE, "unexport", nqn, names=(nqn, "is not exported"))


@pytest.mark.one_kernel
def test_unexport_several(lab, target):
    """All are checked before the first export ends."""
    for _ in range(4):
        lab.ramdisk(MIB)
    nqns = [ok("export", f"rxd{i}", *TCP, *ALLOWED).strip() for i in range(3)]
    tree = nvme.tree()
    for options in (), ("--dry-run",):
        result = rxadm("unexport", "rxd0", "rxd3", nqns[1], "rxd9", *options)
        assert (result.returncode, result.stdout) == (DEVICE, "")
        result = rxadm("unexport", "rxd0", "rxd3", nqns[1], f"{NQN}-x", *options)
        assert (result.returncode, result.stdout) == (DEVICE, "")
        assert ["'rxd3'" in line or f"'{NQN}-x'" in line
                for line in result.stderr.splitlines()] == [True, True]
        refused(PARAMETERS, "unexport", "rxd0", "rxd1", nqns[0], *options,
                names=(nqns[0], "more than once"))
        assert nvme.tree() == tree
    lines = ok("unexport", "rxd0", nqns[2], "--dry-run")
    assert nqns[0] in lines and nqns[1] not in lines and nqns[2] in lines
    ok("unexport", "rxd0", nqns[2])
    shown = ok("list", "-rno", "EXPORT")
    assert nqns[0] not in shown and nqns[1] in shown and nqns[2] not in shown
    ok("unexport", "rxd1")
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_address(lab, target):
    """Refused by the kernel at the last step, and nothing is left."""
    lab.ramdisk(MIB)
    refused(PARAMETERS, "export", "rxd0", "--transport", "tcp", "--address", "192.0.2.1",
            *ALLOWED, names=("'192.0.2.1'", "not an address of this machine"))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 4420))
        taken.listen()
        refused(BUSY, "export", "rxd0", *TCP, *ALLOWED,
                names=("'127.0.0.1'", "4420", "another program"))
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_in_use(lab, target):
    ramdisk = lab.ramdisk(16 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    refused(BUSY, "export", ramdisk.path, *TCP, *ALLOWED, names=f"mounted on {directory}")
    run("umount", directory)
    fd = os.open(ramdisk.path, os.O_RDONLY | os.O_EXCL)
    try:
        refused(BUSY, "export", ramdisk.path, *TCP, *ALLOWED, names="in use by the kernel")
    finally:
        os.close(fd)


@pytest.mark.one_kernel
def test_open(lab, target):
    """A process that has it open, even read-only, might write at the same time as the hosts."""
    cache = lab.cache(16 * MIB)
    ramdisk = lab.ramdisk(16 * MIB)
    who = f"open in process {os.getpid()} ("
    for path in ramdisk.path, cache.path:
        command = ("export", path, *TCP, *ALLOWED, "--nqn", NQN)
        fd = os.open(path, os.O_RDONLY)
        try:
            refused(BUSY, *command, names=(os.path.basename(path), who))
            refused(BUSY, *command, "--dry-run", names=(os.path.basename(path), who))
        finally:
            os.close(fd)
        with exported(*command[1:]):
            pass


@pytest.mark.one_kernel
def test_rxcp(lab, target, tmp_path):
    """It does not write where hosts do, nor take blocks for unused that they may use."""
    ramdisk, image = lab.ramdisk(64 * MIB), tmp_path / "image"
    # Ranges of a RAM disk that are not allocated are never read.
    direct.write(ramdisk.path, 0, stamp(1, 64 * MIB))
    run("mkfs.xfs", "-q", "-f", "-K", "--unsupported", ramdisk.path)
    copy = (program("rxcp"), "-S", "yes", "-T", "json", ramdisk.path, image)
    with exported("rxd0", *TCP, *ALLOWED):
        record = json.loads(run(*copy).stdout.splitlines()[-1])
        assert record["read_skipped"] == "0"
        result = run(program("rxcp"), image, ramdisk.path, check=False)
        assert result.returncode == 1 and "in use" in result.stderr
    record = json.loads(run(*copy).stdout.splitlines()[-1])
    assert int(record["read_skipped"]) > 32 * MIB
    run(program("rxcp"), image, ramdisk.path)


@pytest.mark.one_kernel
def test_save(lab, target, tmp_path):
    """A line says that the image is as after a power failure, unless that was asked for."""
    ramdisk = lab.ramdisk(8 * MIB)
    image = tmp_path / "image"
    direct.write(ramdisk.path, 0, stamp(1, MIB))
    with exported("rxd0", *TCP, *ALLOWED) as nqn:
        for options in (), ("--update",):
            result = rxadm("save", "rxd0", image, *options)
            assert (result.returncode, result.stdout) == (0, ""), result
            note = result.stderr.splitlines()[0]
            assert f"exported as {nqn}" in note and "as after a power failure" in note, result
            assert len(result.stderr.splitlines()) == 1 + len(options)
        assert ok("save", "rxd0", image, "--no-freeze") == ""
    copy = lab.adopt_ramdisk(int(ok("load", image, "--uuid", "random").strip()[len("/dev/rxd"):]))
    assert direct.read(copy.path, 0, MIB) == stamp(1, MIB)


@pytest.mark.one_kernel
def test_dry_run(lab, target):
    """A shell can run the printed commands, with the same result."""
    lab.ramdisk(MIB)
    run("modprobe", "nvmet-tcp")
    options = ("rxd0", *TCP, *ALLOWED)
    lines = ok("export", *options, "--dry-run")
    assert nvme.tree() == []
    assert lines.splitlines()[0].startswith(f"mkdir '{nvme.ROOT}/subsystems/nqn.")
    assert lines.splitlines()[-1].startswith("ln -s ")
    nqn = ok("export", *options).strip()
    with_rxadm = nvme.tree()
    undo = ok("unexport", "rxd0", "--dry-run")
    assert nvme.tree() == with_rxadm
    ok("unexport", "rxd0")
    run("sh", "-euc", lines)
    try:
        assert nvme.tree() == [path for path in with_rxadm if nvme.RECORDS not in path]
        with connected(nqn):
            pass
    finally:
        run("sh", "-euc", undo)
    assert nvme.tree() == []


def inject(name, when, what, *args):
    """Run rxadm, and make its n-th call of this name fail or kill it."""
    return run("strace", "-f", "-o", "/dev/null", "-e", f"trace={name}", "-e",
               f"inject={name}:{what}:when={when}", program("rxadm"), *args, check=False)


# The calls to which n refers: earlier ones are about the folders of the records.
CALLS = [*(("mkdir", when) for when in (5, 6, 7, 8)),
         *(("write", when) for when in (1, 4, 6, 7)),
         *(("symlink", when) for when in (1, 2, 3, 4, 5))]


@pytest.mark.one_kernel
@pytest.mark.parametrize("name, when", sampled(CALLS))
def test_failed_export_leaves_nothing(lab, target, name, when):
    """Nothing is left, whichever call fails."""
    lab.ramdisk(MIB)
    result = inject(name, when, "error=EDQUOT", "export", "rxd0", *TCP, *ALLOWED)
    assert result.returncode == DEVICE and result.stderr.count("\n") == 1, result
    assert nvme.tree() == []
    with exported("rxd0", *TCP, *ALLOWED):
        pass


@pytest.mark.one_kernel
@pytest.mark.parametrize("name, when", sampled(CALLS))
def test_killed_export(lab, target, name, when):
    """The next export or unexport removes what a killed one left."""
    lab.ramdisk(MIB)
    command = ("export", "rxd0", *TCP, *ALLOWED)
    result = inject(name, when, "signal=KILL", *command)
    assert result.returncode == -signal.SIGKILL
    assert "(tcp" not in ok("list", "-rno", "EXPORT")   # killed before that call is made
    if nvme.tree() == [] or when % 2:
        ok(*command)
    assert ok("unexport", "rxd0") == ""
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_killed_with_the_name_on_its_lips(lab, target):
    """The export is complete but its NQN is not printed: it is an export like any other."""
    lab.ramdisk(MIB)
    result = inject("write", 11, "signal=KILL", "export", "rxd0", *TCP, *ALLOWED)
    assert result.returncode == -signal.SIGKILL and result.stdout == ""
    refused(BUSY, "export", "rxd0", *TCP, *ALLOWED, names="exported as")
    ok("unexport", "rxd0")


@pytest.mark.one_kernel
@pytest.mark.parametrize("name, calls", [("unlink", 5), *long([("rmdir", 4)])])
def test_killed_unexport(lab, target, name, calls):
    lab.ramdisk(MIB)
    steps, killed = sorted({*range(1, calls + 1, 1 if LONG else 2), calls}), 0
    for when in steps:
        ok("export", "rxd0", *TCP, *ALLOWED)
        killed += inject(name, when, "signal=KILL", "unexport", "rxd0").returncode < 0
        again = rxadm("unexport", "rxd0")
        assert again.returncode == 0 or "is not exported" in again.stderr
        assert nvme.tree() == [], when
    assert killed == len(steps)


@pytest.mark.one_kernel
@pytest.mark.parametrize("command", [("export", "rxd1", *TCP, *ALLOWED), ("unexport", "rxd1")],
                         ids=lambda command: command[0])
def test_folder_that_cannot_be_read(lab, target, command):
    """Without the folder, used exports are unknown, so none is taken for a leftover."""
    lab.ramdisk(MIB)
    lab.ramdisk(MIB)
    nqn = ok("export", "rxd0", *TCP, *ALLOWED).strip()
    tree = nvme.tree()
    ports = f"{nvme.ROOT}/ports"
    for name, path in ("openat", ports), ("newfstatat", f"{ports}/1/subsystems/{nqn}"), \
            ("openat", f"{nvme.ROOT}/subsystems"):
        result = run("strace", "-o", "/dev/null", "-P", path, "-e", f"trace={name}", "-e",
                     f"inject={name}:error=EMFILE", program("rxadm"), *command, check=False)
        said = [line for line in result.stderr.splitlines() if not line.startswith("strace: ")]
        assert result.returncode == DEVICE and len(said) == 1, result
        assert f"cannot read the exports from {nvme.ROOT}" in said[0]
        assert nvme.tree() == tree
    ok("unexport", "rxd0")


@pytest.mark.one_kernel
def test_records_that_cannot_be_read(lab, target):
    lab.ramdisk(MIB)
    with exported("rxd0", *TCP, *ALLOWED):
        pass
    folder = f"{nvme.RECORDS}/subsystems"
    os.rmdir(folder)
    with open(folder, "w", encoding="ascii"):
        pass
    try:
        for command in ("export", "rxd0", *TCP, *ALLOWED), ("unexport", "rxd0"):
            refused(DEVICE, *command, names=("cannot read the exports", folder))
    finally:
        os.unlink(folder)


@pytest.mark.one_kernel
def test_record_that_cannot_be_written(lab, target):
    """The line does not blame the kernel."""
    lab.ramdisk(MIB)
    result = inject("symlink", 1, "error=ENOSPC", "export", "rxd0", *TCP, *ALLOWED)
    assert f"'{nvme.RECORDS}/subsystems/" in result.stderr, result
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_port_that_another_tool_uses(lab, target):
    """The port stays when its last export ends, and does not keep others from beginning."""
    lab.ramdisk(MIB)
    ok("export", "rxd0", *TCP, *ALLOWED)
    referral = f"{nvme.ROOT}/ports/1/referrals/x"
    os.mkdir(referral)
    try:
        ok("unexport", "rxd0")
        with exported("rxd0", *TCP, "--port", "4421", *ALLOWED):
            pass
    finally:
        os.rmdir(referral)
    with exported("rxd0", *TCP, *ALLOWED):
        pass
    assert nvme.tree() == []


@pytest.mark.one_kernel
def test_dry_run_with_a_remnant(lab, target):
    """What a killed process left is printed once."""
    lab.ramdisk(MIB)
    ok("export", "rxd0", *TCP, *ALLOWED)
    assert inject("rmdir", 1, "signal=KILL", "unexport", "rxd0").returncode < 0
    lines = ok("unexport", "rxd0", "--dry-run").splitlines()
    assert lines and len(set(lines)) == len(lines)
    ok("unexport", "rxd0")


@pytest.mark.one_kernel
def test_signal(lab, target):
    """A signal waits until the export is complete."""
    lab.ramdisk(MIB)
    result = inject("symlink", 1, "signal=TERM", "export", "rxd0", *TCP, *ALLOWED)
    assert result.returncode == -signal.SIGTERM
    assert "(tcp 127.0.0.1:4420)" in json.loads(ok("list", "-J"))["ramdisks"][0]["export"]
    ok("unexport", "rxd0")


LONG_NQN = "nqn.2026-11.example:" + "x" * 204


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    ((), "DEVICE"),
    (("rxd0",), "--transport"),
    (("rxd0", "rxd1", *TCP, *ALLOWED), "'rxd1'"),
    (("rxd0", "--transport", "rdma", *ALLOWED), ("'rdma'", "tcp or loop")),
    (("rxd0", "--transport", "tcp", *ALLOWED), "--address"),
    (("rxd0", "--transport", "loop", "--address", "127.0.0.1", *ALLOWED), "--address"),
    (("rxd0", "--transport", "loop", "--port", "4420", *ALLOWED), "--port"),
    (("rxd0", *TCP, "--port", "65536", *ALLOWED), ("'65536'", "65535")),
    (("rxd0", "--transport", "tcp", "--address", "localhost", *ALLOWED), "'localhost'"),
    (("rxd0", *TCP), ("--allow-host", "--allow-any-host")),
    (("rxd0", *TCP, *ALLOWED, "--allow-any-host"), "exclude"),
    (("rxd0", *TCP, *ALLOWED, *ALLOWED), ("twice", HOST)),
    (("rxd0", *TCP, "--allow-host", "somebody"), "'somebody'"),
    (("rxd0", *TCP, "--allow-any-host", "--dhchap-key", "/etc/passwd"), "--dhchap-key"),
    (("rxd0", *TCP, *ALLOWED, "--nqn", "nqn.2026-11.a/../b"), "slashes"),
    (("rxd0", *TCP, *ALLOWED, "--nqn", "nqn.2026-11.a b"), "spaces"),
    (("rxd0", *TCP, *ALLOWED, "--nqn", LONG_NQN), "223"),
    (("rxd0", *TCP, *ALLOWED, "--nqn", "nqn.2014-08.org.nvmexpress.discovery"), "discovery"),
    (("rxd0", *TCP, *ALLOWED, "--dry-run=yes"), "--dry-run"),
    (("rxd0", *TCP, *ALLOWED, "--dhchap-key", "/dev/null"), "'/dev/null'"),
    *long([
        (("rxd0", *TCP, "--port", "0", *ALLOWED), ("'0'", "1 to 65535")),
        (("rxd0", *TCP, "--port", "http", *ALLOWED), "'http'"),
        (("rxd0", "--transport", "tcp", "--address", "127.0.0.256", *ALLOWED), "'127.0.0.256'"),
        (("rxd0", "--transport", "tcp", "--address", "", *ALLOWED), "''"),
        (("rxd0", *TCP, *ALLOWED, "--nqn", ""), "''"),
        (("rxd0", *TCP, *ALLOWED, "--nqn", "nqn.2026-11."), "'nqn.2026-11.'"),
        (("rxd0", *TCP, *ALLOWED, "--nqn", "nqn.2026-11.\n"), "nqn.2026-11.?"),
        (("rxd0", *TCP, *ALLOWED, "--nqn", "nqn.26-11.example"), "'nqn.26-11.example'")]),
], ids=str)
def test_bad_arguments(lab, target, arguments, words):
    lab.ramdisk(MIB)
    refused(PARAMETERS, "export", *arguments, names=words)


@pytest.mark.one_kernel
@pytest.mark.parametrize("text", sampled(["", "DHHC-1:", "secret", "DHHC-1:00:abc",
                                          "DHHC-1:00:a\tb:", "DHHC-1:00:" + "A" * 300 + ":"]))
def test_bad_key(lab, target, text):
    lab.ramdisk(MIB)
    path = lab.file(0)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    refused(PARAMETERS, "export", "rxd0", *TCP, *ALLOWED, "--dhchap-key", path,
            names=(path, "DHHC-1:"))


@pytest.mark.one_kernel
def test_key_that_the_kernel_refuses(lab, target):
    lab.ramdisk(MIB)
    path = lab.file(0)
    with open(path, "w", encoding="ascii") as file:
        file.write("DHHC-1:07:AAAA:\n")
    refused(PARAMETERS, "export", "rxd0", *TCP, *ALLOWED, "--dhchap-key", path, names=path)


@pytest.mark.one_kernel
def test_bad_devices(lab, target):
    lab.ramdisk(4 * MIB)
    _, linear = lab.linear(MIB)
    for device in DISK, linear:
        refused(DEVICE, "export", device, *TCP, *ALLOWED, names=(device, "neither"))
    for device in "rxd9", "/dev/null", "/etc/passwd":
        for command in ("export", device, *TCP, *ALLOWED), ("unexport", device):
            refused(DEVICE, *command, names=os.path.basename(device))
    with direct.Direct("/dev/rxd0") as disk:
        disk.partition(2048, 2048)
    refused(DEVICE, "export", "rxd0p1", *TCP, *ALLOWED, names="rxd0p1")
    run("blockdev", "--setro", "/dev/rxd0")
    refused(DEVICE, "export", "rxd0", *TCP, *ALLOWED, names=("rxd0", "read-only"))
    refused(PARAMETERS, "unexport", names="DEVICE|NQN...")
    refused(PARAMETERS, "unexport", "", names="''")
    refused(PARAMETERS, "unexport", "nqn.1", names="'nqn.1'")
