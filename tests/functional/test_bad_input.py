# SPDX-License-Identifier: GPL-2.0-only
"""rxadm refuses bad input: one line names the value, and nothing changes."""

import itertools
import json
import os
import uuid

import pytest

from rxdlib import direct, dm, modules
from rxdlib.command import ENVIRONMENT, as_nobody, program, run, rxadm
from rxdlib.control import CREATE_RESERVE
from rxdlib.direct import KIB, MIB, stamp
from rxdlib.lab import DISK, LONG, state
from rxdlib.outcome import refused
from rxdlib.sampled import long, sampled

PARAMETERS, PERMISSION, MEMORY, DEVICE, BUSY = 1, 2, 3, 4, 5


SIZES = [
    # text, words of the message
    ("0", ("'0'", "greater than 0")),
    ("0K", ("'0K'", "greater than 0")),
    ("0%", ("'0%'", "greater than 0")),
    ("-1", ("-1", "greater than 0")),
    ("-64M", ("-64M", "greater than 0")),
    ("1", ("'1'", "multiple of 4096")),
    ("511", ("'511'", "multiple of 4096")),
    ("4097", ("'4097'", "multiple of 4096")),
    ("1.3K", ("'1.3K'", "multiple of 4096")),
    ("64.0000001M", ("'64.0000001M'", "decimals")),
    ("18446744073709551615", ("'18446744073709551615'", "at most 256T")),
    ("18446744073709551616", ("'18446744073709551616'", "at most 256T")),
    ("99999999999999999999999999", ("'99999999999999999999999999'", "at most 256T")),
    ("16E", ("'16E'", "at most 256T")),
    ("257T", ("'257T'", "at most 256T")),
    ("9999999%", ("'9999999%'", "at most 256T")),
    ("", ("''", "empty")),
    (" ", ("' '", "not a number")),
    ("text", ("'text'", "not a number")),
    ("M", ("'M'", "not a number")),
    ("+1M", ("'+1M'", "not a number")),
    ("0x1000", ("'0x1000'", "suffix")),
    ("1e9", ("'1e9'", "suffix")),
    ("4096 ", ("'4096 '", "suffix")),
    ("1MM", ("'1MM'", "suffix")),
    ("1Z", ("'1Z'", "suffix")),
    (".5M", ("'.5M'", "not a number")),
    ("1.M", ("'1.M'", "not a number")),
    ("nan", ("'nan'", "not a number")),
    ("64M\n", ("'64M?'", "suffix")),
]


@pytest.mark.one_kernel
# tests/unit/size_test.c has these and many more.
@pytest.mark.parametrize("text, words", sampled(SIZES), ids=[repr(size[0]) for size in SIZES])
def test_create_size(text, words):
    refused(PARAMETERS, "create", f"--size={text}", names=words)


@pytest.mark.one_kernel
@pytest.mark.parametrize("text, words", sampled(SIZES[::3]),
                         ids=[repr(size[0]) for size in SIZES[::3]])
def test_resize_size(lab, text, words):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    refused(PARAMETERS, "resize", "rxd0", text, names=words)
    assert direct.read(ramdisk.path, 0, 4096) == stamp(1)


NEW_SIZES = [
    # for a disk of 4M
    ("+", "the amount is empty"),
    ("-", "the amount is empty"),
    ("+0", "the amount must be greater than 0"),
    ("-0", "the amount must be greater than 0"),
    ("-0.0G", "the amount must be greater than 0"),
    ("+-1G", "the amount is negative"),
    ("-+1G", "the amount is not a number"),
    ("++1M", "the amount is not a number"),
    ("--1M", "the amount is negative"),
    ("+ 1M", "the amount is not a number"),
    ("+M", "the amount is not a number"),
    ("+1X", "the amount has an unknown suffix"),
    ("1M+1M", "suffix"),
    ("-1", "multiple of 4096"),
    ("+4097", "multiple of 4096"),
    ("+1.3K", "multiple of 4096"),
    ("+99999999999999999999999999", "at most 256T"),
    ("-257T", "at most 256T"),
    ("+256T", ("4194304 bytes", "at most 256T (281474976710656 bytes)")),
    ("+281474972520448", ("4194304 bytes", "at most 256T (281474976710656 bytes)")),
    ("-4M", ("4194304 bytes", "at least 4096 bytes")),
    ("-4198400", ("4194304 bytes", "at least 4096 bytes")),
    ("-256T", ("4194304 bytes", "at least 4096 bytes")),
    ("-10%", "at least 4096 bytes"),
]


@pytest.mark.one_kernel
@pytest.mark.parametrize("text, words", sampled(NEW_SIZES, every=2),
                         ids=[size[0] for size in NEW_SIZES])
def test_resize_by(lab, text, words):
    lab.ramdisk(4 * MIB)
    for options in (), ("--force", "--overcommit"):
        refused(PARAMETERS, "resize", "rxd0", *options, "--", text,
                names=(f"size '{text}'", *([words] if isinstance(words, str) else words)))


@pytest.mark.one_kernel
def test_resize_by_a_negative_option(lab):
    """getopt takes such arguments for options: the message explains how to write them."""
    lab.ramdisk(8 * MIB)
    for arguments in ("rxd0", "-1M"), ("-1M", "rxd0"), ("rxd0", "--force", "-1M"):
        refused(PARAMETERS, "resize", *arguments, names=("'-1M'", "greater than 0", "'-- -1M'"))


