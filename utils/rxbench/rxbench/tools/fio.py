# SPDX-License-Identifier: GPL-2.0-only
"""fio: job files, and its JSON output as numbers."""

import errno
import json
import math
import os
import tempfile
from dataclasses import dataclass, field

from ..system import command, guard
from ..system.errors import BenchError

# Direct I/O on a block device needs no invalidation, and fio's ioctl for it empties a RAM
# disk with some drivers.
BASE = {"ioengine": "libaio", "direct": 1, "iodepth": 32, "invalidate": 0,
        "allow_file_create": 0, "thread": 1}
# Use one set of counters for all threads; its bins give any percentile.
REPORTING = {"group_reporting": 1, "lat_percentiles": 1}
POINTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999)
# With fewer requests above it, a percentile is little more than one of them.
LEAST_BEYOND = 10
# The counting process of fio must not wait for a processor that its own threads use.
AHEAD = 10
# A last interval shorter than this share of one is added to the previous one.
LEAST_SHARE = 0.5
# Bytes of a write of fill().
FILLED = 1 << 20


def are_enough(requests, percent):
    """Are there enough requests for this percentile? 99 is printed in any case."""
    return percent <= 99 or requests >= round(LEAST_BEYOND * 100 / (100 - percent))


@dataclass
class Counters:
    """The I/O of one direction, or of both, so far; times in microseconds."""
    ios: int = 0
    bytes: int = 0
    latency: float = 0.0
    squares: float = 0.0
    longest: float = 0.0
    bins: dict = field(default_factory=dict)

    @classmethod
    def of(cls, side):
        lat = side["lat_ns"]
        # total_ios counts requests when they are submitted, but bytes count on completion.
        count, mean, deviation = lat.get("N", side["total_ios"]), lat["mean"] / 1e3, \
            lat["stddev"] / 1e3
        squares = max(0, count - 1) * deviation ** 2 + count * mean ** 2
        return cls(count, side["io_bytes"], count * mean, squares, lat["max"] / 1e3,
                   {int(edge): number for edge, number in lat.get("bins", {}).items()})

    def __add__(self, other):
        bins = dict(self.bins)
        for edge, number in other.bins.items():
            bins[edge] = bins.get(edge, 0) + number
        return Counters(self.ios + other.ios, self.bytes + other.bytes,
                        self.latency + other.latency, self.squares + other.squares,
                        max(self.longest, other.longest), bins)

    def __sub__(self, earlier):
        """The difference since; the longest latency is exact only if it is a new maximum."""
        bins = {edge: number - earlier.bins.get(edge, 0) for edge, number in self.bins.items()
                if number > earlier.bins.get(edge, 0)}
        longest = self.longest if self.longest > earlier.longest else \
            min(max(bins, default=0) / 1e3, self.longest)
        part = Counters(self.ios - earlier.ios, self.bytes - earlier.bytes,
                        self.latency - earlier.latency, self.squares - earlier.squares,
                        longest, bins)
        # The edge of a bin may be below all latencies in it.
        part.longest = max(part.longest, part.mean())
        return part

    def mean(self):
        return self.latency / self.ios if self.ios else 0.0

    def deviation(self):
        if self.ios < 2:
            return 0.0
        return math.sqrt(max(0.0, self.squares - self.ios * self.mean() ** 2) / (self.ios - 1))

    def percentiles(self):
        """Microseconds by percent, from the bins; without nines that need more I/Os."""
        total, found, seen = sum(self.bins.values()), {}, 0
        points = [point for point in POINTS if are_enough(total, point)]
        for edge in sorted(self.bins):
            seen += self.bins[edge]
            while points and seen >= total * points[0] / 100:
                # A bin has one figure, which may be above all latencies in it.
                found[f"{points.pop(0):g}"] = min(edge / 1e3, self.longest)
        return found


@dataclass
class Moment:
    """Both directions so far, and the requests of each group of jobs."""
    seconds: float
    read: Counters
    write: Counters
    groups: tuple = ()

    def __add__(self, other):
        """Add a later moment."""
        return Moment(self.seconds + other.seconds, self.read + other.read,
                      self.write + other.write)

    def __sub__(self, earlier):
        return Moment(self.seconds - earlier.seconds, self.read - earlier.read,
                      self.write - earlier.write)

    def both(self):
        return self.read + self.write

    def metrics(self):
        both = self.both()
        seconds = self.seconds or math.inf
        percentiles = both.percentiles()
        return {"mb_s": both.bytes / seconds / 1e6, "iops": both.ios / seconds,
                "lat_mean_us": both.mean(), "lat_max_us": both.longest,
                "lat_p99_us": percentiles.get("99", both.longest),
                "lat_p99999_us": percentiles.get("99.999")}


START = Moment(0.0, Counters(), Counters())


def job_file(shared, jobs):
    """The text of a job file: common options, then those of each (name, options)."""
    lines = []
    for name, options in [("global", shared), *jobs]:
        lines.append(f"[{name}]")
        lines += [key if value is None else f"{key}={value}" for key, value in options.items()]
        lines.append("")
    return "\n".join(lines)


