# SPDX-License-Identifier: GPL-2.0-only
"""Access of the workloads to the machine."""
