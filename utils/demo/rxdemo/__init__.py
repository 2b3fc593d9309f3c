# SPDX-License-Identifier: GPL-2.0-only
"""The demo: what `make demo` runs."""
