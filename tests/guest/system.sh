# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# The contents of whole Debian systems, in which packages are built, checked and installed.
# A change of this file recreates them.

system_packages="
	apt autopkgtest build-essential busybox-static ca-certificates ccache cpio dbus debhelper
	dh-dkms dkms dmsetup dpkg-dev dracut-core e2fsprogs fakeroot file gcc initramfs-tools kmod
	libblkid-dev libc6-dev libdevmapper-dev libext2fs-dev libgcrypt20-dev libjson-c-dev
	libmount-dev libncurses-dev libsmartcols-dev libxxhash-dev libzstd-dev lintian
	linux-headers-amd64 linux-image-amd64 make mount nvme-cli passwd pkg-config procps
	python3-jsonschema python3-pytest rpm rpmlint scdoc systemd systemd-sysv udev util-linux
	xfsprogs xz-utils zstd
"

system_recipe()
{
	packages=$system_packages
	case $1 in
	debian-12)
		suite=bookworm
		carries=6.1 ;;
	debian-13)
		suite=trixie
		carries=6.12
		# For builds, not for booting.
		headers=7.2 ;;
	esac
}
