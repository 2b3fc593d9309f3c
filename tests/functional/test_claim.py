# SPDX-License-Identifier: GPL-2.0-only
"""The effect on a RAM disk, and on processes that have it open, when a cache claims it."""

import errno
import mmap
import os
import uuid

import pytest

from rxdlib import direct, dm
from rxdlib.command import run, rxadm
from rxdlib.control import CLONE_EXPENDABLE, CREATE_RESERVE, Control, changed_all
from rxdlib.direct import BLOCK, MIB, SECTOR, Direct, stamp
from rxdlib.lab import DISK, Cache, prepare, state


def table(ramdisk, size=4 * MIB, origin=DISK):
    return f"0 {size // SECTOR} rxcache {origin} {ramdisk.path}\n"


def refused(kernel_log, line, code, reason, *options):
    """A table that must be refused without a change."""
    before = state()
    kernel_log.rewind()
    result = run("dmsetup", "create", *options, "bad", check=False, stdin=line)
    assert result.returncode and os.strerror(code) in result.stderr, result
    lines = [entry for entry in kernel_log.lines() if "rxcache" in entry]
    assert len(lines) == 1 and reason in lines[0], lines
    assert state() == before


def buffered(path):
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def test_page_cache_of_who_stays_open(lab):
    """Old pages of the page cache are not read, either during the use as a cache or afterwards."""
    data = prepare()
    ramdisk = lab.ramdisk(16 * MIB)
    with Direct(ramdisk.path) as device:
        device.partition(2048, 8192)
    direct.write(ramdisk.path, 4 * MIB, stamp(7, MIB))
    fds = [(buffered(ramdisk.path), 4 * MIB), (buffered(ramdisk.path + "p1"), 3 * MIB)]
    try:
        for fd, offset in fds:
            assert os.pread(fd, BLOCK, offset) == stamp(7)
        with mmap.mmap(fds[0][0], MIB, mmap.MAP_SHARED, mmap.PROT_READ, offset=4 * MIB) as mapped:
            assert mapped[:BLOCK] == stamp(7)
            cache = lab.cache(4 * MIB, ramdisk=ramdisk)
            assert direct.read(cache.path, 0, 4 * MIB) == data
            for fd, offset in fds:
                with pytest.raises(OSError):
                    os.pread(fd, BLOCK, offset)
            dm.remove(cache.name)
            assert mapped[:BLOCK] == bytes(BLOCK)
        for fd, offset in fds:
            assert os.pread(fd, BLOCK, offset) == bytes(BLOCK)
            assert os.pread(fd, BLOCK, 0) == bytes(BLOCK)
    finally:
        for fd, _ in fds:
            os.close(fd)


def test_refusals_are_quiet(lab, kernel_log):
    """udev and others read every disk: these reads are not logged."""
    ramdisk = lab.ramdisk()
    cache = lab.cache(4 * MIB, ramdisk=ramdisk)
    kernel_log.rewind()
    fd = buffered(ramdisk.path)
    try:
        for offset in 0, MIB, 16 * MIB - BLOCK:
            with pytest.raises(OSError):
                os.pread(fd, BLOCK, offset)
    finally:
        os.close(fd)
    run("blkid", "-p", ramdisk.path, check=False)
    assert not [line for line in kernel_log.lines() if ramdisk.name in line]
    direct.read(cache.path, 0, MIB)


def test_another_mapping_comes_between(lab):
    """A mapping that was made between load and resume keeps the RAM disk and its data."""
    data = prepare()
    ramdisk = lab.ramdisk(16 * MIB)
    run("dmsetup", "create", "between", "--notable")
    try:
        run("dmsetup", "load", "between", stdin=table(ramdisk))
        other = lab.mapped(f"0 {MIB // SECTOR} linear {ramdisk.path} 0")
        direct.write(f"/dev/mapper/{other}", 0, stamp(5, MIB))
        result = run("dmsetup", "resume", "between", check=False)
        assert result.returncode and os.strerror(errno.EBUSY) in result.stderr
        assert direct.read(f"/dev/mapper/{other}", 0, MIB) == stamp(5, MIB)
        dm.remove(other)
        run("dmsetup", "resume", "between")
        run("dmsetup", "mknodes")
        assert direct.read("/dev/mapper/between", 0, 4 * MIB) == data
    finally:
        run("dmsetup", "remove", "--retry", "between")


def test_read_only_ramdisk(lab, kernel_log):
    """A read-only RAM disk is neither emptied nor written."""
    ramdisk = lab.ramdisk()
    direct.write(ramdisk.path, 0, stamp(1))
    run("blockdev", "--setro", ramdisk.path)
    for options in (), ("--readonly",):
        refused(kernel_log, table(ramdisk), errno.EROFS, "read-only", *options)
    run("blockdev", "--setrw", ramdisk.path)
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    lab.cache(4 * MIB, ramdisk=ramdisk)


