# SPDX-License-Identifier: GPL-2.0-only
# fish completion for rxadm

function __rxadm_ramdisks
	for disk in /sys/block/rxd*
		echo /dev/(basename $disk)
		cat $disk/rxd/name 2>/dev/null
	end
end

# All users can see the caches that rxadm created. Only root can see the others.
function __rxadm_caches
	begin
		for dm in /sys/block/dm-*/dm
			string match -q 'RXCACHE-*' -- (cat $dm/uuid); and cat $dm/name
		end
		rxadm status --raw --noheadings --output NAME
	end 2>/dev/null | sort -u
end

# The sections of the configuration, as KIND/NAME.
function __rxadm_sections
	set -l pattern '^[ \t]*\[[ \t]*([a-z]+)[ \t]+([A-Za-z0-9][A-Za-z0-9_.-]*)[ \t]*\].*'
	for file in /etc/rxd.conf /etc/rxd.conf.d/*.conf /usr/lib/rxd.conf.d/*.conf
		test -r $file; and string replace -rf $pattern '$1/$2' <$file
	end | sort -u
end

# The columns of the command, each after what the list holds so far.
function __rxadm_columns
	set -l words (commandline -opc)
	set -l command (string match -v -- '-*' $words[2..-1])[1]
	set -l list (commandline -ct | string replace -r '^--output=' '')
	set -l before (string replace -r '[^,+]*$' '' -- $list)
	for column in (rxadm $command (string match -- '--l*' $words) --help |
		sed '1,/^Columns:/d; s/^ *//; s/ .*//')
		echo $before$column
	end
end

# Is the command one of these? Words such as "save" are also arguments of other commands.
function __rxadm_of
	set -l words (commandline -opc)
	set -e words[1]
	for word in $words
		if not string match -q -- '-*' $word
			contains -- $word $argv
			return
		end
	end
	return 1
end

complete -c rxadm -f
complete -c rxadm -n __fish_use_subcommand -s h -l help -d 'print help'
complete -c rxadm -n __fish_use_subcommand -s v -l verbose -d 'report what it waits for, and how long writes were held'
complete -c rxadm -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c rxadm -n __fish_use_subcommand -a create -d 'create a RAM disk'
complete -c rxadm -n __fish_use_subcommand -a clone -d 'create RAM disks that share the data of another one'
complete -c rxadm -n __fish_use_subcommand -a resize -d 'resize a RAM disk, or limit a cache'
complete -c rxadm -n __fish_use_subcommand -a limit -d 'set the memory that a RAM disk may occupy'
complete -c rxadm -n __fish_use_subcommand -a clear -d 'discard all data of RAM disks'
complete -c rxadm -n __fish_use_subcommand -a reset -d 'replace the data of a RAM disk by that of another one'
complete -c rxadm -n __fish_use_subcommand -a remove -d 'remove RAM disks and free their memory'
complete -c rxadm -n __fish_use_subcommand -a list -d 'list the RAM disks'
complete -c rxadm -n __fish_use_subcommand -a info -d 'show all properties of RAM disks and caches'
complete -c rxadm -n __fish_use_subcommand -a extents -d 'show the ranges of a RAM disk that hold data'
complete -c rxadm -n __fish_use_subcommand -a diff -d 'show the ranges that two RAM disks do not share'
complete -c rxadm -n __fish_use_subcommand -a save -d 'save a RAM disk to an image'
complete -c rxadm -n __fish_use_subcommand -a load -d 'create a RAM disk from an image'
complete -c rxadm -n __fish_use_subcommand -a map -d 'use a RAM disk as the cache of a slower disk'
complete -c rxadm -n __fish_use_subcommand -a unmap -d 'remove caches'
complete -c rxadm -n __fish_use_subcommand -a mode -d 'change or print the mode of a cache'
complete -c rxadm -n __fish_use_subcommand -a set -d 'change the settings of a cache'
complete -c rxadm -n __fish_use_subcommand -a status -d 'show the caches and their counters'
complete -c rxadm -n __fish_use_subcommand -a stats -d 'set the counters of caches to zero'
complete -c rxadm -n __fish_use_subcommand -a advise -d 'show the hit ratio of a cache with other sizes'
complete -c rxadm -n __fish_use_subcommand -a top -d 'watch the activity of caches and RAM disks'
complete -c rxadm -n __fish_use_subcommand -a metrics -d 'print metrics for Prometheus'
complete -c rxadm -n __fish_use_subcommand -a hotlist -d 'save the list of cached blocks'
complete -c rxadm -n __fish_use_subcommand -a warm -d 'read the blocks of a list into a cache'
complete -c rxadm -n __fish_use_subcommand -a export -d 'export a device to other machines'
complete -c rxadm -n __fish_use_subcommand -a unexport -d 'end exports of devices'
complete -c rxadm -n __fish_use_subcommand -a apply -d 'create the devices of the configuration'
complete -c rxadm -n __fish_use_subcommand -a completion -d 'print the completion script for a shell'
complete -c rxadm -n __fish_use_subcommand -a help -d 'print the help of a command'

