// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration: what is read from it, and each error word for word.
 */
#include <linux/rxd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "config/config.h"
#include "config/config_files.h"
#include "tap.h"

#define RAM	(1ULL << 30)
#define DISK	"[ramdisk a]\nsize = 4M\n"
#define CACHE	"[cache c]\norigin = /dev/sdb\nsize = 4M\n"
#define HOST	"nqn.2014-08.org.nvmexpress:uuid:1"
#define EXPORT	"[export e]\ndevice = ramdisk/a\n"
#define LOOP	DISK EXPORT "transport = loop\n"
#define HEAD	"rxadm-record 1"
#define TCP	DISK EXPORT "transport = tcp\naddress = ::\n"
#define NQN_RULE \
	"must be of the form nqn.YYYY-MM.DOMAIN:NAME, of at most 223 printable characters without spaces, slashes and quotes"
#define DEVICE_RULE \
	"must be ramdisk/NAME or cache/NAME, the kind and name of another section"
#define RAMDISK_KEYS \
	"autosave, compress, detect-zeroes, folio-size, fs, image, index, keep, logical-block-size, mem-limit, mount, noauto, node, options, overcommit, reserve, size, uuid"
#define PATH_RULE \
	"must be an absolute path of ASCII characters without blanks, quotes, backslashes, '//' and parts '.' or '..'"
#define COMPRESS_RULE \
	"must be zstd, zstd:LEVEL with a level from 1 to 22, or no"
#define FLAG_RULE \
	"must be yes, true, on or 1, or no, false, off or 0"
#define INTERVAL_RULE \
	"must be a whole number with s, min, h or d, such as 10min or 1h 30min, or no"
#define UUID_RULE \
	"must be hexadecimal digits in groups of 8, 4, 4, 4 and 12, separated by hyphens"
#define NOT_USED \
	"usr: is ignored, because an earlier file has an error outside of all sections"
#define SIZE_RULE \
	"must be a number of bytes, a number with K, M, G, T, P or E, or a percentage"

/* The UUIDs that are derived from ramdisk/a and cache/c, and from export/e, which has no disk. */
#define UUID_A	"cad72af5-b2c3-5b9d-ae78-e3b0ec30bc2d"
#define UUID_C	"280fb0d9-cc16-51ef-8bf0-af37ce701b8f"
#define UUID_E	"87162baa-37a5-53d1-85ee-d86e50c0dd33"

