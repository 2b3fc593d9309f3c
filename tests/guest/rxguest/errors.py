# SPDX-License-Identifier: GPL-2.0-only
"""What can go wrong with a guest."""


class GuestError(Exception):
    """The guest did not do its work; one line that tells why."""
