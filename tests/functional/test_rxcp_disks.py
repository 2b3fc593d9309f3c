# SPDX-License-Identifier: GPL-2.0-only
"""rxcp -S yes: whole disks without what their file systems do not use."""

import contextlib
import fcntl
import hashlib
import json
import os
import random
import struct
import subprocess
import time

import pytest

from rxdlib import partitions
from rxdlib.command import program, run
from rxdlib.control import RESIZE_FORCE
from rxdlib.direct import KIB, MIB, Direct
from rxdlib.sampled import long

TABLES = {"mbr": partitions.mbr, "gpt": partitions.gpt}
# Contents of the partitions, and their sizes in MiB; noise is unknown content.
PARTS = [("ext2", 8), ("ext3", 16), ("ext4", 16), ("xfs", 48), ("swap", 8), ("noise", 4)]
MAKE = {**{kind: [f"mkfs.{kind}", "-q", "-E", "nodiscard"] for kind in ("ext2", "ext3", "ext4")},
        "swap": ["mkswap"], "xfs": ["mkfs.xfs", "-q", "-f", "-K", "--unsupported"]}
# A few seconds after the mount ext4 zeroes inode tables, and the RAM disk frees their pages.
MOUNTED = {"ext2": (), "ext3": (), "ext4": ("-o", "noinit_itable"), "xfs": ()}


def layout():
    """Kind, first byte and size in bytes of each partition, a MiB apart."""
    at = MIB
    for kind, size in PARTS:
        yield kind, at, size * MIB
        at += (size + 1) * MIB


DISK_SIZE = sum(size + 1 for _kind, size in PARTS) * MIB + 2 * MIB


def content(path):
    with open(path, "rb") as file:
        return file.read()


def fill(path, size):
    """Fill with noise, of which no part equals another."""
    data = random.Random(path).randbytes(MIB)
    with Direct(path) as device:
        for at in range(0, size, MIB):
            device.write(at, at.to_bytes(8, "little") + data[8:])


@contextlib.contextmanager
def part(disk, start, size):
    """A partition as a device."""
    run("modprobe", "loop")
    device = run("losetup", "--find", "--show", "--offset", start, "--sizelimit", size,
                 disk).stdout.strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextlib.contextmanager
def mounted(device, directory, *options):
    run("mount", *options, device, directory)
    try:
        yield directory
    finally:
        run("umount", directory)


def write_files(directory, seed):
    """Write some files that stay and some that are removed, so that free space is in between."""
    chance = random.Random(seed)
    for number in range(60):
        with open(os.path.join(directory, f"file{number}"), "wb") as file:
            file.write(chance.randbytes(chance.randrange(1, 60 * KIB)))
    for number in range(0, 60, 3):
        os.unlink(os.path.join(directory, f"file{number}"))


def sums(directory):
    return {name: hashlib.sha256(content(os.path.join(directory, name))).hexdigest()
            for name in os.listdir(directory) if name.startswith("file")}


def check(device, kind):
    command = ["xfs_repair", "-n"] if kind == "xfs" else ["e2fsck", "-fn"]
    result = run(*command, device, check=False)
    assert result.returncode == 0, (kind, result.stdout + result.stderr)


