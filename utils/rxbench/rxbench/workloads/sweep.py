# SPDX-License-Identifier: GPL-2.0-only
"""The cases of profile --sweep: block size by queue depth by mix of reads and writes."""

import functools
import itertools

from ..run.plan import Case
from ..system import places
from ..system.errors import BadInput
from ..system.units import mix, parse_size, parse_whole, short

OPTIONS = {"blocks": "4k,16k,128k,1m", "depths": "1,4,16,64", "mixes": "100,70,0"}
LEAST_BLOCK = 512
MOST_DEPTH = 1024
NOTE = ("Tables of the sweep: requests per second and, in brackets, their mean latency; the "
        "depth grows along each row.")


def add_arguments(parser):
    parser.add_argument("--sweep", action="store_true",
                        help="measure random I/O with all block sizes, depths and mixes instead")
    for name, values, text in (("blocks", "SIZE,...", "block sizes"),
                               ("depths", "N,...", f"queue depths, up to {MOST_DEPTH},"),
                               ("mixes", "PERCENT,...", "percentages of reads")):
        parser.add_argument(f"--{name}", metavar=values,
                            help=f"{text} of --sweep (default: {OPTIONS[name]})")


def refuse_strays(options):
    """Refuse sweep options without --sweep, and options of the page's jobs with it."""
    for name in OPTIONS:
        value = getattr(options, name)
        if value is not None and not options.sweep:
            raise BadInput(f"--{name} {value}: requires --sweep")
    if options.sweep and options.jobs is not None:
        raise BadInput(f"--jobs {options.jobs}: not allowed with --sweep; use --blocks, "
                       "--depths and --mixes")


def _values(options, name, take):
    """The values of a list with commas, in the user's order."""
    text = getattr(options, name)
    found = [take(part, f"--{name}") for part in (
        OPTIONS[name] if text is None else text).split(",")]
    for value in found:
        if found.count(value) > 1:
            raise BadInput(f"--{name} {text}: {value} twice")
    return found


def _block(text, where, size):
    try:
        block = parse_size(text)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
    if block % LEAST_BLOCK or block > size:
        raise BadInput(f"{where} {text}: must be a multiple of {LEAST_BLOCK}, and no larger than "
                       f"the file, which has {short(size)}")
    return block


def _order(percent):
    """fio's options for a mix."""
    if percent in (0, 100):
        return {"rw": "randread" if percent else "randwrite"}
    return {"rw": "randrw", "rwmixread": percent}


def cases(options, size, seconds):
    """fio's options and a case for each point, by its name."""
    blocks = _values(options, "blocks", functools.partial(_block, size=size))
    depths = _values(options, "depths", functools.partial(parse_whole, least=1, most=MOST_DEPTH))
    mixes = _values(options, "mixes", functools.partial(parse_whole, least=0, most=100))
    found = {}
    for percent, block, depth in itertools.product(mixes, blocks, depths):
        case = Case(f"{short(block).lower()}-r{percent}-q{depth}",
                    f"{short(block)} random {mix(percent)}, depth {depth}", seconds,
                    point={"block": block, "depth": depth, "read_percent": percent})
        found[case.name] = ({**_order(percent), "bs": block, "iodepth": depth}, case)
    return found


def need_sectors(found, grounds):
    """Refuse block sizes that a place does not support."""
    for block in dict.fromkeys(options["bs"] for options, _case in found.values()):
        for place in grounds:
            if block % places.sector(place):
                raise BadInput(f"--blocks {short(block).lower()}: {place.title} takes multiples "
                               f"of {places.sector(place)} bytes")
