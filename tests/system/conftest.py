# SPDX-License-Identifier: GPL-2.0-only
"""One system for all tests, with one disk; each test continues where the last one ended."""

import pytest

from machine import SYSTEMS, Machine


def pytest_addoption(parser):
    parser.addoption("--system", choices=SYSTEMS, required=True)


def pytest_collection_modifyitems(config, items):
    """Select the tests that need to run on only one system."""
    items[:] = [item for item in items
                if config.getoption("--system") in (item.get_closest_marker("only") or
                                                    pytest.mark.only(*SYSTEMS).mark).args]


def pytest_configure(config):
    config.addinivalue_line("markers", "only(system): a test for some systems")


@pytest.fixture(scope="session")
def machine(request):
    return Machine(request.config.getoption("--system"))
