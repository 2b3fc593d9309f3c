# SPDX-License-Identifier: GPL-2.0-only
"""The parts of the demo that need no device."""

import json
import os
import sys
import tempfile
import unittest

UTILS = os.path.join(os.path.dirname(__file__), "../../utils")
sys.path[:0] = [os.path.join(UTILS, "demo"), os.path.join(UTILS, "rxbench")]

from rxbench.report import document  # noqa: E402
from rxbench.system.errors import BenchError  # noqa: E402
from rxdemo import dd, pattern, report, workloads  # noqa: E402


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
            with self.subTest(text), self.assertRaisesRegex(BenchError, "no speed"):
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
        for value, text in ((1.25, "1.25 us"), (441, "441 us"), (1500, "1.50 ms"),
                            (213000, "213 ms"), (2.5e6, "2.50 s")):
            self.assertEqual(report.duration(value), text)

    def test_speed(self):
        for value, text in ((0.6144, "0.61"), (45.31, "45.3"), (1234.5, "1,234")):
            self.assertEqual(report.speed(value), text)

    def test_size(self):
        for value, text in ((512, "512 B"), (4096, "4 KiB"), (128 << 20, "128 MiB"),
                            (3 << 29, "1.5 GiB"), (2 << 40, "2 TiB")):
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
            document.write({"version": 1}, path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"version": 1})
            with self.assertRaises(TypeError):
                document.write({"version": object()}, path)
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


if __name__ == "__main__":
    unittest.main()
