# SPDX-License-Identifier: GPL-2.0-only
"""Guests: QEMU, the guest's output, and what its kernel log must not contain."""