@pytest.mark.one_kernel
def test_resize_by_what_is_refused(lab):
    """The message has the size as given, and the resulting size."""
    ramdisk = lab.ramdisk(8 * MIB)
    direct.write(ramdisk.path, 6 * MIB, stamp(1))
    refused(BUSY, "resize", "rxd0", "--", "-4M", names=("'-4M' (4194304 bytes)", "--force"))
    refused(PARAMETERS, "resize", "rxd0", "+1T", names=("'+1T'", "--overcommit"))
    direct.write(ramdisk.path, 6 * MIB, bytes(4096))
    with direct.Direct(ramdisk.path) as device:
        device.discard(0, 8 * MIB)
        device.partition(2048, 6 * 2048)
    refused(BUSY, "resize", "rxd0", "--", "-4M",
            names=("partition 1", "'-4M' (4194304 bytes)", "--force"))


@pytest.mark.parametrize("size", ["1T", "100%", "256T"])
def test_create_more_than_memory(size):
    refused(PARAMETERS, "create", "--size", size, names=(f"'{size}'", "--overcommit"))


def test_resize_more_than_memory(lab):
    lab.ramdisk(4 * MIB)
    refused(PARAMETERS, "resize", "rxd0", "1T",
            names=("size '1T': is too large: RAM disks may have", "--overcommit"))


UUID = "5f0c7a1e-6c2b-4d0e-9a55-0123456789ab"


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    ((), "--size"),
    (("--size",), "--size"),
    (("--size", "4M", "more"), "'more'"),
    (("--size", "4M", "-x"), "-x"),
    (("--size", "4M", "--index", "1048576"), ("'1048576'", "0 to 1048575")),
    (("--size", "4M", "--index", "x"), ("'x'", "0 to 1048575")),
    (("--size", "4M", "--logical-block-size", "1024"), ("'1024'", "512 or 4096")),
    (("--size", "4M", "--mem-limit", "0"), ("'0'", "greater than 0")),
    (("--size", "4M", "--overcommit=yes"), "--overcommit"),
    (("--size", "4M", "--reserve=yes"), "--reserve"),
    (("--size", "4M", "--detect-zeroes=no"), "--detect-zeroes"),
    (("--size", "4M", "--reserve", "--detect-zeroes"), ("--reserve", "--detect-zeroes")),
    (("--mem-limit", "1M", "--reserve", "--size", "4M"), ("'1M'", "at least", "'4M'")),
    (("--size", "4M", "--folio-size", "8K"), ("'8K'", "4K, 64K or 2M")),
    (("--size", "4M", "--folio-size", "huge"), ("'huge'", "4K, 64K or 2M")),
    (("--size", "4M", "--node", "1024"), ("'1024'", "0 to 1023")),
    (("--size", "4M", "--node", "all"), ("'all'", "local, interleave")),
    (("--size", "4M", "--node", "7"), ("'7'", "no memory", "with memory: 0")),
    (("--size", "4M", "--uuid", "x" * 300), ("xxx", "8, 4, 4, 4 and 12")),
    (("--size", "4M", "--uuid", UUID[:-1]), (UUID[:-1], "8, 4, 4, 4 and 12")),
    (("--size", "4M", "--uuid", "00000000-0000-0000-0000-000000000000"), "must not be zero"),
    *long([
        (("--siz", "4M", "--colour"), "--colour"),
        (("--size", "4M", "--index", "-1"), ("'-1'", "0 to 1048575")),
        (("--size", "4M", "--index", "4294967296"), ("'4294967296'", "0 to 1048575")),
        (("--size", "4M", "--index", ""), ("''", "0 to 1048575")),
        (("--size", "4M", "--logical-block-size", "4K"), ("'4K'", "512 or 4096")),
        (("--size", "4M", "--mem-limit", "much"), ("'much'", "not a number")),
        (("--size", "4M", "--mem-limit", "4097"), ("'4097'", "multiple of 4096")),
        (("--size", "4M", "--folio-size", "0"), ("'0'", "4K, 64K or 2M")),
        (("--size", "4M", "--folio-size", "-4K"), ("'-4K'", "4K, 64K or 2M")),
        (("--size", "4M", "--folio-size", "4M"), ("'4M'", "4K, 64K or 2M")),
        (("--size", "4M", "--folio-size", ""), ("''", "4K, 64K or 2M")),
        (("--size", "4M", "--node", "-1"), ("'-1'", "0 to 1023")),
        (("--size", "4M", "--node", "18446744073709551616"),
         ("'18446744073709551616'", "0 to 1023")),
        (("--size", "4M", "--node", ""), ("''", "local, interleave")),
        (("--size", "4M", "--node", "1023"), ("'1023'", "no memory", "with memory: 0")),
        (("--size", "4M", "--uuid", ""), ("''", "8, 4, 4, 4 and 12")),
        (("--size", "4M", "--uuid", UUID + "0"), (UUID + "0", "8, 4, 4, 4 and 12")),
        (("--size", "4M", "--uuid", UUID.replace("-", "")), "8, 4, 4, 4 and 12"),
        (("--size", "4M", "--uuid", UUID.replace("5", "g")), "8, 4, 4, 4 and 12")]),
], ids=str)
def test_create_arguments(arguments, words):
    refused(PARAMETERS, "create", *arguments, names=words)


@pytest.mark.one_kernel
def test_limit_of_reserved_memory(lab):
    """The limit cannot be below the capacity, because all memory is allocated."""
    lab.ramdisk(8 * MIB, flags=CREATE_RESERVE)
    refused(PARAMETERS, "limit", "rxd0", "4M", names=("'4M'", "at least", "8M", "reserved"))
    refused(PARAMETERS, "limit", "rxd0", "4M", "--dry-run", names=("'4M'", "at least", "8M"))
    for limit in "8M", "16M", "none":
        assert rxadm("limit", "rxd0", limit).returncode == 0


