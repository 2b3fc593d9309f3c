# SPDX-License-Identifier: GPL-2.0-only
"""rxcp while its source or its destination changes, or is in use."""

import fcntl
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MIB = 1 << 20
pytestmark = pytest.mark.machine


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image"
    path.touch()
    os.truncate(path, 16 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
    return path


def full_pipe():
    """A pipe whose writer waits for the reader."""
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, bytes(size))
    return reader, writer


def waits_for_the_pipe(process):
    assert process.poll() is None
    with open(f"/proc/{process.pid}/wchan", encoding="ascii") as file:
        return "pipe" in file.read()


def copy(rxcp, image, options, meanwhile):
    """Copy, and call meanwhile() after the maps were read and before the data is."""
    reader, writer = full_pipe()
    with subprocess.Popen([rxcp, *options, "-T", "json", image, f"{image}.copy"],
                          stdout=writer, stderr=subprocess.PIPE, text=True) as process:
        os.close(writer)
        while not waits_for_the_pipe(process):
            time.sleep(0.01)
        meanwhile()
        with os.fdopen(reader, "rb") as file:
            file.read()
        err = process.stderr.read()
    return process.returncode, err


def test_written_meanwhile(rxcp, image):
    """A block that was unused may hold data now."""
    def write():
        with open(image, "r+b") as file:
            file.seek(15 * MIB)
            file.write(b"data")
    code, err = copy(rxcp, image, ("-S", "yes"), write)
    assert code == 1 and len(err.splitlines()) == 1
    assert f"source '{image}'" in err and "written to" in err
    assert not os.path.exists(f"{image}.copy")


def test_not_written(rxcp, image):
    code, err = copy(rxcp, image, ("-S", "yes"), lambda: None)
    assert (code, err) == (0, "") and os.path.getsize(f"{image}.copy") == 16 * MIB


def test_written_but_all_is_read(rxcp, image):
    """As by cp: each block is as it was before or after the write."""
    code, _err = copy(rxcp, image, ("-S", "no"), lambda: os.utime(image))
    assert code == 0


@pytest.mark.parametrize("options", [(), ("-s", "always"), ("-s", "never"), ("-S", "no"),
                                     ("-S", "yes")], ids=str)
def test_shrinks(rxcp, image, options):
    """What is beyond the new end looks like a hole."""
    code, err = copy(rxcp, image, options, lambda: os.truncate(image, MIB))
    assert code == 1 and len(err.splitlines()) == 1
    assert f"source '{image}': became shorter than {16 * MIB} bytes" in err
    assert not os.path.exists(f"{image}.copy")


