# SPDX-License-Identifier: GPL-2.0-only
"""vdbench's parameter files, run by fio, with output in vdbench's format."""

import contextlib
import itertools
import os
import re
import stat
import sys
import time

from ..run.plan import (IOPS, LONGEST, MB_S, MEAN, P99, REQUESTED, Case, Metric, Plan, Round,
                        Subject, misses)
from ..system import diskstats, guard, machine
from ..system.errors import BadInput
from ..system.output import Rows
from ..system.units import size_of
from ..system.units import size as human
from ..tools import fio
from ..vdbench import jobs, parse, table
from ..vdbench.model import CURVED, MAX, flags_of, is_direct
from ..vdbench.steps import steps as steps_of

NAME = "run"
REPEATS = 1
DESTROYED = "device or file"
SUMMARY = "run a vdbench parameter file with fio, and print vdbench's lines"
EXPLANATION = """\
Supported are sd= (lun, size, threads, openflags, hitarea, range), wd= (sd, rdpct, rhpct, whpct,
xfersize, seekpct, skew, range, threads, openflags) and rd= (wd, iorate, curve, elapsed, warmup,
interval, threads, openflags, forthreads, forxfersize, forrdpct, forseekpct), with wildcards such as
sd*, ranges such as (1-64,d), sd=default, validate=yes, and variables such as $lun. Anything else is
rejected with its line number before the run starts. Threads are the number of requests in flight
(io_uring, or threads of fio if io_uring is disabled). A lun that does not exist is created as a
file of size= or --file-size, and removed at the end. A lun that holds data is written to only if
--destroy names it."""

STDDEV = Metric("lat_stddev_us", "latency stddev", "us", "lower")
FILE_SIZE = 1 << 30
# Share of the free space to use if the files would not fit.
SHARE = 0.8
LEAST_SECTOR = 512


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="parameter file")
    parser.add_argument("variables", metavar="NAME=VALUE", nargs="*",
                        help="value of $NAME in the file")
    parser.add_argument("--file-size", metavar="SIZE", type=size_of("--file-size"),
                        help="size of a lun that does not exist and has no size= (default: 1g, "
                             "or less if that is not free)")
    parser.add_argument("--validate", action="store_true",
                        help="read written data again and compare it, as validate=yes")
    parser.add_argument("--no-disks", action="store_true",
                        help="do not print disk statistics for each interval")
    parser.add_argument("--show-jobs", action="store_true",
                        help="print fio's job files and exit")


def _engine():
    """Use io_uring, unless this machine forbids it."""
    return jobs.URING if machine.takes_io_uring() else jobs.PSYNC


def _is_device(lun):
    """Whether a lun that does not exist would be a node in /dev. /dev/shm holds files."""
    if os.path.exists(lun):
        return stat.S_ISBLK(os.stat(lun).st_mode)
    folder = os.path.dirname(os.path.abspath(lun))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return os.stat(folder).st_dev == os.stat("/dev").st_dev


