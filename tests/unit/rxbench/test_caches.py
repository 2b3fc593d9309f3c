# SPDX-License-Identifier: GPL-2.0-only
"""Setting up the caches of peers: what an error or a signal in between leaves."""

import os
import signal

import pytest

from rxbench import cli
from rxbench.peers import caches
from rxbench.system import devices, guard, undo
from rxbench.system.errors import BenchError, Interrupted
from rxbench.workloads import peers


def test_a_registration_that_is_late_is_undone(monkeypatch, tmp_path):
    """bcache may have the device although it did not show it in time."""
    (tmp_path / "bcache/set").mkdir(parents=True)
    (tmp_path / "bcache/stop").touch()
    waits, written = [BenchError("not finished after 60 s")], []

    def wait(*_):
        if waits:
            raise waits.pop()
    monkeypatch.setattr(caches.guard, "sysfs_folder", lambda _path: str(tmp_path))
    monkeypatch.setattr(caches, "_wait", wait)
    monkeypatch.setattr(caches, "put", lambda path, text: written.append(path))
    with pytest.raises(BenchError, match="not finished"), undo.Undo(print) as stack:
        caches._register(stack, "/dev/x", "a cache")
    assert written == ["/sys/fs/bcache/register", f"{tmp_path}/bcache/stop",
                       f"{tmp_path}/bcache/set/stop"]


@pytest.mark.parametrize("name", ["suspend", "reload", "resume"])
@pytest.mark.parametrize("fails", [False, True])
def test_no_cache_stays_suspended(monkeypatch, name, fails):
    seen = []

    def run(_program, command, *_):
        seen.append(command)
        if command == name:
            if fails:
                raise BenchError(f"no {name}")
            os.kill(os.getpid(), signal.SIGTERM)
        with undo.interruptible():
            return "0 8 cache 8 1/8 128 1/8 0 0 0 0 0 0 0 0 1 writeback", ""
    for module, what, fake in (
            (caches.command, "run", run), (caches, "_sectors", lambda _: 8),
            (caches.devices, "load_module", lambda *_: None),
            (caches.devices, "ramdisk", lambda *_: "/dev/x"),
            (caches.devices, "settled", lambda *_: None)):
        monkeypatch.setattr(module, what, fake)
    undo.catch_signals()
    try:
        with pytest.raises((BenchError, Interrupted)), undo.Undo(print) as stack:
            caches.dm_cache(stack, "/dev/y", "z", 8, lambda _node: None)
    finally:
        for each in undo.SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert seen[0] == "create"
    assert seen[-1] == ("suspend" if fails and name == "suspend" else "resume")


@pytest.mark.parametrize("dio", ["0", "1"])
def test_a_disk_in_the_page_cache_is_noted(monkeypatch, tmp_path, dio):
    """The kernel may leave out the direct I/O of a loop device without an error."""
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop/dio").write_text(f"{dio}\n")
    monkeypatch.setattr(devices, "loop", lambda _undo, _path: "/dev/loop0")
    monkeypatch.setattr(guard, "sysfs_folder", lambda _device: str(tmp_path))
    made = peers.Peers(cli.parser().parse_args(["peers", "--dir", str(tmp_path)]), {}, [])
    with undo.Undo(print) as stack:
        assert made._disk(stack, 4096) == "/dev/loop0"
    assert [f"{tmp_path}: " in note and "page cache" in note for note in made.notes] == (
        [] if dio == "1" else [True])
