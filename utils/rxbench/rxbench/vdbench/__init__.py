# SPDX-License-Identifier: GPL-2.0-only
"""vdbench's parameter files, their jobs for fio, and vdbench's tables."""
