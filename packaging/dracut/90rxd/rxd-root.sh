#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# dracut's pre-mount hook: mount the cached disk instead of the root disk, which exists and is
# not mounted yet.

rxd_use()
{
	root=block:$1
	[ -n "$DRACUT_SYSTEMD" ] || return
	cd /run/systemd/system || return
	mkdir -p sysroot.mount.d systemd-fsck-root.service.d
	printf '[Mount]\nWhat=%s\n' "$1" >sysroot.mount.d/rxd.conf
	printf '[Service]\nExecStart=\nExecStart=/usr/lib/systemd/systemd-fsck %s\n' "$1" \
		>systemd-fsck-root.service.d/rxd.conf
	cd /
	systemctl --quiet daemon-reload
}

case ${root-} in
block:*)
	if rxd_cached=$(/usr/lib/rxd/root-cache "$(readlink -f "${root#block:}")"); then
		rxd_use "$rxd_cached"
	fi ;;
esac
