# SPDX-License-Identifier: GPL-2.0-only
"""Access of the functional tests to rxd, rxcache and device-mapper."""
