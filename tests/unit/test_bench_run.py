# SPDX-License-Identifier: GPL-2.0-only
"""tests/bench/run: its options, and what it does between the boots."""

import os
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
RUN = f"{TOP}/tests/bench/run"


def functions(script):
    """Run a script that has the functions of tests/bench/run. Return what it prints."""
    done = subprocess.run(["bash", "-c", f". {RUN}\n{script}"], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("arguments, message", [
    ("--pages tiny", "--pages 'tiny': must be huge or small"),
    ("--pages small --host", "--pages 'small': not with --host"),
    ("--size 1G", "--size '1G': must be 512M or 2G"),
])
def test_wrong_arguments(arguments, message):
    done = subprocess.run([RUN, "rxd", *arguments.split()], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"bench: {message}\n")


@pytest.mark.parametrize("arguments, conditions", [
    ("rxd", "disk=536870912 range=536870912 pages=huge"),
    ("rxd --size 2G", "disk=2147483648 range=2147483648 pages=huge"),
    ("rxcache", "disk=1073741824 range=536870912 pages=huge"),
    ("rxcache --size 2G --pages huge", "disk=4294967296 range=2147483648 pages=huge"),
    ("rxd --host", "disk=536870912 range=536870912 pages=huge"),
])
def test_conditions(tmp_path, arguments, conditions):
    assert functions(f"""
        build={tmp_path}
        mount() {{ :; }}
        umount() {{ :; }}
        parse {arguments}
        mount_guest_memory
        note_conditions""") == conditions + "\n"


def test_small_pages(tmp_path):
    """Nothing is mounted, and the memory of the guest is a file elsewhere."""
    assert functions(f"""
        build={tmp_path}
        mount() {{ echo mounted; }}
        parse rxd --pages small
        mount_guest_memory
        note_conditions
        echo "${{guest_memory-no}}" """) == (
            "disk=536870912 range=536870912 pages=small\nno\n")


def test_huge_pages_are_not_to_be_had(tmp_path):
    """The table does not say that there were any."""
    assert functions(f"""
        build={tmp_path}
        mount() {{ return 1; }}
        parse rxd
        mount_guest_memory 2>/dev/null
        note_conditions""") == "disk=536870912 range=536870912 pages=small\n"