complete -c rxadm -n '__rxadm_of create clone resize limit clear reset remove list info extents diff save load map unmap mode set status stats advise top metrics hotlist warm export unexport apply completion help' -s h -l help -d 'print help'
complete -c rxadm -n '__rxadm_of list info extents diff status advise' -s b -l bytes -d 'print sizes in bytes'
complete -c rxadm -n '__rxadm_of list info extents diff load status advise top' -s J -l json -d 'print JSON'
complete -c rxadm -n '__rxadm_of list info extents diff status advise' -s n -l noheadings -d 'do not print column names'
complete -c rxadm -n '__rxadm_of list info extents diff status advise' -s o -l output -x -a '(__rxadm_columns)' -d 'columns to print'
complete -c rxadm -n '__rxadm_of list info extents diff status advise' -s O -l output-all -d 'print all columns'
complete -c rxadm -n '__rxadm_of list info extents diff status advise' -s r -l raw -d 'separate columns by one space'
complete -c rxadm -n '__rxadm_of create clone resize limit clear reset remove map unmap mode set stats export unexport apply' -l dry-run -d 'change nothing'

complete -c rxadm -n '__rxadm_of create' -l size -x -d 'capacity'
complete -c rxadm -n '__rxadm_of create clone load' -l index -x -d 'create /dev/rxdN'
complete -c rxadm -n '__rxadm_of create' -l logical-block-size -x -a '512 4096' -d 'logical block size in bytes'
complete -c rxadm -n '__rxadm_of create' -l mem-limit -x -d 'memory that the data may occupy'
complete -c rxadm -n '__rxadm_of create clone resize load map' -l overcommit -d 'do not count the disk towards the share of memory'
complete -c rxadm -n '__rxadm_of create' -l reserve -d 'allocate all memory now'
complete -c rxadm -n '__rxadm_of create' -l folio-size -x -a '4K 64K 2M' -d 'largest piece of memory that a long write allocates'
complete -c rxadm -n '__rxadm_of create load' -l node -x -a 'local interleave' -d 'NUMA node to allocate memory from'
complete -c rxadm -n '__rxadm_of create clone' -l uuid -x -d 'identity'
complete -c rxadm -n '__rxadm_of load' -l uuid -x -a random -d 'identity'
complete -c rxadm -n '__rxadm_of create' -l detect-zeroes -d 'do not store pages of zeros'
complete -c rxadm -n '__rxadm_of clone' -l count -x -d 'number of RAM disks'
complete -c rxadm -n '__rxadm_of clone' -l expendable -d 'let the driver give up the disks if memory runs out'
complete -c rxadm -n '__rxadm_of clone save' -l no-freeze -d 'do not freeze file systems'
complete -c rxadm -n '__rxadm_of clone' -l read-only -d 'make the new disks read-only'
complete -c rxadm -n '__rxadm_of reset' -l to -x -a '(__rxadm_ramdisks)' -d 'the RAM disk with the data'
complete -c rxadm -n '__rxadm_of diff' -l base -x -a '(__rxadm_ramdisks)' -d 'the RAM disk to compare with'
complete -c rxadm -n '__rxadm_of diff' -l compare -d 'read these ranges, and show only those that differ'
complete -c rxadm -n '__rxadm_of resize' -l force -d 'shrink even if data lies beyond the new end'
complete -c rxadm -n '__rxadm_of map' -l force -d 'allow devices that hold data'
complete -c rxadm -n '__rxadm_of map' -l cache -x -a '(__rxadm_ramdisks)' -d 'the RAM disk'
complete -c rxadm -n '__rxadm_of map' -l size -x -d 'make a RAM disk of this size, or MIN..MAX'
complete -c rxadm -n '__rxadm_of map' -l origin -r -F -d 'disk to cache'
complete -c rxadm -n '__rxadm_of map' -l name -x -d 'name of the mapping'
complete -c rxadm -n '__rxadm_of map' -l block-size -x -a '4K 8K 16K 32K 64K 128K 256K 512K 1M' -d 'size of a cache block'
complete -c rxadm -n '__rxadm_of map' -l mode -x -a 'writethrough writearound passthrough' -d 'what is cached'
complete -c rxadm -n '__rxadm_of map set' -l seq-cutoff -x -d 'do not cache sequential I/O beyond this length'
complete -c rxadm -n '__rxadm_of create clone load set' -l name -x -d 'name of the RAM disk'
complete -c rxadm -n '__rxadm_of set' -a '(__rxadm_ramdisks)'
complete -c rxadm -n '__rxadm_of set' -l latency -x -a 'on off' -d 'measure latency'
complete -c rxadm -n '__rxadm_of set' -l advise -x -a 'on off' -d 'find out the hit ratio of other sizes'
complete -c rxadm -n '__rxadm_of status' -l latency -d 'show a histogram of the latency'
complete -c rxadm -n '__rxadm_of clear reset remove' -l force -d 'discard data that was not saved'
complete -c rxadm -n '__rxadm_of remove' -l all -d 'remove all that can be removed'
complete -c rxadm -n '__rxadm_of stats' -l all -d 'reset all caches'
complete -c rxadm -n '__rxadm_of top' -s b -l batch -d 'print lines instead of updating the screen'
complete -c rxadm -n '__rxadm_of top' -s d -l delay -x -d 'update interval in seconds'
complete -c rxadm -n '__rxadm_of top' -s n -l count -x -d 'number of updates'
complete -c rxadm -n '__rxadm_of warm' -l background -d 'continue in the background'
complete -c rxadm -n '__rxadm_of save' -l compress -x -a 'zstd' -d 'compress the image'
complete -c rxadm -n '__rxadm_of save load' -l format -x -a 'rxd raw' -d 'format of the file'
complete -c rxadm -n '__rxadm_of save load' -l progress -x -a 'auto bar json none' -d 'progress to show'
complete -c rxadm -n '__rxadm_of save' -l update -d 'write only what has changed'
complete -c rxadm -n '__rxadm_of save' -l keep -x -d 'with --update: generations that the image keeps'
complete -c rxadm -n '__rxadm_of load' -l generation -x -d 'load this generation'
complete -c rxadm -n '__rxadm_of load' -l list -d 'print the generations of the image'
complete -c rxadm -n '__rxadm_of load' -l into -x -a '(__rxadm_ramdisks)' -d 'an empty RAM disk'
complete -c rxadm -n '__rxadm_of metrics' -l format -x -a 'openmetrics prometheus' -d 'format of the output'
complete -c rxadm -n '__rxadm_of metrics' -s o -l output -r -F -d 'file to write'
complete -c rxadm -n '__rxadm_of export' -l transport -x -a 'tcp loop' -d 'transport'
complete -c rxadm -n '__rxadm_of export' -l address -x -d 'address to listen on'
complete -c rxadm -n '__rxadm_of export' -l port -x -d 'TCP port'
complete -c rxadm -n '__rxadm_of export' -l nqn -x -d 'name that hosts connect to'
complete -c rxadm -n '__rxadm_of export' -l allow-host -x -d 'allow this host to connect'
complete -c rxadm -n '__rxadm_of export' -l allow-any-host -d 'allow all hosts to connect'
complete -c rxadm -n '__rxadm_of export' -l dhchap-key -r -F -d 'file with the secret of the hosts'
complete -c rxadm -n '__rxadm_of apply' -l config -r -F -d 'configuration file'
complete -c rxadm -n '__rxadm_of apply' -l save -d 'save the RAM disks to their images'
complete -c rxadm -n '__rxadm_of apply' -l stop -d 'save and remove the devices'

complete -c rxadm -n '__rxadm_of clone resize limit clear reset remove info extents diff save export unexport' -a '(__rxadm_ramdisks)'
complete -c rxadm -n '__rxadm_of resize info unmap mode set status stats advise hotlist warm' -a '(__rxadm_caches)'
complete -c rxadm -n '__rxadm_of export unexport' -a '(__rxadm_caches | string replace -r "^" /dev/mapper/)'
complete -c rxadm -n '__rxadm_of apply' -a '(__rxadm_sections)'
complete -c rxadm -n '__rxadm_of limit resize' -a 'none'
complete -c rxadm -n '__rxadm_of mode' -a 'writethrough writearound passthrough'
complete -c rxadm -n '__rxadm_of stats' -a 'reset'
complete -c rxadm -n '__rxadm_of hotlist' -a 'save'
complete -c rxadm -n '__rxadm_of save load hotlist warm' -a '(__fish_complete_path)'
complete -c rxadm -n '__rxadm_of completion' -a 'bash zsh fish'
complete -c rxadm -n '__rxadm_of help' -a 'create clone resize limit clear reset remove list info extents diff save load map unmap mode set status stats advise top metrics hotlist warm export unexport apply completion'
