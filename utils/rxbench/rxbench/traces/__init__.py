# SPDX-License-Identifier: GPL-2.0-only
"""Recorded block traces."""
