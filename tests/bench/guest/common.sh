# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Functions that the jobs share. A job runs as process 1's child in a guest, or on the machine
# itself; /settings, or the file named in BENCH_SETTINGS, says:
#
#	KIND		plain: one thread; smp: two
#	ROWS		which rows of the table are wanted, a space around each
#	REPEATS, MS	how often, and how long each time
#	SIZE		bytes of each disk that is read and written all over
#	WHERE		guest or host; test: a job only defines its functions
#	PEER		the one cache that is measured beside rxcache; empty: all of them
#	OUT		the directory for the results
#	MODULES		the directory of rxd.ko, dm-rxcache.ko and rxd-bench.ko
#	PROFILE		the one disk that is measured, for long, while the host looks on;
#			empty: all of them
#
# A result is one line: ROW SUBJECT KEY=VALUE...

# shellcheck source=/dev/null
. "${BENCH_SETTINGS:-/settings}"

# shellcheck disable=SC2034  # for the jobs
gib=$((1 << 30))
# shellcheck disable=SC2034
mib=$((1 << 20))
bench_dev=/dev/rxd-bench

die()
{
	echo "$*" >&2
	exit 1
}

wanted()
{
	case $ROWS in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

# Number of times that something is measured.
each_time()
{
	seq 1 "$REPEATS"
}

# load MODULE [PARAMETER=VALUE...]
load()
{
	if [ -e "$MODULES/$1.ko" ]; then
		file=$MODULES/$1.ko
		shift
		insmod "$file" "$@" || die "$file: cannot be loaded"
	else
		modprobe "$@" || die "$1: cannot be loaded"
	fi
}

# job KEY=VALUE...: have the bench module do something, and print its answer.
job()
{
	exec 3<>$bench_dev || die "$bench_dev: cannot be opened"
	echo "$*" >&3 || die "$*: failed"
	cat <&3
	exec 3>&-
}

# measure ROW SUBJECT REPEAT KEY=VALUE...
measure()
{
	prefix="$1 $2 repeat=$3"
	shift 3
	answer=$(job "$@") || exit
	echo "$answer" | while read -r line; do
		echo "$prefix $line" >>"$OUT/results"
	done
}

# note ROW SUBJECT REPEAT KEY=VALUE...: a result that is known already.
note()
{
	row=$1 subject=$2 repeat=$3
	shift 3
	echo "$row $subject repeat=$repeat $*" >>"$OUT/results"
}

any_wanted()
{
	for row; do
		! wanted "$row" || return 0
	done
	return 1
}

# choose SUFFIX THREADS KIND...: which of the rows, a kind such as 4k-read with the
# suffix, are wanted
choose()
{
	suffix=$1
	shift 2
	chosen=
	for i; do
		! wanted "$i$suffix" || chosen="$chosen $i"
	done
}

any_chosen()
{
	choose "$@"
	[ -n "$chosen" ]
}

# job_of KIND: the keys for 4k-read, or 1m-write-whole
job_of()
{
	case $1 in
	*-whole) echo "$(job_of "${1%-whole}") buffer=whole" ;;
	*) echo "op=${1#*-} size=${1%-*}" ;;
	esac
}

# can_do KIND SUBJECT: copies without a disk are made page by page
can_do()
{
	case "$1 $2" in
	*-whole\ memcpy | *-whole\ move) return 1 ;;
	esac
	return 0
}

# profile KIND SUFFIX THREADS: the file "profile" tells the host to look now, and "modules"
# where the modules lie
profile()
{
	# shellcheck disable=SC2046  # keys
	set -- "$1$2" "$PROFILE" 1 $(job_of "$1") dev="$(device_of "$PROFILE")" span="$SIZE" \
		threads="$3"
	cp /proc/modules "$OUT/modules"
	: >"$OUT/profile"
	measure "$@" ms=25000
}

