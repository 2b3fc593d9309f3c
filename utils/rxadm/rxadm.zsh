#compdef rxadm
# SPDX-License-Identifier: GPL-2.0-only
# zsh completion for rxadm

_rxadm_ramdisks()
{
	local -a disks

	disks=(/sys/block/rxd*(N:t))
	compadd -p /dev/ -- $disks
	compadd -- $disks
}

_rxadm_caches()
{
	local -a caches

	caches=(${(f)"$(rxadm status --raw --noheadings --output NAME 2>/dev/null)"})
	compadd -- $caches
}

_rxadm_devices()
{
	_rxadm_ramdisks
	_rxadm_caches
}

_rxadm()
{
	local -a commands table
	local modes='(writethrough writearound passthrough)'

	commands=(
		'create:make a RAM disk'
		'resize:grow or shrink a RAM disk'
		'limit:set how much memory a RAM disk may take'
		'clear:forget all that a RAM disk holds'
		'remove:remove a RAM disk and free its memory'
		'list:list the RAM disks'
		'info:show all that is known of a RAM disk or cache'
		'extents:show which ranges of a RAM disk hold data'
		'save:save a RAM disk to an image'
		'load:make a RAM disk from an image'
		'map:let a RAM disk cache a slow disk'
		'unmap:remove a cache'
		'mode:change what is cached, or print the mode'
		'set:change what a cache does'
		'status:show the caches and what they did'
		'stats:set the counters of caches to zero'
		'top:watch what caches and RAM disks do'
		'metrics:print metrics for Prometheus'
		'hotlist:save which blocks are cached'
		'warm:have a cache read what another one held'
		'export:offer a device to other machines'
		'unexport:offer a device no more'
		'apply:make what the configuration says'
		'completion:print the completion script of a shell'
	)
	table=(
		'(-b --bytes)'{-b,--bytes}'[print sizes in bytes]'
		'(-J --json)'{-J,--json}'[print JSON]'
		'(-n --noheadings)'{-n,--noheadings}'[print no column names]'
		'(-o --output)'{-o,--output=}'[columns to print]:columns'
		'(-O --output-all)'{-O,--output-all}'[print all columns]'
		'(-r --raw)'{-r,--raw}'[separate columns by one space]'
		'(-h --help)'{-h,--help}'[print help]'
	)

	if ((CURRENT == 2)); then
		_describe command commands
		_arguments '--help[print help]' '--version[print the version]'
		return
	fi
	shift words
	((CURRENT--))
	case $words[1] in
	create)
		_arguments '--size=[capacity]:size' '--index=[make /dev/rxdN]:number' \
			'--logical-block-size=[in bytes]:size:(512 4096)' \
			'--mem-limit=[memory that the data may take]:size' \
			'--overcommit[allow more than the share of memory]' \
			'--reserve[take all the memory now]' \
			'--folio-size=[largest piece of memory]:size:(4K 64K 2M)' \
			'--node=[where memory comes from]:node:(local interleave)' \
			'--uuid=[identity]:uuid' '--detect-zeroes[store no zeros]' \
			'--dry-run[change nothing]' '--help[print help]' ;;
	resize)
		_arguments '--force[lose what lies beyond the new end]' \
			'--overcommit[allow more than the share of memory]' \
			'--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_ramdisks' '2:size' ;;
	limit)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_ramdisks' '2:size:(none)' ;;
	clear)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_ramdisks' ;;
	remove)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_ramdisks' ;;
	list)
		_arguments $table ;;
	info)
		_arguments $table '1:device:_rxadm_devices' ;;
	extents)
		_arguments $table '1:device:_rxadm_ramdisks' ;;
	save)
		_arguments '--compress=[compress the image]:method:(zstd)' \
			'--progress=[what to show]:how:(auto bar json none)' '--help[print help]' \
			'1:device:_rxadm_ramdisks' '2:file:_files' ;;
	load)
		_arguments '--into=[an empty RAM disk]:device:_rxadm_ramdisks' \
			'--index=[make /dev/rxdN]:number' \
			'--node=[where memory comes from]:node:(local interleave)' \
			'--overcommit[allow more than the share of memory]' \
			'--progress=[what to show]:how:(auto bar json none)' \
			'--uuid=[identity]:uuid:(random)' '--help[print help]' '1:file:_files' ;;
	map)
		_arguments '--cache=[the RAM disk]:device:_rxadm_ramdisks' \
			'--origin=[the slow disk]:device:_files' '--name=[of the mapping]:name' \
			'--block-size=[of the cache]:size:(4K 8K 16K 32K 64K 128K 256K 512K 1M)' \
			"--mode=[what is cached]:mode:$modes" \
			'--seq-cutoff=[longest sequential I/O that is cached]:size' \
			'--force[take what holds data]' '--dry-run[change nothing]' \
			'--help[print help]' ;;
	unmap)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:name:_rxadm_caches' ;;
	mode)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:name:_rxadm_caches' "2:mode:$modes" ;;
	set)
		_arguments '--seq-cutoff=[longest sequential I/O that is cached]:size' \
			'--latency=[measure latency]:switch:(on off)' '--dry-run[change nothing]' \
			'--help[print help]' '1:name:_rxadm_caches' ;;
	status)
		_arguments $table '--latency[show how long I/O took]' '1:name:_rxadm_caches' ;;
	stats)
		_arguments '--all[all caches]' '--dry-run[change nothing]' '--help[print help]' \
			'1:action:(reset)' '2:name:_rxadm_caches' ;;
	top)
		_arguments '(-d --delay)'{-d,--delay=}'[seconds between looks]:seconds' \
			'(-n --count)'{-n,--count=}'[how many looks]:number' \
			'(-J --json)'{-J,--json}'[print JSON]' '--help[print help]' ;;
	hotlist)
		_arguments '--help[print help]' '1:action:(save)' '2:name:_rxadm_caches' \
			'3:file:_files' ;;
	warm)
		_arguments '--background[return at once]' '--help[print help]' \
			'1:name:_rxadm_caches' '2:file:_files' ;;
	metrics)
		_arguments '--format=[of the text]:format:(openmetrics prometheus)' \
			'(-o --output)'{-o,--output=}'[file to replace]:file:_files' \
			'--help[print help]' ;;
	export)
		_arguments '--transport=[how to reach it]:transport:(tcp loop)' \
			'--address=[where to listen]:address' '--port=[TCP port]:port' \
			'--nqn=[name to be found by]:name' \
			'*--allow-host=[a host that may connect]:name' \
			'--allow-any-host[let every host connect]' \
			'--dhchap-key=[secret of the hosts]:file:_files' \
			'--dry-run[change nothing]' '--help[print help]' '1:device:_files' ;;
	unexport)
		_arguments '--dry-run[change nothing]' '--help[print help]' '1:device:_files' ;;
	apply)
		_arguments '--config=[the configuration]:file:_files' '--dry-run[change nothing]' \
			'--stop[save and remove all]' '--help[print help]' '*:section' ;;
	completion)
		_arguments '--help[print help]' '1:shell:(bash zsh fish)' ;;
	esac
}

# As a function in $fpath it is called; sourced, it registers itself.
if [ "$funcstack[1]" = _rxadm ]; then
	_rxadm "$@"
else
	compdef _rxadm rxadm
fi
