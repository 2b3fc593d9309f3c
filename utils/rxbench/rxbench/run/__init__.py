# SPDX-License-Identifier: GPL-2.0-only
"""Run what a plan says, and know nothing of what it means."""