REWRITTEN = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* While SEEK_DATA looks, or only the first time, the file is empty; then it is written anew. */
off_t lseek(int fd, off_t offset, int whence)
{
    off_t (*real)(int, off_t, int) = dlsym(RTLD_NEXT, "lseek64");
    static char data[1 << 20];
    static int calls;
    off_t at, size, ret;
    int file;

    if (whence != SEEK_DATA || calls++ >= atoi(getenv("TIMES")))
        return real(fd, offset, whence);
    usleep(20000);
    size = real(fd, 0, SEEK_END);
    file = open(getenv("FILE"), O_RDWR | O_TRUNC);
    ret = real(fd, offset, whence);
    for (at = 0; at < sizeof(data); at++)
        data[at] = 'n';
    for (at = 0; at < size; at += sizeof(data))
        if (pwrite(file, data, sizeof(data), at) != sizeof(data))
            abort();
    close(file);
    return ret;
}
"""


@pytest.mark.parametrize("options", [(), ("-s", "never")], ids=str)
@pytest.mark.parametrize("times", [1, 1000])
def test_shorter_for_a_moment(rxcp, tmp_path, preload, times, options):
    """The rest looks like a hole while another program has truncated the file."""
    source, target = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"data")
    os.truncate(source, 8 * MIB)
    environment = {**preload(REWRITTEN), "FILE": str(source), "TIMES": str(times)}
    subprocess.run([rxcp, *options, source, target], check=True, env=environment)
    assert target.read_bytes() == b"n" * 8 * MIB


def test_appended_after_a_hole(rxcp, image):
    """It is not copied, and no error, although the rest of the file looks like a hole."""
    def append():
        with open(image, "ab") as file:
            file.write(b"data")
    os.truncate(image, 20 * MIB)
    code, err = copy(rxcp, image, (), append)
    assert (code, err) == (0, "") and os.path.getsize(f"{image}.copy") == 20 * MIB


@pytest.mark.parametrize("list_of, text", [
    ("/proc/swaps", "Filename Type Size\n/none file 1\n{escaped}   file 2\n"),
    ("/sys/block/loop3/loop/backing_file", "{plain}\n")])
def test_in_use(rxcp, tmp_path, list_of, text):
    """All of a file is read that holds an active swap area or a loop device."""
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "area").write_bytes(os.urandom(MIB))
    subprocess.run(["mkswap", "-q", folder / "area"], check=True)
    (tmp_path / "list").write_text(text.format(
        plain=folder / "area", escaped=str(folder / "area").replace(" ", "\\040")))
    prepare = 'mount -t tmpfs tmpfs /sys && mkdir -p "${2%/*}" && : >"$2" || exit' \
        if list_of.startswith("/sys") else ":"
    script = f'{prepare}; [ -z "$1" ] || mount --bind "$1" "$2" || exit; shift 2; exec "$@"'
    for named, skipped in ("", MIB - 4096), (tmp_path / "list", 0):
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", named, list_of,
                               rxcp, "-S", "yes", "-T", "json", folder / "area", tmp_path / "copy"],
                              check=True, capture_output=True, text=True)
        assert int(json.loads(done.stdout.splitlines()[-1])["read_skipped"]) == skipped


def test_unreadable(rxcp, tmp_path):
    """A file without a size that cannot be read is not empty."""
    copied = tmp_path / "copy"
    copied.write_text("old")
    done = subprocess.run([rxcp, "/proc/self/mem", copied], check=False, capture_output=True,
                          text=True)
    assert (done.returncode, done.stderr) == (
        1, "rxcp: source '/proc/self/mem': Input/output error\n")
    assert copied.read_text() == "old"


def test_lease(rxcp, image):
    """It waits until another program, such as a file server, gives up its lease."""
    asked = []
    with open(image, "r+b") as file:
        def give_up(*_):
            asked.append(fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))
        before = signal.signal(signal.SIGIO, give_up)
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            done = subprocess.run([rxcp, image, f"{image}.copy"], check=False, capture_output=True,
                                  text=True)
        finally:
            signal.signal(signal.SIGIO, before)
    assert (done.returncode, done.stderr) == (0, "") and asked
    assert os.path.getsize(f"{image}.copy") == 16 * MIB


@pytest.fixture(scope="module")
def is_backing(tmp_path_factory):
    """A program that exits with 0 if the device of a node counts as in use."""
    folder = tmp_path_factory.mktemp("backing")
    (folder / "main.c").write_text(
        '#include "volume.h"\n'
        "int main(int argc, char **argv)\n"
        "{\n"
        "	struct stat st;\n"
        "	return argc != 2 || stat(argv[1], &st) ? 2 : !is_backing(&st);\n"
        "}\n")
    subprocess.run(["cc", "-D_GNU_SOURCE", f"-I{TOP}/utils/rxcp", "-o", folder / "is_backing",
                    folder / "main.c", f"{TOP}/utils/rxcp/backing.c", "-lblkid"], check=True)
    return folder / "is_backing"


USERS = ("block/loop3/loop/backing_file",
         "kernel/config/nvmet/subsystems/nqn.2026-11.example:a/namespaces/1/device_path")


@pytest.mark.parametrize("user", USERS, ids=["loop", "nvmet"])
@pytest.mark.parametrize("copied, attached, in_use", [
    ("sdb", "sdb", True), ("sdb", "sdb1", True), ("sdb1", "sdb", True), ("sdb1", "sdb1", True),
    ("sdb", "sdc", False), ("sdb1", "sdb2", False), ("sdb1", "sdc", False)])
def test_user_of_a_part(is_backing, user, copied, attached, in_use):
    """Neither a loop device nor an NVMe export holds the disk below it for the kernel."""
    script = """
        mount -t tmpfs tmpfs /sys && cd /sys && mkdir -p dev/block ${4%/*} || exit 3
        for disk in sdb:8:16 sdb/sdb1:8:17 sdb/sdb2:8:18 sdc:8:32; do
            path=${disk%%:*} number=${disk#*:}
            mkdir -p block/$path && echo $number >block/$path/dev || exit 3
            ln -s ../../block/$path dev/block/$number || exit 3
            case $path in */*) echo 1 >block/$path/partition;; esac
            mknod ${path##*/} b ${number%:*} ${number#*:} || exit 3
        done
        echo /sys/$2 >$4
        exec "$3" $1"""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", copied, attached,
                           is_backing, user], check=False)
    assert done.returncode == (0 if in_use else 1)


ACL = "system.posix_acl_access"
# For a user of its own, nobody, who may read.
FOREIGN = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in (
    (1, 6, -1), (2, 4, 65534), (4, 0, -1), (16, 4, -1), (32, 0, -1)))


def access(path):
    found = os.stat(path)
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, ACL in os.listxattr(path)


def make_replaced(image):
    """What the copy replaces: a file of daemon."""
    path = f"{image}.copy"
    with open(path, "wb") as file:
        file.write(b"old")
    os.chown(path, 1, 1)
    os.chmod(path, 0o644)
    return path


@pytest.fixture
def replaced(image):
    return make_replaced(image)


def replace(rxcp, source, target, call, error):
    """Copy while a system call fails."""
    done = subprocess.run(["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                           f"inject={call}:error={error}", rxcp, source, target],
                          check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_replaced_file_loses_access(rxcp, image, replaced):
    """What is taken from others during the copy is not given back."""
    def restrict():
        os.chown(replaced, 1, 2)
        os.chmod(replaced, 0o600)
    assert copy(rxcp, image, (), restrict) == (0, "")
    assert access(replaced) == (0o600, 1, 2, False) and os.path.getsize(replaced) == 16 * MIB


def test_replaced_file_gets_a_list(rxcp, image, replaced):
    assert copy(rxcp, image, (), lambda: os.setxattr(replaced, ACL, FOREIGN)) == (0, "")
    assert access(replaced) == (0o640, 1, 1, True)


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=oct)
@pytest.mark.parametrize("removed", [False, True], ids=["renamed", "removed"])
def test_another_file_is_replaced(rxcp, image, mode, removed):
    """Whoever may write the folder does not choose who reads the new file."""
    # Unlike tmpfs, a file system on a disk may give the number of a removed inode to the next file.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        replace_by_another(rxcp, shutil.copy(image, folder), mode, removed)


def replace_by_another(rxcp, image, mode, removed):
    replaced = make_replaced(image)
    os.chmod(replaced, mode)

    def swap():
        if removed:
            os.unlink(replaced)
        with open(f"{replaced}.new", "wb") as file:
            os.fchown(file.fileno(), 65534, 65534)
            os.setxattr(file.fileno(), ACL, FOREIGN)
        os.rename(f"{replaced}.new", replaced)
    before = os.umask(0o077)
    try:
        assert copy(rxcp, image, (), swap) == (0, "")
    finally:
        os.umask(before)
    assert access(replaced) == (0o600, 1, 1, False) and os.path.getsize(replaced) == 16 * MIB


@pytest.mark.parametrize("old", [b"old", None], ids=["replaced", "new"])
def test_error_on_close(rxcp, image, old):
    """NFS and FUSE report only then that there is no space. No old file is lost, no part stays."""
    trace, copied, kept = f"{image}.trace", f"{image}.copy", 0
    # A tmpfs has no device, as FUSE.
    assert old or not os.major(os.stat(os.path.dirname(image)).st_dev)
    for when in range(1, 200):
        if old:
            with open(copied, "wb") as file:
                file.write(old)
        elif os.path.exists(copied):
            os.unlink(copied)
        done = subprocess.run(["strace", "-o", trace, "-e", "trace=close", "-e",
                               f"inject=close:error=EDQUOT:when={when}", rxcp, "-T", "none",
                               image, copied], check=False, capture_output=True, text=True)
        with open(trace, encoding="ascii") as file:
            if "INJECTED" not in file.read():
                break
        # Not if it is the dynamic linker that closes a file.
        if done.returncode != 127 and done.returncode:
            assert done.returncode == 1 and "quota exceeded" in done.stderr.lower()
            kept += os.path.getsize(copied) == 3 if old else not os.path.exists(copied)
    assert done.returncode == 0 and kept == 1


@pytest.mark.parametrize("call, error, text", [
    ("getxattr", "EIO", "Input/output error"), ("fchown", "EDQUOT", "Disk quota exceeded"),
    ("fsetxattr", "ENOSPC", "No space left on device"),
    ("fsetxattr", "ENOMEM", "Cannot allocate memory")])
def test_access_cannot_be_kept(rxcp, image, replaced, call, error, text):
    """The disk is full: the old file stays, which has the only copy of the list."""
    os.setxattr(replaced, ACL, FOREIGN)
    before = access(replaced)
    assert replace(rxcp, image, replaced, call, error) == (
        1, f"rxcp: destination '{replaced}': {text}\n")
    assert access(replaced) == before and os.path.getsize(replaced) == 3


@pytest.mark.parametrize("call, error", [
    ("getxattr", "EACCES"), ("fchown", "EPERM"), ("fchown", "EINVAL"), ("fsetxattr", "EPERM"),
    ("fsetxattr", "EOPNOTSUPP"), ("fsetxattr", "EINVAL")])
def test_access_may_not_be_kept(rxcp, image, replaced, call, error):
    """That is no failure: only the owner gets access."""
    os.setxattr(replaced, ACL, FOREIGN)
    assert replace(rxcp, image, replaced, call, error) == (0, "")
    assert access(replaced)[0] == 0o600 and os.path.getsize(replaced) == 16 * MIB


@pytest.mark.parametrize("call", ["getxattr", "fremovexattr"])
def test_no_lists_at_all(rxcp, image, replaced, call):
    """The file system does not know them."""
    assert replace(rxcp, image, replaced, call, "EOPNOTSUPP") == (0, "")
    assert access(replaced) == (0o644, 1, 1, False) and os.path.getsize(replaced) == 16 * MIB


def test_no_memory_for_a_range(tmp_path):
    """The range is refused, and so is the next one; nothing is written beyond the ranges."""
    (tmp_path / "main.c").write_text(
        '#include "volume.h"\n'
        "bool full;\n"
        "void *__real_reallocarray(void *old, size_t count, size_t size);\n"
        "void *__wrap_reallocarray(void *old, size_t count, size_t size)\n"
        "{\n"
        "	return full ? NULL : __real_reallocarray(old, count, size);\n"
        "}\n"
        "int main(void)\n"
        "{\n"
        "	struct unused unused = { 0 };\n"
        "	struct volume volume = { .size = 1000, .unused = &unused };\n"
        "	bool filled = true;\n"
        "	for (int i = 0; i < 64; i++)\n"
        "		filled = filled && volume_unused(&volume, i, i + 1);\n"
        "	full = true;\n"
        "	return !filled || volume_unused(&volume, 64, 65) ||\n"
        "	       volume_unused(&volume, 64, 65) || unused.count != 64;\n"
        "}\n")
    subprocess.run(["cc", "-D_GNU_SOURCE", f"-I{TOP}/utils/rxcp", "-Wl,--wrap=reallocarray", "-o",
                    tmp_path / "ranges", tmp_path / "main.c", f"{TOP}/utils/rxcp/volume.c",
                    f"{TOP}/utils/copy/file.c"], check=True)
    subprocess.run([tmp_path / "ranges"], check=True)


def test_replaced_file_without_proc(rxcp, image, replaced):
    os.setxattr(replaced, ACL, FOREIGN)
    subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"',
                    "sh", rxcp, image, replaced], check=True)
    assert access(replaced) == (0o640, 1, 1, True)
