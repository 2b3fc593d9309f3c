# SPDX-License-Identifier: GPL-2.0-only
"""Block devices in memory."""

import os
import subprocess

from ..system import command, devices, machine
from ..system.errors import BenchError
from . import Missing

CONFIGFS = "/sys/kernel/config"
NULLB = CONFIGFS + "/nullb"


RAPIDDISK = "Debian's package rapiddisk-dkms builds it"


def need_module(name, hint=None):
    """Require a module, loaded or loadable; the hint says where to get it."""
    if os.path.isdir("/sys/module/" + name.replace("-", "_")):
        return
    found = subprocess.run(["modprobe", "--dry-run", "--quiet", name], check=False)
    if found.returncode:
        raise Missing(f"this kernel has no module {name}" + (f"; {hint}" if hint else ""))


def put(path, text):
    """Write to a file of sysfs or configfs."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(text))
    except OSError as error:
        raise BenchError(f"{path}: {str(text).strip()!r}: {error.strerror}") from error


def _need_unloaded(name, hint=None):
    need_module(name, hint)
    if os.path.isdir("/sys/module/" + name):
        raise Missing(f"{name} is loaded already, and left alone")


def rxd(undo, size):
    return devices.ramdisk(undo, size)


def brd(undo, size):
    devices.load_module(undo, "brd", "rd_nr=1", f"rd_size={size >> 10}")
    return "/dev/ram0"


def _hot_add(control):
    number = machine.read(f"{control}/hot_add")
    if not number.isdigit():
        raise BenchError(f"{control}/hot_add: zram creates no device")
    return int(number)


def zram(undo, size):
    devices.load_module(undo, "zram", "num_devices=0")
    control = "/sys/class/zram-control"
    number = undo.do("zram device", lambda: _hot_add(control),
                     lambda made: put(f"{control}/hot_remove", made))
    put(f"/sys/block/zram{number}/disksize", size)
    return f"/dev/zram{number}"


def _configfs(undo):
    if os.path.ismount(CONFIGFS):
        return
    devices.load_module(undo, "configfs")
    undo.do("mount of configfs",
            lambda: command.run("mount", "-t", "configfs", "configfs", CONFIGFS),
            lambda _: devices.settled("umount", CONFIGFS))


def null_blk(undo, size):
    _configfs(undo)
    devices.load_module(undo, "null_blk", "nr_devices=0")
    folder = f"{NULLB}/rxbench{os.getpid()}"
    undo.do("null_blk device", lambda: os.mkdir(folder), lambda _: os.rmdir(folder))
    for name, value in (("memory_backed", 1), ("size", size >> 20), ("blocksize", 512),
                        ("irqmode", 0), ("queue_mode", 2), ("power", 1)):
        put(f"{folder}/{name}", value)
    # Linux 6.5 and later name it as its folder, and others by its number.
    named = f"/dev/{os.path.basename(folder)}"
    return named if os.path.exists(named) else f"/dev/nullb{machine.read(folder + '/index')}"


def loop_on_tmpfs(undo, size):
    directory = devices.mount(undo, "tmpfs", "tmpfs", f"size={size + (1 << 20)}")
    path = os.path.join(directory, "disk")
    with open(path, "wb") as file:
        file.truncate(size)
    return devices.loop(undo, path)


def rapiddisk(undo, size, number=0):
    devices.load_module(undo, "rapiddisk")
    manage = "/sys/kernel/rapiddisk/mgmt"
    undo.do("RAM disk of RapidDisk", lambda: put(manage, f"rapiddisk attach {number} {size}\n"),
            lambda _: put(manage, f"rapiddisk detach {number}\n"))
    return f"/dev/rd{number}"


# Name, title, function that creates it, and what it requires.
ALL = (("rxd", "rxd", rxd, lambda: None),
       ("brd", "brd", brd, lambda: _need_unloaded("brd")),
       ("zram", "zram", zram, lambda: need_module("zram")),
       ("null_blk", "null_blk, memory-backed", null_blk, lambda: need_module("null_blk")),
       ("loop", "loop on tmpfs", loop_on_tmpfs, lambda: need_module("loop")),
       ("rapiddisk", "RapidDisk", rapiddisk, lambda: _need_unloaded("rapiddisk", RAPIDDISK)))