@pytest.mark.one_kernel
def test_resize_of_reserved_memory(lab):
    """It cannot grow above the limit, however much memory there is."""
    lab.ramdisk(8 * MIB, flags=CREATE_RESERVE)
    assert rxadm("limit", "rxd0", "8M").returncode == 0
    for size in "12M", "+4M":
        refused(MEMORY, "resize", "rxd0", size, names=(
            "limit is 8M (8388608 bytes)", f"'{size}' (12582912 bytes)", "rxadm limit"))
    refused(MEMORY, "resize", "rxd0", "12M", "--dry-run", names=("limit is 8M", "'12M'"))
    assert rxadm("limit", "rxd0", "12M").returncode == 0
    assert rxadm("resize", "rxd0", "12M").returncode == 0


def test_create_number_taken(lab):
    lab.ramdisk(index=3)
    refused(BUSY, "create", "--size", "4M", "--index", "3", names=("'3'", "/dev/rxd3"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    ((), "command"),
    (("frobnicate",), "'frobnicate'"),
    (("--colour",), "--colour"),
    (("remove",), "DEVICE"),
    (("clone",), "DEVICE"),
    (("clone", "rxd0", "rxd1"), "'rxd1'"),
    (("clone", "rxd0", "--count", "0"), ("'0'", "from 1 to 1024")),
    (("clone", "rxd0", "--count", "1", "--index", "3"), ("--count", "--index")),
    (("clone", "rxd0", "--name", "a", "--count", "2"), ("--count", "--name")),
    (("clone", "rxd0", "--uuid", str(uuid.UUID(int=1)), "--count", "2"), ("--count", "--uuid")),
    (("clone", "rxd0", "--name", "rxd1"), "'rxd1'"),
    (("clone", "rxd0", "--size", "4M"), "--size"),
    (("clone", "rxd0", "--no-freeze=1"), "--no-freeze"),
    (("clone", "rxd0", "--expandable"), "--expendable"),
    (("save", "rxd0", "/run/image", "--expendable"), "--expendable"),
    (("reset", "--to", "rxd0"), "DEVICE"),
    (("reset", "rxd0"), "--to"),
    (("reset", "rxd0", "--to", "rxd0"), ("source '/dev/rxd0'", "another")),
    (("reset", "rxd0", "rxd1", "--to", "rxd0"), "'rxd1'"),
    (("limit", "rxd0"), "SIZE"),
    (("limit", "rxd0", "0"), ("'0'", "greater than 0")),
    (("limit", "rxd0", "None"), ("'None'", "must be a number of bytes, a number with K",
                                 "or a percentage, or none")),
    (("limit", "rxd0", "1M", "2M"), "'2M'"),
    (("extents",), "DEVICE"),
    (("extents", "rxd0", "rxd1"), "'rxd1'"),
    (("extents", "rxd0", "-o", "COLOUR"), ("COLOUR", "START")),
    (("diff", "--base", "rxd0"), "DEVICE"),
    (("diff", "rxd0"), ("--base", "is missing")),
    (("diff", "rxd0", "--base", "rxd0"), ("base '/dev/rxd0'", "another")),
    (("diff", "rxd0", "rxd1", "--base", "rxd0"), "'rxd1'"),
    (("diff", "rxd0", "--base", "rxd0", "--basis"), ("--basis", "--base")),
    (("remove", "--all", "rxd0"), "'rxd0'"),
    (("remove", "rxd0", "/dev/rxd0"), ("'/dev/rxd0'", "more than once")),
    (("remove", "rxd0", "--all=yes"), "--all"),
    (("clear", "rxd0", "--all"), "--all"),
    (("help", "list", "info"), "'info'"),
    (("create", "--help=yes"), ("'--help=yes'", "no value")),
    (("resize", "rxd0"), "SIZE"),
    (("resize", "rxd0", "4M", "8M"), "'8M'"),
    (("unmap",), "NAME"),
    (("list", "rxd0"), "'rxd0'"),
    (("list", "-o", "COLOUR"), ("COLOUR", "DEVICE")),
    (("list", "--json", "--raw"), "--raw"),
    (("list", "-b1", "rxd0"), "unknown option '-1'"),
    (("remove", "-v", "rxd0"), "'-v'; -v goes before the command: rxadm -v remove"),
    (("list", "-b", "-12"), ("'-12'", "negative")),
    (("status", "-o", "NAME,COLOUR"), ("COLOUR", "NAME")),
    (("map",), "--cache"),
    (("map", "--cache", "rxd0"), "--origin"),
    (("map", "--cache", "rxd0", "--origin", DISK, "more"), "'more'"),
    (("map", "--cache", "", "--origin", DISK), "''"),
    *long([
        (("clone", "rxd0", "--count", "-1"), ("'-1'", "from 1 to 1024")),
        (("clone", "rxd0", "--count", "1025"), ("'1025'", "from 1 to 1024")),
        (("clone", "rxd0", "--count", "x"), ("'x'", "from 1 to 1024")),
        (("clone", "rxd0", "--count", ""), ("''", "from 1 to 1024")),
        (("clone", "rxd0", "--index", "1048576"), "'1048576'"),
        (("clone", "rxd0", "--uuid", "1"), "'1'"),
        (("clone", "rxd0", "--expendable=1"), "--expendable"),
        (("save", "rxd0", "/run/image", "--no-freeze=1"), "--no-freeze"),
        (("limit", "rxd0", "4097"), ("'4097'", "multiple of 4096")),
        (("limit", "rxd0", ""), "''"),
        (("limit", "rxd0", "-4K"), "-4K"),
        (("extents", "rxd0", "--json", "--raw"), "--raw"),
        (("diff", "rxd0", "--base"), "--base"),
        (("diff", "rxd0", "--base", ""), "base ''"),
        (("diff", "rxd0", "--compare=yes", "--base", "rxd0"), "--compare"),
        (("diff", "rxd0", "--base", "rxd0", "-o", "COLOUR"), ("COLOUR", "START")),
        (("remove", "rxd0", "--all"), "'rxd0'"),
        (("remove", "rxd0", "--force=yes"), "--force"),
        (("help", ""), "''"),
        (("list", "-o", ""), "''"),
        (("list", "-1"), "'-1'"),
        (("clear",), "DEVICE"),
        (("remove", "rxd0", "--verbose"),
         "'--verbose'; -v goes before the command: rxadm -v remove")]),
], ids=str)
def test_usage(lab, arguments, words):
    lab.ramdisk(4 * MIB)
    refused(PARAMETERS, *arguments, names=words)


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, meant", sampled([
    (("lsit",), "list"),
    (("List",), "list"),
    (("creat",), "create"),
    (("un-map",), "unmap"),
    (("compl",), "completion"),
    (("help", "remvoe"), "remove"),
    (("--hlep",), "--help"),
    (("-version",), "--version"),
    (("create", "--sise", "4M"), "--size"),
    (("create", "--siez=4M"), "--size"),
    (("create", "--size", "4M", "--dryrun"), "--dry-run"),
    (("create", "--size", "4M", "--sizes", "4M"), "--size"),
    (("list", "--no-headings"), "--noheadings"),
    (("apply", "--sotp"), "--stop"),
    (("export", "rxd0", "--alow-host=x"), "--allow-host"),
    (("status", "--latancy"), "--latency"),
], every=2), ids=str)
def test_did_you_mean(arguments, meant):
    refused(PARAMETERS, *arguments, names=(f"did you mean '{meant}'?", "--help"))


