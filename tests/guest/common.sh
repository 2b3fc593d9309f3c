# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Functions that the scripts which prepare guests share. The caller sets "me".

# shellcheck disable=SC2034  # for the caller
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kernels="6.1 6.12 7.2"
systems="debian-12 debian-13"
export RXD_CACHE=${RXD_CACHE:-/var/cache/rxd}

say()
{
	echo "${me:?}: $*" >&2
}

die()
{
	say "$*"
	exit 1
}

need_root()
{
	[ "$(id -u)" -eq 0 ] || die "must be root"
}

need_kernel()
{
	case " $kernels " in
	*" ${1:-} "*)
		;;
	*)
		die "kernel '${1:-}': must be one of $kernels" ;;
	esac
}

# The names that can be booted: a kernel with its tests, or a whole system.
need_guest()
{
	case " $kernels $systems " in
	*" ${1:-} "*)
		;;
	*)
		die "guest '${1:-}': must be one of $kernels $systems" ;;
	esac
}

# The names that have a root file system, even if only for builds.
need_tree()
{
	[ "${1:-}" = arm64 ] || need_guest "${1:-}"
}

# need_space DIR MIB: DIR exists, or will be created.
need_space()
{
	local dir=$1 free

	while [ ! -d "$dir" ]; do
		dir=$(dirname "$dir")
	done
	free=$(($(df --output=avail -k "$dir" | tail -n 1) / 1024))
	[ "$free" -ge "$2" ] || die "$1: $free MiB free, $2 MiB needed"
}
