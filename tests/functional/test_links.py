# SPDX-License-Identifier: GPL-2.0-only
"""Files that root writes: root never follows symbolic links of other users."""

import os
import shutil

import pytest

from rxdlib import direct
from rxdlib.command import as_nobody, program, run
from rxdlib.direct import MIB, stamp

pytestmark = pytest.mark.one_kernel

SOMEBODY = 1000
SWITCH = "/proc/sys/fs/protected_symlinks"


@pytest.fixture(name="unprotected", autouse=True)
def protection_of_the_kernel():
    """Off, as the kernel has it by default."""
    with open(SWITCH, "r+", encoding="ascii") as file:
        old = file.read()
        # Elsewhere it is ignored.
        file.seek(0)
        file.write("0")
        file.flush()
        file.seek(0)
        assert file.read() == "0\n"
    yield
    with open(SWITCH, "w", encoding="ascii") as file:
        file.write(old)


@pytest.fixture(name="place")
def place_of_all():
    """A folder like /tmp, and a file of root beside it."""
    top = "/tmp/links"
    os.mkdir(top)
    os.chmod(top, 0o755)
    os.mkdir(f"{top}/sticky")
    os.chmod(f"{top}/sticky", 0o1777)
    os.mkdir(f"{top}/own")
    with open(f"{top}/own/precious", "w", encoding="ascii") as file:
        file.write("precious")
    yield top
    shutil.rmtree(top)