class Luns:
    """The luns of a parameter file: their kinds, their sizes, and which must be created."""

    def __init__(self, steps, options):
        self.path, self.options = options.file, options
        self.sizes, self.made, self.notes = {}, {}, []
        works = [work for step in steps for work in step.works]
        self.streams = {storage.name: work for work in works if jobs.is_one_stream(work)
                        for storage in work.storages}
        self.used = {storage.name: storage for work in works for storage in work.storages}
        self.written = {storage.name for work in works if work.rdpct < 100
                        for storage in work.storages}
        self._check_apart()
        for storage in self.used.values():
            self._look(storage)
        self._sizes_of_new()

    def refuse(self, storage, text):
        raise parse.Refused(self.path, storage.line, text)

    def _check_apart(self):
        """Refuse an sd= that would overwrite the data of another."""
        seen = {}
        for storage in sorted(self.used.values(), key=lambda storage: storage.line):
            other = seen.setdefault(os.path.realpath(storage.lun), storage)
            if other is not storage:
                self.refuse(storage, f"lun={storage.lun}: sd={other.name} of line {other.line} "
                            "has it; name that sd= instead")

    def _look(self, storage):
        if not os.path.exists(storage.lun):
            self._look_at_new(storage)
            return
        if os.path.isdir(storage.lun):
            self.refuse(storage, f"lun={storage.lun}: a directory")
        try:
            self.sizes[storage.name] = self._size(storage)
        except BadInput as error:
            self.refuse(storage, f"lun={error}")

    def _look_at_new(self, storage):
        folder = os.path.dirname(os.path.abspath(storage.lun))
        if _is_device(storage.lun):
            self.refuse(storage, f"lun={storage.lun}: no such device")
        if not os.path.isdir(folder):
            self.refuse(storage, f"lun={storage.lun}: no directory {folder} for it")
        self.made[storage.name] = storage

    def _size(self, storage):
        """The size of an existing lun, which is also checked for writes."""
        writes = storage.name in self.written
        if os.path.isfile(storage.lun):
            there = os.path.getsize(storage.lun)
            if writes:
                guard.need_free_file(storage.lun, self.options.destroy)
        elif writes:
            guard.need_free_device(storage.lun, storage.size or LEAST_SECTOR,
                                   self.options.destroy)
            there = guard.device_size(storage.lun)
        else:
            guard.need_readable_device(storage.lun)
            there = guard.device_size(storage.lun)
        if there < (storage.size or 1):
            raise BadInput(f"{storage.lun}: size={human(storage.size)} but it has {human(there)}"
                           if storage.size else f"{storage.lun}: empty")
        stream = self.streams.get(storage.name)
        if stream and storage.size and there - storage.size >= stream.transfer.largest():
            raise BadInput(f"{storage.lun}: size={human(storage.size)} but it has {human(there)}: "
                           f"the mix of reads and writes in sequence of wd={stream.name} would go "
                           "on to its end")
        return storage.size or there

    def _sizes_of_new(self):
        """Equal parts of the free space, if the files would not fit."""
        systems = {}
        for storage in self.made.values():
            folder = os.path.dirname(os.path.abspath(storage.lun))
            systems.setdefault(os.stat(folder).st_dev, (folder, []))[1].append(storage)
        for folder, storages in systems.values():
            given = sum(storage.size or self.options.file_size or 0 for storage in storages)
            open_ended = [storage for storage in storages
                          if not (storage.size or self.options.file_size)]
            status = os.statvfs(folder)
            free = status.f_bavail * status.f_frsize
            if given > free:
                self.refuse(storages[0], f"lun={storages[0].lun}: files of {human(given)} are "
                            f"wanted in {folder}, {human(free)} are free")
            share = 0
            if open_ended:
                share = min(FILE_SIZE, int((free - given) * SHARE / len(open_ended))) >> 20 << 20
                if not share:
                    self.refuse(open_ended[0], f"lun={open_ended[0].lun}: no space in {folder}")
            for storage in storages:
                size = storage.size or self.options.file_size or share
                self.sizes[storage.name] = size
                self.notes.append(f"{storage.lun} did not exist: made for this run, "
                                  f"{human(size)}, full of random bytes, and removed.")

    def check_direct(self, steps):
        """Some file systems have no direct I/O, which works in sectors."""
        for step, work, storage in ((step, work, storage) for step in steps for work in step.works
                                    for storage in work.storages):
            flags = flags_of(step.run, work, storage)
            if not is_direct(flags):
                continue
            there = storage.lun if os.path.exists(storage.lun) else os.path.dirname(
                os.path.abspath(storage.lun))
            if not guard.takes_direct(there):
                self.refuse(storage, f"lun={guard.no_direct(storage.lun)}; leave out "
                            f"openflags={','.join(flags)}, or name a lun elsewhere")
            sector = guard.logical_block_size(storage.lun) if _is_device(storage.lun) else \
                LEAST_SECTOR
            for size in work.transfer.span or [size for size, _percent in work.transfer.sizes]:
                if size % sector:
                    raise parse.Refused(self.path, work.line,
                                        f"wd={work.name}: xfersize={size} is no multiple of the "
                                        f"{sector} bytes that o_direct on sd={storage.name} takes")

    def details(self):
        """The report's details of each lun."""
        found = {}
        for name, storage in self.used.items():
            found[name] = {"lun": storage.lun, "size": self.sizes[name]}
            if os.path.exists(storage.lun) and stat.S_ISBLK(os.stat(storage.lun).st_mode):
                found[name]["queue"] = machine.queue_settings(storage.lun)
            else:
                found[name]["mount"] = machine.mount_of(storage.lun)
        return found

    def set_up(self, undo):
        for storage in self.made.values():
            undo.do(f"file {storage.lun}", lambda lun=storage.lun: open(lun, "xb").close(),
                    lambda _, lun=storage.lun: os.unlink(lun))
            fio.fill(storage.lun, self.sizes[storage.name])


