# SPDX-License-Identifier: GPL-2.0-only
"""rxcp to a file, if system calls or other names of the file cause trouble."""

import errno
import os
import subprocess

import pytest

MIB = 1 << 20
pytestmark = pytest.mark.machine

FICLONE = r"""
#include <dlfcn.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Share this many bytes, and fail or not. */
int ioctl(int fd, unsigned long request, ...)
{
    int length = atoi(getenv("SHARED"));
    static char data[4 << 20];

    memset(data, 'x', length);
    if (request != FICLONE || pwrite(fd, data, length, 0) != length)
        abort();
    errno = atoi(getenv("ERRNO"));
    return errno ? -1 : 0;
}

int ftruncate(int fd, off_t size)
{
    int (*real)(int, off_t) = dlsym(RTLD_NEXT, "ftruncate64");

    if (!getenv("BROKEN"))
        return real(fd, size);
    errno = EIO;
    return -1;
}
"""


@pytest.fixture
def files(tmp_path):
    return tmp_path / "source", tmp_path / "copy"


def share(rxcp, environment, files, shared, error, **more):
    result = subprocess.run([rxcp, *files], check=False, capture_output=True, text=True, env={
        **environment, "SHARED": str(shared), "ERRNO": str(error), **more})
    return result.returncode, result.stderr


def test_shared_too_much(rxcp, preload, files):
    """FICLONE also shares what was appended after the source was opened."""
    files[0].write_bytes(b"x" * MIB)
    assert share(rxcp, preload(FICLONE), files, MIB + 3, 0) == (0, "")
    assert files[1].read_bytes() == b"x" * MIB


@pytest.mark.parametrize("error", [errno.EIO, errno.EXDEV, errno.EINVAL],
                         ids=errno.errorcode.get)
@pytest.mark.parametrize("shared", [0, MIB, 3 * MIB])
def test_shared_in_part(rxcp, preload, files, shared, error):
    """What FICLONE has shared before it failed is not part of the copy."""
    with open(files[0], "wb") as file:
        file.seek(MIB)
        file.write(b"data" * (MIB // 4))
    assert share(rxcp, preload(FICLONE), files, shared, error) == (0, "")
    assert files[1].read_bytes() == bytes(MIB) + b"data" * (MIB // 4)


@pytest.mark.parametrize("shared, error", [(MIB + 3, 0), (MIB - 3, 0), (MIB - 3, errno.EIO)])
def test_shared_part_stays(rxcp, preload, files, shared, error):
    """If it cannot be removed, there is no copy."""
    files[0].write_bytes(b"x" * MIB)
    code, err = share(rxcp, preload(FICLONE), files, shared, error, BROKEN="1")
    assert (code, err) == (1, f"rxcp: destination '{files[1]}': cannot be written at byte 0: "
                              "Input/output error\n")
    assert not files[1].exists()


def test_names_do_not_control_the_terminal(rxcp, tmp_path):
    source = tmp_path / "a\033[31mb\n"
    source.write_text("data")
    done = subprocess.run([rxcp, "-g", "-v", source, tmp_path / "c\td"], check=True,
                          capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == f"{tmp_path}/a?[31mb? -> {tmp_path}/c?d"
    assert f"{tmp_path}/a?[31mb?   0% [" in done.stderr


@pytest.fixture
def folders(tmp_path):
    """Sources, and where their copies go."""
    for name in "from", "to":
        (tmp_path / name).mkdir()
    for name in "a", "b", "c":
        (tmp_path / "from" / name).write_text(name)
    return tmp_path / "from", tmp_path / "to"


def copy_to(rxcp, folders, names):
    source, target = folders
    result = subprocess.run([rxcp, *(source / name for name in names), target], check=False,
                            capture_output=True, text=True)
    assert result.stdout == ""
    return result.returncode, result.stderr


@pytest.mark.parametrize("names, old", [("abc", True), ("bac", True), ("cba", True),
                                        ("bac", False), ("cba", False)])
def test_two_names_of_one_file(rxcp, folders, names, old):
    """The copy of one source does not replace that of another; the others are copied."""
    source, target = folders
    os.symlink("b", target / "a")
    if old:
        (target / "b").write_text("old")
    first, second = (name for name in names if name != "c")
    assert copy_to(rxcp, folders, names) == (
        1, f"rxcp: destination '{target}/{second}': '{source}/{first}' was just copied there\n")
    assert (target / "b").read_text() == first and (target / "c").read_text() == "c"
    assert os.readlink(target / "a") == "b" and sorted(os.listdir(target)) == ["a", "b", "c"]


def test_two_names_of_an_old_file(rxcp, folders):
    """Each hard link gets a file of its own; nor is a second run hindered."""
    target = folders[1]
    (target / "a").write_text("old")
    os.link(target / "a", target / "b")
    for _ in range(2):
        assert copy_to(rxcp, folders, "abc") == (0, "")
        assert [(target / name).read_text() for name in "abc"] == ["a", "b", "c"]