def commands(lab):
    """Commands that write a file as root: a name, and the arguments with a path."""
    ramdisk, cache = lab.ramdisk(MIB), lab.cache(MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    return {
        "metrics": lambda path: (program("rxadm"), "metrics", "--output", path),
        "save": lambda path: (program("rxadm"), "save", ramdisk.path, path),
        "hotlist": lambda path: (program("rxadm"), "hotlist", "save", cache.name, path),
        "rxcp": lambda path: (program("rxcp"), "/etc/passwd", path),
    }


def link(path, target, owner):
    os.symlink(target, path)
    os.chown(path, owner, owner, follow_symlinks=False)


def precious(place):
    with open(f"{place}/own/precious", "rb") as file:
        return file.read() == b"precious"


def tree(place):
    return sorted(os.path.join(folder, name) for folder, folders, files in os.walk(place)
                  for name in folders + files)


@pytest.mark.parametrize("what", ["metrics", "save", "hotlist", "rxcp"])
def test_links_of_others(lab, place, what):
    """No link of another user is followed: to a file, to a folder, or through an own link."""
    write = commands(lab)[what]
    link(f"{place}/sticky/file", f"{place}/own/precious", SOMEBODY)
    link(f"{place}/sticky/new", f"{place}/own/new", SOMEBODY)
    link(f"{place}/sticky/folder", f"{place}/own", SOMEBODY)
    link(f"{place}/own/first", f"{place}/sticky/file", 0)
    link(f"{place}/own/deep", "../sticky/folder/", 0)
    before = tree(place)
    for path in "sticky/file", "sticky/new", "sticky/folder/new", "sticky/folder/precious", \
            "own/first", "own/deep/../own/new":
        result = run(*write(f"{place}/{path}"), check=False)
        assert result.returncode, path
        assert len(result.stderr.splitlines()) == 1 and f"'{place}/{path}'" in result.stderr
        assert "link" in result.stderr and "another user" in result.stderr
        assert tree(place) == before and precious(place)


@pytest.mark.parametrize("what", ["metrics", "save", "hotlist", "rxcp"])
def test_links_of_ones_own(lab, place, what):
    """Own links are followed and their targets replaced; a file of another user is replaced."""
    write = commands(lab)[what]
    link(f"{place}/sticky/file", "../own/there/./precious", 0)
    link(f"{place}/own/there", f"{place}//own/", 0)
    run(*write(f"{place}/sticky/file"))
    assert not precious(place) and os.path.islink(f"{place}/sticky/file")
    assert sorted(os.listdir(f"{place}/own")) == ["precious", "there"]
    run(*write(f"{place}/own/there/new"))
    assert os.path.isfile(f"{place}/own/new")
    with open(f"{place}/sticky/taken", "w", encoding="ascii") as file:
        os.chown(file.fileno(), SOMEBODY, SOMEBODY)
        run(*write(f"{place}/sticky/taken"))
        assert not os.fstat(file.fileno()).st_size
    # rxcp keeps the owner of the file, as cp does.
    assert os.stat(f"{place}/sticky/taken").st_uid == (SOMEBODY if what == "rxcp" else 0)
    link(f"{place}/own/a", "b", 0)
    link(f"{place}/own/b", "a", 0)
    link(f"{place}/own/nowhere", "gone", 0)
    folders = () if what == "rxcp" else ("", "there", "there/")     # it copies into them
    for path in "a", "a/b", "nowhere", "gone/file", "precious/file", *folders:
        result = run(*write(f"{place}/own/{path}"), check=False)
        assert result.returncode and len(result.stderr.splitlines()) == 1, path
        assert ("a symbolic link to a missing file" in result.stderr) == (path == "nowhere")
    assert sorted(os.listdir(f"{place}/own")) == ["a", "b", "new", "nowhere", "precious", "there"]


def test_copies_into_folders(place):
    """If links of others lead neither to the folder nor to its files, all files are copied."""
    sources = [f"{place}/first", f"{place}/second"]
    for path in sources:
        with open(path, "w", encoding="ascii") as file:
            file.write(path)
    link(f"{place}/sticky/theirs", f"{place}/own", SOMEBODY)
    link(f"{place}/sticky/ours", "../own/.", 0)
    link(f"{place}/sticky/first", f"{place}/own/precious", SOMEBODY)
    before = tree(place)
    for folder in "sticky/theirs", "sticky/theirs/", "sticky/theirs/../own":
        result = run(program("rxcp"), *sources, f"{place}/{folder}", check=False)
        assert result.returncode == 1 and "another user" in result.stderr, folder
        assert f"'{place}/{folder}'" in result.stderr and len(result.stderr.splitlines()) == 1
        assert tree(place) == before and precious(place)
    # Only the file whose name is the link is refused.
    result = run(program("rxcp"), *sources, f"{place}/sticky", check=False)
    assert result.returncode == 1 and f"'{place}/sticky/first'" in result.stderr
    assert "another user" in result.stderr and len(result.stderr.splitlines()) == 1
    assert precious(place) and os.path.isfile(f"{place}/sticky/second")
    # A link of the caller in the folder is followed to any target.
    link(f"{place}/own/first", "../first-copy", 0)
    run("touch", f"{place}/first-copy")
    run(program("rxcp"), *sources, f"{place}/sticky/ours")
    assert os.path.islink(f"{place}/own/first")
    for path, source in (("first-copy", sources[0]), ("own/second", sources[1])):
        with open(f"{place}/{path}", encoding="ascii") as file:
            assert file.read() == source


def test_links_to_devices(lab, place):
    """rxcp writes to a block device only if no link of another user leads to it."""
    ramdisk, cache = lab.ramdisk(MIB), lab.cache(MIB)
    old, new = stamp(1), stamp(2)
    source = f"{place}/own/source"
    with open(source, "wb") as file:
        file.write(new)
    link(f"{place}/sticky/out.img", ramdisk.path, SOMEBODY)
    link(f"{place}/sticky/dev", "/dev", SOMEBODY)
    link(f"{place}/own/first", f"{place}/sticky/out.img", 0)
    direct.write(ramdisk.path, 0, old)
    for path in "sticky/out.img", f"sticky/dev/{os.path.basename(ramdisk.path)}", "own/first":
        result = run(program("rxcp"), source, f"{place}/{path}", check=False)
        assert result.returncode == 1, path
        assert f"'{place}/{path}'" in result.stderr and "another user" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert direct.read(ramdisk.path, 0, len(old)) == old
    link(f"{place}/own/by-id", ramdisk.path, 0)
    link(f"{place}/own/mapped", f"/dev/mapper/{cache.name}", 0)
    for path, device in (f"{place}/own/by-id", ramdisk.path), \
            (f"{place}/own/mapped", f"/dev/mapper/{cache.name}"), (ramdisk.path, ramdisk.path):
        direct.write(device, 0, old)
        run(program("rxcp"), source, path)
        assert direct.read(device, 0, len(new)) == new
    link(f"{place}/own/null", "/dev/null", 0)
    result = run(program("rxcp"), source, f"{place}/own/null", check=False)
    assert result.returncode == 1 and "regular file" in result.stderr


def test_who_is_not_root(place):
    """A user who is not root follows the links that the kernel permits."""
    link(f"{place}/sticky/to", "there", SOMEBODY)
    os.mkdir(f"{place}/sticky/there")
    os.chmod(f"{place}/sticky/there", 0o777)
    as_nobody(program("rxcp"), "/etc/passwd", f"{place}/sticky/to/copy")
    assert os.path.isfile(f"{place}/sticky/there/copy")
