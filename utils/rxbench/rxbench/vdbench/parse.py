# SPDX-License-Identifier: GPL-2.0-only
"""A parameter file as storage, workload and run definitions; errors name the line."""

import fnmatch
import re
from dataclasses import dataclass, replace

from ..system.errors import BadInput
from .model import CURVED, Run, Storage, Work
from .values import PARSERS, split, values_of

SUPPORTED = {
    "validate": ("validate",),
    "sd": ("sd", "lun", "size", "threads", "openflags", "hitarea", "range"),
    "wd": ("wd", "sd", "rdpct", "rhpct", "whpct", "xfersize", "seekpct", "skew", "range",
           "threads", "openflags"),
    "rd": ("rd", "wd", "iorate", "curve", "elapsed", "warmup", "interval", "threads", "openflags",
           "forthreads", "forxfersize", "forrdpct", "forseekpct"),
}


class Refused(BadInput):
    """A parameter that is not supported, with its line."""

    def __init__(self, path, line, text):
        super().__init__(f"{path}: line {line}: {text}")


@dataclass
class Entry:
    """The parameters of a definition: name to (value, line)."""
    kind: str
    name: str
    line: int
    values: dict


class Reader:
    """Convert lines to entries; variables are the values of $NAME."""

    def __init__(self, path, variables):
        self.path, self.variables, self.used = path, variables, set()

    def refuse(self, line, text):
        raise Refused(self.path, line, text)

    def lines(self, text):
        """(line, text) without comments; a line that ends in a comma continues on the next."""
        parts = []
        for number, raw in enumerate(text.splitlines(), 1):
            if not raw.strip():
                if parts:
                    self.refuse(number, "an empty line after a comma: the definition is incomplete")
                continue
            if raw[0] in "*#/":
                continue
            words = raw.split(None, 1)
            if len(words) > 1 and re.match(r"\w+=", words[1]):
                self.refuse(number, f"a blank before {words[1]!r}: what follows a blank is a "
                                    "comment; remove the blank")
            parts.append((number, self._substituted(number, words[0])))
            if not words[0].endswith(","):
                yield parts
                parts = []
        if parts:
            self.refuse(parts[-1][0], "ends with a comma: the definition is incomplete")

    def _substituted(self, number, text):
        def value(match):
            name = match[1]
            if name not in self.variables:
                self.refuse(number, f"${name}: has no value; give it as {name}=VALUE after the "
                                    "file")
            self.used.add(name)
            return self.variables[name]
        return re.sub(r"\$(\w+)", value, text)

    def entries(self, text):
        """Definitions, in the order of the file."""
        for parts in self.lines(text):
            pairs = []
            for number, part in parts:
                pairs += self._pairs(number, part.removesuffix(","))
            kind, name, line = pairs[0]
            if kind not in SUPPORTED:
                self.refuse(line, f"{kind}={name}: not supported; a definition begins with sd=, "
                                  "wd= or rd=, or is validate=")
            values = {}
            for key, value, number in pairs:
                if key not in SUPPORTED[kind]:
                    self.refuse(number, f"{key}={value}: not supported in {kind}=; supported are "
                                        + ", ".join(SUPPORTED[kind]))
                # vdbench has two names for this parameter.
                if kind == "rd" and key == "threads":
                    key = "forthreads"
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


ATTRIBUTES = {"openflags": "flags", "xfersize": "transfer", "iorate": "rates"}
CLASSES = {"sd": Storage, "wd": Work, "rd": Run}


