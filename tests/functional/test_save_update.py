# SPDX-License-Identifier: GPL-2.0-only
"""rxadm save --update: only changes are written, and the image is whole at every moment."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from rxdlib import direct
from rxdlib.command import ENVIRONMENT, program, run, rxadm
from rxdlib.control import CREATE_RESERVE, STATE_RESERVED, Control
from rxdlib.direct import BLOCK, KIB, MIB, Direct, stamp
from rxdlib.outcome import ok, refused
from rxdlib.sampled import long, sampled
from rxdlib.stacks import wait_for
from rxdlib.traced import TRACED, held_at, let_go, status

PARAMETERS, PERMISSION, MEMORY, DEVICE, BUSY = 1, 2, 3, 4, 5
SIZE = 16 * MIB
GIB = 1024 * MIB
TIB = 1024 * GIB
SAVED = re.compile(r"rxadm: save: (\S+): (\S+ ?\S*) of (\S+ ?\S*) (changed|hold data), saved to "
                   r"'([^']+)' as generation (\d+)\n")
NOTHING = "nothing has changed since generation"


def content(path):
    """The checksum of a file or disk: pytest would take long to explain how two of them differ."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def update(ramdisk, path, *options):
    """Update an image. Returns whether only changes were written, and the generation."""
    result = rxadm("save", "--update", ramdisk.path, path, *options)
    found = SAVED.fullmatch(result.stderr)
    assert result.returncode == 0 and result.stdout == "" and found, result
    return found[4] == "changed", int(found[6])


def unchanged(ramdisk, path):
    """Update an image; nothing is written."""
    before = content(path), os.stat(path).st_mtime_ns
    result = rxadm("save", "--update", ramdisk.path, path)
    assert result.returncode == 0 and NOTHING in result.stderr, result
    assert before == (content(path), os.stat(path).st_mtime_ns)


def load(lab, *args):
    """Load into a new disk; returns it."""
    made = ok("load", *args).split()[-1]
    return lab.adopt_ramdisk(int(made[len("/dev/rxd"):]))


def loaded(lab, path, *options):
    """Returns the data of an image. The RAM disk is gone then."""
    copy = load(lab, path, "--uuid", "random", *options)
    data = content(copy.path)
    copy.remove()
    return data


@pytest.fixture(name="source")
def fixture_source(lab):
    """A RAM disk with 4 MiB of data."""
    ramdisk = lab.ramdisk(SIZE)
    for at in range(4):
        direct.write(ramdisk.path, at * MIB, stamp(at, MIB))
    return ramdisk


def test_update(lab, source, path):
    """Each update writes what has changed; a load has it all."""
    assert update(source, path) == (False, 1)
    unchanged(source, path)
    for number in range(2, 5):
        with Direct(source.path) as disk:
            disk.write(number * 2 * MIB, stamp(100 + number, 64 * KIB))
            disk.discard(number * 512 * KIB, 16 * KIB)
            disk.write(8 * BLOCK * number, bytes(BLOCK))
        length = os.path.getsize(path)
        assert update(source, path) == (True, number)
        assert os.path.getsize(path) <= length + 1.1 * 84 * KIB + 64 * KIB
        unchanged(source, path)
        assert loaded(lab, path) == content(source.path)
    ok("remove", source.path, "--dry-run")


@pytest.mark.one_kernel
def test_reserved(lab, path):
    """All memory of the disk is allocated, but only what has changed is written."""
    source = lab.ramdisk(SIZE, flags=CREATE_RESERVE)
    direct.write(source.path, 0, stamp(1, 4 * MIB))
    assert update(source, path) == (False, 1)
    unchanged(source, path)
    for number in range(2, 5):
        length = os.path.getsize(path)
        with Direct(source.path) as disk:
            disk.write(number * 2 * MIB, stamp(100 + number, 64 * KIB))
            disk.zero_out(number * 512 * KIB, 16 * KIB)
            assert update(source, path, "--no-freeze") == (True, number)
        assert os.path.getsize(path) <= length + 1.1 * 80 * KIB + 64 * KIB
        unchanged(source, path)
        assert loaded(lab, path) == content(source.path)
    with Control() as control:
        assert [disk.index for disk in control.query_all()] == [source.index]
    golden = content(source.path)
    ok("remove", source.path)
    copy = load(lab, path)
    assert copy.query().state == STATE_RESERVED and content(copy.path) == golden
    direct.write(copy.path, 0, stamp(5))
    assert update(copy, path) == (True, 5)


