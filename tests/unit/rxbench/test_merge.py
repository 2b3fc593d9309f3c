# SPDX-License-Identifier: GPL-2.0-only
"""report --merge: one report of several, which measured parts of one workload."""

import copy
import json
import os
import subprocess
import sys

import jsonschema
import pytest

from rxbench.report import document, markdown, merge
from rxbench.system.errors import BadInput

from conftest import TOP

LAUNCHER = os.path.join(TOP, "utils/rxbench/run")
LEVELS = {"ram": 900.0, "disk": 100.0}


def piece(report, *names):
    """A report of some cases only."""
    made = copy.deepcopy(report)
    for key, name in (("cases", "name"), ("results", "case"), ("summary", "case"),
                      ("verdicts", "case")):
        made[key] = [row for row in made[key] if row[name] in names]
    made["command"] = ["rxbench", "profile", "--jobs", names[0]]
    made["notes"] = ["A note.", f"A note on {names[0]}."]
    return made


@pytest.fixture(name="schema")
def schema_of_reports():
    with open(os.path.join(TOP, "Documentation/rxbench.schema.json"), encoding="utf-8") as file:
        return json.load(file)


def test_pieces_make_the_whole(make_report, schema):
    """The summary and the verdicts are those of a run that measured everything."""
    whole = make_report(1, LEVELS, cases=4)
    merged = merge.merge([piece(whole, "c0", "c1"), piece(whole, "c2"), piece(whole, "c3")])
    for key in ("cases", "subjects", "metrics", "summary", "verdicts", "repeats", "settings"):
        assert merged[key] == whole[key], key
    assert [row["order"] for row in merged["results"]] == list(range(len(whole["results"])))
    assert merged["seconds"] == 3.0 and merged["complete"]
    assert merged["notes"] == [
        "A note.", "A note on c0.", "A note on c2.", "A note on c3.",
        *(f"Merged: rxbench profile --jobs {name} (2026-01-01T00:00:00+0000)."
          for name in ("c0", "c2", "c3"))]
    jsonschema.validate(merged, schema)
    assert "| case 3 |" in "\n".join(markdown.render([merged]))


def test_measured_twice(make_report):
    """Repeats of one case follow each other, and pairs stay pairs."""
    first, second = make_report(1, LEVELS, repeats=3), make_report(2, LEVELS, repeats=3)
    merged = merge.merge([piece(first, "c0", "c1"), piece(second, "c1", "c2")])
    repeats = {name: sorted(row["repeat"] for row in merged["results"]
                            if (row["case"], row["subject"]) == (name, "ram"))
               for name in ("c0", "c1", "c2")}
    assert repeats == {"c0": [0, 1, 2], "c1": [0, 1, 2, 3, 4, 5], "c2": [0, 1, 2]}
    row, = (row for row in merged["summary"]
            if (row["case"], row["subject"], row["metric"]) == ("c1", "disk", "mb_s"))
    assert row["n"] == 6 and row["ratio"]["median"] == pytest.approx(0.11, rel=0.1)


def test_one_has_failed(make_report):
    whole = make_report(1, LEVELS, cases=2)
    pieces = [piece(whole, "c0"), piece(whole, "c1")]
    pieces[1].update(complete=False, ended_by="SIGINT", failures=[{"message": "x"}],
                     started="2025-01-01T00:00:00+0000")
    merged = merge.merge(pieces)
    assert not merged["complete"] and merged["ended_by"] == "SIGINT"
    assert merged["failures"] == [{"message": "x"}]
    assert merged["started"] == "2025-01-01T00:00:00+0000"


