# SPDX-License-Identifier: GPL-2.0-only
"""What the tools say about unknown columns and options, and about missing arguments."""

import os
import re
import subprocess

import pytest

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


@pytest.fixture(name="said", scope="module")
def built():
    """Return a function that runs a tool, which must fail, and returns its message."""
    for tool in ("rxadm", "rxcp"):
        out = os.path.join(TOP, "build/unit", tool)
        subprocess.run(["make", "-s", "-C", os.path.join(TOP, "utils", tool), f"O={out}",
                        f"OBJ={out}/obj"], check=True, timeout=1200)

    def run(tool, *args):
        result = subprocess.run([os.path.join(TOP, "build/unit", tool, tool), *args], check=False,
                                capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stdout) == (1, "")
        return result.stderr

    return run


@pytest.mark.parametrize("list_of_columns, name, meant", [
    ("SISE", "SISE", "SIZE"), ("sise", "sise", "SIZE"), ("+SIZE,DEVCIE", "DEVCIE", "DEVICE"),
    ("LOG", "LOG", "LOGICAL_BLOCK_SIZE"), ("max-used", "max-used", "MAX_USED"),
    ("COLOUR", "COLOUR", None), ("", "", None)])
def test_column(said, list_of_columns, name, meant):
    told = said("rxadm", "list", "-o", list_of_columns)
    suggestion = f" did you mean '{meant}'?" if meant else ""
    assert told.startswith(f"rxadm: list: unknown column '{name}';{suggestion} there are DEVICE, ")


@pytest.mark.parametrize("option, kind", [
    ("--s", "ambiguous"), ("--s=always", "ambiguous"), ("--ver", "ambiguous"),
    ("--nonsense", "unknown"), ("--sparsely", "unknown"), ("--sparsely=s", "unknown")])
def test_rxcp(said, option, kind):
    assert said("rxcp", option, "a", "b") == \
        f"rxcp: {kind} option '{option}'; --help lists all\n"


@pytest.mark.parametrize("option", ["--latancy", "--latenyc", "--ltency"])
def test_latency_of_status(said, option):
    assert said("rxadm", "status", option) == \
        f"rxadm: status: unknown option '{option}'; did you mean '--latency'? --help lists all\n"


@pytest.mark.parametrize("option", ["--latency", "--lat", "--l"])
@pytest.mark.usefixtures("said")
def test_table_of_latency(option):
    """It may be abbreviated, as other options may, and selects the columns."""
    for args in (option, "--help"), ("--raw", "one", option, "--help"):
        assert "UPTO_NS" in text("rxadm", "status", *args)
    for args in ("--", option), ("-o", "NAME"):
        assert "UPTO_NS" not in text("rxadm", "status", "--help", *args)


def text(tool, *args):
    return subprocess.run([os.path.join(TOP, "build/unit", tool, tool), *args], check=True,
                          capture_output=True, text=True, timeout=60).stdout


def test_usage_in_errors(said):
    """It is the first line of the usage that --help prints."""
    listed = text("rxadm", "--help").split("Commands:\n")[1].split("\n\n")[0]
    seen = 0
    for line in listed.splitlines():
        command = line.split()[0]
        usage = text("rxadm", command, "--help").splitlines()[0].lower()
        for args in (), ("x",) * 9, ("--all", "x", "x"), ("--all",):
            result = subprocess.run([os.path.join(TOP, "build/unit/rxadm/rxadm"), command, *args],
                                    check=False, capture_output=True, text=True, timeout=60)
            told = re.search("usage: .*", result.stderr)
            if told:
                assert told.group().lower() == usage, args
                seen += 1
    assert seen > 25


@pytest.mark.usefixtures("said")
def test_output_that_failed_before(preload):
    """There is no error of the system any more: "Success" is no reason."""
    environment = preload("int ferror(void *file) { return 1; }")
    result = subprocess.run([os.path.join(TOP, "build/unit/rxcp/rxcp"), "--version"], check=False,
                            capture_output=True, text=True, timeout=60, env=environment)
    assert result.returncode
    assert result.stderr.endswith("cannot write the output: Input/output error\n")
