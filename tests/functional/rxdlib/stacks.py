# SPDX-License-Identifier: GPL-2.0-only
"""Devices that users put between a RAM disk and a file system."""

import contextlib
import errno
import os
import time

from . import dm
from .command import CommandError, run
from .control import RESIZE_FORCE, RESIZE_OVERCOMMIT
from .direct import BLOCK, GIB, KIB, MIB, SECTOR, Direct

CHUNK = 64 * KIB
KEY = b"0123456789abcdef" * 4
PATIENCE = 120  # seconds to wait for an expected event
# badblocks_check() warns of what it reads while a writer changes the log of bad blocks (Linux 7.2:
# its WARN_ON() comes before the sequence counter is looked at again). So arrays have no such log.
MDADM_CONFIG = "/etc/mdadm/mdadm.conf.d/rxd-tests.conf"
NO_BAD_BLOCKS = "CREATE bbl=no\n"


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what}")
        time.sleep(0.05)


def refuses(ramdisk, size, flags=0):
    """A disk that is in use must refuse to shrink."""
    before = ramdisk.query().size
    try:
        ramdisk.resize(size, flags)
    except OSError as error:
        assert error.errno == errno.EBUSY, error
    else:
        raise AssertionError(f"{ramdisk.name}, in use, was resized from {before} to {size}")
    assert ramdisk.query().size == before


