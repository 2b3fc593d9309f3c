# SPDX-License-Identifier: GPL-2.0-only
"""The functions of the jobs in tests/bench/guest: what they measure, beside what."""

import os
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
GUEST = f"{TOP}/tests/bench/guest"
# They print what they were called with, instead of doing anything.
STUBS = """
for name in load job map unmap rxdctl fill bare_on bare_off brd_on brd_off null_on null_off \\
            no_iostats rmmod; do
    eval "$name() { echo $name \\"\\$@\\"; }"
done
measure() { echo "measure $*"; }
note() { echo "note $*"; }
"""


@pytest.fixture(name="call")
def _call(tmp_path):
    def call(job, script, **settings):
        """Call functions of a job. Return the lines that it prints."""
        settings = {"KIND": "smp", "REPEATS": 1, "MS": 250, "SIZE": 2**29, "WHERE": "test",
                    "OUT": tmp_path, "MODULES": tmp_path} | settings
        path = tmp_path / "settings"
        path.write_text("".join(f'{key}="{value}"\n' for key, value in settings.items()))
        done = subprocess.run(["sh", "-c", f"set -u; . ./{job}\n{STUBS}\n{script}"], cwd=GUEST,
                              env=os.environ | {"BENCH_SETTINGS": str(path)}, text=True,
                              capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()
    return call


def same_blocks(lines):
    found = []
    for line in lines:
        if line.startswith("measure 4k-same-2 "):
            words = line.split()
            assert words[4:8] == ["op=read", "size=4K", "span=64K", "ms=250"]
            found.append((words[2], *words[8:]))
    return found


def two_of(subject, dev):
    return [(subject, f"dev={dev}", f"threads={threads}") for threads in (1, 2)]


def test_same_blocks_of_caches(call):
    """Beside copies, which limit what two threads can gain."""
    lines = call("rxcache", "make_all() { echo make; }; drop_all() { echo drop; }; two_threads",
                 ROWS=" 4k-same-2 ", PROFILE="", PEER="")
    assert same_blocks(lines) == [*two_of("memcpy", "memcpy"), *two_of("move", "move"),
                                  *two_of("brd", "/dev/ram0"),
                                  *two_of("rxcache", "/dev/mapper/bench-rxcache")]
    assert (lines[0], lines[-1], len(lines)) == ("make", "drop", 10)


def test_same_blocks_of_disks(call):
    lines = call("rxd", "all='brd rxd'; subjects='rxd rxd-64k'; two_threads",
                 ROWS=" 4k-same-2 ", PROFILE="", PEER="")
    assert same_blocks(lines) == [*two_of("memcpy", "memcpy"), *two_of("move", "move"),
                                  *two_of("brd", "/dev/ram0"), *two_of("rxd", "/dev/rxd0"),
                                  *two_of("rxd-64k", "/dev/rxd1")]
    assert lines[-2:] == ["brd_off", "rxdctl remove 0"]


def test_rows_apart_only(call):
    """Without the row, its blocks are not read."""
    lines = call("rxd", "all='brd rxd'; subjects=rxd; two_threads", ROWS=" 4k-read-2 ",
                 PROFILE="", PEER="")
    assert not same_blocks(lines) and "measure 4k-read-2 rxd 1 " in "\n".join(lines)
    assert not call("rxd", "all='brd rxd'; subjects=rxd; two_threads", ROWS=" discard-reader ",
                    PROFILE="", PEER="")


@pytest.mark.parametrize("peer, compared, disks", [
    ("", "dm-cache bcache rapiddisk", {"ram0", "ram4", "ram7", "rd0"}),
    ("dm-cache", "dm-cache", {"ram0", "ram4"}),
    ("bcache", "bcache", {"ram0", "ram4"}),
    ("rapiddisk", "rapiddisk", {"ram0", "ram4", "ram7", "rd0"}),
])
def test_peers(call, tmp_path, peer, compared, disks):
    """One peer, or all of them: only those that are compared take memory."""
    (tmp_path / "rapiddisk-cache.ko").touch()
    lines = call("rxcache", """
        for name in make_dm_cache make_bcache make_rapiddisk make_rxcache drop_bcache \\
                    drop_rapiddisk note_hits; do
            eval "$name() { echo $name \\"\\$@\\"; }"
        done
        make_all; echo "all $all"; drop_all""", ROWS=" 4k-read ", PROFILE="", PEER=peer)
    names = compared.split()
    made = {line.strip() for line in lines if line.startswith("make_")}
    assert made == {"make_rxcache", *("make_" + name.replace("-", "_") for name in names)}
    assert ("all bare bare-linear memcpy move flat-linear hash-linear brd linear "
            f"{compared} rxcache") in lines
    assert {line.split()[1] for line in lines if line.startswith("fill")} == {
        f"/dev/{disk}" for disk in disks if disk != "rd0"}
    assert {line.strip() for line in lines if line.startswith("drop_")} == {
        f"drop_{name}" for name in names if name != "dm-cache"}
    assert ("unmap dm-cache" in lines) == ("note_hits dm-cache 5 6" in lines) == (
        "dm-cache" in names)
    assert {f"unmap {name}" for name in ("linear", "bare-linear", "flat-linear", "hash-linear",
                                         "rxcache")} < {*lines}


def test_peer_that_was_not_built(call):
    lines = call("rxcache", "choose_all; echo $all", ROWS="", PROFILE="", PEER="")
    assert lines == ["bare bare-linear memcpy move flat-linear hash-linear brd linear dm-cache "
                     "bcache rxcache"]


def test_turns(call):
    """Each disk is the first of a round in turn."""
    lines = call("rxd", "all='bare brd rxd'; compare '' 1 4k-read", ROWS=" 4k-read ", PROFILE="",
                 PEER="")
    assert [line.split()[2] for line in lines] == [
        "bare", "brd", "rxd", "brd", "rxd", "bare", "rxd", "bare", "brd", "bare", "brd", "rxd"]
