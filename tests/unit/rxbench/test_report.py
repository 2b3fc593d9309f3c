# SPDX-License-Identifier: GPL-2.0-only
"""Reports: their schema, their text, and their pictures in a browser."""

import copy
import json
import os
import stat
import subprocess
import sys
from html.parser import HTMLParser

import jsonschema
import pytest

from rxbench.report import document, html, markdown, plots, text
from rxbench.run.plan import REQUESTED
from rxbench.system import units
from rxbench.system.errors import BadInput

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../..")
LAUNCHER = os.path.join(TOP, "utils/rxbench/run")
BROWSER = ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--dump-dom"]
LEVELS = {"ram": 2000.0, "disk": 100.0, "other": 101.0}


@pytest.fixture(scope="session")
def schema():
    with open(os.path.join(TOP, "Documentation/rxbench.schema.json"), encoding="utf-8") as file:
        return json.load(file)


def test_the_schema_is_one(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_report_passes_the_schema(schema, make_report, tmp_path):
    path = tmp_path / "folder/report.json"
    document.write(make_report(1, LEVELS), path)
    assert oct(path.stat().st_mode & 0o777) == "0o644"
    loaded = document.load(path)
    jsonschema.validate(loaded, schema)
    assert len(loaded["results"]) == 5 * 8 * 3


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    for target in "there/old", "there/new":
        (tmp_path / "there/old").write_text("before")
        (tmp_path / "link").symlink_to(target)
        document.put(tmp_path / "link", "after")
        assert os.readlink(tmp_path / "link") == target
        assert (tmp_path / target).read_text() == "after"
        (tmp_path / "link").unlink()
    assert sorted(os.listdir(tmp_path / "there")) == ["new", "old"]


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE, text=True) as reader:
        document.put(path, "text")
        if not path.is_fifo():
            reader.kill()
        assert path.is_fifo() and reader.communicate()[0] == "text"
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device_stays_a_device(make_report, tmp_path):
    """As /dev/null, which is also the target of a link."""
    try:
        os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("needs root")
    (tmp_path / "link").symlink_to("null")
    document.write(make_report(1, LEVELS), tmp_path / "report.json")
    for name in "null", "link":
        for option in "--html", "--json":
            done = rxbench("report", tmp_path / "report.json", option, tmp_path / name)
            assert done.returncode == 0, done.stderr
            assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "null", "report.json"]


def test_standard_output_is_a_file(make_report, tmp_path):
    """Only the report is in it."""
    path = tmp_path / "report.json"
    document.write(make_report(1, LEVELS), path)
    os.symlink("/proc/self/fd/1", tmp_path / "stdout")
    done = rxbench("report", path, "--json", tmp_path / "stdout")
    assert json.loads(done.stdout)[0]["workload"] == "profile" and done.returncode == 0
    assert os.path.islink(tmp_path / "stdout")


@pytest.mark.parametrize("change", [
    lambda report: report.pop("machine"),
    lambda report: report.update(version=2),
    lambda report: report.update(extra=1),
    lambda report: report["results"][0].pop("metrics"),
    lambda report: report["results"][0].update(percentiles={"high": 1.0}),
    lambda report: report["metrics"][0].update(better="yes"),
])
def test_the_schema_refuses(schema, make_report, change):
    report = copy.deepcopy(make_report(1, LEVELS))
    change(report)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)


def test_summary(make_report):
    report = make_report(1, LEVELS)
    rows = {(row["case"], row["subject"], row["metric"]): row for row in report["summary"]}
    assert len(rows) == 8 * 3 * 4
    ratio = rows["c0", "disk", "mb_s"]["ratio"]
    assert ratio["to"] == "ram" and ratio["median"] == pytest.approx(0.05, rel=0.1)
    assert ratio["within_noise"] is False
    assert rows["c0", "ram", "mb_s"]["ratio"] is None


def test_headings_differ(make_report):
    report = copy.deepcopy(make_report(1, LEVELS))
    report["metrics"].append({"name": "iops_requested", "title": "requested", "unit": "IOPS",
                              "better": "higher"})
    head, _rows = text.columns(report)
    assert "IOPS" in head and "requested IOPS" in head and len(set(head)) == len(head)


