# SPDX-License-Identifier: GPL-2.0-only
"""Programs that measure: their command lines, and what they print as numbers."""
