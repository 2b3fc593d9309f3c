# SPDX-License-Identifier: GPL-2.0-only
"""vdbench's parameter files, its jobs as fio's, and its tables."""
