# SPDX-License-Identifier: GPL-2.0-only
"""Runs as fio's jobs: the threads of vdbench are requests under way at once.

With io_uring a few threads of fio have them under way, so that the fio that counts them is not
one of hundreds that want to run, and a sequential lun has one place where it is read, as in
vdbench. Where io_uring is not to be had, a thread of vdbench is one of fio.
"""

from ..system.errors import BadInput
from ..system.units import short
from ..tools.fio import escaped
from .model import flags_of, is_direct

URING, PSYNC = "io_uring", "psync"
# Number of fio's threads for the random I/O to a lun.
WORKERS = 4
SHARED = {"thread": 1, "invalidate": 0, "allow_file_create": 0, "norandommap": 1,
          "randrepeat": 0, "time_based": 1}
# Written data is read again after this many more requests. Two requests to the same place must
# not be in flight at once, because the result would be neither of them.
VERIFY = {"verify": "crc32c", "verify_backlog": 32, "verify_fatal": 1, "verify_state_save": 0,
          "serialize_overlap": 1}
# The largest weight of fio; and the wait of a workload that is ahead, in microseconds.
WEIGHTS, AHEAD = 1000, 100
# fio rounds the gaps between random arrivals down to whole microseconds, and their mean as well.
# Above this rate, a thread would be more than 1.5 % too fast.
MOST_RANDOM = 10_000
# A share that rounding would change by more than this is refused.
MOST_ROUNDED = 0.05