def _sizes(step):
    """The bytes of the smallest and of the largest request."""
    transfers = [work.transfer for work in step.works]
    return (min(transfer.least() for transfer in transfers),
            max(transfer.largest() for transfer in transfers))


class Intervals:
    """Print and keep a row for each interval, as they arrive."""

    def __init__(self, step, watch, show_disks, out):
        self.run, self.watch, self.show_disks, self.out = step.run, watch, show_disks, out
        self.least, self.largest = _sizes(step)
        self.rows, self.parts, self.disks, self.cpus, self.labels = [], [], [], [], []
        self.moment, self.pending = fio.START, None
        self.cpu, self.counters = machine.cpu_times(), watch.counters()

    def take(self, moment):
        """Keep a moment until the next one shows that it is not a partial last one."""
        now = (moment, machine.cpu_times(), self.watch.counters(), table.stamp())
        if self.pending:
            gap = moment.seconds - self.pending[0].seconds
            if gap < self.run.interval * fio.LEAST_SHARE:
                early, late = self.pending[2], now[2]
                for name, counts in late.items():
                    for key in ("looks", "waiting"):
                        counts[key] += early[name][key]
                self.pending = (moment, *now[1:3], self.pending[3])
                return
            self._row(*self.pending)
        self.pending = now

    def end(self):
        if self.pending:
            self._row(*self.pending)

    def _row(self, moment, cpu, counters, stamp):
        part = self._sized(moment - self.moment)
        if part.seconds <= 0:
            return
        # A late moment may cover two intervals.
        label = max(self.labels[-1] + 1 if self.labels else 1,
                    round(moment.seconds / self.run.interval))
        passed = cpu[3] - self.cpu[3] or 1
        user, system = (100 * (cpu[index] - self.cpu[index]) / passed for index in (0, 1))
        row = table.Row.of(part, user + system, system)
        disks = self.watch.rates(self.counters, counters, part.seconds)
        self.rows.append(row)
        self.labels.append(label)
        self.parts.append((moment, part))
        self.disks.append(disks)
        self.cpus.append((user + system, system))
        print(row.text(label, stamp), file=self.out)
        self._print_disks(disks)
        self.moment, self.cpu, self.counters = moment, cpu, counters

    def _sized(self, part):
        """fio counts bytes slightly before requests: limit the values to what is possible."""
        for each in (part.read, part.write):
            each.bytes = min(max(each.bytes, each.ios * self.least), each.ios * self.largest)
        return part

    def _print_disks(self, disks):
        for name, disk in disks.items() if self.show_disks else ():
            print(table.disk_text(name, disk), file=self.out)

    def average(self):
        """All intervals after the first one and the warm-up: label, I/O, row, disks."""
        skipped = sum(begin * self.run.interval < max(self.run.warmup, self.run.interval)
                      for begin in [0, *self.labels[:-1]])
        if len(self.rows) <= skipped:
            skipped = 0
        total = self._sized(self.parts[-1][0]
                            - (self.parts[skipped - 1][0] if skipped else fio.START))
        count = len(self.rows) - skipped
        cpu, system = (sum(each[index] for each in self.cpus[skipped:]) / count
                       for index in (0, 1))
        longest = max(part.both().longest for _moment, part in self.parts[skipped:])
        row = table.Row.of(total, cpu, system, longest)
        disks = {name: {key: sum(each[name][key] for each in self.disks[skipped:]) / count
                        for key in disk} for name, disk in self.disks[0].items()}
        label = f"avg_{self.labels[skipped]}-{self.labels[-1]}"
        print(row.text(label), file=self.out)
        self._print_disks(disks)
        return label, total, row, disks


def _sample(intervals, moments):
    """The average as metrics, with fio's own figures beside it."""
    label, total, row, disks = intervals.average()
    metrics = {**total.metrics(), "lat_max_us": row.longest * 1e3,
               "lat_stddev_us": row.deviation * 1e3, "read_percent": row.read,
               "cpu_percent": row.cpu, "cpu_sys_percent": row.cpu_sys,
               "average_s": total.seconds}
    series = {"mb_s": [], "lat_mean_us": [], "iops": []}
    for moment, part in intervals.parts:
        for name, points in series.items():
            points.append([round(moment.seconds, 3), part.metrics()[name]])
    return {"metrics": metrics, "percentiles": total.both().percentiles(), "series": series,
            "facts": {"average": label, "fio": moments[-1].metrics(),
                      "intervals": [{"interval": number, **vars(each)} for number, each
                                    in zip(intervals.labels, intervals.rows)], "disks": disks,
                      "disks_by_interval": intervals.disks}}


