# SPDX-License-Identifier: GPL-2.0-only
"""The parts of the demo that need no device."""

import contextlib
import json
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../utils/demo"))

from rxdemo import command, dd, fio, pattern, report, undo, workloads  # noqa: E402
from rxdemo.errors import DemoError, Interrupted  # noqa: E402

IDLE = {"total_ios": 0, "bw_bytes": 0, "iops": 0.0, "lat_ns": {"mean": 0.0}}
BUSY = {"total_ios": 450, "bw_bytes": 614400, "iops": 150.0,
        "lat_ns": {"mean": 213000000.0, "percentile": {"99.000000": 240000000}}}


def fio_output(read=IDLE, write=IDLE, error=0, before=""):
    jobs = [{"jobname": "demo", "error": error, "read": read, "write": write}]
    return before + json.dumps({"fio version": "fio-3.39", "jobs": jobs}, indent=1) + "\n"


class Fio(unittest.TestCase):
    row = {"bw_mb_s": 0.6144, "iops": 150.0, "lat_mean_us": 213000.0, "lat_p99_us": 240000.0}

    def test_read(self):
        self.assertEqual(fio.row(fio_output(read=BUSY)), self.row)

    def test_write_behind_a_warning(self):
        self.assertEqual(fio.row(fio_output(write=BUSY, before="fio: a {warning}\n")), self.row)

    def test_job_error(self):
        with self.assertRaisesRegex(DemoError, "error 5 .*Input/output"):
            fio.row(fio_output(read=BUSY, error=5))

    def test_no_io(self):
        with self.assertRaisesRegex(DemoError, "not one I/O"):
            fio.row(fio_output())

    def test_no_json(self):
        for text in ("", "fio: killed\n", '{"jobs": [', '{"jobs": []}', '{"jobs": [{}]}', "[]"):
            with self.subTest(text), self.assertRaisesRegex(DemoError, "JSON"):
                fio.row(text)

    def test_command(self):
        argv = fio.command("/dev/x", workloads.BY_NAME["randread_4k"].job(3, offset=4096))
        for option in ("--filename=/dev/x", "--rw=randread", "--bs=4k", "--runtime=3",
                       "--offset=4096", "--iodepth=32", "--ioengine=libaio", "--direct=1"):
            self.assertIn(option, argv)


class Dd(unittest.TestCase):
    def test_row(self):
        row = dd.row("64+0 records in\n64+0 records out\n"
                     "67108864 bytes (67 MB, 64 MiB) copied, 0.5 s, 134 MB/s\n")
        self.assertEqual((row["bytes"], row["seconds"]), (67108864, 0.5))
        self.assertAlmostEqual(row["bw_mb_s"], 134.217728)

    def test_tiny_duration(self):
        row = dd.row("4096 bytes (4.1 kB, 4.0 KiB) copied, 8.1e-05 s, 51 MB/s\n")
        self.assertAlmostEqual(row["bw_mb_s"], 4096 / 81)

    def test_no_speed(self):
        for text in ("", "dd: killed\n", "0 bytes copied, 0 s, 0 B/s\n"):
            with self.subTest(text), self.assertRaisesRegex(DemoError, "no speed"):
                dd.row(text)

    def test_never_makes_or_cuts_a_file(self):
        argv = dd.command("/dev/x", dd.WRITE, 2 << 20)
        self.assertIn("conv=fsync,notrunc,nocreat", argv)
        self.assertIn("count=2", argv)


class Workloads(unittest.TestCase):
    def test_all_that_is_promised(self):
        self.assertEqual(
            {workload.name for workload in workloads.WORKLOADS},
            {f"{order}{way}_{block}" for order in ("rand", "seq") for way in ("read", "write")
             for block in ("4k", "1m")})


def rows(plain, cached):
    return [{"workload": "randread_4k", "subject": subject, "iops": iops}
            for subject, iops in (("cached", cached), ("disk", plain))]