def test_mounted(lab, path):
    """Files change on a mounted file system; each image has those that were synced."""
    source = lab.ramdisk(64 * MIB)
    run("mkfs.ext4", "-q", source.path)
    directory = lab.mount(source.path)
    for number in range(1, 5):
        for name in range(number):
            with open(os.path.join(directory, str(name)), "wb") as file:
                file.write(stamp(number, MIB))
        assert update(source, path, "--keep", "2") == (number > 1, number)
    result = rxadm("save", "--update", source.path, path)
    assert result.returncode == 0, result
    run("umount", directory)
    ok("remove", source.path, "--force")
    copy = load(lab, path)
    run("e2fsck", "-fn", copy.path)
    directory = lab.mount(copy.path)
    for name in range(4):
        assert content(os.path.join(directory, str(name))) == hashlib.sha256(
            stamp(4, MIB)).hexdigest()
    with open(os.path.join(directory, "0"), "wb") as file:
        file.write(stamp(5, MIB))
    # The first update after a load is short, too.
    assert update(copy, path)[0]
    run("umount", directory)


@pytest.mark.one_kernel
def test_generations(lab, source, path):
    """--keep; an older state is loaded and saved; a plain save, and an update after it."""
    states = {}
    for number in range(1, 6):
        direct.write(source.path, number * 2 * MIB, stamp(number, 256 * KIB))
        states[number] = content(source.path)
        assert update(source, path, "--keep", "3") == (number > 1, number)
    for number in 3, 4, 5:
        assert loaded(lab, path, "--generation", str(number)) == states[number]
    refused(PARAMETERS, "load", path, "--generation", "2", names=("no generation 2", "3, 4, 5"))
    lines = ok("load", path, "--list").splitlines()
    assert [line.split()[0] for line in lines] == ["GENERATION", "3", "4", "5"]
    found = json.loads(ok("load", path, "--list", "--json"))["generations"]
    assert [entry["generation"] for entry in found] == [3, 4, 5]
    assert [entry["data"] for entry in found] == [
        4 * MIB + max(0, number - 1) * 256 * KIB for number in (3, 4, 5)]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"])
               for entry in found)
    source.remove()

    older = load(lab, path, "--generation", "3")
    direct.write(older.path, 0, stamp(99, MIB))
    states[6] = content(older.path)
    assert update(older, path, "--keep", "3") == (False, 6)
    for number in 4, 5, 6:
        assert loaded(lab, path, "--generation", str(number)) == states[number]
    assert update_after(older, path, 7 * MIB) == (True, 7)
    refused(PARAMETERS, "load", path, "--generation", "6", names="it has 7")

    ok("save", older.path, path)
    refused(PARAMETERS, "load", path, "--generation", "1", names="no generations")
    assert update(older, path) == (False, 1)
    assert update_after(older, path, 9 * MIB) == (True, 2)
    assert loaded(lab, path) == content(older.path)


@pytest.mark.one_kernel
def test_replaced_generations(source, path):
    """A save without --update says how many it drops, unless there is only one."""
    for number in range(1, 4):
        direct.write(source.path, number * MIB, stamp(70 + number))
        update(source, path, "--keep", "3")
    result = rxadm("save", source.path, path)
    assert (result.returncode, result.stdout, result.stderr) == (
        0, "", f"rxadm: save: note: file '{path}': its 3 generations are replaced by one image; "
        "--update --keep N keeps them\n")
    ok("save", source.path, path)
    assert update(source, path) == (False, 1)
    ok("save", source.path, path)


def spare_copy(path):
    """A copy of an image, as of a backup."""
    return shutil.copyfile(path, path + ".copy")


