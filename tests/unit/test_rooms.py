# SPDX-License-Identifier: GPL-2.0-only
"""The faults that tests/lint/rooms finds in includes and calls."""

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
    """Two programs, one of two rooms, and two libraries."""
    files = {
        "rooms": "# from the top down\nsmall: base\nrxadm: image base\nimage: base\nbase:\n",
        "small/m.c": '#include "m.h"\n#include "../base/e.h"\n',
        "small/m.h": "",
        "image/i.c": '#include "base/e.h"\n#include "image/i.h"\n',
        "image/i.h": "",
        "base/e.h": "",
        "rxadm/rooms": "# from the top down\nupper\nlower\n",
        "rxadm/upper/a.c": '#include <stdio.h>\n\n#include "image/i.h"\n#include "lower/b.h"\n'
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
    return tmp_path


def test_utils():
    assert lint() == (0, "")


def test_as_it_should_be(house):
    assert lint(str(house)) == (0, "")


MUST = "must be ROOM/HEADER, or FOLDER/HEADER of a library"
NONE = "is in none of the rooms upper, lower\n"


@pytest.mark.parametrize("path, text, error", [
    ("rxadm/lower/c.h", '#include "upper/a.h"\n',
     'rxadm/lower/c.h:1: includes "upper/a.h": upper is above lower\n'),
    ("rxadm/lower/b.c", '\n # include "upper/a.h"\n',
     'rxadm/lower/b.c:2: includes "upper/a.h": upper is above lower\n'),
    ("rxadm/upper/a.c", '#include "a.h"\n', f'rxadm/upper/a.c:1: includes "a.h": {MUST}\n'),
    ("rxadm/upper/a.c", '#include "../lower/b.h"\n',
     f'rxadm/upper/a.c:1: includes "../lower/b.h": {MUST}\n'),
    *(("rxadm/lower/c.h", f"{line}\n",
       'rxadm/lower/c.h:1: includes "upper/a.h": upper is above lower\n')
      for line in ('#include <upper/a.h>', '/**/ #include "upper/a.h"', '#import "upper/a.h"',
                   '#include/**/"upper/a.h"')),
    *(("rxadm/lower/c.h", f'#include "{name}"\n',
       f'rxadm/lower/c.h:1: includes "{name}": {MUST}\n')
      for name in ("lower/../upper/a.h", "base/../rxadm/upper/a.h", "rxadm/upper/a.h",
                   "image/none.h")),
    ("rxadm/upper/a.c", '#include "lower/none.h"\n',
     'rxadm/upper/a.c:1: includes "lower/none.h": there is no such header\n'),
    # A library includes neither a program, by whatever way, nor a library above it.
    ("image/i.h", '#include "lower/b.h"\n', f'image/i.h:1: includes "lower/b.h": {MUST}\n'),
    ("image/i.h", '#include "../rxadm/lower/b.h"\n',
     'image/i.h:1: includes "../rxadm/lower/b.h": image may not include rxadm\n'),
    ("base/e.h", '#include "image/i.h"\n',
     'base/e.h:1: includes "image/i.h": base may not include image\n'),
    ("base/e.h", '#include <image/i.h>\n',
     'base/e.h:1: includes "image/i.h": base may not include image\n'),
    # Nor a program a library below it that is not in its list.
    ("small/m.c", '#include "../image/i.h"\n',
     'small/m.c:1: includes "../image/i.h": small may not include image\n'),
    ("rooms", "base:\nsmall: base\nrxadm: image\nimage:\n", "rooms: base is not below small\n"
     'image/i.c:1: includes "base/e.h": image may not include base\n'),
    ("rxadm/rooms", "upper\nlower\nimage\n", "rxadm/rooms: image is also a folder of all\n"
     'rxadm/upper/a.c:3: includes "image/i.h": there is no such header\n'),
    # By their headers, or by one of their sources.
    ("rxadm/lower/c.h", '#include "lower/b.h"\n',
     "in a circle: rxadm/lower/b -> rxadm/lower/c -> rxadm/lower/b\n"),
    ("rxadm/lower/c.c", '#include "lower/b.h"\n',
     "in a circle: rxadm/lower/b -> rxadm/lower/c -> rxadm/lower/b\n"),
    ("rxadm/cellar/d.c", "", f"rxadm/cellar/d.c: {NONE}"),
    ("rxadm/d.c", "", f"rxadm/d.c: {NONE}"),
    ("rxadm/lower/deep/d.c", "", f"rxadm/lower/deep/d.c: {NONE}"),
    ("image/deep/d.c", "", "image/deep/d.c: must not be in a folder of its own\n"),
    ("new/d.c", "", "new/d.c: is in none of the folders small, rxadm, image, base\n")])
def test_wrong(house, path, text, error):
    file = house / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="ascii")
    assert lint(str(house)) == (1, error)


