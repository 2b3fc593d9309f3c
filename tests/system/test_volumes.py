# SPDX-License-Identifier: GPL-2.0-only
"""LVM and md on RAM disks: on a new machine, with the packages and modules of test_packages.py."""

import pytest

from machine import Machine


@pytest.fixture(scope="module", name="new")
def new_machine(request):
    return Machine(request.config.getoption("--system"))


def test_volumes(new):
    new.boot("volumes")


@pytest.mark.parametrize("boot", [1, 2])
def test_volumes_kept(new, boot):
    new.boot("volumes-kept", str(boot))
