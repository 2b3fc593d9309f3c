# SPDX-License-Identifier: GPL-2.0-only
"""Parameter files, each of which names its feature, and what fio must be told for it.

* with: values of the variables; * step: the runs, all of them, in their order;
* fio: lines of the job files, in their order; * not: what is nowhere in them.
"""

import glob
import os
import re
import subprocess

import pytest

from rxbench.system.errors import BadInput
from rxbench.tools import fio
from rxbench.vdbench import jobs, parse
from rxbench.vdbench.steps import steps as steps_of
from rxbench.workloads import vdbench

pytestmark = pytest.mark.machine
FEATURES = sorted(glob.glob(os.path.join(os.path.dirname(os.path.realpath(__file__)),
                                         "features/*.vdb")))
GIB, MIB = 1 << 30, 1 << 20


def job_files(definitions):
    """Return title and job file of each step, with luns of 1 GiB."""
    sizes = {storage.name: storage.size or GIB for storage in definitions.storages}
    for run in definitions.runs:
        for step in steps_of(run):
            rate = step.rate if isinstance(step.rate, int) else None
            yield step.title, fio.job_file(*jobs.build(step, sizes, rate,
                                                       validate=definitions.validate))


def wanted(text, what):
    return re.findall(rf"^\* {what}: (.*)$", text, re.MULTILINE)


def test_there_are_enough():
    assert len(FEATURES) >= 15