def without_table(lab):
    name = lab.next_name("cache")
    run("dmsetup", "create", name, "--notable")
    lab.adopt_mapped(name)
    return name


def test_read_only_since_the_load(lab, kernel_log):
    """It is not emptied either if it became read-only when the table had been loaded."""
    data = prepare()
    ramdisk = lab.ramdisk()
    direct.write(ramdisk.path, 0, stamp(1))
    name = without_table(lab)
    run("dmsetup", "load", name, stdin=table(ramdisk))
    run("blockdev", "--setro", ramdisk.path)
    kernel_log.rewind()
    result = run("dmsetup", "resume", name, check=False)
    assert result.returncode and os.strerror(errno.EROFS) in result.stderr
    assert "is now read-only" in "".join(kernel_log.lines())
    assert direct.read(ramdisk.path, 0, BLOCK) == stamp(1)
    run("blockdev", "--setrw", ramdisk.path)
    run("dmsetup", "resume", name)
    cache = Cache(name, DISK, ramdisk)
    # A cache that has the disk already goes on.
    run("dmsetup", "load", name, stdin=table(ramdisk))
    run("blockdev", "--setro", ramdisk.path)
    run("dmsetup", "suspend", name)
    run("dmsetup", "resume", name)
    run("dmsetup", "mknodes")
    assert direct.read(cache.path, 0, 4 * MIB) == data


def has(ramdisk):
    return set(ramdisk.attribute("state").split())


@pytest.mark.parametrize("ends", ["refused", "cleared", "resumed"])
def test_what_a_load_leaves(lab, ends):
    """Until the resume, a clone stays as it is: expendable, with its record of changes."""
    name, known = without_table(lab), uuid.uuid4().bytes
    source = lab.ramdisk()
    direct.write(source.path, 0, stamp(1))
    with Control() as control:
        clone = lab.adopt_ramdisk(control.clone(source.index, flags=CLONE_EXPENDABLE))
        control.track(clone.index, known)
    assert has(clone) == {"overcommit", "expendable"}
    direct.write(clone.path, MIB, stamp(2))
    size = " 0 2 size 4096" if ends == "refused" else ""
    result = run("dmsetup", "load", name, check=False, stdin=table(clone).strip() + size)
    assert bool(result.returncode) == (ends == "refused")
    if ends != "refused":
        assert has(clone) == {"open", "cache", "overcommit"}
        run("dmsetup", "clear" if ends == "cleared" else "resume", name)
    if ends == "resumed":
        dm.remove(name)
        assert has(clone) == {"overcommit"}
        with Direct(clone.path) as device, pytest.raises(OSError) as caught:
            changed_all(device.fd, 0, MIB)
        assert caught.value.errno == errno.ENODATA
        assert clone.query().mem_index == lab.ramdisk().query().mem_index
        return
    assert has(clone) == {"overcommit", "expendable"}
    with Direct(clone.path) as device:
        assert changed_all(device.fd, 0, device.size()) == ([(MIB, BLOCK)], known)
    assert direct.read(clone.path, 0, BLOCK) == stamp(1)
    assert direct.read(clone.path, MIB, BLOCK) == stamp(2)


def test_reserved_ramdisk(lab, kernel_log):
    """The reported reason is the true one."""
    ramdisk = lab.ramdisk(flags=CREATE_RESERVE)
    refused(kernel_log, table(ramdisk), errno.EOPNOTSUPP, "memory is reserved")
    before = state()
    for options in (), ("--dry-run",):
        result = rxadm("map", "--cache", ramdisk.name, "--origin", DISK, *options)
        assert result.returncode == 4 and result.stdout == "", result
        assert len(result.stderr.splitlines()) == 1 and ramdisk.path in result.stderr
        assert "its memory is reserved" in result.stderr
    assert state() == before


def test_clone_of_a_reserved_ramdisk(lab, kernel_log):
    """It shares reserved memory until its data is replaced."""
    source = lab.ramdisk(flags=CREATE_RESERVE)
    direct.write(source.path, 0, stamp(1))
    with Control() as control:
        clone = lab.adopt_ramdisk(control.clone(source.index, flags=CLONE_EXPENDABLE))
    refused(kernel_log, table(clone), errno.EOPNOTSUPP, "memory is reserved")
    before = state()
    for options in (), ("--dry-run",), ("--force",):
        result = rxadm("map", "--cache", clone.name, "--origin", DISK, *options)
        assert result.returncode == 4 and result.stdout == "", result
        assert len(result.stderr.splitlines()) == 1 and clone.path in result.stderr
        assert "shares data with" in result.stderr and "'rxadm clear'" in result.stderr
    assert state() == before
    assert direct.read(clone.path, 0, BLOCK) == direct.read(source.path, 0, BLOCK) == stamp(1)
    clone.clear()
    lab.cache(4 * MIB, ramdisk=clone)
    assert direct.read(source.path, 0, BLOCK) == stamp(1)


