# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Packages of any Debian release, whatever this machine is. The caller has sourced
# common.sh.
#
#	RXD_MIRROR	Debian mirror, default http://deb.debian.org/debian

mirror=${RXD_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The host's own sources, lists and package states are neither read nor changed.
private_apt()
{
	local tool=$1 dir=$2

	shift 2
	"$tool" -q -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=- \
		-o Dir::Etc::Preferences=- -o Dir::Etc::PreferencesParts=- \
		-o Dir::State="$dir/state" -o Dir::State::status="$dir/status" \
		-o Dir::Cache="$dir/cache" -o APT::Sandbox::User="$(id -un)" \
		-o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# fetch_package SUITE PACKAGE DIR: download it, and print where it is
fetch_package()
{
	local suite=$1 package=$2 dir=$3 version

	need_tools apt-cache apt-get
	[ -r "$keyring" ] || die "$keyring: not there; install debian-archive-keyring"
	mkdir -p "$dir"/state/lists/partial "$dir"/cache/archives/partial
	: >"$dir/status"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$dir/sources.list"

	say "looking for $package in $suite at $mirror"
	private_apt apt-get "$dir" -o APT::Update::Error-Mode=any update >"$dir/log" 2>&1 ||
		die "$mirror: no package list of $suite: $(grep -m 1 '^[EW]:' "$dir/log" || tail -n 1 "$dir/log")"
	version=$(private_apt apt-cache "$dir" show --no-all-versions "$package" 2>/dev/null |
		  sed -n 's/^Version: //p')
	[ -n "$version" ] || die "$mirror: $suite has no package $package"

	say "downloading $package $version"
	(cd "$dir" && private_apt apt-get "$dir" download "$package=$version" >>log 2>&1) ||
		die "$package $version: $(grep -m 1 '^E:' "$dir/log" || echo 'download failed')"
	find "$dir" -maxdepth 1 -name "${package}_*.deb"
}

# rapiddisk_source DIR: print where the ancestor's modules are, from its package; DIR is
# for the download.
rapiddisk_source()
{
	local source=$RXD_CACHE/uml/source/rapiddisk deb

	if [ ! -d "$source" ]; then
		rm -rf "$1" "$source.tmp"
		deb=$(fetch_package trixie rapiddisk-dkms "$1") || return
		dpkg-deb -x "$deb" "$1/package" || return
		mkdir -p "$source.tmp"
		cp "$1"/package/usr/src/rapiddisk-*/*.c "$source.tmp/" || return
		echo 'obj-m := rapiddisk.o rapiddisk-cache.o' >"$source.tmp/Kbuild"
		mv "$source.tmp" "$source"
	fi
	echo "$source"
}
