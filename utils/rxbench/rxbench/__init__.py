# SPDX-License-Identifier: GPL-2.0-only
"""Measure block devices and file systems, with medians and spreads."""

VERSION = "0.1.0"
