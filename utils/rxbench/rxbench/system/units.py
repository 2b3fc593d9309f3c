# SPDX-License-Identifier: GPL-2.0-only
"""Sizes, rates and times: parse and format them."""

import math
import re

from .errors import BadInput

FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)


def parse_size(text, where="size"):
    """Bytes of a size such as 4k, 1M or 512; "where" names the option for the error message."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * FACTORS[match[2].lower()] if match else 0
    if not 0 < size < 1 << 63:
        raise BadInput(f"{where} {text!r}: must be a whole number above 0 with an optional k, m, g "
                       "or t")
    return size


def size_of(option):
    """The parser of the sizes of an option, for argparse."""
    return lambda text: parse_size(text, option)


def parse_whole(text, where, least, most):
    """A whole number; "where" names the option for the error message."""
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadInput(f"{where} {text}: must be a whole number from {least} to {most}")
    return int(text)


def size(count):
    """Bytes with the unit that leaves the fewest digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "TiB"
    return f"{count:.{0 if count == int(count) else 1}f} {unit}"


def short(count):
    """Bytes as fio and dd write them: 512, 4K, 1M."""
    for unit in ("", "K", "M", "G"):
        if count % 1024 or not count:
            return f"{count}{unit}"
        count //= 1024
    return f"{count}T"


def number(value):
    """Three digits, all of those before the decimal point, and at most six after it."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    exponent = int(f"{abs(value):.2e}".partition("e")[2])    # after rounding
    return f"{value:,.{min(max(0, 2 - exponent), 6)}f}"


def duration(microseconds):
    """A latency with the unit that leaves three digits."""
    for scale, unit in ((1, "us"), (1e3, "ms")):
        if float(f"{microseconds / scale:.3g}") < 1000:    # after rounding
            return f"{number(microseconds / scale)} {unit}"
    return f"{number(microseconds / 1e6)} s"


def mix(percent):
    """A mix of requests with this percentage of reads."""
    return {0: "writes", 100: "reads"}.get(percent, f"{percent} % reads")


def clock(seconds):
    """Time left, as 1:02:03 or 2:03."""
    minutes, seconds = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
