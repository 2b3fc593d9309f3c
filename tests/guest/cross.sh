# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# The contents of the root file system that builds for arm64 on amd64. A change of this
# file recreates it.

cross_packages="
	apt build-essential ca-certificates crossbuild-essential-arm64 debhelper dh-dkms fakeroot
	gcc libblkid-dev:arm64 libc6-dev libdevmapper-dev:arm64 libelf1t64 libext2fs-dev:arm64
	libgcrypt20-dev:arm64 libmount-dev:arm64 libncurses-dev:arm64 libsmartcols-dev:arm64
	libssl3t64 libxxhash-dev:arm64 libzstd-dev:arm64 make pahole pkgconf:arm64 qemu-user scdoc
	uuid-dev:arm64 xz-utils
"

cross_recipe()
{
	packages=$cross_packages
	suite=trixie
	architectures=amd64,arm64
	headers="6.12 7.2"
}
