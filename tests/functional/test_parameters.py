# SPDX-License-Identifier: GPL-2.0-only
"""Parameters of the module rxd: disks created at load, and the output of modinfo."""

import errno
import glob
import os
import re

import pytest

from rxdlib import direct, modules
from rxdlib.command import run
from rxdlib.control import STATE_OVERCOMMIT, Control
from rxdlib.direct import BLOCK, KIB, MIB, stamp
from rxdlib.sampled import sampled


@pytest.fixture
def unloaded():
    """rxd is not loaded; a test that loads it need not unload it."""
    modules.unload()
    yield
    if modules.RXD in modules.loaded():
        with Control() as control:
            for device in control.query_all():
                control.remove(device.index)
        modules.delete(modules.RXD)
    modules.load()


@pytest.mark.parametrize("text, sizes", [
    ("64M", [64 * MIB]), ("4096", [BLOCK]), ("4k,8K", [BLOCK, 2 * BLOCK]),
    ("16M,1m,256K", [16 * MIB, MIB, 256 * KIB]), ("0004096", [BLOCK]),
    (",".join(["4K"] * 32), [BLOCK] * 32)], ids=["one", "bytes", "two", "three", "zeros", "all"])
def test_sizes(unloaded, text, sizes):
    modules.insert(modules.RXD, f"sizes={text}")
    with Control() as control:
        devices = control.query_all()
    assert [(device.index, device.size) for device in devices] == list(enumerate(sizes))
    assert not any(device.state & STATE_OVERCOMMIT for device in devices)
    assert len({device.uuid for device in devices}) == len(sizes)
    last = f"/dev/rxd{len(sizes) - 1}"
    direct.write(last, 0, stamp(1))
    assert direct.read(last, 0, BLOCK) == stamp(1)


def test_sizes_and_creation(unloaded):
    """A disk that is created later gets the next number; all can be removed."""
    modules.insert(modules.RXD, "sizes=1M,1M")
    with Control() as control:
        assert control.create(MIB) == 2
        control.remove(0)
        assert control.create(MIB) == 0


def test_no_sizes(unloaded):
    modules.insert(modules.RXD)
    assert not glob.glob("/dev/rxd[0-9]*")


@pytest.mark.one_kernel
@pytest.mark.parametrize("text", sampled([
    "0", "1", "511", "4097", "-4K", "-1", "x", "M", "4Kx", "4KB", "1.5M", "64 M", "4K,,8K", "4K,",
    ",4K", "4K,0", "1M,2M,bad", "4K;8K", "10%", "\x01", "K4", "0x", "+4K",
    "0x100000", "4096M4K", "1G1",
    "512T", "1P", "16E", "18446744073709551615", "18446744073709551616",
    "18446744073709555712", "17179869185G", "99999999999999999999999", "9" * 200,
    ",".join(["4K"] * 33), ",".join(["4K"] * 200)]),
    ids=lambda text: repr(text)[:30])
def test_bad_sizes(unloaded, kernel_log, text):
    """The module is not loaded, creates nothing, and logs the reason in one line."""
    kernel_log.rewind()
    with pytest.raises(OSError) as caught:
        modules.insert(modules.RXD, f'sizes="{text}"')
    assert caught.value.errno in (errno.EINVAL, errno.EFBIG)
    assert modules.RXD not in modules.loaded()
    assert not glob.glob("/dev/rxd*") and not glob.glob("/sys/block/rxd*")
    lines = [line for line in kernel_log.lines() if "rxd" in line]
    assert len(lines) == 1 and len(lines[0]) < 400, lines


@pytest.mark.parametrize("text", ["1T", "1M,1T", "8M,100T,8M"])
def test_sizes_beyond_the_share(unloaded, kernel_log, text):
    kernel_log.rewind()
    with pytest.raises(OSError) as caught:
        modules.insert(modules.RXD, f"sizes={text}")
    assert caught.value.errno == errno.ERANGE
    assert not glob.glob("/dev/rxd*")
    lines = [line for line in kernel_log.lines() if "rxd" in line]
    assert len(lines) == 1 and "memory_share" in lines[0]
    # A failure does not block the next attempt.
    modules.insert(modules.RXD, "sizes=8M")


@pytest.mark.one_kernel
@pytest.mark.parametrize("text", ["0", "101", "-1", "75%", "x", "", "4294967297", "9" * 100])
def test_bad_memory_share_at_load(unloaded, text):
    with pytest.raises(OSError) as caught:
        modules.insert(modules.RXD, f'memory_share="{text}"')
    assert caught.value.errno in (errno.EINVAL, errno.ERANGE)
    assert modules.RXD not in modules.loaded()


def test_memory_share_at_load(unloaded):
    modules.insert(modules.RXD, "memory_share=1")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with Control() as control:
        with pytest.raises(OSError) as caught:
            control.create(memory // 50 // BLOCK * BLOCK)
        assert caught.value.errno == errno.ERANGE
        control.create(memory // 200 // BLOCK * BLOCK)


def test_sizes_count_in_the_share(unloaded):
    """The order of the parameters does not matter."""
    for parameters in "memory_share=1 sizes={0},{0}", "sizes={0},{0} memory_share=1":
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with pytest.raises(OSError):
            modules.insert(modules.RXD, parameters.format(memory * 3 // 400 // BLOCK * BLOCK))
        assert not glob.glob("/dev/rxd*")


def test_unknown_parameter_is_ignored(unloaded):
    """The kernel ignores it for every module; a mistyped parameter creates no disk."""
    modules.insert(modules.RXD, "size=64M")
    assert not glob.glob("/dev/rxd[0-9]*")


def test_modinfo_explains_each():
    for name in modules.RXD, modules.RXCACHE:
        path = modules.path(name)
        text = run("modinfo", path).stdout
        explained = dict(re.findall(r"^parm: +(\w+):(.+)$", text, re.MULTILINE))
        directory = f"/sys/module/{name}/parameters"
        known = set(os.listdir(directory)) if os.path.isdir(directory) else set()
        assert known <= set(explained)
        for parameter, words in explained.items():
            assert len(words) > 20, f"{name}: {parameter} is not explained"
        for field in "description", "license":
            assert re.search(rf"^{field}: +\S", text, re.MULTILINE)
    assert {"sizes", "memory_share"} <= set(os.listdir("/sys/module/rxd/parameters"))


def test_sizes_cannot_change_later():
    path = "/sys/module/rxd/parameters/sizes"
    assert not os.stat(path).st_mode & 0o222
