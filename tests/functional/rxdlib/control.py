# SPDX-License-Identifier: GPL-2.0-only
"""The ioctls of /dev/rxd-control, as include/uapi/linux/rxd.h declares them."""

import ctypes
import errno
import fcntl
import os
import struct
import uuid

NODE = "/dev/rxd-control"

ABI_VERSION = 1
INDEX_ANY = -1
INDEX_MAX = 1048575
SIZE_MAX = 1 << 48

DRY_RUN = 1 << 31
CREATE_OVERCOMMIT = 1 << 0
CREATE_RESERVE = 1 << 1
CREATE_DETECT_ZEROES = 1 << 2
CREATE_ELASTIC = 1 << 3
NODE_LOCAL = -1
NODE_INTERLEAVE = -2
CLONE_READ_ONLY = 1 << 8
CLONE_EXPENDABLE = 1 << 9
CLONE_NO_FREEZE = 1 << 10
CLONE_TRACK = 1 << 11
CLONE_FDS_MAX = 64
TRACK_STOP = 1 << 8
RESIZE_FORCE = 1 << 0
RESIZE_OVERCOMMIT = 1 << 1
QUERY_NEXT = 1 << 0

STATE_OPEN = 1 << 0
STATE_CACHE = 1 << 1
STATE_OVERCOMMIT = 1 << 2
STATE_READONLY = 1 << 3
STATE_RESERVED = 1 << 4
STATE_DETECT_ZEROES = 1 << 5
STATE_EXPENDABLE = 1 << 6
STATE_LOST = 1 << 7
STATE_ELASTIC = 1 << 8

IF_SAME = 1
CHANGES_ANY = (1 << 64) - 1

MAP_MAX = 65536

MAGIC = 0xB7
WRITE, READ = 1, 2

CREATE_FIELDS = struct.Struct("=IIiIQQIi16s4Q")
REMOVE_FIELDS = struct.Struct("=IIiI2Q")
RESIZE_FIELDS = struct.Struct("=IIiIQ2Q")
QUERY_FIELDS = struct.Struct("=IIiIIIIIQQQQQQQQQiI16s4Q")
CLEAR_FIELDS = struct.Struct("=IIiI2Q")
CLONE_FIELDS = struct.Struct("=IIii16sQII3Q16s")
RESET_FIELDS = struct.Struct("=IIii2Q2Q")
MAP_FIELDS = struct.Struct("=IIQQQIIQ2Q")
TRACK_FIELDS = struct.Struct("=IIiI2Q16s2Q")
CHANGED_FIELDS = struct.Struct("=IIQQQIIQ16s2Q")
DIFF_FIELDS = struct.Struct("=IIQQQIiQQ2Q")
COUNT_FIELDS = struct.Struct("=IIiI5Q2Q")
EXTENT_FIELDS = struct.Struct("=QQ")


def number(direction, command, size):
    """The request number, as the _IOC macro makes it."""
    return direction << 30 | size << 16 | MAGIC << 8 | command


CREATE = number(READ | WRITE, 1, CREATE_FIELDS.size)
REMOVE = number(WRITE, 2, REMOVE_FIELDS.size)
RESIZE = number(WRITE, 3, RESIZE_FIELDS.size)
QUERY = number(READ | WRITE, 4, QUERY_FIELDS.size)
CLEAR = number(WRITE, 5, CLEAR_FIELDS.size)
CLONE = number(READ | WRITE, 6, CLONE_FIELDS.size)
RESET = number(WRITE, 7, RESET_FIELDS.size)
TRACK = number(WRITE, 8, TRACK_FIELDS.size)
COUNT_SHARED = number(READ | WRITE, 9, COUNT_FIELDS.size)
MAP = number(READ | WRITE, 0x10, MAP_FIELDS.size)
DIFF = number(READ | WRITE, 0x11, DIFF_FIELDS.size)
CHANGED = number(READ | WRITE, 0x12, CHANGED_FIELDS.size)


