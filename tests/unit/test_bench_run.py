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


BOOTS = """
    measure_in_guest() { echo "$kind results.$number${peer:+.$peer}:" "$@"; }
    measure_boot "$only" 2>/dev/null
"""


def boots(tmp_path, arguments, modules=True):
    """Return what each boot of a round measures."""
    for kind in ("plain", "smp"):
        folder = tmp_path / kind / "rapiddisk/src"
        folder.mkdir(parents=True)
        if modules:
            (folder / "rapiddisk-cache.ko").touch()
    return functions(f"""
        parse {arguments}
        build={tmp_path} kinds=(plain smp) number=1
        {BOOTS}""").splitlines()


def test_all_peers_in_one_boot(tmp_path):
    assert boots(tmp_path, "rxcache --only 4k-read,miss,4k-same-2") == [
        "plain results.1: 4k-read miss", "smp results.1: 4k-same-2"]


def test_one_peer_a_boot(tmp_path):
    """Disks of 2 GiB of all peers do not fit into a guest. Rows without peers boot once."""
    assert boots(tmp_path, "rxcache --size 2G --only 4k-read,1m-write,miss,4k-same-2") == [
        "plain results.1.dm-cache: 4k-read 1m-write miss",
        "plain results.1.bcache: 4k-read 1m-write",
        "plain results.1.rapiddisk: 4k-read 1m-write",
        "smp results.1.dm-cache: 4k-same-2"]


def test_peer_does_not_build(tmp_path):
    assert boots(tmp_path, "rxcache --size 2G --only 4k-read", modules=False) == [
        "plain results.1.dm-cache: 4k-read", "plain results.1.bcache: 4k-read"]


def test_disks_have_no_peers(tmp_path):
    assert boots(tmp_path, "rxd --size 2G --only 4k-read") == ["plain results.1: 4k-read"]


@pytest.mark.parametrize("arguments, subject, peer", [
    ("rxcache --size 2G", "bcache", "bcache"),
    ("rxcache --size 2G", "rxcache", "dm-cache"),
    ("rxcache", "bcache", ""),
])
def test_profile_has_its_peer(arguments, subject, peer):
    assert f"\nPEER={peer}\n" in functions(f"""
        parse {arguments} --only 4k-read --profile {subject}
        kind=plain
        choose_peer
        settings plain 4k-read /out /modules""")
