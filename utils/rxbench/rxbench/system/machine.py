# SPDX-License-Identifier: GPL-2.0-only
"""The machine: its description, and whether it is suitable for measurements."""

import ctypes
import errno
import glob
import os
import platform
import re
import shutil
import time

from . import command
from .errors import BadInput, BenchError
from .units import parse_size
from .units import size as human

# Number of the system call, which is the same on all architectures but alpha.
IO_URING_SETUP = 425
FIO_LEAST = (3, 28)
BUSY_PERCENT = 10
QUEUE = ("scheduler", "nr_requests", "rotational", "logical_block_size", "physical_block_size",
         "max_sectors_kb", "read_ahead_kb", "write_cache", "nomerges", "wbt_lat_usec")


def read(path):
    """The content of a small file, empty if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _field(text, key):
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def meminfo(key):
    """The value of a line of /proc/meminfo, in bytes."""
    return int((_field(read("/proc/meminfo"), key) or "0 kB").split()[0]) << 10


def virtualization():
    try:
        return command.run("systemd-detect-virt")[0].strip()
    except command.CommandFailed as error:
        # "none" comes with exit code 1.
        return error.stdout.strip() or "unknown"
    except BenchError:
        return read("/sys/class/dmi/id/sys_vendor") or "unknown"


def cpu_times():
    """Jiffies of all processors: user, system, and all."""
    fields = [int(field) for field in read("/proc/stat").splitlines()[0].split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq = fields[:7]
    return user + nice, system + irq + softirq, idle + iowait, sum(fields)


def busy_percent(seconds=0.5):
    """How busy the processors are before the measurement."""
    _user, _system, idle, total = cpu_times()
    time.sleep(seconds)
    _user, _system, idle_now, total_now = cpu_times()
    passed = total_now - total
    return 100 * (1 - (idle_now - idle) / passed) if passed else 0.0


def processor_caches():
    """Total size of all caches that hold data, each counted once; 0 if the kernel reports none."""
    found = {}
    for folder in glob.glob("/sys/devices/system/cpu/cpu*/cache/index*"):
        kind, level, shared, size = (read(os.path.join(folder, name)) for name in (
            "type", "level", "shared_cpu_list", "size"))
        if kind in ("Data", "Unified") and size:
            found[level, shared] = parse_size(size)
    return sum(found.values())


def governors():
    found = {read(path) for path in
             glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")}
    return ", ".join(sorted(found - {""})) or "none"


def _installed_fio():
    """The version of fio, which not all workloads need."""
    return command.run("fio", "--version")[0].strip() if shutil.which("fio") else "no fio"


def fio_version():
    """The version of fio, which must be new enough."""
    need_tools("fio")
    text = _installed_fio()
    match = re.match(r"fio-(\d+)\.(\d+)", text)
    if not match or (int(match[1]), int(match[2])) < FIO_LEAST:
        raise BadInput(f"{text}: too old, fio {FIO_LEAST[0]}.{FIO_LEAST[1]} or newer is needed")
    return text


def describe():
    """The machine, for the report."""
    info = read("/proc/cpuinfo")
    cpu = _field(info, "model name") or platform.machine()
    virtual = virtualization()
    return {"host": platform.node(),
            "kernel": platform.release(),
            "kernel_version": platform.version(),
            "architecture": platform.machine(),
            "cpu": cpu,
            "cpus": os.cpu_count(),
            "memory": meminfo("MemTotal"),
            "memory_available": meminfo("MemAvailable"),
            "governor": governors(),
            "load": list(os.getloadavg()),
            "busy_percent": busy_percent(),
            "virtualization": virtual,
            # systemd calls QEMU "kvm" if the processor is not emulated.
            "emulated": "TCG" in cpu or virtual == "qemu",
            "fio": _installed_fio()}


def warnings(described):
    """Conditions that reduce the value of the figures."""
    if described["busy_percent"] > BUSY_PERCENT:
        yield (f"the machine is busy: {described['busy_percent']:.0f} % of its CPU time was "
               "used before the start")
    if described["governor"] not in ("none", "performance"):
        yield (f"the frequency governor is {described['governor']}: the CPU frequency may "
               "change during the measurement")
    if described["emulated"]:
        yield "the CPU is emulated in software (QEMU TCG): memory speeds are meaningless"
    elif described["virtualization"] not in ("none", "unknown"):
        yield (f"a virtual machine ({described['virtualization']}): other load on its host "
               "may affect the results")


def queue_settings(device):
    """The settings of a block device's queue, by name."""
    number = os.stat(device).st_rdev
    base = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not os.path.isdir(os.path.join(base, "queue")):
        base = os.path.dirname(base)
    found = {name: read(os.path.join(base, "queue", name)) for name in QUEUE}
    return {name: value for name, value in found.items() if value}


def mount_of(path):
    """Device, directory, type and options of the mount that a path lies on."""
    path = os.path.realpath(path)
    best = None
    for line in read("/proc/self/mounts").splitlines():
        source, directory, kind, options = line.split()[:4]
        directory = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), directory)
        inside = path == directory or path.startswith(directory.rstrip("/") + "/")
        if inside and (best is None or len(directory) >= len(best["directory"])):
            best = {"source": source, "directory": directory, "type": kind, "options": options}
    return best


def is_root():
    return not os.geteuid()


def need_root():
    if not is_root():
        raise BadInput("this needs root: run it as root, or with sudo")


def takes_io_uring():
    """Whether io_uring works: the kernel may lack it, and a sysctl or a sandbox may forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    # io_uring_setup() without parameters creates no ring.
    libc.syscall(IO_URING_SETUP, 1, None)
    return ctypes.get_errno() == errno.EFAULT


def need_tools(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        raise BadInput("missing programs: " + ", ".join(missing) + "; install them first")


def need_memory(size):
    free = meminfo("MemAvailable")
    if free < size:
        raise BadInput(f"needs {human(size)} of free memory, {human(free)} are available")


def need_space(directory, size):
    free = shutil.disk_usage(directory).free
    if free < size:
        raise BadInput(f"{directory}: needs {human(size)} of free space, {human(free)} are "
                       "available")


def drop_caches(path=None):
    """Clean caches of files, directories and inodes; who is not root can do so for a file only."""
    os.sync()
    if path and not is_root():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
        return
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")
