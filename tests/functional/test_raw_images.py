# SPDX-License-Identifier: GPL-2.0-only
"""rxadm save and load --format raw: plain disk images."""

import os
import signal
import stat
import subprocess
import time

import pytest

from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.control import CREATE_RESERVE
from rxdlib.direct import BLOCK, KIB, MIB, stamp
from rxdlib.outcome import ok, refused
from rxdlib.sampled import sampled
from test_image_streams import stopped, stream
from test_save_load import (BUSY, DEVICE, MEMORY, PARAMETERS, SHAPES, content, file_bytes, fill,
                            load, load_was_undone, noise, running, write_file)

pytestmark = pytest.mark.one_kernel
RAW = ("--format", "raw")


def allocated(file):
    return os.stat(file).st_blocks * 512


@pytest.mark.parametrize("shape", sampled(SHAPES, every=2))
def test_round_trip(lab, path, shape):
    """The file equals the disk, byte for byte, with holes for the rest."""
    size, pieces = SHAPES[shape]
    ramdisk = lab.ramdisk(size)
    fill(ramdisk.path, pieces)
    before = content(ramdisk.path)
    uuid = ramdisk.query().uuid
    assert ok("save", ramdisk.path, path, *RAW) == ""
    assert file_bytes(path) == before
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    data = sum(before[at:at + BLOCK] != bytes(BLOCK) for at in range(0, size, BLOCK)) * BLOCK
    assert allocated(path) <= data + 64 * KIB
    assert stream("save", ramdisk.path, "-", *RAW) == (0, before, "")

    copy = load(lab, path, *RAW)
    now = copy.query()
    assert now.size == size and now.uuid != uuid and now.logical_block_size == 512
    assert content(copy.path) == before
    assert now.mem_used == data
    copy.remove()
    other = lab.ramdisk(size + MIB)
    assert ok("load", path, *RAW, "--into", other.path) == ""
    assert content(other.path) == before + bytes(MIB)


def test_zeros_in_the_file(lab, path):
    """Zeros that the file stores need no memory; they need not begin at a page."""
    data = bytes(5 * MIB) + noise(700) + bytes(3 * MIB - 700) + stamp(1) + bytes(MIB - BLOCK)
    write_file(path, data)
    copy = load(lab, path, *RAW)
    assert content(copy.path) == data
    assert copy.query().mem_used == 2 * BLOCK


def test_loop_device(lab, path):
    """losetup and mount -o loop accept it, with the file system of mkfs."""
    run("modprobe", "loop")
    ramdisk = lab.ramdisk(32 * MIB)
    run("mkfs.ext4", "-q", ramdisk.path)
    directory = lab.mount(ramdisk.path)
    write_file(os.path.join(directory, "file"), noise(MIB))
    run("umount", directory)
    ok("save", ramdisk.path, path, *RAW)
    directory = lab.mount(path, "-o", "loop")
    assert file_bytes(os.path.join(directory, "file")) == noise(MIB)
    result = rxadm("save", ramdisk.path, path, *RAW)
    assert result.returncode == BUSY and "loop device" in result.stderr
    write_file(os.path.join(directory, "file"), noise(MIB, 2))
    run("umount", directory)
    copy = load(lab, path, *RAW)
    assert run("e2fsck", "-fn", copy.path, check=False).returncode == 0
    directory = lab.mount(copy.path)
    assert file_bytes(os.path.join(directory, "file")) == noise(MIB, 2)


def test_options(lab, path):
    """The options are those of create, except for the size."""
    write_file(path, stamp(1) + bytes(MIB))
    uuid = "12345678-1234-4321-abcd-0123456789ab"
    copy = load(lab, path, *RAW, "--index", "77", "--uuid", uuid, "--node", "local")
    assert (copy.index, copy.query().uuid) == (77, uuid)
    assert load(lab, path, *RAW, "--uuid", "random").query().uuid != uuid
    blocks = lab.ramdisk(2 * MIB, logical_block_size=4096)
    ok("load", path, *RAW, "--into", blocks.path)
    assert content(blocks.path) == stamp(1) + bytes(2 * MIB - BLOCK)
    reserved = lab.ramdisk(2 * MIB, flags=CREATE_RESERVE)
    ok("load", path, "--format=raw", "--into", reserved.path)
    assert content(reserved.path) == content(blocks.path)


def test_format_is_the_default(lab, path):
    ramdisk = lab.ramdisk(MIB)
    ok("save", ramdisk.path, path, "--format", "rxd")
    assert file_bytes(path)[:8] == b"RXDIMAGE"
    ok("load", path, "--format", "rxd", "--into", ramdisk.path)


# Refusals


@pytest.mark.parametrize("size", sampled([0, 1, 511, 512, 4095, MIB + 512, MIB - 1]))
def test_sizes(lab, path, size):
    assert lab
    write_file(path, bytes(size))
    refused(PARAMETERS, "load", path, *RAW, names=(f"'{path}'", str(size), "multiple of 4096"))


def test_size_that_is_too_large(lab, path):
    assert lab
    with open(path, "wb") as file:
        os.truncate(file.fileno(), 1 << 42)
    refused(PARAMETERS, "load", path, *RAW, names=("4T", "--overcommit"))


