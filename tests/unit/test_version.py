# SPDX-License-Identifier: GPL-2.0-only
"""All places with the version have the same one."""

import os
import re

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def found(path, pattern):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return re.search(pattern, file.read(), re.MULTILINE).group(1)


@pytest.mark.parametrize("path, pattern", [
    ("utils/rxadm/Makefile", r"^VERSION\s*\?= (\S+)$"),
    ("packaging/debian/changelog", r"^rxd \((\S+)-\d+\) "),
    ("packaging/rpm/rxd.spec", r"^Version:\s+(\S+)$"),
    ("packaging/rpm/rxd.spec", r"^\* .* - (\S+)-\d+$"),
])
def test_version(path, pattern):
    assert found(path, pattern) == found("Makefile", r"^VERSION\s*\?= (\S+)$")