def moment(document):
    """One of fio's JSON documents."""
    try:
        jobs = document["jobs"]
        for job in jobs:
            if job["error"] == errno.EILSEQ:
                # fio continues to print the place of the error, and ends by itself.
                continue
            if job["error"]:
                raise BenchError(f"fio: error {job['error']} ({os.strerror(job['error'])})")
        sides = [(Counters.of(job["read"]), Counters.of(job["write"])) for job in jobs]
        read, write = (sum(each, Counters()) for each in zip(*sides))
        runtime = max(job[side]["runtime"] for job in jobs for side in ("read", "write"))
        return Moment(runtime / 1e3, read, write, tuple(r.ios + w.ios for r, w in sides))
    except (KeyError, TypeError, ValueError) as error:
        raise BenchError(f"fio: its JSON is not as expected: {error!r}") from error


class Documents:
    """The JSON documents in fio's output, as they become complete."""

    def __init__(self):
        self.text = ""
        self.stray = []

    def feed(self, text):
        """Return the documents that these lines complete; one may have a hundred thousand lines."""
        self.text += text
        found = []
        while True:
            begin = ("\n" + self.text).find("\n{\n")
            self._put_aside(len(self.text) if begin < 0 else begin)
            end = self.text.find("\n}")
            if begin < 0 or end < 0:
                return found
            document, self.text = self.text[:end + 2], self.text[end + 2:]
            try:
                found.append(json.loads(document))
            except json.JSONDecodeError as error:
                raise BenchError("fio: no JSON in its output: "
                                 f"{document.strip()[:80]!r}") from error

    def _put_aside(self, length):
        """Store output that is in no document."""
        if self.text[:length].strip():
            self.stray.append(self.text[:length].lstrip("\n"))
        self.text = self.text[length:]


def joined(moments, interval):
    """Return the moments without those that come too soon after the previous one."""
    kept = []
    for each in moments:
        earlier = kept[-1] if kept else START
        if kept and each.seconds - earlier.seconds < interval * LEAST_SHARE:
            kept[-1] = each
        elif each.seconds > 0:
            kept.append(each)
    return kept


def run(shared, jobs, interval=1, on_moment=None):
    """Run jobs; returns the moments at each interval, the last being the end."""
    documents, moments = Documents(), []

    def take(text):
        for document in documents.feed(text):
            moments.append(moment(document))
            if on_moment:
                on_moment(moments[-1])

    with tempfile.TemporaryDirectory(prefix="rxbench-") as directory:
        path = os.path.join(directory, "job.fio")
        with command.ahead(AHEAD) as back, open(path, "w", encoding="utf-8",
                                                errors="surrogateescape") as file:
            file.write(job_file({**shared, **REPORTING, **({"nice": back} if back else {})}, jobs))
            file.flush()
            command.follow(["fio", "--output-format=json+", f"--status-interval={interval}", path],
                           take)
    if not moments:
        raise BenchError("fio: no JSON in its output: " + "".join(documents.stray).strip()[:80])
    if not moments[-1].both().ios:
        raise BenchError("fio: no I/O was completed")
    return moments


def sample(moments, interval=1):
    """Metrics, percentiles and per-second lines of a run."""
    end = moments[-1]
    if not end.seconds:
        raise BenchError("fio: everything took less than 1 ms, which is too short to measure")
    series, earlier = {"mb_s": [], "lat_mean_us": []}, START
    for each in joined(moments, interval):
        part = (each - earlier).metrics()
        for name, points in series.items():
            points.append([round(each.seconds, 3), part[name]])
        earlier = each
    return {"metrics": end.metrics(), "percentiles": end.both().percentiles(), "series": series}


def _one(path, options, **how):
    """Return the moments of one job on a device or a file."""
    return run({**BASE, "filename": escaped(path), **options}, [("rxbench", {})], **how)


def measure(path, options):
    """Return the sample of one job."""
    return sample(_one(path, options))


def total(path, options):
    """Return the totals only, without intervals."""
    return _one(path, options, interval=3600)[-1]


def escaped(path):
    """Escape a colon, which fio takes for the end of a file name."""
    return path.replace("\\", "\\\\").replace(":", "\\:")


def fill(path, size):
    """Fill with random bytes, so that nothing is empty or compressible."""
    folder = path if os.path.exists(path) else os.path.dirname(path)
    whole = size // FILLED * FILLED
    if whole:
        run({**BASE, "direct": int(guard.takes_direct(folder)), "filename": escaped(path),
             "rw": "write", "bs": FILLED, "size": whole, "iodepth": 8,
             "refill_buffers": 1, "allow_file_create": 1, "end_fsync": 1},
            [("fill", {})], interval=3600)
    if whole < size:
        # fio would leave out what is no whole block.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644), "wb") as file:
            file.seek(whole)
            file.write(os.urandom(size - whole))
            file.flush()
            os.fsync(file.fileno())