@pytest.mark.parametrize("reached, seconds, marked", [
    (800, 9, True), (960, 9, False), (1040, 9, False), (1060, 9, True), (1060, None, True),
    (1060, 2, False), (1070, 2, True)])
def test_a_missed_rate_is_marked(make_report, reached, seconds, marked):
    """Of 2,000 requests at random times, 6 % more are no miss."""
    report = copy.deepcopy(make_report(1, {"ram": 1.0}, cases=1))
    for result in report["results"] if seconds else ():
        result["metrics"]["average_s"] = seconds
    report["metrics"].append(vars(REQUESTED))
    cell = {**report["summary"][0], "ratio": None}
    report["summary"] = [{**cell, "metric": "iops", "median": reached},
                         {**cell, "metric": REQUESTED.name, "median": 1000}]
    head, (row,) = text.columns(report)
    assert row[head.index("IOPS")] == ("!" if marked else "") + f"{reached:,}"
    assert row[head.index("requested IOPS")] == "1,000"
    assert any(line.startswith("- !: ") for line in text.render(report))
    assert not any(line.startswith("- !: ") for line in text.render(make_report(1, LEVELS)))


def test_only_what_ranks_is_best(make_report):
    """A program that only bounds the others neither wins nor is beaten."""
    levels = {"bound": 300.0, "a": 200.0, "b": 100.0, "slow": 10.0}
    report = make_report(1, levels, unranked=["bound", "slow"])
    assert {verdict["best"] for verdict in report["verdicts"]} == {"a"}
    assert all(verdict["beaten"] == ["b"] for verdict in report["verdicts"])


def test_verdicts(make_report):
    """A winner only where the difference is larger than the noise."""
    winner = {verdict["best"] for verdict in make_report(1, LEVELS)["verdicts"]}
    assert winner == {"ram"}
    even = make_report(3, {"a": 100.0, "b": 100.0}, noise=0.2)["verdicts"]
    assert sum(verdict["best"] is None for verdict in even) >= 6
    assert make_report(1, LEVELS, repeats=1)["verdicts"] == []


def test_text(make_report):
    lines = "\n".join(text.render(make_report(1, LEVELS)))
    for wanted in ("case 0", "the ram", "page", "beside the ram", "the ram is best",
                   "Warning: a warning", "6.12"):
        assert wanted in lines
    assert "~" in "\n".join(text.render(make_report(3, {"a": 100.0, "b": 100.0})))
    assert "?" in "\n".join(text.render(make_report(3, {"a": 100.0, "b": 100.0}, repeats=1)))


def test_one_measurement_has_no_spread(schema, make_report, tmp_path):
    """It is not 0 %; the legend explains the mark even if there is no ratio."""
    report = make_report(1, {"a": 1.0}, repeats=1, cases=1)
    document.write(report, tmp_path / "x.json")
    jsonschema.validate(document.load(tmp_path / "x.json"), schema)
    assert {row["spread_percent"] for row in report["summary"]} == {None}
    head, (row,) = text.columns(report)
    assert row[head.index("spread")] == "?"
    assert "?: too few measurements to tell" in " ".join(text.render(report))
    assert "<td>?</td>" in html.render([report])


@pytest.mark.parametrize("content, names", [
    (None, ["No such file"]), (b"", ["not JSON"]), (b"[]", ["not a report"]),
    (b"{}", ["not a report"]), (b'{"format": "rxbench", "version": 9}', ["version 9"]),
    (b'{"format": "rxbench", "version": 1}', ["workload", "results"]), (b"\xff", ["not JSON"]),
])
def test_bad_reports(tmp_path, content, names):
    path = tmp_path / "report.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        document.load(path)
    for name in [str(path), *names]:
        assert name in str(caught.value)


