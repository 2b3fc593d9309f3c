# SPDX-License-Identifier: GPL-2.0-only
"""The published page of the ancestor: fio, libaio, depth 32, a file on a file system."""

import contextlib
import os

from ..run import rounds
from ..run.plan import (FIO, IOPS, LONGEST, MB_S, MEAN, NINES, P99, Case, Plan, Round,
                        Subject)
from ..system import guard, hits, machine, places
from ..system.errors import BadInput
from ..system.units import parse_size, parse_whole, size_of
from ..system.units import size as human
from ..tools import fio, steady
from . import sweep

NAME = "profile"
SUMMARY = "run the fio jobs of RapidDisk's benchmark page on a file, on any places"
EXPLANATION = """\
Runs fio on one file: libaio, direct I/O, depth 32, blocks of 1M and 4K, each with sequential read,
random read, sequential write and random write.
--profile ramdisk (default) uses a file of 1 GiB on ext4. --profile cache uses a file of 32 MiB on
ext2. With it, and on places cache:DEVICE, every block is read once before, so that a cache is warm.
In RapidDisk's published benchmark, the disk has 10 GiB and its cache 1 GiB. The columns "page" have
the figures of that web page: RapidDisk and a SATA disk, on a 3.1 GHz Xeon.
--sweep measures random I/O instead, with all combinations of block size, depth and mix of reads and
writes, and shows the latency over the requests per second.
--steady, similar to SNIA's PTS, writes the file twice. Each measurement then consists of rounds of
--seconds, until five of them differ by at most 20 % and drift by at most 10 %."""

ORDERS = (("read", "sequential read"), ("randread", "random read"),
          ("write", "sequential write"), ("randwrite", "random write"))
# MB/s: RapidDisk (for cache: its cache), and the plain disk.
PAGE = {"ramdisk": {"1m": ((3300, 154), (3300, 93), (2900, 131), (2900, 106)),
                    "4k": ((1700, 116), (1300, 2.2), (1500, 70), (1400, 1.9))},
        "cache": {"4k": ((802, 104), (907, 7.9), (68, 70), (2.8, 2.8))}}
COLUMNS = {"ramdisk": ("page: RxDSK", "page: SATA"), "cache": ("page: RxCACHE", "page: SATA")}
KINDS = {"ramdisk": ("ext4", "1g"), "cache": ("ext2", "32m")}
# A file system holds the file and its own metadata.
ROOM = 1.15
LEAST_ROOM = 16 << 20
SECONDS, ROUND_SECONDS = 5, 60
# The file has this many times the size of the processors' caches.
BEYOND = 4
MOST_ROUNDS = 1000
MIB = 1 << 20


