# SPDX-License-Identifier: GPL-2.0-only
"""The completion of each shell offers all that --help prints."""

import os
import re
import subprocess

import pytest

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
SOURCE = os.path.join(TOP, "utils/rxadm")
OUT = os.path.join(TOP, "build/unit/rxadm")
RXADM = os.path.join(OUT, "rxadm")
SHELLS = ("bash", "zsh", "fish")


def output(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module", autouse=True)
def built():
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={OUT}", f"OBJ={OUT}/obj"], check=True,
                   timeout=1200)


def commands():
    listed = output(RXADM, "--help").split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def long_options(command):
    """Return the long options of --help: in its usage, and at the start of later lines."""
    usage, rest = output(RXADM, command, "--help").split("\n\n", 1)
    return set(re.findall(r"--[a-z-]+", usage)) | \
        set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", rest, re.MULTILINE))


def from_bash(*words):
    """Return what bash itself offers for the last word."""
    script = ('PATH="$1:$PATH"; . "$2"; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
              "compopt() { :; }\n"
              '_rxadm; printf "%s\\n" "${COMPREPLY[@]}"')
    return output("bash", "-c", script, "bash", OUT, os.path.join(SOURCE, "rxadm.bash"),
                  *words).split()


def from_zsh(command=None):
    """The words of the script's list of commands, or of a command's branch."""
    with open(os.path.join(SOURCE, "rxadm.zsh"), encoding="ascii") as file:
        text = file.read()
    if not command:
        listed = re.search(r"commands=\(\n(.*?)\n\t\)", text, re.DOTALL).group(1)
        return re.findall(r"^\t\t'(\w+):", listed, re.MULTILINE)
    branch = re.search(rf"^\t{command}\)\n(.*?);;$", text, re.DOTALL | re.MULTILINE).group(1)
    if "$table" in branch:
        branch += re.search(r"table=\(\n(.*?)\n\t\)", text, re.DOTALL).group(1)
    return re.findall(r"--[a-z-]+", branch)


def from_fish(command=None):
    with open(os.path.join(SOURCE, "rxadm.fish"), encoding="ascii") as file:
        lines = [line for line in file if line.startswith("complete -c rxadm ")]
    if not command:
        return [match.group(1) for line in lines
                if (match := re.search(r"-n __fish_use_subcommand -a (\w+)", line))]
    offered = []
    for line in lines:
        of = re.search(r"-n '__rxadm_of ([^']*)'", line)
        name = re.search(r" -l ([a-z-]+)", line)
        if of and name and command in of.group(1).split():
            offered.append("--" + name.group(1))
    return offered


def offered_commands(shell):
    return {"bash": lambda: from_bash("rxadm", ""), "zsh": from_zsh, "fish": from_fish}[shell]()


def offered_options(shell, command):
    if shell == "bash":
        return from_bash("rxadm", command, "--") + from_bash("rxadm", command, "x", "--")
    return {"zsh": from_zsh, "fish": from_fish}[shell](command)


@pytest.mark.parametrize("shell", SHELLS)
def test_commands(shell):
    offered = [word for word in offered_commands(shell) if not word.startswith("-")]
    assert len(commands()) > 15
    assert sorted(offered) == sorted(commands())


@pytest.mark.parametrize("shell", SHELLS)
def test_options(shell):
    """All existing options are offered, and no others."""
    for command in commands():
        wanted = long_options(command)
        assert "--help" in wanted
        assert set(offered_options(shell, command)) == wanted, command


@pytest.mark.parametrize("shell", SHELLS)
def test_script_is_the_file(shell):
    with open(os.path.join(SOURCE, f"rxadm.{shell}"), encoding="ascii") as file:
        assert output(RXADM, "completion", shell) == file.read()


def test_verbose():
    """It comes before the command."""
    assert "--verbose" in from_bash("rxadm", "--")
    for option in "-v", "--verbose":
        assert from_bash("rxadm", option, "uncl") == []
        assert from_bash("rxadm", option, "unm") == ["unmap"]
        assert from_bash("rxadm", option, "map", "--mode", "writet") == ["writethrough"]


def test_columns():
    """Those of the table that the options select, also after others of the list."""
    assert from_bash("rxadm", "status", "-o", "F") == ["FILLS"]
    assert from_bash("rxadm", "list", "-o", "UUID,PA") == ["UUID,PARENT"]
    for latency in "--latency", "--lat":
        assert from_bash("rxadm", "status", latency, "-o", "F") == ["FROM_NS"]
        assert from_bash("rxadm", "status", "one", latency, "--output", "NAME,P") == \
            ["NAME,PERCENT"]


def test_bash_script_is_sound():
    subprocess.run(["bash", "-n", os.path.join(SOURCE, "rxadm.bash")], check=True, timeout=60)


@pytest.mark.parametrize("bad", [
    "$(touch${IFS}@)", "`touch${IFS}@`", "${x:=$(touch${IFS}@)}", "a$(touch${IFS}@)", "a;b", "~",
    "*", "/*", "-a", "--force", "a|b", "a&b", "a\\tb", "'a", "\"a", "a\\x20b"])
def test_bash_runs_nothing(tmp_path, bad):
    """Names in files, and of devices, are neither expanded nor executed."""
    mark = tmp_path / "mark"
    bad = bad.replace("@", str(mark))
    # Replaces the files with sections, and the existing caches.
    script = ('. "$1"; bad=$2; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
              'cat() { printf "[ramdisk %s]\\n[ramdisk a b]\\n" "$bad"\n'
              '  printf "[cache one.a-2_B] # c\\n [ ramdisk  two ]\\n"; }\n'
              'rxadm() { printf "%s\\nvg-one\\n" "$bad"; }\n'
              '_rxadm; printf "%s\\n" "${COMPREPLY[@]}"')
    for words, good in (
            (("apply", ""), ["cache/one.a-2_B", "ramdisk/two"]),
            (("unmap", ""), ["vg-one"]), (("export", ""), ["/dev/mapper/vg-one"])):
        result = subprocess.run(["bash", "-c", script, "bash", os.path.join(SOURCE, "rxadm.bash"),
                                 bad, "rxadm", *words], check=True, capture_output=True, text=True,
                                cwd=tmp_path, timeout=60)
        offered = [word for word in result.stdout.splitlines()
                   if not word.startswith(("--", "/dev/rxd"))]
        assert (offered, result.stderr) == (good, ""), words
        assert not mark.exists()


@pytest.mark.parametrize("arguments, word", [((), "bash|zsh|fish"), (("csh",), "'csh'"),
                                             (("bash", "zsh"), "'zsh'")])
def test_bad_shell(arguments, word):
    result = subprocess.run([RXADM, "completion", *arguments], capture_output=True, text=True,
                            timeout=60, check=False)
    assert result.returncode == 1 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and word in result.stderr