class Query:
    """The result of RXD_QUERY."""

    def __init__(self, values):
        (_, _, self.index, self.state, self.major, self.minor, self.logical_block_size,
         self.folio_size, self.size, self.mem_limit, self.mem_used, self.mem_max_used,
         self.mem_index, self.promised, self.reserved1, self.nospc, self.discards, self.node, _,
         number) = values[:20]
        self.uuid = str(uuid.UUID(bytes=number))

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"Query({vars(self)})"


class Cloned:
    """The result of RXD_CLONE."""

    def __init__(self, values):
        self.index = values[3]
        self.uuid = str(uuid.UUID(bytes=values[4]))
        self.held_ns, self.frozen_ns, self.changes = values[8:11]


class Control:
    """An open control node."""

    def __init__(self, node=NODE):
        self.fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def call(self, request, fields, *values):
        """Issue one ioctl and return the structure's values after it."""
        argument = bytearray(fields.pack(*values))
        fcntl.ioctl(self.fd, request, argument, True)
        return fields.unpack(argument)

    def create(self, size, index=INDEX_ANY, flags=0, logical_block_size=0, mem_limit=0,
               folio_size=0, node=NODE_LOCAL, uuid=bytes(16), version=ABI_VERSION,
               reserved=(0, 0, 0, 0)):
        return self.call(CREATE, CREATE_FIELDS, version, flags, index, logical_block_size,
                         size, mem_limit, folio_size, node, uuid, *reserved)[2]

    def remove(self, index, flags=0, pad=0, version=ABI_VERSION, diskseq=0, changes=0):
        self.call(REMOVE, REMOVE_FIELDS, version, flags, index, pad, diskseq, changes)

    def resize(self, index, size, flags=0, pad=0, version=ABI_VERSION, reserved=(0, 0)):
        self.call(RESIZE, RESIZE_FIELDS, version, flags, index, pad, size, *reserved)

    def clear(self, index, flags=0, pad=0, version=ABI_VERSION, diskseq=0, changes=0):
        self.call(CLEAR, CLEAR_FIELDS, version, flags, index, pad, diskseq, changes)

    def clone(self, source, *args, **options):
        return self.clone_in_use(source, *args, **options).index

    def clone_in_use(self, source, index=INDEX_ANY, flags=0, uuid=bytes(16), version=ABI_VERSION,
                     fds=(), nr_fds=None, address=None, pad=0, held_ns=0, frozen_ns=0, changes=0,
                     state=bytes(16)):
        """Like clone(), and returns all results."""
        array = (ctypes.c_int32 * max(1, len(fds)))(*fds)
        if address is None:
            address = ctypes.addressof(array) if fds else 0
        return Cloned(self.call(
            CLONE, CLONE_FIELDS, version, flags, source, index, uuid, address,
            len(fds) if nr_fds is None else nr_fds, pad, held_ns, frozen_ns, changes, state))

    def reset(self, index, source, flags=0, version=ABI_VERSION, diskseq=0, changes=0,
              reserved=(0, 0)):
        self.call(RESET, RESET_FIELDS, version, flags, index, source, diskseq, changes, *reserved)

    def track(self, index, state=bytes(16), flags=0, pad=0, version=ABI_VERSION, diskseq=0,
              changes=0, reserved=(0, 0)):
        self.call(TRACK, TRACK_FIELDS, version, flags, index, pad, diskseq, changes, state,
                  *reserved)

    def count_shared(self, index, start=0, length=SIZE_MAX, flags=0, pad=0, following=0, shared=0,
                     diskseq=0, version=ABI_VERSION, reserved=(0, 0)):
        """Returns where to go on, and how many bytes before that are shared."""
        return self.call(COUNT_SHARED, COUNT_FIELDS, version, flags, index, pad, diskseq, start,
                         length, following, shared, *reserved)[7:9]

    def query(self, index, flags=0, pad=0, version=ABI_VERSION, reserved=(0, 0, 0, 0)):
        return Query(self.call(QUERY, QUERY_FIELDS, version, flags, index, *(0,) * 5,
                               *(0,) * 9, 0, pad, bytes(16), *reserved))

    def query_all(self):
        """All devices, by RXD_QUERY_NEXT."""
        devices = []
        index = 0
        while True:
            try:
                device = self.query(index, flags=QUERY_NEXT)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return devices
                raise
            devices.append(device)
            index = device.index + 1


