# SPDX-License-Identifier: GPL-2.0-only
"""The pages of a file in the page cache."""

import ctypes
import mmap
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

# Map only this much at once, because a private mapping counts as committed memory.
WINDOW = 64 << 20


def _resident_pages(file, offset, length):
    # ctypes returns only addresses of writable memory; a private mapping is writable.
    with mmap.mmap(file.fileno(), length, flags=mmap.MAP_PRIVATE,
                   prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=offset) as mapping:
        pages = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        first = ctypes.c_char.from_buffer(mapping)
        failed = _LIBC.mincore(ctypes.addressof(first), length, pages)
        # Delete it before the mapping is closed.
        del first
        if failed:
            error = ctypes.get_errno()
            raise OSError(error, f"mincore: {os.strerror(error)}", file.name)
        return sum(page & 1 for page in pages.raw)


def resident(path):
    """Number of bytes of a file that are in memory, in whole pages, by mincore(2)."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.PAGESIZE * sum(_resident_pages(file, offset, min(WINDOW, size - offset))
                                   for offset in range(0, size, WINDOW))