def write(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def rxcp(*args):
    result = run(program("rxcp"), *args)
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def make(disk, kind, start, size, directory):
    """Return the checksums of the files in it."""
    with part(disk, start, size) as device:
        if kind in MAKE:
            run(*MAKE[kind], device)
        if kind not in MOUNTED:
            return {}
        with mounted(device, directory, *MOUNTED[kind]):
            write_files(directory, kind)
            return sums(directory)


@pytest.fixture
def disk(lab):
    ramdisk = lab.ramdisk(DISK_SIZE)
    fill(ramdisk.path, DISK_SIZE)
    return ramdisk.path


@pytest.fixture
def image(lab):
    return lab.file(0)


@pytest.mark.one_kernel
@pytest.mark.parametrize("table", [*long(["mbr"]), "gpt"])
def test_whole_disk(lab, disk, image, table):
    """Its file systems are intact in the copy, and their unused blocks are not read."""
    TABLES[table](disk, [(start, size) for _kind, start, size in layout()])
    directory = lab.directory()
    made = {kind: make(disk, kind, start, size, directory) for kind, start, size in layout()}
    records = rxcp("-S", "yes", "-T", "json", disk, image)
    before, after = content(disk), content(image)
    assert len(before) == len(after) == DISK_SIZE
    last = 0
    for kind, start, size in layout():
        end = start + size
        assert after[last:start] == before[last:start], f"before {kind}"
        last = end
        if kind == "noise":
            assert after[start:end] == before[start:end]
            continue
        assert after[start:end].count(0) > size // 2 > before[start:end].count(0), kind
        if kind == "swap":
            assert after[start:start + 4096] == before[start:start + 4096]
            continue
        with part(image, start, size) as device:
            check(device, kind)
            with mounted(device, directory, "-o", "ro"):
                assert made[kind] and sums(directory) == made[kind]
    assert after[last:] == before[last:]
    # The copy also equals the expected result.
    assert int(records[-1]["read_skipped"]) > sum(
        size for kind, _start, size in layout() if kind != "noise") * 6 // 10
    assert records[0]["t"] == "0" and records[0]["copied"] == "0"


def skipped(disk, image):
    """The bytes that were not read; the copy must have the same content in all others."""
    record = rxcp("-S", "yes", "-T", "json", disk, image)[-1]
    if record["read_skipped"] == "0":
        assert content(image) == content(disk)
    return int(record["read_skipped"])


@pytest.mark.one_kernel
def test_overlapping_partitions(lab, disk, image):
    """A block that one partition does not use may be used in the other."""
    parts = [(MIB, 16 * MIB), (8 * MIB, 16 * MIB)]
    partitions.mbr(disk, parts)
    make(disk, "ext4", *parts[0], lab.directory())
    assert skipped(disk, image) == 0
    partitions.mbr(disk, parts[:1])
    assert skipped(disk, image) > 8 * MIB


@pytest.mark.one_kernel
@pytest.mark.parametrize("primary", [0, 1], ids=["logical", "primary"])
def test_boot_record_in_a_partition(lab, disk, image, primary):
    """The last sector of the first partition leads to the next, which is a logical one."""
    parts = [(MIB, 16 * MIB), (17 * MIB, 8 * MIB), (26 * MIB, 8 * MIB)]
    make(disk, "ext4", *parts[0], lab.directory())
    partitions.mbr(disk, parts, primary)
    assert skipped(disk, image) == 0
    # libblkid and Linux ignore a link without sectors.
    partitions.mbr(disk, parts, primary, stale=[(partitions.EXTENDED, 0, 0)])
    assert skipped(disk, image) == 0
    # Of the others, none is in a partition.
    partitions.mbr(disk, [parts[0], parts[2]], primary)
    assert skipped(disk, image) > 8 * MIB


@pytest.mark.one_kernel
def test_boot_record_beyond_the_extended_partition(lab, disk, image):
    """A link leads from the extended partition to the last sector of a primary one behind it."""
    parts = [(17 * MIB, 17 * MIB), (2 * MIB, 8 * MIB), (34 * MIB, 8 * MIB)]
    make(disk, "ext4", *parts[0], lab.directory())
    partitions.mbr(disk, parts, 1, end=10 * MIB)
    assert skipped(disk, image) == 0
    partitions.mbr(disk, [*parts[:2], (35 * MIB, 8 * MIB)], 1, end=10 * MIB)
    assert skipped(disk, image) > 8 * MIB


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", [*long(["ext4"]), "xfs"])
def test_not_unmounted(lab, disk, image, kind):
    """As after a crash: the content of the log is not in the maps yet."""
    size = 64 * MIB
    partitions.gpt(disk, [(MIB, size)])
    directory, crashed = lab.directory(), lab.file(0)
    assert make(disk, kind, MIB, size, directory)
    with part(disk, MIB, size) as device, mounted(device, directory):
        os.mkdir(os.path.join(directory, "new"))
        write_files(os.path.join(directory, "new"), 1)
        run("sync")
        run("cp", disk, crashed)
    assert skipped(crashed, image) == 0
    assert skipped(disk, image) > size // 2
    with part(image, MIB, size) as device:
        check(device, kind)


@pytest.mark.one_kernel
def test_mounted_and_idle(lab, disk, image):
    """The log of xfs does not show that it is mounted."""
    run(*MAKE["xfs"], disk)
    with mounted(disk, lab.directory()):
        assert skipped(disk, image) == 0
    assert skipped(disk, image) > DISK_SIZE // 2


@pytest.mark.one_kernel
def test_image_in_use(lab, disk, image):
    """As above, of a file that a loop device holds."""
    run(*MAKE["xfs"], disk)
    file = lab.file(0)
    run("cp", "--sparse=never", disk, file)
    with part(file, 0, DISK_SIZE) as device, mounted(device, lab.directory()):
        assert skipped(file, image) == 0
    assert skipped(file, image) > DISK_SIZE // 2


def refused_for_common_blocks(source, target):
    result = run(program("rxcp"), source, target, check=False)
    assert (result.returncode, result.stderr) == (
        1, f"rxcp: '{source}' and '{target}' have blocks in common\n")


@pytest.mark.one_kernel
def test_between_a_disk_and_its_partition(lab):
    """The copy would overwrite its source."""
    disk = lab.loop(16 * MIB)
    partitions.gpt(disk, [(4 * MIB, 4 * MIB)])
    run("partx", "--add", disk)
    try:
        before = content(disk)
        for source, target in (f"{disk}p1", disk), (disk, f"{disk}p1"):
            refused_for_common_blocks(source, target)
        assert content(disk) == before
    finally:
        run("partx", "--delete", disk)


@pytest.mark.one_kernel
def test_to_a_disk_and_its_partition(lab):
    """The second copy would overwrite a part of the first."""
    disk, sources, target = lab.loop(16 * MIB), lab.directory(), lab.directory()
    partitions.gpt(disk, [(4 * MIB, 4 * MIB)])
    table = content(disk)[:MIB]
    paths = [os.path.join(sources, name) for name in ("disk", "part")]
    for path, data in zip(paths, (table.ljust(16 * MIB, b"1"), b"2" * 4 * MIB)):
        with open(path, "wb") as file:
            file.write(data)
    os.symlink(disk, os.path.join(target, "disk"))
    os.symlink(f"{disk}p1", os.path.join(target, "part"))
    run("partx", "--add", disk)
    try:
        for first, second in (paths, paths[::-1]):
            result = run(program("rxcp"), first, second, target, check=False)
            name = os.path.basename(second)
            assert (result.returncode, result.stderr) == (
                1, f"rxcp: destination '{target}/{name}': '{first}' was just copied there\n")
        assert content(f"{disk}p1") == b"2" * 4 * MIB
    finally:
        run("partx", "--delete", disk)
        for folder in sources, target:
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))


