# SPDX-License-Identifier: GPL-2.0-only
"""Direct I/O is tested before anything is written."""

import errno
import os

import pytest

from rxbench import cli
from rxbench.system import guard
from rxbench.system.errors import BadInput


@pytest.fixture
def no_direct(monkeypatch):
    """A kernel whose file systems lack direct I/O, as tmpfs does before Linux 6.6."""
    opened = os.open

    def refuse(path, flags, *args, **options):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, *args, **options)
    monkeypatch.setattr(os, "open", refuse)


def test_asked(tmp_path, no_direct):
    (tmp_path / "file").write_bytes(b"")
    assert not guard.takes_direct(tmp_path) and not guard.takes_direct(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


def test_other_errors_are_errors(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        guard.takes_direct(tmp_path / "none")


@pytest.mark.parametrize("destroy", [False, True])
def test_a_file_of_a_loop_device(tmp_path, monkeypatch, destroy):
    """The kernel lets it be overwritten even while it is mounted."""
    (tmp_path / "disk").write_bytes(bytes(4096))
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    path, destroyed = str(tmp_path / "link"), [str(tmp_path / "disk")] if destroy else []
    guard.need_free_file(path, destroyed)
    backing = {f"/sys/block/loop{number}/loop/backing_file": str(tmp_path / name) + "\n"
               for number, name in ((3, "another (deleted)"), (7, "disk"))}
    monkeypatch.setattr(guard.glob, "glob", lambda pattern: list(backing))
    monkeypatch.setattr(guard.machine, "read", backing.__getitem__)
    with pytest.raises(BadInput, match="link: in use: /dev/loop7 has it"):
        guard.need_free_file(path, destroyed)


def test_run_names_the_line(tmp_path, no_direct, monkeypatch, capsys):
    """The message says what to do; without the flag, direct I/O is not tested."""
    path = tmp_path / "file.vdb"
    for flags, code in ((",openflags=o_direct", 2), ("", 0)):
        path.write_text(f"\nsd=sd1,lun={tmp_path}/lun,size=1m{flags}\n"
                        "wd=w,sd=sd1\nrd=r,wd=w\n")
        monkeypatch.setattr("rxbench.system.machine.fio_version", lambda: "fio-3.39")
        monkeypatch.setattr("sys.argv", ["rxbench", "run", str(path), "--show-jobs"])
        monkeypatch.setattr(cli, "catch_signals", lambda: None)
        monkeypatch.setattr(cli, "ignore_signals", lambda: None)
        if code:
            assert cli.main() == code
            error = capsys.readouterr().err
            for part in ("line 2", f"{tmp_path}/lun", "direct I/O", "leave out openflags"):
                assert part in error
        else:
            with pytest.raises(SystemExit):
                cli.main()
        assert os.listdir(tmp_path) == ["file.vdb"]
