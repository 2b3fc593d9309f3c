# SPDX-License-Identifier: GPL-2.0-only
# fish completion for rxadm

function __rxadm_ramdisks
	for disk in /sys/block/rxd*
		echo /dev/(basename $disk)
	end
end

function __rxadm_caches
	rxadm status --raw --noheadings --output NAME 2>/dev/null
end

function __rxadm_of
	__fish_seen_subcommand_from $argv
end

complete -c rxadm -f
complete -c rxadm -n __fish_use_subcommand -s h -l help -d 'print help'
complete -c rxadm -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c rxadm -n __fish_use_subcommand -a create -d 'make a RAM disk'
complete -c rxadm -n __fish_use_subcommand -a resize -d 'grow or shrink a RAM disk'
complete -c rxadm -n __fish_use_subcommand -a limit -d 'set how much memory a RAM disk may take'
complete -c rxadm -n __fish_use_subcommand -a clear -d 'forget all that a RAM disk holds'
complete -c rxadm -n __fish_use_subcommand -a remove -d 'remove a RAM disk and free its memory'
complete -c rxadm -n __fish_use_subcommand -a list -d 'list the RAM disks'
complete -c rxadm -n __fish_use_subcommand -a info -d 'show all that is known of a RAM disk or cache'
complete -c rxadm -n __fish_use_subcommand -a extents -d 'show which ranges of a RAM disk hold data'
complete -c rxadm -n __fish_use_subcommand -a save -d 'save a RAM disk to an image'
complete -c rxadm -n __fish_use_subcommand -a load -d 'make a RAM disk from an image'
complete -c rxadm -n __fish_use_subcommand -a map -d 'let a RAM disk cache a slow disk'
complete -c rxadm -n __fish_use_subcommand -a unmap -d 'remove a cache'
complete -c rxadm -n __fish_use_subcommand -a mode -d 'change what is cached, or print the mode'
complete -c rxadm -n __fish_use_subcommand -a set -d 'change what a cache does'
complete -c rxadm -n __fish_use_subcommand -a status -d 'show the caches and what they did'
complete -c rxadm -n __fish_use_subcommand -a stats -d 'set the counters of caches to zero'
complete -c rxadm -n __fish_use_subcommand -a top -d 'watch what caches and RAM disks do'
complete -c rxadm -n __fish_use_subcommand -a metrics -d 'print metrics for Prometheus'
complete -c rxadm -n __fish_use_subcommand -a hotlist -d 'save which blocks are cached'
complete -c rxadm -n __fish_use_subcommand -a warm -d 'have a cache read what another one held'
complete -c rxadm -n __fish_use_subcommand -a export -d 'offer a device to other machines'
complete -c rxadm -n __fish_use_subcommand -a unexport -d 'offer a device no more'
complete -c rxadm -n __fish_use_subcommand -a apply -d 'make what the configuration says'
complete -c rxadm -n __fish_use_subcommand -a completion -d 'print the completion script of a shell'

complete -c rxadm -n '__rxadm_of create resize limit clear remove list info extents save load map unmap mode set status stats top metrics hotlist warm export unexport apply completion' -s h -l help -d 'print help'
complete -c rxadm -n '__rxadm_of list info extents status' -s b -l bytes -d 'print sizes in bytes'
complete -c rxadm -n '__rxadm_of list info extents status top' -s J -l json -d 'print JSON'
complete -c rxadm -n '__rxadm_of list info extents status' -s n -l noheadings -d 'print no column names'
complete -c rxadm -n '__rxadm_of list info extents status' -s o -l output -x -d 'columns to print'
complete -c rxadm -n '__rxadm_of list info extents status' -s O -l output-all -d 'print all columns'
complete -c rxadm -n '__rxadm_of list info extents status' -s r -l raw -d 'separate columns by one space'
complete -c rxadm -n '__rxadm_of create resize limit clear remove map unmap mode set stats export unexport apply' -l dry-run -d 'change nothing'

