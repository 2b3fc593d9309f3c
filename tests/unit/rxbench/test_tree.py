# SPDX-License-Identifier: GPL-2.0-only
"""The workload tree on a directory: permissions, and commands in the tree."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from rxbench import cli

NOBODY = 65534


@pytest.fixture
def room():
    """A directory that all users may write to."""
    path = tempfile.mkdtemp(prefix="rxbench-test-", dir="/var/tmp")
    os.chmod(path, 0o777)
    os.makedirs(f"{path}/source/project-1.0")
    with open(f"{path}/source/project-1.0/Makefile", "w", encoding="ascii") as file:
        file.write("all:\n\tpwd > $(PROOF)\n\t@yes | head -n 100000\n")
    subprocess.run(["tar", "-czf", f"{path}/one.tar.gz", "-C", f"{path}/source", "project-1.0"],
                   check=True)
    subprocess.run(["tar", "-czf", f"{path}/flat.tar.gz", "-C", f"{path}/source/project-1.0",
                    "Makefile"], check=True)
    yield path
    shutil.rmtree(path)


def run_as(user, monkeypatch, room, *args):
    """Return the exit code of rxbench, its output, and its report."""
    argv = ["rxbench", "tree", room, *args, "--no-html", "--quiet", "--repeats", "1", "--output",
            f"{room}/out"]
    monkeypatch.setattr("sys.argv", argv)
    child = os.fork()
    if not child:
        with open(f"{room}/said", "w", encoding="utf-8", buffering=1) as said:
            sys.stdout = sys.stderr = said
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            try:
                os._exit(cli.main())
            except SystemExit as error:
                os._exit(error.code)
            finally:
                os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(f"{room}/said", encoding="utf-8") as said:
        text = said.read()
    report = None
    if os.path.exists(f"{room}/out/report.json"):
        with open(f"{room}/out/report.json", encoding="utf-8") as file:
            report = json.load(file)
    return code, text, report


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.mark.machine
@needs_root
def test_a_directory_needs_no_root(monkeypatch, room):
    code, said, report = run_as(NOBODY, monkeypatch, room, "--tarball", f"{room}/one.tar.gz")
    assert code == 0, said
    assert report["complete"] and len(report["results"]) == 8
    assert any("Not run as root" in note for note in report["notes"])
    assert sorted(os.listdir(room)) == ["flat.tar.gz", "one.tar.gz", "out", "said", "source"]


@needs_root
@pytest.mark.parametrize("more", [["/dev/null"], ["rxd:16m"], ["--destroy", "/dev/null"]])
def test_what_is_more_does(monkeypatch, room, more):
    code, said, report = run_as(NOBODY, monkeypatch, room, *more, "--tarball",
                                f"{room}/one.tar.gz")
    assert code == cli.USAGE and said.startswith("rxbench: this needs root") and report is None


@pytest.mark.machine
@pytest.mark.parametrize("tarball, folder", [("one", "tree/project-1.0"), ("flat", "tree")])
def test_a_command_in_the_tree(monkeypatch, room, tarball, folder):
    code, said, report = run_as(0, monkeypatch, room, "--tarball", f"{room}/{tarball}.tar.gz",
                                "--inside", f"make -j20 PROOF={room}/proof")
    assert code == 0, said
    assert [case["name"] for case in report["cases"]][-1] == "inside"
    result = report["results"][-1]
    assert result["case"] == "inside" and result["metrics"]["real_s"] > 0
    assert len(report["results"]) == 9
    with open(f"{room}/proof", encoding="utf-8") as file:
        assert file.read().strip().endswith(f"/{folder}")


@pytest.mark.machine
def test_a_command_that_fails(monkeypatch, room):
    """A failed command does not prevent the others."""
    code, said, report = run_as(0, monkeypatch, room, "--tarball", f"{room}/one.tar.gz",
                                "--inside", "echo it is broken >&2; exit 3")
    assert code == cli.FAILED and "it is broken" in said and len(report["results"]) == 8
    code, said, report = run_as(0, monkeypatch, room, "--tarball", f"{room}/one.tar.gz",
                                "--inside", " ")
    assert code == cli.USAGE and "--inside: empty" in said
