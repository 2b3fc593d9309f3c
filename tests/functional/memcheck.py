# SPDX-License-Identifier: GPL-2.0-only
"""rxadm under valgrind: no error, and no byte leaked, whether it succeeds or not."""

import os
import re

from rxdlib.command import REPORT, program, reports, run
from rxdlib.direct import stamp, write
from rxdlib.lab import DISK

SUPPRESSIONS = os.path.join(os.path.dirname(__file__), "valgrind.supp")
VALGRIND = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
            "--show-leak-kinds=definite,indirect,possible",
            "--errors-for-leak-kinds=definite,indirect,possible",
            f"--suppressions={SUPPRESSIONS}", f"--log-file={REPORT}.%p")

# By subcommand: exit code and arguments, in an order that makes what the next needs. A run
# takes seconds: what else there is to try, the tests with AddressSanitizer do.
STORY = (
    ("create", (0, "--size", "16M", "--index", "0", "--reserve", "--uuid",
                "0b4a1c6e-57e7-4f2e-8d3a-7c1c0a2f9e11"),
     (5, "--size", "16M", "--index", "0"), (0, "--size", "16M", "--index", "1")),
    ("limit", (0, "rxd1", "none"),),
    ("resize", (0, "rxd1", "32M"), (1, "rxd1", "5")),
    ("extents", (0, "rxd1", "--json"),),
    ("clear", (0, "rxd1"),),
    ("list", (0, "-O"), (1, "-o", "DEVICE,NOTHING")),
    ("map", (0, "--cache", "rxd1", "--origin", DISK, "--name", "one", "--seq-cutoff", "1M"),
     (5, "--cache", "rxd1", "--origin", DISK, "--name", "two")),
    ("mode", (0, "one", "writearound"), (0, "one"), (1, "one", "writeback")),
    ("set", (0, "one", "--latency", "on"),),
    ("status", (0, "one", "--json"), (0, "--latency"), (4, "nothing")),
    ("info", (0, "one"), (0, "rxd1", "--json"), (4, "nothing")),
    ("top", (0, "-n", "1", "-d", "0.1"), (0, "-n", "1", "-d", "0.1", "--json")),
    ("stats", (0, "reset", "--all"), (0, "reset", "one", "--dry-run")),
    ("hotlist", (0, "save", "one", "{tmp}/hot"),),
    ("warm", (0, "one", "{tmp}/hot"), (1, "one", "{tmp}/damaged")),
    ("completion", (0, "zsh"), (1, "csh")),
    ("metrics", (0,), (1, "--format", "xml")),
    ("export", (0, "rxd0", "--transport", "loop", "--allow-any-host", "--dry-run"),
     (1, "rxd0", "--transport", "ib")),
    ("unexport", (4, "rxd0"),),
    ("apply", (1, "--config", "{tmp}/damaged"),),
    ("unmap", (0, "one"), (4, "one")),
    ("save", (0, "rxd1", "{tmp}/image", "--compress", "zstd"), (4, "rxd1", "/dev/null/x")),
    ("remove", (0, "rxd1"), (4, "rxd1")),
    ("load", (0, "{tmp}/image", "--index", "1"), (1, "{tmp}/damaged")),
)


def memcheck(*args):
    return run(*VALGRIND, "--", program("rxadm"), *args, check=False)


def found():
    """What valgrind wrote; processes that had nothing to say leave empty files."""
    return [text for text in reports() if text.strip()]


def test_all_subcommands_are_here():
    listed = run(program("rxadm"), "--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    assert {line.split()[0] for line in listed.splitlines()} == {name for name, *_ in STORY}


def test_general():
    assert [memcheck(*args).returncode for args in
            [("--help",), ("nothing",)]] == [0, 1]
    assert found() == []


def test_story(lab, tmp_path):
    (tmp_path / "damaged").write_text("rxcache-hotlist 1\n0 8\n0 x\n", encoding="ascii")
    for index in range(2):
        lab.adopt_ramdisk(index)
    lab.adopt_mapped("one")
    wrong = []
    for name, *runs in STORY:
        for code, *args in runs:
            result = memcheck(name, *(arg.format(tmp=tmp_path) for arg in args))
            texts = found()
            if result.returncode != code or texts:
                wrong.append(f"{name} {' '.join(args)}: {result}\n" + "\n".join(texts))
        if name == "resize":
            write("/dev/rxd1", 0, stamp(1))
        if name == "set":
            write("/dev/mapper/one", 0, stamp(1))
    assert not wrong, "\n".join(wrong)


def test_valgrind_finds_what_is_wrong(tmp_path):
    """The check itself: a program that leaks, and one that reads what it freed."""
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
