# SPDX-License-Identifier: GPL-2.0-only
"""tests/lint/phrases finds all phrases of its list, in any wrapping."""

import importlib.machinery
import importlib.util
import os
import subprocess

import pytest

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lint/phrases")
LOADER = importlib.machinery.SourceFileLoader("phrases", SCRIPT)
phrases = importlib.util.module_from_spec(importlib.util.spec_from_loader("phrases", LOADER))
LOADER.exec_module(phrases)

WRAPPED = {
    "one line": "{} {} {}\n",
    "capitals": "{} {} {}\n",
    "a comment": "/*\n * {} {}\n * {}\n */\n",
    "a script": "# {}\n# {}\n# {}\n",
    "a string": '\tputs("{} "\n\t     "{} {}");\n',
    "markup": "*{}* `{}`\n\t_{}_\n",
    "indented": ":  {}\n   {}\n   {}\n",
}


def run(path):
    return subprocess.run([SCRIPT, path], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("phrase", [phrase for phrase, _ in phrases.PHRASES])
@pytest.mark.parametrize("how", WRAPPED)
def test_finds_each_phrase(phrase, how):
    first, *middle, last = phrase.split()
    text = "First line.\n\n" + WRAPPED[how].format(first, " ".join(middle), last)
    found = phrases.findings(text.upper() if how == "capitals" else text)
    assert [name for _, name, _ in found] == [phrase]


def test_names_file_and_line(tmp_path):
    phrase = phrases.PHRASES[0][0]
    (tmp_path / "text").write_text(f"One.\nTwo {phrase}.\n")
    result = run(tmp_path / "text")
    assert result.returncode == 1
    assert f"text:2: '{phrase}'" in result.stdout


def test_nothing_else_is_found(tmp_path):
    (tmp_path / "text").write_text("memory is short\n")
    (tmp_path / "binary").write_bytes(b"\0" + phrases.PHRASES[0][0].encode())
    # A blank line separates two sentences.
    first, *rest = phrases.PHRASES[0][0].split()
    (tmp_path / "apart").write_text(f"{first}\n\n{' '.join(rest)}\n")
    result = run(tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