@pytest.mark.parametrize("path, text, error", [
    # Its declaration can be anywhere.
    ("rxadm/lower/c.c", "int f(void)\n{\n\treturn high(1);\n}\n",
     "rxadm/lower/c.c:4: uses high() of rxadm/upper/a.c\n"),
    ("rxadm/lower/c.h", "/* Of the\n * room above. */\nint high(int a);\n",
     "rxadm/lower/c.h:3: uses high() of rxadm/upper/a.c\n"),
    ("base/e.h", "int high(int a);\n", "base/e.h:1: uses high() of rxadm/upper/a.c\n"),
    ("small/m.c", "int i = middle();\n", "small/m.c:3: uses middle() of image/i.c\n"),
    ("image/i.c", "int i = low();\n", "image/i.c:4: uses low() of rxadm/lower/b.c\n"),
    ("rxadm/upper/a.c", "int i = low() + middle();\n", None),
    # Not that function.
    ("rxadm/lower/c.c", "/* high() */\nint i = disk->high(1) + disk.high(2) + high;\n", None),
    ("rxadm/lower/c.c", 'const char *text = "high()", c = \'"\', *d = "high()";\n', None),
    ("rxadm/lower/c.c", "static int high(int a)\n{\n\treturn a;\n}\nint i = high(1);\n", None),
    ("image/i.c", "int i = hidden();\n", None),
    # Programs may have functions of the same name.
    ("small/m.c", "int high(int a)\n{\n\treturn a;\n}\n", None),
    # The header of one of them declares what is called.
    *(("rxadm/lower/b.c", f"int back(void)\n{{\n\treturn {call}(1);\n}}\n",
       "in a circle of calls: rxadm/lower/b -> rxadm/lower/e -> rxadm/lower/b\n")
      for call in ("other", "(*other)")),
    ("rxadm/lower/b.c", "int back(void)\n{\n\treturn e.other + e->other;\n}\n", None)])
def test_calls(house, path, text, error):
    for name, line in (("upper/a", "int high(int a,\n\t int b)"), ("lower/b", "char *low(void)"),
                       ("upper/z", "static int hidden(void)"), ("lower/e", "int other(int a)")):
        text_of = f"{line}\n{{\n\treturn {'back()' if name == 'lower/e' else 0};\n}}\n"
        (house / f"rxadm/{name}.c").write_text(text_of, encoding="ascii")
    (house / "image/i.c").write_text("struct a *middle(void)\n{\n}\n", encoding="ascii")
    with open(house / path, "a", encoding="ascii") as file:
        file.write(text)
    assert lint(str(house)) == ((1, error) if error else (0, ""))


def test_limits(house):
    (house / "image/i.c").write_text("\n" * 501, encoding="ascii")
    assert lint(str(house)) == (1, "image/i.c: has 501 lines; at most 500 are allowed\n")
    (house / "image/i.c").write_text("\n" * 500, encoding="ascii")
    for number in range(42):
        (house / f"rxadm/lower/d{number}.c").write_text("", encoding="ascii")
    assert lint(str(house)) == (0, "")
    (house / "rxadm/lower/e.c").write_text("", encoding="ascii")
    assert lint(str(house)) == (1, "rxadm: has 46 C files; at most 45 are allowed\n")
