# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Completion of rxbench for bash.

_rxbench_options()
{
	local common="--repeats --most-repeats --destroy --output --no-html --quiet --help"

	case $1 in
	profile)
		echo "$common --profile --size --seconds --jobs --steady --most-rounds --sweep" \
			"--blocks --depths --mixes" ;;
	dd)
		echo "$common --size --bs --target --mode" ;;
	run)
		echo "$common --file-size --no-disks --show-jobs --validate" ;;
	tree)
		echo "$common --tarball --command --inside --workers" ;;
	copy)
		echo "$common --size --ways --jobs --witness" ;;
	replay)
		echo "$common --depth --limit --reads-only --fold" ;;
	peers)
		echo "$common --only --size --seconds --jobs --disk --dir" ;;
	memory)
		echo "$common --ways --works --sets --seconds --memory --disk --dir" ;;
	report)
		echo "--html --json --markdown --merge --help" ;;
	compare)
		echo "--fail-if-worse --metric --help" ;;
	esac
}

_rxbench()
{
	local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W \
			"profile dd run tree copy replay peers memory list report compare --help --version" \
			-- "$word")
		return
	fi
	case $previous in
	--profile)
		mapfile -t COMPREPLY < <(compgen -W "ramdisk cache" -- "$word")
		return ;;
	--only)
		mapfile -t COMPREPLY < <(compgen -W "ram cache" -- "$word")
		return ;;
	--target)
		mapfile -t COMPREPLY < <(compgen -W "node file node,file" -- "$word")
		return ;;
	--mode)
		mapfile -t COMPREPLY < <(compgen -W "buffered direct buffered,direct" -- "$word")
		return ;;
	esac
	case $word in
	-*)
		mapfile -t COMPREPLY < <(compgen -W "$(_rxbench_options "${COMP_WORDS[1]}")" \
			-- "$word") ;;
	*)
		mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	esac
}

complete -o filenames -F _rxbench rxbench
