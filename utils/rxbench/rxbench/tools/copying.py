# SPDX-License-Identifier: GPL-2.0-only
"""Ways to copy a file. Each takes two paths; the time of a program's start is part of its way."""

import mmap
import os
import shutil

from ..system import command
from ..system.undo import check
from ..system.units import short

WINDOW = 8 << 20
PIECE = 1 << 20
BUFFERS = (8 << 10, 128 << 10, 1 << 20, 8 << 20)
F_SETPIPE_SZ = 1031
DIRECT = "direct-"


def _files(source, target):
    return open(source, "rb", buffering=0), open(target, "wb", buffering=0)


def by_mmap(source, target):
    reader, writer = _files(source, target)
    with reader, writer:
        size = os.fstat(reader.fileno()).st_size
        for offset in range(0, size, WINDOW):
            check()
            length = min(WINDOW, size - offset)
            with mmap.mmap(reader.fileno(), length, prot=mmap.PROT_READ,
                           offset=offset) as window, memoryview(window) as view:
                done = 0
                while done < length:
                    with view[done:] as rest:
                        done += writer.write(rest)


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


def _dd(block, direct=False):
    flags = ["iflag=direct", "oflag=direct"] if direct else []

    def copy(source, target):
        command.run("dd", f"if={source}", f"of={target}", f"bs={block}", *flags)
    return copy


def _program(name):
    def copy(source, target):
        command.run(name, source, target)
    return copy


def ways():
    """Name, title and function of each way; programs that are not there are left out."""
    found = [("cp", "cp", _program("cp"))]
    if shutil.which("rxcp"):
        found.append(("rxcp", "rxcp", _program("rxcp")))
    found.append(("mmap", "mmap 8M windows, write", by_mmap))
    for block in BUFFERS:
        found.append((f"rw-{short(block)}", f"read, write {short(block)}", _dd(block)))
    for block in BUFFERS:
        found.append((f"{DIRECT}{short(block)}", f"O_DIRECT {short(block)}", _dd(block, True)))
    return [*found, ("copy_file_range", "copy_file_range", by_copy_file_range),
            ("splice", "splice", by_splice)]
