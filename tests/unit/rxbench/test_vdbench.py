# SPDX-License-Identifier: GPL-2.0-only
"""vdbench's parameter files: the resulting options of fio, and errors with their line."""

import io
import os
import subprocess
import types

import pytest

from rxbench import cli
from rxbench.run.progress import Silent
from rxbench.run.runner import Runner
from rxbench.system import machine
from rxbench.system.errors import BadInput
from rxbench.tools import fio
from rxbench.vdbench import jobs, parse
from rxbench.vdbench.steps import steps as steps_of
from rxbench.workloads import vdbench

GOLDEN = os.path.join(os.path.dirname(os.path.realpath(__file__)), "golden")
GIB = 1 << 30
REACHED = 1234


def job_files(path, engine):
    """All job files of a parameter file, luns being of 1 GiB."""
    definitions = parse.read(path)
    sizes = {storage.name: storage.size or GIB for storage in definitions.storages}
    texts = []
    for run in definitions.runs:
        for step in steps_of(run):
            rate = step.rate if isinstance(step.rate, int) else None
            if step.percent:
                rate = REACHED * step.percent // 100
            texts.append(f"# {step.name}: {step.title}\n"
                         + fio.job_file(*jobs.build(step, sizes, rate, engine)))
    return "\n".join(texts)


@pytest.mark.parametrize("name", ["sample", "parameters"])
@pytest.mark.parametrize("engine", [jobs.URING, jobs.PSYNC])
def test_golden(name, engine):
    with open(os.path.join(GOLDEN, f"{name}.{engine}.fio"), encoding="utf-8") as file:
        assert job_files(os.path.join(GOLDEN, f"{name}.vdb"), engine) == file.read()


START = "sd=sd1,lun=/a,size=1g\nwd=w,sd=sd1\n"


