# SPDX-License-Identifier: GPL-2.0-only
"""What the page cache holds of a file."""

import ctypes
import mmap
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

# Mapped at once: a private mapping counts as memory that could be asked for.
WINDOW = 64 << 20


def _resident_pages(file, offset, length):
    # ctypes tells the address of what may be written to only; a private mapping may be.
    with mmap.mmap(file.fileno(), length, flags=mmap.MAP_PRIVATE,
                   prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=offset) as mapping:
        pages = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        first = ctypes.c_char.from_buffer(mapping)
        failed = _LIBC.mincore(ctypes.addressof(first), length, pages)
        # It must be gone before the mapping is.
        del first
        if failed:
            error = ctypes.get_errno()
            raise OSError(error, f"mincore: {os.strerror(error)}", file.name)
        return sum(page & 1 for page in pages.raw)


def resident(path):
    """Bytes of a file that are in memory, in whole pages, by mincore(2)."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.PAGESIZE * sum(_resident_pages(file, offset, min(WINDOW, size - offset))
                                   for offset in range(0, size, WINDOW))
