# SPDX-License-Identifier: GPL-2.0-only
"""Execute a plan, without knowledge of what it measures."""
