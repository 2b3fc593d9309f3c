# SPDX-License-Identifier: GPL-2.0-only
"""bash completes the names of RAM disks and caches for any user."""

import os

import pytest

from rxdlib.command import SOURCE, as_nobody, run, rxadm
from rxdlib.direct import MIB

pytestmark = pytest.mark.one_kernel

# Complete the last word as bash does, with the PATH of an ordinary user of Debian.
SCRIPT = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); PATH=/usr/bin:/bin\n'
          "compopt() { :; }\n"
          '_rxadm; printf "%s\\n" "${COMPREPLY[@]}"')


def offered(runner, *words):
    result = runner("bash", "-c", SCRIPT, "bash", os.path.join(SOURCE, "utils/rxadm/rxadm.bash"),
                    "rxadm", *words)
    assert result.stderr == ""
    return [word for word in result.stdout.split() if not word.startswith("-")]


@pytest.mark.parametrize("runner", [as_nobody, run], ids=["nobody", "root"])
def test_names(lab, runner):
    ramdisk, other = lab.ramdisk(4 * MIB), lab.ramdisk(4 * MIB)
    (_, origin), linear = lab.linear(8 * MIB), lab.mapped("0 8 zero")
    assert offered(runner, "unmap", "") == []
    result = rxadm("map", "--cache", ramdisk.path, "--origin", origin, "--name", "rxdtest-one",
                   check=True)
    lab.adopt_mapped("rxdtest-one")
    assert result.stdout == "/dev/mapper/rxdtest-one\n"
    for command in "unmap", "status", "mode", "set":
        assert "rxdtest-one" in offered(runner, command, ""), command
        assert linear not in offered(runner, command, "")
    assert offered(runner, "unmap", "rxdtest-o") == ["rxdtest-one"]
    assert offered(runner, "hotlist", "save", "") == ["rxdtest-one"]
    assert offered(runner, "remove", "") == [ramdisk.path, other.path]
    assert offered(runner, "load", "x", "--into", "") == [ramdisk.path, other.path]
    assert offered(runner, "export", "") == [ramdisk.path, other.path, "/dev/mapper/rxdtest-one"]
