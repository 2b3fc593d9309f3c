# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the scripts that run the KUnit suites share: which suites, how they are built,
# and what came of them. The caller sets "me", and judge() says what the suites
# themselves do not see.

. "$(dirname "${BASH_SOURCE[0]}")/../uml/common.sh"

kunit=$top/tests/kunit
build=$top/build/${me:?}
src=$build/src
root=$build/root

choose_suites()
{
	local suite

	if [ $# -eq 0 ]; then
		mapfile -t suites < <(grep -v '^#' "$kunit/suites")
		return
	fi
	for suite in "$@"; do
		grep -qxF "$suite" "$kunit/suites" ||
			die "suite '$suite': unknown; one of: $(grep -v '^#' "$kunit/suites" | xargs)"
	done
	suites=("$@")
}

# The smoke test reports the results of the suite that needs mapped devices.
expected_results()
{
	local suite

	for suite in "${suites[@]}"; do
		echo "$suite"
		[ "$suite" != smoke ] || echo rxcache
	done
}

# Settings of null_blk, for the guest or for its kernel's command line.
null_blk="null_blk.nr_devices=3 null_blk.gb=1 null_blk.memory_backed=1 null_blk.discard=1"
null_blk+=" null_blk.irqmode=2 null_blk.completion_nsec=50000"

# build_suites ARCH: for $kernel, and what it boots from
build_suites()
{
	mkdir -p "$build"
	copy_sources "$top" "$kunit/modules" "$src"
	build_modules "$kernel" "$src" "$build/build.log" ARCH="$1" KCFLAGS=-Werror W=1
	[ ! -s "$build/build.log" ] || {
		cat "$build/build.log" >&2
		die "the build warns"
	}
	make_root "$root" "$top/include/uapi" "$src"/*/*.ko
	cp "$kunit/guest/init" "$kunit/guest/smoke" "$root/"
	printf '%s\n' "${suites[@]}" >"$root/suites"
}

# Return: whether the guest reached its first process.
booted()
{
	[ -e "$root/out/started" ]
}

# Faults while the kernel boots are not of this project.
kernel_log()
{
	sed '1,/Run \/init as init process/d' "$build/console.log"
}

verdict()
{
	nr_verdicts=$((nr_verdicts + 1))
	if [ "$1" -eq 0 ]; then
		echo "    ok $nr_verdicts $2"
	else
		echo "    # $2: $3"
		echo "    not ok $nr_verdicts $2"
	fi
}

# The exit code of a command, as a word.
code_of()
{
	"$@"
	echo $?
}

judge_results()
{
	local suite

	for suite in $(expected_results); do
		verdict "$(code_of test -s "$root/out/$suite.ktap")" "${suite}_reports" "no results"
	done
}

# The results of each suite become one report.
collect()
{
	local files=() suite nr_verdicts=0

	for suite in $(expected_results); do
		[ ! -s "$root/out/$suite.ktap" ] || files+=("$root/out/$suite.ktap")
	done
	judge >"$build/judged"
	{
		echo 'KTAP version 1'
		echo "1..$((${#files[@]} + 1))"
		[ ${#files[@]} -eq 0 ] || awk '
			/^KTAP version/ || /^1\.\./ { next }
			/^(not )?ok [0-9]+ / { sub(/ok [0-9]+/, "ok " ++nr) }
			{ print }
		' "${files[@]}"
		echo '    KTAP version 1'
		echo '    # Subtest: guest'
		echo "    1..$(grep -cE '^    (not )?ok' "$build/judged")"
		cat "$build/judged"
		if grep -q '^    not ok' "$build/judged"; then
			echo "not ok $((${#files[@]} + 1)) guest"
		else
			echo "ok $((${#files[@]} + 1)) guest"
		fi
	} >"$build/results.ktap"
}

# Prints the results and sets $passed, $failed and $skipped. Return: whether all is well.
report()
{
	local status=0

	python3 "$kernel/tools/testing/kunit/kunit.py" parse "$build/results.ktap" \
		>"$build/report" 2>&1 || status=$?
	cat "$build/report"

	# shellcheck disable=SC2034  # for the caller
	read -r passed failed skipped < <(sed -n 's/\x1b\[[0-9;]*m//g; s/.*Testing complete\. //p' "$build/report" |
		awk '{
			gsub(/,/, "")
			for (i = 1; i < NF; i++)
				n[$i] = $(i + 1)
		}
		END {
			print n["passed:"] + 0, n["failed:"] + n["crashed:"] + n["errors:"] + 0, n["skipped:"] + 0
		}')
	[ "$status" -eq 0 ] && [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
}
