# SPDX-License-Identifier: GPL-2.0-only
"""Reports: their figures, their text and their pictures."""
