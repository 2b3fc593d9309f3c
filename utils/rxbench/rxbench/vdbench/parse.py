# SPDX-License-Identifier: GPL-2.0-only
"""A parameter file as storage, workload and run definitions; errors name the line."""

import fnmatch
import re
from dataclasses import dataclass, field

from ..system.errors import BadInput
from ..system.units import parse_size

SUPPORTED = {
    "sd": ("sd", "lun", "size", "threads", "openflags", "hitarea"),
    "wd": ("wd", "sd", "rdpct", "rhpct", "whpct", "xfersize", "seekpct"),
    "rd": ("rd", "wd", "iorate", "curve", "elapsed", "warmup", "interval", "forthreads",
           "forxfersize"),
}
OPENFLAGS = ("o_direct", "directio", "o_sync", "o_dsync", "fsync")
SEEKS = {"rand": 100, "random": 100, "seq": 0, "sequential": 0}
CURVE = (10, 50, 70, 80, 90, 100)
MAX, CURVED = "max", "curve"
MOST_THREADS = 4096
# Of a (FROM-TO,STEP); each is a run of its own.
MOST_VALUES = 1000


class Refused(BadInput):
    """A parameter that cannot be done, with its line."""

    def __init__(self, path, line, text):
        super().__init__(f"{path}: line {line}: {text}")


@dataclass
class Entry:
    """The parameters of a definition: name to (value, line)."""
    kind: str
    name: str
    line: int
    values: dict


@dataclass
class Storage:
    """sd="""
    name: str
    lun: str
    line: int
    size: int = None
    threads: int = 8
    flags: tuple = ()
    hitarea: int = 1 << 20


@dataclass
class Transfer:
    """xfersize=: sizes with percentages, or a range."""
    sizes: tuple = ((4096, 100),)
    span: tuple = None

    def largest(self):
        return self.span[1] if self.span else max(size for size, _percent in self.sizes)

    def least(self):
        return self.span[0] if self.span else min(size for size, _percent in self.sizes)

    def mean(self):
        """Bytes of a request on average; all multiples of the least size of a range are equal."""
        if self.span:
            return sum(self.span) / 2
        return sum(size * percent for size, percent in self.sizes) / 100


@dataclass
class Work:
    """wd="""
    name: str
    line: int
    storages: list = field(default_factory=list)
    rdpct: float = 100
    rhpct: int = 0
    whpct: int = 0
    seekpct: float = 100
    transfer: Transfer = field(default_factory=Transfer)


@dataclass
class Run:
    """rd=, of which each rate, number of threads and size is a run of its own."""
    name: str
    line: int
    works: list = field(default_factory=list)
    rates: list = field(default_factory=lambda: [MAX])
    curve: tuple = CURVE
    elapsed: int = 30
    warmup: int = 0
    interval: int = 1
    threads: list = field(default_factory=lambda: [None])
    transfers: list = field(default_factory=lambda: [None])


def split(text):
    """Parts between commas that are in no parentheses."""
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


