# SPDX-License-Identifier: GPL-2.0-only
"""profile --sweep: its plan, its tables and curves, and what it refuses."""

import json
import os
import subprocess
import sys

import jsonschema
import pytest

from conftest import MACHINE, TOP
from rxbench import cli
from rxbench.report import document, html, markdown, plots, sweep, text
from rxbench.run.plan import IOPS, MB_S, MEAN, P99, Plan, Round, Subject
from rxbench.run.runner import Outcome
from rxbench.system.errors import BadInput
from rxbench.workloads import profile
from rxbench.workloads import sweep as cases

LAUNCHER = os.path.join(TOP, "utils/rxbench/run")
ARGUMENTS = ("--sweep", "--blocks", "4k,64k", "--depths", "1,8", "--mixes", "100,70,0")


def jobs(*args, size=1 << 30):
    options = cli.parser().parse_args(["profile", "/tmp", *args])
    return profile._jobs(options, size, 5)


def test_all_points():
    found = jobs(*ARGUMENTS)
    assert list(found) == [f"{block}-r{mix}-q{depth}" for mix in (100, 70, 0)
                           for block in ("4k", "64k") for depth in (1, 8)]
    assert found["4k-r100-q8"][0] == {"rw": "randread", "bs": 4096, "iodepth": 8}
    assert found["64k-r70-q1"][0] == {"rw": "randrw", "rwmixread": 70, "bs": 65536, "iodepth": 1}
    assert found["4k-r0-q1"][0] == {"rw": "randwrite", "bs": 4096, "iodepth": 1}
    case = found["64k-r70-q8"][1]
    assert case.title == "64K random 70 % reads, depth 8"
    assert case.point == {"block": 65536, "depth": 8, "read_percent": 70}


def test_defaults():
    assert len(jobs("--sweep")) == 4 * 4 * 3 and len(jobs()) == 8
    assert list(jobs("--jobs", "randread-4k")) == ["randread-4k"]


def test_steady_takes_five_rounds_of_each():
    once, steady = (jobs(*ARGUMENTS, *more)["4k-r0-q1"][1].seconds for more in ([], ["--steady"]))
    assert steady == 5 * once


class Place:
    """A disk with sectors of 4 KiB."""
    title, has_node, path = "the disk", True, "/dev/disk"


def test_sectors(monkeypatch):
    monkeypatch.setattr("rxbench.system.guard.logical_block_size", lambda _path: 4096)
    cases.need_sectors(jobs("--sweep"), [Place])
    with pytest.raises(BadInput, match="--blocks 512: the disk takes multiples of 4096 bytes"):
        cases.need_sectors(jobs("--sweep", "--blocks", "4k,512"), [Place])


