# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# bash completion for rxadm

_rxadm_ramdisks()
{
	local path

	for path in /sys/block/rxd*; do
		[ -e "$path" ] && echo "/dev/${path##*/}"
		[ -e "$path/rxd/name" ] && cat "$path/rxd/name"
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

# The sections of the configuration, as KIND/NAME.
_rxadm_sections()
{
	local b='[[:blank:]]'

	cat /etc/rxd.conf /etc/rxd.conf.d/*.conf /usr/lib/rxd.conf.d/*.conf 2>/dev/null |
		LC_ALL=C sed -n "s|^$b*\[$b*\([a-z]*\)$b$b*\([A-Za-z0-9][A-Za-z0-9_.-]*\)$b*\].*|\1/\2|p" |
		sort -u
}

# All users can see the caches that rxadm created. Only root can see the others.
_rxadm_caches()
{
	local path uuid

	{
		for path in /sys/block/dm-*/dm; do
			uuid=$(cat "$path/uuid")
			[[ $uuid == RXCACHE-* ]] && cat "$path/name"
		done
		rxadm status --raw --noheadings --output NAME
	} 2>/dev/null | sort -u
}

# The columns of a command, each after what the list holds so far.
_rxadm_columns()
{
	local column word done='' latency=''

	for word in "${COMP_WORDS[@]}"; do
		[[ ${#word} -gt 2 && --latency == "$word"* ]] && latency=$word
	done
	case $2 in
	*,*) done=${2%,*}, ;;
	+*) done=+ ;;
	esac
	rxadm "$1" ${latency:+"$latency"} --help | sed '1,/^Columns:/d' | while read -r column _; do
		echo "$done$column"
	done
}

_rxadm()
{
	if [ "$COMP_CWORD" -gt 1 ] && [[ ${COMP_WORDS[1]} == -v || ${COMP_WORDS[1]} == --verbose ]]; then
		COMP_WORDS=("${COMP_WORDS[0]}" "${COMP_WORDS[@]:2}")
		COMP_CWORD=$((COMP_CWORD - 1))
	fi

	local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
	local command=${COMP_WORDS[1]} words=
	# Users other than root may not have it there.
	local PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
	local commands='create clone resize limit clear reset remove list info extents diff save load map'
	commands+=' unmap mode set status stats advise top metrics hotlist warm export unexport apply completion help'
	local table='--bytes --json --noheadings --output --output-all --raw --help'

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		words="$commands --help --verbose --version"
	else
		case $command:$previous in
		create:--logical-block-size)
			words='512 4096' ;;
		create:--folio-size)
			words='4K 64K 2M' ;;
		create:--node)
			words="local interleave $(_rxadm_nodes)" ;;
		create:--size | map:--size | create:--index | create:--mem-limit | create:--uuid | clone:--uuid | *:--name | *:--seq-cutoff)
			return ;;
		clone:--count | clone:--index)
			return ;;
		reset:--to | diff:--base)
			words=$(_rxadm_ramdisks) ;;
		map:--cache)
			words=$(_rxadm_ramdisks) ;;
		map:--origin)
			words=$(_rxadm_disks) ;;
		map:--mode)
			words='writethrough writearound passthrough' ;;
		map:--block-size)
			words='4K 8K 16K 32K 64K 128K 256K 512K 1M' ;;
		advise:-o | advise:--output | list:-o | list:--output | status:-o | status:--output | \
		extents:-o | extents:--output | diff:-o | diff:--output | info:-o | info:--output)
			words=$(_rxadm_columns "$command" "$cur")
			compopt -o nospace ;;
		save:--compress)
			words='zstd zstd:1 zstd:9 zstd:19' ;;
		save:--progress | load:--progress)
			words='auto bar json none' ;;
		save:--keep | load:--index | load:--generation)
			return ;;
		load:--into)
			words=$(_rxadm_ramdisks) ;;
		load:--node)
			words="local interleave $(_rxadm_nodes)" ;;
		load:--uuid)
			words=random ;;
		save:--format | load:--format)
			words='rxd raw' ;;
		save:*)
			words='--compress --format --keep --no-freeze --progress --update --help'
			words+=" $(_rxadm_ramdisks)"
			[ "$previous" = save ] || mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		load:*)
			words='--format --generation --into --index --json --list --name --node --overcommit'
			words+=' --progress --uuid --help'
			mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		create:*)
			words='--size --index --logical-block-size --mem-limit --overcommit --reserve'
			words+=' --folio-size --name --node --uuid --detect-zeroes --dry-run --help' ;;
		clone:*)
			words='--count --expendable --index --name --no-freeze --overcommit --read-only'
			words+=' --uuid --dry-run --help'
			words+=" $(_rxadm_ramdisks)" ;;
		reset:*)
			words="--to --force --dry-run --help $(_rxadm_ramdisks)" ;;
		resize:*)
			words="none --force --overcommit --dry-run --help $(_rxadm_ramdisks)"
			words+=" $(_rxadm_caches)" ;;
		limit:*)
			words="none --dry-run --help $(_rxadm_ramdisks)" ;;
		clear:*)
			words="--force --dry-run --help $(_rxadm_ramdisks)" ;;
		remove:*)
			words="--all --force --dry-run --help $(_rxadm_ramdisks)" ;;
		info:*)
			words="$table $(_rxadm_ramdisks) $(_rxadm_caches)" ;;
		extents:*)
			words="$table $(_rxadm_ramdisks)" ;;
		diff:*)
			words="--base --compare $table $(_rxadm_ramdisks)" ;;
		list:*)
			words=$table ;;
		map:*)
			words='--cache --size --overcommit --origin --name --block-size --mode --seq-cutoff'
			words+=' --force --dry-run --help' ;;
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
		set:--latency | set:--advise)
			words='on off' ;;
		apply:--config)
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return ;;
		apply:*)
			words="--config --dry-run --save --stop --help $(_rxadm_sections)" ;;
		mode:*)
			words="writethrough writearound passthrough --dry-run --help $(_rxadm_caches)" ;;
		set:*)
			words="--seq-cutoff --latency --advise --name --dry-run --help $(_rxadm_caches) $(_rxadm_ramdisks)" ;;
		stats:*)
			words="reset --all --dry-run --help $(_rxadm_caches)" ;;
		hotlist:hotlist)
			words='save --help' ;;
		hotlist:save)
			words="--help $(_rxadm_caches)" ;;
		warm:warm)
			words="--background --help $(_rxadm_caches)" ;;
		hotlist:*)
			mapfile -t COMPREPLY < <(compgen -f -W '--help' -- "$cur")
			return ;;
		warm:*)
			mapfile -t COMPREPLY < <(compgen -f -W '--background --help' -- "$cur")
			return ;;
		top:-d | top:--delay | top:-n | top:--count)
			return ;;
		top:*)
			words='--batch --delay --count --json --help' ;;
		completion:*)
			words='bash zsh fish --help' ;;
		help:help)
			words="$commands --help" ;;
		help:*)
			words=--help ;;
		unmap:*)
			words="--dry-run --help $(_rxadm_caches)" ;;
		advise:*)
			words="$table $(_rxadm_caches)" ;;
		status:*)
			words="$table --latency $(_rxadm_caches)" ;;
		esac
	fi
	# compgen -W would expand them, and names come from files and devices.
	local word list plain='^(--|[/+])?[A-Za-z0-9_][A-Za-z0-9_.,:+-]*(/[A-Za-z0-9_][A-Za-z0-9_.,:+-]*)*$'
	IFS=$' \t\n' read -r -d '' -a list <<< "$words"
	for word in "${list[@]}"; do
		[[ $word == "$cur"* && $word =~ $plain ]] && COMPREPLY+=("$word")
	done
}

complete -F _rxadm rxadm