class Reader:
    """Lines to entries."""

    def __init__(self, path):
        self.path = path

    def refuse(self, line, text):
        raise Refused(self.path, line, text)

    def lines(self, text):
        """(line, text) without comments; what ends in a comma goes on in the next line."""
        parts = []
        for number, raw in enumerate(text.splitlines(), 1):
            if not raw.strip():
                if parts:
                    self.refuse(number, "an empty line after a comma: the definition is cut short")
                continue
            if raw[0] in "*#/":
                continue
            words = raw.split(None, 1)
            if len(words) > 1 and re.match(r"\w+=", words[1]):
                self.refuse(number, f"a blank before {words[1]!r}: what follows a blank is a "
                                    "comment; take the blank out")
            parts.append((number, words[0]))
            if not words[0].endswith(","):
                yield parts
                parts = []
        if parts:
            self.refuse(parts[-1][0], "ends with a comma: the definition is cut short")

    def entries(self, text):
        """Definitions, in the order of the file."""
        for parts in self.lines(text):
            pairs = []
            for number, part in parts:
                pairs += self._pairs(number, part.removesuffix(","))
            kind, name, line = pairs[0]
            if kind not in SUPPORTED:
                self.refuse(line, f"{kind}={name}: not supported; a definition begins with sd=, "
                                  "wd= or rd=")
            values = {}
            for key, value, number in pairs:
                if key not in SUPPORTED[kind]:
                    self.refuse(number, f"{key}={value}: not supported in {kind}=; supported are "
                                        + ", ".join(SUPPORTED[kind]))
                if key in values:
                    self.refuse(number, f"{key}= is given twice")
                values[key] = (value, number)
            yield Entry(kind, name, line, values)

    def _pairs(self, number, text):
        try:
            parts = split(text)
        except ValueError as error:
            self.refuse(number, f"{text!r}: {error}")
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals or not value or not key:
                self.refuse(number, f"{part!r}: must be PARAMETER=VALUE")
            yield key.lower(), value, number


def _list(value):
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
    parts = _list(text)
    match = re.fullmatch(r"(\w+)-(\w+)", parts[0])
    if not match:
        return [parse(part) for part in parts]
    low, high = parse(match[1]), parse(match[2])
    step = parts[1] if len(parts) == 2 else None
    by = step if step in (None, "d") else parse(step)
    # max and curve are values, but no numbers.
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
    parts = _list(text)
    if len(parts) == 3:
        low, high, align = map(parse_size, parts)
        if align != low or high < low or high % low:
            raise ValueError(f"{text}: of a range (LEAST,MOST,ALIGN) ALIGN must be LEAST, and MOST "
                             "a multiple of it")
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
    flags = tuple(flag.lower() for flag in _list(text))
    for flag in flags:
        if flag not in OPENFLAGS:
            raise ValueError(f"{flag} is not supported; supported are {', '.join(OPENFLAGS)}")
    return flags


def _percent(text):
    return _number(text, 0, 100, whole=False)


PARSERS = {
    "lun": str, "size": parse_size, "hitarea": parse_size, "openflags": _flags,
    "threads": lambda text: _number(text, 1, MOST_THREADS),
    "rdpct": _percent,
    "rhpct": lambda text: _number(text, 0, 100), "whpct": lambda text: _number(text, 0, 100),
    "seekpct": lambda text: SEEKS[text] if text in SEEKS else _percent(text),
    "xfersize": _transfer,
    "iorate": lambda text: _series(text, _rate) if text not in (MAX, CURVED) else [text],
    "curve": lambda text: tuple(_number(part, 1, 100) for part in _list(text)),
    "elapsed": _time, "warmup": _time, "interval": _time,
    "forthreads": lambda text: _series(text, lambda part: _number(part, 1, MOST_THREADS)),
    "forxfersize": lambda text: [Transfer(((size, 100),)) for size in _series(text, parse_size)],
}
ATTRIBUTES = {"openflags": "flags", "xfersize": "transfer", "iorate": "rates",
              "forthreads": "threads", "forxfersize": "transfers"}
CLASSES = {"sd": Storage, "wd": Work, "rd": Run}


