# SPDX-License-Identifier: GPL-2.0-only
"""What the workloads need of the machine."""