class Runs:
    """Run the steps; a curve needs what its first step achieved."""

    def __init__(self, options, luns, steps, validate, out):
        self.options, self.luns, self.validate, self.out = options, luns, validate, out
        self.steps = {step.name: step for step in steps}
        self.reached, self.seen, self.engine = {}, {}, _engine()

    def rate(self, step):
        if step.rate == MAX:
            return None
        if step.rate == CURVED:
            return max(1, round(self.reached[step.base] * step.percent / 100))
        return step.rate

    @contextlib.contextmanager
    def open(self, _subject, _round, _repeat):
        yield self.measure

    def measure(self, case):
        step = self.steps[case.name]
        if step.base and step.base not in self.reached:
            raise BadInput(f"{step.base} has no result to take {step.percent} % of")
        shared, listed = jobs.build(step, self.luns.sizes, self.rate(step), self.engine,
                                    self.validate, self.seen.get(step.base))
        for name in jobs.left_out(step, listed):
            note = f"{step.title}: the rate leaves too little for {name}, which does nothing."
            self.luns.notes += [] if note in self.luns.notes else [note]
        print(f"\n{time.strftime('%b %d, %Y')} {step.title}\n{table.HEAD}", file=self.out)
        with diskstats.Watch([storage.lun for storage in self.luns.used.values()]) as watch:
            if watch.disks and not self.options.no_disks:
                print(table.DISK_HEAD, file=self.out)
            intervals = Intervals(step, watch, not self.options.no_disks, self.out)
            moments = fio.run(shared, listed, step.run.interval, intervals.take)
            intervals.end()
        sample = _sample(intervals, moments)
        self.reached[step.name] = sample["metrics"]["iops"]
        self.seen[step.name] = moments[-1].groups
        self._compare_rate(step, sample["metrics"])
        return sample

    def _compare_rate(self, step, metrics):
        """Show the requested rate beside the achieved one."""
        wanted, reached = self.rate(step), metrics["iops"]
        # Validation reads are not part of the requested rate.
        if wanted is None or self.validate:
            return
        metrics["iops_requested"] = wanted
        missed = misses(wanted, reached, metrics["average_s"])
        mark = f" ({reached / wanted - 1:+.0%})" if missed else ""
        print(f"{'':<13}requested {wanted:,} i/o per second, achieved {reached:,.0f}{mark}",
              file=self.out)
        if mark:
            self.luns.notes.append(f"{step.title}: {wanted:,} requests per second were requested, "
                                   f"{reached:,.0f} were achieved{mark}.")


def _variables(texts):
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"\w+", name) or not equals or not value or name in found:
            raise BadInput(f"{text!r}: must be NAME=VALUE, each name once")
        found[name] = value
    return found


def plan(options):
    definitions = parse.read(options.file, _variables(options.variables))
    steps = [step for run in definitions.runs for step in steps_of(run)]
    validate = definitions.validate or options.validate
    luns = Luns(steps, options)
    machine.fio_version()
    luns.check_direct(steps)
    texts = [(step, fio.job_file(*jobs.build(
        step, luns.sizes, step.rate if isinstance(step.rate, int) else None, _engine(), validate)))
        for step in steps]
    if options.show_jobs:
        for step, text in texts:
            print(f"# {step.title}\n{text}")
        raise SystemExit(0)
    if validate:
        luns.notes.append("Data validation: written data is read again and compared; these reads "
                          "are counted like all others.")
    runs = Runs(options, luns, steps, validate, Rows(sys.stdout, luns.notes))
    # Only the runs of a curve need another one.
    groups = itertools.groupby(steps, lambda step: step.base or step.name)
    return Plan(subjects=[Subject("luns", os.path.basename(options.file), luns.details())],
                rounds=[Round(tuple(Case(step.name, step.title,
                                         step.run.warmup + step.run.elapsed + 1)
                                    for step in group)) for _first, group in groups],
                open=runs.open, set_up=luns.set_up, live=True,
                metrics=(IOPS, REQUESTED, MB_S, MEAN, P99, LONGEST, STDDEV),
                settings={"file": os.path.abspath(options.file), "text": definitions.text,
                          "validate": validate, "variables": options.variables},
                notes=luns.notes)