@pytest.mark.one_kernel
def test_option_that_is_ambiguous_in_another_case():
    refused(PARAMETERS, "create", "--N", names=("'--N'", "could be", "--name", "--node"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments", sampled([(arguments,) for arguments in [
    ("frobnicate",), ("s",), ("",), ("help", "x" * 500), ("-",), ("--",), ("--colour",),
    ("create", "--colour"), ("create", "--x"), ("create", "--" + "size" * 100)]]), ids=str)
def test_nobody_knows_what_was_meant(arguments):
    result = rxadm(*arguments)
    assert result.returncode == PARAMETERS and "mean" not in result.stderr
    assert len(result.stderr.splitlines()) == 1 and "lists all" in result.stderr


@pytest.mark.one_kernel
def test_ambiguous_option():
    refused(PARAMETERS, "export", "rxd0", "--allow",
            names=("ambiguous option '--allow'", "--allow-any-host", "--allow-host"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments", [
    ("create", "more"), ("clone",), ("resize", "rxd0"), ("limit",), ("clear",), ("reset",),
    ("remove",), ("list", "more"), ("info",), ("extents",), ("diff",), ("save",), ("load",),
    ("map", "more"), ("unmap",), ("mode",), ("set",), ("stats",), ("advise",),
    ("top", "more"), ("metrics", "more"), ("hotlist",), ("warm",), ("export",), ("unexport",),
    ("completion",), ("help", "list", "more")], ids=str)
def test_usage_line(arguments):
    """The line is a valid command."""
    refused(PARAMETERS, *arguments, names=f"usage: rxadm {arguments[0]} ")


def test_remove_several(lab):
    """All disks are checked before any is removed, and each that is refused has a line."""
    for _ in range(3):
        lab.ramdisk(4 * MIB)
    before = state()
    with direct.Direct("/dev/rxd1"):
        for options in (), ("--dry-run",):
            result = rxadm("remove", "rxd0", "rxd1", "rxd2", "rxd9", "/dev/null", *options)
            assert (result.returncode, result.stdout) == (BUSY, "")
            lines = result.stderr.splitlines()
            assert [next(word for word in ("/dev/rxd1", "/dev/rxd9", "/dev/null") if word in line)
                    for line in lines] == ["/dev/rxd1", "/dev/rxd9", "/dev/null"]
            assert all(line.startswith("rxadm: remove: device '") for line in lines)
    assert state() == before
    result = rxadm("remove", "rxd9", "rxd0")
    assert result.returncode == DEVICE and state() == before


