#compdef rxadm
# SPDX-License-Identifier: GPL-2.0-only
# zsh completion for rxadm

_rxadm_ramdisks()
{
	local -a disks
	local name

	disks=(/sys/block/rxd*(N:t))
	compadd -p /dev/ -- $disks
	compadd -- $disks
	for name in /sys/block/rxd*/rxd/name(N); do
		compadd -- $(cat $name 2>/dev/null)
	done
}

# With -p DIRECTORY, offer paths.
_rxadm_caches()
{
	local -aU caches
	local dm

	# All users can see the caches that rxadm created. Only root can see the others.
	caches=(${(f)"$(rxadm status --raw --noheadings --output NAME 2>/dev/null)"})
	for dm in /sys/block/dm-*/dm(N); do
		[[ $(<$dm/uuid) == RXCACHE-* ]] && caches+=($(<$dm/name))
	done
	compadd "$@" -- $caches
}

# The sections of the configuration, as KIND/NAME.
_rxadm_sections()
{
	local -a sections
	local b='[[:blank:]]'

	sections=(${(f)"$(cat /etc/rxd.conf /etc/rxd.conf.d/*.conf(N) /usr/lib/rxd.conf.d/*.conf(N) \
		2>/dev/null | LC_ALL=C sed -n \
		"s|^$b*\[$b*\([a-z]*\)$b$b*\([A-Za-z0-9][A-Za-z0-9_.-]*\)$b*\].*|\1/\2|p" | sort -u)"})
	compadd -- $sections
}

_rxadm_devices()
{
	_rxadm_ramdisks
	_rxadm_caches
}

# The columns of the command, also after others and commas.
_rxadm_columns()
{
	local -a columns

	columns=($(rxadm $words[1] ${words[(r)--l*]} --help 2>/dev/null |
		sed '1,/^Columns:/d; s/^ *//; s/ .*//'))
	compset -P '+'
	_values -s , column $columns
}

# A cached disk is exported by its path.
_rxadm_exportable()
{
	_rxadm_ramdisks
	_rxadm_caches -p /dev/mapper/
}

