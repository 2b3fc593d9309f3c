# SPDX-License-Identifier: GPL-2.0-only
"""Cases of a test of which a short run tries only some."""

import pytest


def sampled(cases):
    """Every third of the cases, and all of them in runs that take long."""
    return [case if not number % 3 else pytest.param(*case, marks=pytest.mark.long)
            for number, case in enumerate(cases)]