def shares(total, weights):
    """Whole numbers in proportion to the weights, each off by less than one."""
    whole = sum(weights)
    parts = [int(total * weight // whole) for weight in weights]
    lost = sorted(range(len(parts)), reverse=True,
                  key=lambda rank: (total * weights[rank] / whole - parts[rank], -rank))
    for rank in lost[:total - sum(parts)]:
        parts[rank] += 1
    return parts


def _blocks(transfer):
    if transfer.span:
        return {"bsrange": "-".join(short(size) for size in transfer.span).lower()}
    if len(transfer.sizes) == 1:
        return {"bs": short(transfer.sizes[0][0]).lower()}
    return {"bssplit": ":".join(f"{short(size).lower()}/{percent}"
                                for size, percent in transfer.sizes)}


def _direction(work, requests):
    """A thread whose requests per second are of one direction only has no mix."""
    prefix, reads, mixed = "rand" if work.seekpct else "", work.rdpct, work.is_mixed()
    if mixed and requests and not all(requests):
        reads, mixed = requests[0], False
    if not mixed:
        return {"rw": prefix + ("read" if reads else "write")}
    return {"rw": f"{prefix}rw", "rwmixread": f"{work.rdpct:g}"}


def _zones(percent, hitarea, size):
    """Hits are in the first bytes, all other requests in the rest."""
    rest = f":{100 - percent}/{size - hitarea}" if percent < 100 else ""
    return f"zoned_abs:{percent}/{hitarea}{rest}"


def is_one_stream(work):
    """Whether reads and writes form one sequence, each request beginning where the last ended."""
    return work.is_mixed() and work.seekpct == 0


def _stream(work, part, size):
    """fio keeps separate positions for reads and writes, unless each block is a zone of its own."""
    transfer = work.transfer
    if transfer.least() != transfer.largest():
        raise BadInput(f"wd={work.name}: a sequential mix of reads and writes (seekpct=0) "
                       "allows only one xfersize=")
    if size - sum(part) >= transfer.largest():
        raise BadInput(f"wd={work.name}: a sequential mix of reads and writes (seekpct=0) "
                       "continues to the end of the lun: range= must end there, too")
    block = short(transfer.largest()).lower()
    return {"zonemode": "strided", "zonesize": block, "zonerange": block, "zoneskip": 0}


class Lun:
    """A workload on one storage definition."""

    def __init__(self, engine, step, work, storage, size, validate):
        self.engine, self.step, self.work, self.storage = engine, step, work, storage
        self.size, self.validate = size, validate and work.rdpct < 100
        wanted = work.range or storage.range
        self.part = wanted.part(size, work.transfer.largest()) if wanted else (0, size)
        if work.transfer.largest() > self.part[1]:
            raise BadInput(f"sd={storage.name}: xfersize={short(work.transfer.largest())} is more "
                           f"than the {self.part[1]} bytes of "
                           + ("range=" if wanted else "the lun"))

    def threads(self):
        """Works without threads of their own share those of the storage."""
        if self.work.threads and not self.step.threads:
            return self.work.threads
        users = [each for each in self.step.works if self.storage in each.storages
                 and (self.step.threads or not each.threads)]
        wanted = self.step.threads or self.storage.threads
        return max(1, shares(wanted, [1] * len(users))[users.index(self.work)])

    def split(self, rate):
        """Threads of fio as (number, depth, rates of each), which add up to the total."""
        threads, work = self.threads(), self.work
        jobs = min(threads, WORKERS)
        if self.engine == PSYNC:
            jobs = threads
            if is_one_stream(work) and threads > 1:
                raise BadInput(f"wd={work.name}: a sequential mix of reads and writes "
                               f"(seekpct=0) needs io_uring for threads={threads}, or threads=1")
        elif work.seekpct == 0 or self.validate:
            jobs = 1
        rates = [None] * jobs
        if rate:
            # Divide each direction, because rounding in each thread would change the mix. If there
            # are more threads than requests of a direction, some have only the other.
            requests = _requests(work, rate)
            jobs = min(jobs, min(requests) if self.validate else max(requests))
            rates = list(zip(*(shares(each, [1] * jobs) for each in requests)))
        groups = {}
        for pair in zip(shares(threads, [1] * jobs), rates):
            groups[pair] = groups.get(pair, 0) + 1
        return [(count, depth, each) for (depth, each), count in groups.items()]

    def places(self, jobs):
        work, storage, (begin, size) = self.work, self.storage, self.part
        options = {**({"offset": begin} if begin else {}), "size": size}
        if work.rhpct or work.whpct:
            if storage.hitarea >= size:
                raise BadInput(f"sd={storage.name}: hitarea={storage.hitarea} is not smaller than "
                               f"the lun of {size} bytes")
            options["random_distribution"] = _zones(work.rhpct or work.whpct, storage.hitarea,
                                                    size)
        elif is_one_stream(work):
            options.update(_stream(work, self.part, self.size))
        elif 0 < work.seekpct < 100:
            options["percentage_random"] = f"{work.seekpct:g}"
        if jobs > 1 and (work.seekpct == 0 or self.validate):
            # Each thread has a part of the lun, because all would otherwise access the same places.
            part = size // jobs // work.transfer.largest() * work.transfer.largest()
            if not part:
                raise BadInput(f"sd={storage.name}: {size} bytes are too few for {jobs} threads "
                               f"of xfersize={short(work.transfer.largest())} that have a part "
                               "each")
            options.update(size=part, offset_increment=part)
        return options

    def jobs(self, rate, weight):
        groups = self.split(rate)
        count = sum(many for many, *_rest in groups)
        options = {**_blocks(self.work.transfer), **self.places(count),
                   **_opened(flags_of(self.step.run, self.work, self.storage)),
                   **(VERIFY if self.validate else {})}
        if weight:
            options.update(flow_id=1, flow=weight / count, flow_sleep=AHEAD)
        for many, depth, each in groups:
            yield {"filename": escaped(self.storage.lun), **_direction(self.work, each), **options,
                   "numjobs": many,
                   **({} if self.engine == PSYNC else {"iodepth": depth}),
                   **(_rate(self.work, each) if each else {})}


def _opened(flags):
    options = {}
    if is_direct(flags):
        options["direct"] = 1
    if "o_dsync" in flags:
        options["sync"] = "dsync"
    if "o_sync" in flags:
        options["sync"] = "sync"
    if "fsync" in flags:
        options["fsync_on_close"] = 1
    return options


def _requests(work, rate):
    """Requests per second of each direction: fio limits them separately, and only above 0."""
    if not work.is_mixed():
        return [rate]
    if rate < 2:
        raise BadInput(f"wd={work.name}: an iorate of {rate} a second for a lun is too low for a "
                       "mix of reads and writes")
    reads = min(max(1, round(rate * work.rdpct / 100)), rate - 1)
    return [reads, rate - reads]


def _rate(work, requests):
    """Arrivals at random times, as in vdbench: at equal intervals, all threads would act at once.

    For those at equal intervals, fio's rate_iops= means requests of the smallest size.
    """
    transfer, requests = work.transfer, [each for each in requests if each]
    of_one_size = transfer.least() == transfer.largest()
    options = {"rate_iops": ",".join(map(str, requests))}
    if max(requests) <= MOST_RANDOM:
        options["rate_process"] = "poisson"
        if not of_one_size:
            # fio 3.28 takes this for the smallest size.
            options["bs"] = short(transfer.least()).lower()
    elif not of_one_size:
        options = {"rate": ",".join(str(round(each * transfer.mean())) for each in requests)}
    return options


def _check_validation(step):
    """Data of another workload cannot be distinguished from damage."""
    writers = {}
    for work in step.works:
        if work.rdpct == 100:
            continue
        if work.transfer.least() != work.transfer.largest():
            raise BadInput(f"wd={work.name}: data validation allows only one xfersize=")
        for storage in work.storages:
            other = writers.setdefault(storage.name, work)
            if other is not work:
                raise BadInput(f"rd={step.run.name}: wd={other.name} and wd={work.name} both write "
                               f"to sd={storage.name}: data validation allows only one of them")


def _round_weights(step, jobs):
    """fio's weights are whole numbers: take the largest weight that rounds the others least."""
    weights = {job["flow"] for _name, job in jobs}
    largest = max(weights)

    def scaled(weight, top):
        return max(1, round(weight * top / largest))

    def error(top):
        return max(abs(scaled(weight, top) / (weight * top / largest) - 1) for weight in weights)
    best = min(range(WEIGHTS, 0, -1), key=error)
    if error(best) > MOST_ROUNDED:
        raise BadInput(f"rd={step.run.name}: fio cannot keep the proportions of skew= with its "
                       f"weights of 1 to {WEIGHTS} for a thread; give the workload with the "
                       "smallest skew= fewer threads=")
    for _name, job in jobs:
        job["flow"] = scaled(job["flow"], best)


def _name(work, storage):
    return f"{work.name}-{storage.name}"


def _weights(step, seen):
    """The share of each lun in each work; without skew=, a curve keeps what was seen."""
    if seen and not step.is_skewed():
        counts = iter(seen)
        return [[max(1, next(counts)) for _storage in work.storages] for work in step.works]
    return [[percent / len(work.storages)] * len(work.storages)
            for work, percent in zip(step.works, step.run.shares())]


def left_out(step, jobs):
    """The names of works on luns that have no job, because a rate leaves too little for them."""
    there = {name for name, _job in jobs}
    return [_name(work, storage) for work in step.works for storage in work.storages
            if _name(work, storage) not in there]


def build(step, sizes, rate, engine=URING, validate=False, seen=None):
    """Common options, and those of each job; sizes are bytes by sd; rate None is unlimited.

    The first run of a curve has a group of jobs for each work on each lun; seen is what they did.
    """
    if validate:
        _check_validation(step)
    shared = {"ioengine": engine, **SHARED, "runtime": step.run.warmup + step.run.elapsed}
    jobs, weights = [], _weights(step, seen)
    rates = [None] * len(weights) if rate is None else shares(rate, [*map(sum, weights)])
    skewed = rate is None and step.is_skewed()
    for work, of_luns, of_work in zip(step.works, weights, rates):
        each = [None] * len(of_luns) if of_work is None else shares(of_work, of_luns)
        # fio needs a request a second of each direction.
        least = 2 if work.is_mixed() else 1
        for storage, weight, wanted in zip(work.storages, of_luns, each):
            if step.percent and wanted is not None and wanted < least:
                continue
            if wanted == 0:
                raise BadInput(f"wd={work.name}: an iorate of {rate} a second leaves nothing for "
                               f"sd={storage.name}")
            lun = Lun(engine, step, work, storage, sizes[storage.name], validate)
            made = list(lun.jobs(wanted, weight if skewed else None))
            if step.needs_shares():
                made[0]["new_group"] = 1
            jobs += [(_name(work, storage), job) for job in made]
    if not jobs:
        raise BadInput(f"rd={step.run.name}: {step.percent} % of the curve is {rate} a second, "
                       "which is too low for any lun")
    if skewed:
        _round_weights(step, jobs)
    return shared, jobs
