# SPDX-License-Identifier: GPL-2.0-only
"""Loading and unloading the modules under test."""

import ctypes
import glob
import os

from .command import BUILD, run

RXD = "rxd"
RXCACHE = "dm_rxcache"

SYS_DELETE_MODULE = 176
SYS_FINIT_MODULE = 313

libc = ctypes.CDLL(None, use_errno=True)


def path(name):
    """The file of a module."""
    stem = name.replace("_", "-")
    places = [os.path.join("/lib/rxd", stem + ".ko"),
              *glob.glob(os.path.join(BUILD, "modules", stem + ".ko")),
              *glob.glob(os.path.join(BUILD, "modules", os.uname().release, stem + ".ko"))]
    for place in places:
        if os.path.exists(place):
            return place
    raise FileNotFoundError(f"{stem}.ko: neither in /lib/rxd nor below {BUILD}/modules")


def loaded():
    """The names of all loaded modules."""
    with open("/proc/modules", encoding="ascii") as file:
        return {line.split()[0] for line in file}


def call(number, *args):
    if libc.syscall(number, *args) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def insert(name, parameters=""):
    """Load one module, without a process for it."""
    fd = os.open(path(name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        call(SYS_FINIT_MODULE, fd, ctypes.c_char_p(parameters.encode()), 0)
    finally:
        os.close(fd)


def delete(name):
    """Unload one module; EAGAIN if it is in use."""
    call(SYS_DELETE_MODULE, ctypes.c_char_p(name.encode()), os.O_NONBLOCK)


def load():
    """Load both modules and what they need."""
    run("modprobe", "dm_mod")
    for name in (RXD, RXCACHE):
        if name not in loaded():
            insert(name)


def unload():
    """Unload both modules."""
    for name in (RXCACHE, RXD):
        if name in loaded():
            delete(name)
