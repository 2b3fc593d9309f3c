# SPDX-License-Identifier: GPL-2.0-only
"""The published page of the ancestor: fio, libaio, depth 32, a file on a file system."""

import contextlib
import os

from ..run.plan import Case, Plan, Round, Subject
from ..system import guard, hits, machine, places
from ..system.errors import BadInput
from ..system.units import parse_size
from ..tools import fio

NAME = "profile"
SUMMARY = "fio on a file, as RapidDisk's page of speeds has it, on any places side by side"
EXPLANATION = """\
fio, libaio, direct I/O, depth 32, over one file: blocks of 1M and 4K, each as sequential read,
random read, sequential write and random write.
--profile ramdisk (default): a file of 1 GiB on ext4. --profile cache: a file of 32 MiB on ext2,
every block of it read once before, so that a cache is warm; the page's disk has 10 GiB, its cache
1 GiB. Columns "page" have what the page says: RapidDisk, and a SATA disk, on a 3.1 GHz Xeon."""

ORDERS = (("read", "sequential read"), ("randread", "random read"),
          ("write", "sequential write"), ("randwrite", "random write"))
# MB/s: RapidDisk (for cache: its cache), and the plain disk.
PAGE = {"ramdisk": {"1m": ((3300, 154), (3300, 93), (2900, 131), (2900, 106)),
                    "4k": ((1700, 116), (1300, 2.2), (1500, 70), (1400, 1.9))},
        "cache": {"4k": ((802, 104), (907, 7.9), (68, 70), (2.8, 2.8))}}
COLUMNS = {"ramdisk": ("page: RxDSK", "page: SATA"), "cache": ("page: RxCACHE", "page: SATA")}
KINDS = {"ramdisk": ("ext4", "1g"), "cache": ("ext2", "32m")}
# A file system must hold the file, and its own.
ROOM = 1.15
LEAST_ROOM = 16 << 20


def add_arguments(parser):
    parser.add_argument("places", nargs="+", metavar=places.SYNTAX, help=places.MEANING)
    parser.add_argument("--profile", choices=tuple(KINDS), default="ramdisk",
                        help="which of the page's two (default: %(default)s)")
    parser.add_argument("--size", metavar="SIZE", type=parse_size,
                        help="of the file (default: 1g, or 32m for cache)")
    parser.add_argument("--seconds", metavar="S", type=int, default=5,
                        help="for each measurement (default: %(default)s)")
    parser.add_argument("--jobs", metavar="NAME,...",
                        help="only these, of " + ", ".join(names()))


def names():
    """Of all jobs, such as randread-4k."""
    return [case.name for _order, _block, case in _cases("ramdisk", 1)]


def chosen(text, known):
    """Names out of a list with commas; all if there is none."""
    wanted = text.split(",") if text else known
    for name in wanted:
        if name not in known:
            raise BadInput(f"--jobs {name}: must be of {', '.join(known)}")
    return wanted


def _cases(profile, seconds):
    for block in ("1m", "4k"):
        published = PAGE[profile].get(block, (None,) * len(ORDERS))
        for (order, title), figures in zip(ORDERS, published):
            reference = dict(zip(COLUMNS[profile], figures)) if figures else {}
            yield order, block, Case(f"{order}-{block}", f"{block.upper()} {title}", seconds + 1.5,
                                     reference)


def _prepare(place, directory, size):
    """The file, as large as wanted and full of random bytes."""
    path = os.path.join(directory, "rxbench.data")
    if place.prepared != size:
        fio.fill(path, size)
        place.prepared = size
    return path


def _warm(path, size):
    """Each block once, so that a cache has it."""
    fio.run({**fio.BASE, "filename": fio.escaped(path), "rw": "read", "bs": "1m", "size": size},
            [("warm", {})], interval=3600)


def plan(options):
    kind, default = KINDS[options.profile]
    size = options.size or parse_size(default)
    jobs = {case.name: (order, block, case)
            for order, block, case in _cases(options.profile, options.seconds)
            if case.name in chosen(options.jobs, names())}
    if options.seconds < 1:
        raise BadInput(f"--seconds {options.seconds}: must be 1 or more")
    grounds = places.parse(options.places)
    machine.fio_version()
    machine.need_tools(f"mkfs.{kind}", "mount", "umount", "wipefs", "blkdiscard")
    places.check(grounds, int(size * ROOM) + LEAST_ROOM, options.destroy)
    for place in grounds:
        if not place.takes_direct():
            raise BadInput(f"{guard.no_direct(place.path)}, and all of this profile is direct")
    by_name = {place.name: place for place in grounds}

    def set_up(undo):
        for place in grounds:
            place.set_up(undo)

    @contextlib.contextmanager
    def open_round(subject, _round, _repeat):
        place = by_name[subject.name]
        place.format(kind)
        with place.mounted(kind) as directory:
            path = _prepare(place, directory, size)
            if options.profile == "cache" or place.cached:
                _warm(path, size)
            yield lambda case: measure(place, path, case)

    def measure(place, path, case):
        order, block, _case = jobs[case.name]
        count = place.counter() if place.cached else None
        before = count() if count else None
        sample = fio.measure(path, {"rw": order, "bs": block, "size": size, "time_based": 1,
                                    "runtime": options.seconds})
        if count and "read" in order:
            sample["metrics"]["hit_percent"] = hits.percent(before, count())
        return sample

    return Plan(subjects=[Subject(place.name, place.title, place.details())
                          for place in grounds],
                rounds=[Round((case,)) for _order, _block, case in jobs.values()],
                open=open_round, set_up=set_up,
                base=grounds[-1].name if len(grounds) > 1 else None,
                settings={"profile": options.profile, "file system": kind, "size": size,
                          "seconds": options.seconds, "ioengine": "libaio", "iodepth": 32,
                          "direct": 1})