@pytest.mark.parametrize("change, names", [
    (lambda report: report.pop("settings"), ["no settings"]),
    (lambda report: report.update(settings=[]), ["settings", "object"]),
    (lambda report: report.update(metrics=[]), ["metrics", "empty"]),
    (lambda report: report.update(results=3), ["results", "a list"]),
    (lambda report: report["results"][3].pop("metrics"), ["no metrics", "results[3]"]),
    (lambda report: report["results"][3].update(case="c9"), ["results[3]", "'c9'", "cases"]),
    (lambda report: report["results"][3].update(series={"mb_s": [[1.0]]}), ["mb_s", "pairs"]),
    (lambda report: report["results"][3].update(series=3), ["results[3].series", "object"]),
    (lambda report: report["results"][3]["percentiles"].update(high=1.0), ["'high'"]),
    (lambda report: report["results"][3]["metrics"].update(mb_s="fast"),
     ["results[3].metrics.mb_s", "a number or null"]),
    (lambda report: report["summary"][1].update(median=None), ["summary[1].median", "a number"]),
    (lambda report: report["summary"][1].update(ratio={}), ["summary[1].ratio", "median"]),
    (lambda report: report["metrics"][0].update(better="yes"), ["'yes'", "higher or lower"]),
    (lambda report: report["machine"].pop("cpu"), ["no cpu in machine"]),
    (lambda report: report["summary"][1].pop("n"), ["no n in summary[1]"]),
    (lambda report: report["machine"].update(load=[]), ["machine.load"]),
    (lambda report: report.update(complete="yes"), ["complete", "true or false"]),
])
def test_changed_by_hand(make_report, tmp_path, change, names):
    """The file is refused by name, whichever command reads it."""
    path, report = tmp_path / "report.json", copy.deepcopy(make_report(1, {"a": 1.0}))
    change(report)
    document.write(report, path)
    with pytest.raises(BadInput) as caught:
        document.load(path)
    for name in [f"{path}: truncated or modified: ", *names]:
        assert name in str(caught.value)


class Plots(HTMLParser):
    """The elements of each figure, and the requests of the page to other hosts."""

    def __init__(self):
        super().__init__()
        self.figure, self.paths, self.captions, self.outside = None, {}, [], []
        self.in_caption = False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "figure":
            self.figure = attributes["id"]
            self.paths[self.figure] = 0
        self.in_caption = tag == "figcaption"
        self.paths[self.figure] = self.paths.get(self.figure, 0) + (tag == "path")
        for key in ("src", "href", "xlink:href"):
            if attributes.get(key, "#")[0] != "#":
                self.outside.append(attributes[key])

    def handle_endtag(self, tag):
        self.figure = None if tag == "figure" else self.figure

    def handle_data(self, data):
        if self.in_caption:
            self.captions.append(data)
            self.in_caption = False


@pytest.mark.machine
def test_html_in_a_browser(make_report, tmp_path):
    """Two reports in one page, each with all its plots."""
    page = tmp_path / "report.html"
    page.write_text(html.render([make_report(1, LEVELS), make_report(2, {"one": 5.0}, 1)]))
    shown = subprocess.run([*BROWSER, f"file://{page}"], capture_output=True, text=True,
                           timeout=120, check=True).stdout
    seen = Plots()
    seen.feed(shown)
    for number in (1, 2):
        for name in ("bars", "percentiles", "mb-s", "lat-mean-us", "hit-percent"):
            assert seen.paths[f"plot-{number}-{name}"] > 10, name
    assert seen.captions[:5] == ["Throughput", "Latency percentiles, medians of the repeats",
                                 *(f"{name} over time, one line for each repeat" for name in
                                   ("Throughput", "Mean latency", "Hit ratio"))]
    assert seen.captions[5:7] == ["Throughput", "Latency percentiles"]
    assert seen.outside == []
    assert "a &lt;processor&gt; &amp; more" in shown and "&lt;x&gt;" in shown


def rxbench(*args, **options):
    return subprocess.run([sys.executable, "-B", LAUNCHER, *args], capture_output=True, text=True,
                          check=False, **options)


@pytest.mark.machine
def test_report_command(make_report, tmp_path):
    path, page = tmp_path / "report.json", tmp_path / "page.html"
    document.write(make_report(1, LEVELS), path)
    assert "the ram is best" in rxbench("report", path).stdout
    done = rxbench("report", path, "--html", page)
    assert done.returncode == 0 and page.read_text().count("<svg") == 5


def axes_of(make_report, draw):
    """The axes of the first small plot of a figure over time."""
    plt = plots.pyplot()
    levels = {f"s{number}": 10.0 ** (number % 4) for number in range(20)}
    _title, figure = draw(plt, make_report(1, levels, repeats=3, cases=1))
    return figure.axes[0]


