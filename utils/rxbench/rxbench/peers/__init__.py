# SPDX-License-Identifier: GPL-2.0-only
"""Peers of rxd and rxcache: each is set up here, and removed by its Undo."""


class Missing(Exception):
    """This machine lacks a peer; the message gives the reason."""