class Stack:
    """A device, the RAM disks it is made of, and what may be expected of it.

    The last of the RAM disks is the one with a limit, or that is resized.
    """

    def __init__(self, path, ramdisks, origin=None, survives=False, errors=(), whole=False,
                 bare=False, discards=True, scrambled=False, half=0, striped=False):
        self.path, self.ramdisks, self.origin = path, ramdisks, origin
        self.survives = survives    # a member that fails
        self.errors = errors        # options of rwmodel for the errors that come up
        self.whole = whole          # it is a RAM disk itself
        self.bare = bare or whole   # or a partition of one
        self.discards = discards    # it passes them on, each block
        self.scrambled = scrambled  # what was never written holds anything
        self.half = half            # where on the RAM disk the second half of it begins
        self.striped = striped      # over two
        self.shrinks = whole        # with that RAM disk
        self.size = self.largest = ramdisks[-1].query().size

    def resizing(self):
        """Options of rwmodel for what a cut makes of it."""
        return ["-R", "none" if self.survives else "disk" if self.shrinks else "member",
                *(["-S", CHUNK // SECTOR] if self.striped else [])]

    def attempt(self):
        """Try what must not disturb the I/O: shrinking is refused, and growing is not noticed."""
        ramdisk = self.ramdisks[-1]
        refuses(ramdisk, self.half)
        refuses(ramdisk, self.size - BLOCK)
        # A directory that is large enough is not replaced.
        self.largest += 2 * MIB
        ramdisk.resize(self.largest, RESIZE_OVERCOMMIT)
        ramdisk.resize(self.size, RESIZE_FORCE)

    def cut(self):
        """Cut off the second half."""
        self.ramdisks[-1].resize(self.half, RESIZE_FORCE)

    def mend(self):
        self.ramdisks[-1].resize(self.size)


class CacheStack(Stack):
    """A cache over a RAM disk, and another that is its memory."""

    def __init__(self, cache, origin, **options):
        super().__init__(cache.path, [origin], origin=origin.path, **options)
        self.cache, self.attempts = cache, 0

    def attempt(self):
        """A claimed disk must refuse to shrink. It may grow, which the I/O does not notice."""
        super().attempt()
        claimed = self.cache.ramdisk
        for flags in 0, RESIZE_FORCE:
            refuses(claimed, BLOCK, flags)
        # A cache that has grown starts empty after its next reload, so do this rarely.
        self.attempts += 1
        if self.attempts % 3 == 2:
            claimed.resize(claimed.query().size + MIB)

    def cut(self):
        """After a change of the origin, invalidate the cache."""
        super().cut()
        self.cache.drop()


class ReloadedStack(CacheStack):
    """The cache is shortened before its origin, and extended after it."""

    def __init__(self, cache, origin, **options):
        super().__init__(cache, origin, **options)
        self.shrinks = True

    def _reload(self, size):
        ramdisk = self.cache.ramdisk
        dm.replace(self.cache.name, f"0 {size // SECTOR} rxcache {self.origin} {ramdisk.path}")
        total = self.cache.status().total
        assert total == ramdisk.query().size // BLOCK, "the cache has not grown"

    def cut(self):
        self._reload(self.half)
        Stack.cut(self)

    def mend(self):
        super().mend()
        self._reload(2 * self.half)


class Array(Stack):
    """An md array of more than it needs: what a member loses is rebuilt."""

    def __init__(self, path, ramdisks, **options):
        super().__init__(path, ramdisks, **options)
        self.number = os.path.basename(path)

    def attribute(self, name):
        with open(f"/sys/block/{self.number}/md/{name}", encoding="ascii") as file:
            return file.read().strip()

    def _has_noticed(self):
        return "faulty" in self.attribute(f"dev-{self.ramdisks[-1].name}/state")

    def _notices(self):
        if self._has_noticed():
            return True
        # The reader and writer may wait for the end of this round, so read everything.
        if self.attribute("sync_action") == "idle":
            with contextlib.suppress(OSError), \
                    open(f"/sys/block/{self.number}/md/sync_action", "w",
                         encoding="ascii") as file:
                file.write("check\n")
        return False

    def cut(self):
        super().cut()
        wait_for(self._notices, f"error of {self.path}'s member")
        run("mdadm", self.path, "--fail", self.ramdisks[-1].path)

    def _remove(self):
        """Remove it as soon as it has no I/O in flight."""
        try:
            run("mdadm", self.path, "--remove", self.ramdisks[-1].path)
        except CommandError as error:
            if "busy" not in error.result.stderr:
                raise
            return False
        return True

    def mend(self):
        wait_for(self._remove, f"removal from {self.path}")
        super().mend()
        run("mdadm", self.path, "--add", self.ramdisks[-1].path)
        wait_for(lambda: self.attribute("degraded") == "0", f"rebuilding of {self.path}")


def disk(lab, size, **options):
    ramdisk = lab.ramdisk(size, **options)
    return Stack(ramdisk.path, [ramdisk], whole=True, half=size // 2)


def partition(lab, size, **options):
    ramdisk = lab.ramdisk(size + MIB, **options)
    with Direct(ramdisk.path) as device:
        device.partition_table(1, 1, MIB, size)
    lab.stack.callback(_no_partition, ramdisk.path)
    path = f"{ramdisk.path}p1"
    wait_for_node(path)
    return Stack(path, [ramdisk], bare=True, half=MIB + size // 2)


def _no_partition(path):
    with Direct(path) as device:
        device.partition_table(2, 1)


def wait_for_node(path):
    wait_for(lambda: os.path.exists(path), path)


def linear(lab, size, **options):
    ramdisk = lab.ramdisk(size, **options)
    return Stack(lab.linear(size, ramdisk.path)[1], [ramdisk], half=size // 2)


def cache(lab, size, **options):
    """The disk behind the cache; the cache itself is short, too."""
    ramdisk = lab.ramdisk(size, **options)
    made = lab.cache(size, cache_size=size // 4, origin=ramdisk.path)
    return CacheStack(made, ramdisk, half=size // 2)


def reloaded(lab, size, **options):
    """Cached blocks are not evicted while their half is cut off."""
    ramdisk = lab.ramdisk(size, **options)
    made = lab.cache(size, cache_size=2 * size, origin=ramdisk.path)
    return ReloadedStack(made, ramdisk, half=size // 2)


def stripe(lab, size, **options):
    ramdisks = [lab.ramdisk(size // 2), lab.ramdisk(size // 2, **options)]
    members = " ".join(f"{ramdisk.path} 0" for ramdisk in ramdisks)
    name = lab.mapped(f"0 {size // SECTOR} striped 2 {CHUNK // SECTOR} {members}")
    return Stack(f"/dev/mapper/{name}", ramdisks, half=size // 4, striped=True)


def crypt(lab, size, **options):
    run("modprobe", "dm-crypt")
    ramdisk = lab.ramdisk(size, **options)
    name = lab.mapped(f"0 {size // SECTOR} crypt aes-xts-plain64 {KEY.hex()} 0 {ramdisk.path} 0")
    return Stack(f"/dev/mapper/{name}", [ramdisk], discards=False, scrambled=True,
                 half=size // 2)


def thin(lab, size, in_order=False, **options):
    """The pool tells EIO where a block could not be made, and forgets the block: it has
    plenty of them. In order, each block has its place, and keeps it."""
    run("modprobe", "dm-thin-pool")
    ramdisk, metadata = lab.ramdisk(4 * GIB, overcommit=True, **options), lab.ramdisk(16 * MIB)
    features = "1 ignore_discard" if in_order else "0"
    pool = lab.mapped(f"0 {4 * GIB // SECTOR} thin-pool {metadata.path} {ramdisk.path} "
                      f"{CHUNK // SECTOR} 0 {features}")
    dm.message(pool, "create_thin 0")
    name = lab.mapped(f"0 {size // SECTOR} thin /dev/mapper/{pool} 0")
    path = f"/dev/mapper/{name}"
    if in_order:
        with Direct(path) as device:
            for offset in range(0, size, CHUNK):
                device.write(offset, bytes(CHUNK))
    return Stack(path, [ramdisk], errors=("-e",), discards=False, half=size // 2)


def thin_in_order(lab, size, **options):
    return thin(lab, size, True, **options)


def _configure_md(lab):
    os.makedirs(os.path.dirname(MDADM_CONFIG), exist_ok=True)
    with open(MDADM_CONFIG, "w", encoding="ascii") as file:
        file.write(NO_BAD_BLOCKS)
    lab.stack.callback(_no_file, MDADM_CONFIG)


def _new_md(lab):
    number = next(n for n in range(100) if not os.path.exists(f"/sys/block/md{n}"))
    path = f"/dev/md{number}"
    lab.stack.callback(no_md, path)
    return path


def md(lab, ramdisks, *options, fresh=False):
    """An array; a fresh one finds out for itself whether its members agree."""
    path = _new_md(lab)
    _configure_md(lab)
    if not fresh:
        options += ("--assume-clean",)
    run("mdadm", "--create", path, "--run", "--metadata=1.2",
        f"--raid-devices={len(ramdisks)}", *options, *(ramdisk.path for ramdisk in ramdisks))
    wait_for_node(path)
    return path


def assembled_md(lab, ramdisks):
    """An array of members that have been in one."""
    path = _new_md(lab)
    run("mdadm", "--assemble", path, "--run", *(ramdisk.path for ramdisk in ramdisks))
    wait_for_node(path)
    return path


def data_offset(path, ramdisk):
    """The offset of a member's data."""
    with open(f"/sys/block/{os.path.basename(path)}/md/dev-{ramdisk.name}/offset",
              encoding="ascii") as file:
        return int(file.read()) * SECTOR


def _no_file(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def no_md(path):
    if os.path.exists(path):
        run("mdadm", "--stop", path)
    _no_file(path)


def raid0(lab, size, **options):
    """It has no statistics of its own and passes on requests that are parts of others."""
    ramdisks = [lab.ramdisk(size // 2 + 2 * MIB), lab.ramdisk(size // 2 + 2 * MIB, **options)]
    path = md(lab, ramdisks, "--level=0", f"--chunk={CHUNK // KIB}")
    with open(f"/sys/block/{os.path.basename(path)}/queue/iostats", "w",
              encoding="ascii") as file:
        file.write("0")
    return Stack(path, ramdisks, half=data_offset(path, ramdisks[-1]) + size // 4, striped=True)


def raid1(lab, size, **options):
    """md ignores a member's error of a discard: the members may hold different data then."""
    ramdisks = [lab.ramdisk(size + 2 * MIB), lab.ramdisk(size + 2 * MIB, **options)]
    path = md(lab, ramdisks, "--level=1", "--bitmap=none")
    return Array(path, ramdisks, survives=True, discards=False,
                 half=data_offset(path, ramdisks[-1]) + size // 2)


def raid5(lab, size, **options):
    ramdisks = [*(lab.ramdisk(size // 2 + 2 * MIB) for _ in range(2)),
                lab.ramdisk(size // 2 + 2 * MIB, **options)]
    path = md(lab, ramdisks, "--level=5", "--bitmap=none",
              f"--chunk={CHUNK // KIB}")
    return Array(path, ramdisks, survives=True, discards=False,
                 half=data_offset(path, ramdisks[-1]) + size // 4)


STACKS = {make.__name__: make for make in (disk, partition, linear, cache, stripe, crypt, thin,
                                           raid0, raid1, raid5)}

# For resizing, the place of each chunk must be known.
RESIZED = {make.__name__: make for make in (disk, partition, linear, cache, reloaded, stripe,
                                            crypt, thin_in_order, raid0, raid1, raid5)}
