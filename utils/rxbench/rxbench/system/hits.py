# SPDX-License-Identifier: GPL-2.0-only
"""Number of reads that a cache served, for all targets that count them."""

from . import command, devices, guard, machine


def _dm_name(device):
    return machine.read(f"{guard.sysfs_folder(device)}/dm/name")


def _rxcache(name):
    status = devices.cache_status(name)
    return status["read_hits"], status["read_misses"]


def _dm_cache(name):
    words = command.run("dmsetup", "status", name)[0].split()
    hits, misses = words[words.index("cache") + 5:words.index("cache") + 7]
    return int(hits), int(misses)


def counter(device):
    """A function that returns hits and misses of reads; None if there is no cache."""
    name = _dm_name(device)
    if not name:
        return None
    target = command.run("dmsetup", "status", name)[0].split()[2:3]
    read = {"rxcache": _rxcache, "cache": _dm_cache}.get(target[0] if target else "")
    return (lambda: read(name)) if read else None


def percent(before, after):
    """The hit ratio between two readings; None if nothing was read."""
    hits, misses = (late - early for early, late in zip(before, after))
    return 100 * hits / (hits + misses) if hits + misses else None