@pytest.mark.one_kernel
def test_older_copy_loaded_into(lab, source, path):
    """What is loaded into the disk again is an earlier state: the image must not miss that."""
    update(source, path)
    first = content(source.path)
    copy = spare_copy(path)
    direct.write(source.path, 6 * MIB, stamp(6, MIB))
    assert update(source, path) == (True, 2)
    ok("clear", source.path)
    ok("load", copy, "--into", source.path)
    assert content(source.path) == first
    assert update(source, path)[1] == 3
    assert loaded(lab, path) == first
    ok("clear", source.path)
    ok("load", path, "--into", source.path)
    assert update_after(source, path, 9 * MIB) == (True, 4)
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_two_images(lab, source, path):
    """Two images take turns, and one is restored from a backup."""
    other = path + ".other"
    for number in range(1, 4):
        direct.write(source.path, number * MIB, stamp(20 + number))
        assert update(source, path) == (False, number)
        if number == 2:
            copy = spare_copy(path)
        direct.write(source.path, 8 * MIB, stamp(30 + number))
        assert update(source, other)[1] == number
        assert loaded(lab, other) == content(source.path)
    os.rename(copy, path)
    assert update(source, path) == (False, 3)
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_truncated(lab, source, path):
    """An image that was not copied to its end does not grow by changes to what is missing."""
    update(source, path)
    length = os.path.getsize(path)
    for rest in length - BLOCK, 3 * BLOCK, 2 * BLOCK:
        os.truncate(path, rest)
        refused(PARAMETERS, "load", "--uuid", "random", path,
                names=f"is truncated at byte {rest}")
        direct.write(source.path, 8 * MIB, stamp(rest))
        update(source, path)
        assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_damaged(lab, source, path):
    """Damage of what the newest state needs is found in time, and the whole disk is saved."""
    update(source, path)
    with open(path, "r+b") as file:
        file.seek(2 * BLOCK + 100)
        file.write(b"damage")
    direct.write(source.path, 8 * MIB, stamp(1, 2 * MIB))
    result = rxadm("save", "--update", source.path, path)
    assert result.returncode == 0 and "is damaged" in result.stderr, result
    assert update_after(source, path, 7 * MIB) == (False, 3)
    assert loaded(lab, path) == content(source.path)
    assert update_after(source, path, 9 * MIB) == (True, 4)
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_locked_by_others(lab, source, path):
    """A lock that another program holds on an image of version 1 does not delay its load."""
    ok("save", source.path, path)
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert loaded(lab, path) == content(source.path)


def held_update(tmp_path, source, path, call):
    """An update that is held as it begins its first system call of a kind."""
    return held_at(tmp_path / "log", call, "save", "--update", source.path, path, "--progress",
                   "none")


@pytest.mark.one_kernel
@pytest.mark.parametrize("version", [*long([1]), 2])
def test_replaced_meanwhile(source, tmp_path, path, version):
    """A file that takes the image's place during an update stays, and nothing counts as saved."""
    if version == 1:
        ok("save", source.path, path)
    else:
        update(source, path)
    direct.write(source.path, 0, stamp(7, 6 * MIB))
    with held_update(tmp_path, source, path, "fdatasync") as process:
        with open(path + ".new", "wb") as file:
            file.write(b"another file")
        os.rename(path + ".new", path)
        let_go(process)
        text = process.communicate(timeout=120)[1]
    assert os.path.getsize(path) == len(b"another file")
    assert process.returncode and "replaced" in text, text
    refused(BUSY, "remove", source.path, names="not saved")


@pytest.mark.one_kernel
def test_loaded_meanwhile(lab, source, tmp_path, path):
    """If the disk gets older data during an update, the next update writes all of it."""
    update(source, path)
    older = shutil.copyfile(path, path + ".older")
    direct.write(source.path, 0, stamp(7, 6 * MIB))
    with held_update(tmp_path, source, path, "fdatasync") as process:
        ok("clear", "--force", source.path)
        ok("load", older, "--into", source.path)
        let_go(process)
        text = process.communicate(timeout=120)[1]
    assert process.returncode == 0, text
    direct.write(source.path, 8 * MIB, stamp(8, MIB))
    assert update(source, path) == (False, 3)
    assert loaded(lab, path) == content(source.path)


def assert_new_image(source, path, reason):
    """Update a file that must stay as it is: a note says why a new image begins."""
    result = rxadm("save", "--update", source.path, path)
    assert result.returncode == 0 and result.stderr.endswith("as generation 1\n"), result
    assert f"rxadm: save: note: file '{path}': is replaced by an image with" in result.stderr
    assert reason in result.stderr


