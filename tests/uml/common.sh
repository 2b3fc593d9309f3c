# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the scripts that run User-Mode Linux share. The caller sets "me".

. "$(dirname "${BASH_SOURCE[0]}")/../guest/common.sh"

# need_tools TOOL...
need_tools()
{
	local tool missing=''

	for tool; do
		command -v "$tool" >/dev/null || missing+=" $tool"
	done
	[ -z "$missing" ] ||
		die "not found:$missing; install the packages named in tests/uml/packages"
}

need_static_busybox()
{
	need_tools busybox gcc
	! ldd "$(command -v busybox)" >/dev/null 2>&1 ||
		die "$(command -v busybox): not static; install busybox-static"
}

# copy_sources TREE TESTS SRC: objects for this kernel must not lie beside those for
# others, so the modules of TREE and those in TESTS are built in a copy, which keeps
# the times of the files.
copy_sources()
{
	local tree=$1 tests=$2 src=$3 dir

	for dir in module dm-target include; do
		mkdir -p "$src/$dir"
		cp -Rup "$tree/$dir/." "$src/$dir"
	done
	mkdir -p "$src/tests"
	cp -Rup "$tests/." "$src/tests"
	echo 'obj-m += module/ dm-target/ tests/' >"$src/Kbuild"
}

# build_modules KERNEL SRC LOG [VARIABLE...]: variables for make
build_modules()
{
	local kernel=$1 src=$2 log=$3

	shift 3
	say "building the modules"
	make -s -C "$kernel" M="$src" "$@" -j"$(nproc)" modules >"$log" 2>&1 || {
		cat "$log" >&2
		die "the modules do not build"
	}
}

# make_root ROOT INCLUDE MODULE...: what the guest sees of the host, and no more than
# that. INCLUDE is the directory of linux/rxd.h.
make_root()
{
	local root=$1 include=$2 applet

	shift 2
	rm -rf "$root"
	mkdir -p "$root"/{bin,dev,modules,out,proc,sys,tmp}
	cp "$(command -v busybox)" "$root/bin/busybox"
	for applet in $("$root/bin/busybox" --list); do
		[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
	done
	build_rxdctl "$include" "$root/bin/rxdctl"
	cp "$@" "$root/modules/"
}

# build_rxdctl INCLUDE FILE
build_rxdctl()
{
	gcc -static -O2 -Wall -Werror -I"$1" -o "$2" "$top/tests/uml/rxdctl.c"
}

# boot KERNEL ROOT MIB TIMEOUT LOG [ARGUMENT...]: run a guest until it ends. Its memory
# is a file in $guest_memory, default /dev/shm.
boot()
{
	local kernel=$1 root=$2 mib=$3 timeout=$4 log=$5 status=0 tmp=${guest_memory:-/dev/shm}

	shift 5
	[ "$(df --output=avail -m "$tmp" 2>/dev/null | tail -n 1)" -gt $((mib + 64)) ] 2>/dev/null ||
		tmp=$(dirname "$log")
	rm -f "$root"/out/*
	TMPDIR=$tmp timeout -k 10 "$timeout" "$kernel/linux" "$@" mem="${mib}M" \
		root=/dev/root rootfstype=hostfs rootflags="$root" rw init=/init \
		con=null con0=null,fd:1 ignore_loglevel panic=-1 \
		</dev/null >"$log" 2>&1 || status=$?
	[ "$status" -ne 124 ] || say "the guest was stopped after $timeout s"
	return "$status"
}
