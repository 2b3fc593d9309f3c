# SPDX-License-Identifier: GPL-2.0-only
"""Runs as fio's jobs: the threads of vdbench are requests under way at once.

With io_uring a few threads of fio have them under way, so that the fio that counts them is not
one of hundreds that want to run, and a sequential lun has one place where it is read, as in
vdbench. Where io_uring is not to be had, a thread of vdbench is one of fio.
"""

from dataclasses import dataclass

from ..system.errors import BadInput
from ..system.units import short
from ..tools.fio import escaped
from .parse import CURVED, MAX

URING, PSYNC = "io_uring", "psync"
# Threads of fio for the random I/O to a lun.
WORKERS = 4
# Whoever counts them must not wait for a processor that they keep busy.
NICE = 10
SHARED = {"thread": 1, "nice": NICE, "invalidate": 0, "allow_file_create": 0,
          "norandommap": 1, "randrepeat": 0, "time_based": 1}


@dataclass(frozen=True)
class Step:
    """One run of fio: an rd= with one rate, number of threads and size."""
    name: str
    title: str
    run: object
    rate: object
    threads: int
    transfer: object
    percent: int = None
    base: str = None


def steps(run):
    """The runs that an rd= stands for, in vdbench's order."""
    for transfer in run.transfers:
        for threads in run.threads:
            suffix = [f"threads={threads}"] if threads else []
            suffix += [f"xfersize={_sizes(transfer)}"] if transfer else []
            for rate in run.rates:
                if rate != CURVED:
                    yield _step(run, f"iorate={rate}", suffix, rate, threads, transfer)
                    continue
                first = _step(run, "iorate=max (for the curve)", suffix, MAX, threads, transfer)
                yield first
                for percent in run.curve:
                    yield _step(run, f"iorate={percent}%", suffix, CURVED, threads, transfer,
                                percent, first.name)


def _step(run, rate_text, suffix, rate, threads, transfer, percent=None, base=None):
    texts = [rate_text, *suffix]
    name = "-".join([run.name, *(text.split(" ")[0].replace("=", "-").replace("%", "pct")
                                 for text in texts)])
    if percent is None and "(for the curve)" in rate_text:
        name += "-curve"
    return Step(name, f"{run.name} {', '.join(texts)}", run, rate, threads, transfer, percent,
                base)


def _sizes(transfer):
    if transfer.span:
        return f"{short(transfer.span[0])}-{short(transfer.span[1])}"
    return "/".join(short(size) for size, _percent in transfer.sizes)


