# SPDX-License-Identifier: GPL-2.0-only
"""Cases of a test of which a short run tries only some."""

import pytest


def param(case, **options):
    """A case is a tuple of the values of all arguments, or the only value."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), **options)


def long(cases):
    """Cases for runs that take long only: they repeat others with another value."""
    return [param(case, marks=pytest.mark.long) for case in cases]


def sampled(cases, every=3):
    """Every third of the cases, or so, and all of them in runs that take long."""
    return [param(case, marks=pytest.mark.long if number % every else ())
            for number, case in enumerate(cases)]
