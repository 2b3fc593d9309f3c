# SPDX-License-Identifier: GPL-2.0-only
"""Programs that measure: their command lines, and their output as numbers."""
