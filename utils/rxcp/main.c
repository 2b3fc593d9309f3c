// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxcp: copy files and block devices, fast and sparse.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../copy/signals.h"
#include "target.h"
#include "transfer.h"

#define BUFFER_MIN	4096U
#define BUFFER_MAX	(256U << 20)

static const char usage[] =
	"Usage: rxcp [OPTION...] SOURCE DESTINATION\n"
	"       rxcp [OPTION...] SOURCE... DIRECTORY\n"
	"\n"
	"Copy files and block devices. A new file appears when it is complete. Existing files\n"
	"are replaced, and block devices overwritten, without a question.\n"
	"\n"
	"Options:\n"
	" -s, --sparse always|never         always: write zeros as holes, or as discards on a\n"
	"                                   block device; never: create no holes (default:\n"
	"                                   share the data of the source if possible,\n"
	"                                   otherwise 'always')\n"
	" -S, --use-smartread yes|no        yes: do not read holes, unallocated ranges of RAM\n"
	"                                   disks, and unused blocks of ext2, ext3, ext4, xfs\n"
	"                                   and swap, also on partitions; no: read everything\n"
	"                                   (default: read all but holes and unallocated\n"
	"                                   ranges)\n"
	" -T, --stats-output json|none      json: print one record per second on standard\n"
	"                                   output, and no progress bar; none: print neither\n"
	" -g, --progress                    show a progress bar even without a terminal; of -g\n"
	"                                   and -T, the last one counts\n"
	" -v, --verbose                     print a summary of bytes and times at the end\n"
	" -b, --buffer-size SIZE            multiple of 4K up to 256M, suffix K or M (default:\n"
	"                                   1M; 256K from file to file without -c and -y)\n"
	" -c, --checksum ALGORITHM          print a checksum of the copy: md5, sha256, ...\n"
	" -y, --sync                        write the file to the disk before it gets its name;\n"
	"                                   block devices are always synced\n"
	" -h, --help                        print this help\n"
	" -V, --version                     print the version\n"
	"\n"
	"Exit status: 0 if everything was copied, 1 otherwise.\n";

static bool choice(const char *option, const char *text, const char *first, const char *second,
		   bool *is_first)
{
	*is_first = !strcmp(text, first);
	if (!*is_first && strcmp(text, second))
		return complain("%s '%s': must be %s or %s", option, text, first, second);
	return true;
}

static bool buffer_size(const char *text, uint64_t *bytes)
{
	unsigned long long number;
	unsigned int shift = 0;
	char *end;
	bool ok;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (end != text && (*end == 'K' || *end == 'k'))
		shift = 10;
	else if (end != text && (*end == 'M' || *end == 'm'))
		shift = 20;
	ok = *text >= '0' && *text <= '9' && !errno && !end[shift ? 1 : 0];
	number = number > BUFFER_MAX >> shift ? 0 : number << shift;
	if (!ok || number < BUFFER_MIN || number % BUFFER_MIN)
		return complain("buffer size '%s': must be a multiple of 4K, from 4K to 256M",
				text);
	*bytes = number;
	return true;
}

static bool parse_option(int opt, struct options *options)
{
	bool first;

	switch (opt) {
	case 's':
		if (!choice("sparse", optarg, "always", "never", &first))
			return false;
		options->sparse = first ? SPARSE_ALWAYS : SPARSE_NEVER;
		return true;
	case 'S':
		if (!choice("use-smartread", optarg, "yes", "no", &first))
			return false;
		options->smart = first ? SMART_UNUSED : SMART_NONE;
		return true;
	case 'T':
		if (!choice("stats-output", optarg, "json", "none", &first))
			return false;
		options->progress = first ? PROGRESS_JSON : PROGRESS_NONE;
		return true;
	case 'g':
		options->progress = PROGRESS_BAR;
		return true;
	case 'v':
		options->verbose = true;
		return true;
	case 'b':
		return buffer_size(optarg, &options->buffer);
	case 'c':
		options->checksum = optarg;
		return true;
	case 'y':
		options->sync = true;
		return true;
	default:
		return false;
	}
}

static bool wrong_option(int opt, char **argv, const struct option *known)
{
	const char *word = argv[optind - 1];
	size_t length = strcspn(word, "=");

	if (opt == ':')
		return complain("option '%s' needs a value", word);
	if (optopt && !strncmp(word, "--", 2))
		return complain("option '%s': no value is allowed here", word);
	if (optopt)
		return complain("unknown option '-%c'; --help lists all", optopt);
	/* getopt_long() takes the beginning of a name, but not of several. */
	for (; known->name; known++)
		if (!strncmp(known->name, word + 2, length - 2))
			return complain("ambiguous option '%s'; --help lists all", word);
	return complain("unknown option '%s'; --help lists all", word);
}