@pytest.mark.machine
@pytest.mark.parametrize("args, names", [
    (["--blocks", "4k"], ["--blocks 4k", "requires --sweep"]),
    (["--depths", "1"], ["--depths 1", "requires --sweep"]),
    (["--sweep", "--jobs", "read-1m"], ["--jobs read-1m", "--mixes"]),
    (["--sweep", "--blocks", "4k,x"], ["--blocks: size 'x'", "number above 0"]),
    (["--sweep", "--blocks", "1000"], ["--blocks 1000", "multiple of 512"]),
    (["--sweep", "--blocks", "2m", "--size", "1m"], ["--blocks 2m", "1M"]),
    (["--sweep", "--blocks", ""], ["--blocks", "size ''"]),
    (["--sweep", "--blocks", "4k,4096"], ["--blocks 4k,4096", "4096 twice"]),
    (["--sweep", "--depths", "0"], ["--depths 0", "from 1 to 1024"]),
    (["--sweep", "--depths", "1,2000"], ["--depths 2000", "from 1 to 1024"]),
    (["--sweep", "--mixes", "101"], ["--mixes 101", "from 0 to 100"]),
    (["--sweep", "--mixes", "50,-1"], ["--mixes -1", "from 0 to 100"]),
    (["--sweep", "--mixes", "50,50"], ["--mixes 50,50", "50 twice"]),
    (["--seconds", "0"], ["--seconds 0", "1 or more"]),
])
def test_bad_arguments(args, names, tmp_path):
    done = subprocess.run([sys.executable, "-B", LAUNCHER, "profile", tmp_path, *args], text=True,
                          capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and os.listdir(tmp_path) == []
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("rxbench: ")
    for name in names:
        assert name in done.stderr


def report(subjects=("disk", "ram"), left_out=()):
    """Each depth takes longer; the second subject is twice as fast as the first."""
    found = jobs(*ARGUMENTS)
    plan = Plan(subjects=[Subject(name, f"the {name}") for name in subjects], open=None,
                rounds=[Round((case,)) for _job, case in found.values()], repeats=3,
                metrics=(IOPS, MB_S, MEAN, P99), notes=[cases.NOTE])
    outcome = Outcome()
    for name, (job, case) in found.items():
        for rank, subject in enumerate(subjects):
            rate = 1000.0 * job["iodepth"] ** 0.5 * (rank + 1)
            outcome.results += [{
                "case": name, "subject": subject, "repeat": repeat, "order": 0,
                "metrics": {"iops": rate, "mb_s": rate * job["bs"] / 1e6,
                            "lat_mean_us": job["iodepth"] / rate * 1e6, "lat_p99_us": 5000.0},
                "percentiles": {"50": 1.0, "99": 2.0}, "series": {"mb_s": [[1.0, 1.0]]}}
                for repeat in range(3) if name not in left_out]
    return document.make("profile", ["rxbench", "profile"], "2026-01-01T00:00:00+0000", MACHINE, [],
                         plan, outcome)


def test_schema(tmp_path):
    with open(os.path.join(TOP, "Documentation/rxbench.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    document.write(report(), tmp_path / "x.json")
    jsonschema.validate(document.load(tmp_path / "x.json"), schema)


@pytest.mark.parametrize("point, named", [
    (3, "an object"), ({"block": 4096, "depth": 1}, "read_percent"),
    ({"block": "4k", "depth": 1, "read_percent": 5}, "block")])
def test_changed_by_hand(tmp_path, point, named):
    changed = report()
    changed["cases"][2]["point"] = point
    document.write(changed, tmp_path / "x.json")
    with pytest.raises(BadInput, match=f"(?=.*point of 64k-r100-q1).*{named}"):
        document.load(tmp_path / "x.json")


def test_tables():
    """One for each mix; a row for each block and subject, a column for each depth."""
    made = text.side_by_side(report())
    assert [head for head, _rows in made] == [
        [f"IOPS, random {mix}", "depth 1", "depth 8"] for mix in ("reads", "70 % reads", "writes")]
    assert made[1][1] == [["4K, the disk", "1,000 (1.00 ms)", "2,828 (2.83 ms)"],
                          ["4K, the ram", "2,000 (500 us)", "5,657 (1.41 ms)"],
                          ["64K, the disk", "1,000 (1.00 ms)", "2,828 (2.83 ms)"],
                          ["64K, the ram", "2,000 (500 us)", "5,657 (1.41 ms)"]]
    assert text.side_by_side(report(["one"]))[0][1][0][0] == "4K"


def test_what_was_not_measured():
    """A run that ended early has empty cells, but no empty rows."""
    names = list(jobs(*ARGUMENTS))
    made = text.side_by_side(report(["one"], left_out=[*names[3:]]))
    assert made == [(["IOPS, random reads", "depth 1", "depth 8"],
                     [["4K", "1,000 (1.00 ms)", "2,828 (2.83 ms)"],
                      ["64K", "1,000 (1.00 ms)", "-"]])]
    nothing = report(["one"], left_out=names)
    assert text.side_by_side(nothing) == [] and sweep.curves(nothing) == {}
    assert "Nothing was measured" in html.render([nothing])


def test_text_and_markdown():
    shown = "\n".join(text.render(report()))
    assert "IOPS, random 70 % reads          depth 1          depth 8" in shown
    assert "4K random reads, depth 1" in shown and "in brackets, their mean latency" in shown
    lines = list(markdown.render([report()]))
    assert "| IOPS, random writes | depth 1 | depth 8 |" in lines
    assert "| 4K, the ram | 2,000 (500 us; 0 %) | 5,657 (1.41 ms; 0 %) |" in lines


def test_curves():
    """The points of a line are in the order of their depths."""
    found = sweep.curves(report())
    assert list(found) == [f"{block} random {mix}" for mix in ("reads", "70 % reads", "writes")
                           for block in ("4K", "64K")]
    disk = found["4K random reads"]["disk"]
    assert [depth for *_figures, depth in disk] == [1, 8]
    assert disk[1][0] == pytest.approx(2828, abs=1) and disk[1][1] == pytest.approx(2828, abs=1)


@pytest.mark.machine
def test_plot():
    """A small plot for each block and mix, a line for each subject, and no other pictures."""
    (name, title, svg), = plots.draw(report(), "x")
    assert name == "latency-iops" and "depth" in title and svg.startswith("<svg")
    axes = [each for each in plots._curves(plots.pyplot(), report()).axes if each.get_visible()]
    assert len(axes) == 6 and axes[0].get_title() == "4K random reads"
    assert [list(line.get_xdata())[0] for line in axes[0].get_lines()] == [1000, 2000]
    page = html.render([report()])
    assert "id=plot-1-latency-iops" in page and "<th>depth 8</th>" in page