@pytest.mark.one_kernel
def test_between_parts_of_a_file(lab):
    """Loop devices may have blocks of the source, or of each other."""
    file = lab.file(16 * MIB)
    write(file, 0, b"data" * 4 * MIB)
    partitions.gpt(file, [(MIB, 4 * MIB), (8 * MIB, 4 * MIB)])
    whole, before = lab.loop_on(file), content(file)
    run("partx", "--add", whole)
    try:
        with part(file, 0, 8 * MIB) as one, part(file, MIB, 15 * MIB) as two, \
                part(file, 4 * MIB, 2 * MIB) as small:
            for pair in ((one, two), (file, whole), (f"{whole}p1", two), (small, f"{whole}p1")):
                refused_for_common_blocks(*pair)
            with part(two, 4 * MIB, 8 * MIB) as three:
                for source in one, f"{whole}p2":
                    refused_for_common_blocks(source, three)
        assert content(file) == before
        # Others are copied.
        with part(file, 8 * MIB, 4 * MIB) as one, part(file, 12 * MIB, 4 * MIB) as two:
            run(program("rxcp"), f"{whole}p1", one)
            run(program("rxcp"), one, two)
        run(program("rxcp"), f"{whole}p1", f"{whole}p2")
        assert content(file)[8 * MIB:] == 2 * before[MIB:5 * MIB]
    finally:
        run("partx", "--delete", whole)


