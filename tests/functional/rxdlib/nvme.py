# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's NVMe target, and hosts that connect to it."""

import glob
import os
import time
import uuid

from . import lab
from .command import run, rxadm

ROOT = "/sys/kernel/config/nvmet"
RECORDS = "/run/rxadm.nvmet"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
OTHER = "nqn.2026-11.example:other-host"
MACHINE_ID = "/etc/machine-id"


def network():
    """The guest's init does not start the loopback interface or create a machine ID. Do both."""
    run("busybox", "ifconfig", "lo", "127.0.0.1", "up")
    with open(MACHINE_ID, "a+", encoding="ascii") as file:
        if not file.tell():
            file.write(f"{uuid.uuid4().hex}\n")


def identity(name):
    """The UUID of an export, derived from the machine ID and from the device."""
    with open(MACHINE_ID, encoding="ascii") as file:
        return str(uuid.uuid5(uuid.UUID(file.read().strip()), name))


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="ascii") as file:
        return file.read().strip()


def tree():
    """The entries in the target's tree, and rxadm's record of them."""
    return sorted(os.path.join(root, folder, name) for root in (ROOT, RECORDS)
                  for folder in ("hosts", "ports", "subsystems")
                  if os.path.isdir(os.path.join(root, folder))
                  for name in os.listdir(os.path.join(root, folder))
                  if name != "nqn.2014-08.org.nvmexpress.discovery")


def end_all():
    """Disconnect the hosts, and end all exports; return the entries that there were."""
    run("nvme", "disconnect-all", check=False)
    found = tree()
    for path in found:
        if "/subsystems/" in path:
            rxadm("unexport", os.path.basename(path))
    left = tree()
    if left:
        # Each call removes what a killed rxadm has left, so that only this test fails.
        rxadm("unexport", "nqn.2026-11.example:none")
    assert not left
    return found


def number(nqn):
    """The number by which a host distinguishes subsystems and disks."""
    return (nqn, read("subsystems", nqn, "attr_serial"),
            read("subsystems", nqn, "namespaces/1/device_uuid"))


def connect(nqn, *options, transport="tcp", host=HOST, check=True, timeout=60):
    address = ["-a", "127.0.0.1", "-s", "4420"] if transport == "tcp" else []
    run("modprobe", "nvme-tcp" if transport == "tcp" else "nvme-loop")
    identity = uuid.uuid5(uuid.NAMESPACE_URL, host)
    return run("nvme", "connect", "-t", transport, *address, "-n", nqn, f"--hostnqn={host}",
               f"--hostid={identity}", *options, check=check, timeout=timeout)


def disconnect(nqn):
    return run("nvme", "disconnect", "-n", nqn, check=False)


def disk(nqn, timeout=60):
    """The disk that a host has for a subsystem, once it can be used."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        for path in glob.glob("/sys/class/nvme-subsystem/*/subsysnqn"):
            with open(path, encoding="ascii") as file:
                if file.read().strip() != nqn:
                    continue
            for found in glob.glob(os.path.join(os.path.dirname(path), "nvme*n*")):
                node = "/dev/" + os.path.basename(found)
                if lab.is_there(node):
                    return node
        time.sleep(0.1)
    raise TimeoutError(f"{nqn}: no disk")
