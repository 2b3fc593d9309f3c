# SPDX-License-Identifier: GPL-2.0-only
"""rxcp, and system calls that misbehave."""

import os
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


@pytest.fixture(scope="session")
def rxcp(tmp_path_factory):
    """The program, built from this tree."""
    folder = tmp_path_factory.mktemp("rxcp")
    subprocess.run(["make", "-s", "-C", f"{TOP}/utils/rxcp", f"O={folder}",
                    f"OBJ={folder}/obj/rxcp"], check=True)
    return folder / "rxcp"


@pytest.fixture
def preload(tmp_path):
    """Return a function that compiles C functions, and returns the environment to use them."""
    def compiled(text):
        (tmp_path / "preload.c").write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-o",
                        tmp_path / "preload.so", tmp_path / "preload.c"], check=True)
        return {**os.environ, "LD_PRELOAD": str(tmp_path / "preload.so")}
    return compiled
