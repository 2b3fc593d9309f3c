# SPDX-License-Identifier: GPL-2.0-only
"""rxbench: each workload with tiny sizes, its report, and what it leaves and refuses."""

import glob
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from rxdlib import nvme, schema
from rxdlib.command import BUILD, ENVIRONMENT, program, run
from rxdlib.lab import DISK, leftovers
from rxdlib.sampled import long

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
LAUNCHER = os.path.join(TOP, "utils/rxbench/run")
with open(os.path.join(TOP, "Documentation/rxbench.schema.json"), encoding="utf-8") as schema_file:
    SCHEMA = json.load(schema_file)
SAMPLE = os.path.join(TOP, "tests/unit/rxbench/golden/sample.vdb")
# Modules that peers may load, and must unload.
MODULES = {"brd", "zram", "null_blk", "loop", "dm_cache", "bcache", "dm_writecache", "rapiddisk",
           "rapiddisk_cache", "nvmet", "nvme_loop", "nvmet_tcp", "nvme_tcp"}
POSTGRES = os.path.join(TOP, "tests/bench/postgres-install")
RAPIDDISK = os.path.join(BUILD, "rapiddisk")
INPUT = 2
SLOW_DISK = "/dev/vdc"


def command(*args):
    return ["python3", "-B", LAUNCHER, *map(str, args)]


def environment():
    tools = program("rxadm")
    return {**ENVIRONMENT, "RXADM": tools,
            "PATH": f"{ENVIRONMENT.get('PATH', os.defpath)}:{os.path.dirname(tools)}"}


def started(*args, **options):
    return subprocess.Popen(command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment(), **options)


def rxbench(*args, **options):
    return subprocess.run(command(*args), capture_output=True, text=True, check=False,
                          env=environment(), timeout=600, **options)


def loaded():
    with open("/proc/modules", encoding="ascii") as file:
        return {line.split()[0] for line in file} & MODULES


@pytest.fixture(autouse=True)
def nothing_of_rxbench_left():
    """No directory, mount, mapping, RAM disk or module of rxbench is left."""
    before = loaded()
    yield
    assert leftovers() == []
    assert glob.glob("/tmp/rxbench-*") + glob.glob("/dev/shm/rxbench-*") \
        + glob.glob("/var/tmp/rxbench-*") == []
    assert loaded() <= before


@pytest.fixture
def empty_disk():
    """The test disk without data, with a RAM disk for the cache."""
    run("blkdiscard", "--zeroout", "--length", 64 << 20, DISK)
    run("wipefs", "--all", "--quiet", DISK)


