#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Add the root disk cache to the initramfs, if /etc/default/rxd enables it.

check()
{
	local RXD_ROOT_CACHE=

	require_binaries rxadm || return 1
	# shellcheck disable=SC1090,SC1091
	[[ ! -r "${dracutsysrootdir-}/etc/default/rxd" ]] ||
		. "${dracutsysrootdir-}/etc/default/rxd"
	[[ $RXD_ROOT_CACHE ]] || return 255
}

depends()
{
	echo dm
}

# A kernel without the modules boots without the cache, and logs a warning.
installkernel()
{
	hostonly='' instmods rxd dm-rxcache
}

install()
{
	inst_multiple rxadm modprobe readlink
	inst_script /usr/lib/rxd/root-cache
	inst_simple /etc/default/rxd
	inst_rules 60-rxd.rules
	inst_hook pre-udev 50 "${moddir:?}/rxd-wait.sh"
	inst_hook pre-mount 50 "${moddir:?}/rxd-root.sh"
	dracut_need_initqueue
}