def map_extents(fd, start, length, count=MAP_MAX, flags=0, pad=0, following=0,
                version=ABI_VERSION, reserved=(0, 0)):
    """Issue one RXD_MAP; returns the extents as (start, length), and where to go on."""
    extents = bytearray(max(1, min(count, MAP_MAX)) * EXTENT_FIELDS.size)
    view = (ctypes.c_char * len(extents)).from_buffer(extents)
    argument = bytearray(MAP_FIELDS.pack(version, flags, start, length, ctypes.addressof(view),
                                         count, pad, following, *reserved))
    fcntl.ioctl(fd, MAP, argument, True)
    values = MAP_FIELDS.unpack(argument)
    found = list(EXTENT_FIELDS.iter_unpack(extents[:values[5] * EXTENT_FIELDS.size]))
    return found, values[7]


def map_all(fd, start, length, count=MAP_MAX):
    """All extents of a range, by as many calls as necessary."""
    found, at = [], start
    while at < start + length:
        some, following = map_extents(fd, at, start + length - at, count)
        found += some
        if following <= at:
            raise ValueError(f"RXD_MAP does not go on from {at}: next is {following}")
        at = following
    return found


def changed_extents(fd, start, length, count=MAP_MAX, flags=0, pad=0, following=0,
                    version=ABI_VERSION, state=bytes(16), reserved=(0, 0)):
    """Issue one RXD_CHANGED; returns the extents as (start, length), where to go on, and the name
    of the state."""
    extents = bytearray(max(1, min(count, MAP_MAX)) * EXTENT_FIELDS.size)
    view = (ctypes.c_char * len(extents)).from_buffer(extents)
    argument = bytearray(CHANGED_FIELDS.pack(version, flags, start, length,
                                             ctypes.addressof(view), count, pad, following, state,
                                             *reserved))
    fcntl.ioctl(fd, CHANGED, argument, True)
    values = CHANGED_FIELDS.unpack(argument)
    found = list(EXTENT_FIELDS.iter_unpack(extents[:values[5] * EXTENT_FIELDS.size]))
    return found, values[7], values[8]


def changed_all(fd, start, length, count=MAP_MAX):
    """All extents of a range, by as many calls as necessary, and the name of the state."""
    found, at, states = [], start, set()
    while at < start + length or not states:
        some, following, state = changed_extents(fd, at, start + length - at, count)
        found += some
        states.add(state)
        if following <= at and length:
            raise ValueError(f"RXD_CHANGED does not go on from {at}: next is {following}")
        at = following
    (state,) = states
    return found, state


def diff_extents(fd, base, start, length, count=MAP_MAX, flags=0, following=0, shared=0,
                 version=ABI_VERSION, reserved=(0, 0)):
    """Issue one RXD_DIFF; returns the extents as (start, length), where to go on, and how many
    bytes the disks share."""
    extents = bytearray(max(1, min(count, MAP_MAX)) * EXTENT_FIELDS.size)
    view = (ctypes.c_char * len(extents)).from_buffer(extents)
    argument = bytearray(DIFF_FIELDS.pack(version, flags, start, length, ctypes.addressof(view),
                                          count, base, following, shared, *reserved))
    fcntl.ioctl(fd, DIFF, argument, True)
    values = DIFF_FIELDS.unpack(argument)
    found = list(EXTENT_FIELDS.iter_unpack(extents[:values[5] * EXTENT_FIELDS.size]))
    return found, values[7], values[8]


def diff_all(fd, base, start, length, count=MAP_MAX):
    """All extents of a range, by as many calls as necessary, and how many bytes are shared."""
    found, at, shared = [], start, 0
    while at < start + length:
        some, following, part = diff_extents(fd, base, at, start + length - at, count)
        found += some
        shared += part
        if following <= at:
            raise ValueError(f"RXD_DIFF does not go on from {at}: next is {following}")
        at = following
    return found, shared