def test_what_is_no_image(lab, path):
    """The message names the option."""
    ramdisk = lab.ramdisk(MIB)
    fill(ramdisk.path, [(0, noise(BLOCK))])
    ok("save", ramdisk.path, path, *RAW)
    words = "is not an image of a RAM disk", "--format raw"
    assert f"image '{path}'" in refused(PARAMETERS, "load", path, names=words)
    stopped(PARAMETERS, "load", "-", data=file_bytes(path), names=words)


def test_image_in_the_other_format(lab, path):
    """A disk may hold an image: it is loaded as it is, with a note."""
    ramdisk = lab.ramdisk(MIB)
    fill(ramdisk.path, [(0, noise(BLOCK))])
    ok("save", ramdisk.path, path)
    result = rxadm("load", path, *RAW)
    copy = lab.adopt_ramdisk(1)
    assert (result.returncode, result.stdout) == (0, "/dev/rxd1\n")
    assert result.stderr == (f"rxadm: load: note: image '{path}': has the format rxd; leave out "
                             "--format raw to load the disk that it holds\n")
    assert content(copy.path) == file_bytes(path)


def test_into_what_does_not_fit(lab, path):
    write_file(path, noise(2 * MIB))
    small = lab.ramdisk(MIB)
    refused(PARAMETERS, "load", path, *RAW, "--into", small.path, names=("1M", "2M", "resize"))
    held = lab.ramdisk(4 * MIB)
    fill(held.path, [(3 * MIB, stamp(1))])
    refused(BUSY, "load", path, *RAW, "--into", held.path, names=("holds data",))


@pytest.mark.parametrize("args, names", [
    (("save", "rxd0", "a", "--format", "qcow2"), ("'qcow2'", "rxd", "raw")),
    (("save", "rxd0", "a", "--format", ""), ("''",)),
    (("save", "rxd0", "a", "--format"), ("value",)),
    (("save", "rxd0", "a", "--format", "raw", "--compress", "zstd"), ("--compress", "raw")),
    (("save", "rxd0", "-", "--format", "raw", "--progress", "json"), ("'json'",)),
    (("load", "a", "--format", "RAW"), ("'RAW'",)),
    (("load", "-", "--format", "raw"), ("'-'", "raw")),
    (("load", "a", "--format", "raw", "--into", "rxd0", "--uuid", "random"), ("--into",))],
    ids=str)
def test_wrong_arguments(args, names):
    refused(PARAMETERS, *args, names=names)


def test_files(lab, folder):
    ramdisk = lab.ramdisk(MIB)
    refused(PARAMETERS, "save", ramdisk.path, folder, *RAW, names=(folder, "directory"))
    refused(PARAMETERS, "save", ramdisk.path, "/dev/null", *RAW, names=("regular",))
    refused(DEVICE, "load", f"{folder}/missing", *RAW, names=("missing", "No such file"))
    refused(PARAMETERS, "load", folder, *RAW, names=("regular",))
    refused(PARAMETERS, "load", "/dev/vdb", *RAW, names=("/dev/vdb", "regular"))


def test_full_file_system(lab):
    """The old file stays, and no other file is left."""
    directory = lab.mount("rxdtest-tmpfs", "-t", "tmpfs", "-o", "size=2m")
    ramdisk = lab.ramdisk(8 * MIB)
    image = os.path.join(directory, "image")
    fill(ramdisk.path, [(0, noise(64 * KIB))])
    ok("save", ramdisk.path, image, *RAW)
    before = file_bytes(image)
    fill(ramdisk.path, [(0, noise(8 * MIB))])
    refused(DEVICE, "save", ramdisk.path, image, *RAW, names=(f"'{image}'", "No space left"))
    assert file_bytes(image) == before
    assert os.listdir(directory) == ["image"]


def test_too_little_memory(lab, path):
    write_file(path, noise(8 * MIB))
    limited = lab.ramdisk(8 * MIB, mem_limit=6 * MIB)
    code, output, errors = stream("load", path, *RAW, "--into", limited.path)
    assert (code, output) == (MEMORY, b"") and "No space left" in errors
    assert len(errors.splitlines()) == 1
    assert content(limited.path) == bytes(8 * MIB)
    assert limited.query().mem_used == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL], ids=lambda sig: sig.name)
def test_interrupted(lab, path, sig):
    """All or nothing, for save and for load."""
    ramdisk = lab.ramdisk(64 * MIB)
    fill(ramdisk.path, [(0, noise(40 * MIB))])
    data = content(ramdisk.path)
    for wait in 0.05, 0.1, 0.2:
        with running("save", ramdisk.path, path, *RAW) as process:
            time.sleep(wait)
            process.send_signal(sig)
            code = process.wait(60)
        assert code in (0, -sig)
        assert os.listdir(os.path.dirname(path)) == (["image"] if os.path.exists(path) else [])
        if os.path.exists(path):
            assert file_bytes(path) == data
    ok("save", ramdisk.path, path, *RAW)
    ramdisk.remove()
    for wait in 0.05, 0.1, 0.2:
        with subprocess.Popen([program("rxadm"), "load", path, *RAW], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
            time.sleep(wait)
            process.send_signal(sig)
            code = process.wait(60)
        if not load_was_undone(sig, code):
            copy = lab.adopt_ramdisk(0)
            assert content(copy.path) == data
            copy.remove()
