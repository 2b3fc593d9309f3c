# SPDX-License-Identifier: GPL-2.0-only
"""Guests: their QEMU, what they say, and what their kernel log must not say."""
