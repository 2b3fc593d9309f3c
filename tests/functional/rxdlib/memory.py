# SPDX-License-Identifier: GPL-2.0-only
"""How much memory there is, and whether it was freed."""

import ctypes
import mmap
import os
import re
import time

from .direct import BLOCK, KIB, libc


def meminfo():
    with open("/proc/meminfo", encoding="ascii") as file:
        return {key: int(value.split()[0]) * KIB
                for key, value in (line.split(":") for line in file)}


def vmstat(name):
    with open("/proc/vmstat", encoding="ascii") as file:
        return int(re.search(rf"^{name} (\d+)$", file.read(), re.MULTILINE)[1])


def free_memory(node=None):
    """Free pages of all nodes or of one, those on per-CPU lists included.

    A list holds up to tens of MiB, and may be emptied at any moment: both must
    come from one look, which /proc/zoneinfo takes under the zone's lock.
    """
    with open("/proc/zoneinfo", encoding="ascii") as file:
        zones = re.split(r"^(?=Node \d)", file.read(), flags=re.MULTILINE)
    wanted = "Node " if node is None else f"Node {node},"
    return BLOCK * sum(int(count) for zone in zones if zone.startswith(wanted)
                       for count in re.findall(r"^(?: +count:|  pages free) +(\d+)$", zone,
                                               re.MULTILINE))


def on_cpu_lists():
    """Free pages on per-CPU lists, which neither MemFree nor MemAvailable counts."""
    with open("/proc/zoneinfo", encoding="ascii") as file:
        return BLOCK * sum(int(count) for count in re.findall(r"^ +count: +(\d+)$", file.read(),
                                                              re.MULTILINE))


def available():
    """Memory that programs can get, with that on per-CPU lists, which reclaim empties."""
    info = meminfo()
    return info["MemAvailable"] - info["MemFree"] + free_memory()


def resident(path):
    """How many bytes of a file are in the page cache."""
    size = os.path.getsize(path)
    pages = ctypes.create_string_buffer(size // BLOCK)
    # ctypes takes the address of writable memory only.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as area:
        first = ctypes.c_char.from_buffer(area)
        start = ctypes.c_void_p(ctypes.addressof(first))
        failed = libc.mincore(start, ctypes.c_size_t(size), pages)
        # The mapping cannot be closed before.
        del first
    assert not failed
    return BLOCK * sum(page & 1 for page in pages.raw)


def watermarks(name):
    """The sum of a watermark of all zones, such as "high"."""
    with open("/proc/zoneinfo", encoding="ascii") as file:
        return BLOCK * sum(int(count) for count in re.findall(rf"^ +{name} +(\d+)$", file.read(),
                                                              re.MULTILINE))


def shrink_all():
    """Let all shrinkers give back what they can; returns True."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("2")
    return True


def settled():
    """Read /proc/meminfo after dropping all caches."""
    os.sync()
    for _ in range(2):
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
    return {**meminfo(), "Free": free_memory()}


def spare(info=None):
    """Memory that is free, or would be if no process and no file used it."""
    info = info or settled()
    return sum(info[key] for key in ("Free", "Buffers", "Cached", "SReclaimable", "AnonPages"))


def missing(before, tolerance):
    """How much less memory is spare than before, once RCU has given back its own."""
    end = time.monotonic() + 60
    while True:
        less = before - spare()
        if less < tolerance or time.monotonic() > end:
            return less
        time.sleep(0.2)