@pytest.mark.one_kernel
def test_files_that_stay(lab, source, folder, path):
    """A hard link is a backup. A file of another user in a sticky folder is not to be trusted."""
    update(source, path)
    backup = os.path.join(folder, "backup")
    os.link(path, backup)
    before = content(backup)
    direct.write(source.path, 6 * MIB, stamp(6, MIB))
    assert_new_image(source, path, "hard link")
    assert content(backup) == before
    assert update_after(source, path, 7 * MIB) == (True, 2)

    sticky = os.path.join(folder, "sticky")
    os.mkdir(sticky)
    os.chmod(sticky, 0o1777)
    trap = os.path.join(sticky, "image")
    os.rename(backup, trap)
    os.chown(trap, 1000, 1000)
    with open(trap, "rb") as file:
        direct.write(source.path, 8 * MIB, stamp(8, MIB))
        assert_new_image(source, trap, "another user")
        assert hashlib.sha256(file.read()).hexdigest() == before
    assert os.stat(trap).st_uid == 0
    assert update_after(source, trap, 9 * MIB) == (True, 2)
    assert loaded(lab, trap) == content(source.path)
    shutil.rmtree(sticky)


@pytest.mark.one_kernel
def test_large_disk(lab, path):
    """The memory that an update takes is for what is there."""
    source = lab.ramdisk(TIB, overcommit=True)
    for number in range(1, 3):
        direct.write(source.path, number * 300 * GIB, stamp(number, 2 * MIB))
        if number == 1:
            assert update(source, path) == (False, 1)
    # What this process has needed would count for its child, so a small one starts rxadm.
    measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    used = int(run(sys.executable, "-c", measure, program("rxadm"), "save", "--update",
                   source.path, path).stdout)
    assert used < 150 * KIB


def update_after(ramdisk, path, at):
    direct.write(ramdisk.path, at, stamp(at))
    return update(ramdisk, path)


@pytest.mark.one_kernel
def test_compressed(lab, source, path):
    assert update(source, path, "--compress", "zstd") == (False, 1)
    direct.write(source.path, 5 * MIB, b"text" * MIB)
    assert update(source, path, "--compress", "zstd") == (True, 2)
    direct.write(source.path, 6 * MIB, stamp(1, 64 * KIB))
    assert update(source, path) == (True, 3)
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
@pytest.mark.parametrize("kind", [
    "tmpfs", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("ext4", "xfs", "btrfs"))])
@pytest.mark.parametrize("options", [
    (), *(pytest.param(options, marks=pytest.mark.long)
          for options in (("--keep", "3"), ("--compress", "zstd")))], ids=" ".join)
