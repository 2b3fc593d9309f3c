# SPDX-License-Identifier: GPL-2.0-only
"""What the demo runs on, and whether that is enough."""

import os
import platform
import shutil

from . import command
from .errors import DemoError

MIB = 1 << 20


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _field(text, key):
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _kib(key):
    return int((_field(_read("/proc/meminfo"), key) or "0 kB").split()[0]) << 10


def _virtualization():
    try:
        return command.run("systemd-detect-virt")[0].strip()
    except command.CommandFailed as error:
        # "none" comes with exit code 1.
        return error.stdout.strip() or "unknown"
    except DemoError:
        return _read("/sys/class/dmi/id/sys_vendor").strip() or "unknown"


def describe():
    """The machine, for the report."""
    cpu = _field(_read("/proc/cpuinfo"), "model name") or platform.machine()
    return {"kernel": platform.release(),
            "architecture": platform.machine(),
            "cpu": cpu,
            "cpus": os.cpu_count(),
            "memory": _kib("MemTotal"),
            "virtualization": _virtualization(),
            "emulated": "TCG" in cpu,
            "fio": command.run("fio", "--version")[0].strip()}


def need_root():
    if os.geteuid():
        raise DemoError("needs root: run it as root, or with sudo")


def need_tools(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        raise DemoError("missing programs: " + ", ".join(missing))


def need_memory(size):
    free = _kib("MemAvailable")
    if free < size:
        raise DemoError(f"needs {size // MIB} MiB of free memory, {free // MIB} MiB are there")


def need_space(directory, size):
    free = shutil.disk_usage(directory).free
    if free < size:
        raise DemoError(f"needs {size // MIB} MiB of free disk space in {directory}, "
                        f"{free // MIB} MiB are there")


def drop_page_cache():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("1\n")
