#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# dracut's hook pre-udev: have the root disk awaited before the hook pre-mount. With
# systemd nobody else does that: only the mount itself waits for it.

case ${root-} in
block:*)
	wait_for_dev "${root#block:}" ;;
esac