def test_file_stays_short(lab, source, kind, options):
    """What no generation needs leaves the file, which takes 1.2 times its data at most."""
    if kind == "tmpfs":
        folder = lab.mount("rxdtest-short", "-t", "tmpfs")
    else:
        device = lab.loop(512 * MIB)
        run(f"mkfs.{kind}", "-q", device)
        folder = lab.mount(device)
    path = os.path.join(folder, "image")
    update(source, path, *options)
    for number in range(100):
        direct.write(source.path, number % 4 * MIB, stamp(1000 + number, MIB))
        update(source, path, *options)
        data = (4 + min(number + 1, 2 if "--keep" in options else 0)) * MIB
        assert os.stat(path).st_blocks * 512 <= 1.2 * data, number
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_no_space_to_rewrite(lab):
    """A file that cannot be made shorter is updated, and the next update does not try again."""
    source = lab.ramdisk(SIZE)
    direct.write(source.path, 0, stamp(1, MIB))
    path = os.path.join(lab.mount("rxdtest-short", "-t", "tmpfs", "-o", "size=2M"), "image")
    update(source, path)
    for number in range(40):
        direct.write(source.path, number * BLOCK, stamp(100 + number))
        result = rxadm("save", "--update", source.path, path)
        assert result.returncode == 0, result
        if "cannot be made shorter: No space left" in result.stderr:
            break
    assert "cannot be made shorter" in result.stderr
    for number in range(3):
        direct.write(source.path, number * BLOCK, stamp(200 + number))
        assert update(source, path)[0]
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_folder_that_cannot_be_synced(lab, path):
    """The file was rewritten and has the path: the disk counts as saved to it."""
    source = lab.ramdisk(SIZE)
    direct.write(source.path, 0, stamp(1, MIB))
    environment = {**ENVIRONMENT,
                   "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    update(source, path)
    for number in range(60):
        direct.write(source.path, number * BLOCK, stamp(100 + number))
        # The first fsync() is that of the new file.
        result = run("strace", "-o", "/dev/null", "-e", "trace=fsync", "-e",
                     "inject=fsync:error=EIO:when=2", program("rxadm"), "save", "--update",
                     source.path, path, environment=environment)
        if "is saved, but its folder cannot be synced: Input/output error" in result.stderr:
            break
    assert "cannot be synced" in result.stderr
    expected = content(source.path)
    ok("remove", source.path)
    assert loaded(lab, path) == expected


@pytest.mark.one_kernel
def test_damage_that_a_rewrite_finds(lab, path):
    """The next update saves the whole disk, and does not need what is damaged."""
    source = lab.ramdisk(SIZE)
    direct.write(source.path, 0, stamp(1, MIB))
    direct.write(source.path, 8 * MIB, stamp(77))
    update(source, path)
    with open(path, "r+b") as image:
        position = image.read().index(stamp(77))
        image.seek(position + 100)
        image.write(b"damaged")
    for number in range(60):
        direct.write(source.path, number * BLOCK, stamp(100 + number))
        result = rxadm("save", "--update", source.path, path, check=True)
        if "the next update saves the whole disk" in result.stderr:
            break
    assert "is damaged" in result.stderr and "saves the whole disk" in result.stderr
    direct.write(source.path, 0, stamp(5))
    assert "hold data" in rxadm("save", "--update", source.path, path, check=True).stderr
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_bad_input(lab, source, folder, path):
    """One line, and everything stays."""
    update(source, path)
    for options, names in ((("--keep", "0"), "keep '0'"), (("--keep", "65"), "keep '65'"),
                           (("--format", "raw"), "exclude")):
        refused(PARAMETERS, "save", "--update", source.path, path, *options, names=names)
    refused(PARAMETERS, "save", "--keep", "2", source.path, path, names="--update")
    refused(PARAMETERS, "save", "--update", source.path, "-", names=("--update", "needs a file"))
    # On a terminal, too.
    result = run("script", "-qec", f"{program('rxadm')} save --update {source.path} -",
                 "/dev/null", check=False)
    assert result.returncode == PARAMETERS and "option --update: needs a file" in result.stdout
    refused(PARAMETERS, "load", path, "--json", names=("--json", "--list"))
    refused(PARAMETERS, "load", path, "--generation", "0", names="generation '0'")
    refused(PARAMETERS, "load", path, "--format", "raw", "--generation", "1", names="exclude")
    with open(path, "rb") as image:
        result = subprocess.run([program("rxadm"), "load", "-"], stdin=image, env=ENVIRONMENT,
                                capture_output=True, text=True, check=False)
    assert result.returncode == PARAMETERS and "from a file" in result.stderr, result

    other = lab.ramdisk(SIZE)
    before = content(path)
    refused(PARAMETERS, "save", "--update", other.path, path, names="another disk")
    plain = os.path.join(folder, "plain")
    ok("save", other.path, plain)
    refused(PARAMETERS, "save", "--update", source.path, plain, names="another disk")
    refused(PARAMETERS, "load", plain, "--list", names="no generations")
    with open(plain, "wb") as file:
        file.write(b"no image")
    refused(PARAMETERS, "save", "--update", source.path, plain, names="not an image")
    refused(PARAMETERS, "save", "--update", source.path, folder, names="directory")
    run("modprobe", "loop")
    loop = run("losetup", "--find", "--show", path).stdout.strip()
    try:
        refused(BUSY, "save", "--update", source.path, path, names="loop device")
    finally:
        run("losetup", "--detach", loop)
    refused(PARAMETERS, "load", plain, "--list", names="not an image")
    for options in ("--into", source.path), ("--generation", "1"), ("--format", "raw"):
        refused(PARAMETERS, "load", path, "--list", *options, names="--list")
    refused(PARAMETERS, "load", "-", "--list", names="'-'")
    assert content(path) == before

    link = os.path.join(folder, "link")
    os.symlink(path, link)
    direct.write(source.path, 0, stamp(5))
    assert update(source, link) == (True, 2)
    assert os.path.islink(link) and content(path) != before


@pytest.mark.one_kernel
def test_torn_head(lab, source, path):
    """Either head may be damaged; the other one counts, and a line says so."""
    update(source, path)
    first = content(source.path)
    direct.write(source.path, 0, stamp(7, 64 * KIB))
    update(source, path, "--keep", "2")
    second = content(source.path)
    with open(path, "rb") as file:
        image = file.read()
    for slot, wanted in (0, second), (1, first):
        number = 2 - slot
        with open(path, "wb") as file:
            file.write(image)
            file.seek(slot * BLOCK + 100)
            file.write(b"torn")
        for command in ("load", path, "--uuid", "random"), ("load", path, "--list"):
            result = rxadm(*command)
            assert result.returncode == 0 and len(result.stderr.splitlines()) == 1, result
            assert f"newest generation is now {number}, saved 2" in result.stderr, result
            assert ("a newer one may be lost" in result.stderr) == (slot == 1), result
            if "--list" not in command:
                copy = lab.adopt_ramdisk(int(result.stdout.strip()[len("/dev/rxd"):]))
                assert content(copy.path) == wanted
                copy.remove()
        if slot:
            direct.write(source.path, BLOCK, stamp(8))
        result = rxadm("save", "--update", source.path, path, "--keep", "2")
        assert result.returncode == 0 and "heads is damaged" in result.stderr, result
        # If anything was written, the update has mended the head.
        assert ("damaged" in rxadm("load", path, "--list").stderr) == (NOTHING in result.stderr)
    with open(path, "r+b") as file:
        for slot in 0, 1:
            file.seek(slot * BLOCK + 100)
            file.write(b"torn")
    result = rxadm("load", path)
    assert result.returncode == PARAMETERS and "is damaged" in result.stderr, result


@pytest.mark.one_kernel
def test_new_image_has_one_head(source, path):
    """That it has no second one yet is no damage, but what a torn first update leaves is."""
    update(source, path)
    assert rxadm("load", path, "--list").stderr == ""
    with open(path, "r+b") as file:
        file.seek(BLOCK)
        file.write(b"torn")
    assert "newest generation is now 1, saved" in rxadm("load", path, "--list").stderr


def interrupted(source, path, *inject):
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={inject[0]}",
               "-e", ":".join(("inject=" + inject[0],) + inject[1:]),
               program("rxadm"), "save", "--update", source.path, path]
    return subprocess.run(command, env=TRACED, capture_output=True, text=True, check=False)


