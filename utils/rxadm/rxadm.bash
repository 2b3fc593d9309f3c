# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# bash completion for rxadm

_rxadm_ramdisks()
{
	local path

	for path in /sys/block/rxd*; do
		[ -e "$path" ] && echo "/dev/${path##*/}"
	done
}

_rxadm_disks()
{
	local path

	for path in /sys/class/block/*; do
		[ -e "$path" ] && echo "/dev/${path##*/}"
	done
}

_rxadm_nodes()
{
	local path

	for path in /sys/devices/system/node/node[0-9]*; do
		[ -e "$path" ] && echo "${path##*/node}"
	done
}

_rxadm_caches()
{
	rxadm status --raw --noheadings --output NAME 2>/dev/null
}

# The columns of a command, each after what the list holds so far.
_rxadm_columns()
{
	local column done=

	case $2 in
	*,*) done=${2%,*}, ;;
	+*) done=+ ;;
	esac
	rxadm "$1" --help | sed '1,/^Columns:/d' | while read -r column _; do
		echo "$done$column"
	done
}

_rxadm()
{
	local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
	local command=${COMP_WORDS[1]} words=
	local table='--bytes --json --noheadings --output --output-all --raw --help'

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		words='create resize limit clear remove list extents map unmap set status metrics hotlist export unexport --help --version'
	else
		case $command:$previous in
		create:--logical-block-size)
			words='512 4096' ;;
		create:--folio-size)
			words='4K 64K 2M' ;;
		create:--node)
			words="local interleave $(_rxadm_nodes)" ;;
		create:--size | create:--index | create:--mem-limit | create:--uuid | map:--name | *:--seq-cutoff)
			return ;;
		map:--cache)
			words=$(_rxadm_ramdisks) ;;
		map:--origin)
			words=$(_rxadm_disks) ;;
		map:--mode | set:--mode)
			words='writethrough writearound passthrough' ;;
		map:--block-size)
			words='4K 8K 16K 32K 64K 128K 256K 512K 1M' ;;
		list:-o | list:--output | status:-o | status:--output | \
		extents:-o | extents:--output)
			words=$(_rxadm_columns "$command" "$cur")
			compopt -o nospace ;;
		create:*)
			words='--size --index --logical-block-size --mem-limit --overcommit --reserve'
			words+=' --folio-size --node --uuid --detect-zeroes --help' ;;
		resize:*)
			words="--force --overcommit --help $(_rxadm_ramdisks)" ;;
		limit:*)
			words="none --help $(_rxadm_ramdisks)" ;;
		clear:* | remove:*)
			words="--help $(_rxadm_ramdisks)" ;;
		extents:*)
			words="$table $(_rxadm_ramdisks)" ;;
		list:*)
			words=$table ;;
		map:*)
			words='--cache --origin --name --block-size --mode --seq-cutoff --force --help' ;;
		metrics:--format)
			words='openmetrics prometheus' ;;
		metrics:-o | metrics:--output | export:--dhchap-key)
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return ;;
		metrics:*)
			words='--format --output --help' ;;
		export:--transport)
			words='tcp loop' ;;
		export:--address | export:--port | export:--nqn | export:--allow-host)
			return ;;
		export:*)
			words='--transport --address --port --nqn --allow-host --allow-any-host'
			words+=" --dhchap-key --dry-run --help $(_rxadm_ramdisks)"
			words+=" $(_rxadm_caches | sed 's,^,/dev/mapper/,')" ;;
		unexport:*)
			words="--dry-run --help $(_rxadm_ramdisks)"
			words+=" $(_rxadm_caches | sed 's,^,/dev/mapper/,')" ;;
		set:--latency)
			words='on off' ;;
		hotlist:hotlist)
			words='save load --help' ;;
		hotlist:save | hotlist:load)
			words=$(_rxadm_caches) ;;
		hotlist:*)
			mapfile -t COMPREPLY < <(compgen -f -W '--background --help' -- "$cur")
			return ;;
		set:*)
			words="--mode --seq-cutoff --latency --help $(_rxadm_caches)" ;;
		unmap:*)
			words="--help $(_rxadm_caches)" ;;
		status:*)
			words="$table --latency $(_rxadm_caches)" ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _rxadm rxadm