class Ratios(unittest.TestCase):
    promise = {"workload": "randread_4k", "at_least": 10}

    def failures(self, plain, cached, verified=True, promise=None):
        found = report.with_ratios(rows(plain, cached), "workload", "iops", "disk")
        return report.failures({"cached_over_disk": report.ratios(found, "cached"),
                                "disk_verified": verified}, promise)

    def test_ratio(self):
        found = report.with_ratios(rows(150.0, 3000.0), "workload", "iops", "disk")
        self.assertEqual([row["times_plain"] for row in found], [20, 1])

    def test_kept_promise(self):
        self.assertEqual(self.failures(150.0, 1500.0, promise=self.promise), [])

    def test_broken_promise(self):
        line, = self.failures(150.0, 1485.0, promise=self.promise)
        self.assertIn("randread_4k through the warm cache is 9.90 x the plain disk", line)

    def test_no_plain_speed(self):
        line, = self.failures(0.0, 1500.0, promise=self.promise)
        self.assertIn(" - ", line)

    def test_nothing_promised(self):
        self.assertEqual(self.failures(150.0, 150.0), [])

    def test_not_verified(self):
        line, = self.failures(150.0, 1500.0, verified=False, promise=self.promise)
        self.assertIn("the disk does not hold", line)


class Text(unittest.TestCase):
    def test_duration(self):
        for value, text in ((1.25, "1.2 us"), (441, "441 us"), (1500, "1.5 ms"),
                            (213000, "213 ms"), (2.5e6, "2.5 s")):
            self.assertEqual(report.duration(value), text)

    def test_speed(self):
        for value, text in ((0.6144, "0.61"), (45.31, "45.3"), (1234.5, "1,234")):
            self.assertEqual(report.speed(value), text)

    def test_size(self):
        for value, text in ((512, "512 B"), (4096, "4 KiB"), (128 << 20, "128 MiB"),
                            (3 << 29, "1.5 GiB"), (2 << 40, "2048 GiB")):
            self.assertEqual(report.size(value), text)

    def test_table(self):
        self.assertEqual(report.table(("name", "MB/s"), [("disk", "0.61"), None, ("x", "1,234")]),
                         ["name   MB/s", "-----------", "disk   0.61", "-----------",
                          "x     1,234"])

    def test_wrap(self):
        lines = list(report.wrap("one two three", width=9))
        self.assertEqual(lines, ["- one two", "  three"])

    def test_report(self):
        measured = {"lat_mean_us": 1.0, "lat_p99_us": 2.0, "bw_mb_s": 0.6}
        results = [{"title": "4K random read", **measured, **row} for row in
                   report.with_ratios(rows(150.0, 3000.0), "workload", "iops", "disk")]
        copies = report.with_ratios([{"direction": "read", "subject": "disk", "bw_mb_s": 150.0}],
                                    "direction", "bw_mb_s", "disk")
        whole = {"machine": {"kernel": "6.12", "cpus": 2, "cpu": "QEMU TCG", "memory": 1 << 30,
                             "virtualization": "qemu", "emulated": True, "fio": "fio-3.39"},
                 "subjects": [{"name": name, "title": title}
                              for name, title in workloads.SUBJECTS.items()],
                 "slow_disk": {"device": "/dev/vdc", "description": "150 requests/s",
                               "promise": Ratios.promise},
                 "area": 64 << 20, "seconds_per_job": 3, "results": results, "dd": copies,
                 "cache": {"blocks_total": 32768, "block_size": 4096, "read_hits": 1000,
                           "read_misses": 1},
                 "cache_warm_reads": {"read_hits": 999, "read_misses": 1, "hit_percent": 99.9},
                 "summary": {"disk_verified": False, "verified_detail": "differs", "seconds": 1}}
        text = "\n".join(report.render(whole))
        for part in ("20.0 x", "150 requests/s", "1,000 read hits", "99.90 %", "emulated",
                     "NO (differs)", "dd 1M read"):
            self.assertIn(part, text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_write_is_whole(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "deeper", "report.json")
            report.write({"version": 1}, path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"version": 1})
            with self.assertRaises(TypeError):
                report.write({"version": object()}, path)
            self.assertEqual(os.listdir(os.path.dirname(path)), ["report.json"])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"version": 1})