static const struct {
	const char *text;
	const char *error;	/* all of the message but the name of the file */
} wrong[] = {
	{ "size = 4M\n", "1: 'size = 4M': comes before the first [KIND NAME]" },
	{ "[ramdisk]\n",
	  "1: [ramdisk ]: name '': must be 1 to 64 letters, digits or characters of -_. and begin with a letter or a digit" },
	{ "[ramdisk a b]\n",
	  "1: [ramdisk a b]: name 'a b': must be 1 to 64 letters, digits or characters of -_. and begin with a letter or a digit" },
	{ "[ramdisk -a]\n",
	  "1: [ramdisk -a]: name '-a': must be 1 to 64 letters, digits or characters of -_. and begin with a letter or a digit" },
	{ "\n[ramdisk a/b]\nsize = x\n",
	  "2: [ramdisk a/b]: name 'a/b': must be 1 to 64 letters, digits or characters of -_. and begin with a letter or a digit" },
	{ "[disk a]\nsize = 1\n", "1: section 'disk': must be [ramdisk NAME], [cache NAME] or [export NAME]" },
	{ "[]\n", "1: section '': must be [ramdisk NAME], [cache NAME] or [export NAME]" },
	{ "[ramdisk a\n", "1: '[ramdisk a': must be [KIND NAME]" },
	{ "[ramdisk a] b\n", "1: '[ramdisk a] b': must be [KIND NAME]" },
	{ DISK "\n# c\n" DISK, "5: [ramdisk a]: is defined already, at F:1" },
	{ "[ramdisk a]\n", "1: [ramdisk a]: key 'size': is missing" },
	{ "[cache c]\nsize = 4M\n", "1: [cache c]: key 'origin': is missing" },
	{ "[cache c]\norigin = /dev/sdb\n", "1: [cache c]: key 'size': is missing" },
	{ DISK "sise = 4M\n",
	  "3: [ramdisk a]: key 'sise': is unknown; did you mean 'size'? there are " RAMDISK_KEYS },
	{ DISK "SIZE = 4M\n",
	  "3: [ramdisk a]: key 'SIZE': is unknown; did you mean 'size'? there are " RAMDISK_KEYS },
	{ DISK "auto = 4M\n",
	  "3: [ramdisk a]: key 'auto': is unknown; did you mean 'autosave'? there are " RAMDISK_KEYS },
	{ DISK "origin = /dev/sdb\n",
	  "3: [ramdisk a]: key 'origin': is unknown; there are " RAMDISK_KEYS },
	{ DISK " = 4M\n", "3: [ramdisk a]: key '': is unknown; there are " RAMDISK_KEYS },
	{ DISK "size = 8M\n", "3: [ramdisk a]: key 'size': is given already, on line 2" },
	{ DISK "reserve\n", "3: [ramdisk a]: 'reserve': must be KEY = VALUE" },
	{ "[ramdisk a]\nsize = 5X\n",
	  "2: [ramdisk a]: size '5X': has an unknown suffix; " SIZE_RULE },
	{ "[ramdisk a]\nsize = # 2G\n", "2: [ramdisk a]: size '': is empty; " SIZE_RULE },
	{ "[ramdisk a]\nsize = 4097\n",
	  "2: [ramdisk a]: size '4097': must be a multiple of 4096 bytes" },
	{ "[ramdisk a]\nsize = 257T\n",
	  "2: [ramdisk a]: size '257T': is too large; must be at most 256T" },
	{ DISK "fs = ext4 x\n",
	  "3: [ramdisk a]: fs 'ext4 x': must be the name of a file system such as ext4: 1 to 31 lower-case letters, digits or _" },
	{ DISK "fs = ../x\n",
	  "3: [ramdisk a]: fs '../x': must be the name of a file system such as ext4: 1 to 31 lower-case letters, digits or _" },
	{ DISK "fs = ext4\nmount = scratch\n",
	  "4: [ramdisk a]: mount 'scratch': " PATH_RULE },
	{ DISK "fs = ext4\nmount = /\n", "4: [ramdisk a]: mount '/': " PATH_RULE },
	{ DISK "fs = ext4\nmount = /a/\n", "4: [ramdisk a]: mount '/a/': " PATH_RULE },
	{ DISK "fs = ext4\nmount = /a//b\n", "4: [ramdisk a]: mount '/a//b': " PATH_RULE },
	{ DISK "fs = ext4\nmount = /a/../b\n", "4: [ramdisk a]: mount '/a/../b': " PATH_RULE },
	{ DISK "fs = ext4\nmount = /a/.\n", "4: [ramdisk a]: mount '/a/.': " PATH_RULE },
	{ DISK "image = /a b\n", "3: [ramdisk a]: image '/a b': " PATH_RULE },
	{ DISK "image = \"/a\"\n", "3: [ramdisk a]: image '\"/a\"': " PATH_RULE },
	{ DISK "image = /\303\244\n", "3: [ramdisk a]: image '/\303\244': " PATH_RULE },
	{ DISK "mount = /a\n",
	  "1: [ramdisk a]: mount '/a': requires the key fs or image" },
	{ DISK "options = noatime\n",
	  "1: [ramdisk a]: options 'noatime': require the key mount" },
	{ DISK "fs = ext4\nmount = /a\noptions = a b\n",
	  "5: [ramdisk a]: options 'a b': must be mount options separated by commas, without blanks, quotes and backslashes" },
	{ DISK "mount = /a\nimage = /a/image\n",
	  "1: [ramdisk a]: image '/a/image': lies on the RAM disk itself, mounted on '/a'" },
	{ DISK "compress = zstd\n",
	  "1: [ramdisk a]: compress 'zstd': requires the key image" },
	{ DISK "image = /i\ncompress = gzip\n", "4: [ramdisk a]: compress 'gzip': " COMPRESS_RULE },
	{ DISK "image = /i\ncompress = yes\n", "4: [ramdisk a]: compress 'yes': " COMPRESS_RULE },
	{ DISK "image = /i\ncompress = 1\n", "4: [ramdisk a]: compress '1': " COMPRESS_RULE },
	{ DISK "image = /i\ncompress = zstd:0\n",
	  "4: [ramdisk a]: compress 'zstd:0': " COMPRESS_RULE },
	{ DISK "image = /i\ncompress = zstd:23\n",
	  "4: [ramdisk a]: compress 'zstd:23': " COMPRESS_RULE },
	{ DISK "image = /i\ncompress = zstd:\n",
	  "4: [ramdisk a]: compress 'zstd:': " COMPRESS_RULE },
	{ DISK "noauto = maybe\n", "3: [ramdisk a]: noauto 'maybe': " FLAG_RULE },
	{ DISK "autosave = 10min\n", "1: [ramdisk a]: autosave '10min': requires the key image" },
	{ DISK "keep = 3\n", "1: [ramdisk a]: keep '3': requires the key image" },
	{ DISK "image = /i\nautosave = 600\n",
	  "4: [ramdisk a]: autosave '600': has no unit; " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = 1h 30\n",
	  "4: [ramdisk a]: autosave '1h 30': has no unit; " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = \n",
	  "4: [ramdisk a]: autosave '': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = 10m\n",
	  "4: [ramdisk a]: autosave '10m': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = 1.5h\n",
	  "4: [ramdisk a]: autosave '1.5h': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = -1h\n",
	  "4: [ramdisk a]: autosave '-1h': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = 1h,\n",
	  "4: [ramdisk a]: autosave '1h,': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = min\n",
	  "4: [ramdisk a]: autosave 'min': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = yes\n",
	  "4: [ramdisk a]: autosave 'yes': " INTERVAL_RULE },
	{ DISK "image = /i\nautosave = 9s\n",
	  "4: [ramdisk a]: autosave '9s': is too short; must be at least 10s" },
	{ DISK "image = /i\nautosave = 0s\n",
	  "4: [ramdisk a]: autosave '0s': is too short; must be at least 10s" },
	{ DISK "image = /i\nautosave = 365d 1s\n",
	  "4: [ramdisk a]: autosave '365d 1s': is too long; must be at most 365d" },
	{ DISK "image = /i\nautosave = 99999999999999999999d\n",
	  "4: [ramdisk a]: autosave '99999999999999999999d': is too long; must be at most 365d" },
	{ DISK "image = /i\nkeep = 0\n",
	  "4: [ramdisk a]: keep '0': must be a number from 1 to 64" },
	{ DISK "image = /i\nkeep = 65\n",
	  "4: [ramdisk a]: keep '65': must be a number from 1 to 64" },
	{ DISK "image = /i\nkeep = 3d\n",
	  "4: [ramdisk a]: keep '3d': must be a number from 1 to 64" },
	{ CACHE "compress = zstd\n",
	  "4: [cache c]: key 'compress': is unknown; there are advise, block-size, folio-size, force, hotlist, index, mem-limit, mode, noauto, node, origin, overcommit, seq-cutoff, size, uuid" },
	{ DISK "noauto = yes\n" EXPORT "transport = loop\nallow-any-host = yes\n",
	  "4: [export e]: device 'ramdisk/a': has noauto, so its export must have it, too" },
	{ DISK "index = -1\n", "3: [ramdisk a]: index '-1': must be a number from 0 to 1048575" },
	{ DISK "mem-limit = 0\n",
	  "3: [ramdisk a]: mem-limit '0': must be greater than 0, and a multiple of 4096 bytes" },
	{ DISK "folio-size = 8K\n", "3: [ramdisk a]: folio-size '8K': must be 4K, 64K or 2M" },
	{ DISK "node = x\n",
	  "3: [ramdisk a]: node 'x': must be local, interleave or a number from 0 to 1023" },
	{ DISK "overcommit = tru\n", "3: [ramdisk a]: overcommit 'tru': " FLAG_RULE },
	{ DISK "reserve = 2\n", "3: [ramdisk a]: reserve '2': " FLAG_RULE },
	{ DISK "reserve = 01\n", "3: [ramdisk a]: reserve '01': " FLAG_RULE },
	{ DISK "detect-zeroes = \n", "3: [ramdisk a]: detect-zeroes '': " FLAG_RULE },
	{ DISK "detect-zeroes = yes no\n",
	  "3: [ramdisk a]: detect-zeroes 'yes no': " FLAG_RULE },
	{ CACHE "force = y\n", "4: [cache c]: force 'y': " FLAG_RULE },
	{ CACHE "advise = 2\n", "4: [cache c]: advise '2': " FLAG_RULE },
	{ "[cache c]\norigin = /dev/sdb\nsize = 8M..4M\n",
	  "3: [cache c]: size '8M..4M': the minimum '8M' is above the maximum; must be at most '4M'" },
	{ "[cache c]\norigin = /dev/sdb\nsize = ..\n",
	  "3: [cache c]: size '..': the minimum is missing; must be MIN..MAX, such as 4G..75%" },
	{ "[cache c]\norigin = /dev/sdb\nsize = 1M..\n",
	  "3: [cache c]: size '1M..': the maximum is missing; must be MIN..MAX, such as 4G..75%" },
	{ "[cache c]\norigin = /dev/sdb\nsize = 1M..%\n",
	  "3: [cache c]: size '1M..%': the maximum '%' is not a number; " SIZE_RULE },
	{ "[cache c]\norigin = /dev/sdb\nsize = 1M..100.1%\n",
	  "3: [cache c]: size '1M..100.1%': the maximum '100.1%' is more than the memory of the machine; must be at most 1G" },
	{ "[ramdisk a]\nsize = 1M..2M\n",
	  "2: [ramdisk a]: size '1M..2M': has an unknown suffix; " SIZE_RULE },
	{ DISK "advise = yes\n",
	  "3: [ramdisk a]: key 'advise': is unknown; there are autosave, compress, detect-zeroes, folio-size, fs, image, index, keep, logical-block-size, mem-limit, mount, noauto, node, options, overcommit, reserve, size, uuid" },
	{ DISK "reserve = yes\ndetect-zeroes = yes\n",
	  "1: [ramdisk a]: reserve and detect-zeroes exclude each other: detect-zeroes frees pages, reserve keeps them" },
	{ DISK "reserve = yes\nmem-limit = 2M\n",
	  "1: [ramdisk a]: mem-limit '2M': must be at least the size '4M' with reserve" },
	{ DISK "logical-block-size = 1024\n",
	  "3: [ramdisk a]: logical-block-size '1024': must be 512 or 4096" },
	{ DISK "uuid = 1\n",
	  "3: [ramdisk a]: uuid '1': " UUID_RULE },
	{ DISK "uuid = 6a8c4f1e-0000-0000-0000-00000000000\n",
	  "3: [ramdisk a]: uuid '6a8c4f1e-0000-0000-0000-00000000000': " UUID_RULE },
	{ DISK "uuid = 6a8c4f1e-0000-0000-0000-00000000000ab\n",
	  "3: [ramdisk a]: uuid '6a8c4f1e-0000-0000-0000-00000000000ab': " UUID_RULE },
	{ DISK "uuid = 6a8c4f1e-0000-0000-0000-00000000000g\n",
	  "3: [ramdisk a]: uuid '6a8c4f1e-0000-0000-0000-00000000000g': " UUID_RULE },
	{ DISK "uuid = 6a8c4f1e0-000-0000-0000-00000000000a\n",
	  "3: [ramdisk a]: uuid '6a8c4f1e0-000-0000-0000-00000000000a': " UUID_RULE },
	{ DISK "uuid = 6a8c4f1e000000000000000000000000000a\n",
	  "3: [ramdisk a]: uuid '6a8c4f1e000000000000000000000000000a': " UUID_RULE },
	{ DISK "uuid = 00000000-0000-0000-0000-000000000000\n",
	  "3: [ramdisk a]: uuid '00000000-0000-0000-0000-000000000000': must not be zero" },
	{ CACHE "mode = writeback\n",
	  "4: [cache c]: mode 'writeback': must be writethrough, writearound or passthrough" },
	{ CACHE "block-size = 12K\n",
	  "4: [cache c]: block-size '12K': must be a power of two from 4K to 1M" },
	{ CACHE "seq-cutoff = 1\n",
	  "4: [cache c]: seq-cutoff '1': must be a multiple of 512 bytes" },
	{ CACHE "seq-cutoff = -1\n",
	  "4: [cache c]: seq-cutoff '-1': must be 0 to cache all I/O, or a multiple of 512 bytes up to 1T" },
	{ CACHE "hotlist = data.hot\n", "4: [cache c]: hotlist 'data.hot': " PATH_RULE },
	{ "[cache c]\norigin = sdb\nsize = 4M\n", "2: [cache c]: origin 'sdb': " PATH_RULE },
	{ "[cache c]\norigin = /sdb\nsize = 4M\n",
	  "2: [cache c]: origin '/sdb': must be a path below /dev, preferably in /dev/disk/by-id" },
	{ "[cache c]\norigin = /dev/disk/by-uuid/x\nsize = 4M\n",
	  "2: [cache c]: origin '/dev/disk/by-uuid/x': refers to the contents, which the cached disk shares; give a path in /dev/disk/by-id" },
	{ CACHE "[cache d]\norigin = /dev/sdb\nsize = 4M\n",
	  "5: [cache d]: origin '/dev/sdb': [cache c] at F:1 has it already" },
	{ DISK "index = 3\n" CACHE "index = 3\n",
	  "7: [cache c]: index '3': [ramdisk a] at F:1 has it already" },
	{ DISK "image = /i\n" CACHE "hotlist = /i\n",
	  "7: [cache c]: hotlist '/i': [ramdisk a] at F:1 has it already" },
	{ DISK "fs = xfs\nmount = /m\n[ramdisk b]\nsize = 1M\nfs = xfs\nmount = /m\n",
	  "8: [ramdisk b]: mount '/m': [ramdisk a] at F:1 has it already" },
	{ DISK "uuid = 6a8c4f1e-0000-0000-0000-00000000000a\n"
	  CACHE "uuid = 6A8C4F1E-0000-0000-0000-00000000000A\n",
	  "7: [cache c]: uuid '6A8C4F1E-0000-0000-0000-00000000000A': [ramdisk a] at F:1 has it already" },
	{ DISK "[ramdisk b]\nsize = 1M\nuuid = " UUID_A "\n",
	  "5: [ramdisk b]: uuid '" UUID_A "': [ramdisk a] at F:1 has it already" },
	{ "[ramdisk b]\nsize = 1M\nuuid = " UUID_A "\n" DISK,
	  "4: [ramdisk a]: uuid '" UUID_A "', derived from its name: [ramdisk b] at F:1 has it already" },
	{ DISK "uuid = " UUID_C "\n" CACHE,
	  "4: [cache c]: uuid '" UUID_C "', derived from its name: [ramdisk a] at F:1 has it already" },
	{ "[export e]\ntransport = loop\nallow-any-host = yes\n",
	  "1: [export e]: key 'device': is missing" },
	{ DISK EXPORT "allow-any-host = yes\n", "3: [export e]: key 'transport': is missing" },
	{ "[export e]\ndevice = a\ntransport = loop\n",
	  "2: [export e]: device 'a': " DEVICE_RULE },
	{ "[export e]\ndevice = export/e\ntransport = loop\n",
	  "2: [export e]: device 'export/e': " DEVICE_RULE },
	{ "[export e]\ndevice = ramdisk/\ntransport = loop\n",
	  "2: [export e]: device 'ramdisk/': " DEVICE_RULE },
	{ "[export e]\ndevice = ramdisk/a/b\ntransport = loop\n",
	  "2: [export e]: device 'ramdisk/a/b': " DEVICE_RULE },
	{ CACHE EXPORT "transport = loop\nallow-any-host = yes\n",
	  "4: [export e]: device 'ramdisk/a': there is no such section" },
	{ DISK "fs = ext4\nmount = /m\n" EXPORT "transport = loop\nallow-any-host = yes\n",
	  "5: [export e]: device 'ramdisk/a': is mounted on '/m'; a device cannot be both mounted and exported" },
	{ DISK EXPORT "transport = ib\n",
	  "5: [export e]: transport 'ib': must be tcp or loop" },
	{ DISK EXPORT "transport = tcp\nallow-any-host = yes\n",
	  "3: [export e]: key 'address': is missing; give the IP address to listen on, or 0.0.0.0 for all" },
	{ DISK EXPORT "transport = tcp\naddress = localhost\n",
	  "6: [export e]: address 'localhost': must be an IP address such as 192.0.2.1 or 2001:db8::1" },
	{ LOOP "address = 192.0.2.1\n",
	  "3: [export e]: address '192.0.2.1': requires transport tcp" },
	{ LOOP "port = 4420\n", "3: [export e]: port '4420': requires transport tcp" },
	{ TCP "port = 0\n", "7: [export e]: port '0': must be a number from 1 to 65535" },
	{ TCP "port = 65536\n", "7: [export e]: port '65536': must be a number from 1 to 65535" },
	{ TCP "port = http\n", "7: [export e]: port 'http': must be a number from 1 to 65535" },
	{ LOOP "nqn = data\n", "6: [export e]: nqn 'data': " NQN_RULE },
	{ LOOP "nqn = nqn.2014-08.org.nvmexpress.discovery\n",
	  "6: [export e]: nqn 'nqn.2014-08.org.nvmexpress.discovery': " NQN_RULE },
	{ LOOP,
	  "3: [export e]: key 'allow-host': is missing; give the NQN of each host (see its /etc/nvme/hostnqn), or allow-any-host = yes" },
	{ LOOP "allow-any-host = no\n",
	  "3: [export e]: key 'allow-host': is missing; give the NQN of each host (see its /etc/nvme/hostnqn), or allow-any-host = yes" },
	{ LOOP "allow-any-host = all\n",
	  "6: [export e]: allow-any-host 'all': " FLAG_RULE },
	{ LOOP "allow-host = \n",
	  "6: [export e]: allow-host '': must be the NQNs of hosts, separated by blanks" },
	{ LOOP "allow-host = " HOST ",x\tx\n",
	  "6: [export e]: allow-host '" HOST ",x\tx': 'x' " NQN_RULE },
	{ LOOP "allow-host = " HOST " " HOST "\n",
	  "6: [export e]: allow-host '" HOST " " HOST "': '" HOST "' is given twice" },
	{ LOOP "allow-host = " HOST "\nallow-any-host = yes\n",
	  "3: [export e]: allow-host and allow-any-host exclude each other" },
	{ LOOP "allow-any-host = yes\ndhchap-key = /k\n",
	  "3: [export e]: dhchap-key '/k': requires the key allow-host" },
	{ LOOP "dhchap-key = k\n", "6: [export e]: dhchap-key 'k': " PATH_RULE },
	{ LOOP "allow-any-host = yes\n[export f]\ndevice = ramdisk/a\ntransport = loop\n"
	  "allow-any-host = yes\n",
	  "8: [export f]: device 'ramdisk/a': [export e] at F:3 has it already" },
};

