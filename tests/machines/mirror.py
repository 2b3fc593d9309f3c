# SPDX-License-Identifier: GPL-2.0-only
"""RAM disks of two servers form a mirror: each test continues where the last one ended."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../functional"))

from rxdlib import direct  # noqa: E402
from rxdlib.command import KERNEL, run  # noqa: E402
from rxdlib.direct import BLOCK, SECTOR, stamp  # noqa: E402
from rxdlib.lab import is_there  # noqa: E402

HAS_KEYS = KERNEL != "6.1"   # Debian's kernel is built without it.
HOST_ID = "11111111-2222-3333-4444-555555555555"
SECRET = "/run/scratch.key"
CONNECT = f"""
    set -- "$@" "dhchap_secret=$(cat {SECRET})"
    (IFS=,; printf %s "$*") >/dev/nvme-fabrics
"""
MIRROR = "/dev/md0"
# The disk of a lost server is gone for good: the server returns with a new, empty disk.
GONE = ("--ctrl-loss-tmo=0", "--keep-alive-tmo=3")
# The disk stays, and the host waits for it, but its I/O fails soon.
WAITED_FOR = ("--ctrl-loss-tmo=600", "--reconnect-delay=2", "--keep-alive-tmo=3")
FAST_FAIL = "3"


def ask(what, name):
    """Ask the machine that runs the guests to do something."""
    with open("/out/ask.new", "w", encoding="ascii") as file:
        file.write(f"{what} {name}\n")
    os.rename("/out/ask.new", "/out/ask")
    wait_for(lambda: os.path.exists("/out/answer"), 300)
    with open("/out/answer", encoding="ascii") as file:
        answer = json.load(file)
    os.unlink("/out/answer")
    return answer


def wait_for(ready, seconds):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"in vain for {seconds} s"
        time.sleep(0.2)


def read(*parts):
    with open(os.path.join(*parts), encoding="ascii") as file:
        return file.read().strip()


def disks():
    """The NQN of each disk that the host sees; paths to one, as nvme0c0n1, have no node."""
    names = [name for name in os.listdir("/sys/block") if re.fullmatch(r"nvme\d+n\d+", name)]
    return {f"/dev/{name}": read("/sys/block", name, "device/subsysnqn") for name in names}


def controller(server):
    """The folder of the connection to a server."""
    root = "/sys/class/nvme"
    return next(os.path.join(root, name) for name in os.listdir(root)
                if read(root, name, "subsysnqn") == server["nqn"])


def state(server):
    return read(controller(server), "state")


def degraded():
    return read("/sys/block/md0/md/degraded") != "0"


@pytest.fixture(scope="module", name="servers")
def network():
    servers = json.loads(read("/out/servers"))
    for module in "virtio_net", "nvme-tcp", "raid1":
        run("modprobe", module)
    for number in range(2):
        wait_for(lambda name=f"eth{number}": os.path.exists(f"/sys/class/net/{name}"), 20)
        run("busybox", "ifconfig", f"eth{number}", f"10.77.{number + 1}.2", "netmask",
            "255.255.255.0", "up")
    return servers


def connect(servers, name, *options, host=None, key=None, timeout=120):
    """Connect as several-machines.rst describes: the secret is not an argument of any command."""
    server, host = servers[name], host or servers["host"]
    if not key:
        return run("nvme", "connect", "-t", "tcp", "-a", server["address"], "-s", "4420", "-n",
                   server["nqn"], f"--hostnqn={host}", f"--hostid={HOST_ID}", *options,
                   check=False, timeout=timeout)
    with open(SECRET, "w", encoding="ascii") as file:
        file.write(f"{key}\n")
    return run("sh", "-c", CONNECT, "sh", "transport=tcp", f"traddr={server['address']}",
               "trsvcid=4420", f"nqn={server['nqn']}", f"hostnqn={host}", f"hostid={HOST_ID}",
               *(option[2:].replace("-", "_") for option in options), check=False,
               timeout=timeout)


def connected(servers, name, options):
    """Connect, and wait for the disk."""
    result = connect(servers, name, *options, key=servers["key"] if HAS_KEYS else None)
    assert result.returncode == 0, result
    nqn = servers[name]["nqn"]
    wait_for(lambda: nqn in disks().values(), 30)
    path = next(path for path, found in disks().items() if found == nqn)
    wait_for(lambda: is_there(path), 30)
    return path


def connected_for_long(servers, name):
    """Connect so that the disk stays for ten minutes, but its I/O fails soon."""
    if KERNEL != "6.1":
        return connected(servers, name, (*WAITED_FOR, f"--fast_io_fail_tmo={FAST_FAIL}"))
    # Debian 12's nvme-cli has no such option.
    path = connected(servers, name, WAITED_FOR)
    with open(f"{controller(servers[name])}/fast_io_fail_tmo", "w", encoding="ascii") as file:
        file.write(FAST_FAIL)
    return path


def fio(seed, *options):
    """Write at random places; each block identifies its place and the seed."""
    return ("fio", "--name=job", f"--filename={MIRROR}", "--rw=randwrite", "--bs=4k",
            "--size=40M", "--direct=1", "--ioengine=libaio", "--iodepth=8", "--verify=pattern",
            f'--verify_pattern="seed{seed:04}"%o', "--verify_fatal=1", f"--randseed={seed}",
            *options)


def verify(seed):
    """All data that was written with this seed must be there."""
    return run(*fio(seed, "--verify_only=1"), check=False, timeout=600)


def writes():
    return int(read("/sys/block/md0/stat").split()[4])


def written_while_killed(name, seed):
    """No write fails, and each completed write can be read again."""
    before = writes()
    with subprocess.Popen(fio(seed, "--rate_iops=400", "--do_verify=1"), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as job:
        wait_for(lambda: job.poll() is not None or writes() - before > 500, 120)
        ask("kill", name)
        assert job.poll() is None, "too late"
        output, _ = job.communicate(timeout=600)
    assert job.returncode == 0, output
    assert degraded()


def test_who_may_connect(servers):
    """A host that is not allowed, or does not know the secret, cannot connect."""
    for name in "ab":
        assert connect(servers, name, host="nqn.2026-11.example:other").returncode
        if HAS_KEYS:
            assert servers[name]["refusal"] == ""
            assert connect(servers, name).returncode
            with contextlib.suppress(subprocess.TimeoutExpired):    # some kernels try for long
                assert connect(servers, name, key=servers["wrong"], timeout=20).returncode
            run("nvme", "disconnect", "-n", servers[name]["nqn"], check=False)
        else:
            # Without a key, the export would accept every host that knows an allowed name.
            code, text = servers[name]["refusal"].split("\n", 1)
            assert code == "exit code 4" and len(text.splitlines()) == 1
            assert "CONFIG_NVME_TARGET_AUTH" in text
    assert not disks()


def test_two_disks(servers):
    """Two disks of one configuration are not taken for two paths to one disk."""
    found = [connected(servers, "a", GONE), connected_for_long(servers, "b")]
    for name, attributes in (("a", {"ctrl_loss_tmo": "0", "kato": "3"}),
                             ("b", {"ctrl_loss_tmo": "600", "kato": "3",
                                    "fast_io_fail_tmo": FAST_FAIL})):
        assert attributes == {attribute: read(controller(servers[name]), attribute)
                              for attribute in attributes}
    assert servers["a"]["nqn"] != servers["b"]["nqn"] and found[0] != found[1]
    assert len({read("/sys/block", os.path.basename(path), "wwid") for path in found}) == 2
    run("mdadm", "--create", MIRROR, "--run", "--level=1", "--raid-devices=2", "--failfast",
        "--bitmap=internal", "--metadata=1.2", *found)
    run("mdadm", "--wait", MIRROR, check=False)
    assert not degraded()


def test_server_is_lost(servers):
    """A server is killed while fio writes; the host waits for the disk, but the mirror does not."""
    written_while_killed("b", 7)
    assert state(servers["b"]) == "connecting" and servers["b"]["nqn"] in disks().values()
    assert verify(7).returncode == 0


def test_server_comes_back(servers):
    """It has an empty disk of the same name, which the mirror ignores until it is added."""
    old = servers["b"]["nqn"]
    servers["b"] = ask("boot", "b")
    assert servers["b"]["nqn"] == old
    wait_for(lambda: state(servers["b"]) == "live", 60)
    disk = next(path for path, found in disks().items() if found == old)
    assert direct.read(disk, 0, BLOCK) == bytes(BLOCK)
    assert degraded() and verify(7).returncode == 0
    run("mdadm", MIRROR, "--remove", "failed")
    assert run("mdadm", MIRROR, "--re-add", disk, check=False).returncode
    run("nvme", "disconnect", "-n", old)
    disk = connected(servers, "b", GONE)
    assert run("mdadm", "--examine", disk, check=False).returncode
    run("mdadm", MIRROR, "--add", "--failfast", disk)
    # mdadm --wait returns at once if the work has not begun yet.
    wait_for(lambda: not degraded(), 300)


def test_the_other_server_is_lost(servers):
    """Its disk disappears; all data is now on the server that returned."""
    written_while_killed("a", 8)
    wait_for(lambda: list(disks().values()) == [servers["b"]["nqn"]], 60)
    assert verify(8).returncode == 0
    run("mdadm", MIRROR, "--remove", "detached")
    run("mdadm", "--stop", MIRROR)
    run("mdadm", "--assemble", "--run", MIRROR, *disks())
    assert verify(8).returncode == 0


def test_loss_is_noticed(servers):
    """The check itself: verify() must fail if the data is not there."""
    assert verify(7).returncode
    disk, = disks()
    member, = (name for name in os.listdir("/sys/block/md0/md") if name.startswith("dev-"))
    start = int(read("/sys/block/md0/md", member, "offset")) * SECTOR
    run("mdadm", "--stop", MIRROR)
    direct.write(disk, start + 77 * BLOCK, stamp(1))
    run("mdadm", "--assemble", "--run", MIRROR, disk)
    assert verify(8).returncode
    run("mdadm", "--stop", MIRROR)
