# SPDX-License-Identifier: GPL-2.0-only
"""What the functional tests use to reach rxd, rxcache and device-mapper."""