static const char *const right[] = {
	"",
	"# nothing\n   ; nothing either\n\n",
	DISK,
	"[ramdisk a]\nsize = 4M",
	"\t[ \tramdisk  a ] # comment\r\n size=25%\t; comment\r\n",
	DISK "image = /a#b\n",
	DISK "fs = ext4\nmount = /a\noptions = noatime,discard\nimage = /ab/c\n",
	DISK "[cache a]\norigin = /dev/disk/by-id/x\nsize = 10%\n",
	DISK "fs = xfs\nmount = /m\n[ramdisk b]\nsize = 1M\nfs = xfs\nmount = /M\n",
	CACHE "advise = yes\n",
	"[cache a]\norigin = /dev/disk/by-id/x\nsize = 1M..100%\n",
	"[cache a]\norigin = /dev/disk/by-id/x\nsize = 5%..5%\n",
	CACHE "mode = passthrough\nblock-size = 64K\nseq-cutoff = 0\nhotlist = /h\nindex = 0\n"
	"mem-limit = 1M\nfolio-size = 2M\nnode = interleave\novercommit = no\n",
	DISK "reserve = yes\nmem-limit = 4M\ndetect-zeroes = no\n",
	DISK "image = /i\ncompress = zstd:22\n",
	DISK "image = /i\ncompress = no\nnoauto = no\n",
	DISK "image = /i\ncompress = Off\n",
	DISK "image = /i\nautosave = Off\nreserve = yes\n",
	DISK "image = /i\nautosave = 1h\nkeep = 2\nreserve = yes\n",
	DISK "image = /i\nautosave = 365d\nkeep = 64\n",
	DISK "image = /i\nkeep = 2\n",
	DISK "uuid = " UUID_A "\n",
	DISK "uuid = " UUID_C "\n" CACHE "uuid = " UUID_A "\n",
	DISK "uuid = " UUID_E "\n" EXPORT "transport = loop\nallow-any-host = yes\n",
	DISK "noauto = yes\n" EXPORT "transport = loop\nallow-any-host = yes\nnoauto = yes\n",
	/* One section depends on another, without a circle. */
	DISK "fs = ext4\nmount = /a\n[ramdisk b]\nsize = 1M\nfs = xfs\nmount = /a/b\n"
	"[ramdisk c]\nsize = 1M\nfs = xfs\nmount = /ab\nimage = /a/b/image\n",
	TCP "port = 1\nallow-host = " HOST " " HOST "2\ndhchap-key = /k\nnqn = nqn.2026-11.a\n",
	EXPORT "transport = loop\nallow-any-host = yes\n" DISK "fs = ext4\n",
	DISK "[export a]\ndevice = cache/c\ntransport = loop\nallow-any-host = yes\n" CACHE,
};

