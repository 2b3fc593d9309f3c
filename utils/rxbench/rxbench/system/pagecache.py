# SPDX-License-Identifier: GPL-2.0-only
"""What the page cache holds of a file."""

import ctypes
import mmap
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def resident(path):
    """Bytes of a file that are in memory, in whole pages, by mincore(2)."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0
        # ctypes tells the address of what may be written to only; a private mapping may be.
        with mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE,
                       prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapping:
            pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
            first = ctypes.c_char.from_buffer(mapping)
            failed = _LIBC.mincore(ctypes.addressof(first), size, pages)
            # It must be gone before the mapping is.
            del first
            if failed:
                error = ctypes.get_errno()
                raise OSError(error, f"mincore: {os.strerror(error)}", path)
            return sum(page & 1 for page in pages.raw) * mmap.PAGESIZE