@pytest.mark.parametrize("change, names", [
    ({"workload": "dd"}, ["the workload is profile", "dd in another"]),
    ({"machine": {"kernel": "7.2"}}, ["kernel is 6.12", "7.2 in another"]),
    ({"settings": {"size": 2}}, ["settings.size is 1", "2 in another"]),
    *(({"settings": {name: value}}, [f"settings.{name} is {old}", f"{value} in another"])
      for name, old, value in (("validate", False, True), ("fold", False, True),
                               ("witness", None, 1 << 20), ("inside", None, "make"),
                               ("steady", None, True))),
    ({"settings": {"text": "rd=1\nrd=2\n"}}, ["settings.text differs between the reports"]),
])
def test_not_of_one_workload(make_report, change, names):
    whole = make_report(1, LEVELS, cases=2)
    whole["settings"].update(validate=False, fold=False, witness=None, inside=None,
                             text="rd=1\n")
    other = piece(whole, "c1")
    for key, value in change.items():
        other[key] = {**other[key], **value} if isinstance(value, dict) else value
    with pytest.raises(BadInput) as refused:
        merge.merge([piece(whole, "c0"), other])
    assert "\n" not in str(refused.value)
    for name in ("--merge", *names):
        assert name in str(refused.value)


def test_nothing_counts_twice(make_report):
    """A pattern of the shell may match a report of all parts beside the parts."""
    whole = make_report(1, LEVELS, cases=2)
    parts = [piece(whole, "c0"), piece(whole, "c1")]
    for documents in ([whole, whole], [*parts, merge.merge(parts)]):
        with pytest.raises(BadInput, match="--merge: rxbench profile .*the same results"):
            merge.merge(documents)


def test_settings_that_one_part_has(make_report):
    whole = make_report(1, LEVELS, cases=2)
    pieces = [piece(whole, "c0"), piece(whole, "c1")]
    pieces[1]["settings"] = {}
    with pytest.raises(BadInput, match="settings.size is 1 in one report and None in another"):
        merge.merge(pieces)


@pytest.mark.parametrize("memory, fits", [(995, True), (1005, True), (980, False), (1020, False)])
def test_memory_of_another_boot(make_report, memory, fits):
    whole = make_report(1, LEVELS, cases=2)
    pieces = [piece(whole, "c0"), piece(whole, "c1")]
    for each, amount in zip(pieces, (1000, memory)):
        each["machine"] = {**each["machine"], "memory": amount}
    if fits:
        assert merge.merge(pieces)["machine"]["memory"] == 1000
        return
    with pytest.raises(BadInput) as refused:
        merge.merge(pieces)
    assert f"memory is 1000 in one report and {memory} in another" in str(refused.value)
    assert "within 1 %" in str(refused.value)


def test_settings_of_parts(make_report):
    """Sets are united, and what one part does not need is taken from the other."""
    whole = make_report(1, LEVELS, cases=2)
    pieces = [piece(whole, "c0"), piece(whole, "c1")]
    pieces[0]["settings"] = {"sets": {"0.5": 1, "2": 4}, "copied": 0}
    pieces[1]["settings"] = {"sets": {"0.5": 1, "1": 2}, "copied": 6}
    assert merge.merge(pieces)["settings"] == {"sets": {"0.5": 1, "2": 4, "1": 2}, "copied": 6}
    for name, value in (("copied", 4), ("sets", {"0.5": 3})):
        pieces[0]["settings"][name] = value
        with pytest.raises(BadInput, match=f"settings.{name}.* is . in one report"):
            merge.merge(pieces)
        pieces[0]["settings"][name] = pieces[1]["settings"][name]


def test_command(make_report, tmp_path):
    whole, paths = make_report(1, LEVELS, cases=2), []
    for name in "c0", "c1":
        paths.append(tmp_path / f"{name}.json")
        document.write(piece(whole, name), paths[-1])
    argv = [sys.executable, "-B", LAUNCHER, "report", "--merge", *paths]
    done = subprocess.run([*argv, "--json", tmp_path / "both.json"], check=False, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "both.json").read_text())["cases"]) == 2
    document.load(tmp_path / "both.json")
    shown = subprocess.run(argv, check=True, text=True, capture_output=True).stdout
    assert "case 0" in shown and "case 1" in shown and shown.count("Medians of") == 1