@pytest.mark.machine
def test_all_lines_are_seen(make_report):
    """Each subject and repeat has a line, and the axes of no plot cut off a line."""
    axes = axes_of(make_report, lambda plt, report: plots._series(plt, report, "mb_s"))
    lines = axes.get_lines()
    assert len(lines) == 20 * 3
    bottom, top = axes.get_ylim()
    for line in lines:
        assert bottom <= min(line.get_ydata()) and max(line.get_ydata()) <= top
    assert len(axes.get_legend().get_texts()) == 20


@pytest.mark.machine
def test_no_two_subjects_look_alike(make_report):
    axes = axes_of(make_report, lambda plt, report: plots._series(plt, report, "mb_s"))
    looks = [(line.get_color(), line.get_linestyle()) for line in axes.get_lines()]
    assert len(set(looks)) == 20


@pytest.mark.machine
def test_labels_are_beside_the_whiskers(make_report):
    report = make_report(1, LEVELS, noise=0.3, cases=2)
    figure = plots._bars(plots.pyplot(), report)
    rows = [row for row in report["summary"] if row["metric"] == "mb_s"]
    labels = figure.axes[0].texts
    assert len(labels) == len(rows) == 6 and all(row["high"] > row["median"] for row in rows)
    assert sorted((label.xy[0], label.get_text()) for label in labels) == sorted(
        (row["high"], units.number(row["median"])) for row in rows)
    assert all(label.get_position()[0] > 0 and label.get_horizontalalignment() == "left"
               for label in labels)


@pytest.mark.machine
@pytest.mark.parametrize("most, scale", [(200.0, "linear"), (100000.0, "log")])
def test_no_bars_on_a_logarithmic_axis(make_report, most, scale):
    """A bar has no length there: points are drawn, whose colours and markers differ."""
    levels = {f"s{number}": 100.0 for number in range(19)}
    report = make_report(1, {**levels, "last": most}, noise=0.3, cases=1)
    axes, = plots._bars(plots.pyplot(), report).axes
    assert axes.get_xscale() == scale
    assert ("logarithmic" in axes.get_xlabel()) is (scale == "log")
    if scale == "linear":
        assert len(axes.patches) == 20
        return
    assert not axes.patches
    points = [line for line in axes.get_lines() if line.get_marker() not in ("|", "None", "")]
    medians = [row["median"] for row in report["summary"] if row["metric"] == "mb_s"]
    assert sorted(line.get_xdata()[0] for line in points) == sorted(medians)
    assert len({(line.get_color(), line.get_marker()) for line in points}) == 20
    # Nothing extends the axis far below the values.
    assert axes.get_xlim()[0] > min(medians) / 10
    assert len(axes.get_legend().get_texts()) == 20


@pytest.mark.machine
def test_percentiles_are_of_all_repeats(make_report):
    report = make_report(1, {"a": 1.0}, repeats=3, cases=1)
    for row, value in zip(report["results"], (1.0, 5.0, 100.0)):
        row["percentiles"] = {"50": value}
    figure = plots._percentiles(plots.pyplot(), report)
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [5.0]