@pytest.mark.one_kernel
def test_no_mount_meanwhile(lab, disk, image):
    """What was unused stays so until the end: rxcp waits where it prints, after it has looked."""
    run(*MAKE["ext4"], disk)
    reader, writer = os.pipe()
    os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)))
    with subprocess.Popen([program("rxcp"), "-S", "yes", "-T", "json", disk, image],
                          stdout=writer) as process, os.fdopen(reader, "rb") as output:
        os.close(writer)
        while "pipe" not in content(f"/proc/{process.pid}/wchan").decode():
            assert process.poll() is None
            time.sleep(0.01)
        refused = run("mount", disk, lab.directory(), check=False)
        output.read()
    assert refused.returncode and process.returncode == 0
    with mounted(disk, lab.directory()):
        pass


@pytest.mark.one_kernel
def test_ram_disk_that_shrinks(lab, image):
    """The map has nothing beyond the new end; rxcp asks for that part after the resize."""
    size = 48 * MIB
    ramdisk = lab.ramdisk(size)
    with Direct(ramdisk.path) as device:
        for at in range(0, size, 8 * KIB):
            device.write(at, b"data" * KIB)
    reader, writer = os.pipe()
    os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)))
    with subprocess.Popen([program("rxcp"), "-T", "json", ramdisk.path, image], stdout=writer,
                          stderr=subprocess.PIPE, text=True) as process, \
            os.fdopen(reader, "rb") as output:
        os.close(writer)
        while "pipe" not in content(f"/proc/{process.pid}/wchan").decode():
            assert process.poll() is None
            time.sleep(0.01)
        # The first part of the map has 4096 extents.
        ramdisk.resize(32 * MIB, RESIZE_FORCE)
        output.read()
        err = process.stderr.read()
    assert process.returncode == 1
    assert err == f"rxcp: source '{ramdisk.path}': became shorter than {size} bytes while it " \
        "was copied\n"
    assert os.path.getsize(image) == 0


@pytest.mark.one_kernel
def test_swap(disk, image):
    """A hibernated system is copied, and so are pages that were swapped out."""
    run("mkswap", disk)
    assert skipped(disk, image) > DISK_SIZE - MIB
    run("swapon", disk)
    try:
        assert skipped(disk, image) == 0
    finally:
        run("swapoff", disk)
    write(disk, 4096 - 10, b"S1SUSPEND\0")
    assert skipped(disk, image) == 0


@pytest.fixture
def xfs(lab):
    ramdisk = lab.ramdisk(64 * MIB)
    fill(ramdisk.path, 64 * MIB)
    run(*MAKE["xfs"], ramdisk.path)
    return ramdisk.path


def sealed(block, at):
    """A block of xfs with the right checksum, CRC-32C."""
    block[at:at + 4] = bytes(4)
    crc = 0xffffffff
    for byte in block:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    block[at:at + 4] = (crc ^ 0xffffffff).to_bytes(4, "little")
    return block


@pytest.mark.one_kernel
def test_xfs_that_is_not_known(xfs, image):
    """A realtime device, an incomplete one, one to be repaired, a new feature, an external log."""
    before = content(xfs)[:4096]
    sector = int.from_bytes(before[102:104], "big")
    for at, value in (16 + 7, 1), (126, 1), (219, 16), (215, 128), (48 + 7, 255):
        changed = bytearray(before[:sector])
        changed[at] |= value
        write(xfs, 0, sealed(changed, 224))
        assert skipped(xfs, image) == 0, at
    write(xfs, 0, before)
    assert skipped(xfs, image) > 32 * MIB