# compare SUFFIX THREADS KIND...: random I/O to the first $SIZE bytes of the device_of
# each of $all, in turn, with each number of THREADS
# shellcheck disable=SC2154  # the job sets these
# A kind that ends in "-whole" has its buffer in one piece.
compare()
{
	counts=$2
	# Measure in many short runs: some of them are not disturbed. Two threads use a small
	# machine completely, so other work on it disturbs them more.
	long=$(((MS + 3) / 4))
	[ "$counts" = 1 ] || long=$(((MS + 1) / 2))
	choose "$@"
	[ -n "$chosen" ] || return 0
	if [ -n "$PROFILE" ]; then
		profile "${chosen# }" "$suffix" "${counts##* }"
		return
	fi
	for repeat in $(seq 1 $((REPEATS * 4))); do
		for i in $chosen; do
			for subject in $all; do
				can_do "$i" "$subject" || continue
				for threads in $counts; do
					# shellcheck disable=SC2046  # keys
					measure "$i$suffix" "$subject" "$repeat" $(job_of "$i") \
						dev="$(device_of "$subject")" span="$SIZE" ms="$long" \
						threads="$threads"
				done
			done
		done
		# Each is the first in turn.
		all="${all#* } ${all%% *}"
	done
}

# same_blocks SUBJECT...: reads of the same 16 blocks, of one thread and of two
same_blocks()
{
	wanted 4k-same-2 || return 0
	for repeat in $(each_time); do
		for subject; do
			for threads in 1 2; do
				measure 4k-same-2 "$subject" "$repeat" op=read size=4K span=64K \
					ms="$MS" dev="$(device_of "$subject")" threads=$threads
			done
		done
	done
}

# fill DEVICE BYTES
fill()
{
	job op=write dev="$1" size=1M span="$2" order=once >/dev/null
}

no_iostats()
{
	for disk; do
		file=/sys/block/${disk#/dev/}/queue/iostats
		[ ! -e "$file" ] || echo 0 >"$file"
	done
}

# Print the free memory in bytes. MemFree does not include the per-CPU lists, which may hold an
# eighth of all memory.
mem_free_now()
{
	awk '
		/^MemFree:/ { bytes += $2 * 1024 }
		$1 == "count:" { bytes += $2 * 4096 }
		END { printf "%.0f\n", bytes }
	' /proc/meminfo /proc/zoneinfo
}

# The same without page cache and other caches, after waiting for memory that is being freed.
mem_free()
{
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 1
	mem_free_now
}

# compare_copies ANSWER: do these times of copies lie within 5 % of each other?
compare_copies()
{
	echo "$1" | tr ' ' '\n' | awk -F= '
		NF < 2 { next }
		!function_name { function_name = $1; took = $2; next }
		{
			if (took > 1.05 * $2 || took < 0.95 * $2) {
				printf "%s() takes %d ps a page, and what it is by the flag %s takes %d\n",
				       function_name, took, $1, $2
				wrong = 1
			}
			function_name = ""
		}
		END { exit wrong }
	' >&2
}

# If the kernel copies otherwise than one that was booted on this processor, all figures are
# worthless. Such a difference shows each time; a disturbance by another program does not.
check_copies()
{
	for attempt in 1 2 3 4 5; do
		answer=$(job op=copies) || exit
		if compare_copies "$answer"; then
			echo "copies kernel repeat=$attempt $answer" >>"$OUT/results"
			return
		fi
	done
	die "this kernel does not copy as others do on this processor: no figures from it"
}

# The first access makes the host allocate memory, which must not be measured.
touch_memory()
{
	[ "$WHERE" = host ] || job op=touch
}

# brd_on BYTES [NUMBER]
brd_on()
{
	load brd rd_nr="${2:-1}" rd_size=$(($1 / 1024)) max_part=0
	no_iostats /dev/ram*
}

brd_off()
{
	rmmod brd
}

bare_on()
{
	load rxd-bare mib=$((SIZE / mib))
	no_iostats /dev/rxd-bare /dev/rxd-flat /dev/rxd-hash
}

bare_off()
{
	rmmod rxd-bare
}

null_on()
{
	load null_blk nr_devices=1 queue_mode=2 irqmode=0 memory_backed=0 gb=1
	no_iostats /dev/nullb0
}

null_off()
{
	rmmod null_blk
}

# On the machine itself, leave nothing behind.
cleanup()
{
	for i in /dev/mapper/bench-*; do
		[ ! -e "$i" ] || rxdctl unmap "${i##*/}"
	done
	for i in /dev/rxd[0-9]*; do
		[ ! -e "$i" ] || rxdctl remove "${i#/dev/rxd}"
	done
	for i in rapiddisk_cache rapiddisk brd null_blk rxd_bare rxd_bench dm_rxcache rxd; do
		[ ! -e /sys/module/$i ] || rmmod $i
	done
}
