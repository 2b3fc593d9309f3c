# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# What the root file systems are made of. A change here makes them anew.

packages="
	busybox-static ca-certificates cpio dmsetup e2fsprogs file fio gcc kmod libblkid-dev
	libc6-dev libdevmapper-dev libmount-dev libsmartcols-dev linux-headers-amd64
	linux-image-amd64 make mount pkg-config procps scdoc python3 python3-pytest strace udev
	util-linux xfsprogs xz-utils zstd
"
# Checked with the tools of one release, whatever the host is.
lint_packages="cppcheck perl pycodestyle pyflakes3 shellcheck sparse"

recipe()
{
	case $1 in
	6.1)
		suite=bookworm
		carries="6.1" ;;
	6.12 | 7.2)
		suite=trixie
		carries="6.12 7.2"
		packages+=$lint_packages ;;
	esac
}

# Kernels come and go in a release's backports: the newest of the series.
series_suite()
{
	case $1 in
	7.2)
		echo trixie-backports ;;
	esac
}