class PatternOnAFile(unittest.TestCase):
    def setUp(self):
        handle, self.path = tempfile.mkstemp(dir="/var/tmp")
        self.addCleanup(os.unlink, self.path)
        os.ftruncate(handle, 8 << 20)
        os.close(handle)

    def test_found_again(self):
        known = pattern.Pattern(2 << 20, seed=1)
        known.write(self.path, 4 << 20)
        self.assertIsNone(known.differs_at(self.path, 4 << 20))
        self.assertEqual(pattern.digest(self.path, 0, 4 << 20),
                         "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8")

    def test_one_byte_wrong(self):
        known = pattern.Pattern(2 << 20, sector=4096)
        known.write(self.path, 4 << 20)
        with open(self.path, "r+b") as file:
            file.seek((5 << 20) + 7)
            wrong = file.read(1)[0] ^ 1
            file.seek((5 << 20) + 7)
            file.write(bytes([wrong]))
        self.assertEqual(known.differs_at(self.path, 4 << 20), (5 << 20) + 7)

    def test_short_device(self):
        with self.assertRaisesRegex(OSError, "short read"):
            pattern.digest(self.path, 0, 9 << 20)


class Undoing(unittest.TestCase):
    def setUp(self):
        self.undone = []
        self.complaints = []
        # The last of many signals may have come when nobody looked any more.
        self.addCleanup(self.forget_signals)
        for signum in undo.SIGNALS:
            self.addCleanup(signal.signal, signum, signal.getsignal(signum))
        undo.catch_signals()

    @staticmethod
    def forget_signals():
        with contextlib.suppress(Interrupted):
            undo.check()

    def step(self, stack, name, unmake=None):
        return stack.do(name, lambda: name, unmake or self.undone.append)

    def test_reverse(self):
        with undo.Undo(self.complaints.append) as stack:
            self.step(stack, "a")
            mark = stack.mark()
            self.step(stack, "b")
            self.step(stack, "c")
            stack.back_to(mark)
            self.assertEqual(self.undone, ["c", "b"])
        self.assertEqual(self.undone, ["c", "b", "a"])

    def test_one_that_fails_stops_none(self):
        def stuck(_):
            raise DemoError("busy")
        with self.assertRaisesRegex(DemoError, "not everything"):
            with undo.Undo(self.complaints.append) as stack:
                self.step(stack, "a")
                self.step(stack, "b", stuck)
        self.assertEqual(self.undone, ["a"])
        self.assertEqual(self.complaints, ["could not undo: b: busy"])

    def test_signal_while_making(self):
        with self.assertRaises(Interrupted):
            with undo.Undo(self.complaints.append) as stack:
                stack.do("a", lambda: os.kill(os.getpid(), signal.SIGTERM), self.undone.append)
                self.fail("went on after the signal")
        self.assertEqual(self.undone, [None])

    def test_signal_while_undoing(self):
        def kill(_):
            os.kill(os.getpid(), signal.SIGINT)
        with self.assertRaises(Interrupted):
            with undo.Undo(self.complaints.append) as stack:
                self.step(stack, "a")
                self.step(stack, "b", kill)
        self.assertEqual(self.undone, ["a"])

    def test_signal_between_steps(self):
        with self.assertRaises(Interrupted):
            with undo.Undo(self.complaints.append) as stack:
                self.step(stack, "a")
                os.kill(os.getpid(), signal.SIGHUP)
                self.undone.append("done")
                undo.check()
                self.fail("went on after the signal")
        self.assertEqual(self.undone, ["done", "a"])

    def test_many_signals(self):
        signal.signal(signal.SIGALRM, lambda *_: [os.kill(os.getpid(), signum)
                                                  for signum in undo.SIGNALS])
        self.addCleanup(signal.signal, signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.001)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        for _ in range(50):
            self.undone.clear()
            with self.assertRaises(Interrupted):
                with undo.Undo(self.complaints.append) as stack:
                    for name in "abc":
                        self.step(stack, name)
                    command.run("sleep", "60")
            self.assertEqual(self.undone, list("cba")[3 - len(self.undone):])
            self.assertTrue(self.undone)

    def test_signal_stops_a_program(self):
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        self.addCleanup(signal.signal, signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with self.assertRaises(Interrupted):
            command.run("sleep", "60")
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


class Command(unittest.TestCase):
    def test_failure_is_one_line(self):
        with self.assertRaisesRegex(command.CommandFailed, "^sh: no luck$") as caught:
            command.run("sh", "-c", "echo no luck >&2; echo more >&2; exit 5")
        self.assertEqual(caught.exception.code, 5)

    def test_silent_failure(self):
        with self.assertRaisesRegex(command.CommandFailed, "^false: exit code 1$"):
            command.run("false")

    def test_no_program(self):
        with self.assertRaisesRegex(DemoError, "no such program"):
            command.run("/nonexistent/program")


if __name__ == "__main__":
    unittest.main()
