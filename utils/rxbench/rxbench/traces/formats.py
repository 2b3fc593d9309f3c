# SPDX-License-Identifier: GPL-2.0-only
"""Common trace formats, converted to requests in bytes."""

import contextlib
import gzip
import io
import lzma
import re
import shutil
import subprocess
from typing import NamedTuple

from ..system.errors import BadInput
from ..system.undo import check

SECTOR = 512
MAGICS = ((b"\xfd7zXZ\0", "xz"), (b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"))
# SCSI operations that read and write, by their opcodes.
OPCODES = {**dict.fromkeys(("8", "08", "28", "a8", "88"), "read"),
           **dict.fromkeys(("a", "0a", "2a", "aa", "8a"), "write")}
FIO_IGNORED = ("add", "open", "close", "wait", "sync", "datasync", "trim")
# Number of requests between two checks for a signal.
CHECKED = 4096
# Queued by the block layer: once per request, before merges.
QUEUED = "Q"


class Request(NamedTuple):
    write: bool
    offset: int
    length: int


class BadLine(ValueError):
    """A line that does not have the expected format."""


def _csv(line):
    """version,time,op,size,lbn of libCacheSim's traces."""
    fields = line.split(",")
    if len(fields) != 5:
        raise BadLine("must have 5 fields: version,time,op,size,lbn")
    if fields[2].lower() not in OPCODES:
        raise BadLine(f"op {fields[2]}: must be a SCSI read or write")
    return Request(OPCODES[fields[2].lower()] == "write", int(fields[4]) * SECTOR,
                   int(fields[3]))


def _lis(line):
    """first_block block_count ignored request_number of the ARC traces."""
    fields = line.split()
    if len(fields) != 4:
        raise BadLine("must have 4 numbers: first_block block_count ignored request_number")
    start, count, _ignored, _number = map(int, fields)
    return Request(False, start * SECTOR, count * SECTOR)


def _blkparse(line):
    """device cpu number time pid action rwbs sector + count [program]"""
    fields = line.split()
    if not re.match(r"\d+,\d+$", fields[0]):
        # A line of the summary at the end, or a message.
        return None
    if len(fields) < 7:
        raise BadLine("too few fields for blkparse")
    if fields[5] != QUEUED or not set(fields[6]) & {"R", "W"} or "D" in fields[6]:
        return None
    if len(fields) < 10 or fields[8] != "+":
        return None if fields[6].startswith("F") else _raise("no SECTOR + COUNT")
    return Request("W" in fields[6], int(fields[7]) * SECTOR, int(fields[9]) * SECTOR)


def _raise(text):
    raise BadLine(text)


class _Iolog:
    """fio's own format, versions 2 and 3, for one file."""

    def __init__(self, version):
        self.skipped, self.name = version - 2, None

    def __call__(self, line):
        fields = line.split()[self.skipped:]
        if len(fields) == 2 and fields[1] in FIO_IGNORED:
            return None
        if len(fields) != 4:
            raise BadLine("must be FILE ACTION OFFSET LENGTH")
        name, action, offset, length = fields
        if action in FIO_IGNORED:
            return None
        if action not in ("read", "write"):
            raise BadLine(f"{action}: not supported; read and write are")
        if self.name not in (None, name):
            raise BadLine(f"{name}: a second file; only one can be replayed")
        self.name = name
        return Request(action == "write", int(offset), int(length))


def _format(line):
    """Return the parser for a file with this first line, and whether that is a heading."""
    if line.startswith("version,"):
        return "csv", _csv, True
    match = re.match(r"fio version ([23]) iolog$", line)
    if match:
        return "fio iolog", _Iolog(int(match[1])), True
    if re.match(r"\d+( \d+){3}$", line):
        return "lis", _lis, False
    if re.match(r" *\d+,\d+ +\d+ +\d+ +[\d.]+ ", line):
        return "blkparse", _blkparse, False
    return None


@contextlib.contextmanager
def _text(path):
    """The lines of a file, decompressed."""
    with open(path, "rb") as file:
        head = file.read(6)
    kind = next((kind for magic, kind in MAGICS if head.startswith(magic)), None)
    if kind == "zst":
        if not shutil.which("zstd"):
            raise BadInput(f"{path}: zstd is required to decompress it; install it")
        with subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            try:
                yield io.TextIOWrapper(process.stdout, "ascii")
                if process.wait():
                    raise EOFError("zstd could not decompress all of it")
            finally:
                if process.poll() is None:
                    process.kill()
        return
    opener = {"xz": lzma.open, "gz": gzip.open, None: open}[kind]
    with opener(path, "rt", encoding="ascii") as file:
        yield file


def requests(path, limit=None):
    """The requests of a trace, up to this number."""
    number = count = 0
    parse = None
    try:
        with _text(path) as file:
            for number, line in enumerate(file, 1):
                whole, line = line.endswith("\n"), line.strip()
                if parse is None:
                    found = _format(line)
                    if not found:
                        raise BadInput(f"{path}: line 1: unknown format: must be csv, lis, "
                                       "blkparse or fio iolog")
                    _name, parse, heading = found
                    if heading:
                        continue
                if not line:
                    continue
                request = _parsed(path, number, parse, line, whole)
                if request is None:
                    continue
                count += 1
                if not count % CHECKED:
                    check()
                yield request
                if count == limit:
                    return
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: truncated or damaged after line {number}: {error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: line {number + 1}: not text: {error}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    if not count:
        raise BadInput(f"{path}: contains no request")


def _parsed(path, number, parse, line, whole):
    try:
        request = parse(line)
    except ValueError as error:
        short = "" if whole else "truncated: "
        raise BadInput(f"{path}: line {number}: {short}{line[:60]!r}: {error}") from error
    if request and (request.length <= 0 or request.offset < 0):
        raise BadInput(f"{path}: line {number}: {line[:60]!r}: the length must be "
                       "greater than 0, the offset 0 or greater")
    if not whole:
        raise BadInput(f"{path}: line {number}: truncated: no end of line after {line[:60]!r}")
    return request
