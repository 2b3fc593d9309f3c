# SPDX-License-Identifier: GPL-2.0-only
"""Errors of a guest."""


class GuestError(Exception):
    """The guest did not do its work; one line gives the reason."""
