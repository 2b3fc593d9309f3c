# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# The contents of the root file systems. A change of this file recreates them.

packages="
	btrfs-progs busybox-static ca-certificates cpio cryptsetup-bin dbench dmsetup e2fsprogs file fio
	gcc iproute2 kmod libblkid-dev libc6-dev libdevmapper-dev libext2fs-dev libgcrypt20-dev
	libjson-c-dev libmount-dev libncurses-dev libsmartcols-dev libxxhash-dev libzstd-dev
	linux-headers-amd64 linux-image-amd64 lvm2 make mdadm mount nvme-cli pkg-config procps
	python3 python3-pyte python3-pytest scdoc strace stress-ng thin-provisioning-tools udev
	util-linux valgrind xfsprogs xz-utils zstd
"
# The linters: all hosts use those of one release.
check_packages="
	chromium-headless-shell clang cppcheck libclang-rt-dev perl prometheus pycodestyle pyflakes3
	python3-jsonschema python3-matplotlib shellcheck sparse spin
"

recipe()
{
	case $1 in
	6.1)
		suite=bookworm
		carries="6.1" ;;
	6.12 | 7.2)
		suite=trixie
		carries="6.12 7.2"
		packages+=$check_packages ;;
	esac
}

# Kernels are added and removed in the backports of a release: use the newest of the series.
series_suite()
{
	case $1 in
	7.2)
		echo trixie-backports ;;
	esac
}