@pytest.mark.one_kernel
def test_remove_fails_on_the_way(lab):
    """If any ioctl fails, removed disks stay removed, and the others are still tried."""
    # LeakSanitizer cannot work beside strace.
    environment = {**ENVIRONMENT, "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    seen = []
    for when in range(1, 20):
        for index in range(3):
            lab.ramdisk(64 * KIB, index=index)
        result = run("strace", "-f", "-o", "/dev/null", "-e", "trace=ioctl", "-e",
                     f"inject=ioctl:error=EDQUOT:when={when}", program("rxadm"), "remove", "rxd0",
                     "rxd1", "rxd2", check=False, environment=environment)
        left = [device["index"] for device in state()["ramdisks"]]
        assert bool(result.returncode) == bool(left), result
        assert len(result.stderr.splitlines()) == bool(left), result
        assert len(left) < 2 or left == [0, 1, 2]
        assert len(left) != 1 or f"/dev/rxd{left[0]}" in result.stderr
        seen.append(left)
        rxadm("remove", "--all", check=True)
    assert all(left in seen for left in ([], [0], [1], [2], [0, 1, 2]))


NO_RAMDISKS = ["rxd9", "/dev/rxd9", "/dev/nothing", "/dev/null", "/etc/passwd", "/dev", DISK,
               "../etc/passwd"]
OF_A_RAMDISK = [("resize", "{}", "8M"), ("clear", "{}"), ("limit", "{}", "none"),
                ("extents", "{}"), ("diff", "{}", "--base", "rxd0"),
                ("diff", "rxd0", "--base", "{}"), ("map", "--cache", "{}", "--origin", DISK)]


@pytest.mark.one_kernel
# Each command with another device that is none, and remove with all of them, in short runs.
@pytest.mark.parametrize("command, device", [
    *((("remove", "{}"), device) for device in NO_RAMDISKS),
    *itertools.chain.from_iterable(
        sampled([(command, device) for device in NO_RAMDISKS[at:] + NO_RAMDISKS[:at]],
                every=len(NO_RAMDISKS)) for at, command in enumerate(OF_A_RAMDISK))], ids=str)
def test_no_such_ramdisk(lab, command, device):
    lab.ramdisk(4 * MIB)
    refused(DEVICE, *[part.format(device) for part in command], names=os.path.basename(device))


@pytest.mark.one_kernel
@pytest.mark.parametrize("command", [("remove", "{}"), ("resize", "{}", "8M"), ("clear", "{}"),
                                     ("extents", "{}"), ("save", "{}", "/run/image"),
                                     ("map", "--cache", "{}", "--origin", DISK),
                                     ("unexport", "{}")],
                         ids=["remove", "resize", "clear", "extents", "save", "map", "unexport"])
def test_mistyped_name(lab, command):
    """The message has the word that the user wrote, and not a path made of it."""
    lab.ramdisk(4 * MIB)
    refused(DEVICE, *[part.format("nothere") for part in command],
            names=("device 'nothere': is neither a device in /dev nor the name of a RAM disk",
                   "'rxadm list' shows all names"))
    refused(DEVICE, *[part.format("/dev/nothere") for part in command],
            names="device '/dev/nothere': No such file or directory")
    refused(DEVICE, *[part.format("rxd9") for part in command],
            names="device '/dev/rxd9': does not exist")


@pytest.mark.one_kernel
def test_mistyped_origin(lab):
    lab.ramdisk(4 * MIB)
    for origin, words in ("nothere", "is neither a device in /dev nor the name of a RAM disk"), \
            ("rxd9", "does not exist"):
        refused(DEVICE, "map", "--cache", "rxd0", "--origin", origin,
                names=("origin ", f"{origin}': {words}"))


def test_partition_is_no_ramdisk(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    with direct.Direct(ramdisk.path) as device:
        device.partition(2048, 2048)
    assert os.path.exists("/dev/rxd0p1")
    for command in ("remove",), ("clear",), ("extents",), ("diff", "rxd0", "--base"):
        refused(DEVICE, *command, "rxd0p1", names=("rxd0p1", "whole disk"))
    refused(DEVICE, "limit", "rxd0p1", "1M", names=("rxd0p1", "whole disk"))
    refused(DEVICE, "resize", "rxd0p1", "8M", names=("rxd0p1", "whole disk"))
    refused(DEVICE, "map", "--cache", "rxd0p1", "--origin", DISK, names=("rxd0p1", "whole disk"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("origin", ["/dev/nothing", "/dev/null", "/etc/passwd", "rxd9"])
def test_no_such_origin(lab, origin):
    lab.ramdisk(4 * MIB)
    refused(DEVICE, "map", "--cache", "rxd0", "--origin", origin,
            names=os.path.basename(origin))


def test_create_uuid_taken(lab):
    lab.ramdisk(4 * MIB, uuid=uuid.UUID(UUID).bytes)
    refused(BUSY, "create", "--size", "4M", "--uuid", UUID, names=(UUID, "another RAM disk"))


@pytest.mark.parametrize("command", ["remove", "clear"])
def test_remove_or_clear_open(lab, command):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    with direct.Direct(ramdisk.path):
        for options in (), ("--force",):
            refused(BUSY, command, "rxd0", *options, names=("rxd0", "open"))
    assert direct.read(ramdisk.path, 0, 4096) == stamp(1)


@pytest.mark.parametrize("command", ["remove", "clear"])
def test_remove_or_clear_mounted(lab, command):
    ramdisk = lab.ramdisk()
    run("mkfs.ext4", "-q", ramdisk.path)
    # Mount it read-only, so that the file system itself changes nothing.
    directory = lab.mount(ramdisk.path, "-o", "ro")
    refused(BUSY, command, "rxd0", names=("rxd0", directory))


def test_clear_read_only(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 0, stamp(1))
    run("blockdev", "--setro", ramdisk.path)
    for options in (), ("--force",):
        refused(DEVICE, "clear", "rxd0", *options,
                names="device '/dev/rxd0': is read-only; 'blockdev --setrw'")
    assert direct.read(ramdisk.path, 0, 4096) == stamp(1)


def only_forced(size, *names):
    """A resize that is refused without --force."""
    refused(BUSY, "resize", "rxd0", size, names=("rxd0", f"'{size}'", "--force", *names))
    assert rxadm("resize", "rxd0", size, "--force").returncode == 0


def test_shrink_below_a_partition(lab):
    """The end of the last partition counts, even if nothing was ever written there."""
    ramdisk = lab.ramdisk(64 * MIB)
    with direct.Direct(ramdisk.path) as device:
        device.partition(2048, 32 * 2048)
    assert rxadm("resize", "rxd0", "33M").returncode == 0
    only_forced("32M", "partition 1", "33M")


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_shrink_below_a_file_system(lab, kind):
    """The size of the file system counts, even if its last blocks were never written."""
    ramdisk = lab.ramdisk(384 * MIB)
    run(f"mkfs.{kind}", "-q", *(["-d", "size=320m"] if kind == "xfs" else []), ramdisk.path,
        *(["320m"] if kind == "ext4" else []))
    # Remove what mkfs wrote at the end, so that the kernel does not refuse the resize.
    with direct.Direct(ramdisk.path) as device:
        device.discard(300 * MIB, 84 * MIB)
    assert rxadm("resize", "rxd0", "320M").returncode == 0
    only_forced("319M", kind, "320M", str(320 * MIB))


def test_shrink_below_swap(lab):
    ramdisk = lab.ramdisk(64 * MIB)
    run("mkswap", ramdisk.path)
    only_forced("32M", "swap", "64M")


def test_shrink_beside_the_unknown(lab):
    """If the size of the content is unknown, rxadm prints a note, and written data counts."""
    ramdisk = lab.ramdisk(16 * MIB)
    with direct.Direct(ramdisk.path) as device:
        # LUKS2: magic and version, but not the size of the encrypted data.
        device.write(0, b"LUKS\xba\xbe\x00\x02" + bytes(4088))
        device.write(12 * MIB, stamp(1))
    refused(BUSY, "resize", "rxd0", "8M", names=("rxd0", "data", "--force"))
    result = rxadm("resize", "rxd0", "14M")
    assert result.returncode == 0 and ramdisk.query().size == 14 * MIB
    assert len(result.stderr.splitlines()) == 1 and "crypto_LUKS" in result.stderr


def test_extents_of_a_cache(lab):
    cache = lab.cache()
    refused(BUSY, "extents", cache.ramdisk.name, names=(cache.ramdisk.name, "cache"))
    other = lab.ramdisk(MIB)
    for names in (cache.ramdisk.name, other.name), (other.name, cache.ramdisk.name):
        refused(BUSY, "diff", names[0], "--base", names[1], names=(*names, "cache"))
    refused(BUSY, "clear", cache.ramdisk.name, names=(cache.ramdisk.name, cache.name))


def test_shrink(lab):
    ramdisk = lab.ramdisk(4 * MIB)
    direct.write(ramdisk.path, 3 * MIB, stamp(1))
    refused(BUSY, "resize", "rxd0", "2M", names=("rxd0", "'2M'", "--force"))
    with direct.Direct(ramdisk.path):
        refused(BUSY, "resize", "rxd0", "2M", names=("rxd0", "open", "--force"))
    assert direct.read(ramdisk.path, 3 * MIB, 4096) == stamp(1)


def test_in_use_as_a_cache(lab):
    cache = lab.cache()
    name, ramdisk = cache.name, cache.ramdisk.name
    spare = lab.ramdisk(4 * MIB)
    other = lab.ramdisk(4 * MIB)
    refused(BUSY, "remove", ramdisk, names=(ramdisk, name))
    refused(BUSY, "resize", ramdisk, "4M", names=(ramdisk, "cache", name))
    refused(BUSY, "resize", ramdisk, "4M", "--force", names=(ramdisk, "cache", name))
    refused(BUSY, "map", "--cache", ramdisk, "--origin", other.path, names=(ramdisk, name))
    refused(BUSY, "map", "--cache", spare.path, "--origin", DISK, names=(DISK, name))
    refused(BUSY, "map", "--cache", spare.path, "--origin", cache.ramdisk.path,
            names=(ramdisk, name))


def test_origin_in_use(lab):
    """A disk that is mounted, or held by another mapping, is no origin."""
    lab.ramdisk(4 * MIB)
    loop = lab.loop(16 * MIB)
    run("mkfs.ext4", "-q", loop)
    directory = lab.mount(loop)
    refused(BUSY, "map", "--cache", "rxd0", "--origin", loop, names=(loop, directory))
    name, _ = lab.linear(4 * MIB)
    refused(BUSY, "map", "--cache", "rxd0", "--origin", DISK, names=(DISK, name))


def test_cache_in_use(lab):
    """A RAM disk that is mounted, open or held is no cache."""
    ramdisk = lab.ramdisk()
    with direct.Direct(ramdisk.path):
        refused(BUSY, "map", "--cache", "rxd0", "--origin", DISK, names=("rxd0", "open"))
    run("mkfs.ext4", "-q", ramdisk.path)
    refused(BUSY, "map", "--cache", "rxd0", "--origin", DISK,
            names=("rxd0", "(ext4)", "save it with 'rxadm save'", "--force"))
    directory = lab.mount(ramdisk.path)
    refused(BUSY, "map", "--cache", "rxd0", "--origin", DISK, "--force",
            names=("rxd0", directory))


def test_one_disk_as_both(lab):
    ramdisk = lab.ramdisk()
    refused(PARAMETERS, "map", "--cache", "rxd0", "--origin", ramdisk.path, names="rxd0")


def test_read_only_origin(lab):
    lab.ramdisk(4 * MIB)
    loop = lab.loop(4 * MIB)
    run("blockdev", "--setro", loop)
    refused(DEVICE, "map", "--cache", "rxd0", "--origin", loop, names=(loop, "read-only"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", sampled(
    ["", "a/b", "-x", "with space", "x" * 128, "new\nline", "."], every=2))
def test_bad_name(lab, name):
    lab.ramdisk(4 * MIB)
    refused(PARAMETERS, "map", "--cache", "rxd0", "--origin", DISK, f"--name={name}",
            names=("name", name.replace("\n", "?")))


def test_name_taken(lab):
    lab.ramdisk(4 * MIB)
    lab.mapped("0 2048 zero", name="taken")
    refused(BUSY, "map", "--cache", "rxd0", "--origin", DISK, "--name", "taken", names="'taken'")


@pytest.mark.one_kernel
@pytest.mark.parametrize("size", sampled([
    "0", "512", "3K", "12K", "2M", "x", "-4K", ""]))
def test_bad_block_size(lab, size):
    lab.ramdisk(64 * MIB)
    refused(PARAMETERS, "map", "--cache", "rxd0", "--origin", DISK, "--block-size", size,
            names=(f"'{size}'", "must be a power of two from 4K to 1M"))


@pytest.mark.parametrize("size, block", [("32K", "4K"), ("4M", "1M")])
def test_cache_too_small(lab, size, block):
    """It is refused by the same line with --dry-run."""
    assert rxadm("create", "--size", size).returncode == 0
    lab.adopt_ramdisk(0)
    command = ("map", "--cache", "rxd0", "--origin", DISK, "--block-size", block)
    line = refused(DEVICE, *command, names=("rxd0", f"fewer than 16 cache blocks of {block}"))
    assert line == refused(DEVICE, *command, "--dry-run")


@pytest.mark.parametrize("size, allowed", [("60K", False), ("64K", True)])
def test_smallest_cache(lab, size, allowed):
    """What rxadm allows, the target accepts."""
    assert rxadm("create", "--size", size).returncode == 0
    lab.adopt_ramdisk(0)
    result = rxadm("map", "--cache", "rxd0", "--origin", DISK, "--name", "smallest")
    assert result.returncode == (0 if allowed else DEVICE)
    if allowed:
        assert rxadm("unmap", "smallest").returncode == 0


def test_no_such_mapping(lab):
    for command in "unmap", "status":
        refused(DEVICE, command, "nothing", names="'nothing'")
    lab.mapped("0 2048 zero", name="zeroes")
    for command in "unmap", "status":
        refused(DEVICE, command, "zeroes", names=("'zeroes'", "zero"))
    assert dm.names() == ["zeroes"]


def test_unmap_in_use(lab):
    cache = lab.cache(64 * MIB)
    with direct.Direct(cache.path):
        refused(BUSY, "unmap", cache.name, names=(cache.name, "open"))
    run("mkfs.ext4", "-q", cache.path)
    # Mount it read-only, so that the file system itself changes nothing.
    directory = lab.mount(cache.path, "-o", "ro")
    refused(BUSY, "unmap", cache.name, names=(cache.name, directory))


# A line of each subcommand that would succeed, except for the one fault.
LINES = [
    ("create", "--size", "4M"), ("create", "--size", "4M", "--dry-run"),
    ("resize", "rxd0", "8M"), ("resize", "rxd0", "+4M"), ("limit", "rxd0", "1M"),
    ("clear", "rxd0"), ("remove", "rxd0"), ("remove", "--all"),
    ("clone", "rxd0"), ("clone", "rxd0", "--dry-run"), ("reset", "rxd0", "--to", "rxd1"),
    ("limit", "rxd0", "1M", "--dry-run"), ("clear", "rxd0", "--dry-run"),
    ("list",), ("info", "rxd0"), ("extents", "rxd0"), ("diff", "rxd0", "--base", "rxd1"),
    ("map", "--cache", "rxd0", "--origin", DISK),
    ("map", "--cache", "rxd0", "--origin", DISK, "--dry-run"),
    ("unmap", "one"), ("mode", "one"), ("mode", "one", "writearound"),
    ("set", "one", "--seq-cutoff", "1M"), ("set", "one", "--latency", "on"),
    ("set", "one", "--advise", "on"), ("advise", "one"),
    ("status",), ("status", "--latency"), ("stats", "reset", "one"), ("stats", "reset", "--all"),
    ("top", "-n", "1"), ("hotlist", "save", "one", "/tmp/rxdtest-list"),
    ("warm", "one", "/tmp/rxdtest-list"),
    ("save", "rxd0", "/tmp/rxdtest-image"), ("load", "/tmp/rxdtest-image"), ("metrics",),
    ("export", "rxd0", "--transport", "loop", "--allow-any-host"), ("unexport", "rxd0"),
]


def once(lines):
    """Cases for short runs: a line of each subcommand, and all of them in long ones."""
    found = {line[0]: line for line in reversed(lines)}
    return [case for line in lines
            for case in ([pytest.param(line)] if found[line[0]] is line else long([(line,)]))]


# These commands load a missing module, or only print that they would.
LOADING = ("create", "map")


def unprivileged(*args):
    return as_nobody(program("rxadm"), *args, check=False)


@pytest.mark.one_kernel
def test_lines_are_of_all_commands():
    """All but one that needs nothing of the machine, and one that reads its configuration first."""
    listed = rxadm("--help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert {line.split()[0] for line in listed} - {line[0] for line in LINES} == \
        {"apply", "completion", "help"}


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments", once([line for line in LINES if line[0] != "list"]),
                         ids=str)
def test_no_privilege(lab, arguments):
    lab.ramdisk(4 * MIB)
    refused(PERMISSION, *arguments, names=("CAP_SYS_ADMIN", "root"), runner=unprivileged)


@pytest.mark.one_kernel
@pytest.mark.parametrize("command", sorted({line[0] for line in LINES} |
                                           {"apply", "completion", "help"}))
def test_unknown_option(command):
    refused(PARAMETERS, command, "--no-such-option", names="'--no-such-option'")
    if LONG or command == "create":
        refused(PARAMETERS, command, "-?", names="-?")


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments", once([
    line for line in LINES if line[0] not in ("clear", "info", "unmap", "status", "unexport") and
    line not in (("remove", "rxd0"), ("stats", "reset", "one"))]), ids=str)
def test_one_argument_too_many(arguments):
    """An argument after the last one, also where some are optional."""
    optional = arguments[0] == "status" or arguments == ("mode", "one")
    words = ("more", "most") if optional else ("most",)
    refused(PARAMETERS, *arguments, *words, names="'most'")


@pytest.fixture
def unloaded():
    modules.unload()
    # Hide the modules, because rxadm loads those that modprobe finds.
    yield
    modules.load()


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments", once([
    line for line in LINES if line[0] not in ("list", "status", "metrics", "load")
    and line != ("remove", "--all") and "--dry-run" not in line]), ids=str)
