# SPDX-License-Identifier: GPL-2.0-only
"""Recorded block traces on a device: hit ratio and latency, over time."""

import contextlib
import os
import tempfile

from ..run.plan import FIO, Case, Metric, Plan, Round, Subject
from ..system import guard, hits, machine, places
from ..system.errors import BadInput, TooSmall
from ..system.units import size as human
from ..tools import fio
from ..traces import formats

NAME = "replay"
SUMMARY = "replay a recorded block trace: hit ratio and latency over time"
EXPLANATION = """\
The trace is csv (version,time,op,size,lbn, as in libCacheSim), lis (first_block block_count ignored
number, as in the ARC traces), text of blkparse, or fio's iolog (2 or 3). It may be compressed with
xz, gzip or zstd. Requests are direct and are replayed as fast as the device accepts them, with
--depth in flight. Requests that are not whole sectors are extended. A cache:DEVICE is cold at the
start of each repeat. The hit ratio is reported for rxcache and dm-cache. A directory is rejected,
and so is a device that is smaller than the trace, unless --fold wraps addresses around its end."""

HITS = Metric("hit_percent", "hit ratio", "%", "higher")
PACE = 3000
MOST_DEPTH = 1024


def add_arguments(parser):
    parser.add_argument("trace", metavar="TRACE", help="file with the trace")
    parser.add_argument("places", nargs="+", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("--depth", metavar="N", type=int, default=8,
                        help="requests in flight (default: %(default)s)")
    parser.add_argument("--limit", metavar="N", type=int,
                        help="use only the first N requests (default: all)")
    parser.add_argument("--reads-only", action="store_true",
                        help="skip the writes; devices may hold data then")
    parser.add_argument("--fold", action="store_true",
                        help="wrap addresses around the end of the device")


class Trace:
    """The contents of a trace, from one pass over it."""

    def __init__(self, options):
        self.path, self.limit, self.reads_only = options.trace, options.limit, options.reads_only
        self.end = self.longest = self.count = self.writes = self.bytes = 0
        for request in self:
            self.end = max(self.end, request.offset + request.length)
            self.longest = max(self.longest, request.length)
            self.count += 1
            self.writes += request.write
            self.bytes += request.length
        if not self.count:
            raise BadInput(f"{self.path}: contains no read")

    def __iter__(self):
        for request in formats.requests(self.path, self.limit):
            if not (request.write and self.reads_only):
                yield request


def aligned(request, sector, size):
    """Offset and length in whole sectors, within size."""
    start = request.offset // sector * sector
    length = -(-(request.offset + request.length - start) // sector) * sector
    start %= size
    return min(start, size - length), length


class Replays:
    """A round replays the trace once on one place."""

    def __init__(self, options, trace, grounds):
        self.options, self.trace = options, trace
        self.grounds = {place.name: place for place in grounds}

    def set_up(self, undo):
        for place in self.grounds.values():
            place.set_up(undo)
            if isinstance(place, places.RamDisk):
                # Blocks that were never written would be read faster.
                fio.fill(place.path, place.size >> 20 << 20)

    @contextlib.contextmanager
    def open(self, subject, _round, _repeat):
        with self.grounds[subject.name].open() as node:
            yield lambda _case: self.measure(node)

    def _write_log(self, path, node):
        sector, size = guard.logical_block_size(node), guard.device_size(node)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"fio version 2 iolog\n{node} add\n{node} open\n")
            for request in self.trace:
                start, length = aligned(request, sector, size)
                file.write(f"{node} {'write' if request.write else 'read'} {start} {length}\n")
            file.write(f"{node} close\n")

    def measure(self, node):
        machine.drop_caches()
        count = hits.counter(node)
        before = count() if count else None
        looks = [before]
        ratios = []

        def look(moment):
            if count:
                looks.append(count())
                percent = hits.percent(looks[-2], looks[-1])
                if percent is not None:
                    ratios.append([round(moment.seconds, 3), percent])

        with tempfile.TemporaryDirectory(prefix="rxbench-") as directory:
            log = os.path.join(directory, "iolog")
            self._write_log(log, node)
            moments = fio.run({**fio.BASE, "iodepth": self.options.depth, "read_iolog": log,
                               "replay_no_stall": 1}, [("replay", {})], on_moment=look)
        sample = fio.sample(moments)
        if count:
            sample["metrics"]["hit_percent"] = hits.percent(before, count())
            sample["series"]["hit_percent"] = ratios
        return sample


def plan(options):
    if not 1 <= options.depth <= MOST_DEPTH:
        raise BadInput(f"--depth {options.depth}: must be from 1 to {MOST_DEPTH}")
    if options.limit is not None and options.limit < 1:
        raise BadInput(f"--limit {options.limit}: must be 1 or more")
    trace = Trace(options)
    grounds = places.parse(options.places)
    for place in grounds:
        if not place.has_node:
            raise BadInput(f"{place.path}: a directory; a trace is replayed on a block device")
        place.read_only = not trace.writes
    machine.fio_version()
    machine.need_tools("wipefs", "blkdiscard", "dmsetup")
    try:
        places.check(grounds, trace.longest * 2 if options.fold else trace.end, options.destroy)
    except TooSmall as error:
        if options.fold:
            raise
        raise TooSmall(f"{error} for {options.trace}; --fold wraps its addresses") from error
    replays = Replays(options, trace, grounds)
    name = os.path.basename(options.trace)
    return Plan(subjects=[Subject(place.name, place.title, place.details())
                          for place in grounds],
                rounds=[Round((Case("replay", f"replay of {name}", trace.count / PACE),))],
                open=replays.open, set_up=replays.set_up, metrics=(*FIO, HITS),
                base=grounds[-1].name if len(grounds) > 1 else None,
                notes=[f"{name}: {trace.count:,} requests, {trace.writes:,} of them writes, "
                       f"{human(trace.bytes)}, up to byte {trace.end:,}"
                       + (", folded." if options.fold else ".")],
                settings={"trace": name, "requests": trace.count, "depth": options.depth,
                          "fold": options.fold, "reads only": options.reads_only})
