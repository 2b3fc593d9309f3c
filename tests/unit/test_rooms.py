# SPDX-License-Identifier: GPL-2.0-only
"""The faults that tests/lint/rooms finds in includes."""

import os
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def lint(*args):
    result = subprocess.run([os.path.join(TOP, "tests/lint/rooms"), *args], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                            check=False)
    return result.returncode, result.stdout


@pytest.fixture(name="house")
def made(tmp_path):
    """Two rooms, and a library beside them."""
    files = {
        "copy/copy.h": "",
        "rxadm/rooms": "# from the top down\nupper\nlower\n",
        "rxadm/upper/a.c": '#include <stdio.h>\n\n#include "copy/copy.h"\n#include "lower/b.h"\n'
                           '#include "upper/a.h"\n',
        "rxadm/upper/a.h": "",
        "rxadm/lower/b.c": '#include "lower/b.h"\n#include "lower/c.h"\n',
        "rxadm/lower/b.h": "",
        "rxadm/lower/c.c": '#include "lower/c.h"\n',
        "rxadm/lower/c.h": "",
    }
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="ascii")
    return tmp_path / "rxadm"


def test_rxadm():
    assert lint() == (0, "")


def test_as_it_should_be(house):
    assert lint(str(house)) == (0, "")


@pytest.mark.parametrize("path, text, error", [
    ("lower/c.h", '#include "upper/a.h"\n',
     'lower/c.h:1: includes "upper/a.h": upper is above lower\n'),
    ("lower/b.c", '\n # include "upper/a.h"\n',
     'lower/b.c:2: includes "upper/a.h": upper is above lower\n'),
    ("upper/a.c", '#include "a.h"\n', 'upper/a.c:1: includes "a.h": must be ROOM/HEADER, or a '
     "folder beside this one and its header\n"),
    ("upper/a.c", '#include "../lower/b.h"\n', 'upper/a.c:1: includes "../lower/b.h": must be '
     "ROOM/HEADER, or a folder beside this one and its header\n"),
    *(("lower/c.h", f"{line}\n", 'lower/c.h:1: includes "upper/a.h": upper is above lower\n')
      for line in ('#include <upper/a.h>', '/**/ #include "upper/a.h"', '#import "upper/a.h"',
                   '#include/**/"upper/a.h"')),
    *(("lower/c.h", f'#include "{name}"\n', f'lower/c.h:1: includes "{name}": must be '
       "ROOM/HEADER, or a folder beside this one and its header\n")
      for name in ("lower/../upper/a.h", "copy/../rxadm/upper/a.h", "rxadm/upper/a.h")),
    ("upper/a.c", '#include "copy/none.h"\n', 'upper/a.c:1: includes "copy/none.h": must be '
     "ROOM/HEADER, or a folder beside this one and its header\n"),
    ("upper/a.c", '#include "lower/none.h"\n',
     'upper/a.c:1: includes "lower/none.h": there is no such header\n'),
    # By their headers, or by one of their sources.
    ("lower/c.h", '#include "lower/b.h"\n', "in a circle: lower/b -> lower/c -> lower/b\n"),
    ("lower/c.c", '#include "lower/b.h"\n', "in a circle: lower/b -> lower/c -> lower/b\n"),
    ("cellar/d.c", "", "cellar/d.c: is in none of the rooms upper, lower\n"),
    ("d.c", "", "d.c: is in none of the rooms upper, lower\n"),
    ("lower/deep/d.c", "", "lower/deep/d.c: is in none of the rooms upper, lower\n")])
def test_wrong(house, path, text, error):
    file = house / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="ascii")
    assert lint(str(house)) == (1, error)


def test_limits(house):
    (house / "lower/c.c").write_text("\n" * 501, encoding="ascii")
    assert lint(str(house)) == (1, "lower/c.c: has 501 lines; at most 500 are allowed\n")
    (house / "lower/c.c").write_text("\n" * 500, encoding="ascii")
    for number in range(68):
        (house / f"lower/d{number}.c").write_text("", encoding="ascii")
    assert lint(str(house)) == (0, "")
    (house / "lower/e.c").write_text("", encoding="ascii")
    assert lint(str(house)) == (1, "has 72 C files; at most 71 are allowed\n")
