# SPDX-License-Identifier: GPL-2.0-only
"""rxadm save and load: images are exact, complete or refused."""

import contextlib
import json
import os
import random
import re
import signal
import stat
import subprocess
import time

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, as_nobody, program, run, rxadm
from rxdlib.control import (CREATE_DETECT_ZEROES, CREATE_OVERCOMMIT, CREATE_RESERVE, STATE_OPEN,
                            Control)
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp
from rxdlib.lab import LONG, RamDisk, state
from rxdlib.moments import Moments, rounds
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long, sampled
from rxdlib.traced import status

pytestmark = pytest.mark.one_kernel

PARAMETERS, PERMISSION, MEMORY, DEVICE, BUSY = 1, 2, 3, 4, 5
FRAME = 4 * MIB     # the most data in a frame
KILLS = 30 if LONG else 6
FILE_OF_A_KERNEL = "/proc/kallsyms"     # text of some MiB, to be compressed slowly


def wrong(path, *names, into=None):
    """An image is refused with these words, and no RAM disk is left."""
    with Control() as control:
        before = control.query_all()
        result = rxadm("load", path, *(["--into", into] if into else []))
        assert result.returncode == PARAMETERS and result.stdout == "", result
        assert result.stderr.startswith(f"rxadm: load: image '{path}': is ")
        assert result.stderr.count("\n") == 1
        for name in names:
            assert name in result.stderr
        assert control.query_all() == before


def noise(length, seed=1):
    return random.Random(seed).randbytes(length)


def content(device):
    with open(device, "rb") as file:
        return file.read()


def fill(device, pieces):
    with Direct(device) as disk:
        for offset, data in pieces:
            disk.write(offset, data)


def file_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)


def load(lab, *args):
    """Load into a new disk; returns it."""
    made = ok("load", *args).split()[-1]
    assert made.startswith("/dev/rxd")
    return lab.adopt_ramdisk(int(made[len("/dev/rxd"):]))