/* Return: whether to copy. If not, *ok tells whether the program succeeds. */
static bool parse(int argc, char **argv, struct options *options, bool *ok)
{
	static const struct option table[] = {
		{ "buffer-size",	required_argument, NULL, 'b' },
		{ "checksum",		required_argument, NULL, 'c' },
		{ "progress",		no_argument,	   NULL, 'g' },
		{ "sparse",		required_argument, NULL, 's' },
		{ "stats-output",	required_argument, NULL, 'T' },
		{ "sync",		no_argument,	   NULL, 'y' },
		{ "use-smartread",	required_argument, NULL, 'S' },
		{ "verbose",		no_argument,	   NULL, 'v' },
		{ "help",		no_argument,	   NULL, 'h' },
		{ "version",		no_argument,	   NULL, 'V' },
		{ }
	};
	int opt;

	*ok = false;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":b:c:gs:S:T:vyhV", table, NULL)) != -1) {
		switch (opt) {
		case 'h':
			fputs(usage, stdout);
			*ok = true;
			return false;
		case 'V':
			puts("rxcp " RXCP_VERSION);
			*ok = true;
			return false;
		case ':':
		case '?':
			return wrong_option(opt, argv, table);
		default:
			if (!parse_option(opt, options))
				return false;
		}
	}
	if (argc - optind < 2)
		return complain("missing argument; usage: rxcp [OPTION...] SOURCE DESTINATION");
	return true;
}

static int by_name(const void *a, const void *b)
{
	const char *const *one = a;
	const char *const *two = b;

	return strcmp(basename(*one), basename(*two));
}

/* Check that all names differ: one copy must not replace another. */
static bool differ(int count, char **names, const char *folder)
{
	const char **sorted = calloc(count, sizeof(*sorted));
	bool ok = true;
	int i;

	if (!sorted)
		return complain("out of memory");
	for (i = 0; i < count; i++)
		sorted[i] = names[i];
	qsort(sorted, count, sizeof(*sorted), by_name);
	for (i = 1; ok && i < count; i++)
		if (*basename(sorted[i]) && !by_name(&sorted[i - 1], &sorted[i]))
			ok = complain("'%s' and '%s' would both be copied to '%s/%s'",
				      sorted[i - 1], sorted[i], folder, basename(sorted[i]));
	free(sorted);
	return ok;
}

static bool copy_into(const struct options *options, const char *from, const char *name,
		      int folder, int *signal)
{
	bool done;
	char *to;

	if (asprintf(&to, "%s/%s", name, basename(from)) < 0)
		return complain("out of memory");
	done = transfer(options, from, to, folder, signal);
	free(to);
	return done;
}

static bool copy_all(const struct options *options, int count, char **names, int *signal)
{
	const char *to = names[count - 1];
	bool all = true;
	struct stat st;
	bool is_folder;
	int folder, i;

	is_folder = !stat(to, &st) && S_ISDIR(st.st_mode);
	if (!is_folder && count > 2)
		return complain("destination '%s': must be a directory for several sources",
				to);
	if (!is_folder && *to && to[strlen(to) - 1] == '/')
		return complain("destination '%s': no such directory", to);
	if (!is_folder)
		return transfer(options, names[0], to, -1, signal);
	/* Resolve the path of the folder once, not for each file. */
	if (!differ(count - 1, names, to) || !target_folder(to, options->sync, &folder))
		return false;
	for (i = 0; i < count - 1 && !*signal; i++)
		if (!copy_into(options, names[i], to, folder, signal))
			all = false;
	close(folder);
	return all;
}

/* Block signals, so that no incomplete file is left behind. */
static bool hold_and_copy(struct options *options, int count, char **names, int *signal)
{
	int err = copy_signals_hold(&options->signals);
	bool done;

	if (err)
		return complain("cannot block signals: %s", strerror(err));
	options->mask = umask(0);
	umask(options->mask);
	done = copy_all(options, count, names, signal);
	/* Print all output before ending by a signal that came too late. */
	if (!*signal)
		*signal = copy_signals_take(&options->signals);
	copy_signals_release(&options->signals);
	return done;
}

int main(int argc, char **argv)
{
	struct options options = {
		.smart = SMART_HOLES,
		.progress = PROGRESS_AUTO,
	};
	struct copied copied = { 0 };
	int signal = 0;
	bool ok;

	options.copied = &copied;
	copy_start();
	if (parse(argc, argv, &options, &ok))
		ok = hold_and_copy(&options, argc - optind, argv + optind, &signal);
	copied_free(&copied);
	/* After an earlier failure, errno may be that of another call, or 0. */
	if (fflush(stdout) || ferror(stdout))
		ok = complain("cannot write the output: %s", strerror(errno ? errno : EIO));
	if (signal)
		copy_interrupt(signal);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