@pytest.mark.parametrize("path", FEATURES, ids=os.path.basename)
def test_feature(tmp_path, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.startswith("* Feature: ")
    values = dict(pair.split("=") for line in wanted(text, "with") for pair in line.split())
    made = list(job_files(parse.read(path, values)))
    if wanted(text, "step"):
        assert [title for title, _text in made] == wanted(text, "step")
    lines = iter([line for _title, each in made for line in each.splitlines()])
    for each in wanted(text, "fio"):
        assert each in lines, f"{each} is not there, or not after what is before it"
    for each in wanted(text, "not"):
        assert not [title for title, job in made if each in job]
    for _title, each in made:
        (tmp_path / "job.fio").write_text(each)
        done = subprocess.run(["fio", "--parse-only", tmp_path / "job.fio"], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0 and not done.stderr, (each, done.stderr)


def measured(tmp_path, text, more=None, **changes):
    """Run two seconds on a lun of 1 MiB; return fio's result and the requests in order."""
    lun = tmp_path / "lun"
    with open(lun, "wb") as file:
        file.truncate(MIB)
    definitions = parse.File("f", text.replace("LUN", str(lun)))
    step = next(steps_of(definitions.runs[0]))
    shared, listed = jobs.build(step, {"sd1": MIB}, step.rate if isinstance(step.rate, int)
                                else None, validate=definitions.validate, **changes)
    return fio.run({**shared, "runtime": 2, **(more or {})}, listed)[-1]


def test_one_stream(tmp_path):
    """Each request begins where the previous one ended, also between reads and writes."""
    measured(tmp_path, "sd=sd1,lun=LUN,threads=4\n"
             "wd=w,sd=sd1,rdpct=50,xfersize=64k,seekpct=seq\nrd=r,wd=w,iorate=100\n",
             {"write_iolog": tmp_path / "log"})
    requests = [line.split()[-3:] for line in (tmp_path / "log").read_text().splitlines()
                if line.split()[-3] in ("read", "write")]
    assert len(requests) > 100 and {name for name, *_where in requests} == {"read", "write"}
    assert [int(offset) for _name, offset, _length in requests] == [
        number % 16 * 65536 for number in range(len(requests))]


@pytest.mark.parametrize("text, names", [
    ("sd=sd1,lun=LUN\nwd=w,sd=sd1,rdpct=50,seekpct=0,xfersize=(4k,50,8k,50)\nrd=r,wd=w\n",
     ["wd=w", "one xfersize="]),
    ("sd=sd1,lun=LUN\nwd=w,sd=sd1,rdpct=50,seekpct=0,range=(0,50)\nrd=r,wd=w\n",
     ["wd=w", "range="]),
    ("sd=sd1,lun=LUN,range=(300,400)\nwd=w,sd=sd1\nrd=r,wd=w\n", ["sd=sd1", "range="]),
    ("validate=yes\nsd=sd1,lun=LUN\nwd=a,sd=sd1,rdpct=0\nwd=b,sd=sd1,rdpct=0\nrd=r,wd=(a,b)\n",
     ["rd=r", "wd=a", "wd=b", "sd=sd1"]),
    ("validate=yes\nsd=sd1,lun=LUN\nwd=a,sd=sd1,rdpct=0,xfersize=(4k,8k,4k)\nrd=r,wd=a\n",
     ["wd=a", "one xfersize="]),
])
def test_refused(tmp_path, text, names):
    with pytest.raises(BadInput) as caught:
        measured(tmp_path, text)
    for name in names:
        assert name in str(caught.value)


def test_one_stream_without_io_uring(tmp_path):
    text = "sd=sd1,lun=LUN,threads={}\nwd=w,sd=sd1,rdpct=50,seekpct=0\nrd=r,wd=w,iorate=100\n"
    with pytest.raises(BadInput, match="needs io_uring for threads=2, or threads=1"):
        measured(tmp_path, text.format(2), engine=jobs.PSYNC)
    assert measured(tmp_path, text.format(1), engine=jobs.PSYNC).both().ios > 100


def test_one_stream_keeps_to_the_size(tmp_path):
    """Without a zone, fio would continue to the end of the lun."""
    lun = tmp_path / "lun"
    lun.write_bytes(bytes(2 * MIB))
    path = tmp_path / "file"
    path.write_text(f"sd=sd1,lun={lun},size=1m\nwd=w,sd=sd1,rdpct=50,seekpct=seq\nrd=r,wd=w\n")
    options = vdbench_options(path)
    with pytest.raises(BadInput, match="line 1: .*wd=w would go on to its end"):
        vdbench.plan(options)


def vdbench_options(path, *more):
    from rxbench import cli
    return cli.parser().parse_args(["run", str(path), *more])


@pytest.mark.parametrize("values, names", [
    ([], ["line 2", "$lun: has no value", "lun=VALUE"]),
    (["lun=/a", "lunn=/b"], ["no $lunn"]),
    (["lun"], ["'lun'", "NAME=VALUE"]), (["lun=/a", "lun=/b"], ["'lun=/b'", "once"]),
])
def test_variables(tmp_path, values, names):
    path = tmp_path / "file"
    path.write_text("* $comment\nsd=sd1,lun=$lun\nwd=w,sd=sd1\nrd=r,wd=w\n")
    with pytest.raises(BadInput) as caught:
        vdbench.plan(vdbench_options(path, *values))
    for name in names:
        assert name in str(caught.value)


def test_skew_of_all(tmp_path):
    end = measured(tmp_path, "sd=sd1,lun=LUN,threads=2\nwd=a,sd=sd1,skew=80\n"
                   "wd=b,sd=sd1,rdpct=0,skew=20\nrd=r,wd=(a,b)\n")
    assert end.read.ios / end.both().ios == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("engine", [jobs.PSYNC, jobs.URING])
def test_shares_of_a_curve(tmp_path, engine):
    """The first run counts the requests of each workload on each lun."""
    end = measured(tmp_path, "sd=sd1,lun=LUN,threads=8\nwd=a,sd=sd1\nwd=b,sd=sd1,rdpct=0\n"
                   "rd=r,wd=(a,b),iorate=curve\n", engine=engine)
    assert end.groups == (end.read.ios, end.write.ios) and all(end.groups)


VALIDATED = ("validate=yes\nsd=sd1,lun=LUN,threads=4\nwd=w,sd=sd1,rdpct={},seekpct={}\n"
             "rd=r,wd=w,iorate=1000\n")


MIXES = pytest.mark.parametrize("rdpct, seekpct", [(0, 100), (50, 100), (0, 0), (30, 60)])
ENGINES = pytest.mark.parametrize("engine", [jobs.URING, jobs.PSYNC])


@ENGINES
@MIXES
def test_validation(tmp_path, rdpct, seekpct, engine):
    """Written data is read again and found unchanged."""
    end = measured(tmp_path, VALIDATED.format(rdpct, seekpct), engine=engine)
    assert end.write.ios > 500 and end.read.ios > end.write.ios * 0.4


@ENGINES
@MIXES
def test_validation_finds_damage(tmp_path, monkeypatch, rdpct, seekpct, engine):
    monkeypatch.chdir(tmp_path)
    lun = tmp_path / "lun"
    with subprocess.Popen(["sh", "-c", 'while sleep 0.01; do dd if=/dev/urandom of="$0" bs=1M '
                           'count=1 conv=notrunc status=none; done', lun]) as damage:
        try:
            with pytest.raises(fio.BenchError, match="verify: .*lun offset"):
                measured(tmp_path, VALIDATED.format(rdpct, seekpct), engine=engine)
        finally:
            damage.kill()
    assert os.listdir(tmp_path) == ["lun"]


@pytest.mark.parametrize("text, line, names", [
    ("wd=w,sd=sd1,skew=50\nrd=r,wd=w\n", 3, ["rd=r", "50", "must be 100"]),
    ("wd=w,sd=sd1,skew=100\nwd=x,sd=sd1\nrd=r,wd=(w,x)\n", 4, ["100", "wd=x has none"]),
    ("wd=w,sd=sd1,skew=60\nwd=x,sd=sd1,skew=60\nrd=r,wd=(w,x)\n", 4, ["120"]),
    ("wd=w,sd=sd1,range=(60,40)\nrd=r,wd=w\n", 2, ["range=(60,40)", "below"]),
    ("wd=w,sd=sd1,range=(90,110)\nrd=r,wd=w\n", 2, ["range=(90,110)", "up to 100"]),
    ("wd=w,sd=sd1,range=(50,1m)\nrd=r,wd=w\n", 2, ["range=(50,1m)", "percent"]),
    ("wd=w,sd=sd1,range=5\nrd=r,wd=w\n", 2, ["range=5", "(FROM,TO)"]),
    ("wd=w,sd=sd1\nrd=r,wd=w,threads=2,forthreads=(1,2)\n", 3, ["forthreads= is given twice"]),
    ("wd=w,sd=sd1\nrd=r,wd=w,forrdpct=(0,101)\n", 3, ["forrdpct=(0,101)", "100"]),
    ("wd=w,sd=sd1,rhpct=10,whpct=10,rdpct=50\nrd=r,wd=w,forrdpct=(0,50)\n", 3,
     ["rhpct=10 contradicts rdpct=0"]),
    ("wd=w,sd=sd1,rhpct=10\nrd=r,wd=w,forseekpct=0\n", 3, ["needs seekpct=100"]),
    ("wd=w,sd=sd1,openflags=fast\nrd=r,wd=w\n", 2, ["fast", "o_direct"]),
    ("wd=w,sd=sd1\nrd=r,wd=w,iorate=curve,curve=(10-200,10)\n", 3, ["curve=(10-200,10)", "100"]),
    ("validate=maybe\nwd=w,sd=sd1\nrd=r,wd=w\n", 2, ["validate=maybe", "yes or no"]),
])
def test_refused_with_its_line(tmp_path, text, line, names):
    path = tmp_path / "file"
    path.write_text("sd=sd1,lun=/a,size=1g\n" + text)
    with pytest.raises(BadInput) as caught:
        parse.read(str(path))
    assert str(caught.value).startswith(f"{path}: line {line}: ")
    for name in names:
        assert name in str(caught.value)
