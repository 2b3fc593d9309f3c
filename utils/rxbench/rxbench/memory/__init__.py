# SPDX-License-Identifier: GPL-2.0-only
"""For the workload memory: layout of the disk, ways to use the memory, what runs on them."""
