# SPDX-License-Identifier: GPL-2.0-only
"""A file as an NVMe disk: the kernel's target exports it, and its host connects to that."""

import glob
import os
import re
import socket
import time
import uuid
from dataclasses import dataclass

from ..peers import Missing
from ..peers.memory import CONFIGFS, need_module, put
from ..system import command, devices, machine
from ..system.errors import BenchError
from ..system.undo import check

ROOT = f"{CONFIGFS}/nvmet"
FABRICS = "/dev/nvme-fabrics"
ADDRESS = "127.0.0.1"
PREFIX = "nqn.2014-08.org.nvmexpress:uuid:"
FIRST_PORT, LAST_PORT = 60000, 65535
PATIENCE = 30


@dataclass(frozen=True)
class Transport:
    """How the host reaches the target on the same machine."""
    name: str
    modules: tuple


TRANSPORTS = (Transport("loop", ("nvmet", "nvme-loop")),
              Transport("tcp", ("nvmet", "nvmet-tcp", "nvme-tcp")))


def transport():
    """The first transport whose modules this kernel has."""
    reasons = []
    for each in TRANSPORTS:
        try:
            for module in each.modules:
                need_module(module)
            return each
        except Missing as missing:
            reasons.append(str(missing))
    raise Missing(" and ".join(dict.fromkeys(reasons)))


def _free_port():
    with socket.socket() as found:
        found.bind((ADDRESS, 0))
        return found.getsockname()[1]


def _address(how):
    """The address as files of the target, and as options of the host."""
    if how.name == "loop":
        return {"addr_trtype": "loop"}, "transport=loop"
    port = _free_port()
    return ({"addr_trtype": how.name, "addr_adrfam": "ipv4", "addr_traddr": ADDRESS,
             "addr_trsvcid": port}, f"transport={how.name},traddr={ADDRESS},trsvcid={port}")


def _folder(undo, path):
    undo.do(path, lambda: os.mkdir(path), lambda _: os.rmdir(path))
    return path


def _need_configfs(undo):
    if not os.path.isdir(ROOT):
        undo.do("configfs", lambda: command.run("mount", "-t", "configfs", "rxbench", CONFIGFS),
                lambda _: devices.settled("umount", CONFIGFS))


def _export(undo, nqn, path, buffered, address):
    subsystem = _folder(undo, f"{ROOT}/subsystems/{nqn}")
    put(f"{subsystem}/attr_allow_any_host", 1)
    namespace = _folder(undo, f"{subsystem}/namespaces/1")
    put(f"{namespace}/device_path", path)
    put(f"{namespace}/buffered_io", int(buffered))
    undo.do("namespace", lambda: put(f"{namespace}/enable", 1),
            lambda _: put(f"{namespace}/enable", 0))
    number = next(number for number in range(FIRST_PORT, LAST_PORT)
                  if not os.path.exists(f"{ROOT}/ports/{number}"))
    port = _folder(undo, f"{ROOT}/ports/{number}")
    for name, value in address.items():
        put(f"{port}/{name}", value)
    link = f"{port}/subsystems/{nqn}"
    undo.do("port", lambda: os.symlink(subsystem, link), lambda _: os.unlink(link))


def controller(answer):
    """The name of the controller in the answer of the kernel to a connect."""
    match = re.search(r"instance=(\d+)", answer)
    if not match:
        raise BenchError(f"{FABRICS}: no instance in {answer.strip()!r}")
    return f"nvme{match[1]}"


def _connect(options):
    try:
        with open(FABRICS, "r+b", buffering=0) as file:
            file.write(options.encode())
            return controller(file.read(4096).decode())
    except OSError as error:
        raise BenchError(f"{FABRICS}: {options!r}: {error.strerror}") from error


def _disk(nqn):
    """The disk of a subsystem, once it is there; one of several paths has no node."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        check()
        for found in glob.glob("/sys/class/nvme-subsystem/*/subsysnqn"):
            if machine.read(found) != nqn:
                continue
            folder = os.path.dirname(found)
            for path in glob.glob(f"{folder}/nvme*n*") + glob.glob(f"{folder}/nvme*/nvme*n*"):
                node = f"/dev/{os.path.basename(path)}"
                if os.path.exists(node):
                    return node
        time.sleep(0.1)
    raise BenchError(f"{nqn}: no disk after {PATIENCE} s")


def exported(undo, path, buffered):
    """Export a file, connect to it, and return the disk."""
    nqn, host = (PREFIX + str(uuid.uuid4()) for _ in range(2))
    address, options = _address(transport())
    _need_configfs(undo)
    _export(undo, nqn, path, buffered, address)
    undo.do("connection", lambda: _connect(f"{options},nqn={nqn},hostnqn={host},"
                                           f"hostid={host[len(PREFIX):]}"),
            lambda name: put(f"/sys/class/nvme/{name}/delete_controller", 1))
    return _disk(nqn)