_rxadm()
{
	local -a commands names table
	local modes='(writethrough writearound passthrough)'

	commands=(
		'create:create a RAM disk'
		'clone:create RAM disks that share the data of another one'
		'resize:resize a RAM disk, or limit a cache'
		'limit:set the memory that a RAM disk may occupy'
		'clear:discard all data of RAM disks'
		'reset:replace the data of a RAM disk by that of another one'
		'remove:remove RAM disks and free their memory'
		'list:list the RAM disks'
		'info:show all properties of RAM disks and caches'
		'extents:show the ranges of a RAM disk that hold data'
		'diff:show the ranges that two RAM disks do not share'
		'save:save a RAM disk to an image'
		'load:create a RAM disk from an image'
		'map:use a RAM disk as the cache of a slower disk'
		'unmap:remove caches'
		'mode:change or print the mode of a cache'
		'set:change the settings of a cache'
		'status:show the caches and their counters'
		'stats:set the counters of caches to zero'
		'advise:show the hit ratio of a cache with other sizes'
		'top:watch the activity of caches and RAM disks'
		'metrics:print metrics for Prometheus'
		'hotlist:save the list of cached blocks'
		'warm:read the blocks of a list into a cache'
		'export:export a device to other machines'
		'unexport:end exports of devices'
		'apply:create the devices of the configuration'
		'completion:print the completion script for a shell'
		'help:print the help of a command'
	)
	names=(${commands%%:*})
	table=(
		'(-b --bytes)'{-b,--bytes}'[print sizes in bytes]'
		'(-J --json)'{-J,--json}'[print JSON]'
		'(-n --noheadings)'{-n,--noheadings}'[do not print column names]'
		'(-o --output)'{-o,--output=}'[columns to print]:columns:_rxadm_columns'
		'(-O --output-all)'{-O,--output-all}'[print all columns]'
		'(-r --raw)'{-r,--raw}'[separate columns by one space]'
		'(-h --help)'{-h,--help}'[print help]'
	)

	if ((CURRENT > 2)) && [[ $words[2] == (-v|--verbose) ]]; then
		words[2]=()
		((CURRENT--))
	fi
	if ((CURRENT == 2)); then
		_describe command commands
		_arguments '(-v --verbose)'{-v,--verbose}'[report what it waits for, and how long writes were held]' \
			'--help[print help]' '--version[print the version]'
		return
	fi
	shift words
	((CURRENT--))
	case $words[1] in
	create)
		_arguments '--size=[capacity]:size' '--index=[create /dev/rxdN]:number' \
			'--logical-block-size=[logical block size in bytes]:size:(512 4096)' \
			'--mem-limit=[memory that the data may occupy]:size' \
			'--overcommit[do not count the disk towards the share of memory]' \
			'--reserve[allocate all memory now]' \
			'--folio-size=[largest piece of memory that a long write allocates]:size:(4K 64K 2M)' \
			'--node=[NUMA node to allocate memory from]:node:(local interleave)' \
			'--name=[name of the RAM disk]:name' \
			'--uuid=[identity]:uuid' '--detect-zeroes[do not store pages of zeros]' \
			'--dry-run[change nothing]' '--help[print help]' ;;
	clone)
		_arguments '(--index --name --uuid)--count=[number of RAM disks]:number' \
			'--expendable[let the driver give up the disks if memory runs out]' \
			'(--count)--index=[create /dev/rxdN]:number' \
			'--no-freeze[do not freeze file systems]' \
			'(--count)--name=[name of the RAM disk]:name' \
			'--overcommit[do not count the disks towards the share of memory]' \
			'--read-only[make the new disks read-only]' '(--count)--uuid=[identity]:uuid' \
			'--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_ramdisks' ;;
	reset)
		_arguments '--to=[the RAM disk with the data]:device:_rxadm_ramdisks' \
			'--force[discard data that was not saved]' '--dry-run[change nothing]' \
			'--help[print help]' '1:device:_rxadm_ramdisks' ;;
	resize)
		_arguments '--force[shrink even if data lies beyond the new end]' \
			'--overcommit[do not count the disk towards the share of memory]' \
			'--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_devices' '2:size:(none)' ;;
	limit)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_ramdisks' '2:size:(none)' ;;
	clear)
		_arguments '--force[discard data that was not saved]' '--dry-run[change nothing]' \
			'--help[print help]' '*:device:_rxadm_ramdisks' ;;
	remove)
		_arguments '(*)--all[remove all that can be removed]' '--dry-run[change nothing]' \
			'--force[discard data that was not saved]' '--help[print help]' \
			'(--all)*:device:_rxadm_ramdisks' ;;
	list)
		_arguments $table ;;
	info)
		_arguments $table '*:device:_rxadm_devices' ;;
	extents)
		_arguments $table '1:device:_rxadm_ramdisks' ;;
	diff)
		_arguments $table '--base=[the RAM disk to compare with]:device:_rxadm_ramdisks' \
			'--compare[read these ranges, and show only those that differ]' \
			'1:device:_rxadm_ramdisks' ;;
	save)
		_arguments '--compress=[compress the image]:method:(zstd)' \
			'--format=[format of the file]:format:(rxd raw)' \
			'--keep=[with --update: generations that the image keeps]:number' \
			'--no-freeze[do not freeze file systems]' \
			'--update[write only what has changed]' \
			'--progress=[progress to show]:how:(auto bar json none)' '--help[print help]' \
			'1:device:_rxadm_ramdisks' '2:file:_files' ;;
	load)
		_arguments '--into=[an empty RAM disk]:device:_rxadm_ramdisks' \
			'--format=[format of the file]:format:(rxd raw)' \
			'--generation=[load this generation]:number' \
			'--list[print the generations of the image]' '(-J --json)'{-J,--json}'[print JSON]' \
			'--index=[create /dev/rxdN]:number' '--name=[name of the RAM disk]:name' \
			'--node=[NUMA node to allocate memory from]:node:(local interleave)' \
			'--overcommit[do not count the disk towards the share of memory]' \
			'--progress=[progress to show]:how:(auto bar json none)' \
			'--uuid=[identity]:uuid:(random)' '--help[print help]' '1:file:_files' ;;
	map)
		_arguments '--cache=[the RAM disk]:device:_rxadm_ramdisks' \
			'--size=[make a RAM disk of this size, or MIN..MAX]:size' \
			'--overcommit[do not count the RAM disk towards the share of memory]' \
			'--origin=[disk to cache]:device:_files' '--name=[name of the mapping]:name' \
			'--block-size=[size of a cache block]:size:(4K 8K 16K 32K 64K 128K 256K 512K 1M)' \
			"--mode=[what is cached]:mode:$modes" \
			'--seq-cutoff=[do not cache sequential I/O beyond this length]:size' \
			'--force[allow devices that hold data]' '--dry-run[change nothing]' \
			'--help[print help]' ;;
	unmap)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'*:name:_rxadm_caches' ;;
	mode)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'1:name:_rxadm_caches' "2:mode:$modes" ;;
	set)
		_arguments '--seq-cutoff=[do not cache sequential I/O beyond this length]:size' \
			'--latency=[measure latency]:switch:(on off)' \
			'--advise=[find out the hit ratio of other sizes]:switch:(on off)' \
			'--name=[name of a RAM disk]:name' \
			'--dry-run[change nothing]' '--help[print help]' '1:device:_rxadm_devices' ;;
	status)
		_arguments $table '--latency[show a histogram of the latency]' '*:name:_rxadm_caches' ;;
	advise)
		_arguments $table '1:name:_rxadm_caches' ;;
	stats)
		_arguments '--all[reset all caches]' '--dry-run[change nothing]' '--help[print help]' \
			'1:action:(reset)' '*:name:_rxadm_caches' ;;
	top)
		_arguments '(-d --delay)'{-d,--delay=}'[update interval in seconds]:seconds' \
			'(-n --count)'{-n,--count=}'[number of updates]:number' \
			'(-b --batch)'{-b,--batch}'[print lines instead of updating the screen]' \
			'(-J --json)'{-J,--json}'[print JSON]' '--help[print help]' ;;
	hotlist)
		_arguments '--help[print help]' '1:action:(save)' '2:name:_rxadm_caches' \
			'3:file:_files' ;;
	warm)
		_arguments '--background[continue in the background]' '--help[print help]' \
			'1:name:_rxadm_caches' '2:file:_files' ;;
	metrics)
		_arguments '--format=[format of the output]:format:(openmetrics prometheus)' \
			'(-o --output)'{-o,--output=}'[file to write]:file:_files' \
			'--help[print help]' ;;
	export)
		_arguments '--transport=[transport]:transport:(tcp loop)' \
			'--address=[address to listen on]:address' '--port=[TCP port]:port' \
			'--nqn=[name that hosts connect to]:name' \
			'*--allow-host=[allow this host to connect]:name' \
			'--allow-any-host[allow all hosts to connect]' \
			'--dhchap-key=[file with the secret of the hosts]:file:_files' \
			'--dry-run[change nothing]' '--help[print help]' \
			'1:device:_rxadm_exportable' ;;
	unexport)
		_arguments '--dry-run[change nothing]' '--help[print help]' \
			'*:device:_rxadm_exportable' ;;
	apply)
		_arguments '--config=[configuration file]:file:_files' '--dry-run[change nothing]' \
			'--save[save the RAM disks to their images]' \
			'--stop[save and remove the devices]' '--help[print help]' \
			'*:section:_rxadm_sections' ;;
	completion)
		_arguments '--help[print help]' '1:shell:(bash zsh fish)' ;;
	help)
		_arguments '--help[print help]' "1:command:($names)" ;;
	esac
}

# As a function in $fpath it is called; sourced, it registers itself.
if [ "$funcstack[1]" = _rxadm ]; then
	_rxadm "$@"
else
	compdef _rxadm rxadm
fi