static void read_bytes(struct config *config, const char *text, size_t size)
{
	FILE *file = tmpfile();

	if (!file || (size && fwrite(text, size, 1, file) != 1))
		abort();
	rewind(file);
	*config = (struct config){ .ram = RAM };
	config_read(config, "F", file, 0);
	fclose(file);
	config_check(config);
}

static void print_errors(const struct config *config)
{
	size_t i;

	for (i = 0; i < config->error_count; i++)
		printf("# error: %s\n", config->errors[i]);
}

static void test_wrong(void)
{
	struct config config;
	char *error;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		read_bytes(&config, wrong[i].text, strlen(wrong[i].text));
		error = format_text("F:%s", wrong[i].error);
		if (!tap_ok(config.error_count == 1 && !strcmp(config.errors[0], error),
			    "wrong %zu: %s", i, wrong[i].error))
			print_errors(&config);
		free(error);
		config_free(&config);
	}
}

static void test_right(void)
{
	struct config config;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(right); i++) {
		read_bytes(&config, right[i], strlen(right[i]));
		if (!tap_ok(!config.error_count, "right %zu", i))
			print_errors(&config);
		config_free(&config);
	}
}

static void test_values(void)
{
	static const char text[] =
		"[ramdisk one.disk]  # first\n"
		"size = 25%	# of the memory\n"
		"mem-limit = 1.5M\n"
		"index = 7\n"
		"logical-block-size = 4096\n"
		"folio-size = 64K\n"
		"node = 1\n"
		"overcommit = yes\n"
		"detect-zeroes = yes\n"
		"[cache two]\n"
		"origin = /dev/disk/by-id/x\n"
		"size = 1M..1G\n"
		"mode = writearound\n"
		"block-size = 8K\n"
		"seq-cutoff = 1M\n";
	const struct config_section *disk, *cache;
	struct config config;

	read_bytes(&config, text, strlen(text));
	print_errors(&config);
	if (!tap_ok(config.count == 2 && !config.error_count, "two sections"))
		exit(tap_end());
	disk = config.sections[0];
	cache = config.sections[1];
	tap_ok(disk->kind == CONFIG_RAMDISK && !strcmp(disk->name, "one.disk") &&
	       disk->line == 1 && !strcmp(disk->file, "F") && !disk->broken, "a RAM disk");
	tap_ok(disk->disk.size == RAM / 4 && disk->disk.mem_limit == 3 << 19 &&
	       disk->disk.has_index && disk->disk.index == 7 &&
	       disk->disk.logical_block_size == 4096 && disk->disk.folio_size == 1 << 16 &&
	       disk->disk.node == 1 &&
	       disk->disk.flags == (RXD_CREATE_OVERCOMMIT | RXD_CREATE_DETECT_ZEROES),
	       "its values");
	tap_ok(cache->kind == CONFIG_CACHE && !strcmp(cache->map.name, "two") &&
	       !strcmp(cache->map.origin, "/dev/disk/by-id/x") && cache->disk.size == 1 << 30 &&
	       cache->map.min_size == 1 << 20 && !strcmp(cache->disk.size_text, "1G") &&
	       !strcmp(cache->map.mode, "writearound") && cache->map.block_size == 8192 &&
	       cache->map.seq_cutoff == 1 << 20 && cache->disk.node == RXD_NODE_LOCAL,
	       "a cache, and its values");
	config_free(&config);
}

/* The words of systemd.syntax(7), in capital letters as well. */
static void test_flags(void)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "yes", true }, { "true", true }, { "on", true }, { "1", true },
		{ "Yes", true }, { "TRUE", true }, { "On", true },
		{ "no", false }, { "false", false }, { "off", false }, { "0", false },
		{ "No", false }, { "False", false }, { "OFF", false },
	};
	const struct config_section *disk, *cache;
	struct config config;
	const char *word;
	uint32_t flags;
	char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		word = words[i].word;
		flags = words[i].value ? RXD_CREATE_OVERCOMMIT : 0;
		text = format_text(DISK "overcommit = %s\nnoauto = %s\n" CACHE
				   "force = %s\n[export e]\ndevice = cache/c\n"
				   "transport = loop\nallow-any-host = %s\nallow-host = %s\n",
				   word, word, word, word, HOST);
		read_bytes(&config, text, strlen(text));
		disk = config.sections[0];
		cache = config.sections[1];
		if (!tap_ok(config.count == 3 && disk->disk.flags == flags &&
			    disk->noauto == words[i].value && cache->map.force == words[i].value &&
			    config.sections[2]->export.allow_any_host == words[i].value &&
			    config.error_count == words[i].value, "a flag '%s'", word))
			print_errors(&config);
		config_free(&config);
		free(text);
	}
}

static void test_intervals(void)
{
	static const struct {
		const char *text;
		unsigned int seconds;
	} intervals[] = {
		{ "10s", 10 }, { "90 s", 90 }, { "10min", 600 }, { "1h 30min", 5400 },
		{ "1d2h", 26 * 3600 }, { "0h\t10s", 10 }, { "365d", 365 * 86400 },
		{ "010min", 600 }, { "0", 0 }, { "no", 0 }, { "off", 0 }, { "False", 0 },
	};
	struct config config;
	char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(intervals); i++) {
		text = format_text(DISK "image = /i\nautosave = %s\nkeep = 7\n",
				   intervals[i].text);
		read_bytes(&config, text, strlen(text));
		if (!tap_ok(!config.error_count && config.sections[0]->keep == 7 &&
			    config.sections[0]->autosave == intervals[i].seconds,
			    "an interval '%s'", intervals[i].text))
			print_errors(&config);
		config_free(&config);
		free(text);
	}
}

