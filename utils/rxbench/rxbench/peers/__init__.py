# SPDX-License-Identifier: GPL-2.0-only
"""Peers of rxd and rxcache: each set up, and taken down by its Undo."""


class Missing(Exception):
    """A peer that this machine does not have; why."""
