# SPDX-License-Identifier: GPL-2.0-only
"""The demo itself: the steps, in order, on the machine it runs on."""

import time

from rxbench.system import guard, machine

from . import clones, dd, pattern, report, runner, scratch
from .workloads import AREA, CACHED, COLD, COLD_RANDOM, DISK, MIB, RAM, SUBJECTS, WARMING, WORKLOADS

RAMDISK_SIZE = 128 * MIB
# The work area, and as much again for blocks that stay cold.
DISK_SIZE = 2 * AREA
PATTERN_SIZE = 16 * MIB
# Half of the pattern falls on blocks that are in the cache, half on others.
PATTERN_START = AREA - PATTERN_SIZE // 2
MEMORY = 2 * RAMDISK_SIZE + 256 * MIB
TOOLS = ("dd", "fio", "fstrim", "insmod", "mkfs.ext4", "modinfo", "modprobe", "mount", "rmmod",
         "umount")
NAME = "rxd-demo"


class Story:
    """Runs the demo on a disk; the report grows as it goes."""

    def __init__(self, made, disk, seconds, say, promise=None):
        self.devices = made
        self.disk = disk
        self.seconds = seconds
        self.say = say
        self.promise = promise
        self.results = []
        self.dd = []
        self.step_number = 0

    def step(self, text):
        self.step_number += 1
        self.say(f"\n{self.step_number}. {text}")

    def note(self, text):
        self.say(f"   {text}")

    def fio(self, workload, subject, device, job):
        what = f"{workload.title}, {SUBJECTS[subject]}"
        row = runner.run_fio(what, device, job)
        self.note(f"{workload.title:<21} {report.measured(row)}")
        self.results.append({"workload": workload.name, "title": workload.title,
                             "subject": subject, **row})

    def all_fio(self, subject, device, reads):
        for workload in WORKLOADS:
            if workload.reads == reads:
                self.fio(workload, subject, device, workload.job(self.seconds))

    def run_dd(self, subject, device, direction):
        row = runner.run_dd(f"dd {direction}, {SUBJECTS[subject]}", device, direction, AREA)
        self.note(f"{'dd 1M ' + direction:<21} {report.speed(row['bw_mb_s']):>8} MB/s")
        self.dd.append({"direction": direction, "subject": subject, **row})

    def measure_plain(self, subject, device):
        """Fill a device with random bytes, then measure it."""
        runner.run_fio(f"filling {device}", device, {"rw": "write", "bs": "1m", "size": DISK_SIZE})
        self.all_fio(subject, device, reads=True)
        self.run_dd(subject, device, dd.READ)
        self.run_dd(subject, device, dd.WRITE)
        self.all_fio(subject, device, reads=False)

    def measure_cached(self, device):
        self.note("cold, each block read for the first time:")
        self.fio(COLD_RANDOM, COLD, device, COLD_RANDOM.job(self.seconds, offset=AREA))
        self.fio(WARMING, COLD, device, WARMING.pass_once())
        before = self.devices.cache_status(NAME)
        self.note("warm, by the last pass:")
        self.all_fio(CACHED, device, reads=True)
        self.run_dd(CACHED, device, dd.READ)
        warm = _hits(before, self.devices.cache_status(NAME))
        self.note(f"{warm['read_hits']:,} hits, {warm['read_misses']:,} misses "
                  f"({warm['hit_percent']:.2f} % hits)")
        # dd writes zeros: first, so that the proof finds fio's random bytes.
        self.run_dd(CACHED, device, dd.WRITE)
        self.all_fio(CACHED, device, reads=False)
        return warm

    def prove(self, device, mark):
        """Write through the cache, take it off, look at the disk."""
        known = pattern.Pattern(PATTERN_SIZE, guard.logical_block_size(device))
        known.write(device, PATTERN_START)
        length = PATTERN_START + PATTERN_SIZE
        cached = pattern.digest(device, 0, length)
        through = known.differs_at(device, PATTERN_START)
        status = self.devices.cache_status(NAME)
        self.note(f"{PATTERN_SIZE // MIB} MiB of random bytes written through the cache, "
                  f"{len(known.rewrites)} pieces of 512 bytes to 64 KiB of them again")
        self.devices.undo.back_to(mark)
        machine.drop_caches()
        self.note("cache taken off, page cache dropped")
        plain = pattern.digest(self.disk.device, 0, length)
        below = known.differs_at(self.disk.device, PATTERN_START)
        self.note(f"sha256 of {length // MIB} MiB through the cache {cached[:16]}..., "
                  f"of the disk {plain[:16]}...")
        wrong = [f"{where} differs from what was written at byte {byte}"
                 for where, byte in (("the cache", through), ("the disk", below))
                 if byte is not None]
        if cached != plain:
            wrong.append(f"the {length // MIB} MiB read through the cache and from the disk differ")
        for line in wrong:
            self.note("WRONG: " + line)
        detail = "; ".join(wrong) or (f"{length // MIB} MiB by sha256, of them "
                                      f"{PATTERN_SIZE // MIB} MiB byte for byte as written")
        return status, not wrong, detail

    def tell(self):
        """Run all steps; returns the report."""
        start = time.monotonic()
        described = machine.describe()
        self.step("A RAM disk as a scratch file system")
        outer = self.devices.undo.mark()
        ramdisk = self.devices.ramdisk(RAMDISK_SIZE)
        self.note(f"{ramdisk}, {RAMDISK_SIZE // MIB} MiB, takes memory as it fills")
        scratch.use(self.devices, ramdisk, self.note)

        self.step(f"An image of {ramdisk} while it is mounted, and a clone of it")
        clones.use(self.devices, ramdisk, self.note)

        self.step(f"fio and dd on the RAM disk {ramdisk}")
        self.measure_plain(RAM, ramdisk)
        self.devices.undo.back_to(outer)
        self.note(f"{ramdisk} removed")

        self.step(f"fio and dd on the plain disk: {self.disk.description}")
        self.measure_plain(DISK, self.disk.device)

        ramdisk = self.devices.ramdisk(RAMDISK_SIZE)
        mark = self.devices.undo.mark()
        mapped = self.devices.cache(ramdisk, self.disk.device, NAME)
        self.step(f"fio and dd on the cached disk: {mapped}, {self.disk.device} behind {ramdisk}")
        warm = self.measure_cached(mapped)

        self.step("The proof that the disk holds what was written through the cache")
        status, verified, detail = self.prove(mapped, mark)
        return self.report(described, status, warm, verified, detail, time.monotonic() - start)

    def report(self, described, status, warm, verified, detail, seconds):
        order = {name: rank for rank, name in enumerate([w.name for w in WORKLOADS])}
        subjects = list(SUBJECTS)
        results = sorted(report.with_ratios(self.results, "workload", "iops", DISK),
                         key=lambda row: (order[row["workload"]], subjects.index(row["subject"])))
        copies = sorted(report.with_ratios(self.dd, "direction", "bw_mb_s", DISK),
                        key=lambda row: (row["direction"], subjects.index(row["subject"])))
        summary = {"cached_over_disk": report.ratios(results, CACHED),
                   "ramdisk_over_disk": report.ratios(results, RAM),
                   "disk_verified": verified,
                   "verified_detail": detail,
                   "seconds": seconds}
        summary["failures"] = report.failures(summary, self.promise)
        return {"version": report.VERSION,
                "machine": described,
                "subjects": [{"name": name, "title": title} for name, title in SUBJECTS.items()],
                "slow_disk": {"device": self.disk.device, "description": self.disk.description,
                              "notes": self.disk.notes, "promise": self.promise},
                "area": AREA,
                "seconds_per_job": self.seconds,
                "results": results,
                "dd": copies,
                "cache": status,
                "cache_warm_reads": warm,
                "summary": summary}


def _hits(before, after):
    hits, misses = (after[key] - before[key] for key in ("read_hits", "read_misses"))
    return {"read_hits": hits, "read_misses": misses,
            "hit_percent": 100 * hits / (hits + misses) if hits + misses else 0.0}