@pytest.mark.parametrize("ends", ["resume", "clear"])
def test_load_over_a_linear_mapping(lab, ends):
    """The RAM disk serves its present mapping until the cache becomes live."""
    data = prepare()
    ramdisk = lab.ramdisk()
    name, path = lab.linear(4 * MIB, ramdisk.path)
    direct.write(path, 0, stamp(1))
    run("dmsetup", "load", name, stdin=table(ramdisk))
    assert direct.read(path, 0, BLOCK) == stamp(1)
    direct.write(path, MIB, stamp(2))
    assert direct.read(ramdisk.path, MIB, BLOCK) == stamp(2)
    with pytest.raises(OSError) as caught:
        ramdisk.resize(MIB)
    assert caught.value.errno == errno.EBUSY
    run("dmsetup", ends, name)
    if ends == "clear":
        assert direct.read(path, 0, BLOCK) == stamp(1)
        assert direct.read(path, MIB, BLOCK) == stamp(2)
        assert ramdisk.attribute("state") == "open"
        return
    assert ramdisk.attribute("state") == "open cache"
    for _ in range(2):
        assert direct.read(path, 0, 4 * MIB) == data
    with pytest.raises(OSError) as caught:
        direct.read(ramdisk.path, 0, BLOCK)
    assert caught.value.errno == errno.EBUSY


def reload(cache, *options):
    """The same table again, with other options."""
    run("dmsetup", "load", *options, cache.name, stdin=dm.table(cache.name) + "\n")
    run("dmsetup", "suspend", cache.name)
    run("dmsetup", "resume", cache.name)


@pytest.mark.parametrize("origin", ["disk", "partition"])
def test_reload_read_only_and_back(lab, origin):
    """Cached blocks stay; only the mapping becomes read-only."""
    data = prepare()
    device = DISK
    if origin == "partition":
        below = lab.ramdisk(16 * MIB)
        with Direct(below.path) as disk:
            disk.partition(2048, 8192)
        device = below.path + "p1"
        direct.write(device, 0, data)
    cache = lab.cache(4 * MIB, origin=device)
    direct.read(cache.path, 0, MIB)
    for read_only in True, False, False, True:
        reload(cache, *(["--readonly"] if read_only else []))
        assert run("blockdev", "--getro", cache.path).stdout.strip() == str(int(read_only))
        before = cache.status()
        assert direct.read(cache.path, 0, MIB) == data[:MIB]
        assert cache.status().since(before) == {"read_hits": MIB // BLOCK}
        if read_only:
            with pytest.raises(OSError):
                direct.write(cache.path, 0, data[:BLOCK])
        else:
            direct.write(cache.path, 0, data[:BLOCK])
    # The table is loaded and cleared while the live table stays.
    run("dmsetup", "load", cache.name, stdin=dm.table(cache.name) + "\n")
    run("dmsetup", "clear", cache.name)
    assert direct.read(cache.path, 0, 4 * MIB) == data


@pytest.mark.parametrize("live", [(), ("--readonly",)], ids=["writable", "read-only"])
@pytest.mark.parametrize("below", ["origin", "cache"])
def test_load_over_a_linear_mapping_of_another_mode(lab, live, below):
    """The kernel does not tell who opened the disk a second time, so the load is refused."""
    ramdisk = lab.ramdisk(16 * MIB)
    device = DISK if below == "origin" else ramdisk.path
    name = lab.mapped(f"0 {4 * MIB // SECTOR} linear {device} 0", *live)
    other = () if live else ("--readonly",)
    before = state()
    result = run("dmsetup", "load", *other, name, check=False, stdin=table(ramdisk))
    assert result.returncode and os.strerror(errno.EBUSY) in result.stderr
    assert state() == before
    run("dmsetup", "load", *live, name, stdin=table(ramdisk))
    run("dmsetup", "suspend", name)
    run("dmsetup", "resume", name)
    cache = Cache(name, DISK, ramdisk)
    reload(cache, *other)
    assert run("blockdev", "--getro", cache.path).stdout.strip() == str(int(bool(other)))


def test_reload_read_only_beside_another_mapping(lab, cache):
    """Another mapping is still found, although the mapping itself has the disk open twice."""
    name, _ = lab.linear(4 * MIB, DISK)
    result = run("dmsetup", "load", "--readonly", cache.name, check=False,
                 stdin=dm.table(cache.name) + "\n")
    assert result.returncode and os.strerror(errno.EBUSY) in result.stderr
    dm.remove(name)
    reload(cache, "--readonly")