def test_a_reader_who_stops_reading(make_report, tmp_path):
    path = tmp_path / "report.json"
    document.write([make_report(1, LEVELS)] * 40, path)
    done = subprocess.run(f"{sys.executable} -B {LAUNCHER} report --markdown {path} | head -n 1",
                          shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1 and done.stderr == ""


def test_markdown(make_report):
    """A table for each subject that others are compared with; cells are escaped."""
    report = make_report(1, LEVELS)
    for case in report["cases"][4:]:
        case["base"] = "disk"
    lines = list(markdown.render([report, report]))
    assert sum(line.startswith("Linux 6.12") for line in lines) == 1
    assert lines.count("| MB/s | the ram | the disk | the other | page |") == 2
    assert lines.count("| MB/s | the ram | the disk | the other |") == 2
    assert lines.count("`rxbench profile '<x>'`") == 2
    first = next(line for line in lines if line.startswith("| case 0 |"))
    assert first == "| case 0 | 2,004 (4 %) | 99.0 (5 %; 0.0494 x) | 104 (9 %; 0.0519 x) | 3.50 |"
    assert "a \\<processor> & more" in lines[0]
    assert lines.count("- case 0: the ram is best, 19.25 times as good as the other.") == 2
    assert sum("95 % confidence for each ratio alone" in line for line in lines) == 2
    assert sum("In brackets, % is the spread" in line for line in lines) == 2
    many = make_report(1, {f"s{number}": 1.0 for number in range(9)})
    assert "| | subject |" in "\n".join(markdown.render([many])).replace("|  |", "| |")


def test_many_in_one_file(make_report, tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for seed, path in enumerate(paths):
        document.write(make_report(seed, LEVELS), path)
    done = rxbench("report", *paths, "--json", tmp_path / "all.json", "--markdown")
    assert done.returncode == 0 and done.stdout.count("`rxbench profile") == 2
    again = rxbench("report", tmp_path / "all.json", "--markdown")
    assert again.stdout == done.stdout
    assert len(document.load_all(tmp_path / "all.json")) == 2
    refused = rxbench("compare", paths[0], tmp_path / "all.json")
    assert refused.returncode == 2 and "holds 2 reports" in refused.stderr


def test_no_matplotlib(make_report, tmp_path):
    """The page has the tables, and says why there are no plots."""
    path = tmp_path / "report.json"
    document.write(make_report(1, LEVELS), path)
    (tmp_path / "matplotlib.py").write_text("raise ImportError\n")
    done = rxbench("report", path, "--html", tmp_path / "x.html",
                   env={**os.environ, "PYTHONPATH": str(tmp_path)})
    page = (tmp_path / "x.html").read_text()
    assert done.returncode == 0 and done.stderr == ""
    assert "python3-matplotlib" in page and "<table>" in page and "<svg" not in page


def test_a_parameter_file_is_in_the_page(make_report):
    report = make_report(1, {"a": 1.0}, cases=1)
    report["settings"]["text"] = "sd=sd1,lun=/a\nwd=<w>\n"
    assert "<pre>sd=sd1,lun=/a\nwd=&lt;w&gt;\n</pre>" in html.render([report])


def test_compare_command(make_report, tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for path, seed, level in zip(paths, (1, 2, 3), (100.0, 100.0, 70.0)):
        document.write(make_report(seed, {"a": level}, noise=0.005), path)
    same = rxbench("compare", paths[0], paths[1], "--fail-if-worse", "5")
    assert same.returncode == 0 and "0 better, 0 worse, 8 no difference" in same.stdout
    worse = rxbench("compare", paths[0], paths[2], "--fail-if-worse", "5")
    assert worse.returncode == 3 and "8 worse" in worse.stdout
    assert rxbench("compare", paths[0], paths[2]).returncode == 0
    assert rxbench("compare", paths[0], paths[2], "--fail-if-worse", "50").returncode == 0
    slower = rxbench("compare", paths[0], paths[2], "--metric", "lat_mean_us",
                     "--fail-if-worse", "35")
    assert slower.returncode == 3 and "before us" in slower.stdout
    refused = rxbench("compare", paths[0], paths[1], "--metric", "speed")
    assert refused.returncode == 2 and "speed: must be one of mb_s, iops" in refused.stderr


def test_compare_fails(make_report, tmp_path):
    """It fails above 100 percent, and if a row is missing in the second report."""
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for path, levels in zip(paths, ({"a": 100.0}, {"a": 20.0}, {"a": 100.0, "b": 1.0})):
        document.write(make_report(1, levels), path)
    slow = ("compare", paths[0], paths[1], "--metric", "lat_mean_us", "--fail-if-worse")
    assert rxbench(*slow, "100").returncode == 3 and rxbench(*slow, "500").returncode == 0
    more = rxbench("compare", paths[0], paths[2], "--fail-if-worse", "100")
    assert more.returncode == 0 and more.stdout.count("Only in the second report:") == 8
    less = rxbench("compare", paths[2], paths[0], "--fail-if-worse", "100")
    assert less.returncode == 3 and "Only in the first report: case 0, the b." in less.stdout
    assert rxbench("compare", paths[2], paths[0]).returncode == 0


def test_compare_fails_if_nothing_is_certain(make_report, tmp_path):
    """Reports of too few repeats are no proof that nothing is worse."""
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for path, levels, repeats in zip(paths, ({"a": 100.0}, {"a": 10.0}, {"b": 1.0, "a": 1.0}),
                                     (1, 1, 3)):
        document.write(make_report(1, levels, repeats), path)
    refused = rxbench("compare", paths[0], paths[1], "--fail-if-worse", "5")
    assert refused.returncode == 2 and "8 unknown" in refused.stdout
    assert len(refused.stderr.splitlines()) == 1 and "--repeats 3" in refused.stderr
    assert rxbench("compare", paths[0], paths[1]).returncode == 0
    less = rxbench("compare", paths[2], paths[0], "--fail-if-worse", "5")
    assert less.returncode == 3 and less.stderr == ""


@pytest.mark.parametrize("left, complete, named", [
    (2, False, "1 of 2 results"), (2, True, "1 of 2 results"), (5, False, "not complete")])
def test_compare_fails_if_a_part_is_not_certain(make_report, tmp_path, left, complete, named):
    """One result of too few repeats, or a run that ended early, may hide what is worse."""
    before, after = (make_report(seed, {"a": 100.0}, cases=2) for seed in (1, 2))
    after["complete"] = complete
    after["results"] = [row for row in after["results"]
                        if row["case"] != "c0" or row["repeat"] < left]
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, report in zip(paths, (before, after)):
        document.write(report, path)
    refused = rxbench("compare", *paths, "--fail-if-worse", "50")
    assert refused.returncode == 2 and named in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert rxbench("compare", *paths).returncode == 0


def test_compare_fails_if_a_loss_may_be_noise(make_report, tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, speeds in zip(paths, ((100.0, 105.0, 95.0), (80.0, 95.0, 70.0))):
        report = make_report(1, {"a": 1.0}, repeats=3, cases=1)
        for row, speed in zip(report["results"], speeds):
            row["metrics"]["mb_s"] = speed
        document.write(report, path)
    refused = rxbench("compare", *paths, "--fail-if-worse", "10")
    assert refused.returncode == 2 and "1 not certain" in refused.stdout
    assert "1 of 1 results got worse by more than 10 %" in refused.stderr
    assert rxbench("compare", *paths, "--fail-if-worse", "25").returncode == 0


@pytest.mark.machine
@pytest.mark.parametrize("args, names", [
    ([], ["required", "COMMAND"]), (["nothing"], ["nothing"]),
    (["compare", "/none"], ["AFTER"]), (["compare", "/none", "/none"], ["/none"]),
    (["compare", "/a", "/b", "--fail-if-worse", "-1"], ["-1", "percentage"]),
    (["compare", "/a", "/b", "--fail-if-worse", "nan"], ["nan", "0 or more"]),
    (["report", "/none"], ["/none"]), (["run", "/none"], ["/none"]),
    (["profile", "/none"], ["/none", "rxd:SIZE"]), (["profile", "/etc/passwd"], ["/etc/passwd"]),
    (["profile", "/tmp", "--size", "x"], ["x"]), (["profile", "/tmp", "--repeats", "0"], ["0"]),
    (["profile", "cache:/none"], ["/none"]), (["profile", "rxd:big"], ["rxd:big", "number"]),
    (["profile", "cache:"], ["cache:", "no device"]), (["profile", "rxd:"], ["rxd:", "number"]),
    (["profile", "a=/tmp", "a=/var"], ["a", "two places"]),
    (["dd", "/tmp", "--bs", "3x"], ["3x"]), (["dd", "/tmp", "--target", "disk"], ["disk"]),
    (["copy", "/tmp", "--repeats", "3"], ["3", "from 5"]),
    (["copy", "/tmp", "--ways", "magic"], ["magic", "splice"]),
    (["tree", "/tmp", "--tarball", "/none"], ["/none"]),
    (["replay", "/none", "/tmp"], ["/none"]),
])
def test_bad_arguments(args, names):
    done = rxbench(*args)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("rxbench")
    for name in names:
        assert name in done.stderr


def test_list():
    done = rxbench("list")
    for name in ("profile", "dd", "run", "tree", "copy", "replay", "peers", "memory"):
        assert f"\n{name}: " in "\n" + done.stdout