SHAPES = {
    "empty": (4 * MIB, []),
    "page": (BLOCK, [(0, noise(BLOCK))]),
    "ends": (16 * MIB, [(0, noise(BLOCK)), (16 * MIB - BLOCK, noise(BLOCK, 2))]),
    "full": (5 * MIB, [(0, noise(5 * MIB))]),
    "holes": (12 * MIB, [(MIB, noise(5 * MIB)), (8 * MIB, stamp(1, 64 * KIB)),
                         (10 * MIB, noise(MIB + BLOCK))]),
    "pages": (4 * MIB, [(at, stamp(at // BLOCK)) for at in range(0, 4 * MIB, 2 * BLOCK)]),
    "zeros": (10 * MIB, [(0, bytes(5 * MIB)), (5 * MIB, noise(BLOCK)),
                         (6 * MIB, b"".join((stamp(n) if n % 3 else bytes(BLOCK))
                                            for n in range(1024)))]),
}


@pytest.mark.parametrize("shape, compress", [
    *((shape, ()) for shape in SHAPES),
    *sampled([(shape, ("--compress", "zstd")) for shape in SHAPES])], ids=str)
def test_round_trip(lab, path, shape, compress):
    size, pieces = SHAPES[shape]
    ramdisk = lab.ramdisk(size)
    fill(ramdisk.path, pieces)
    before = content(ramdisk.path)
    uuid = ramdisk.query().uuid
    assert ok("save", ramdisk.path, path, *compress) == ""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    data = sum(before[at:at + BLOCK] != bytes(BLOCK) for at in range(0, size, BLOCK)) * BLOCK
    frames = data // FRAME + data // BLOCK // 250 + 1
    assert os.path.getsize(path) <= data + (frames + 2) * BLOCK
    assert content(ramdisk.path) == before
    ramdisk.remove()

    copy = load(lab, path)
    assert (copy.query().uuid, copy.query().size) == (uuid, size)
    assert content(copy.path) == before
    assert copy.query().mem_used == data
    copy.remove()
    other = lab.ramdisk(size + MIB)
    assert ok("load", path, "--into", other.path) == ""
    assert content(other.path) == before + bytes(MIB)
    assert other.query().uuid != uuid


def test_compressed_is_smaller(lab, path):
    ramdisk = lab.ramdisk(4 * MIB)
    fill(ramdisk.path, [(0, file_bytes(FILE_OF_A_KERNEL)[:MIB])])
    ok("save", ramdisk.path, path)
    raw = os.path.getsize(path)
    ok("save", ramdisk.path, path, "--compress", "zstd")
    fast = os.path.getsize(path)
    ok("save", ramdisk.path, path, "--compress", "zstd:12")
    assert os.path.getsize(path) < fast < raw / 2
    before = content(ramdisk.path)
    ramdisk.remove()
    assert content(load(lab, path).path) == before


@pytest.mark.parametrize("options", [
    {"logical_block_size": 4096}, {"folio_size": 65536}, {"mem_limit": 3 * MIB},
    {"flags": CREATE_DETECT_ZEROES}, {"flags": CREATE_RESERVE}], ids=str)
def test_properties(lab, path, options):
    ramdisk = lab.ramdisk(8 * MIB, **options)
    fill(ramdisk.path, [(MIB, noise(MIB))])
    was = ramdisk.query()
    ok("save", ramdisk.path, path)
    assert os.path.getsize(path) < MIB + 4 * BLOCK
    ramdisk.remove()
    now = load(lab, path, "--index", was.index).query()
    for name in "logical_block_size", "folio_size", "mem_limit", "state", "uuid", "mem_used":
        assert getattr(now, name) == getattr(was, name), name


def test_identity(lab, path):
    """Two disks cannot have one UUID; an option sets another."""
    ramdisk = lab.ramdisk(MIB)
    ok("save", ramdisk.path, path)
    for options in (), ("--index", "77"):
        refused(BUSY, "load", path, *options,
                names=(f"UUID '{ramdisk.query().uuid}' of the image: another RAM disk has it",
                       "--uuid random gives the new disk another one"))
    refused(BUSY, "load", path, "--uuid", ramdisk.query().uuid,
            names=(ramdisk.query().uuid, "another RAM disk has it", "'rxadm list -o +UUID'"))
    refused(BUSY, "load", path, "--uuid", "random", "--index", ramdisk.index,
            names=(ramdisk.path, "exists"))
    assert load(lab, path, "--uuid", "random", "--index", "77").index == 77
    wanted = "12345678-1234-4321-abcd-0123456789ab"
    assert load(lab, path, "--uuid", wanted).query().uuid == wanted


def test_share_of_memory(lab, path):
    ramdisk = lab.ramdisk(1 << 40, flags=CREATE_OVERCOMMIT)
    fill(ramdisk.path, [((1 << 39) + BLOCK, stamp(1))])
    ok("save", ramdisk.path, path)
    ramdisk.remove()
    refused(PARAMETERS, "load", path, names=("1T", "--overcommit"))
    copy = load(lab, path, "--overcommit")
    assert direct.read(copy.path, (1 << 39) + BLOCK, BLOCK) == stamp(1)
    assert copy.query().mem_used == BLOCK


def test_file_system(lab, path):
    ramdisk = lab.ramdisk(32 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    write_file(os.path.join(directory, "file"), noise(MIB))
    ok("save", ramdisk.path, path)
    run("umount", directory)
    ok("save", ramdisk.path, path, "--compress", "zstd")
    ramdisk.remove()
    copy = load(lab, path)
    assert run("e2fsck", "-fn", copy.path, check=False).returncode == 0
    directory = lab.mount(copy.path)
    assert file_bytes(os.path.join(directory, "file")) == noise(MIB)


# Damage


def damaged_image(lab, path, *compress):
    """Return an image of several frames, and the offsets of its blocks."""
    ramdisk = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(0, file_bytes(FILE_OF_A_KERNEL)[:MIB]), (2 * MIB, noise(64 * KIB)),
                        *((4 * MIB + at * 2 * BLOCK, stamp(at)) for at in range(300))])
    ok("save", ramdisk.path, path, *compress)
    ramdisk.remove()
    image = file_bytes(path)
    blocks = [at for at in range(0, len(image), BLOCK)
              if image[at:at + 8] in (b"RXDIMAGE", b"RXDFRAME", b"RXDIMEND")]
    assert len(blocks) >= 4 and blocks[0] == 0 and blocks[-1] == len(image) - BLOCK
    return image, blocks


@pytest.mark.parametrize("compress", [(), ("--compress", "zstd")], ids=("raw", "zstd"))
def test_flipped_bits(lab, path, compress):
    """In each field of each block, and in the data."""
    image, blocks = damaged_image(lab, path, *compress)
    chance = random.Random(5)
    places = [(at + offset) for at in {blocks[0], blocks[1], blocks[-2], blocks[-1]}
              for offset in (0, 8, 16, 24, 40, 48, 2000, 4095)]
    places += [chance.randrange(BLOCK, len(image)) for _ in range(8)]
    places += [at - 1 for at in blocks[2:]]     # padding, or the end of the data
    for place in places:
        flipped = bytearray(image)
        flipped[place] ^= 1 << chance.randrange(8)
        write_file(path, flipped)
        wrong(path, "byte" if place >= 8 else "does not begin with")


def test_truncated(lab, path):
    """At each boundary, and beside it."""
    image, blocks = damaged_image(lab, path)
    other = lab.ramdisk(16 * MIB)
    lengths = {cut for at in [*blocks, *(at + BLOCK for at in blocks[:-1])]
               for cut in (at - 1, at, at + 1) if 0 <= cut < len(image)}
    for length in sorted(lengths):
        write_file(path, image[:length])
        wrong(path, f"byte {length}" if length >= 8 else "begin" if length else "is empty")
    write_file(path, image[:-1])
    wrong(path, "truncated", into=other.path)


def test_frames_of_another_order_or_image(lab, path):
    image, blocks = damaged_image(lab, path)
    ends = [*blocks[1:], len(image)]
    parts = [image[begin:end] for begin, end in zip(blocks, ends)]
    other = lab.ramdisk(16 * MIB)
    stranger = os.path.join(os.path.dirname(path), "stranger")
    fill(other.path, [(0, noise(BLOCK))])
    ok("save", other.path, stranger)
    foreign = file_bytes(stranger)[BLOCK:3 * BLOCK]
    other.clear()
    for pieces, word in [([parts[0], parts[2], parts[1], *parts[3:]], "its number is out of order"),
                         ([parts[0], parts[1], parts[1], *parts[2:]], "its number is out of order"),
                         ([parts[0], *parts[2:]], "its number is out of order"),
                         ([*parts[:-2], parts[-1]], "do not match the frames"),
                         ([parts[0], foreign, *parts[1:]], "another image"),
                         ([*parts[:-1], file_bytes(stranger)[-BLOCK:]], "another image"),
                         ([*parts, b"x"], "data follows"),
                         ([*parts, parts[-1]], "data follows")]:
        write_file(path, b"".join(pieces))
        wrong(path, word)
        wrong(path, word, into=other.path)


@pytest.mark.parametrize("data", [b"", b"x", b"RXDIMAG", bytes(MIB), b"rxcache-hotlist 1\n" * 999,
                                  noise(3 * BLOCK)], ids=len)
def test_foreign_files(path, data):
    write_file(path, data)
    wrong(path, "is not an image of a RAM disk" if data else "is empty")


# Refusals


def test_users(lab, path):
    """A disk in use is saved, unless it is a cache, but nothing is loaded into it."""
    ramdisk = lab.ramdisk(MIB)
    ok("save", ramdisk.path, path)
    with Direct(ramdisk.path, os.O_RDONLY):
        ok("save", ramdisk.path, path + "2")
        refused(BUSY, "load", path, "--into", ramdisk.path, names=(ramdisk.path, "open"))
    cache = lab.cache(MIB)
    refused(BUSY, "save", cache.ramdisk.path, path + "3", names=(cache.ramdisk.path, "cache"))
    refused(BUSY, "load", path, "--into", cache.ramdisk.path, names=("unmap",))
    assert sorted(os.listdir(os.path.dirname(path))) == ["image", "image2"]


def test_into_what_does_not_fit(lab, path):
    ramdisk = lab.ramdisk(4 * MIB)
    fill(ramdisk.path, [(0, noise(3 * MIB))])
    ok("save", ramdisk.path, path)
    refused(BUSY, "load", path, "--into", ramdisk.path, names=("holds data", "rxadm clear"))
    small = lab.ramdisk(3 * MIB)
    refused(PARAMETERS, "load", path, "--into", small.path, names=("3M", "4M", "rxadm resize"))
    blocks = lab.ramdisk(4 * MIB, logical_block_size=4096)
    refused(PARAMETERS, "load", path, "--into", blocks.path, names=("4096", "512"))
    reserved = lab.ramdisk(4 * MIB, flags=CREATE_RESERVE)
    ok("load", path, "--into", reserved.path)
    assert content(reserved.path) == content(ramdisk.path)
    refused(BUSY, "load", path, "--into", reserved.path, names=("holds data",))


def test_reserved_with_a_lower_limit(lab, path):
    """sysfs accepts such a limit, but no disk can be created with it."""
    ramdisk = lab.ramdisk(4 * MIB, flags=CREATE_RESERVE)
    data = noise(4 * MIB)
    fill(ramdisk.path, [(0, data)])
    with open(f"/sys/block/rxd{ramdisk.index}/rxd/mem_limit", "w", encoding="ascii") as file:
        file.write(str(MIB))
    ok("save", ramdisk.path, path)
    ok("remove", ramdisk.path)
    assert ok("load", path) == f"{ramdisk.path}\n"
    assert content(ramdisk.path) == data
    assert ramdisk.query().mem_limit == 4 * MIB


def test_too_little_memory(lab, path):
    """A disk that does not fit is removed again."""
    ramdisk = lab.ramdisk(8 * MIB)
    fill(ramdisk.path, [(0, noise(8 * MIB))])
    ok("save", ramdisk.path, path)
    limited = lab.ramdisk(8 * MIB, mem_limit=6 * MIB)
    result = rxadm("load", path, "--into", limited.path)
    assert result.returncode == MEMORY and "No space left" in result.stderr
    assert content(limited.path) == bytes(8 * MIB)
    assert limited.query().mem_used == 0


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_full_file_system(lab, kind):
    """The old image stays, and no other file is left."""
    if kind == "tmpfs":
        directory = lab.mount("rxdtest-tmpfs", "-t", "tmpfs", "-o", "size=2m")
    else:
        loop = lab.loop(4 * MIB)
        run("mkfs.ext4", "-q", "-O", "^has_journal", loop)
        directory = lab.mount(loop)
    ramdisk = lab.ramdisk(8 * MIB)
    path = os.path.join(directory, "image")
    fill(ramdisk.path, [(0, noise(64 * KIB))])
    ok("save", ramdisk.path, path)
    before = file_bytes(path)
    fill(ramdisk.path, [(0, noise(8 * MIB))])
    refused(DEVICE, "save", ramdisk.path, path, names=(f"'{path}'", "No space left"))
    assert file_bytes(path) == before
    assert set(os.listdir(directory)) - {"lost+found"} == {"image"}


def test_names(lab, folder):
    ramdisk = lab.ramdisk(MIB)
    refused(PARAMETERS, "save", ramdisk.path, folder, names=(folder, "directory"))
    refused(PARAMETERS, "save", ramdisk.path, "/dev/null", names=("/dev/null", "regular"))
    refused(DEVICE, "save", ramdisk.path, "/nothing/image", names=("'/nothing/image'",))
    refused(DEVICE, "save", ramdisk.path, "", names=("''",))
    refused(DEVICE, "load", f"{folder}/missing", names=("missing", "No such file"))
    refused(PARAMETERS, "load", folder, names=(folder,))
    refused(DEVICE, "save", "/dev/vdb", f"{folder}/image", names=("not an rxd RAM disk",))
    refused(DEVICE, "save", "rxd4711", f"{folder}/image", names=("rxd4711",))
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    refused(PARAMETERS, "load", pipe, names=("regular",))
    refused(PARAMETERS, "save", ramdisk.path, pipe, names=("regular",))
    os.symlink("target", os.path.join(folder, "link"))
    write_file(os.path.join(folder, "target"), b"old")
    ok("save", ramdisk.path, os.path.join(folder, "link"))
    assert os.path.islink(os.path.join(folder, "link"))
    assert file_bytes(os.path.join(folder, "target"))[:8] == b"RXDIMAGE"


@pytest.mark.parametrize("args, names", sampled([
    (("save",), ("DEVICE FILE",)), (("save", "rxd0"), ("DEVICE FILE",)),
    (("save", "rxd0", "a", "b"), ("'b'",)), (("save", "rxd0", "a", "--compress"), ("value",)),
    (("save", "rxd0", "a", "--compress", "gzip"), ("'gzip'", "LEVEL from 1 to 22")),
    (("save", "rxd0", "a", "--compress", "zstd:"), ("''", "number")),
    (("save", "rxd0", "a", "--compress", "zstd:0"), ("'0'", "1 to")),
    (("save", "rxd0", "a", "--compress", "zstd:99"), ("'99'",)),
    (("save", "rxd0", "a", "--compress", "zst"), ("'zst'",)),
    (("save", "rxd0", "a", "--progress", "often"), ("'often'", "json")),
    (("save", "rxd0", "a", "--nonsense"), ("--nonsense",)),
    (("load",), ("FILE",)), (("load", "a", "b"), ("'b'",)),
    (("load", "a", "--index", "x"), ("'x'",)), (("load", "a", "--node", "x"), ("'x'",)),
    (("load", "a", "--uuid", "x"), ("'x'",)), (("load", "a", "--into"), ("value",)),
    (("load", "a", "--progress", ""), ("''",)),
    (("load", "a", "--into", "rxd0", "--index", "1"), ("--into", "--index")),
    (("load", "a", "--into", "rxd0", "--overcommit"), ("--into", "--overcommit"))], every=2),
                         ids=str)
def test_wrong_arguments(args, names):
    refused(PARAMETERS, *args, names=names)


def test_needs_privilege(lab, path):
    ramdisk = lab.ramdisk(MIB)
    ok("save", ramdisk.path, path)

    def nobody(*args):
        return as_nobody(program("rxadm"), *args, check=False)

    refused(PERMISSION, "save", ramdisk.path, path, names=("CAP_SYS_ADMIN",), runner=nobody)
    refused(PERMISSION, "load", path, names=("CAP_SYS_ADMIN",), runner=nobody)


# Progress


def records(output):
    found = []
    for line in output.splitlines():
        if line.startswith("{"):
            record = json.loads(line)
            assert list(record) == ["r", "v", "t", "total", "copied", "write_skipped",
                                    "read_skipped"]
            assert (record["r"], record["v"]) == ("data", 1)
            found.append({name: int(value) for name, value in record.items() if name != "r"})
    return found


def test_records(lab, path):
    size = 64 * MIB
    ramdisk = lab.ramdisk(size)
    fill(ramdisk.path, [(0, bytes(2 * MIB)), (20 * MIB, noise(24 * MIB))])
    last = records(ok("save", ramdisk.path, path, "--progress=json", "--compress=zstd:12"))
    assert len(last) > 1
    for one, two in zip(last, last[1:]):
        assert all(one[name] <= two[name] for name in one)
    assert {name: last[-1][name] for name in ("total", "copied", "write_skipped",
                                              "read_skipped")} == \
        {"total": size, "copied": 24 * MIB, "write_skipped": 40 * MIB, "read_skipped": 38 * MIB}
    ramdisk.remove()
    output = ok("load", path, "--progress", "json")
    lab.adopt_ramdisk(0)
    last = records(output)[-1]
    assert last["copied"] + last["write_skipped"] == last["total"] == size
    assert output.splitlines()[-1] == "/dev/rxd0"
    assert ok("save", "rxd0", path, "--progress", "none") == ""
    result = rxadm("save", "rxd0", path, "--progress", "bar", "--compress=zstd:12")
    assert result.returncode == 0 and "save " in result.stderr and "%" in result.stderr


# Interrupted


@contextlib.contextmanager
def running(*args):
    with subprocess.Popen([program("rxadm"), *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
        yield process
        if process.poll() is None:
            process.kill()


def interrupted(sig, moments, *args):
    """Run rxadm and send it a signal at some moment; return its exit code."""
    with running(*args) as process:
        moments.interrupt(process, sig)
        process.communicate()
        return process.returncode


def how_long(*args):
    begin = time.monotonic()
    ok(*args)
    return time.monotonic() - begin


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL], ids=lambda sig: sig.name)
def test_save_interrupted(lab, path, sig):
    """The old image or the new one is there; with Ctrl-C, the exit code says which."""
    ramdisk = lab.ramdisk(32 * MIB)
    switch = f"/sys/block/{ramdisk.name}/queue/iostats"
    with open(switch, "w", encoding="ascii") as file:
        file.write("0")
    ok("save", ramdisk.path, path)
    old, new = bytes(32 * MIB), noise(20 * MIB) + bytes(12 * MIB)
    empty = file_bytes(path)
    fill(ramdisk.path, [(0, new[:20 * MIB])])
    moments = Moments(sig, how_long("save", ramdisk.path, path + "2"))
    os.unlink(path + "2")
    found = {True: 0, False: 0}
    for _ in rounds(KILLS, lambda: found[False]):
        write_file(path, empty)
        code = interrupted(sig, moments, "save", ramdisk.path, path)
        assert code in (0, -sig)
        assert os.listdir(os.path.dirname(path)) == ["image"]
        assert file_bytes(switch) == b"0\n"
        is_new = file_bytes(path) != empty
        assert is_new or code != 0
        found[is_new] += 1
        copy = load(lab, path, "--uuid", "random")
        assert content(copy.path) == (new if is_new else old)
        copy.remove()
    assert found[False]


def wait_for_guards():
    """After a kill, a guard may still create its disk, and removes it."""
    end = time.monotonic() + 60
    while True:
        found = run("pgrep", "--exact", "rxadm", "--runstates", "DRST", check=False)
        if found.returncode == 1:
            return
        assert not found.returncode and time.monotonic() < end, found
        time.sleep(0.02)


def wait_for_none(keep=()):
    wait_for_guards()
    assert [disk["index"] for disk in state()["ramdisks"]] == list(keep)


def load_was_undone(sig, code):
    """Only a kill may keep the disk and not say so. Return whether there is no disk."""
    wait_for_guards()
    disks = state()["ramdisks"]
    if sig != signal.SIGKILL or not disks:
        assert (code, len(disks)) in ((0, 1), (-sig, 0))
    return not disks


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL], ids=lambda sig: sig.name)
def test_load_interrupted(lab, path, sig):
    """The whole disk is there, or none."""
    ramdisk = lab.ramdisk(32 * MIB)
    data = noise(24 * MIB)
    fill(ramdisk.path, [(0, data)])
    ok("save", ramdisk.path, path)
    ramdisk.remove()
    begin = time.monotonic()
    load(lab, path).remove()
    moments = Moments(sig, time.monotonic() - begin)
    undone = 0
    for _ in rounds(KILLS, lambda: undone):
        code = interrupted(sig, moments, "load", path)
        if load_was_undone(sig, code):
            undone += 1
            continue
        copy = RamDisk(0)
        assert content(copy.path) == data + bytes(8 * MIB)
        copy.remove()
    assert undone


def test_load_into_interrupted(lab, path):
    """The disk is empty again, or complete."""
    size, data = 24 * MIB, noise(18 * MIB)
    ramdisk = lab.ramdisk(size)
    fill(ramdisk.path, [(0, data)])
    ok("save", ramdisk.path, path)
    ramdisk.clear()
    moments = Moments(7, how_long("load", path, "--into", ramdisk.path))
    for _ in range(KILLS):
        ramdisk.clear()
        interrupted(signal.SIGKILL, moments, "load", path, "--into", ramdisk.path)
        # Until then, no other process can have it.
        end = time.monotonic() + 60
        while ramdisk.query().state & STATE_OPEN:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert content(ramdisk.path) in (bytes(size), data + bytes(size - len(data)))


class HalfLoaded:
    """A load from a pipe that ends half-way through the image."""

    def __init__(self, image, *options):
        with open(image, "rb") as file:
            self.image = file.read()
        self.command = [program("rxadm"), "load", "-", *options]
        self.process = self.disk = None

    def __enter__(self):
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
        self.process.stdin.write(self.image[:len(self.image) // 2])
        self.process.stdin.flush()
        end, used = time.monotonic() + 60, 0
        while used < MIB or used != self.used():
            assert self.process.poll() is None and time.monotonic() < end
            used = self.used()
            time.sleep(0.5)
        return self

    def used(self):
        """Find the disk, and how much is loaded."""
        with Control() as control:
            for disk in control.query_all():
                self.disk = RamDisk(disk.index)
                return disk.mem_used
        return 0

    def write_rest(self):
        self.process.stdin.write(self.image[len(self.image) // 2:])
        self.process.stdin.close()

    def go_on(self):
        self.write_rest()
        self.process.wait(60)
        assert self.process.returncode == 0

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.mark.parametrize("into", [False, True])
def test_signal_after_the_load(lab, path, into):
    """A load whose data is kept succeeds, and prints the path of a new disk."""
    ramdisk = lab.ramdisk(24 * MIB)
    data = noise(16 * MIB) + bytes(8 * MIB)
    fill(ramdisk.path, [(0, data)])
    ok("save", ramdisk.path, path)
    if into:
        ramdisk.clear()
    else:
        ramdisk.remove()
    with HalfLoaded(path, *(("--into", ramdisk.path) if into else ())) as half:
        process = half.process
        guard = int(run("pgrep", "--parent", str(process.pid)).stdout)
        os.kill(guard, signal.SIGSTOP)
        try:
            half.write_rest()
            end = time.monotonic() + 60
            while file_bytes(f"/proc/{process.pid}/wchan") != b"do_wait":
                assert time.monotonic() < end
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
        finally:
            os.kill(guard, signal.SIGCONT)
        assert process.wait(60) == 0
        assert process.stdout.read() == (b"" if into else b"/dev/rxd0\n")
    copy = ramdisk if into else lab.adopt_ramdisk(0)
    assert content(copy.path) == data


@pytest.mark.one_kernel
@pytest.mark.parametrize("into, update", [
    (False, ("--update",)), (True, ()), *long([(False, ()), (True, ("--update",))])], ids=str)
def test_saved_while_loaded(lab, path, into, update):
    """The image of half of the data never replaces the one that is being loaded."""
    ramdisk = lab.ramdisk(24 * MIB)
    fill(ramdisk.path, [(0, noise(16 * MIB))])
    ok("save", ramdisk.path, path)
    before = content(path)
    options = ("--into", ramdisk.path) if into else ()
    for _ in range(2):
        uuid = ramdisk.query().uuid
        if into:
            ramdisk.clear()
        else:
            ramdisk.remove()
        with HalfLoaded(path, *options) as half:
            refused(BUSY, "save", half.disk.path, path, *update, names="being loaded")
            assert content(path) == before
        # It was killed, which leaves no trace.
        wait_for_none([ramdisk.index] if into else [])
        end = time.monotonic() + 60
        while os.path.exists(f"/run/rxadm/unfinished-{uuid}"):
            assert time.monotonic() < end
            time.sleep(0.05)
        with HalfLoaded(path, *options) as half:
            half.go_on()
        ramdisk = lab.adopt_ramdisk(half.disk.index)
        ok("save", ramdisk.path, path)
        before = content(path)


@pytest.mark.one_kernel
def test_load_of_a_disk_that_exists(lab, tmp_path, path):
    """It is not marked as unfinished, not even for a moment: a stop would save it elsewhere."""
    ramdisk = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(0, noise(MIB))])
    ok("save", ramdisk.path, path)
    log = tmp_path / "log"
    sanitize = f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"
    result = run("strace", "-f", "-o", log, "-e", "trace=openat", program("rxadm"), "load", path,
                 environment={**ENVIRONMENT, "ASAN_OPTIONS": sanitize}, check=False)
    assert result.returncode == BUSY and "openat" in log.read_text()
    assert "unfinished" not in log.read_text()


@pytest.mark.one_kernel
def test_left_unfinished(lab, path):
    """If load and the process that undoes its work were killed, the disk can be used again."""
    ramdisk = lab.ramdisk(16 * MIB)
    source = lab.ramdisk(16 * MIB)
    fill(ramdisk.path, [(0, noise(MIB))])
    mark = f"/run/rxadm/unfinished-{ramdisk.query().uuid}"
    for again in ("clear", ramdisk.path), ("reset", ramdisk.path, "--to", source.path):
        write_file(mark, b"")
        refused(BUSY, "save", ramdisk.path, path, names=("not loaded completely", "rxadm clear"))
        raw = subprocess.run([program("rxadm"), "save", ramdisk.path, "-", "--format", "raw"],
                             env=ENVIRONMENT, stdout=subprocess.PIPE, check=True)
        assert raw.stdout == content(ramdisk.path)
        ok(*again, "--force")
        assert not os.path.exists(mark)
        fill(ramdisk.path, [(0, noise(MIB))])
        ok("save", ramdisk.path, path)


def read_by(process):
    """The number of bytes that a process has read."""
    with open(f"/proc/{process.pid}/io", encoding="ascii") as file:
        return int(re.search(r"^rchar: (\d+)$", file.read(), re.MULTILINE)[1])


def is_stopped_after(process, size):
    """Stop a process that has read so much. Return whether it was stopped before it ended."""
    end = time.monotonic() + 60
    while process.poll() is None and read_by(process) < size:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    while process.poll() is None and status(process)[0] != "T":
        assert time.monotonic() < end
        time.sleep(0.01)
    return process.returncode is None


@pytest.mark.parametrize("statistics", ["1", "0"])
def test_written_meanwhile(lab, path, statistics):
    """Processes that opened the disk before the claim, or without one, are detected."""
    ramdisk = lab.ramdisk(64 * MIB)
    fill(ramdisk.path, [(0, noise(40 * MIB))])
    switch = f"/sys/block/{ramdisk.name}/queue/iostats"
    with open(switch, "w", encoding="ascii") as file:
        file.write(statistics)
    in_time, end = False, time.monotonic() + 60
    while not in_time:
        assert time.monotonic() < end
        if os.path.exists(path):
            os.unlink(path)
        with running("save", ramdisk.path, path, "--compress=zstd:12") as process:
            # It reads the write counters before it begins to read.
            in_time = is_stopped_after(process, 4 * MIB) and read_by(process) < 40 * MIB
            if in_time:
                direct.write(ramdisk.path, 63 * MIB, stamp(1))
            process.send_signal(signal.SIGCONT)
            _, errors = process.communicate()
    assert process.returncode == BUSY and b"another process wrote" in errors
    with open(switch, encoding="ascii") as file:
        assert file.read().strip() == statistics
    assert os.listdir(os.path.dirname(path)) == []
