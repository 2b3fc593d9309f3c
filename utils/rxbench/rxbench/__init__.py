# SPDX-License-Identifier: GPL-2.0-only
"""Measure block devices and file systems so that the figures can be believed."""

VERSION = "0.1.0"
