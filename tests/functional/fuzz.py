# SPDX-License-Identifier: GPL-2.0-only
"""Random ioctls, sysfs writes and parameters: each errno is one that is documented, an
error changes nothing, and the kernel has nothing to say but for one line.

RXD_FUZZ_SEED	repeat a run: its seed was printed
RXD_FUZZ_SECONDS	how long to go on
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import random
import struct
import time
import uuid

import pytest

from rxdlib import control as ctl
from rxdlib import direct, modules
from rxdlib.control import Control
from rxdlib.direct import BLOCK, KIB, MIB, Direct
from rxdlib.lab import LONG

SECONDS = int(os.environ.get("RXD_FUZZ_SECONDS", 60 if LONG else 8))
SEED = int(os.environ.get("RXD_FUZZ_SEED", random.SystemRandom().randrange(1 << 32)))

DEVICES = 4
BLKROSET = 0x125D
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
PARAMETERS = "/sys/module/rxd/parameters"

EVERYWHERE = {errno.EFAULT, errno.EPROTONOSUPPORT, errno.EINVAL}
DOCUMENTED = {
    "create": EVERYWHERE | {errno.EEXIST, errno.ERANGE, errno.EFBIG, errno.ENXIO, errno.ENOSPC,
                            errno.ENOMEM},
    "remove": EVERYWHERE | {errno.ENODEV, errno.EBUSY, errno.ESTALE},
    "resize": EVERYWHERE | {errno.ENODEV, errno.ERANGE, errno.EFBIG, errno.ENOSPC, errno.ENOMEM,
                            errno.EBUSY, errno.ENOTEMPTY},
    "clear": EVERYWHERE | {errno.ENODEV, errno.EROFS, errno.EBUSY, errno.ESTALE},
    "clone": EVERYWHERE | {errno.ENODEV, errno.EBUSY, errno.EOPNOTSUPP, errno.EEXIST,
                           errno.ERANGE, errno.ENOSPC, errno.ENOMEM, errno.EBADF},
    "reset": EVERYWHERE | {errno.ENODEV, errno.EBUSY, errno.EOPNOTSUPP, errno.EROFS,
                           errno.ERANGE, errno.ENOSPC, errno.ESTALE, errno.ENOMEM},
    "track": EVERYWHERE | {errno.ENODEV, errno.EBUSY, errno.EOPNOTSUPP, errno.ESTALE,
                           errno.ENOMEM},
    "query": EVERYWHERE | {errno.ENODEV},
    "count_shared": EVERYWHERE | {errno.ENODEV, errno.ESTALE},
    "map": EVERYWHERE | {errno.EBADF, errno.EBUSY, errno.ENOMEM},
    "changed": EVERYWHERE | {errno.EBADF, errno.EBUSY, errno.ENODATA, errno.ENOMEM},
    "unknown": {errno.ENOTTY},
    "attribute": {errno.EINVAL, errno.ERANGE, errno.EACCES},
    "parameter": {errno.EINVAL, errno.ERANGE, errno.EACCES},
    "load": {errno.EINVAL, errno.EFBIG, errno.ERANGE},
}

# These can be asked what they would do.
CHECKED = {"create", "remove", "resize", "clear", "clone", "reset", "track"}

TEXTS = ["", "\n", "0", "1", "-1", "4096", "4096\n", "4095", "8192x", " 4096", "+4096", "0x1000",
         "4K", "none", "1e6", "18446744073709551615", "18446744073709551616", "9" * 300, "A" * 4000,
         "%s%n", "\0", "4096\0x", "75", "100", "101", "local", "4294967297", "\xff\xfe"]
SIZES = ["4K", "8K", "1M", "0", "-1", "4097", "1T", "x", "", "64M", "0x1000", "4K ", "16E", "1Z",
         "99999999999999999999", "17179869185G", "A" * 200]
IDENTITIES = [uuid.UUID(int=number).bytes for number in range(4)]


def difference(before, after):
    """The differences of two snapshots, device by device."""
    if len(before["devices"]) != len(after["devices"]) or before["share"] != after["share"]:
        return f"{before} became {after}"
    return "; ".join(f"rxd{was['index']}: {key} {was[key]} became {now[key]}"
                     for was, now in zip(before["devices"], after["devices"], strict=True)
                     for key in was if was[key] != now[key])


def disk_sequence(index):
    with open(f"/sys/block/rxd{index}/diskseq", encoding="ascii") as file:
        return int(file.read())


class Fuzzer:
    """Steps of random kinds; each is judged by what it changed."""

    def __init__(self, chance, control, log):
        self.chance, self.control, self.log = chance, control, log
        self.held = []
        self.counts = {}
        self.did = ""
        self.most_lines = 0

    def snapshot(self):
        """The state that a refused request must not change."""
        with open(f"{PARAMETERS}/memory_share", encoding="ascii") as file:
            share = file.read()
        return {"devices": [vars(device) for device in self.control.query_all()], "share": share}

    def close(self):
        for fd in self.held:
            os.close(fd)
        self.held = []

    # Values: mostly valid ones, so that requests fail late.

    def odd(self, usual, *others, of=15):
        return self.chance.choice(others) if not self.chance.randrange(of) else usual

    def index(self):
        return self.odd(self.chance.randrange(DEVICES), -1, -2, ctl.INDEX_MAX, ctl.INDEX_MAX + 1,
                        -(1 << 31), (1 << 31) - 1, self.chance.randrange(-9, 99))

    def size(self, most=16 * MIB):
        return self.odd(BLOCK * self.chance.randrange(1, most // BLOCK), 0, 1, 511, 4095, 4097,
                        1 << 40, ctl.SIZE_MAX, ctl.SIZE_MAX + BLOCK, 1 << 63, U64, U64 - 4095,
                        self.chance.getrandbits(64))

    def flags(self, known):
        return self.odd(known & self.chance.getrandbits(3), known + 1, U32, 1 << 31,
                        self.chance.getrandbits(32))

    def dry_run(self):
        return self.chance.choice([0, 0, ctl.DRY_RUN])

    def header(self):
        return {"version": self.odd(ctl.ABI_VERSION, 0, 2, U32, of=40)}

    def trailer(self, count):
        reserved = [0] * count
        if not self.chance.randrange(30):
            reserved[self.chance.randrange(count)] = self.chance.choice([1, U64, 1 << 32])
        return {"reserved": tuple(reserved)}

    def padded(self, count):
        return {"pad": self.odd(0, 1, U32, of=40), **self.header(), **self.trailer(count)}

    # Steps: each returns how to call, or None if there is nothing to call.

    def create(self):
        flags = self.odd(self.flags(7), ctl.CREATE_ELASTIC) | self.dry_run()
        # Reserving memory is slow, so mostly reserve little of it.
        size = self.size(4 * MIB) if flags & ctl.CREATE_RESERVE else self.size()
        if flags & ctl.CREATE_RESERVE and size > 1 << 30 and self.chance.randrange(10):
            size = 64 * MIB
        return lambda values: self.control.create(**values), {
            "size": size, "index": self.odd(self.index(), -1, of=3), "flags": flags,
            "logical_block_size": self.odd(self.chance.choice([0, 512, 4096]), 1, 1024, 8192, U32),
            "mem_limit": self.odd(0, self.size(), self.size(), of=4),
            "folio_size": self.odd(self.chance.choice([0, 4096, 65536, 2 * MIB]), 1, 8192, U32,
                                   self.chance.getrandbits(32)),
            "node": self.odd(self.chance.choice([-1, -2, 0]), -3, 1, 63, 1023, 1 << 30,
                             -(1 << 31)),
            "uuid": self.odd(bytes(16), *IDENTITIES, self.chance.randbytes(16), of=3),
            **self.header(), **self.trailer(4)}

    def discarded(self):
        """Most calls with IF_SAME name a disk that exists, in a state that it may have."""
        same = self.chance.randrange(2) * ctl.IF_SAME
        diskseqs = [disk_sequence(device.index) for device in self.control.query_all()]
        return {"index": self.index(), "flags": self.odd(same, 2, U32) | self.dry_run(),
                "diskseq": self.odd(self.chance.choice(diskseqs or [0]), 1, U64),
                "changes": self.odd(self.chance.choice([0, 1, 2, ctl.CHANGES_ANY]) if same else 0,
                                    1 << 63, U64 - 1),
                "pad": self.odd(0, 1, U32, of=40), **self.header()}

    def remove(self):
        return lambda values: self.control.remove(**values), self.discarded()

    def clear(self):
        return lambda values: self.control.clear(**values), self.discarded()

    def state(self, wanted):
        """The name of a state, mostly one if it is wanted, and else none."""
        return self.odd(self.chance.choice(IDENTITIES[1:]) if wanted else bytes(16),
                        *IDENTITIES, of=20)

    def clone(self):
        track = self.chance.randrange(2) * ctl.CLONE_TRACK
        return lambda values: self.control.clone(**values), {
            "source": self.index(), "index": self.odd(self.index(), -1, of=3),
            "flags": self.odd(self.chance.choice([0, 1, ctl.CLONE_READ_ONLY, ctl.CLONE_NO_FREEZE,
                                                 ctl.CLONE_EXPENDABLE]) | track, 4, U32)
            | self.dry_run(),
            "state": self.state(track),
            "uuid": self.odd(bytes(16), *IDENTITIES, self.chance.randbytes(16), of=3),
            "fds": self.odd((), (0,), (-1,), (self.control.fd, 1), (2,) * 64, of=3),
            "nr_fds": self.odd(None, 0, 1, 65, U32, of=6),
            "address": self.odd(None, 0, 8, 1 << 63, of=6),
            "held_ns": self.odd(0, 1), "changes": self.odd(0, U32), **self.header()}

    def track(self):
        """The numbers of discarded() are those of any disk, but most disks have changed."""
        stop = self.chance.randrange(2) * ctl.TRACK_STOP
        values = self.discarded()
        values["flags"] |= stop
        return lambda values: self.control.track(**values), {
            **values, "state": self.state(not stop), **self.trailer(2)}

    def reset(self):
        """Most calls name two disks of one size, if there are such."""
        devices = self.control.query_all()
        pairs = [(one.index, other.index) for one in devices for other in devices
                 if one is not other and one.size == other.size]
        source, index = self.chance.choice(pairs or [(self.index(), self.index())])
        same = pairs and self.chance.randrange(2) * ctl.IF_SAME
        return lambda values: self.control.reset(**values), {
            "source": self.odd(source, self.index(), of=5),
            "index": self.odd(index, self.index(), of=5),
            "flags": self.odd(same or 0, 2, U32) | self.dry_run(),
            "diskseq": self.odd(disk_sequence(index) if same else 0, 1, U64),
            "changes": self.odd(ctl.CHANGES_ANY if same else 0, 1, 1 << 63),
            **self.header(), **self.trailer(2)}

    def resize(self):
        return lambda values: self.control.resize(**values), {
            "index": self.index(), "size": self.size(), "flags": self.flags(3) | self.dry_run(),
            **self.padded(2)}

    def query(self):
        return lambda values: self.control.query(**values), {
            "index": self.index(), "flags": self.odd(self.flags(1), ctl.DRY_RUN),
            **self.padded(4)}

    def count_shared(self):
        return lambda values: self.control.count_shared(**values), {
            "index": self.index(), "start": self.odd(0, self.size(), self.size(), of=2),
            "length": self.odd(self.size(), U64, ctl.SIZE_MAX), "diskseq": self.odd(0, 1, U64),
            "following": self.odd(0, 1, BLOCK), "shared": self.odd(0, BLOCK),
            "flags": self.odd(0, 1, ctl.DRY_RUN, U32), **self.padded(2)}

    def path(self):
        paths = sorted(glob.glob("/dev/rxd[0-9]*"))
        return self.chance.choice(paths) if paths else None

    def map(self):
        return self.walk(ctl.map_extents)

    def changed(self):
        return self.walk(ctl.changed_extents)

    def walk(self, function):
        path = self.path()
        if not path:
            return None

        def call(values):
            try:
                fd = os.open(path, values.pop("open"))
            except OSError:
                return
            try:
                function(fd, **values)
            except OSError as error:
                if "p" in path[len("/dev/rxd"):] and error.errno == errno.ENOTTY:
                    return
                raise
            finally:
                os.close(fd)
        return call, {
            "open": self.odd(os.O_RDONLY, os.O_RDWR, os.O_WRONLY, of=3) | os.O_NONBLOCK,
            "start": self.odd(0, self.size(), self.size(), of=2), "length": self.size(),
            "count": self.odd(self.chance.randrange(1, 200), 0, ctl.MAP_MAX, ctl.MAP_MAX + 1, U32),
            "flags": self.odd(0, 1, U32), "following": self.odd(0, 1, BLOCK, U64),
            **self.padded(2)}

    def unknown(self):
        """Numbers with the letter of rxd that are not ioctls, with any argument."""
        sizes = {1: 88, 2: 32, 3: 40, 4: 160, 5: 32, 6: 64, 7: 48, 8: 64, 9: 72, 16: 64, 17: 72,
                 18: 80}
        number, size = self.chance.randrange(32), self.chance.randrange(512)
        if sizes.get(number) == size:
            size += 1
        request = ctl.number(self.chance.randrange(4), number, size)
        path = self.odd(ctl.NODE, self.path() or ctl.NODE, of=2)

        def call(_values):
            fd = os.open(path, os.O_RDONLY)
            try:
                fcntl.ioctl(fd, request, bytearray(self.chance.randbytes(1024)), True)
            finally:
                os.close(fd)
        return call, {"request": hex(request), "path": path}

    def pointer(self):
        """A valid request with an invalid address."""
        name = self.chance.choice(["CREATE", "REMOVE", "RESIZE", "QUERY", "CLEAR", "CLONE",
                                   "RESET", "TRACK", "COUNT_SHARED"])
        address = self.chance.choice([0, 1, 4095, 0x7ffffffff000, 1 << 47, 1 << 63, U64])

        def call(_values):
            if direct.libc.ioctl(self.control.fd, ctypes.c_ulong(getattr(ctl, name)),
                                 ctypes.c_void_p(address)):
                raise OSError(ctypes.get_errno(), name)
        return call, {"name": name, "address": address}

    def attribute(self):
        path = self.path()
        files = sorted(glob.glob(f"/sys/block/{os.path.basename(path)}/rxd/*")) if path else []
        if not files:
            return None
        target = self.odd(os.path.join(os.path.dirname(files[0]), "mem_limit"), *files, of=4)
        return self.write_file, {"path": target, "text": self.text()}

    def parameter(self):
        path = f"{PARAMETERS}/{self.odd('memory_share', 'sizes')}"
        return self.write_file, {"path": path, "text": self.text()}

    def text(self):
        return self.odd(self.chance.choice(TEXTS),
                        self.chance.randbytes(self.chance.randrange(60)).decode("latin-1"), of=4)

    @staticmethod
    def write_file(values):
        fd = os.open(values["path"], os.O_WRONLY)
        try:
            if values["text"]:
                os.write(fd, values["text"].encode("latin-1"))
        finally:
            os.close(fd)

    def load(self):
        """Load the module with disks of random sizes, if it can be unloaded."""
        if self.held or self.control.query_all():
            return None
        sizes = ",".join(self.chance.choice(SIZES)
                         for _ in range(self.chance.choice([1, 1, 2, 3, 33])))

        def call(_values):
            share = self.snapshot()["share"].strip()
            os.close(self.control.fd)
            modules.delete(modules.RXD)
            try:
                modules.insert(modules.RXD, f'sizes="{sizes}" memory_share={share}')
            except OSError:
                assert modules.RXD not in modules.loaded()
                assert not glob.glob("/dev/rxd*")
                modules.insert(modules.RXD, f"memory_share={share}")
                raise
            finally:
                self.control.fd = os.open(ctl.NODE, os.O_RDWR | os.O_CLOEXEC)
        return call, {"sizes": sizes}

    def use(self):
        """Make the disks differ: data, openers, partitions, the read-only switch."""
        path = self.path()
        if not path:
            return None
        kind = self.chance.randrange(6)

        def call(_values):
            with contextlib.suppress(OSError, EOFError):
                if kind == 0 and len(self.held) < 2:
                    self.held.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                elif kind == 1:
                    self.close()
                else:
                    with Direct(path) as device:
                        offset = self.chance.randrange(max(1, device.size() // BLOCK)) * BLOCK
                        if kind == 2:
                            device.discard(0, offset + BLOCK)
                        elif kind == 3:
                            flag = self.chance.choice([0, 0, 0, 1])
                            fcntl.ioctl(device.fd, BLKROSET, struct.pack("=i", flag))
                        elif kind == 4:
                            device.partition_table(self.chance.choice([1, 2]), 1, 0, BLOCK)
                        else:
                            device.write(offset, self.chance.randbytes(64 * KIB))
        return call, {"path": path, "kind": kind}

    def step(self):
        kinds = [self.create, self.create, self.create, self.remove, self.remove, self.resize,
                 self.resize, self.clear, self.clone, self.clone, self.reset, self.track,
                 self.track, self.query, self.count_shared, self.map, self.map, self.changed,
                 self.unknown, self.pointer, self.attribute, self.attribute, self.parameter,
                 self.use, self.use, self.use, self.load]
        made = self.chance.choice(kinds)
        found = made()
        if not found:
            return
        call, values = found
        name = made.__name__
        self.did = f"{name} {values}"[:1000]
        before = self.snapshot()
        self.log.rewind()
        dry = name in CHECKED and values["flags"] & ctl.DRY_RUN
        try:
            call(dict(values))
            result = "done"
            if dry:
                after = self.snapshot()
                assert after == before, f"a dry run, and yet: {difference(before, after)}"
        except OSError as error:
            result = errno.errorcode[error.errno]
            allowed = {errno.EFAULT} if name == "pointer" else DOCUMENTED[name]
            assert error.errno in allowed, f"{result} is not documented"
            after = self.snapshot()
            assert after == before, f"{result}, and yet a change: {difference(before, after)}"
            said = [line for line in self.log.lines() if "rxd" in line]
            assert len(said) <= (name == "load"), said
        self.counts[name, result] = self.counts.get((name, result), 0) + 1
        if dry:
            self.repeat(name, call, values, result)
        self.judge()

    def repeat(self, name, call, values, result):
        """Without the flag, the driver must return the same, unless memory is short."""
        values = {**values, "flags": values["flags"] & ~ctl.DRY_RUN}
        try:
            call(values)
            now = "done"
        except OSError as error:
            now = errno.errorcode[error.errno]
        if {result, now} & {"ENOMEM", "ENOSPC"}:
            return
        assert now == result, f"the dry run of {name} said {result}, and the driver {now}"

    def judge(self):
        """Check what must hold after each step."""
        trouble = self.log.trouble()
        assert not trouble, trouble
        devices = self.control.query_all()
        assert len({device.uuid for device in devices}) == len(devices)
        for device in devices:
            assert device.size % BLOCK == device.mem_limit % BLOCK == 0 < device.size
            assert device.mem_used <= device.mem_max_used and device.mem_used <= device.size
            assert device.reserved1 == 0
            if not device.state & ctl.STATE_CACHE:
                counts = not device.state & (ctl.STATE_OVERCOMMIT | ctl.STATE_ELASTIC)
                assert device.promised == (device.size if counts else 0)
            if device.state & ctl.STATE_RESERVED:
                assert device.mem_used == device.size
            with open(f"/sys/block/rxd{device.index}/size", encoding="ascii") as file:
                assert int(file.read()) * 512 == device.size

    def tidy(self):
        self.close()
        for device in self.control.query_all():
            with contextlib.suppress(OSError):
                self.control.remove(device.index)


@pytest.fixture
def rxd_alone():
    """Without the target, rxd can be unloaded and loaded at any time."""
    modules.delete(modules.RXCACHE)
    yield
    with open(f"{PARAMETERS}/memory_share", "w", encoding="ascii") as file:
        file.write("75")
    modules.load()


def test_fuzz(rxd_alone, kernel_log, capsys):
    with capsys.disabled():
        print(f"[seed {SEED}] ", end="", flush=True)
    with Control() as control:
        fuzzer = Fuzzer(random.Random(SEED), control, kernel_log)
        end = time.monotonic() + SECONDS
        steps = 0
        try:
            while time.monotonic() < end:
                steps += 1
                # Sometimes start from the beginning, so that the module can be loaded again.
                if steps % 200 == 0:
                    fuzzer.tidy()
                fuzzer.step()
        except BaseException:
            print(f"seed {SEED}, step {steps}: {fuzzer.did}")
            raise
        finally:
            fuzzer.tidy()
    results = {name: {result for other, result in fuzzer.counts if other == name}
               for name, _ in fuzzer.counts}
    with capsys.disabled():
        print(f"[{steps} steps] ", end="", flush=True)
    # A fuzzer whose requests never succeed finds nothing.
    for name in "create", "remove", "resize", "clone", "reset", "map":
        assert "done" in results[name] and len(results[name]) > 1, results
    assert results["pointer"] == {"EFAULT"} and results["unknown"] == {"ENOTTY"}
