# SPDX-License-Identifier: GPL-2.0-only
"""RAM disks that share memory, at random, and a model of what each of them must hold.

RXD_MODEL_SEED     repeat a run: its seed was printed
RXD_MODEL_SECONDS  use the disks of each kind for so long
"""

import collections
import concurrent.futures
import errno
import fcntl
import math
import mmap
import os
import random
import struct
import time

import pytest

from rxdlib import direct, modules
from rxdlib.command import KERNEL
from rxdlib.control import (CLONE_EXPENDABLE, CLONE_NO_FREEZE, CLONE_READ_ONLY,
                            CREATE_DETECT_ZEROES, CREATE_OVERCOMMIT, MAP_MAX, RESIZE_FORCE,
                            Control, diff_all)
from rxdlib.direct import BLOCK, KIB, MIB, SECTOR, Direct, first_difference, ranges, stamp
from rxdlib.lab import LONG

SECONDS = float(os.environ.get("RXD_MODEL_SECONDS", 120 if LONG else 4))
SEED = int(os.environ.get("RXD_MODEL_SEED",
                          random.SystemRandom().randrange(1 << 32) if LONG else 1))
STEPS = 500             # of one run
LEAST = 120             # however slow the machine is
COMPARE = 25            # after so many steps, all data is compared
DISKS = 7
SIZES = [4 * MIB, 6 * MIB, 6 * MIB, 6 * MIB + 3 * BLOCK]
LARGEST = 9 * MIB
LEAF = 2 * MIB          # the range that one leaf of the driver's index describes
MOST = 256              # pages of a write, which is one bio
BLKROSET = 0x125D
RWF_NOWAIT = 8
READ_ONLY = {errno.EPERM, errno.EACCES, errno.EROFS}
ZEROES = bytes(BLOCK)
# After an error, these kernels zero by writes, which may replace pages of zeros.
FALLS_BACK = KERNEL == "6.1"

KINDS = {"pages": {},
         "sectors of 4K": {"logical_block_size": 4 * KIB},
         "zeroes": {"flags": CREATE_DETECT_ZEROES},
         "pieces of 64K": {"folio_size": 64 * KIB},
         "pieces of 2M": {"folio_size": 2 * MIB}}

OPERATIONS = {"write": 24, "nowait": 8, "discard": 10, "punch": 8, "zero": 8, "limit": 5,
              "resize": 4, "create": 1, "clone": 7, "clone_open": 3, "reset": 6, "remove": 4,
              "clear": 1, "diff": 12, "busy": 2, "read_only": 2, "together": 6}


