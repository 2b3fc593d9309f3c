# SPDX-License-Identifier: GPL-2.0-only
"""dd beside RapidDisk's page."""

import types

import pytest
from conftest import MACHINE

from rxbench import cli
from rxbench.report import document, text
from rxbench.run.plan import MB_S, Plan, Subject
from rxbench.run.runner import Outcome
from rxbench.system.errors import BadInput
from rxbench.workloads import dd, profile

BLOCKS = [512, 1 << 10, 4 << 10, 1 << 20, 4 << 20]
RXDSK, SATA = profile.COLUMNS["ramdisk"]


def rounds():
    return [dd.round_of(target, mode, block, 1 << 30)
            for target in dd.TARGETS for mode in dd.MODES for block in BLOCKS]


def test_a_directory_is_not_named_as_another_file_system():
    """A tmpfs, for one, is no ext4: only devices are formatted."""
    options = types.SimpleNamespace(profile="ramdisk", sweep=False, steady=False)
    places = {node: types.SimpleNamespace(has_node=node) for node in (True, False)}
    settings = profile._settings(options, [places[False]], 1 << 20, 1)
    assert not [each for each in settings.items() if "ext" in str(each)]
    assert profile._settings(options, list(places.values()), 1, 1)["file system"] == "ext4"
    assert not [case.title for each in rounds() for case in each.cases if "ext" in case.title]


@pytest.mark.parametrize("args, message", [
    (["--bs", "4k,4096"], "--bs 4096: given twice"),
    (["--bs", "4k", "--mode", "direct,direct"], "--mode direct: given twice"),
    (["--bs", "4k", "--target", "file,file"], "--target file: given twice"),
    (["--bs", "1000", "--size", "100000", "--mode", "direct"], "--bs 1000: no place takes direct")])
def test_refused(tmp_path, monkeypatch, args, message):
    """Two cases of one name would be one row, and no case would be no report."""
    for name in ("need_tools", "need_memory"):
        monkeypatch.setattr(dd.machine, name, lambda *_what: None)
    monkeypatch.setattr(dd.guard, "takes_direct", lambda _path: True)
    with pytest.raises(BadInput, match=message):
        dd.plan(cli.parser().parse_args(["dd", str(tmp_path), "--size", "64k", *args]))


def test_only_what_the_page_did():
    """A file, with direct I/O, of the two sizes of the page; zeros cannot be compared."""
    found = {case.name: case.reference for each in rounds() for case in each.cases}
    assert len(found) == 2 * 2 * 5 * 3
    assert {name: figures for name, figures in found.items() if figures} == {
        "file-direct-4K-random": {RXDSK: 1500, SATA: 70},
        "file-direct-4K-read": {RXDSK: 1700, SATA: 116},
        "file-direct-1M-random": {RXDSK: 2900, SATA: 131},
        "file-direct-1M-read": {RXDSK: 3300, SATA: 154}}


@pytest.mark.parametrize("subjects", [1, 2])
def test_columns_of_the_page(subjects):
    """The columns are beside the measured ones, even if few were measured."""
    names = [f"s{number}" for number in range(subjects)]
    plan = Plan(subjects=[Subject(name, name) for name in names], rounds=rounds(), open=None,
                metrics=(MB_S, dd.SECONDS), repeats=1)
    outcome = Outcome(seconds=1.0)
    outcome.results += [{"case": case.name, "subject": name, "repeat": 0, "order": 0,
                         "metrics": {"mb_s": 500.0, "seconds": 2.0}}
                        for case in plan.cases() for name in names]
    made = document.make("dd", ["rxbench", "dd"], "2026-01-01T00:00:00+0000", MACHINE, [], plan,
                         outcome)
    (head, rows), = text.side_by_side(made)
    assert head == ["MB/s", *names, RXDSK, SATA]
    cells = {row[0]: row[1:] for row in rows if row}
    assert cells["file, direct, 1M: read"] == [*["500"] * subjects, "3,300", "154"]
    assert cells["node, direct, 1M: read"] == [*["500"] * subjects, "-", "-"]