def test_modules_not_loaded(unloaded, arguments):
    before = state()
    result = rxadm(*arguments)
    assert result.returncode == DEVICE
    assert len(result.stderr.splitlines()) == 1
    assert "not loaded" in result.stderr
    assert arguments[0] not in LOADING or "package rxd-dkms" in result.stderr
    after = state()
    del before["modules"], after["modules"]
    assert after == before


@pytest.mark.one_kernel
def test_names_without_modules(unloaded):
    """No name can be that of a RAM disk, and the message says why."""
    for arguments in ("extents", "fast"), ("limit", "fast", "1M"), ("resize", "fast", "32M..64M"), \
            ("resize", "fast", "none"), ("set", "fast", "--name", "slow"), ("unexport", "fast"), \
            ("export", "fast", "--transport", "loop", "--allow-any-host"):
        refused(DEVICE, *arguments, names="the module rxd is not loaded")


def test_listing_without_modules(unloaded):
    """The list is empty, and listing loads no module."""
    for command, key in ("list", "ramdisks"), ("status", "caches"):
        for runner in rxadm, unprivileged:
            result = runner(command, "--json")
            assert (result.returncode, result.stderr) == (0, ""), result
            assert json.loads(result.stdout) == {key: []}
            assert runner(command).stdout == ""
    assert json.loads(rxadm("status", "--latency", "--json").stdout) == {"latencies": []}
    for arguments in ("info", "rxd0"), ("status", "rxc-vdb"):
        refused(DEVICE, *arguments, names="not loaded")
    assert not modules.loaded() & {modules.RXD, modules.RXCACHE}


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    ((), "NAME"),
    (("one",), "--seq-cutoff"),
    (("one", "two", "--seq-cutoff", "1M"), "'two'"),
    (("one", "--mode", "writearound"), "--mode"),
    (("one", "--seq-cutoff"), "--seq-cutoff"),
    (("one", "--seq-cutoff", "-1"), ("'-1'", "must be 0 to cache all I/O")),
    (("one", "--seq-cutoff", "1000"), ("'1000'", "multiple of 512")),
    (("one", "--seq-cutoff", "2T"), ("'2T'", "at most 1T")),
    (("one", "--latency", "on", "--dry-run=1"), "--dry-run"),
    (("a/b", "--seq-cutoff", "1M"), "'a/b'"),
    *long([
        (("one", "--seq-cutoff", "0K"), ("'0K'", "must be 0 to cache all I/O")),
        (("one", "--seq-cutoff", "off"), "'off'"),
        (("one", "--colour", "red"), "--colour"),
        (("-one", "--seq-cutoff", "1M"), "-o")]),
], ids=str)
def test_set_arguments(arguments, words):
    refused(PARAMETERS, "set", *arguments, names=words)


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    (("mode",), "NAME"),
    (("mode", "one", "writearound", "two"), "'two'"),
    (("mode", "one", "writeback"), ("'writeback'", "writearound")),
    (("mode", "a/b"), "'a/b'"),
    (("mode", "one", "--colour"), "--colour"),
    (("stats",), "reset NAME...|--all"),
    (("stats", "reset"), "reset NAME...|--all"),
    (("stats", "clear", "one"), "'clear'"),
    (("stats", "reset", "one", "--all"), "'one'"),
    (("stats", "reset", "a/b"), "'a/b'"),
    *long([
        (("mode", "one", ""), "''"),
        (("mode", "one", "Writearound"), "'Writearound'"),
        (("stats", "clear", "--all"), "'clear'"),
        (("stats", "reset", "one", "a/b"), "'a/b'"),
        (("stats", "--all"), "reset NAME...|--all")]),
], ids=str)
def test_mode_and_stats_arguments(arguments, words):
    refused(PARAMETERS, *arguments, names=words)


@pytest.mark.parametrize("command", [("set", "{}", "--seq-cutoff", "1M"), ("mode", "{}"),
                                     ("mode", "{}", "writearound"), ("stats", "reset", "{}"),
                                     ("mode", "{}", "writearound", "--dry-run")], ids=str)
def test_what_is_no_cache(lab, command):
    name, _ = lab.linear(MIB)
    refused(DEVICE, *[word.format(name) for word in command],
            names=(f"'{name}'", "not a cache"))
    refused(DEVICE, *[word.format("nothing") for word in command],
            names=("'nothing'", "does not exist"))


@pytest.mark.one_kernel
@pytest.mark.parametrize("arguments, words", [
    (("--mode", "writeback"), "'writeback'"),
    (("--seq-cutoff", "1000"), "'1000'"),
], ids=str)
def test_map_features(lab, arguments, words):
    lab.ramdisk(4 * MIB)
    refused(PARAMETERS, "map", "--cache", "rxd0", "--origin", DISK, *arguments, names=words)
