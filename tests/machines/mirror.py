# SPDX-License-Identifier: GPL-2.0-only
"""RAM disks of two servers become one mirrored disk: each test goes on where the last ended."""

import glob
import json
import os
import re
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../functional"))

from rxdlib.command import run  # noqa: E402

MIRROR = "/dev/md0"
# So that a lost server's disk is gone for good: what comes back is another, and empty.
LOST = ("--ctrl-loss-tmo=0", "--keep-alive-tmo=3")
FIO = ("fio", "--name=job", f"--filename={MIRROR}", "--rw=randwrite", "--bs=4k", "--size=40M",
       "--direct=1", "--ioengine=libaio", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1",
       "--randseed=7")


def ask(what, name):
    """Have the machine that runs the guests do something."""
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


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def disks():
    """The NQN of each disk that the host sees; paths to one, as nvme0c0n1, have no node."""
    names = [name for name in os.listdir("/sys/block") if re.fullmatch(r"nvme\d+n\d+", name)]
    return {f"/dev/{name}": read(f"/sys/block/{name}/device/subsysnqn") for name in names}


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


def connect(servers, name, *options, host=None, key=True):
    server = servers[name]
    secret = [f"--dhchap-secret={servers['key']}"] if key and servers["key"] else []
    return run("nvme", "connect", "-t", "tcp", "-a", server["address"], "-s", "4420", "-n",
               server["nqn"], f"--hostnqn={host or servers['host']}",
               "--hostid=11111111-2222-3333-4444-555555555555", *secret, *options, check=False)


def connected(servers, name):
    """Connect, and wait for the disk."""
    result = connect(servers, name, *LOST)
    assert result.returncode == 0, result
    nqn = servers[name]["nqn"]
    wait_for(lambda: nqn in disks().values(), 30)
    return next(path for path, found in disks().items() if found == nqn)


def test_who_may_connect(servers):
    """Not a host that is not allowed, nor one that does not know the secret."""
    for name in "ab":
        assert connect(servers, name, host="nqn.2026-11.example:other").returncode
        if servers["key"]:
            assert connect(servers, name, key=False).returncode
    assert not disks()


def test_two_disks(servers):
    """Of one configuration, and yet not two paths to one disk."""
    found = [connected(servers, name) for name in "ab"]
    assert servers["a"]["nqn"] != servers["b"]["nqn"] and found[0] != found[1]
    assert len({read(f"/sys/block/{os.path.basename(path)}/wwid") for path in found}) == 2
    run("mdadm", "--create", MIRROR, "--run", "--level=1", "--raid-devices=2", "--failfast",
        "--bitmap=internal", "--metadata=1.2", *found)
    run("mdadm", "--wait", MIRROR, check=False)
    assert read("/sys/block/md0/md/degraded") == "0"


def test_server_is_lost(servers):
    """Killed while fio writes; nothing that was written is lost."""
    with subprocess.Popen([*FIO, "--rate_iops=400", "--do_verify=1"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as fio:
        time.sleep(5)
        ask("kill", "b")
        assert fio.poll() is None, "too late"
        output, _ = fio.communicate(timeout=600)
    assert fio.returncode == 0, output
    assert read("/sys/block/md0/md/degraded") == "1"
    wait_for(lambda: list(disks().values()) == [servers["a"]["nqn"]], 60)
    run(*FIO, "--verify_only=1")


def test_server_comes_back(servers):
    """With an empty disk: it is not taken for the old one, and becomes the copy again."""
    for path in glob.glob("/sys/block/md0/md/dev-*/state"):
        if "faulty" in read(path):
            run("mdadm", MIRROR, "--remove", "failed")
            break
    old = servers["b"]["nqn"]
    servers["b"] = ask("boot", "b")
    assert servers["b"]["nqn"] == old
    disk = connected(servers, "b")
    assert run("mdadm", "--examine", disk, check=False).returncode
    run("mdadm", MIRROR, "--add", disk)
    run("mdadm", "--wait", MIRROR, check=False)
    assert read("/sys/block/md0/md/degraded") == "0"


def test_the_other_server_is_lost(servers):
    """All there is now is what the one that came back has."""
    ask("kill", "a")
    run(*FIO, "--verify_only=1", timeout=600)
    assert read("/sys/block/md0/md/degraded") == "1"
    run("mdadm", "--stop", MIRROR)
    run("mdadm", "--assemble", "--run", MIRROR, *disks())
    run(*FIO, "--verify_only=1")
    run("mdadm", "--stop", MIRROR)
