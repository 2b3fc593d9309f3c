#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# dracut's pre-udev hook: make dracut wait for the root disk before the pre-mount hook. With
# systemd, only the mount itself waits for it otherwise.

case ${root-} in
block:*)
	wait_for_dev "${root#block:}" ;;
esac