class File:
    """A whole parameter file, whose names refer to each other."""

    def __init__(self, path, text):
        self.reader, self.text = Reader(path), text
        self.defined = {"sd": {}, "wd": {}, "rd": {}}
        self.defaults = {"sd": {}, "wd": {}, "rd": {}}
        for entry in self.reader.entries(text):
            self._define(entry)
        if not self.defined["rd"]:
            raise BadInput(f"{path}: no rd=: nothing to run")

    @property
    def storages(self):
        return list(self.defined["sd"].values())

    @property
    def works(self):
        return list(self.defined["wd"].values())

    @property
    def runs(self):
        return list(self.defined["rd"].values())

    def _define(self, entry):
        values = {**self.defaults[entry.kind], **entry.values}
        if entry.name == "default":
            for key in entry.values:
                if key != entry.kind:
                    self._parse(key, *entry.values[key])
            self.defaults[entry.kind] = values
            return
        if entry.name in self.defined[entry.kind]:
            self.reader.refuse(entry.line, f"{entry.kind}={entry.name} is defined twice")
        attributes = {}
        for key, (value, line) in values.items():
            if key in PARSERS:
                attributes[ATTRIBUTES.get(key, key)] = self._parse(key, value, line)
        made = self._made(entry, attributes)
        refers = {"wd": ("sd", "storages"), "rd": ("wd", "works")}.get(entry.kind)
        if refers:
            kind, attribute = refers
            if kind not in values:
                self.reader.refuse(entry.line, f"{entry.kind}={entry.name}: no {kind}=")
            setattr(made, attribute, self._found(kind, *values[kind]))
        self._check(entry, made, {key: line for key, (_value, line) in values.items()})
        self.defined[entry.kind][entry.name] = made

    def _made(self, entry, attributes):
        if entry.kind == "sd":
            if "lun" not in attributes:
                self.reader.refuse(entry.line, f"sd={entry.name}: no lun=")
            return Storage(entry.name, attributes.pop("lun"), entry.line, **attributes)
        return CLASSES[entry.kind](entry.name, entry.line, **attributes)

    def _parse(self, key, value, line):
        if key not in PARSERS:
            return value
        try:
            return PARSERS[key](value)
        except (ValueError, BadInput) as error:
            return self.reader.refuse(line, f"{key}={value}: {error}")

    def _found(self, kind, value, line):
        """Definitions by name, wildcard or range."""
        found = {}
        for pattern in _list(value):
            names = self._names(kind, pattern)
            if not names:
                self.reader.refuse(line, f"{kind}={pattern}: no such {kind}= before this line")
            found.update({name: self.defined[kind][name] for name in names})
        return list(found.values())

    def _names(self, kind, pattern):
        span = re.fullmatch(r"([A-Za-z_]+)(\d+)-(?:\1)?(\d+)", pattern)
        if span and pattern not in self.defined[kind]:
            wanted = {f"{span[1]}{number}" for number in range(int(span[2]), int(span[3]) + 1)}
            return sorted(wanted) if wanted and wanted <= set(self.defined[kind]) else []
        return [name for name in self.defined[kind] if fnmatch.fnmatchcase(name, pattern)]

    def _check(self, entry, made, lines):
        if entry.kind == "wd":
            for key, share, what in (("rhpct", made.rdpct, "reads"),
                                     ("whpct", 100 - made.rdpct, "writes")):
                if getattr(made, key) and not share:
                    self.reader.refuse(lines[key], f"{key}={getattr(made, key):g} contradicts "
                                       f"rdpct={made.rdpct:g}: there are no {what}")
                if getattr(made, key) and made.seekpct != 100:
                    self.reader.refuse(lines[key], f"{key}={getattr(made, key):g} needs "
                                       "seekpct=100: hits are random")
            if 0 < made.rdpct < 100 and made.rhpct != made.whpct:
                self.reader.refuse(lines.get("whpct", lines.get("rhpct")),
                                   f"rhpct={made.rhpct} and whpct={made.whpct} must be equal in "
                                   "a mix of reads and writes: fio has one distribution for both")
        if entry.kind == "rd":
            if made.interval < 1:
                self.reader.refuse(lines["interval"], "interval=0: must be 1 or more")
            if made.elapsed < 2 * made.interval:
                self.reader.refuse(lines.get("elapsed", entry.line),
                                   f"elapsed={made.elapsed}: must be at least two intervals of "
                                   f"{made.interval} s, since the first is left out")
            if "curve" in lines and CURVED not in made.rates:
                self.reader.refuse(lines["curve"], "curve= needs iorate=curve")


def read(path):
    """The definitions in a file."""
    try:
        with open(path, encoding="utf-8") as file:
            return File(path, file.read())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not text: {error}") from error
