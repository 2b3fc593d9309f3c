# SPDX-License-Identifier: GPL-2.0-only
"""Parse values of parameters; ValueError or BadInput gives the reason for a refusal."""

import re

from ..system.units import parse_size
from .model import CURVED, MAX, Range, Transfer

OPENFLAGS = ("o_direct", "directio", "o_sync", "o_dsync", "fsync")
SEEKS = {"rand": 100, "random": 100, "seq": 0, "sequential": 0}
MOST_THREADS = 4096
# Maximum number of values of (FROM-TO,STEP), each of which is a run.
MOST_VALUES = 1000
# In range=, larger values are bytes.
MOST_PERCENT = 200


def split(text):
    """Split at commas outside of parentheses."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            raise ValueError("')' without '('")
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    if depth:
        raise ValueError("'(' without ')'")
    return parts + [part]


def values_of(value):
    """The values in parentheses, or the single value without them."""
    return split(value[1:-1]) if value.startswith("(") and value.endswith(")") else [value]


def _number(text, least, most, whole=True):
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a {'whole ' if whole else ''}number") from None
    if not least <= number <= most:
        raise ValueError(f"{text} must be from {least} to {most}")
    return number


def _series(text, parse):
    """A value, a list, or (FROM-TO,STEP) where STEP may be d for doubling."""
    parts = values_of(text)
    match = re.fullmatch(r"(\w+)-(\w+)", parts[0])
    if not match:
        return [parse(part) for part in parts]
    low, high = parse(match[1]), parse(match[2])
    step = parts[1] if len(parts) == 2 else None
    by = step if step in (None, "d") else parse(step)
    # max and curve are values, but not numbers.
    if step is None or any(isinstance(end, str) for end in (low, high)) or low > high \
            or by in (MAX, CURVED):
        raise ValueError(f"{text} must be (FROM-TO,STEP) of numbers, or d as the STEP")
    found = [low]
    while True:
        following = found[-1] * 2 if by == "d" else found[-1] + by
        if following > high:
            return found
        if len(found) == MOST_VALUES:
            raise ValueError(f"{text} must be {MOST_VALUES} values at most")
        found.append(following)


def _time(text):
    match = re.fullmatch(r"(\d+)([smh]?)", text)
    if not match:
        raise ValueError(f"{text!r} is not a time in seconds, or with m or h")
    return int(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _transfer(text):
    parts = values_of(text)
    if len(parts) == 3:
        low, high, align = map(parse_size, parts)
        if align != low or high < low or high % low:
            raise ValueError(f"{text}: in a range (LEAST,MOST,ALIGN), ALIGN must equal LEAST, "
                             "and MOST be a multiple of it")
        return Transfer(sizes=(), span=(low, high))
    if len(parts) == 1:
        return Transfer(((parse_size(parts[0]), 100),))
    if len(parts) % 2:
        raise ValueError(f"{text} must be pairs of a size and a percentage")
    pairs = tuple((parse_size(size), _number(percent, 1, 100))
                  for size, percent in zip(parts[::2], parts[1::2]))
    if sum(percent for _size, percent in pairs) != 100:
        raise ValueError(f"the percentages of {text} must add up to 100")
    return Transfer(pairs)


def _rate(text):
    return text if text in (MAX, CURVED) else _number(text, 1, 10**9)


def _flags(text):
    flags = tuple(flag.lower() for flag in values_of(text))
    for flag in flags:
        if flag not in OPENFLAGS:
            raise ValueError(f"{flag} is not supported; supported are {', '.join(OPENFLAGS)}")
    return flags


def _percent(text):
    return _number(text, 0, 100, whole=False)


def _range(text):
    parts = values_of(text)
    if len(parts) != 2:
        raise ValueError(f"{text} must be (FROM,TO), in percent or bytes")
    low, high = (0 if part == "0" else parse_size(part) for part in parts)
    if low >= high or MOST_PERCENT >= high > 100 or 100 < low <= MOST_PERCENT:
        raise ValueError(f"{text} must be (FROM,TO) with FROM below TO, in percent up to 100 or in "
                         f"bytes above {MOST_PERCENT}")
    in_bytes = high > MOST_PERCENT
    if in_bytes and 0 < low <= MOST_PERCENT:
        raise ValueError(f"{text}: FROM is in percent, TO in bytes")
    return Range(low, high, in_bytes)


def _yes(text):
    if text not in ("yes", "no"):
        raise ValueError(f"{text!r} must be yes or no")
    return text == "yes"


def _seek(text):
    return SEEKS[text] if text in SEEKS else _percent(text)


def _threads(text):
    return _number(text, 1, MOST_THREADS)


PARSERS = {
    "lun": str, "size": parse_size, "hitarea": parse_size, "openflags": _flags, "range": _range,
    "threads": _threads, "rdpct": _percent, "skew": _percent, "validate": _yes,
    "rhpct": lambda text: _number(text, 0, 100), "whpct": lambda text: _number(text, 0, 100),
    "seekpct": _seek, "xfersize": _transfer,
    "iorate": lambda text: _series(text, _rate) if text not in (MAX, CURVED) else [text],
    "curve": lambda text: tuple(_series(text, lambda part: _number(part, 1, 100))),
    "elapsed": _time, "warmup": _time, "interval": _time,
    "forthreads": lambda text: _series(text, _threads),
    "forxfersize": lambda text: [Transfer(((size, 100),)) for size in _series(text, parse_size)],
    "forrdpct": lambda text: _series(text, _percent),
    "forseekpct": lambda text: _series(text, _seek),
}
