# SPDX-License-Identifier: GPL-2.0-only
"""rxadm beside an older version of the target rxcache."""

from .command import ENVIRONMENT, program, run

# A system call filter that makes rxadm see no versions of targets, which is as if they were old.
OLD_MODULE = """
import ctypes, errno, os, struct, sys

def call(code, yes=0, no=0, value=0):
    return struct.pack("=HBBI", code, yes, no, value)

DM_LIST_VERSIONS = 0xC138FD0D
text = call(0x20) + call(0x15, 0, 3, 16) + call(0x20, value=24)
text += call(0x15, 0, 1, DM_LIST_VERSIONS) + call(6, value=0x50000 | errno.ENOTTY)
text = ctypes.create_string_buffer(text + call(6, value=0x7fff0000))
filter = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(text) // 8,
                                                 ctypes.addressof(text)))
assert not ctypes.CDLL(None).prctl(22, 2, ctypes.byref(filter))
os.execv(sys.argv[1], sys.argv[1:])
"""
# LeakSanitizer cannot work beside strace, nor in a process that was given a filter.
ALONE = {**ENVIRONMENT, "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}


def old_module(*args):
    """rxadm beside a target that is of no known version."""
    return run("python3", "-c", OLD_MODULE, program("rxadm"), *args, check=False,
               environment=ALONE)