def measured(tmp_path, *args):
    """The report of a run, which must succeed."""
    done = rxbench(*args, "--most-repeats", 1, "--output", tmp_path / "out", "--no-html",
                   "--quiet")
    assert done.returncode == 0, done.stderr + done.stdout
    with open(tmp_path / "out/report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert list(schema.errors(report, SCHEMA)) == []
    assert report["complete"] and not report["failures"] and report["workload"] == args[0]
    wanted = {(case["name"], subject["name"]) for case in report["cases"]
              for subject in report["subjects"]}
    return report, done, wanted


def seen(report):
    return {(row["case"], row["subject"]) for row in report["results"]}


def median(report, case, subject, metric="mb_s"):
    found, = (row["median"] for row in report["summary"]
              if (row["case"], row["subject"], row["metric"]) == (case, subject, metric))
    return found


def test_profile(tmp_path, empty_disk):
    report, done, wanted = measured(
        tmp_path, "profile", "rxd:32m", f"cached=cache:{DISK}:32m", f"disk={DISK}", "--destroy",
        DISK, "--size", "4m", "--seconds", 1, "--repeats", 1, "--jobs", "randread-4k,write-1m")
    assert seen(report) == wanted and len(wanted) == 6
    assert all(row["metrics"]["mb_s"] > 0 and row["percentiles"] for row in report["results"])
    cached, = (row for row in report["results"]
               if (row["case"], row["subject"]) == ("randread-4k", "cached"))
    assert cached["metrics"]["hit_percent"] > 99
    assert "page: RxDSK" in done.stdout and "1,300" in done.stdout
    assert report["subjects"][2]["details"]["queue"]["scheduler"]


def processor_caches():
    """Bytes of what all caches of the processors hold of data."""
    lines = run("lscpu", "--bytes", "--caches=TYPE,ALL-SIZE", "--json").stdout
    return sum(int(cache["all-size"]) for cache in json.loads(lines)["caches"]
               if cache["type"] != "Instruction")


def test_sweep_of_steady_states(tmp_path):
    """As short as it can be: five rounds, steady or not, of a file of four times the caches."""
    size = max(-(-4 * processor_caches() >> 20) << 20, 4 << 20)
    report, done, wanted = measured(
        tmp_path, "profile", f"rxd:{(size * 6 // 5 >> 20) + 21}m", "--size", size, "--sweep",
        "--blocks", "4k", "--depths", "1,8", "--mixes", "70", "--steady", "--most-rounds", 5,
        "--seconds", 1, "--repeats", 1)
    assert seen(report) == wanted == {("4k-r70-q1", "rxd"), ("4k-r70-q8", "rxd")}
    for row in report["results"]:
        steady = row["facts"]["steady"]
        assert steady["rounds"] == len(steady["iops"]) == len(row["series"]["mb_s"]) == 5
        unsteady = steady["range_percent"] > 20 or steady["slope_percent"] > 10
        assert steady["reached"] is not unsteady
        assert min(steady["iops"]) <= row["metrics"]["iops"] <= max(steady["iops"])
        assert row["metrics"]["lat_max_us"] >= row["metrics"]["lat_p99_us"]
    assert done.stdout.count("Not steady after 5 rounds") == sum(
        not row["facts"]["steady"]["reached"] for row in report["results"])
    assert "IOPS, random 70 % reads" in done.stdout and "longest latency" in done.stdout


def test_dd(tmp_path):
    report, _done, wanted = measured(tmp_path, "dd", "rxd:32m", tmp_path, "--size", "2m", "--bs",
                                     "512,64k", "--mode", "buffered", "--repeats", 1)
    ram = {case for case, subject in seen(report) if subject == "rxd"}
    assert {(case, "rxd") for case in ram} == {each for each in wanted if each[1] == "rxd"}
    files = {case for case, subject in seen(report) if subject != "rxd"}
    assert files == {case for case in ram if case.startswith("file-")} and len(ram) == 12


def parameter_file(tmp_path, elapsed=None, threads=None):
    """The sample, on luns in a directory of the test."""
    os.mkdir(tmp_path / "vdb")
    with open(SAMPLE, encoding="ascii") as file:
        text = file.read().replace("/vdb/", f"{tmp_path}/vdb/")
    if elapsed:
        text = text.replace("elapsed=30", f"elapsed={elapsed}")
    if threads:
        text = text.replace("forthreads=(64)", f"forthreads=({threads})")
    (tmp_path / "file").write_text(text)
    return tmp_path / "file"


def check_intervals(report, done, elapsed, threads):
    """vdbench's lines, whose average is fio's; each of the 4 luns has so many threads."""
    result, = report["results"]
    facts, metrics = result["facts"], result["metrics"]
    numbers = [row["interval"] for row in facts["intervals"]]
    assert numbers == sorted(set(numbers)) and abs(numbers[-1] - elapsed) <= 1
    assert len(numbers) >= elapsed / 3
    # Where fio is late, an interval covers two, but nothing is left out or counted twice.
    ends, rates = zip(*result["series"]["iops"])
    counts = [rate * (end - begin) for begin, end, rate in zip((0, *ends), ends, rates)]
    assert sum(counts) == pytest.approx(facts["fio"]["iops"] * ends[-1], rel=1e-4)
    assert sum(counts[1:]) == pytest.approx(metrics["iops"] * (ends[-1] - ends[0]), rel=1e-4)
    assert [row["rate"] for row in facts["intervals"]] == pytest.approx(rates)
    assert all(abs(number - end) <= 1 for number, end in zip(numbers, ends))
    lines = done.stdout.splitlines()
    rows = [line.split() for line in lines if line[:2].isdigit() and line[2] == ":"]
    assert [int(row[1]) for row in rows] == numbers and {len(row) for row in rows} == {11}
    average, = (line.split() for line in lines if line.split()[:1] == [facts["average"]])
    assert facts["average"] == f"avg_{numbers[1]}-{numbers[-1]}"
    assert float(average[1]) == pytest.approx(metrics["iops"], abs=0.01)
    assert all(row["size"] == 8192 for row in facts["intervals"] if row["rate"])
    assert 65 < metrics["read_percent"] < 75
    assert metrics["lat_mean_us"] == pytest.approx(facts["fio"]["lat_mean_us"], rel=0.5)
    # Little's law: a thread has one I/O under way, or none where it waits for a processor.
    assert threads < metrics["iops"] * metrics["lat_mean_us"] / 1e6 < 4 * threads * 1.05


def test_vdbench(tmp_path):
    """Without openflags= it asks no tmpfs for direct I/O, which is new in Linux 6.6.

    Before it reports an interval, fio waits for each of its threads. 256 of them can take
    a slow machine longer than an interval, so this test has fewer.
    """
    path = parameter_file(tmp_path, elapsed=8, threads=4)
    report, done, _wanted = measured(tmp_path, "run", path, "--file-size", "4m")
    check_intervals(report, done, elapsed=8, threads=4)
    assert os.listdir(tmp_path / "vdb") == []


def test_vdbench_on_a_disk(tmp_path, lab):
    """At a rate that it can hold: fio's figures, the average's and the disk's are the same."""
    disk = lab.ramdisk(16 << 20)
    path = tmp_path / "file"
    path.write_text(f"sd=sd1,lun={disk.path},openflags=o_direct\n"
                    "wd=wd1,sd=sd1,rdpct=50,xfersize=4k,seekpct=100\n"
                    "rd=rd1,wd=wd1,iorate=500,elapsed=8,warmup=3,interval=1\n")
    report, done, _wanted = measured(tmp_path, "run", path)
    result, = report["results"]
    facts, metrics = result["facts"], result["metrics"]
    # 2,500 requests at random times are rarely 10 % off.
    for rate in metrics["iops"], facts["fio"]["iops"]:
        assert rate == pytest.approx(500, rel=0.1)
    assert facts["average"].startswith("avg_4-")
    name = os.path.basename(disk.path)
    seen_by_disk = facts["disks"][name]
    assert seen_by_disk["r_s"] + seen_by_disk["w_s"] == pytest.approx(500, rel=0.15)
    for direction in "rw":
        assert seen_by_disk[f"{direction}_s"] == pytest.approx(250, rel=0.4)
        assert seen_by_disk[f"k{direction}_s"] == pytest.approx(
            4 * seen_by_disk[f"{direction}_s"], rel=0.01)
    lines = [line.split()[-1] for line in done.stdout.splitlines() if line.split()]
    assert lines.count(name) == len(facts["intervals"]) + 1


def test_vdbench_on_files_with_data(tmp_path):
    path = parameter_file(tmp_path)
    for number in range(1, 5):
        (tmp_path / f"vdb/file{number}").write_bytes(b"data" * (1 << 20))
    done = rxbench("run", path, "--output", tmp_path / "out")
    first = f"{tmp_path}/vdb/file1"
    assert done.returncode == INPUT and f"line 1: lun={first}: holds data" in done.stderr
    assert f"--destroy {first}" in done.stderr and not (tmp_path / "out").exists()


def test_vdbench_on_the_file_of_a_loop_device(tmp_path):
    """A file system on the device would be overwritten while it is mounted."""
    path, before = parameter_file(tmp_path), loaded()
    lun = tmp_path / "vdb/file1"
    lun.write_bytes(bytes(4 << 20))
    run("modprobe", "loop")
    node = run("losetup", "--find", "--show", lun).stdout.strip()
    try:
        done = rxbench("run", path, "--destroy", lun, "--output", tmp_path / "out")
    finally:
        run("losetup", "--detach", node)
        if "loop" not in before:
            run("modprobe", "--remove", "loop")
    assert done.returncode == INPUT and f"{lun}: in use: {node} has it" in done.stderr


@pytest.mark.long
def test_vdbench_sample_as_it_stands(tmp_path, lab):
    """On files that are there, of the size they have."""
    os.symlink(tmp_path / "vdb", "/vdb")
    try:
        parameter_file(tmp_path)
        for number in range(1, 5):
            with open(f"/vdb/file{number}", "wb") as file:
                file.write(bytes(4 << 20))
        report, done, _wanted = measured(tmp_path, "run", SAMPLE)
        check_intervals(report, done, elapsed=30, threads=64)
        again = rxbench("run", SAMPLE, "--output", tmp_path / "again")
        assert again.returncode == INPUT and "line 1: lun=/vdb/file1: holds data" in again.stderr
        assert "--destroy /vdb/file1" in again.stderr and not (tmp_path / "again").exists()
    finally:
        os.unlink("/vdb")


def tarball(tmp_path):
    os.makedirs(tmp_path / "tree/inner")
    for number in range(30):
        (tmp_path / f"tree/inner/{number}.c").write_text("int x;\n" * 300 * number)
    run("tar", "-czf", tmp_path / "tree.tar.gz", "-C", tmp_path, "tree")
    return tmp_path / "tree.tar.gz"


def test_tree(tmp_path):
    os.mkdir(tmp_path / "plain")
    report, _done, wanted = measured(tmp_path, "tree", "rxd:32m", tmp_path / "plain", "--tarball",
                                     tarball(tmp_path), "--workers", 4)
    assert seen(report) == wanted and len(report["results"]) == 3 * 2 * 8
    for row in report["results"]:
        metrics = row["metrics"]
        assert metrics["total_s"] == pytest.approx(metrics["real_s"] + metrics["sync_s"])
    assert os.listdir(tmp_path / "plain") == []


def test_copy(tmp_path):
    ways = ["cp", "rxcp", "mmap", "rw-128K", "direct-8K", "copy_file_range", "splice"]
    report, _done, wanted = measured(tmp_path, "copy", "rxd:32m", "--size", "1m", "--ways",
                                     ",".join(ways))
    assert seen(report) == wanted and len(report["results"]) == 5 * 2 * len(ways)
    begins = [min((row for row in report["results"] if row["repeat"] == repeat),
                  key=lambda row: row["order"])["subject"] for repeat in range(5)]
    assert begins == ways[:5]


def test_copies_at_once(tmp_path):
    """Where memory is left, they evict nothing."""
    report, _done, wanted = measured(tmp_path, "copy", "rxd:32m", "--size", "1m", "--jobs", 2,
                                     "--witness", "1m", "--ways", "mmap-256K-populate")
    assert seen(report) == wanted and len(report["results"]) == 5 * 2
    assert {row["metrics"]["pushed_percent"] for row in report["results"]} == {0}
    assert {row["metrics"]["cached_mb"] for row in report["results"]} == {4 * 1.048576}


def trace(path, writes=False):
    """Each of 100 blocks twice, so that half of the reads can hit."""
    lines = ["version,time,op,size,lbn"]
    for turn in range(2):
        lines += [f"1,{turn},{'2a' if writes and not number % 5 else '28'},4096,{number * 8}"
                  for number in range(100)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_replay(tmp_path, empty_disk):
    report, _done, wanted = measured(
        tmp_path, "replay", trace(tmp_path / "trace"), f"cache:{DISK}:16m", "rxd:16m", "--depth",
        1, "--repeats", 1)
    assert seen(report) == wanted
    cached = next(row for row in report["results"] if row["subject"].startswith("cached"))
    assert cached["metrics"]["hit_percent"] == pytest.approx(50, abs=1)
    assert cached["percentiles"] and cached["series"]["hit_percent"]


def test_replay_reads_leave_a_disk_alone(tmp_path, lab):
    """A disk that holds something may be read, and is not wiped."""
    run("mkfs.ext4", "-q", "-F", DISK)
    measured(tmp_path, "replay", trace(tmp_path / "trace"), DISK, "--repeats", 1)
    assert "ext4" in run("wipefs", "--no-act", DISK).stdout
    refused = rxbench("replay", trace(tmp_path / "trace", writes=True), DISK)
    assert refused.returncode == INPUT and f"--destroy {DISK}" in refused.stderr
    run("wipefs", "--all", "--quiet", DISK)


@pytest.fixture
def rapiddisk(tmp_path):
    """Put the ancestor's modules where its package puts them; return whether they were built."""
    folder = f"/lib/modules/{os.uname().release}"
    built = glob.glob(f"{RAPIDDISK}/*.ko")
    kept = glob.glob(f"{folder}/modules.*")
    for path in kept:
        shutil.copy2(path, tmp_path)
    os.makedirs(f"{folder}/updates/dkms", exist_ok=True)
    for path in built:
        shutil.copy(path, f"{folder}/updates/dkms")
    if built:
        run("depmod")
    yield bool(built)
    for path in built:
        os.unlink(f"{folder}/updates/dkms/{os.path.basename(path)}")
    for path in kept:
        shutil.copy2(tmp_path / os.path.basename(path), path)


@pytest.mark.every_kernel
def test_peers(tmp_path, rapiddisk):
    """All there are in Debian's kernels together, with the ancestor where it could be built."""
    report, _done, _wanted = measured(tmp_path, "peers", "--size", "16m", "--seconds", 1,
                                      "--repeats", 1, "--jobs", "randread-4k")
    ancestor = {("ram-randread-4k", "rapiddisk"), ("cache-randread-4k", "rapiddisk-cache")}
    assert {pair for pair in seen(report) if "randread" in pair[0]} == {
        *(("ram-randread-4k", name) for name in ("rxd", "brd", "zram", "null_blk", "loop")),
        *(("cache-randread-4k", name) for name in ("plain", "rxcache", "dm-cache", "bcache",
                                                   "dm-writecache")),
        *(ancestor if rapiddisk else ())}
    assert [note for note in report["notes"] if "RapidDisk" in note] == ([] if rapiddisk else [
        f"Left out: {title}: this kernel has no module {module}; Debian's package rapiddisk-dkms "
        "builds it." for title, module in (("RapidDisk", "rapiddisk"),
                                           ("RapidDisk's cache", "rapiddisk-cache"))])
    assert not [note for note in report["notes"] if "Not warm" in note]
    assert all(subject["details"]["queue"] for subject in report["subjects"])
    assert all(median(report, case, subject) > 0
               for case, subject in (("ram-randread-4k", "zram"), *sorted(ancestor & seen(report))))


@pytest.mark.parametrize("ways", ["low,rxcache,bcache", *long([
    "pagecache,low,rxcache,dm-cache,bcache,ramdisk"])])
def test_memory(tmp_path, ways):
    """With O_DIRECT, each read goes to the disk, unless a RAM disk serves it."""
    report, _done, wanted = measured(
        tmp_path, "memory", "--memory", "128m", "--sets", "0.25", "--seconds", 1, "--repeats", 1,
        "--ways", ways, "--works", "zipf-direct", "--disk", DISK, "--destroy", DISK)
    assert seen(report) == wanted and len(wanted) == len(ways.split(","))
    assert any("The memory: 128 MiB" in note for note in report["notes"])
    for name in {"pagecache", "low"}.intersection(ways.split(",")):
        assert 990 < median(report, "0.25-zipf-direct", name, "disk_reads") < 1100
    for name in {"rxcache", "dm-cache", "ramdisk"}.intersection(ways.split(",")):
        assert median(report, "0.25-zipf-direct", name, "saved_percent") > 95
    # It fills only free buckets, so its warmth differs from run to run.
    assert median(report, "0.25-zipf-direct", "bcache", "saved_percent") > 50
    assert not run("wipefs", "--no-act", DISK).stdout


def test_memory_beside_others(tmp_path):
    """A set that fits into memory causes no more disk reads, regardless of other I/O."""
    report, done, wanted = measured(
        tmp_path, "memory", "--memory", "96m", "--sets", "0.25", "--seconds", 1, "--repeats", 1,
        "--ways", "rxcache", "--works", "zipf-copy,tree", "--disk", DISK, "--destroy",
        DISK)
    assert seen(report) == wanted and len(wanted) == 2
    assert all(row["metrics"]["saved_percent"] > 95 for row in report["results"])
    assert median(report, "0.25-zipf-copy", "rxcache", "copy_mb_s") > 0
    assert "copy MB/s" in done.stdout and "real s" in done.stdout


@pytest.mark.every_kernel
def test_memory_exported(tmp_path):
    """A host reads the file of the target with O_DIRECT; one way caches it, the other does not."""
    nvme.network()
    report, _done, wanted = measured(
        tmp_path, "memory", "--memory", "128m", "--sets", "0.25", "--seconds", 1, "--repeats", 1,
        "--ways", "pagecache,rxcache", "--works", "nvme,nvme-buffered", "--disk", DISK,
        "--destroy", DISK)
    assert seen(report) == wanted and len(wanted) == 4
    assert 990 < median(report, "0.25-nvme", "pagecache", "disk_reads") < 1100
    assert median(report, "0.25-nvme", "rxcache", "saved_percent") > 95
    for way in "pagecache", "rxcache":
        assert median(report, "0.25-nvme-buffered", way, "saved_percent") > 95
        assert median(report, "0.25-nvme-buffered", way, "iops") > 0
    assert nvme.tree() == []


def test_memory_under_postgresql(tmp_path):
    """PostgreSQL runs on each way, if its programs are there; otherwise a note names them."""
    there = not subprocess.run([POSTGRES], capture_output=True, check=False).returncode
    works = "pgbench-select,pgbench-tpcb" if there else "pgbench-select,zipf-direct"
    report, _done, wanted = measured(
        tmp_path, "memory", "--memory", "128m", "--sets", "0.25", "--seconds", 1, "--repeats", 1,
        "--ways", "pagecache,rxcache", "--works", works, "--disk", DISK, "--destroy", DISK)
    notes = [note for note in report["notes"] if "PostgreSQL" in note]
    assert seen(report) == wanted and len(wanted) == (4 if there else 2)
    assert there or (len(notes) == 1 and "has all of postgres, initdb" in notes[0]), notes
    for row in report["results"] if there else []:
        assert row["metrics"]["tps"] > 0 and row["metrics"]["lat_p99_us"] > 0
        assert row["metrics"]["saved_percent"] > 90 and row["facts"]["requests"] > 1, row


@pytest.mark.long
def test_identical_runs(tmp_path, lab):
    """Two of them differ in one of ten cases, so hardly twice: on the slow disk."""
    differing = 0
    paths = [tmp_path / str(number) for number in range(4)]
    with open(tmp_path / "trace", "w", encoding="ascii") as file:
        file.write("version,time,op,size,lbn\n")
        file.writelines(f"1,{number},28,4096,{number * 64}\n" for number in range(150))
    for path in paths:
        done = rxbench("replay", tmp_path / "trace", SLOW_DISK, "--repeats", 3, "--output", path,
                       "--no-html", "--quiet")
        assert done.returncode == 0, done.stderr
    for before, after in zip(paths[::2], paths[1::2]):
        done = rxbench("compare", before / "report.json", after / "report.json")
        assert done.returncode == 0 and "no difference" in done.stdout, done.stdout
        differing += "0 better, 0 worse" not in done.stdout
    assert differing < 2


def test_interrupted(tmp_path):
    """After Ctrl-C, the results so far are kept, and nothing else is left."""
    with started("profile", "rxd:32m", "--size", "4m", "--seconds", 1, "--output",
                 tmp_path / "out", "--no-html") as process:
        count = 0
        for line in process.stderr:
            count += line.startswith("1/3 ")
            if count == 3:
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted by SIGINT" in err
    with open(tmp_path / "out/report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert list(schema.errors(report, SCHEMA)) == []
    assert report["ended_by"] == "SIGINT" and not report["complete"]
    # All but the interrupted case, which need not have been the third.
    count += sum(line.startswith("1/3 ") for line in err.splitlines())
    assert len(report["results"]) == count - 1 and "Ended early" in out


MEMORY = ("memory", "--memory", "96m", "--sets", "0.25", "--seconds", 1, "--disk", DISK,
          "--destroy", DISK, "--ways")


@pytest.mark.parametrize("signum, args", [
    (signal.SIGTERM, (*MEMORY, "bcache,low", "--works", "zipf-direct")),
    *long([(signal.SIGHUP, (*MEMORY, "rxcache,dm-cache", "--works", "nvme,nvme-buffered")),
           (signal.SIGINT, (*MEMORY, "pagecache,rxcache", "--works", "pgbench-select,zipf-copy")),
           (signal.SIGHUP, ("peers", "--size", "16m", "--seconds", 1, "--jobs", "randread-4k")),
           (signal.SIGTERM, ("copy", "rxd:32m", "--size", "1m"))])])
def test_interrupted_anywhere(tmp_path, signum, args):
    """At some moment after a random line of the progress. Nothing is left, see the fixture."""
    wanted, delay = random.randrange(1, 6), random.random()
    if "nvme,nvme-buffered" in args:
        nvme.network()
    with started(*args, "--repeats", 5, "--output", tmp_path / "out", "--no-html") as process:
        lines = (line for line in process.stderr if line[1:3] == "/5")
        for _ in range(wanted):
            next(lines)
        time.sleep(delay)
        process.send_signal(signum)
        _out, err = process.communicate(timeout=300)
    assert process.returncode == 128 + signum and "could not undo" not in err, (wanted, delay, err)
    with open(tmp_path / "out/report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert list(schema.errors(report, SCHEMA)) == []
    assert report["ended_by"] == signal.Signals(signum).name and not report["failures"]
    assert len(report["results"]) >= wanted - 1


def test_devices_in_use(tmp_path, lab):
    """A device in use is refused before anything is written, also with --destroy."""
    run("mkfs.ext4", "-q", "-F", DISK)
    with open(DISK, "rb") as file:
        before = file.read(1 << 20)
    holding = rxbench("profile", DISK, "--size", "4m", "--output", tmp_path / "out")
    assert holding.returncode == INPUT and "ext4" in holding.stderr
    assert f"--destroy {DISK}" in holding.stderr
    with open(DISK, "rb") as file:
        assert file.read(1 << 20) == before
    lab.mount(DISK, "-o", "ro")
    mounted = rxbench("dd", DISK, "--size", "1m", "--bs", "1m", "--destroy", DISK)
    assert mounted.returncode == INPUT and "mounted on" in mounted.stderr
    ramdisk = lab.ramdisk()
    lab.mapped(f"0 8192 linear {ramdisk.path} 0", name="holder")
    held = rxbench("copy", ramdisk.path, "--size", "1m", "--destroy", ramdisk.path)
    assert held.returncode == INPUT and "holder" in held.stderr
    other = lab.ramdisk(64 << 20)
    with open(other.path, "r+b") as file:
        file.write(b"someone's")
    data = rxbench("copy", other.path, "--size", "1m")
    assert data.returncode == INPUT and "holds data" in data.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("args, names", [
    (["profile", "rxd:16m"], ["rxd:", "must be at least"]),
    (["profile", "/dev/shm", "--size", "900g"], ["/dev/shm", "free space"]),
    (["profile", "/dev/null"], ["/dev/null", "neither"]),
    (["dd", "/dev/shm", "--target", "node", "--size", "4m"], ["directory"]),
    (["dd", "rxd:32m", "--size", "1m", "--bs", "3k"], ["multiple", "3072"]),
    (["replay", "{trace}", "rxd:64k"], ["--fold"]),
    (["replay", "{cut}", "rxd:1m"], ["line 201", "truncated"]),
    (["tree", "/dev/shm", "--tarball", "{cut}"], ["cut"]),
    (["peers", "--disk", "/dev/none"], ["/dev/none"]),
    (["peers", "--only", "ram", "--disk", DISK], [DISK, "--only ram"]),
    (["memory", "--memory", "900g"], ["free memory"]),
    (["memory", "--memory", "512m", "--disk", DISK], [DISK, "must have at least"]),
    (["memory", "--works", "magic"], ["magic", "zipf-direct"]),
    (["run", "{direct}"], ["line 2", "512", "o_direct"]),
    *long([(["profile", "rxd:900g", "--size", "4m"], ["free memory"]),
           (["profile", DISK, "--size", "4g"], [DISK, "must have at least"]),
           (["replay", "{trace}", "/dev/shm"], ["/dev/shm", "directory"]),
           (["peers", "--size", "900g"], ["free"])]),
])
def test_bad_input(tmp_path, args, names):
    whole = trace(tmp_path / "trace")
    (tmp_path / "cut").write_text(whole.read_text()[:-10])
    (tmp_path / "direct").write_text(
        f"sd=sd1,lun={DISK},openflags=o_direct\nwd=w,sd=sd1,xfersize=1000\nrd=r,wd=w\n")
    places = {name: tmp_path / name for name in ("trace", "cut", "direct")}
    done = rxbench(*(str(arg).format(**places) for arg in args), cwd=tmp_path)
    assert done.returncode == INPUT and done.stdout == "", done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("rxbench: ")
    for name in names:
        assert name in done.stderr
    assert not glob.glob(str(tmp_path / "rxbench-*"))


@pytest.mark.parametrize("version, names", [(None, ["missing programs: fio"]),
                                            ("fio-2.21", ["fio-2.21", "too old", "3.28"])])
def test_fio_is_missing_or_old(tmp_path, version, names):
    """PATH has all programs but fio, or another version of fio."""
    for folder in ("/usr/bin", "/usr/sbin", "/bin", "/sbin"):
        for name in os.listdir(folder):
            if name != "fio" and not (tmp_path / name).is_symlink():
                os.symlink(os.path.join(folder, name), tmp_path / name)
    if version:
        (tmp_path / "fio").write_text(f"#!/bin/sh\necho {version}\n")
        os.chmod(tmp_path / "fio", 0o755)
    done = subprocess.run(command("profile", "rxd:32m", "--size", "4m"), capture_output=True,
                          text=True, check=False, env={**environment(), "PATH": str(tmp_path)})
    assert done.returncode == INPUT
    for name in names:
        assert name in done.stderr


def test_who_is_not_root(tmp_path):
    """A user who is not root gets this error first, not one about missing programs."""
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups",
                           *command("tree", "rxd:16m", "--tarball", "/etc/passwd")],
                          capture_output=True, text=True, check=False,
                          env={**environment(), "PATH": "/usr/bin:/bin"})
    assert done.returncode == INPUT and "root" in done.stderr


def test_installed(tmp_path):
    """The launcher finds its modules where make install puts them."""
    for path in ("bin", "share/rxbench"):
        os.makedirs(tmp_path / path)
    run("cp", LAUNCHER, tmp_path / "bin/rxbench")
    run("cp", "-r", os.path.join(TOP, "utils/rxbench/rxbench"), tmp_path / "share/rxbench/")
    done = run(tmp_path / "bin/rxbench", "list")
    assert "peers: " in done.stdout
