# SPDX-License-Identifier: GPL-2.0-only
"""rxadm under valgrind: no error, and no byte leaked, whether it succeeds or not."""

import os
import re
import time

import pytest

from rxdlib import nvme
from rxdlib.command import REPORT, program, reports, run
from rxdlib.direct import MIB, stamp, write
from rxdlib.lab import DISK

SUPPRESSIONS = os.path.join(os.path.dirname(__file__), "valgrind.supp")
VALGRIND = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
            "--show-leak-kinds=definite,indirect,possible",
            "--errors-for-leak-kinds=definite,indirect,possible",
            f"--suppressions={SUPPRESSIONS}", f"--log-file={REPORT}.%p")

# The guests have no /etc/machine-id to make one from.
NQN = "nqn.2026-11.example:three"

# In each story, by subcommand: exit code and arguments, in an order that makes what the next
# needs. A run takes many seconds: one that succeeds and one that fails late; what else there
# is to try, the tests with AddressSanitizer do.
STORIES = {
    "ramdisks": (
        ("create", (0, "--size", "16M", "--index", "1", "--uuid",
                    "0b4a1c6e-57e7-4f2e-8d3a-7c1c0a2f9e11"),
         (5, "--size", "16M", "--index", "1")),
        ("limit", (0, "rxd1", "none"),),
        ("resize", (0, "rxd1", "32M"),),
        ("extents", (0, "rxd1", "--json"),),
        ("list", (0, "-O"), (1, "-o", "DEVICE,NOTHING")),
        ("save", (0, "rxd1", "{tmp}/image", "--compress", "zstd"), (4, "rxd1", "/dev/null/x")),
        ("clone", (0, "rxd1", "--count", "2"), (5, "rxd1", "--index", "1")),
        ("reset", (0, "rxd0", "--to", "rxd1"), (1, "rxd1", "--to", "rxd1")),
        ("diff", (0, "rxd0", "--base", "rxd1", "--compare"), (1, "rxd1", "--base", "rxd1")),
        ("remove", (0, "rxd0", "rxd2", "--force"),),
        ("clear", (0, "rxd1"),),
        ("remove", (0, "rxd1"), (4, "rxd1")),
        ("load", (0, "{tmp}/image", "--index", "1"), (1, "{tmp}/damaged")),
    ),
    "caches": (
        ("map", (0, "--cache", "rxd1", "--origin", DISK, "--name", "one", "--seq-cutoff", "1M"),
         (5, "--cache", "rxd1", "--origin", DISK, "--name", "two")),
        ("mode", (0, "one", "writearound"),),
        ("set", (0, "one", "--latency", "on"),),
        ("status", (0, "one", "--json"), (0, "--latency")),
        ("info", (0, "one"), (0, "rxd1", "--json"), (4, "nothing")),
        ("set", (0, "one", "--advise", "on"),),
        ("advise", (0, "one", "--json"), (4, "nothing")),
        ("top", (0, "-n", "1", "-d", "0.1", "--json"),),
        ("stats", (0, "reset", "--all"),),
        ("hotlist", (0, "save", "one", "{tmp}/hot"),),
        ("warm", (0, "one", "{tmp}/hot"), (1, "one", "{tmp}/damaged")),
        ("metrics", (0, "-o", "{tmp}/metrics"),),
        ("unmap", (0, "one"), (4, "one")),
        ("map", (0, "--size", "4M..8M", "--origin", DISK, "--name", "one"),),
        ("resize", (0, "one", "4M..16M"), (1, "one", "16M..4M")),
        ("unmap", (0, "one"),),
    ),
    "configuration": (
        ("help", (0, "map"), (1, "nothing")),
        ("completion", (0, "zsh"), (1, "csh")),
        ("apply", (0, "--config", "{tmp}/rxd.conf"), (0, "--config", "{tmp}/rxd.conf"),
         (1, "--config", "{tmp}/damaged")),
        ("unexport", (0, "/dev/mapper/two"), (4, "rxd1")),
        ("export", (0, "/dev/mapper/two", "--transport", "tcp", "--address", "127.0.0.1",
                    "--nqn", NQN, "--allow-any-host"),
         (5, "rxd1", "--transport", "loop", "--allow-any-host")),
        ("apply", (0, "--config", "{tmp}/rxd.conf", "--stop")),
    ),
}
CONFIGURATION = f"""
[export three]
device = cache/two
nqn = {NQN}
transport = tcp
address = 127.0.0.1
allow-host = nqn.2026-11.example:one nqn.2026-11.example:two

[ramdisk four]
size = 4M
fs = ext4
index = 4

[cache two]
origin = {DISK}
size = 4M
index = 1
"""


def memcheck(*args):
    return run(*VALGRIND, "--", program("rxadm"), *args, check=False)


def found():
    """Return what valgrind wrote; files of processes without errors are empty."""
    return [text for text in reports() if text.strip()]


def test_all_subcommands_are_here():
    listed = run(program("rxadm"), "--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    assert {line.split()[0] for line in listed.splitlines()} == \
        {name for story in STORIES.values() for name, *_ in story}


def test_general():
    assert [memcheck(*args).returncode for args in
            [("--help",), ("nothing",)]] == [0, 1]
    assert found() == []


@pytest.fixture
def files(tmp_path):
    (tmp_path / "damaged").write_text("rxcache-hotlist 1\n0 8\n0 x\n", encoding="ascii")
    (tmp_path / "rxd.conf").write_text(CONFIGURATION, encoding="ascii")
    return tmp_path


@pytest.mark.parametrize("name", STORIES)
def test_story(lab, files, name):
    nvme.network()
    if name == "caches":
        lab.ramdisk(16 * MIB, index=1)
    for index in 1, 4:
        lab.adopt_ramdisk(index)
    for mapping in "one", "two":
        lab.adopt_mapped(mapping)
    wrong = []
    for command, *runs in STORIES[name]:
        for code, *args in runs:
            begin = time.monotonic()
            result = memcheck(command, *(arg.format(tmp=files) for arg in args))
            print(f"{time.monotonic() - begin:5.1f} s: {command} {' '.join(args)}", flush=True)
            texts = found()
            if result.returncode != code or texts:
                wrong.append(f"{command} {' '.join(args)}: {result}\n" + "\n".join(texts))
        if command == "resize":
            write("/dev/rxd1", 0, stamp(1))
        if command == "set":
            write("/dev/mapper/one", 0, stamp(1))
    assert not wrong, "\n".join(wrong)
    assert nvme.tree() == []


def test_valgrind_finds_what_is_wrong(tmp_path):
    """The check itself: one program leaks, and another reads memory that it freed."""
    source, path = tmp_path / "wrong.c", str(tmp_path / "wrong")
    source.write_text("#include <stdlib.h>\n"
                      "int main(int argc, char **argv) {\n"
                      "    char *volatile p = malloc(argc + 8); (void)argv;\n"
                      "    if (argc > 1) { free(p); return p[1]; }\n"
                      "    p = NULL; return 0; }\n", encoding="ascii")
    run("gcc", "-O0", "-Wno-use-after-free", "-o", path, source)
    assert run(*VALGRIND, "--", path, check=False).returncode == 99
    assert re.search("definitely lost", "".join(found()))
    assert run(*VALGRIND, "--", path, "free", check=False).returncode == 99
    assert re.search("Invalid read", "".join(found()))