static void test_export(void)
{
	static const char text[] = TCP "port = 4421\nnqn = nqn.2026-11.example:a\n"
		"allow-host = \t" HOST "  " HOST "2 # two\ndhchap-key = /etc/key\n";
	const struct export_request *export;
	struct config config;

	read_bytes(&config, text, strlen(text));
	print_errors(&config);
	if (!tap_ok(config.count == 2 && !config.error_count, "an export"))
		exit(tap_end());
	export = &config.sections[1]->export;
	tap_ok(!strcmp(export->transport, "tcp") && !strcmp(export->address, "::") &&
	       export->port == 4421 && !strcmp(export->nqn, "nqn.2026-11.example:a") &&
	       export->host_count == 2 && !strcmp(export->hosts[0], HOST) &&
	       !strcmp(export->hosts[1], HOST "2") && !export->allow_any_host &&
	       !strcmp(export->key_path, "/etc/key"), "its values");
	tap_ok(config_find(&config, "ramdisk/a") == config.sections[0] &&
	       config_find(&config, "export/e") == config.sections[1] &&
	       !config_find(&config, "cache/a"), "sections by kind and name");
	config_free(&config);
}

/* A circle of two sections, and one of three: each section is reported. */
static void test_circles(void)
{
	static const char two[] =
		DISK "mount = /a\nimage = /b/image\n"
		"[ramdisk b]\nsize = 1M\nmount = /b\nimage = /a/b/image\n"
		"[ramdisk c]\nsize = 1M\nmount = /c\nimage = /a/c.image\n";
	static const char three[] =
		DISK "fs = ext4\nmount = /b/a\n"
		"[ramdisk b]\nsize = 1M\nmount = /b\nimage = /c/image\n"
		"[ramdisk c]\nsize = 1M\nmount = /c\nimage = /b/a/image\n";
	struct config config;

	read_bytes(&config, two, strlen(two));
	if (!tap_ok(config.error_count == 2 && !config.sections[2]->broken &&
		    !strcmp(config.errors[0],
			    "F:1: [ramdisk a]: image '/b/image': lies on '/b' of [ramdisk b] (F:5), which itself depends on '/a' of this section") &&
		    !strcmp(config.errors[1],
			    "F:5: [ramdisk b]: image '/a/b/image': lies on '/a' of [ramdisk a] (F:1), which itself depends on '/b' of this section"),
		    "two that need each other"))
		print_errors(&config);
	config_free(&config);

	read_bytes(&config, three, strlen(three));
	if (!tap_ok(config.error_count == 3 &&
		    !strcmp(config.errors[0],
			    "F:1: [ramdisk a]: mount '/b/a': lies on '/b' of [ramdisk b] (F:5), which itself depends on '/b/a' of this section") &&
		    strstr(config.errors[1], "[ramdisk b]: image '/c/image': lies on '/c'") &&
		    strstr(config.errors[2], "[ramdisk c]: image '/b/a/image': lies on '/b/a'"),
		    "three in a circle"))
		print_errors(&config);
	config_free(&config);
}

/* Started sections replace those that the files have now. */
static void test_replace(void)
{
	static const char now[] = DISK "[ramdisk b]\nsize = x\n" CACHE;
	static const char started[] = "[ramdisk b]\nsize = 1M\nimage = /i\ncompress = zstd:7\n"
		"[cache a]\norigin = /dev/sdc\nsize = 1M\n";
	struct config config, others;

	read_bytes(&config, now, strlen(now));
	read_bytes(&others, started, strlen(started));
	config_replace(&config, &others);
	tap_ok(!others.count && config.count == 4 && !config.sections[1]->broken &&
	       !strcmp(config.sections[1]->values[CONFIG_IMAGE].text, "/i") &&
	       config.sections[1]->compress == 7 && !strcmp(config.sections[0]->name, "a") &&
	       config.sections[3]->kind == CONFIG_CACHE && !strcmp(config.sections[3]->name, "a"),
	       "sections that replace others");
	config_free(&config);
}

/* A section that names a section with an error has an error, too. */
static void test_export_of_broken(void)
{
	static const char text[] =
		EXPORT "transport = loop\nallow-any-host = yes\n[ramdisk a]\nsize = x\n";
	struct config config;

	read_bytes(&config, text, strlen(text));
	tap_ok(config.error_count == 2 && config.sections[0]->broken &&
	       !strcmp(config.errors[1],
		       "F:1: [export e]: device 'ramdisk/a': there is an error in its section, at F:5"),
	       "an export of what has an error");
	config_free(&config);
}

/* An error belongs to its own section; the others are still valid. */
static void test_broken(void)
{
	static const char text[] =
		DISK "[ramdisk b]\nsize = x\nnode = y\n[what c]\nsize = z\n" CACHE;
	struct config config;

	read_bytes(&config, text, strlen(text));
	tap_ok(config.error_count == 3 && config.count == 3 && !config.sections[0]->broken &&
	       config.sections[1]->broken && !config.sections[2]->broken,
	       "each error, and whose it is");
	config_free(&config);
}

static void test_bytes(void)
{
	static const char nul[] = DISK "fs = ex\0t4\n";
	struct config config;
	char text[5000];

	read_bytes(&config, nul, sizeof(nul) - 1);
	tap_ok(config.error_count == 1 && config.sections[0]->broken &&
	       !strcmp(config.errors[0],
		       "F:3: [ramdisk a]: the line holds a NUL byte; must be text"), "a NUL byte");
	config_free(&config);

	memset(text, '#', sizeof(text));
	read_bytes(&config, text, sizeof(text));
	tap_ok(config.error_count == 1 &&
	       !strcmp(config.errors[0], "F:1: the line is longer than 4096 bytes"),
	       "a long line");
	config_free(&config);
}

static void put_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		abort();
}

static void test_files(void)
{
	char folder[] = "/tmp/rxd-config-XXXXXX";
	struct config config = { .ram = RAM };

	if (!mkdtemp(folder) || chdir(folder))
		abort();
	config_load(&config, "rxd.conf", NULL);
	tap_ok(config.error_count == 1 &&
	       !strcmp(config.errors[0], "rxd.conf: No such file or directory"), "no file");
	config_free(&config);

	if (mkdir("rxd.conf.d", 0755))
		abort();
	config_load(&config, "rxd.conf", NULL);
	tap_ok(!config.error_count && !config.count, "an empty folder");
	config_free(&config);

	put_file("rxd.conf.d/20.conf", "[ramdisk b]\nsize = 1M\n[ramdisk a]\nsize = 2M\n");
	put_file("rxd.conf.d/10.conf", CACHE);
	put_file("rxd.conf.d/.30.conf", "wrong");
	put_file("rxd.conf.d/40.conf~", "wrong");
	put_file("rxd.conf", DISK);
	config_load(&config, "rxd.conf", NULL);
	tap_ok(config.count == 3 && config.error_count == 1 &&
	       !strcmp(config.errors[0],
		       "rxd.conf.d/20.conf:3: [ramdisk a]: is defined already, at rxd.conf:1") &&
	       !strcmp(config.sections[1]->file, "rxd.conf.d/10.conf") &&
	       !config.sections[0]->broken, "in the order of the names");
	config_free(&config);

	if (symlink("nowhere", "rxd.conf.d/50.conf"))
		abort();
	config_load(&config, "rxd.conf", NULL);
	tap_ok(config.error_count == 2 &&
	       !strcmp(config.errors[1], "rxd.conf.d/50.conf: No such file or directory"),
	       "a link to nowhere");
	config_free(&config);

	unlink("rxd.conf.d/10.conf");
	unlink("rxd.conf.d/20.conf");
	unlink("rxd.conf.d/.30.conf");
	unlink("rxd.conf.d/40.conf~");
	unlink("rxd.conf.d/50.conf");
	unlink("rxd.conf");
	rmdir("rxd.conf.d");
	config_load(&config, ".", NULL);
	tap_ok(config.error_count == 1 && !strcmp(config.errors[0], ".: Is a directory"),
	       "a folder for a file");
	config_free(&config);
	if (chdir("/") || rmdir(folder))
		abort();
}