class File:
    """A complete parameter file, whose names refer to each other."""

    def __init__(self, path, text, variables=None):
        self.reader, self.text = Reader(path, variables or {}), text
        self.defined = {kind: {} for kind in CLASSES}
        self.defaults = {kind: {} for kind in CLASSES}
        self.validate = False
        for entry in self.reader.entries(text):
            if entry.kind == "validate":
                self.validate = self._parse("validate", entry.name, entry.line)
            else:
                self._define(entry)
        if not self.defined["rd"]:
            raise BadInput(f"{path}: no rd=: nothing to run")
        for name in (variables or {}).keys() - self.reader.used:
            raise BadInput(f"{path}: has no ${name}, for which a value is given")

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
        attributes = self._attributes(entry, values)
        made = self._made(entry, attributes)
        refers = {"wd": ("sd", "storages"), "rd": ("wd", "works")}.get(entry.kind)
        if refers:
            kind, attribute = refers
            if kind not in values:
                self.reader.refuse(entry.line, f"{entry.kind}={entry.name}: no {kind}=")
            setattr(made, attribute, self._found(kind, *values[kind]))
        self._check(entry, made, {key: line for key, (_value, line) in values.items()})
        self.defined[entry.kind][entry.name] = made

    def _attributes(self, entry, values):
        found, loops = {}, {}
        for key, (value, line) in values.items():
            if key.startswith("for"):
                loops[key.removeprefix("for")] = self._parse(key, value, line)
            elif key in PARSERS:
                found[ATTRIBUTES.get(key, key)] = self._parse(key, value, line)
        return {**found, **({"loops": loops} if loops else {})}

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
        for pattern in values_of(value):
            names = self._names(kind, pattern)
            if not names:
                self.reader.refuse(line, f"{kind}={pattern}: no such {kind}= before this line")
            found.update({name: self.defined[kind][name] for name in names})
        return list(found.values())

    def _names(self, kind, pattern):
        span = re.fullmatch(r"([A-Za-z_]+)(\d+)-(?:\1)?(\d+)", pattern)
        if span and pattern not in self.defined[kind]:
            numbers = range(int(span[2]), int(span[3]) + 1)
            # The first name that is not defined ends this, however long the range is.
            if not all(f"{span[1]}{number}" in self.defined[kind] for number in numbers):
                return []
            return sorted(f"{span[1]}{number}" for number in numbers)
        return [name for name in self.defined[kind] if fnmatch.fnmatchcase(name, pattern)]

    def _check(self, entry, made, lines):
        if entry.kind == "wd":
            self._check_work(made, lines)
        if entry.kind == "rd":
            self._check_run(entry, made, lines)
            self._check_skew(entry, made)
            for key in ("rdpct", "seekpct"):
                for value in made.loops.get(key, ()):
                    for work in made.works:
                        line = lines[f"for{key}"]
                        self._check_work(replace(work, **{key: value}),
                                         {"rhpct": line, "whpct": line})

    def _check_work(self, made, lines):
        for key, share, what in (("rhpct", made.rdpct, "reads"),
                                 ("whpct", 100 - made.rdpct, "writes")):
            if getattr(made, key) and not share:
                self.reader.refuse(lines[key], f"{key}={getattr(made, key):g} contradicts "
                                   f"rdpct={made.rdpct:g}: there are no {what}")
            if getattr(made, key) and made.seekpct != 100:
                self.reader.refuse(lines[key], f"{key}={getattr(made, key):g} needs "
                                   "seekpct=100: hits are random")
        if made.is_mixed() and made.rhpct != made.whpct:
            self.reader.refuse(lines.get("whpct", lines.get("rhpct")),
                               f"rhpct={made.rhpct} and whpct={made.whpct} must be equal in "
                               "a mix of reads and writes: fio has one distribution for both")

    def _check_run(self, entry, made, lines):
        if made.interval < 1:
            self.reader.refuse(lines["interval"], "interval=0: must be 1 or more")
        if made.elapsed < 2 * made.interval:
            self.reader.refuse(lines.get("elapsed", entry.line),
                               f"elapsed={made.elapsed}: must be at least two intervals of "
                               f"{made.interval} s, since the first is left out")
        if "curve" in lines and CURVED not in made.rates:
            self.reader.refuse(lines["curve"], "curve= needs iorate=curve")

    def _check_skew(self, entry, made):
        given = sum(work.skew for work in made.works)
        without = [work.name for work in made.works if not work.skew]
        if given and (given > 100 or (given < 100) != bool(without)):
            self.reader.refuse(entry.line, f"rd={entry.name}: the skew= of its workloads add up to "
                               f"{given:g}, must be "
                               + (f"less than 100, for wd={without[0]} has none" if without
                                  else "100"))


def read(path, variables=None):
    """Read the definitions of a file, with the values of its variables."""
    try:
        with open(path, encoding="utf-8") as file:
            return File(path, file.read(), variables)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not text: {error}") from error
