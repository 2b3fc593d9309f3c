# SPDX-License-Identifier: GPL-2.0-only
"""The compiler options of the tools: those who build packages choose their own."""

import os
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TOOLS = "rxcp", "generator"


def compilers(tmp_path, *variables):
    """Return the compiler commands that make would run."""
    lines = []
    for tool in TOOLS:
        result = subprocess.run(["make", "-n", "-C", os.path.join(TOP, "utils", tool),
                                 f"O={tmp_path}", f"OBJ={tmp_path}/{tool}", *variables],
                                env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
                                check=True)
        lines += [line for line in result.stdout.splitlines() if " -c -o " in line]
    assert len(lines) > 20
    return lines


def test_packages_choose(tmp_path):
    """A distribution's build stops neither at a new warning nor at an option of this project."""
    for line in compilers(tmp_path, "CFLAGS=-O3 -D_FORTIFY_SOURCE=3", "CC=other-gcc"):
        words = line.split()
        assert words[0] == "other-gcc" and "-O3" in words
        assert "-Werror" not in words
        assert [word for word in words if "FORTIFY" in word] == ["-D_FORTIFY_SOURCE=3"]


def test_level_of_cppflags(tmp_path):
    for line in compilers(tmp_path, "STRICT=1", "CPPFLAGS=-D_FORTIFY_SOURCE=3"):
        assert [word for word in line.split() if "FORTIFY" in word] == ["-D_FORTIFY_SOURCE=3"]


def test_level_of_the_compiler(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho '#define _FORTIFY_SOURCE 3'\n", encoding="utf-8")
    compiler.chmod(0o755)
    for line in compilers(tmp_path, "STRICT=1", f"CC={compiler}"):
        assert "-O2" in line.split() and "FORTIFY" not in line


@pytest.mark.parametrize("variables, strict", [([], False), (["STRICT=1"], True)])
def test_from_source(tmp_path, variables, strict):
    """A development build has no warnings, and checks more at run time."""
    for line in compilers(tmp_path, *variables):
        words = line.split()
        assert "-O2" in words and "-fstack-protector-strong" in words
        assert ("-Werror" in words) == ("-D_FORTIFY_SOURCE=2" in words) == strict


@pytest.mark.parametrize("variables", [[], ["CFLAGS=-O3"], ["STRICT=1", "SANITIZE=address"]])
def test_large_files(tmp_path, variables):
    """Offsets and times have 64 bits on each machine, whatever the flags of a package are."""
    for line in compilers(tmp_path, *variables):
        assert {"-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64"}.issubset(line.split())


def test_sanitizers(tmp_path):
    for line in compilers(tmp_path, "STRICT=1", "SANITIZE=address"):
        assert "-fsanitize=address" in line and "FORTIFY" not in line


FAKE = """#!/bin/sh
for word; do [ "$last" != -o ] || touch "$word"; last=$word; done
echo "$*" >>"$0.log"
"""


@pytest.mark.parametrize("tool", ["base", "copy", "device", "generator", "image", "rxadm", "rxcp"])
def test_other_choice_compiles_anew(tmp_path, tool):
    """Other options cause a new compilation, and the same options do not."""
    compiler = tmp_path / "cc"
    compiler.write_text(FAKE, encoding="utf-8")
    compiler.chmod(0o755)
    log = tmp_path / "cc.log"

    def compiled(*variables):
        log.write_text("", encoding="utf-8")
        subprocess.run(["make", "-s", "-C", os.path.join(TOP, "utils", tool), f"O={tmp_path}/bin",
                        f"OBJ={tmp_path}/{tool}/obj", f"CC={compiler}", "AR=true", *variables],
                       env={"PATH": os.environ["PATH"]}, check=True)
        return sorted(line.split()[-1] for line in log.read_text(encoding="utf-8").splitlines()
                      if " -c -o " in line)

    every = compiled()
    assert len(every) >= 5
    assert not compiled()
    for variables in ["STRICT=1"], ["SANITIZE=address"], ["STRICT=1", "SANITIZE=address"], []:
        assert compiled(*variables) == every
        assert not compiled(*variables)
