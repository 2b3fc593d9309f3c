# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034
#
# What the steps share. The first argument of each is a folder of the checkout, where
# the packages are in old/deb and new/deb.

set -euo pipefail
folder=$1
shift
export DEBIAN_FRONTEND=noninteractive

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

# expect WANTED GOT WHAT
expect()
{
	[ "$1" = "$2" ] || fail "$3: '$2', not '$1'"
}

refused()
{
	! "$@" || fail "not refused: $*"
}

# wait_for SECONDS COMMAND...
wait_for()
{
	local seconds=$1

	shift
	for ((; seconds; seconds--)); do
		! "$@" || return 0
		sleep 1
	done
	fail "in vain: $*"
}

# What has been written to the RAM disk of the configuration before boot N: a line each,
# the last thing before the machine is shut down, so that nothing else saves it.
marks()
{
	seq -f "boot %g" 0 $(($1 - 1))
}

leave_a_mark()
{
	echo "boot $1" >>/scratch/marks
}

# The compiler cache saves time: emulated, a build takes minutes.
quick_compiler()
{
	export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/var/tmp/ccache
}

# Every file there is but for what changes by itself (DKMS keeps its key for good), and in
# /etc what it holds.
inventory()
{
	find / \( -path /dev -o -path /proc -o -path /sys -o -path /run -o -path /tmp \
		-o -path /rxd -o -path /out -o -path /var/tmp -o -path /var/log \
		-o -path /var/cache -o -path /var/lib/systemd -o -path /root \
		-o -path /var/lib/apt -o -path '/var/lib/dpkg/*-old' -o -path /lost+found \
		-o -path '/var/lib/dkms/mok.*' -o -path /var/lib/dkms/dkms_dbversion \) -prune \
		-o -type f -path '/etc/*' -exec sha256sum {} + \
		-o \( -path /var/lib/dpkg/status -o -path '/var/lib/dpkg/info/*' \
		      -o -path '/lib/modules/*/modules.*' -o -path '/usr/lib/modules/*/modules.*' \
		      -o -type d \) -printf '%p %y %m\n' \
		-o -printf '%p %y %m %s %l\n' | sort
}