/* The origin of a section, as FILE:LINE. */
static bool is_from(const struct config_section *section, const char *from)
{
	char *text = format_text("%s:%u", section->file, section->line);
	bool same = !strcmp(text, from);

	free(text);
	return same;
}

static void clean_vendor(void)
{
	static const char *const files[] = {
		"rxd.conf", "rxd.conf.d/10.conf", "rxd.conf.d/20.conf", "usr/10.conf",
		"usr/20.conf", "usr/30.conf",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		unlink(files[i]);
	rmdir("rxd.conf.d");
	rmdir("usr");
}

/* Is there a configuration if there is no file, or only vendor defaults? */
static void test_vendor_alone(void)
{
	struct config config = { .ram = RAM };

	tap_ok(!config_load(&config, "rxd.conf", "usr") && config.error_count == 1 &&
	       !strcmp(config.errors[0], "rxd.conf: No such file or directory"),
	       "no folder of a vendor");
	config_free(&config);

	if (mkdir("usr", 0755))
		abort();
	tap_ok(!config_load(&config, "rxd.conf", "usr") && config.error_count == 1,
	       "an empty folder of a vendor is no configuration");
	config_free(&config);

	put_file("usr/20.conf", "[ramdisk b]\nsize = 2M\n");
	put_file("usr/10.conf", "\n" DISK);
	put_file("usr/README", "wrong");
	if (!tap_ok(config_load(&config, "rxd.conf", "usr") && !config.error_count &&
		    config.count == 2 && is_from(config.sections[0], "usr/10.conf:2") &&
		    is_from(config.sections[1], "usr/20.conf:1") && config.sections[0]->vendor,
		    "vendor defaults alone"))
		print_errors(&config);
	config_free(&config);

	put_file("usr/30.conf", "[ramdisk b]\nsize = 1M\nsise = 1M\n");
	tap_ok(config_load(&config, "rxd.conf", "usr") && config.error_count == 1 &&
	       !strcmp(config.errors[0], "usr/30.conf:1: [ramdisk b]: is defined already, at usr/20.conf:1"),
	       "vendors that both have a section");
	config_free(&config);

	tap_ok(!config_load(&config, "rxd.conf", NULL) && config.error_count == 1 && !config.count,
	       "a configuration without vendor defaults");
	config_free(&config);
	unlink("usr/30.conf");
}

/* Begins with 10.conf, [ramdisk a], and 20.conf, [ramdisk b]. */
static void test_vendor_replaced(void)
{
	struct config config = { .ram = RAM };
	const struct config_section *a;

	/* Nothing of the vendor's section is left, neither keys nor errors. */
	put_file("usr/10.conf", DISK "reserve = yes\nsise = 1M\n[cache a]\nsize = 1M\n"
		 "origin = /dev/sdb\n");
	put_file("rxd.conf", "[ramdisk a]\nsize = 8M\n");
	config_load(&config, "rxd.conf", "usr");
	a = config.sections[0];
	if (!tap_ok(!config.error_count && config.count == 3 && is_from(a, "rxd.conf:1") &&
		    !a->vendor && a->disk.size == 8 << 20 && !a->disk.flags &&
		    is_from(config.sections[1], "usr/10.conf:5") &&
		    config.sections[1]->vendor && is_from(config.sections[2], "usr/20.conf:1"),
		    "a section that replaces a vendor's whole"))
		print_errors(&config);
	config_free(&config);

	/* A section with an error is not replaced by the vendor's. */
	put_file("rxd.conf", "[ramdisk a]\nsize = x\n");
	put_file("usr/10.conf", DISK);
	config_load(&config, "rxd.conf", "usr");
	tap_ok(config.error_count == 1 && !strncmp(config.errors[0], "rxd.conf:2: ", 12) &&
	       config.count == 2 && config.sections[0]->broken &&
	       is_from(config.sections[0], "rxd.conf:1"), "a wrong section replaces, too");
	config_free(&config);

	/* A conflict between both is an error of the vendor's section. */
	put_file("rxd.conf", "[ramdisk c]\nsize = 1M\nindex = 3\n");
	put_file("usr/10.conf", DISK "index = 3\n");
	config_load(&config, "rxd.conf", "usr");
	tap_ok(config.error_count == 1 &&
	       !strcmp(config.errors[0],
		       "usr/10.conf:3: [ramdisk a]: index '3': [ramdisk c] at rxd.conf:1 has it already") &&
	       !config.sections[0]->broken && config.sections[1]->broken,
	       "a value that a vendor's section has, too");
	config_free(&config);

	/* A section that is repeated in FILE.d is an error, as usual. */
	if (mkdir("rxd.conf.d", 0755))
		abort();
	put_file("rxd.conf", "[ramdisk b]\nsize = 3M\n");
	put_file("usr/10.conf", DISK);
	put_file("rxd.conf.d/20.conf", "[ramdisk a]\nsize = 1M\n[ramdisk b]\nsize = 4M\n");
	config_load(&config, "rxd.conf", "usr");
	tap_ok(config.error_count == 1 && config.count == 2 &&
	       !strcmp(config.errors[0],
		       "rxd.conf.d/20.conf:3: [ramdisk b]: is defined already, at rxd.conf:1") &&
	       is_from(config.sections[1], "rxd.conf.d/20.conf:1"),
	       "a part that replaces a vendor's section");
	config_free(&config);
	unlink("rxd.conf");
	unlink("rxd.conf.d/20.conf");
}

/* A file of the same name hides a vendor's, whatever its content. */
static void test_vendor_masked(void)
{
	struct config config = { .ram = RAM };

	put_file("usr/10.conf", "wrong");
	put_file("rxd.conf.d/10.conf", "");
	tap_ok(config_load(&config, "rxd.conf", "usr") && !config.error_count &&
	       config.count == 1 && is_from(config.sections[0], "usr/20.conf:1"),
	       "an empty file hides a vendor's");
	config_free(&config);

	if (symlink("/dev/null", "rxd.conf.d/20.conf"))
		abort();
	tap_ok(config_load(&config, "rxd.conf", "usr") && !config.error_count && !config.count,
	       "a link to /dev/null hides a vendor's");
	config_free(&config);

	put_file("rxd.conf.d/10.conf", "[ramdisk c]\nsize = 1M\n");
	unlink("rxd.conf.d/20.conf");
	if (symlink("nowhere", "rxd.conf.d/20.conf"))
		abort();
	config_load(&config, "rxd.conf", "usr");
	tap_ok(config.error_count == 2 && config.count == 1 &&
	       !strcmp(config.errors[0], "rxd.conf.d/20.conf: No such file or directory") &&
	       !strcmp(config.errors[1], NOT_USED) &&
	       is_from(config.sections[0], "rxd.conf.d/10.conf:1"),
	       "a file in the place of a vendor's, and a link to nowhere");
	config_free(&config);
	unlink("rxd.conf.d/20.conf");
}

/* In a circle, the vendor's section has the error. */
static void test_vendor_circle(void)
{
	struct config config = { .ram = RAM };

	put_file("rxd.conf", "[ramdisk a]\nsize = 1M\nimage = /b/img\nmount = /a\n");
	put_file("usr/10.conf", "[ramdisk b]\nsize = 1M\nfs = ext4\nimage = /a/img\nmount = /b\n");
	config_load(&config, "rxd.conf", "usr");
	if (!tap_ok(config.error_count == 1 && !config.sections[0]->broken &&
		    !strcmp(config.errors[0],
			    "usr/10.conf:1: [ramdisk b]: image '/a/img': lies on '/a' of [ramdisk a] (rxd.conf:1), which itself depends on '/b' of this section"),
		    "a circle that a vendor's section closes"))
		print_errors(&config);
	config_free(&config);

	/* Two sections of the vendor, and one of the administrator between them. */
	put_file("usr/10.conf", "[ramdisk b]\nsize = 1M\nfs = ext4\nimage = /c/img\nmount = /b\n"
		 "[ramdisk c]\nsize = 1M\nfs = ext4\nimage = /a/img\nmount = /c\n");
	config_load(&config, "rxd.conf", "usr");
	if (!tap_ok(config.error_count == 2 && !config.sections[0]->broken &&
		    config.sections[1]->broken && config.sections[2]->broken,
		    "a circle of three, two of them a vendor's"))
		print_errors(&config);
	config_free(&config);

	/* A section that only the administrator has is not the vendor's. */
	put_file("rxd.conf", "[ramdisk a]\nsize = 1M\nimage = /d/img\nmount = /a\n"
		 "[ramdisk d]\nsize = 1M\nimage = /a/d.img\nmount = /d\n");
	config_load(&config, "rxd.conf", "usr");
	if (!tap_ok(config.error_count == 2 && config.sections[0]->broken &&
		    config.sections[1]->broken && !config.sections[2]->broken &&
		    !config.sections[3]->broken, "a circle without a vendor's section"))
		print_errors(&config);
	config_free(&config);
	unlink("rxd.conf");
	unlink("usr/10.conf");
}

/* A file that cannot be read may replace or hide any section of the vendor. */
static void check_not_used(const char *error, const char *name)
{
	struct config config = { .ram = RAM };
	bool vendor = false;
	size_t i;

	tap_ok(config_load(&config, "rxd.conf", "usr"), "%s: is a configuration", name);
	for (i = 0; i < config.count; i++)
		vendor |= config.sections[i]->vendor && !config.sections[i]->broken;
	if (!tap_ok(config.error_count == 2 && !strcmp(config.errors[0], error) &&
		    !strcmp(config.errors[1], NOT_USED) && !vendor,
		    "%s: no vendor defaults", name))
		print_errors(&config);
	config_free(&config);
}

static void put_long_heading(bool nul)
{
	FILE *file = fopen("rxd.conf", "w");

	if (!file || fputs(DISK, file) < 0 ||
	    fprintf(file, "%c[export e]%*s#\nnoauto = yes\n", nul ? '\0' : ' ', nul ? 1 : 4096,
		    "") < 0 || fclose(file))
		abort();
}

static void test_vendor_not_used(void)
{
	struct config config = { .ram = RAM };

	unlink("rxd.conf.d/10.conf");
	put_file("usr/10.conf", DISK EXPORT "transport = tcp\naddress = 0.0.0.0\n"
		 "allow-any-host = yes\n");
	unlink("usr/20.conf");

	put_file("rxd.conf", "[export e\nnoauto = yes\n");
	check_not_used("rxd.conf:1: '[export e': must be [KIND NAME]", "a heading without ]");
	put_file("rxd.conf", "[exprot e]\nnoauto = yes\n");
	check_not_used("rxd.conf:1: section 'exprot': must be [ramdisk NAME], [cache NAME] or [export NAME]",
		       "a kind that there is not");
	put_long_heading(false);
	check_not_used("rxd.conf:3: the line is longer than 4096 bytes", "a long heading");
	put_long_heading(true);
	check_not_used("rxd.conf:3: the line holds a NUL byte; must be text", "a heading with NUL");

	unlink("rxd.conf");
	if (mkdir("rxd.conf", 0755))
		abort();
	check_not_used("rxd.conf: Is a directory", "a folder for a file");
	rmdir("rxd.conf");
	if (symlink("nowhere", "rxd.conf"))
		abort();
	check_not_used("rxd.conf: No such file or directory", "a link to nowhere for a file");
	unlink("rxd.conf");

	rmdir("rxd.conf.d");
	if (symlink("nowhere", "rxd.conf.d"))
		abort();
	check_not_used("rxd.conf.d: No such file or directory", "a link to nowhere for a folder");
	unlink("rxd.conf.d");
	put_file("rxd.conf.d", "");
	check_not_used("rxd.conf.d: Not a directory", "a file for a folder");
	unlink("rxd.conf.d");
	if (symlink("rxd.conf.d", "rxd.conf.d"))
		abort();
	check_not_used("rxd.conf.d: Too many levels of symbolic links", "a link to itself");

	/* It is unknown whether a vendor's file is hidden. */
	config_read_folder(&config, "usr", "rxd.conf.d");
	tap_ok(!config.count && config.error_count == 1 &&
	       !strcmp(config.errors[0], "rxd.conf.d/10.conf: Too many levels of symbolic links"),
	       "a mask that cannot be looked for");
	config_free(&config);
	unlink("rxd.conf.d");

	/* An error of a section is its own, and an empty folder is no error. */
	put_file("rxd.conf", "[ramdisk a]\nsize = x\n[export e]\nsize\n[export e]\n");
	put_file("usr/10.conf", CACHE);
	config_load(&config, "rxd.conf", "usr");
	tap_ok(config.count == 3 && config.sections[2]->vendor && !config.sections[2]->broken,
	       "errors of sections leave the vendor's to be used");
	config_free(&config);
	unlink("usr/10.conf");
	put_file("rxd.conf", "wrong");
	config_load(&config, "rxd.conf", "usr");
	tap_ok(config.error_count == 1, "nothing to be left out");
	config_free(&config);
}

static void test_vendor(void)
{
	char folder[] = "/tmp/rxd-config-XXXXXX";

	if (!mkdtemp(folder) || chdir(folder))
		abort();
	test_vendor_alone();
	test_vendor_replaced();
	test_vendor_masked();
	test_vendor_not_used();
	test_vendor_circle();
	unlink("usr/README");
	clean_vendor();
	if (chdir("/") || rmdir(folder))
		abort();
	tap_ok(!strcmp(config_vendor("/etc/rxd.conf"), "/usr/lib/rxd.conf.d") &&
	       !config_vendor("/tmp/rxd.conf"), "vendor defaults belong to /etc/rxd.conf");
}

/* A configuration is the same by any path to it; FILE.d is beside FILE. */
static void test_paths(void)
{
	static const char *const same[] = {
		"rxd.conf", "./rxd.conf", "/etc/../etc/rxd.conf", "/etc//rxd.conf",
	};
	char folder[] = "/tmp/rxd-config-XXXXXX";
	struct config config = { .ram = RAM };
	char *text;
	size_t i;

	if (chdir("/etc"))
		abort();
	for (i = 0; i < ARRAY_SIZE(same); i++)
		tap_ok(config_vendor(same[i]), "in /etc, %s has vendor defaults", same[i]);

	if (!mkdtemp(folder) || chdir(folder) || symlink("/etc", "link") ||
	    symlink("/etc/rxd.conf", "rxd.conf") || mkdir("records", 0755))
		abort();
	tap_ok(config_vendor("link/rxd.conf") && !config_vendor("rxd.conf") &&
	       !config_vendor("./rxd.conf") && !config_vendor("link/rxd.conf/"),
	       "/etc/rxd.conf by a link to its folder, and another configuration");

	text = format_text(HEAD " 0 0 %s/./rxd.conf\n" DISK, folder);
	put_file("records/ramdisk-a", text);
	free(text);
	config_record_read_all(&config, "records", "rxd.conf");
	tap_ok(config.count == 1 && !config.error_count, "a record by another path");
	config_free(&config);
	config_record_read_all(&config, "records", "/etc/rxd.conf");
	tap_ok(!config.count && !config.error_count, "a record of another configuration");
	config_free(&config);

	/* The link may have another target by now. */
	put_file("records/ramdisk-a", HEAD " 0 0 /nowhere/rxd.conf\n" DISK);
	config_record_read_all(&config, "records", "/nowhere/rxd.conf");
	tap_ok(config.count == 1, "a record by the same path, whose folder is gone");
	config_free(&config);
	unlink("records/ramdisk-a");
	rmdir("records");
	unlink("rxd.conf");
	unlink("link");
	if (chdir("/") || rmdir(folder))
		abort();
}

/*
 * Records are not checked as a configuration is. One that lacks what a stop needs is ignored, and
 * an error names its file: the stop would crash, or remove a RAM disk without saving it.
 */
static const struct {
	const char *name;
	const char *text;	/* after the first line, unless it has its own */
	const char *error;	/* the last one, after the name of the file; NULL: none */
	bool used;
} damaged[] = {
	{ "ramdisk-a", NULL, ":1: is not a record that this rxadm understands", false },
	{ "ramdisk-a", HEAD " 0 0 /rx", ":1: is not a record that this rxadm understands",
	  false },
	{ "ramdisk-a", HEAD " 0 0 \n" DISK,
	  ":1: is not a record that this rxadm understands", false },
	{ "ramdisk-a", HEAD " 0 x /rxd.conf\n" DISK,
	  ":1: is not a record that this rxadm understands", false },
	{ "ramdisk-a", "", ": is ignored, because it does not hold the one section that its name says",
	  false },
	{ "ramdisk-a", "[ramdisk b]\nsize=4M\n",
	  ": is ignored, because it does not hold the one section that its name says", false },
	{ "cache-a", DISK,
	  ": is ignored, because it does not hold the one section that its name says", false },
	{ "ramdisk-a", DISK "[ramdisk b]\nsize=4M\n",
	  ": is ignored, because it does not hold the one section that its name says", false },
	{ "ramdisk-a", "[ramdisk a\nsize=4M\n",
	  ": is ignored, because it does not hold the one section that its name says", false },
	{ "cache-c", "[cache c]\nsize=4M\n",
	  ": is ignored, because the key 'origin' is missing or invalid", false },
	{ "cache-c", "[cache c]\norigin=/dev/sdb\n",
	  ": is ignored, because the key 'size' is missing or invalid", false },
	{ "cache-c", CACHE "hotlist=hot\n",
	  ": is ignored, because the key 'hotlist' is missing or invalid", false },
	{ "export-e", "[export e]\ntransport=loop\n",
	  ": is ignored, because the key 'device' is missing or invalid", false },
	{ "export-e", "[export e]\ndevice=a\ntransport=loop\n",
	  ": is ignored, because the key 'device' is missing or invalid", false },
	{ "export-e", EXPORT, ": is ignored, because the key 'transport' is missing or invalid",
	  false },
	/* The keys are written in alphabetical order: the image is not lost, but a UUID may be. */
	{ "ramdisk-a", "[ramdisk a]\nimage=/i\n",
	  ": is ignored, because the key 'size' is missing or invalid", false },
	{ "ramdisk-a", DISK "image=i\n",
	  ": is ignored, because the key 'image' is missing or invalid", false },
	{ "ramdisk-a", DISK "image=/\n",
	  ": is ignored, because the key 'image' is missing or invalid", false },
	{ "ramdisk-a", DISK "uuid=1\n",
	  ": is ignored, because the key 'uuid' is missing or invalid", false },
	/* What cannot be read may have been the image. */
	{ "ramdisk-a", DISK "imag\001=/i\n",
	  ": is ignored, because a line that is not understood may be the key 'image'", false },
	{ "ramdisk-a", DISK "image /i\n",
	  ": is ignored, because a line that is not understood may be the key 'image'", false },
	{ "ramdisk-a", DISK "keep=3\n", ": is ignored, because the key 'image' is missing",
	  false },
	{ "ramdisk-a", "[ramdisk a]\nautosave=1h\nsize=4M\n",
	  ": is ignored, because the key 'image' is missing", false },
	{ "ramdisk-a", DISK "image=/srv/a.im", ": is ignored, because its last line is incomplete",
	  false },
	/* Nothing else prevents that it is saved. */
	{ "ramdisk-a", DISK "image=/i\nfuture=1\n",
	  ":5: [ramdisk a]: key 'future': is unknown; there are " RAMDISK_KEYS, true },
	{ "ramdisk-a", "[ramdisk a]\nsize=x\nimage=/a b\n",
	  ":4: [ramdisk a]: image '/a b': " PATH_RULE, true },
	{ "ramdisk-a", DISK "node=x\n",
	  ":4: [ramdisk a]: node 'x': must be local, interleave or a number from 0 to 1023", true },
	{ "cache-c", CACHE "mode=x\n",
	  ":5: [cache c]: mode 'x': must be writethrough, writearound or passthrough", true },
	{ "ramdisk-a", DISK "keep=3\nimage=/i\n", NULL, true },
	{ "ramdisk-a", DISK, NULL, true },
	{ "export-e", EXPORT "transport=loop\n", NULL, true },
};

static void test_damaged_records(void)
{
	char folder[] = "/tmp/rxd-config-XXXXXX";
	struct config config = { .ram = RAM };
	const char *error, *last;
	char *path, *text;
	bool right, whole;
	size_t i;

	if (!mkdtemp(folder) || chdir(folder) || mkdir("records", 0755))
		abort();
	/* A record that is read before the others, and one that is read after them. */
	put_file("records/cache-0",
		 HEAD " 0 0 /rxd.conf\n[cache 0]\nsize=4M\norigin=/dev/sdc\n");
	put_file("records/ramdisk-z", HEAD " 1 7 /rxd.conf\n[ramdisk z]\nsize=4M\nimage=/z\n");
	for (i = 0; i < ARRAY_SIZE(damaged); i++) {
		path = format_text("records/%s", damaged[i].name);
		whole = !damaged[i].text || !strncmp(damaged[i].text, HEAD, strlen(HEAD));
		text = format_text("%s%s", whole ? "" : HEAD " 5 0 /rxd.conf\n",
				   damaged[i].text ? damaged[i].text : "");
		put_file(path, text);
		free(text);
		config_record_read_all(&config, "records", "/rxd.conf");
		text = damaged[i].error ? format_text("%s%s", path, damaged[i].error) : NULL;
		last = config.error_count ? config.errors[config.error_count - 1] : NULL;
		error = text;
		right = error ? last && !strcmp(last, error) : !last;
		right &= config.count == (damaged[i].used ? 3 : 2) &&
			 !strcmp(config.sections[0]->name, "0") &&
			 !strcmp(config.sections[config.count - 1]->name, "z") &&
			 config.sections[config.count - 1]->folder == 7;
		if (!tap_ok(right, "damaged %zu: %s%s", i, damaged[i].name,
			    error ? damaged[i].error : ""))
			print_errors(&config);
		config_free(&config);
		free(text);
		unlink(path);
		free(path);
	}
	unlink("records/cache-0");
	unlink("records/ramdisk-z");
	rmdir("records");
	if (chdir("/") || rmdir(folder))
		abort();
}

/* What the generator writes to a drop-in, and rxadm looks for there. */
static void test_writable(void)
{
	static const struct {
		const char *file;
		const char *line;
	} files[] = {
		{ "/srv/rxd/a.img", "ReadWritePaths=-/srv/rxd\n" },
		{ "/srv/50%/%%/a%.img", "ReadWritePaths=-/srv/50%%/%%%%\n" },
		{ "/a.img", "ReadWritePaths=-/\n" },
		{ "/%h", "ReadWritePaths=-/\n" },
	};
	char *line;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		line = unit_writable(files[i].file);
		if (!tap_ok(!strcmp(line, files[i].line), "writable: %s", files[i].file))
			printf("# %s", line);
		free(line);
	}
}

int main(void)
{
	test_wrong();
	test_right();
	test_values();
	test_flags();
	test_intervals();
	test_export();
	test_circles();
	test_replace();
	test_export_of_broken();
	test_broken();
	test_bytes();
	test_files();
	test_vendor();
	test_paths();
	test_damaged_records();
	test_writable();
	return tap_end();
}
