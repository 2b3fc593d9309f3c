# SPDX-License-Identifier: GPL-2.0-only
"""Ways to copy a file. The time of a way includes the start of its program, except for fio."""

import mmap
import os
import shutil
import time
from dataclasses import dataclass
from typing import Callable

from ..system import command
from ..system.undo import check
from ..system.units import short
from . import fio

WINDOW, SMALL_WINDOW = 8 << 20, 256 << 10
PIECE = 1 << 20
BUFFERS = (8 << 10, 128 << 10, 1 << 20, 8 << 20)
F_SETPIPE_SZ = 1031
DIRECT, URING = "direct-", "direct-uring"
DEPTH = 8
# New in Linux 5.14; Python's mmap has no constant for it.
MADV_POPULATE_READ = 22


@dataclass(frozen=True)
class Way:
    """copy takes two paths, and may return seconds that are not to count.

    copies is false where the second does not get what the first has.
    """
    name: str
    title: str
    copy: Callable
    copies: bool = True


def _files(source, target):
    return open(source, "rb", buffering=0), open(target, "wb", buffering=0)


def _mmap(size, advice=None):
    """Map one window at a time with this advice, and write from the mapping."""
    def copy(source, target):
        reader, writer = _files(source, target)
        with reader, writer:
            end = os.fstat(reader.fileno()).st_size
            for offset in range(0, end, size):
                check()
                length = min(size, end - offset)
                with mmap.mmap(reader.fileno(), length, prot=mmap.PROT_READ,
                               offset=offset) as window, memoryview(window) as view:
                    if advice is not None:
                        window.madvise(advice)
                    done = 0
                    while done < length:
                        with view[done:] as rest:
                            done += writer.write(rest)
    return copy


def by_copy_file_range(source, target):
    reader, writer = _files(source, target)
    with reader, writer:
        left = os.fstat(reader.fileno()).st_size
        while left:
            check()
            moved = os.copy_file_range(reader.fileno(), writer.fileno(), min(left, WINDOW))
            if not moved:
                raise OSError("copy_file_range: the file ended early")
            left -= moved


def by_splice(source, target):
    import fcntl
    reader, writer = _files(source, target)
    out, into = os.pipe()
    try:
        fcntl.fcntl(into, F_SETPIPE_SZ, PIECE)
        with reader, writer:
            while True:
                moved = os.splice(reader.fileno(), into, PIECE)
                if not moved:
                    break
                check()
                while moved:
                    moved -= os.splice(out, writer.fileno(), moved)
    finally:
        os.close(out)
        os.close(into)


def by_fio(source, target):
    """What io_uring moves: the source is read and as much is written meanwhile, but not copied.

    fio takes some 0.1 s to begin and to see that it is done, which does not count.
    """
    size, start = os.path.getsize(source), time.monotonic()
    moments = fio.run(
        {**fio.BASE, "ioengine": "io_uring", "iodepth": DEPTH, "bs": min(PIECE, size & -size),
         "size": size},
        [("read", {"rw": "read", "filename": fio.escaped(source)}),
         ("write", {"rw": "write", "filename": fio.escaped(target), "allow_file_create": 1})],
        interval=3600)
    return time.monotonic() - start - moments[-1].seconds


def _dd(block, flag=None):
    flags = [f"iflag={flag}", f"oflag={flag}"] if flag else []

    def copy(source, target):
        command.run("dd", f"if={source}", f"of={target}", f"bs={block}", *flags)
    return copy


def _program(name):
    def copy(source, target):
        command.run(name, source, target)
    return copy


def ways():
    """All ways; those whose program is missing are left out."""
    found = [Way("cp", "cp", _program("cp"))]
    if shutil.which("rxcp"):
        found.append(Way("rxcp", "rxcp", _program("rxcp")))
    found.append(Way("mmap", "mmap 8M windows, write", _mmap(WINDOW)))
    for name, advice in (("sequential", mmap.MADV_SEQUENTIAL), ("populate", MADV_POPULATE_READ)):
        found.append(Way(f"mmap-256K-{name}", f"mmap 256K {name}, write",
                         _mmap(SMALL_WINDOW, advice)))
    for block in BUFFERS:
        found.append(Way(f"rw-{short(block)}", f"read, write {short(block)}", _dd(block)))
    found.append(Way("nocache-1M", "read, write 1M nocache", _dd(PIECE, "nocache")))
    for block in BUFFERS:
        found.append(Way(f"{DIRECT}{short(block)}", f"O_DIRECT {short(block)}",
                         _dd(block, "direct")))
    return [*found, Way(URING, f"O_DIRECT 1M io_uring x{DEPTH} (fio)", by_fio, False),
            Way("copy_file_range", "copy_file_range", by_copy_file_range),
            Way("splice", "splice", by_splice)]
