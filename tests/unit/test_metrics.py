# SPDX-License-Identifier: GPL-2.0-only
"""Metrics in both formats, and the dashboard and the alerts that read them."""

import json
import os
import re
import subprocess

import pytest

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
HERE = os.path.join(TOP, "tests/unit")
PACKAGING = os.path.join(TOP, "packaging/prometheus")
RULES = os.path.join(PACKAGING, "rxd.rules.yml")

# A sample: name, labels and value.
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[n"\\])*",?)+)\} ([0-9.]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
# The suffixes of the samples of a family, by its type.
ENDINGS = {"counter": ["_total"], "gauge": [""], "info": ["_info"], "stateset": [""],
           "histogram": ["_bucket", "_sum", "_count"]}
OURS = re.compile(r"\b(?:rxd|rxcache)_[a-z0-9_]+")


def promtool(*args, stdin=None):
    result = subprocess.run(["promtool", *args], input=stdin, capture_output=True, text=True,
                            check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """exposition_test, which prints the metrics of some made-up disks."""
    out = tmp_path_factory.mktemp("unit")
    subprocess.run(["make", "-s", "-C", HERE, f"O={out}", f"{out}/exposition_test"], check=True)
    return out / "exposition_test"


@pytest.fixture(scope="module")
def text(program):
    def of(*args):
        return subprocess.run([program, *args], capture_output=True, text=True,
                              check=True).stdout
    return of


@pytest.fixture(scope="module")
def emitted(text):
    """Return the names of all samples."""
    return {SAMPLE.fullmatch(line).group(1) for line in text("prometheus").splitlines()
            if not line.startswith("#")}


@pytest.mark.machine
def test_promtool_accepts_prometheus(text):
    assert promtool("check", "metrics", stdin=text("prometheus")) == ""


@pytest.mark.machine
def test_promtool_accepts_openmetrics(text, tmp_path):
    """The only command of promtool that reads OpenMetrics requires timestamps."""
    lines = [line if line.startswith("#") else line + " 1700000000"
             for line in text("openmetrics").splitlines()]
    path = tmp_path / "metrics"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    promtool("tsdb", "create-blocks-from", "openmetrics", str(path), str(tmp_path / "data"))
    listed = promtool("tsdb", "list", str(tmp_path / "data"))
    samples = sum(not line.startswith("#") for line in lines)
    assert re.search(rf"\b{samples}\b", listed), listed


def families(text):
    """(name, type, unit, samples) of each family; checks the order of the lines."""
    found = []
    for line in text.splitlines()[:-1]:
        words = line.split(" ", 3)
        if line.startswith("# TYPE "):
            found.append([words[2], words[3], None, []])
        elif line.startswith("# UNIT "):
            assert words[2] == found[-1][0] and not found[-1][3]
            found[-1][2] = words[3]
        elif line.startswith("# HELP "):
            assert words[2] == found[-1][0] and not found[-1][3] and words[3]
        else:
            found[-1][3].append(SAMPLE.fullmatch(line).groups())
    return found


def test_openmetrics(text):
    """The rules of OpenMetrics 1.0 that promtool does not check."""
    whole = text("openmetrics")
    assert whole.endswith("\n# EOF\n") and whole.count("# EOF") == 1
    found = families(whole)
    names = [name for name, *_ in found]
    assert len(names) == len(set(names)) and len(names) > 30
    for name, kind, unit, samples in found:
        assert samples and not name.endswith(("_total", "_info"))
        assert (unit is not None) == name.endswith(("_bytes", "_seconds"))
        assert unit is None or name.endswith("_" + unit)
        seen = set()
        for sample, labels, value in samples:
            assert sample in [name + ending for ending in ENDINGS[kind]]
            pairs = LABEL.findall(labels)
            assert len(dict(pairs)) == len(pairs)
            assert (sample, labels) not in seen
            seen.add((sample, labels))
            if kind == "stateset":
                assert name in dict(pairs) and value in ("0", "1")
            if kind == "info":
                assert value == "1"


def test_histogram(text):
    found = {name: samples for name, _, _, samples in families(text("openmetrics"))}
    samples = found["rxcache_io_latency_seconds"]
    buckets = [(float(dict(LABEL.findall(labels))["le"]), int(value))
               for name, labels, value in samples if name.endswith("_bucket")]
    assert buckets == sorted(buckets) and buckets[-1][0] == float("inf") and len(buckets) == 19
    counts = [value for _, value in buckets]
    assert counts == sorted(counts)
    assert [int(value) for name, _, value in samples if name.endswith("_count")] == counts[-1:]


def test_formats_say_the_same(text):
    def samples(form):
        return [line for line in text(form).splitlines() if not line.startswith("#")]
    assert samples("openmetrics") == samples("prometheus")


def test_nothing_to_tell(text):
    assert text("openmetrics", "empty") == "# EOF\n"
    assert text("prometheus", "empty") == ""


def test_unit_of_systemd():
    """It may write its file, and the alerts look there."""
    unit = read(os.path.join(TOP, "packaging/systemd/rxd-metrics.service"))
    found = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    command = found["ExecStart"].split()
    assert command[:5] == ["rxadm", "metrics", "--format", "prometheus", "--output"]
    folder, name = os.path.split(command[5])
    assert found["ReadWritePaths"] == folder == found["ConditionPathIsDirectory"]
    pattern = re.search(r'file=~"([^"]*)"', read(RULES)).group(1)
    assert re.fullmatch(pattern, os.path.join(folder, name))
    assert command[5] in read(os.path.join(TOP, "utils/rxadm/rxadm.8.scd"))


@pytest.mark.machine
def test_rules():
    assert "10 rules found" in promtool("check", "rules", RULES)


@pytest.mark.machine
def test_alerts():
    """The conditions that raise the alerts, and others that do not."""
    promtool("test", "rules", os.path.join(HERE, "rxd.rules.test.yml"))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_alerts_name_what_there_is(emitted):
    names = set(OURS.findall(re.sub(r"#.*", "", read(RULES)))) - {"rxd_state"}
    assert len(names) >= 6 and names <= emitted
    assert "rxd_state" in emitted


def test_all_are_documented(emitted):
    """Caches have the I/O metrics of RAM disks, and are not listed twice."""
    documented = set(OURS.findall(read(os.path.join(TOP, "Documentation/metrics.rst"))))
    documented -= {"rxcache_io_", "rxcache_io_latency_seconds"}
    assert documented <= emitted
    assert all(name.startswith("rxcache_io_") for name in emitted - documented)


def dashboard():
    return json.loads(read(os.path.join(PACKAGING, "rxd-dashboard.json")))


def queries():
    return [target["expr"] for panel in dashboard()["panels"]
            for target in panel.get("targets", ())]


def test_dashboard_names_what_there_is(emitted):
    assert len(queries()) >= 20
    variables = [variable["query"]["query"] for variable in dashboard()["templating"]["list"]
                 if variable["type"] == "query"]
    for query in queries() + variables:
        names = set(OURS.findall(query))
        assert names and names <= emitted, query


def test_dashboard_shows_the_advice(emitted):
    wanted = {name for name in emitted if name.startswith("rxcache_advice_")}
    assert len(wanted) == 3 and wanted <= set(OURS.findall(" ".join(queries())))


@pytest.mark.machine
def test_dashboard_queries_parse(tmp_path):
    path = tmp_path / "rules.yml"
    rules = [{"record": f"query:{number}",
              "expr": query.replace("$__rate_interval", "1m")}
             for number, query in enumerate(queries())]
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}),
                    encoding="utf-8")
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


def test_dashboard_is_whole():
    """Panels that overlap, or have the same number, are lost at import."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