def blocks(offset, length):
    """The numbers of the pages that a range touches."""
    return range(offset // BLOCK, -(-(offset + length) // BLOCK))


def whole(offset, length):
    """The numbers of the pages that lie within a range."""
    return range(-(-offset // BLOCK), (offset + length) // BLOCK)


class Disk:
    """A RAM disk and its model."""

    def __init__(self, ramdisk, size, detects=False):
        self.ramdisk, self.index, self.detects = ramdisk, ramdisk.index, detects
        self.data = bytearray(size)
        self.pages = {}         # the number of the write that made each page, if it exists
        self.vague = set()      # pages that may have been replaced since
        self.limit = math.inf   # in pages
        self.read_only = False

    def __repr__(self):
        return self.ramdisk.name

    def like(self, other):
        self.data = bytearray(other.data)
        self.pages, self.vague = dict(other.pages), set(other.vague)

    def full(self):
        return len(self.pages) >= self.limit

    def drop(self, gone):
        if len(gone):
            self.data[gone[0] * BLOCK:(gone[-1] + 1) * BLOCK] = bytes(len(gone) * BLOCK)
        for block in gone:
            self.pages.pop(block, None)
            self.vague.discard(block)

    def write(self, number, offset, data):
        """Return whether there is room for all of it. What comes before is written."""
        for block in blocks(offset, len(data)):
            start, end = max(offset, block * BLOCK), min(offset + len(data), (block + 1) * BLOCK)
            piece = data[start - offset:end - offset]
            if self.detects and piece == ZEROES:
                self.drop([block])
                continue
            if block not in self.pages and self.full():
                return False
            self.pages[block] = number
            self.vague.discard(block)
            self.data[start:end] = piece
        return True

    def punch(self, number, offset, length):
        """Zero a range, and free the memory of whole pages."""
        for block in blocks(offset, length):
            if block in self.pages:
                self.pages[block] = number
        self.data[offset:offset + length] = bytes(length)
        self.drop(whole(offset, length))

    def provide(self, number, offset, length):
        """Zero a range, with memory for all of it. Return whether there is room."""
        for block in blocks(offset, length):
            if block not in self.pages:
                if self.full():
                    return False
                self.pages[block] = number
        self.pages.update(dict.fromkeys(blocks(offset, length), number))
        self.data[offset:offset + length] = bytes(length)
        return True

    def resize(self, size):
        """Return whether no data is lost."""
        lost = [block for block in self.pages if block * BLOCK >= size]
        for block in lost:
            del self.pages[block]
        self.data[size:] = bytes(max(0, size - len(self.data)))
        return not lost


class Run:
    """Disks of one kind, and one run of random operations."""

    def __init__(self, lab, control, seed, options):
        self.lab, self.control, self.options = lab, control, options
        self.chance = random.Random(seed)
        self.align = options.get("logical_block_size", SECTOR)
        self.detects = bool(options.get("flags"))
        self.disks, self.did, self.number, self.step = [], "", 0, 0
        self.counts = collections.Counter()

    def call(self, wanted, function, *args, also=()):
        """The call must end with one of the errors, or with 0. Return with which."""
        try:
            function(*args)
            found = 0
        except OSError as error:
            found = error.errno
        wanted = {wanted} if isinstance(wanted, int) else set(wanted)
        assert found in wanted | set(also), \
            f"{self.did}: {errno.errorcode.get(found, found)}, not {wanted}"
        self.counts[f"{self.did.split()[0]} {errno.errorcode.get(found, 'done')}"] += 1
        return found

    def check(self, disk, offset=0, length=LARGEST):
        """Compare a range of a disk."""
        length = min(offset + length, len(disk.data)) - offset
        if length > 0:
            found, wanted = direct.read(disk.ramdisk.path, offset, length), disk.data
            wanted = wanted[offset:offset + length]
            if found != wanted:
                at = offset + first_difference(found, wanted)
                raise AssertionError(f"{self.did}: {disk} has other data in page {at // BLOCK}, "
                                     f"byte {at % BLOCK}")

    def check_use(self, disk):
        found = disk.ramdisk.query()
        assert found.mem_used == len(disk.pages) * BLOCK, \
            f"{self.did}: {disk} has {found.mem_used // BLOCK} pages, not {len(disk.pages)}"
        assert found.size == len(disk.data), f"{self.did}: {disk}"

    def check_all(self):
        """All data, and where it is."""
        for disk in self.disks:
            self.check(disk)
            self.check_use(disk)
            assert disk.ramdisk.extents() == ranges(sorted(disk.pages)), f"{self.did}: {disk}"

    # What the operations are about

    def place(self, disk, pages, align=BLOCK):
        """A range of a disk, often at the end of a leaf."""
        size = len(disk.data)
        length = min(pages * BLOCK, size)
        if self.chance.random() < 0.3:
            offset = self.chance.randrange(0, size, LEAF) + self.chance.randrange(-3, 4) * BLOCK
        else:
            offset = self.chance.randrange(0, size, BLOCK)
        if align < BLOCK and self.chance.random() < 0.3:
            offset += self.chance.randrange(0, BLOCK, align)
            length -= self.chance.randrange(0, BLOCK, align)
        offset = max(0, min(offset, size - length))
        return offset, length

    def long_place(self, disk):
        """Half of the time, whole leaves, or all."""
        kind, size = self.chance.random(), len(disk.data)
        if kind < 0.05:
            return 0, size
        if kind < 0.3:
            offset = self.chance.randrange(0, size, LEAF)
            return offset, min(LEAF, size - offset)
        return self.place(disk, self.chance.choice([1, 1, 2, 7, 64, 600]), self.align)

    def new_data(self, offset, length):
        self.number += 1
        data = stamp(self.number, len(blocks(0, length)) * BLOCK)[:length]
        # Where pages of zeros lie must not depend on the memory of the buffer.
        if self.detects and offset % BLOCK == 0 and self.chance.random() < 0.6:
            data = bytearray(data)
            first = self.chance.randrange(0, length, BLOCK)
            length = min(self.chance.choice([1, 3, MOST]) * BLOCK, length - first)
            data[first:first + length] = bytes(length)
        return bytes(data)

    def pick(self):
        return self.chance.choice(self.disks)

    def did_io(self, disk, offset, length):
        self.check(disk, max(0, offset - BLOCK), length + 2 * BLOCK)
        self.check(self.pick(), max(0, offset - BLOCK), length + 2 * BLOCK)
        self.check_use(disk)

    def change(self, disk, function, wanted, also=()):
        """Call a function with the disk opened. Return the error."""
        if disk.read_only:
            wanted = READ_ONLY

        def opened():
            with Direct(disk.ramdisk.path) as device:
                function(device)
        return self.call(wanted, opened, also=also)

    # Operations

    def create(self):
        if len(self.disks) == DISKS:
            return
        size = self.chance.choice(SIZES)
        self.did = f"create {size}"
        self.disks.append(Disk(self.lab.ramdisk(size, overcommit=True, **self.options), size,
                               self.detects))

    def write(self):
        disk = self.pick()
        offset, length = self.place(disk, self.chance.choice([1, 1, 1, 2, 7, 64, MOST]),
                                    self.align)
        data = self.new_data(offset, length)
        self.did = f"write {disk} {offset} {length}"
        nospc = disk.ramdisk.query().nospc
        fits = disk.read_only or disk.write(self.number, offset, data)
        self.change(disk, lambda device: device.write(offset, data),
                    0 if fits else errno.ENOSPC)
        assert disk.ramdisk.query().nospc == nospc + (not fits), self.did
        self.did_io(disk, offset, length)

    def nowait(self):
        """What must wait is refused, and may be done in part."""
        disk = self.pick()
        offset, length = self.place(disk, self.chance.choice([1, 1, 2, 7, 64]), self.align)
        data = self.new_data(offset, length)
        self.did = f"nowait {disk} {offset} {length}"
        old = bytes(disk.data), dict(disk.pages), set(disk.vague)
        fits = disk.read_only or disk.write(self.number, offset, data)

        def attempt(device):
            with mmap.mmap(-1, length) as buffer:
                buffer[:] = data
                os.pwritev(device.fd, [buffer], offset, RWF_NOWAIT)
        if self.change(disk, attempt, 0 if fits else errno.ENOSPC,
                       also=[errno.EAGAIN]) == errno.EAGAIN:
            self.adopt(disk, old, blocks(offset, length))
        self.did_io(disk, offset, length)

    def adopt(self, disk, old, touched):
        """Each page has been written, or is as before."""
        data, pages, vague = old
        there = {block for start, length in disk.ramdisk.extents()
                 for block in blocks(start, length)}
        for block in touched:
            at = slice(block * BLOCK, (block + 1) * BLOCK)
            found = direct.read(disk.ramdisk.path, block * BLOCK, BLOCK)
            if found != disk.data[at] or (block in there) != (block in disk.pages):
                disk.data[at] = data[at]
                disk.pages.pop(block, None)
                if block in pages:
                    disk.pages[block] = pages[block]
                if block in vague:
                    disk.vague.add(block)

    def discard(self):
        disk = self.pick()
        offset, length = self.long_place(disk)
        self.did = f"discard {disk} {offset} {length}"
        if not disk.read_only:
            disk.drop(whole(offset, length))
        self.change(disk, lambda device: device.discard(offset, length), 0)
        self.did_io(disk, offset, length)

    def punch(self):
        disk = self.pick()
        offset, length = self.long_place(disk)
        self.did = f"punch {disk} {offset} {length}"
        self.number += 1
        if not disk.read_only:
            disk.punch(self.number, offset, length)
        self.change(disk, lambda device: device.punch_hole(offset, length), 0)
        self.did_io(disk, offset, length)

    def zero(self):
        """Write zeroes without unmap."""
        disk = self.pick()
        offset, length = self.long_place(disk)
        name = self.chance.choice(["zero_out", "zero_range"])
        self.did = f"{name} {disk} {offset} {length}"
        self.number += 1
        fits = True
        if disk.read_only:
            pass
        elif self.detects:
            disk.punch(self.number, offset, length)
        else:
            fits = disk.provide(self.number, offset, length)
        self.change(disk, lambda device: getattr(device, name)(offset, length),
                    0 if fits else errno.ENOSPC)
        if not fits and FALLS_BACK:
            self.adopt_zeroes(disk, offset, length)
        self.did_io(disk, offset, length)

    def adopt_zeroes(self, disk, offset, length):
        for block in blocks(offset, length):
            if block in disk.pages:
                start, end = max(offset, block * BLOCK), min(offset + length,
                                                             (block + 1) * BLOCK)
                at = slice(start, end)
                found = direct.read(disk.ramdisk.path, block * BLOCK, BLOCK)
                found = found[start % BLOCK:start % BLOCK + end - start]
                if not any(found):
                    disk.vague.add(block)
                    disk.data[at] = found

    def limit(self):
        disk = self.pick()
        pages = max(1, len(disk.pages) + self.chance.choice([-3, 0, 1, 5, 100]))
        if self.chance.random() < 0.3:
            pages = 0
        self.did = f"limit {disk} {pages}"
        disk.ramdisk.set_attribute("mem_limit", pages * BLOCK)
        disk.limit = pages or math.inf

    def resize(self):
        disk = self.pick()
        size = self.chance.choice([*SIZES, self.chance.randrange(BLOCK, LARGEST, BLOCK)])
        force = self.chance.random() < 0.5
        self.did = f"resize {disk} {size} {force}"
        loses = any(block * BLOCK >= size for block in disk.pages)
        self.call(errno.ENOTEMPTY if loses and not force else 0,
                  disk.ramdisk.resize, size, RESIZE_FORCE if force else 0)
        if force or not loses:
            disk.resize(size)
        self.check(disk)
        self.check_use(disk)

    def clone_of(self, source):
        """Clone a disk, and give the clone the model of the source."""
        flags = CREATE_OVERCOMMIT
        for flag in CLONE_READ_ONLY, CLONE_EXPENDABLE, CLONE_NO_FREEZE:
            flags |= flag * (self.chance.random() < 0.25)
        made = Disk(self.lab.adopt_ramdisk(self.control.clone(source.index, flags=flags)),
                    len(source.data), source.detects)
        made.like(source)
        made.limit, made.read_only = source.limit, bool(flags & CLONE_READ_ONLY)
        self.disks.append(made)
        return made

    def clone(self):
        if len(self.disks) < DISKS:
            disk = self.pick()
            self.did = f"clone {disk}"
            self.check_use(self.clone_of(disk))

    def clone_open(self):
        """Of a disk in use."""
        if len(self.disks) < DISKS:
            disk = self.pick()
            self.did = f"clone_open {disk}"
            with Direct(disk.ramdisk.path, os.O_RDONLY):
                self.check_use(self.clone_of(disk))

    def reset(self):
        disk, source = self.pick(), self.pick()
        same = [other for other in self.disks if len(other.data) == len(disk.data)]
        if self.chance.random() < 0.8:
            source = self.chance.choice(same)
        self.reset_to(disk, source)

    def reset_to(self, disk, source):
        self.did = f"reset {disk} {source}"
        wanted = set()
        if disk is source:
            wanted.add(errno.EINVAL)
        if disk.read_only:
            wanted.add(errno.EROFS)
        if len(disk.data) != len(source.data):
            wanted.add(errno.ERANGE)
        if len(source.pages) > disk.limit:
            wanted.add(errno.ENOSPC)
        self.call(wanted or 0, self.control.reset, disk.index, source.index)
        if not wanted:
            disk.like(source)
        self.check_use(disk)

    def remove(self):
        if len(self.disks) > 2:
            self.remove_it(self.pick())

    def remove_it(self, disk):
        self.did = f"remove {disk}"
        self.call(0, disk.ramdisk.remove)
        self.disks.remove(disk)

    def clear(self):
        disk = self.pick()
        self.did = f"clear {disk}"
        self.call(errno.EROFS if disk.read_only else 0, disk.ramdisk.clear)
        if not disk.read_only:
            disk.drop(range(len(disk.data) // BLOCK))
        self.check_use(disk)

    def read_only(self):
        disk = self.pick()
        self.did = f"read_only {disk}"
        with Direct(disk.ramdisk.path, os.O_RDONLY) as device:
            fcntl.ioctl(device.fd, BLKROSET, struct.pack("=i", not disk.read_only))
        disk.read_only = not disk.read_only

    def busy(self):
        """What a disk in use refuses changes nothing."""
        disk, other = self.pick(), self.pick()
        self.did = f"busy {disk} {other}"
        with Direct(disk.ramdisk.path, os.O_RDONLY):
            self.call(errno.EBUSY, disk.ramdisk.remove)
            self.call(errno.EBUSY, disk.ramdisk.clear)
            if len(disk.data) > BLOCK:
                self.call(errno.EBUSY, disk.ramdisk.resize, len(disk.data) - BLOCK)
            if disk is not other:
                self.call(errno.EBUSY, self.control.reset, disk.index, other.index)
                self.call(errno.EBUSY, self.control.reset, other.index, disk.index)
        self.check(disk)

    def diff(self):
        """What is listed is what the disks do not share."""
        if len(self.disks) < 2:
            return
        one, other = self.chance.sample(self.disks, 2)
        size = max(len(one.data), len(other.data))
        start, end = sorted(self.chance.choices(range(0, size + 9 * BLOCK, BLOCK), k=2))
        if self.chance.random() < 0.3:
            start, end = 0, size
        count = self.chance.choice([1, 3, 128, 129, MAP_MAX])
        self.did = f"diff {one} {other} {start} {end} {count}"
        with Direct(one.ramdisk.path, os.O_RDONLY) as left, \
                Direct(other.ramdisk.path, os.O_RDONLY) as right:
            found, shared = diff_all(left.fd, right.fd, start, end - start, count)
        listed = [block for at, length in found for block in blocks(at, length)]
        wanted = [block for block in range(start // BLOCK, min(end, size) // BLOCK)
                  if one.pages.get(block) != other.pages.get(block)]
        vague = one.vague | other.vague
        if vague:
            listed, wanted = ([block for block in some if block not in vague]
                              for some in (listed, wanted))
        else:
            assert shared == BLOCK * sum(
                other.pages.get(block) == number for block, number in one.pages.items()
                if start <= block * BLOCK < end), self.did
        assert listed == wanted, f"{self.did}: {ranges(sorted(set(listed) ^ set(wanted)))}"
        self.counts["diff"] += 1

    # Several threads

    def job(self, disk, window, aligned):
        """Operations on a disk within a window, which are done to the model."""
        for _ in range(24):
            pages = self.chance.choice([1, 1, 1, 2, 5, 16])
            offset = (window + self.chance.randrange(64 - pages)) * BLOCK
            length = pages * BLOCK
            what = "write" if aligned else self.chance.choice(["write", "write", "discard",
                                                               "punch_hole"])
            if not aligned and self.align < BLOCK:
                offset += self.chance.randrange(0, BLOCK, SECTOR)
                length -= self.chance.randrange(0, BLOCK, SECTOR)
            if what == "write":
                data = self.new_data(offset, length)
                disk.write(self.number, offset, data)
                yield what, self.number, offset, data
                continue
            self.number += 1
            if what == "discard":
                disk.drop(whole(offset, length))
            else:
                disk.punch(self.number, offset, length)
            yield what, self.number, offset, length

    def halves(self, disk, window):
        """Two jobs that write to different sectors of the same pages."""
        jobs = [], []
        for number in range(96):
            parity = number % 2
            offset = (window + self.chance.randrange(8)) * BLOCK
            offset += (2 * self.chance.randrange(4) + parity) * SECTOR
            data = self.new_data(offset, SECTOR)
            disk.write(self.number, offset, data)
            jobs[parity].append(("write", self.number, offset, data))
        return jobs

    def together(self):
        """Some disks are changed at once, while others come and go, and one is cloned."""
        free = [disk for disk in self.disks if not disk.read_only and not disk.vague and
                disk.limit == math.inf and len(disk.data) >= MIB]
        if not free:
            return
        changed = self.chance.sample(free, min(len(free), self.chance.randrange(1, 4)))
        others = [disk for disk in self.disks if disk not in changed]
        window = self.chance.randrange(min(len(disk.data) for disk in changed) // BLOCK - 64)
        self.did = f"together {changed} {window}"

        before = Disk(changed[0].ramdisk, len(changed[0].data), self.detects)
        before.like(changed[0])
        jobs = [(changed[0], list(self.job(changed[0], window, True)))]
        for disk in changed[1:]:
            if self.align < BLOCK and self.chance.random() < 0.5:
                jobs += [(disk, job) for job in self.halves(disk, window)]
            else:
                jobs.append((disk, list(self.job(disk, window, False))))
        clones = []
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            futures = [pool.submit(work, disk, job) for disk, job in jobs]
            self.meanwhile(before, others, clones)
            for future in futures:
                future.result()
        self.did = f"together {changed} {window} {others} {clones}"
        for clone in clones:
            self.moment(clone, before, jobs[0][1])
        self.check_all()

    def meanwhile(self, source, others, clones):
        """Reset, remove and clone disks that are not being changed, and clone one that is."""
        for _ in range(self.chance.randrange(1, 6)):
            kind = self.chance.random()
            if kind < 0.4 and len(self.disks) < DISKS:
                clones.append(self.clone_of(source))
            elif kind < 0.6 and others and len(self.disks) > 2:
                disk = others.pop(self.chance.randrange(len(others)))
                self.remove_it(disk)
            elif kind < 0.8 and len(others) > 1:
                self.reset_to(*self.chance.sample(others, 2))
            elif others and len(self.disks) < DISKS:
                disk = self.chance.choice(others)
                self.did = f"clone {disk}"
                others.append(self.clone_of(disk))

    def moment(self, clone, before, job):
        """A clone is what the source was after some of the writes, or within the next."""
        touched = sorted({block for _, _, offset, data in job
                          for block in blocks(offset, len(data))})
        now = Disk(clone.ramdisk, len(before.data), self.detects)
        now.like(before)

        def state():
            return {block: (bytes(now.data[block * BLOCK:(block + 1) * BLOCK]),
                            now.pages.get(block)) for block in touched}

        states = [state()]
        for _, number, offset, data in job:
            now.write(number, offset, data)
            states.append(state())
        there = {block for start, length in clone.ramdisk.extents()
                 for block in blocks(start, length)}
        first = touched[0] * BLOCK
        data = direct.read(clone.ramdisk.path, first, (touched[-1] + 1) * BLOCK - first)
        for done, one in enumerate(states):
            other = states[min(done + 1, len(job))]
            found = {block: self.either(one[block], other[block], block in there,
                                        data[block * BLOCK - first:][:BLOCK])
                     for block in touched}
            if None not in found.values():
                break
        else:
            raise AssertionError(f"{self.did}: {clone} is {before} of no moment")
        self.counts[f"cloned {'between' if 0 < done < len(job) else 'outside'}"] += 1
        clone.like(before)
        for block, (content, number) in found.items():
            clone.data[block * BLOCK:(block + 1) * BLOCK] = content
            clone.pages.pop(block, None)
            if number is not None:
                clone.pages[block] = number

    @staticmethod
    def either(one, other, there, data):
        """Which of two states of a page is found."""
        for content, number in one, other:
            if content == data and (number is not None) == there:
                return content, number
        return None

    # All of it

    def begin(self):
        """A disk with some data, two clones, and a disk of its own."""
        self.create()
        disk = self.disks[0]
        for offset in 0, 3 * MIB, len(disk.data) - MIB:
            data = self.new_data(offset, MIB)
            disk.write(self.number, offset, data)
            direct.write(disk.ramdisk.path, offset, data)
        self.clone_of(disk)
        self.clone_of(disk)
        self.create()

    def go(self, end):
        """Return the number of steps."""
        self.begin()
        for self.step in range(STEPS):
            if self.step >= LEAST and time.monotonic() > end:
                break
            name, = self.chance.choices(list(OPERATIONS), list(OPERATIONS.values()))
            getattr(self, name)()
            if self.step % COMPARE == COMPARE - 1:
                self.check_all()
        self.check_all()
        while self.disks:
            self.remove_it(self.pick())
            if self.disks:
                self.check(self.pick())
        return self.step + 1


def work(disk, job):
    """Do what was done to the model."""
    with Direct(disk.ramdisk.path) as device:
        for what, _, offset, data in job:
            getattr(device, what)(offset, data)


@pytest.mark.parametrize("kind", KINDS)
def test_model(lab, kind):
    """Run after run until the time is over."""
    end = time.monotonic() + SECONDS
    seed, steps, counts = SEED, 0, collections.Counter()
    with Control() as control:
        while time.monotonic() < end:
            run = Run(lab, control, seed, KINDS[kind])
            try:
                steps += run.go(end)
            except BaseException:
                print(f"seed {seed}, step {run.step}: {run.did}")
                raise
            counts += run.counts
            seed += 1
    print(f"seeds {SEED} to {seed - 1}: {steps} steps: {dict(sorted(counts.items()))}")
    # The driver counts what has leaked when it goes.
    modules.unload()
    modules.load()