IOCTLS = {"clone": "0xb7, 0x6,", "track": "0xb7, 0x8,", "remove": "0xb7, 0x2,"}


def place_of_ioctl(tmp_path, source, path, name):
    """Which ioctl of its thread it is in an update of the same kind."""
    log = tmp_path / "log"
    run("strace", "-f", "-o", log, "-e", "trace=ioctl", program("rxadm"), "save", "--update",
        source.path, path, environment=TRACED)
    lines = [line for line in log.read_text().splitlines() if "ioctl(" in line]
    wanted = next(line for line in lines if IOCTLS[name] in line)
    of_thread = [line for line in lines if line.split()[0] == wanted.split()[0]]
    return of_thread.index(wanted) + 1


def disks():
    with Control() as control:
        return [disk.index for disk in control.query_all()]


@pytest.mark.one_kernel
@pytest.mark.parametrize("call, when", sampled([
    ("pwrite64", 1), ("pwrite64", 2), ("pwrite64", 3), ("fdatasync", 1), ("fdatasync", 2),
    ("fallocate", 1), *(("ioctl", name) for name in IOCTLS)]))
def test_killed(lab, source, tmp_path, path, call, when):
    """The image has the old or the new state, and the next update is short."""
    update(source, path)
    number = when
    if call == "ioctl":
        direct.write(source.path, 0, stamp(6, 6 * MIB))
        number = place_of_ioctl(tmp_path, source, path, when)
    # Not each update calls fallocate() to make the file shorter.
    for seed in range(7, 27):
        old = content(source.path)
        direct.write(source.path, 0, stamp(seed, 6 * MIB))
        result = interrupted(source, path, call, f"signal=KILL:when={number}")
        if call != "fallocate" or result.returncode:
            break
    assert result.returncode == -signal.SIGKILL, result
    found, new = loaded(lab, path), content(source.path)
    if call == "ioctl":
        assert (len(disks()), found) == ((1, old) if when == "clone" else (2, new))
    assert found == new or (found == old and call != "fallocate")
    direct.write(source.path, 10 * MIB, stamp(8))
    assert update(source, path)[0]
    assert loaded(lab, path) == content(source.path)
    assert disks() == [source.index]


