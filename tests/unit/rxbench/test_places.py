# SPDX-License-Identifier: GPL-2.0-only
"""Places: which may be used together, and what the report says about them."""

import contextlib
import os
import types

import pytest

from rxbench.run.plan import Subject
from rxbench.system import places
from rxbench.system.errors import BadInput
from rxbench.workloads import copy, vdbench

QUEUE = {"scheduler": "none"}


@pytest.fixture
def disks(tmp_path, monkeypatch):
    """Files that take the place of block devices."""
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(b"")
    (tmp_path / "link").symlink_to(paths[0])
    monkeypatch.setattr(places.stat, "S_ISBLK", lambda mode: True)
    monkeypatch.setattr(places.guard, "need_block_device", lambda path: None)
    monkeypatch.setattr(places.guard, "device_size", lambda path: 1 << 30)
    monkeypatch.setattr(places.machine, "queue_settings", lambda node: {**QUEUE, "of": node})
    return [str(path) for path in [*paths, tmp_path / "link"]]


@pytest.fixture
def made(monkeypatch):
    """RAM disks, mappings and mounts that are only names."""
    monkeypatch.setattr(places.devices, "ramdisk", lambda undo, size: "/dev/rxd0")
    monkeypatch.setattr(places.devices, "cache",
                        lambda undo, disk, origin, name: f"/dev/mapper/{name}")
    monkeypatch.setattr(places.devices, "mount", lambda undo, node, kind: "/mnt")
    monkeypatch.setattr(places.machine, "mount_of", lambda path: {
        "source": "/dev/rxd0", "directory": path, "type": "ext4", "options": "rw,relatime"})
    monkeypatch.setattr(places, "since", lambda undo: contextlib.nullcontext())


def test_each_cache_has_a_name_of_its_own(disks):
    first, second = places.parse([f"cache:{disks[0]}", f"cache:{disks[1]}"])
    assert first.mapping != second.mapping
    assert all(each.mapping.startswith(f"rxbench-{os.getpid()}-") for each in (first, second))


def test_memory_of_caches_at_once(disks):
    grounds = places.parse(["rxd:1m", f"cache:{disks[0]}:2m", f"cache:{disks[1]}:4m"])
    assert places.memory(grounds) == 5 << 20
    assert places.memory(grounds, together=True) == 7 << 20


@pytest.mark.parametrize("target, refused", [("{0}", True), ("{2}", True), ("x=cache:{2}", True),
                                             ("{1}", False), ("cache:{1}", False)])
def test_copy_on_one_disk(disks, monkeypatch, target, refused):
    """It is refused before any check, because both would be mounted at the same time."""
    seen = []
    monkeypatch.setattr(copy.machine, "fio_version", lambda: "fio-3.39")
    monkeypatch.setattr(copy.machine, "need_tools", lambda *tools: None)
    monkeypatch.setattr(copy.places, "check", lambda *args, together: seen.append(together))
    monkeypatch.setattr(copy, "_without_direct", lambda *args: [])
    options = types.SimpleNamespace(place=f"cache:{disks[0]}", target=target.format(*disks),
                                    size=1 << 20, ways=None, jobs=1, witness=None, destroy=[])
    if refused:
        with pytest.raises(BadInput, match="mounted at once"):
            copy.plan(options)
    else:
        copy.plan(options)
    assert seen == ([] if refused else [True])


@pytest.mark.parametrize("kept, refused", [(True, True), (False, False)])
def test_files_that_stay_on_one_file_system(tmp_path, monkeypatch, kept, refused):
    """There is room for the file of either directory, but not for both."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.mkdir()
    grounds = places.parse([str(path) for path in paths])
    free = types.SimpleNamespace(free=3 << 19)
    monkeypatch.setattr(places.machine.shutil, "disk_usage", lambda path: free)
    with contextlib.ExitStack() as stack:
        if refused:
            stack.enter_context(pytest.raises(BadInput, match="a: needs 1.7 MiB .*has all of .*a,"))
        places.check(grounds, 1 << 20, kept=kept)


def test_the_report_knows_what_was_set_up(disks, made):
    grounds = places.parse(["rxd:1m", f"cache:{disks[0]}", disks[0]])
    subjects = [Subject(place.name, place.title, place.details()) for place in grounds]
    assert [("queue" in each.details) for each in subjects] == [False, False, True]
    for place in grounds[:2]:
        place.undo = None
    grounds[0].set_up("undo")
    for place in grounds:
        with place.mounted("ext4"):
            pass
    disk, cache, plain = (each.details for each in subjects)
    assert disk["queue"] == {**QUEUE, "of": "/dev/rxd0"}
    assert cache["queue"] == {**QUEUE, "of": f"/dev/mapper/{grounds[1].mapping}"}
    assert cache["origin"]["queue"] == plain["queue"] == {**QUEUE, "of": disks[0]}
    for each in (disk, cache, plain):
        assert each["mount"] == {"type": "ext4", "options": "rw,relatime"}
    assert "mount" not in cache["origin"]


def luns(tmp_path, text):
    path = tmp_path / "file.vdb"
    path.write_text(text)
    options = types.SimpleNamespace(file=str(path), file_size=1 << 20, destroy=[])
    steps = [step for run in vdbench.parse.read(str(path)).runs for step in vdbench.steps_of(run)]
    return vdbench.Luns(steps, options)


def test_two_sd_of_one_lun(tmp_path):
    """The conflict is found before the first is created, by any path."""
    (tmp_path / "link").symlink_to(tmp_path)
    text = (f"sd=sd1,lun={tmp_path}/lun\nsd=sd2,lun={tmp_path}/link/lun\n"
            "wd=w,sd={}\nrd=r,wd=w\n")
    with pytest.raises(BadInput, match="line 2: lun=.*/link/lun: sd=sd1 of line 1 has it"):
        luns(tmp_path, text.format("(sd2,sd1)"))
    assert luns(tmp_path, text.format("sd2")).sizes == {"sd2": 1 << 20}
    assert not (tmp_path / "lun").exists()


def test_what_the_report_says_of_luns(tmp_path, monkeypatch):
    monkeypatch.setattr(vdbench.guard, "need_readable_device", lambda path: None)
    monkeypatch.setattr(vdbench.guard, "device_size", lambda path: 1 << 30)
    monkeypatch.setattr(vdbench.machine, "queue_settings", lambda node: QUEUE)
    monkeypatch.setattr(vdbench.stat, "S_ISBLK", lambda mode: True)
    found = luns(tmp_path, f"sd=sd1,lun={tmp_path}/lun\nsd=sd2,lun=/dev/null\n"
                 "wd=w,sd=sd*\nrd=r,wd=w\n").details()
    assert found["sd2"] == {"lun": "/dev/null", "size": 1 << 30, "queue": QUEUE}
    assert found["sd1"]["lun"] == f"{tmp_path}/lun" and found["sd1"]["mount"]["options"]
