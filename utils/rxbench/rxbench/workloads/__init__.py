# SPDX-License-Identifier: GPL-2.0-only
"""The workloads: each defines its arguments, and makes a plan of them."""

from . import copy, dd, memory, peers, profile, replay, tree, vdbench

ALL = (profile, dd, vdbench, tree, copy, replay, peers, memory)