@pytest.mark.one_kernel
@pytest.mark.parametrize("number, is_new", [
    (signal.SIGTERM, False), (signal.SIGINT, True),
    *long([(signal.SIGINT, False), (signal.SIGTERM, True)])])
def test_signal(lab, source, tmp_path, folder, path, number, is_new):
    """What was begun is undone, and no clone is left."""
    before = None
    if not is_new:
        update(source, path)
        before = content(path)
        direct.write(source.path, 0, stamp(7, 6 * MIB))
    with held_update(tmp_path, source, path, "pwrite64") as process:
        process.send_signal(number)
        wait_for(lambda: status(process)[:2] == ("S", 0), "taking of the signal")
        let_go(process)
        errors = process.communicate(timeout=120)[1]
        assert process.returncode == -number and len(errors.splitlines()) <= 1, errors
    assert os.listdir(folder) == ([] if is_new else ["image"])
    assert is_new or content(path) == before
    assert disks() == [source.index]
    assert not [name for name in os.listdir("/run/rxadm") if name.startswith("save-")]
    assert update(source, path) == (not is_new, 2 - is_new)
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
@pytest.mark.parametrize("call, when", [("pwrite64", 2), *long([("fdatasync", 1)])])
def test_no_space(lab, source, path, call, when):
    """What was appended is cut off; the changes are not lost."""
    update(source, path)
    before = content(path)
    old = content(source.path)
    direct.write(source.path, 0, stamp(7, 6 * MIB))
    result = interrupted(source, path, call, f"error=ENOSPC:when={when}")
    assert result.returncode and "No space left on device; nothing was saved" in result.stderr, \
        result
    assert content(path) == before and loaded(lab, path) == old
    assert update(source, path) == (True, 2)
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
def test_two_at_once(lab, source, path):
    """They wait for each other."""
    update(source, path)
    direct.write(source.path, 0, stamp(7, 6 * MIB))
    command = [program("rxadm"), "save", "--update", source.path, path]
    both = [subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]
    texts = sorted(process.communicate(timeout=120)[1] for process in both)
    assert [process.returncode for process in both] == [0, 0], texts
    assert sum(NOTHING in text for text in texts) == 1
    assert loaded(lab, path) == content(source.path)


@pytest.mark.one_kernel
@pytest.mark.parametrize("options, is_new", [((), True), *long([(("--update",), True)]),
                                             (("--update",), False)],
                         ids=["save", "update-of-none", "update"])
def test_two_disks_at_once(lab, source, path, options, is_new):
    """The image is that of one of them, and whole."""
    other = lab.ramdisk(SIZE)
    direct.write(other.path, 0, stamp(50, 5 * MIB))
    if not is_new:
        update(source, path)
        direct.write(source.path, 0, stamp(7, 6 * MIB))
    # This makes it likely that both have begun before either of them writes.
    command = ["strace", "-f", "-o", "/dev/null", "-e", "trace=pwrite64", "-e",
               "inject=pwrite64:delay_enter=500ms:when=1", program("rxadm"), "save", *options]
    both = [(disk, subprocess.Popen([*command, disk.path, path], env=TRACED, text=True,
                                    stderr=subprocess.PIPE)) for disk in (source, other)]
    texts = [process.communicate(timeout=300)[1] for _, process in both]
    found = loaded(lab, path)
    saved = [(disk, process) for disk, process in both if content(disk.path) == found]
    assert len(saved) == 1 and saved[0][1].returncode == 0, texts
    assert is_new or saved[0][0] == source
    ok("remove", saved[0][0].path, "--dry-run")
    for (disk, process), text in zip(both, texts):
        lines = [line for line in text.splitlines() if "waiting until" not in line]
        assert len(lines) <= 1, text
        if process.returncode:
            assert f"file '{path}'" in text, text
            refused(BUSY, "remove", disk.path, names="was not saved")
    assert not options or [process.returncode for _, process in both].count(0) == 1, texts