complete -c rxadm -n '__rxadm_of create' -l size -x -d 'capacity'
complete -c rxadm -n '__rxadm_of create load' -l index -x -d 'make /dev/rxdN'
complete -c rxadm -n '__rxadm_of create' -l logical-block-size -x -a '512 4096' -d 'in bytes'
complete -c rxadm -n '__rxadm_of create' -l mem-limit -x -d 'memory that the data may take'
complete -c rxadm -n '__rxadm_of create resize load' -l overcommit -d 'allow more than the share of memory'
complete -c rxadm -n '__rxadm_of create' -l reserve -d 'take all the memory now'
complete -c rxadm -n '__rxadm_of create' -l folio-size -x -a '4K 64K 2M' -d 'largest piece of memory'
complete -c rxadm -n '__rxadm_of create load' -l node -x -a 'local interleave' -d 'where memory comes from'
complete -c rxadm -n '__rxadm_of create load' -l uuid -x -d 'identity'
complete -c rxadm -n '__rxadm_of create' -l detect-zeroes -d 'store no zeros'
complete -c rxadm -n '__rxadm_of resize' -l force -d 'lose what lies beyond the new end'
complete -c rxadm -n '__rxadm_of map' -l force -d 'take what holds data'
complete -c rxadm -n '__rxadm_of map' -l cache -x -a '(__rxadm_ramdisks)' -d 'the RAM disk'
complete -c rxadm -n '__rxadm_of map' -l origin -r -F -d 'the slow disk'
complete -c rxadm -n '__rxadm_of map' -l name -x -d 'of the mapping'
complete -c rxadm -n '__rxadm_of map' -l block-size -x -a '4K 8K 16K 32K 64K 128K 256K 512K 1M' -d 'of the cache'
complete -c rxadm -n '__rxadm_of map' -l mode -x -a 'writethrough writearound passthrough' -d 'what is cached'
complete -c rxadm -n '__rxadm_of map set' -l seq-cutoff -x -d 'longest sequential I/O that is cached'
complete -c rxadm -n '__rxadm_of set' -l latency -x -a 'on off' -d 'measure latency'
complete -c rxadm -n '__rxadm_of status' -l latency -d 'show how long I/O took'
complete -c rxadm -n '__rxadm_of stats' -l all -d 'all caches'
complete -c rxadm -n '__rxadm_of top' -s d -l delay -x -d 'seconds between looks'
complete -c rxadm -n '__rxadm_of top' -s n -l count -x -d 'how many looks'
complete -c rxadm -n '__rxadm_of warm' -l background -d 'return at once'
complete -c rxadm -n '__rxadm_of save' -l compress -x -a 'zstd' -d 'compress the image'
complete -c rxadm -n '__rxadm_of save load' -l progress -x -a 'auto bar json none' -d 'what to show'
complete -c rxadm -n '__rxadm_of load' -l into -x -a '(__rxadm_ramdisks)' -d 'an empty RAM disk'
complete -c rxadm -n '__rxadm_of metrics' -l format -x -a 'openmetrics prometheus' -d 'of the text'
complete -c rxadm -n '__rxadm_of metrics' -s o -l output -r -F -d 'file to replace'
complete -c rxadm -n '__rxadm_of export' -l transport -x -a 'tcp loop' -d 'how to reach it'
complete -c rxadm -n '__rxadm_of export' -l address -x -d 'where to listen'
complete -c rxadm -n '__rxadm_of export' -l port -x -d 'TCP port'
complete -c rxadm -n '__rxadm_of export' -l nqn -x -d 'name to be found by'
complete -c rxadm -n '__rxadm_of export' -l allow-host -x -d 'a host that may connect'
complete -c rxadm -n '__rxadm_of export' -l allow-any-host -d 'let every host connect'
complete -c rxadm -n '__rxadm_of export' -l dhchap-key -r -F -d 'secret of the hosts'
complete -c rxadm -n '__rxadm_of apply' -l config -r -F -d 'the configuration'
complete -c rxadm -n '__rxadm_of apply' -l stop -d 'save and remove all'

complete -c rxadm -n '__rxadm_of resize limit clear remove info extents save export unexport' -a '(__rxadm_ramdisks)'
complete -c rxadm -n '__rxadm_of info unmap mode set status stats hotlist warm' -a '(__rxadm_caches)'
complete -c rxadm -n '__rxadm_of limit' -a 'none'
complete -c rxadm -n '__rxadm_of mode' -a 'writethrough writearound passthrough'
complete -c rxadm -n '__rxadm_of stats' -a 'reset'
complete -c rxadm -n '__rxadm_of hotlist' -a 'save'
complete -c rxadm -n '__rxadm_of save load hotlist warm' -a '(__fish_complete_path)'
complete -c rxadm -n '__rxadm_of completion' -a 'bash zsh fish'