def shares(total, count):
    """A number as count whole ones that differ by one at most."""
    return [total // count + (rank < total % count) for rank in range(count)]


def _blocks(transfer):
    if transfer.span:
        return {"bsrange": "-".join(short(size) for size in transfer.span).lower()}
    if len(transfer.sizes) == 1:
        return {"bs": short(transfer.sizes[0][0]).lower()}
    return {"bssplit": ":".join(f"{short(size).lower()}/{percent}"
                                for size, percent in transfer.sizes)}


def _direction(work):
    prefix = "rand" if work.seekpct else ""
    if work.rdpct in (0, 100):
        return {"rw": prefix + ("read" if work.rdpct else "write")}
    return {"rw": f"{prefix}rw", "rwmixread": f"{work.rdpct:g}"}


def _zones(percent, hitarea, size):
    """Hits fall on the first bytes, the others on the rest."""
    rest = f":{100 - percent}/{size - hitarea}" if percent < 100 else ""
    return f"zoned_abs:{percent}/{hitarea}{rest}"


def _places(work, storage, transfer, size, jobs):
    options = {"size": size}
    if work.rhpct or work.whpct:
        if storage.hitarea >= size:
            raise BadInput(f"sd={storage.name}: hitarea={storage.hitarea} is not smaller than "
                           f"the lun of {size} bytes")
        options["random_distribution"] = _zones(work.rhpct or work.whpct, storage.hitarea, size)
    elif work.seekpct == 0 and jobs > 1:
        # Each thread has a part of the lun, or else all would read the same.
        part = size // jobs // transfer.largest() * transfer.largest()
        if not part:
            raise BadInput(f"sd={storage.name}: {size} bytes are too few for {jobs} sequential "
                           f"threads of xfersize={short(transfer.largest())}")
        options.update(size=part, offset_increment=part)
    elif 0 < work.seekpct < 100:
        options["percentage_random"] = f"{work.seekpct:g}"
    return options


def _opened(flags):
    options = {}
    if {"o_direct", "directio"} & set(flags):
        options["direct"] = 1
    if "o_dsync" in flags:
        options["sync"] = "dsync"
    if "o_sync" in flags:
        options["sync"] = "sync"
    if "fsync" in flags:
        options["fsync_on_close"] = 1
    return options


def _threads(step, work, storage):
    """The threads of a storage are shared by all works on it."""
    users = [each for each in step.run.works if storage in each.storages]
    wanted = step.threads or storage.threads
    return max(1, shares(wanted, len(users))[users.index(work)])


def _split(engine, work, threads, rate):
    """Threads of fio as (how many, depth, rate of each), which add up."""
    jobs = threads if engine == PSYNC else 1 if work.seekpct == 0 else min(threads, WORKERS)
    if rate:
        jobs = max(1, min(jobs, rate // (2 if 0 < work.rdpct < 100 else 1)))
    rates = shares(rate, jobs) if rate else [None] * jobs
    groups = {}
    for pair in zip(shares(threads, jobs), rates):
        groups[pair] = groups.get(pair, 0) + 1
    return [(count, depth, each) for (depth, each), count in groups.items()]


def _requests(work, rate):
    """Requests a second of each direction: fio meters them apart, in numbers above 0 only."""
    if work.rdpct in (0, 100):
        return [rate]
    if rate < 2:
        raise BadInput(f"wd={work.name}: an iorate of {rate} a second for a lun is too low for a "
                       "mix of reads and writes")
    reads = min(max(1, round(rate * work.rdpct / 100)), rate - 1)
    return [reads, rate - reads]


def _rate(work, transfer, rate):
    """What keeps a rate. fio's rate_iops= means requests of the least size: name bytes instead."""
    requests = _requests(work, rate)
    if transfer.least() == transfer.largest():
        return {"rate_iops": ",".join(map(str, requests))}
    return {"rate": ",".join(str(round(each * transfer.mean())) for each in requests)}


def _jobs(engine, step, work, storage, size, rate):
    """The jobs of a work on one lun."""
    transfer, threads = step.transfer or work.transfer, _threads(step, work, storage)
    if transfer.largest() > size:
        raise BadInput(f"sd={storage.name}: xfersize={short(transfer.largest())} is more than "
                       f"the lun's {size} bytes")
    groups = _split(engine, work, threads, rate)
    options = {"filename": escaped(storage.lun), **_direction(work), **_blocks(transfer),
               **_places(work, storage, transfer, size, sum(count for count, *_ in groups)),
               **_opened(storage.flags)}
    for count, depth, each in groups:
        yield {**options, "numjobs": count,
               **({} if engine == PSYNC else {"iodepth": depth}),
               **(_rate(work, transfer, each) if each else {})}


def build(step, sizes, rate, engine=URING):
    """Options of all jobs, and of each; sizes are bytes by sd, rate is None for all it can."""
    shared = {"ioengine": engine, **SHARED, "runtime": step.run.warmup + step.run.elapsed}
    jobs, works = [], step.run.works
    rates = [None] * len(works) if rate is None else shares(rate, len(works))
    for work, of_work in zip(works, rates):
        storages = work.storages
        parts = [None] * len(storages) if of_work is None else shares(of_work, len(storages))
        for storage, part in zip(storages, parts):
            if part != 0:
                jobs += [(f"{work.name}-{storage.name}", job)
                         for job in _jobs(engine, step, work, storage, sizes[storage.name], part)]
    return shared, jobs