@pytest.mark.one_kernel
def test_damaged_xfs(xfs, image):
    """A flipped bit in a superblock, a group's header, and its tree; a wrong sum in a header."""
    before = content(xfs)
    group = int.from_bytes(before[102:104], "big")
    leaf = int.from_bytes(before[group + 16:group + 20], "big") * 4096
    first = int.from_bytes(before[leaf + 56:leaf + 60], "big")
    # The extent begins earlier by a power of two.
    moved = (first & first - 1).to_bytes(4, "big")
    label, spare = before[108] ^ 1, before[group + 100] ^ 1
    wrong = bytearray(before[group:2 * group])
    wrong[55] ^= 1
    for at, data in ((108, bytes([label])), (group + 100, bytes([spare])), (leaf + 56, moved),
                     (group, sealed(wrong, 216))):
        write(xfs, at, data)
        assert skipped(xfs, image) == 0, at
        write(xfs, at, before[at:at + len(data)])
        assert skipped(xfs, image) > 32 * MIB


def log_of(content_of_xfs):
    """Where the log begins."""
    block, shift = int.from_bytes(content_of_xfs[48:56], "big"), content_of_xfs[124]
    blocks_of_group = int.from_bytes(content_of_xfs[84:88], "big")
    return ((block >> shift) * blocks_of_group + block % (1 << shift)) * 4096


@pytest.mark.one_kernel
def test_xfs_of_another(xfs, image):
    """A group's header, the root of its tree, and the log are of this file system, or not used."""
    before = content(xfs)
    sector = int.from_bytes(before[102:104], "big")
    root = int.from_bytes(before[sector + 16:sector + 20], "big") * 4096
    log = log_of(before)
    assert before[sector + 64:sector + 80] == before[root + 32:root + 48] == \
        before[log + 304:log + 320] == before[32:48]
    # UUIDs; the address of the block in its tree.
    for start, size, at, crc in ((sector, sector, 64, 216), (root, 4096, 32, 52),
                                 (root, 4096, 23, 52), (log, 512, 304, None)):
        changed = bytearray(before[start:start + size])
        changed[at] ^= 1
        write(xfs, start, sealed(changed, crc) if crc else changed)
        assert skipped(xfs, image) == 0, (start, at)
        write(xfs, start, before[start:start + size])
        assert skipped(xfs, image) > 32 * MIB


@pytest.mark.one_kernel
def test_xfs_with_a_new_uuid(xfs, image):
    """The groups keep the first one, and the superblock and the log have the new one."""
    before = content(xfs)
    sector, log = int.from_bytes(before[102:104], "big"), log_of(before)
    new = random.Random(1).randbytes(16)
    changed = bytearray(before[:sector])
    changed[219] |= 4
    changed[248:264] = before[32:48]
    changed[32:48] = new
    write(xfs, 0, sealed(changed, 224))
    assert skipped(xfs, image) == 0
    write(xfs, log + 304, new)
    assert skipped(xfs, image) > 32 * MIB


@pytest.mark.one_kernel
def test_xfs_without_checksums(xfs, image):
    """Version 4: damage would not be seen."""
    run(*MAKE["xfs"], "-m", "crc=0", xfs)
    assert skipped(xfs, image) == 0