def add_arguments(parser):
    parser.add_argument("places", nargs="+", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("--profile", choices=tuple(KINDS), default="ramdisk",
                        help="which of the two sets of jobs (default: %(default)s)")
    parser.add_argument("--size", metavar="SIZE", type=size_of("--size"),
                        help="size of the file (default: 1g, or 32m for cache)")
    parser.add_argument("--seconds", metavar="S", type=int,
                        help=f"duration of each measurement (default: {SECONDS}), or of a round of "
                             f"--steady (default: {ROUND_SECONDS})")
    parser.add_argument("--jobs", metavar="NAME,...",
                        help="run only these jobs: " + ", ".join(names()))
    parser.add_argument("--steady", action="store_true",
                        help="measure in rounds until the results are steady, on a file much "
                             "larger than the processor caches")
    parser.add_argument("--most-rounds", metavar="N",
                        help="end a measurement of --steady after this many rounds, "
                             f"{rounds.WINDOW} to {MOST_ROUNDS} (default: {rounds.MOST})")
    sweep.add_arguments(parser)


def names():
    """The names of all jobs, such as randread-4k."""
    return list(_cases("ramdisk", 1))


def chosen(text, known):
    """The chosen names of a list with commas; all if there is none."""
    wanted = text.split(",") if text else known
    for name in wanted:
        if name not in known:
            raise BadInput(f"--jobs {name}: must be one of {', '.join(known)}")
    return wanted


def _cases(profile, seconds):
    """fio's options and a case for each job of the page, by its name."""
    found = {}
    for block in ("1m", "4k"):
        published = PAGE[profile].get(block, (None,) * len(ORDERS))
        for (order, title), figures in zip(ORDERS, published):
            reference = dict(zip(COLUMNS[profile], figures)) if figures else {}
            found[f"{order}-{block}"] = ({"rw": order, "bs": block}, Case(
                f"{order}-{block}", f"{block.upper()} {title}", seconds, reference))
    return found


def _jobs(options, size, seconds):
    """The measured jobs, by name: fio's options and a case for each."""
    # The progress bar counts five rounds; there may be more.
    expected = (seconds + 1.5) * (rounds.WINDOW if options.steady else 1)
    sweep.refuse_strays(options)
    if options.sweep:
        return sweep.cases(options, size, expected)
    wanted = chosen(options.jobs, names())
    return {name: job for name, job in _cases(options.profile, expected).items()
            if name in wanted}


def _most_rounds(options):
    text = options.most_rounds
    if text is None:
        return rounds.MOST
    if not options.steady:
        raise BadInput(f"--most-rounds {text}: requires --steady")
    return parse_whole(text, "--most-rounds", rounds.WINDOW, MOST_ROUNDS)


def _size(options):
    """The size of the file; --steady needs one much larger than the processors' caches."""
    least = BEYOND * machine.processor_caches() if options.steady else 0
    if options.size is None:
        return max(parse_size(KINDS[options.profile][1]), -(-least // MIB) * MIB)
    if options.size % MIB:
        raise BadInput(f"--size {options.size}: must be whole MiB")
    if options.size < least:
        raise BadInput(f"--size {human(options.size)}: must be {human(least)} or more with "
                       f"--steady, {BEYOND} times the processors' caches")
    return options.size


def _prepare(place, directory, size, times):
    """Create the file with the requested size, full of random bytes."""
    path = os.path.join(directory, "rxbench.data")
    if place.prepared != size:
        for _ in range(times):
            fio.fill(path, size)
        place.prepared = size
    return path


def _warm(path, size):
    """Read each block once, so that a cache holds it."""
    fio.run({**fio.BASE, "filename": fio.escaped(path), "rw": "read", "bs": "1m", "size": size},
            [("warm", {})], interval=3600)


class Profile:
    """Measures the jobs on a file of each place."""

    def __init__(self, options, grounds, jobs, size, seconds):
        self.options, self.jobs, self.size, self.seconds = options, jobs, size, seconds
        self.most_rounds = _most_rounds(options)
        self.places = {place.name: place for place in grounds}
        self.kind, _default = KINDS[options.profile]
        self.notes = [sweep.NOTE] if options.sweep else []
        if options.steady:
            self.notes += _steady_notes(seconds)

    def set_up(self, undo):
        for place in self.places.values():
            place.set_up(undo)

    @contextlib.contextmanager
    def open(self, subject, _round, _repeat):
        place = self.places[subject.name]
        place.format(self.kind)
        with place.mounted(self.kind) as directory:
            path = _prepare(place, directory, self.size,
                            steady.TIMES if self.options.steady else 1)
            if self.options.profile == "cache" or place.cached:
                _warm(path, self.size)
            yield lambda case: self.measure(place, path, case)

    def measure(self, place, path, case):
        job, _case = self.jobs[case.name]
        count = place.counter() if place.cached else None
        counted = [count()] if count else []
        job = {**job, "size": self.size, "time_based": 1, "runtime": self.seconds}
        if self.options.steady:
            sample = steady.measure(path, job, self.most_rounds,
                                    lambda: counted.append(count()) if count else None)
        else:
            sample = fio.measure(path, job)
        if count and "write" not in job["rw"]:
            # Count only the rounds that the figures of a steady state come from.
            before = counted[-1 - rounds.WINDOW] if self.options.steady else counted[0]
            sample["metrics"]["hit_percent"] = hits.percent(before, count())
        if self.options.steady:
            self._tell(place, case, sample["facts"]["steady"])
        return sample

    def _tell(self, place, case, found):
        """Report what never became steady."""
        if not found["reached"]:
            self.notes.append(
                f"Not steady after {found['rounds']} rounds: {case.title}, {place.title}: the last "
                f"{rounds.WINDOW} differ by {found['range_percent']:.0f} %, and drift by "
                f"{found['slope_percent']:.0f} %.")


def _steady_notes(seconds):
    yield (f"Steady state: a figure is of {rounds.WINDOW} rounds of {seconds} s that differ by "
           f"{rounds.RANGE_PERCENT} % at most and drift by {rounds.SLOPE_PERCENT} % at most, but "
           "for what is named as not steady.")
    if not machine.processor_caches():
        yield ("The kernel does not report the size of the CPU caches, so they may have held the "
               "file.")


def _settings(options, grounds, size, seconds):
    settings = {"profile": options.profile,
                **({"file system": KINDS[options.profile][0]}
                   if any(place.has_node for place in grounds) else {}),
                "size": size, "seconds": seconds, "ioengine": "libaio", "direct": 1}
    if not options.sweep:
        settings["iodepth"] = 32
    if options.steady:
        settings.update(steady=True, **{"processors' caches": machine.processor_caches()})
    return settings


def plan(options):
    seconds = options.seconds
    if seconds is None:
        seconds = ROUND_SECONDS if options.steady else SECONDS
    if seconds < 1:
        raise BadInput(f"--seconds {seconds}: must be 1 or more")
    size = _size(options)
    jobs = _jobs(options, size, seconds)
    grounds = places.parse(options.places)
    made = Profile(options, grounds, jobs, size, seconds)
    machine.fio_version()
    machine.need_tools(f"mkfs.{KINDS[options.profile][0]}", "mount", "umount", "wipefs",
                       "blkdiscard")
    places.check(grounds, int(size * ROOM) + LEAST_ROOM, options.destroy, kept=True)
    for place in grounds:
        if not place.takes_direct():
            raise BadInput(f"{guard.no_direct(place.path)}, and this profile uses only direct I/O")
    if options.sweep:
        sweep.need_sectors(jobs, grounds)
    metrics = (IOPS, MB_S, MEAN, P99) if options.sweep else FIO
    return Plan(subjects=[Subject(place.name, place.title, place.details())
                          for place in grounds],
                rounds=[Round((case,)) for _job, case in jobs.values()],
                open=made.open, set_up=made.set_up, notes=made.notes,
                metrics=metrics + ((NINES, LONGEST) if options.steady else ()),
                base=grounds[-1].name if len(grounds) > 1 else None,
                settings=_settings(options, grounds, size, seconds))