@pytest.mark.parametrize("text, line, names", [
    ("hd=h1,system=x\n", 1, ["hd=h1", "not supported"]),
    ("* x\n\nsd=sd1,lun=/a,offset=4k\n", 3, ["offset=4k", "threads"]),
    (START + "rd=r,wd=w,format=yes\n", 3, ["format=yes"]),
    (START + "rd=r,wd=w,\nelapsed=10,\nfordata=(1,2)\n", 5, ["fordata"]),
    ("sd=sd1\n", 1, ["no lun="]),
    ("sd=sd1,lun=/a\nsd=sd1,lun=/b\n", 2, ["twice"]),
    ("sd=sd1,lun=/a,lun=/b\n", 1, ["lun= is given twice"]),
    ("sd=sd1,lun=/a,size=big\n", 1, ["size=big"]),
    ("sd=sd1,lun=/a,size=0\n", 1, ["size=0"]),
    ("sd=sd1,lun=/a,threads=0\n", 1, ["threads=0", "from 1"]),
    ("sd=sd1,lun=/a,openflags=(o_direct,o_fast)\n", 1, ["o_fast", "o_dsync"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd2\n", 2, ["sd=sd2", "no such"]),
    ("sd=sd1,lun=/a\nwd=w,sd=x*\n", 2, ["x*"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1-sd9999999999\n", 2, ["sd=sd1-sd9999999999", "no such"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd2-sd1\n", 2, ["sd=sd2-sd1", "no such"]),
    ("sd=sd1,lun=/a\nwd=w\n", 2, ["no sd="]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rdpct=101\n", 2, ["rdpct=101", "100"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rdpct=half\n", 2, ["half"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rdpct=0,rhpct=50\n", 2, ["rhpct=50", "contradicts", "rdpct=0"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,whpct=50\n", 2, ["whpct=50", "contradicts"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rhpct=50,seekpct=70\n", 2, ["seekpct=100"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rdpct=50,rhpct=50\n", 2, ["rhpct=50", "whpct=0", "equal"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rhpct=1.5\n", 2, ["rhpct=1.5", "whole"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,xfersize=(4k,50,8k,40)\n", 2, ["add up to 100"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,xfersize=(4k,50,8k,25,2k,20,1k)\n", 2, ["pairs"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,xfersize=(4k,6k,4k)\n", 2, ["multiple"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,xfersize=(4k,50\n", 2, ["without ')'"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1)\n", 2, ["without '('"]),
    (START + "rd=r,wd=w2\n", 3, ["wd=w2", "no such"]),
    (START + "rd=r\n", 3, ["no wd="]),
    (START + "rd=r,wd=w,iorate=fast\n", 3, ["iorate=fast"]),
    (START + "rd=r,wd=w,iorate=0\n", 3, ["iorate=0"]),
    (START + "rd=r,wd=w,elapsed=1\n", 3, ["elapsed=1", "two intervals"]),
    (START + "rd=r,wd=w,elapsed=10,interval=0\n", 3, ["interval=0"]),
    (START + "rd=r,wd=w,elapsed=soon\n", 3, ["soon"]),
    (START + "rd=r,wd=w,curve=(10,20)\n", 3, ["needs iorate=curve"]),
    (START + "rd=r,wd=w,forthreads=(8-2,d)\n", 3, ["forthreads=(8-2,d)"]),
    (START + "rd=r,wd=w,iorate=(max-100,d)\n", 3, ["iorate=(max-100,d)", "of numbers"]),
    (START + "rd=r,wd=w,iorate=(100-max,100)\n", 3, ["iorate=(100-max,100)", "of numbers"]),
    (START + "rd=r,wd=w,iorate=(100-1000,max)\n", 3, ["iorate=(100-1000,max)", "of numbers"]),
    (START + "rd=r,wd=w,iorate=(curve-max,d)\n", 3, ["iorate=(curve-max,d)", "of numbers"]),
    (START + "rd=r,wd=w,forthreads=(1-4096,1)\n", 3, ["forthreads=(1-4096,1)", "1000 values"]),
    (START + "rd=r,wd=w,forxfersize=(4k,what)\n", 3, ["what"]),
    (START + "rd=r,wd=w,\n", 3, ["incomplete"]),
    (START + "rd=r,wd=w,\n\nelapsed=10\n", 4, ["incomplete"]),
    (START + "rd=r, wd=w\n", 3, ["blank before 'wd=w'"]),
    (START + "rd=r,wd\n", 3, ["'wd'", "PARAMETER=VALUE"]),
    ("rubbish\n", 1, ["rubbish"]),
])
def test_refused_with_its_line(tmp_path, text, line, names):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        parse.read(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: line {line}: ") and "\n" not in message
    for name in names:
        assert name in message


def test_as_many_values_as_may_be(tmp_path):
    path = tmp_path / "file"
    path.write_text(START + "rd=r,wd=w,forthreads=(1-1000,1)\n")
    assert parse.read(str(path)).runs[0].loops["threads"] == list(range(1, 1001))


@pytest.mark.parametrize("text, names", [("", ["no rd="]), (START, ["no rd="]),
                                         ("\xff\xfe".encode("latin-1"), ["not text"]),
                                         (None, ["No such file"])])
def test_no_parameter_file(tmp_path, text, names):
    path = tmp_path / "file"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInput) as caught:
        parse.read(str(path))
    for name in [str(path), *names]:
        assert name in str(caught.value)


@pytest.mark.parametrize("lun, device", [("/dev/null-is-missing", True), ("/dev/x/y", True),
                                         ("/dev/shm/x", False), ("/tmp/x", False)])
def test_what_a_new_lun_is(lun, device):
    assert vdbench._is_device(lun) is device


def test_the_text_is_kept(tmp_path):
    path = tmp_path / "file"
    path.write_text(START + "rd=r,wd=w\n")
    assert parse.read(str(path)).text == path.read_text()


def build(text, size=GIB, engine=jobs.URING):
    definitions = parse.File("f", text)
    step = next(steps_of(definitions.runs[0]))
    return jobs.build(step, {storage.name: size for storage in definitions.storages},
                      step.rate if isinstance(step.rate, int) else None, engine)[1]


def test_rates_and_threads_add_up():
    """The parts of a rate that is split add up to the rate."""
    for rate in (2, 3, 7, 100, 1001):
        for threads in (1, 3, 5, 64):
            listed = build(f"sd=sd1,lun=/a\nsd=sd2,lun=/b\nwd=w,sd=sd*\n"
                           f"rd=r,wd=w,iorate={rate},forthreads={threads}\n")
            assert sum(int(job["rate_iops"]) * job["numjobs"] for _name, job in listed) == rate
            if rate > 2 * threads:
                assert sum(job["iodepth"] * job["numjobs"] for _name, job in listed) == 2 * threads


@pytest.mark.parametrize("text, names", [
    ("sd=sd1,lun=/a\nwd=a,sd=sd1,skew=99\nwd=b,sd=sd1,skew=1\nrd=r,wd=*,iorate=20\n",
     "wd=b: an iorate of 20 a second leaves nothing for sd=sd1"),
    ("sd=sd1,lun=/a\nsd=sd2,lun=/b\nwd=w,sd=sd*\nrd=r,wd=w,iorate=1\n",
     "wd=w: an iorate of 1 a second leaves nothing for sd=sd2")])
def test_a_rate_leaves_out_nothing(text, names):
    """A point of a curve, whose rate is measured first, has what is left."""
    with pytest.raises(BadInput, match=names):
        build(text)


CURVE = ("sd=sd1,lun=/a\nsd=sd2,lun=/b\nwd=a,sd=sd1{0}\nwd=b,sd=(sd1,sd2),rdpct={1}{2}\n"
         "rd=r,wd=*,iorate=curve,curve=50\n")


def curve(rate, seen, *parts):
    """The jobs of a point of a curve, after a first run with these requests for each lun."""
    _first, step = steps_of(parse.File("f", CURVE.format(*parts)).runs[0])
    listed = jobs.build(step, {"sd1": GIB, "sd2": GIB}, rate, seen=seen)[1]
    totals = {}
    for name, job in listed:
        totals[name] = totals.get(name, 0) + job["numjobs"] * sum(requests(job))
    return totals, jobs.left_out(step, listed)


def test_a_curve_keeps_the_shares():
    """A fast and a slow workload do what they did at the maximum, unless skew= tells more."""
    assert curve(5000, (9900, 75, 25), "", 0, "") == (
        {"a-sd1": 4950, "b-sd1": 38, "b-sd2": 12}, [])
    assert curve(5000, (10000,), ",skew=50", 0, ",skew=50")[0] == {
        "a-sd1": 2500, "b-sd1": 1250, "b-sd2": 1250}


@pytest.mark.parametrize("rdpct, out", [(0, ["b-sd2"]), (50, ["b-sd1", "b-sd2"])])
def test_a_point_of_a_curve_that_is_too_low(rdpct, out):
    """A mix needs a read and a write; what is left out is told."""
    totals, left_out = curve(100, (9900, 100, 0), "", rdpct, "")
    assert left_out == out and totals["a-sd1"] == 99 and len(totals) == 3 - len(out)


def test_no_lun_of_a_curve_has_a_rate():
    text = "sd=sd1,lun=/a\nwd=w,sd=sd1,rdpct=50\nrd=r,wd=w,iorate=curve,curve=1\n"
    _first, step = steps_of(parse.File("f", text).runs[0])
    with pytest.raises(BadInput, match="rd=r: 1 % of the curve is 1 a second, .* too low"):
        jobs.build(step, {"sd1": GIB}, 1)


@pytest.mark.parametrize("line, titles", [
    ("iorate=(200,100,200)", ["iorate=200", "iorate=100", "iorate=200 (2)"]),
    ("forxfersize=(4k,4096)", ["iorate=max, xfersize=4K", "iorate=max, xfersize=4K (2)"]),
    ("iorate=(curve,curve),curve=(50,50)", [
        "iorate=max (for the curve)", "iorate=50%", "iorate=50% (2)",
        "iorate=max (for the curve) (2)", "iorate=50% (3)", "iorate=50% (4)"])])
def test_no_two_steps_have_one_name(line, titles):
    """They would be one row of the report."""
    found = list(steps_of(parse.File("f", START + f"rd=r,wd=w,{line}\n").runs[0]))
    assert [step.title for step in found] == [f"r {title}" for title in titles]
    assert len({step.name for step in found}) == len(found)
    assert [step.base for step in found if step.base] == [
        name for name in ["r-iorate-max-curve"] * 2 + ["r-iorate-max-curve-2"] * 2
        if "curve" in line]


def requests(job):
    """Reads and writes per second of a thread."""
    rates = [int(each) for each in job["rate_iops"].split(",")]
    if "rwmixread" in job:
        assert job["rw"] == "randrw" and all(rates)
        return rates
    return [*rates, 0] if job["rw"] == "randread" else [0, *rates]


def test_a_mix_has_its_rate():
    """fio would use a bare number for reads, and again for writes."""
    for engine in jobs.URING, jobs.PSYNC:
        for rate, percent, threads in ((2, 70, 8), (3, 70, 8), (10, 70, 8), (999, 70, 8),
                                       (100, 70, 64), (200, 95, 8), (10, 99, 8), (200, 99, 64)):
            listed = build(f"sd=sd1,lun=/a,threads={threads}\nwd=w,sd=sd1,rdpct={percent}\n"
                           f"rd=r,wd=w,iorate={rate}\n", engine=engine)
            parts = [(job["numjobs"], requests(job)) for _name, job in listed]
            assert all(sum(each) for _count, each in parts)
            reads = sum(count * each[0] for count, each in parts)
            assert sum(count * each[1] for count, each in parts) == rate - reads
            if engine == jobs.PSYNC:
                used = min(threads, max(reads, rate - reads))
                assert sum(count for count, _each in parts) == used
            # Each direction has one request at least.
            assert abs(reads - rate * percent / 100) <= 1
    with pytest.raises(BadInput, match="wd=w: an iorate of 1 a second"):
        build("sd=sd1,lun=/a\nwd=w,sd=sd1,rdpct=70\nrd=r,wd=w,iorate=1\n")


@pytest.mark.parametrize("sizes, least, mean", [
    ("(4k,50,64k,50)", "4k", 34816), ("(512,1,64k,99)", "512", 64885.76),
    ("(4k,64k,4k)", "4k", 34816), ("4k", None, None)])
def test_a_rate_is_one_of_requests(sizes, least, mean):
    """Of any size; fio's rate_iops= means the smallest one where arrivals are not random."""
    for rate in 10000, 11000:
        (_name, job), = build(f"sd=sd1,lun=/a,threads=1\nwd=w,sd=sd1,rdpct=0,xfersize={sizes}\n"
                              f"rd=r,wd=w,iorate={rate}\n")
        limits = {key: job[key] for key in ("rate", "rate_iops", "rate_process") if key in job}
        if rate == 10000:
            assert limits == {"rate_iops": "10000", "rate_process": "poisson"}
            assert job["bs"] == (least or sizes)
        else:
            assert limits == ({"rate": str(round(11000 * mean))} if mean else
                              {"rate_iops": "11000"})


@pytest.mark.parametrize("rate, limit", [(400, {"rate_iops": "100,300"}),
                                         (40000, {"rate": f"{10000 * 8192},{30000 * 8192}"})])
def test_a_rate_of_a_mix(rate, limit):
    (_name, job), = build("sd=sd1,lun=/a,threads=1\nwd=w,sd=sd1,rdpct=25,xfersize=(4k,50,12k,50)\n"
                          f"rd=r,wd=w,iorate={rate}\n")
    assert {key: job[key] for key in ("rate", "rate_iops") if key in job} == limit


def test_works_share_the_threads_of_a_lun():
    listed = build("sd=sd1,lun=/a,threads=5\nwd=w1,sd=sd1\nwd=w2,sd=sd1,rdpct=0\nrd=r,wd=w*\n")
    assert [sum(job["iodepth"] * job["numjobs"] for name, job in listed if name == wanted)
            for wanted in ("w1-sd1", "w2-sd1")] == [3, 2]


@pytest.mark.parametrize("skews, threads, storages", [
    ((99, 1), 8, 2), ((99.9, 0.1), 64, 1), ((80, 20), 512, 1), ((99.85, 0.15), 2, 1),
    ((50, 30, 20), 7, 2)])
@pytest.mark.parametrize("engine", [jobs.URING, jobs.PSYNC])
def test_weights_have_the_proportions_of_skew(engine, skews, threads, storages):
    """The weights of all threads of a workload add up to its share."""
    listed = build("".join(f"sd=sd{number},lun=/{number}\n" for number in range(storages))
                   + "".join(f"wd=w{rank},sd=sd*,skew={skew}\n" for rank, skew in enumerate(skews))
                   + f"rd=r,wd=w*,iorate=max,forthreads={threads}\n", engine=engine)
    weights = [(name, job["flow"] * job["numjobs"]) for name, job in listed]
    total = sum(weight for _name, weight in weights)
    for rank, skew in enumerate(skews):
        reached = sum(weight for name, weight in weights if name.startswith(f"w{rank}-"))
        assert 100 * reached / total == pytest.approx(skew, rel=0.01)
    assert all(1 <= job["flow"] <= jobs.WEIGHTS for _name, job in listed)


def test_too_small_a_share():
    text = "sd=sd1,lun=/a\nwd=a,sd=sd1,skew=99.95\nwd=b,sd=sd1,skew=0.05\nrd=r,wd=*\n"
    with pytest.raises(BadInput, match="rd=r: .* proportions of skew= .* 1 to 1000"):
        build(text)


@pytest.mark.parametrize("text, size, names", [
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,xfersize=1m\nrd=r,wd=w\n", 65536, ["sd=sd1", "xfersize=1M"]),
    ("sd=sd1,lun=/a\nwd=w,sd=sd1,rhpct=50\nrd=r,wd=w\n", 1 << 20, ["hitarea"]),
])
def test_too_small_a_lun(text, size, names):
    with pytest.raises(BadInput) as caught:
        build(text, size)
    for name in names:
        assert name in str(caught.value)


@pytest.mark.machine
@pytest.mark.parametrize("engine", [jobs.URING, jobs.PSYNC])
def test_fio_takes_the_golden_files(tmp_path, engine):
    """fio knows every option and value."""
    with open(os.path.join(GOLDEN, f"parameters.{engine}.fio"), encoding="utf-8") as file:
        texts = file.read().split("\n# ")
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"{number}.fio")
        paths[-1].write_text("# " + text.removeprefix("# "))
    assert len(paths) > 15
    for path in paths:
        done = subprocess.run(["fio", "--parse-only", path], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and not done.stderr, (path.read_text(), done.stderr)


def test_a_failed_run_stops_no_other(tmp_path, monkeypatch, capsys):
    """Only the points of a curve need its first run."""
    (tmp_path / "lun").write_bytes(bytes(1 << 20))
    (tmp_path / "file").write_text(
        f"sd=sd1,lun={tmp_path}/lun,size=1m\nwd=w,sd=sd1\nrd=default,wd=w\nrd=one,iorate=(1,50)\n"
        "rd=two,iorate=curve,curve=(50,100)\nrd=three\n")
    titles = []

    def run(_shared, _jobs, _interval, on_moment):
        titles.append(capsys.readouterr().out.splitlines()[-3].split(None, 3)[3])
        if "iorate=1" == titles[-1].split()[1] or "for the curve" in titles[-1]:
            raise fio.BenchError("broken")
        moments = [fio.Moment(float(second), fio.Counters(100 * second, 409600 * second, 1e3),
                              fio.Counters()) for second in (1, 2, 3)]
        for moment in moments:
            on_moment(moment)
        return moments
    monkeypatch.setattr(fio, "run", run)
    monkeypatch.setattr(machine, "fio_version", lambda: "fio-3.39")
    options = cli.parser().parse_args(["run", str(tmp_path / "file"), "--no-disks"])
    plan = vdbench.plan(options)
    plan.repeats = plan.most_repeats = 1
    outcome = Runner(plan, Silent(), lambda text: None).run()
    assert titles == ["one iorate=1", "one iorate=50", "two iorate=max (for the curve)",
                      "three iorate=max"]
    assert [row["case"] for row in outcome.results] == ["one-iorate-50", "three-iorate-max"]
    assert [failure["message"] for failure in outcome.failures] == [
        "broken", "broken; skipped: two iorate=50%; two iorate=100%"]


@pytest.mark.parametrize("counted, printed", [(0, 4096), (10 * 4096, 4096), (10 * 8192, 8192),
                                              (10 * 65536, 65536), (11 * 65536, 65536)])
def test_no_impossible_size(counted, printed):
    """fio counts the bytes of an interval a moment before or after its requests."""
    step = next(steps_of(parse.File("f", "sd=sd1,lun=/a\nwd=w,sd=sd1,xfersize=(4k,50,64k,50)\n"
                                    "rd=r,wd=w\n").runs[0]))
    out = io.StringIO()
    watch = types.SimpleNamespace(counters=lambda: {}, rates=lambda *_: {})
    intervals = vdbench.Intervals(step, watch, True, out)
    for seconds in 1, 2, 3:
        side = fio.Counters(10 * seconds, counted * seconds, 1e3 * seconds)
        intervals.take(fio.Moment(float(seconds), side, fio.Counters()))
    intervals.end()
    _label, _total, average, _disks = intervals.average()
    assert [row.size for row in (*intervals.rows, average)] == [printed] * 4
    assert [line.split()[4 if line[:2].isdigit() else 3] for line in out.getvalue().splitlines()
            ] == [str(printed)] * 4
    assert [row.mb for row in intervals.rows] == [10 * printed / 2**20] * 3


@pytest.mark.parametrize("reached, seconds, mark", [
    (800, 29, " (-20%)"), (960, 29, ""), (1060, 29, " (+6%)"), (1060, 2, ""), (1070, 2, " (+7%)")])
def test_a_missed_rate_is_told(reached, seconds, mark):
    """The rate that was asked for stands beside the achieved one, in all outputs.

    Of 2,000 requests at random times, 6 % more or less are no miss.
    """
    out, luns = io.StringIO(), types.SimpleNamespace(notes=[])
    metrics = {"iops": reached, "average_s": seconds}
    step = types.SimpleNamespace(name="r", title="r w", rate=1000)
    vdbench.Runs(None, luns, [step], False, out)._compare_rate(step, metrics)
    assert metrics["iops_requested"] == 1000
    assert f"requested 1,000 i/o per second, achieved {reached:,}{mark}\n" in out.getvalue()
    assert luns.notes == ([f"r w: 1,000 requests per second were requested, {reached:,} were "
                           f"achieved{mark}."] if mark else [])


@pytest.mark.parametrize("interval, warmup, average", [(2, 5, "avg_4-6"), (2, 4, "avg_3-6"),
                                                       (1, 0, "avg_2-6"), (3, 1, "avg_2-6")])
def test_the_average_has_no_warm_up(interval, warmup, average):
    """An interval in which the warm-up ends is left out."""
    run = types.SimpleNamespace(interval=interval, warmup=warmup)
    transfer = types.SimpleNamespace(least=lambda: 4096, largest=lambda: 4096)
    step = types.SimpleNamespace(run=run, works=[types.SimpleNamespace(transfer=transfer)])
    watch = types.SimpleNamespace(counters=lambda: {}, rates=lambda *_: {})
    intervals = vdbench.Intervals(step, watch, False, io.StringIO())
    for number in range(1, 7):
        side = fio.Counters(10 * number, 40960 * number, 1e3 * number)
        intervals.take(fio.Moment(float(interval * number), side, fio.Counters()))
    intervals.end()
    label, total, _row, _disks = intervals.average()
    assert label == average
    assert total.seconds == interval * (7 - int(average[4]))