@pytest.mark.one_kernel
def test_ext2_with_errors(disk, image):
    """One that was not unmounted, too; ext2 has no log that shows it."""
    run(*MAKE["ext2"], disk)
    for state, count in (0, 0), (3, 0), (1, DISK_SIZE // 2):
        write(disk, 1024 + 58, bytes([state]))
        assert (skipped(disk, image) > count) == bool(count), state


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", [*long(["ext4", "xfs"]), "swap"])
def test_partition_that_is_too_small(disk, image, kind):
    """It was made smaller, but its content was not."""
    partitions.mbr(disk, [(MIB, 64 * MIB)])
    with part(disk, MIB, 64 * MIB) as device:
        run(*MAKE[kind], device)
    assert skipped(disk, image) > 32 * MIB
    partitions.mbr(disk, [(MIB, 64 * MIB - 64 * KIB)])
    assert skipped(disk, image) == 0


def raid_superblock(size):
    """The superblock of a member of a RAID 0, metadata 1.0, and its offset."""
    at = (size // 512 - 16) // 8 * 8
    head = struct.pack("<IIII16s32sQIIQII", 0xa92b4efc, 1, 0, 0, b"array", b"0", 0, 0, 0, 0, 128, 2)
    block = bytearray(head.ljust(128, b"\0") + struct.pack("<QQQ", 0, at, at)).ljust(256, b"\0")
    total = sum(struct.unpack("<64I", block))
    block[216:220] = ((total & 0xffffffff) + (total >> 32)).to_bytes(4, "little")
    return at * 512, block


@pytest.mark.one_kernel
def test_raid_member_with_a_table(lab, disk, image):
    """The first member of an array shows the table of the array."""
    parts = [(MIB, 16 * MIB)]
    partitions.mbr(disk, parts)
    make(disk, "ext4", *parts[0], lab.directory())
    assert skipped(disk, image) > 8 * MIB
    at, superblock = raid_superblock(DISK_SIZE)
    write(disk, at, superblock)
    assert run("blkid", "-p", "-o", "value", "-s", "TYPE", disk).stdout == "linux_raid_member\n"
    assert skipped(disk, image) == 0


@pytest.mark.one_kernel
def test_file_system_with_a_table(lab, disk, image):
    """Either may be stale, on a disk or in a partition, as of a virtual machine."""
    outer, inner = (2 * MIB, 40 * MIB), (8 * MIB, 16 * MIB)
    make(disk, "ext4", 0, DISK_SIZE, lab.directory())
    assert skipped(disk, image) > DISK_SIZE // 2
    partitions.mbr(disk, [inner])
    make(disk, "ext4", *inner, lab.directory())
    assert skipped(disk, image) == 0
    fill(disk, MIB)
    partitions.gpt(disk, [outer])
    make(disk, "ext4", *outer, lab.directory())
    assert skipped(disk, image) > 20 * MIB
    with part(disk, *outer) as device:
        partitions.mbr(device, [inner])
    assert skipped(disk, image) == 0
    # Boot code, with and without room for a table.
    for entries in bytes(64), random.Random(1).randbytes(64):
        write(disk, outer[0] + 446, entries + b"\x55\xaa")
        assert skipped(disk, image) > 20 * MIB


@pytest.mark.one_kernel
def test_name_of_another_disk(lab, disk, image):
    """The name changes while rxcp waits for the disk, which it has opened by then."""
    link, other = lab.file(0), lab.file(DISK_SIZE)
    make(disk, "ext4", 0, DISK_SIZE, lab.directory())
    run(*MAKE["ext4"], other)
    rxcp("-S", "yes", "-T", "json", disk, image)
    expected = content(image)
    with lab.held(DISK_SIZE, disk, writes=True) as held:
        os.unlink(link)
        os.symlink(held.path, link)
        # rxcp writes back what is dirty, after it has opened the disk.
        with open(held.path, "r+b", buffering=0) as file:
            file.write(expected[:512])
            with subprocess.Popen([program("rxcp"), "-S", "yes", link, image]) as process:
                held.wait_for(1)
                os.unlink(link)
                os.symlink(other, link)
                held.release()
    assert process.returncode == 0
    assert content(image) == expected


@pytest.mark.one_kernel
def test_what_the_page_cache_of_the_disk_holds(lab, image):
    """A disk and its partitions have separate page caches; that of the disk may be stale."""
    parts = [(MIB, 24 * MIB), (26 * MIB, 24 * MIB)]
    disk = lab.loop(52 * MIB)
    partitions.gpt(disk, parts)
    run("partx", "--add", disk)
    first, second = (f"{disk}p{number}" for number in (1, 2))
    try:
        for path in first, second:
            run(*MAKE["ext4"], path)
        directory = lab.directory()
        # A process keeps the disk open, so that its page cache stays.
        with mounted(second, lab.directory(), "-o", "ro"):
            content(disk)
            with mounted(first, directory):
                write_files(directory, 1)
                made = sums(directory)
            rxcp("-S", "yes", "-T", "json", disk, image)
    finally:
        run("partx", "--delete", disk)
    with part(image, *parts[0]) as device:
        check(device, "ext4")
        with mounted(device, directory, "-o", "ro"):
            assert sums(directory) == made
