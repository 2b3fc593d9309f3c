// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text files that are replaced whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../copy/file.h"
#include "machine.h"
#include "replace.h"

/**
 * replace_error - report why a file cannot be replaced
 * @what: its part in the command
 * @path: the file
 * @err: what output_open() or output_commit() returned
 */
enum exit_code replace_error(const char *what, const char *path, int err)
{
	if (err == ENOTSUP)
		return report(EXIT_PARAMETERS, "%s '%s': exists, and is not a regular file", what,
			      path);
	if (err == ENOLINK)
		return report(EXIT_PERMISSION,
			      "%s '%s': a symbolic link on the way is another user's, which root does not follow; name the file that it leads to",
			      what, path);
	return report(err == EISDIR ? EXIT_PARAMETERS : exit_code_of(err), "%s '%s': %s", what,
		      path, strerror(err));
}

/* Return: 0 or an errno. */
static int write_all(int fd, void (*fill)(FILE *file, const void *data), const void *data)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *file = copy < 0 ? NULL : fdopen(copy, "w");
	int err = 0;

	if (!file) {
		err = errno;
		if (copy >= 0)
			close(copy);
		return err;
	}
	fill(file, data);
	if (fflush(file) || ferror(file))
		err = errno ? errno : EIO;
	if (fclose(file) && !err)
		err = errno;
	return err;
}

/**
 * replace_file - write a file that takes the place of an old one when it is on the disk
 * @what: its part in the command
 * @path: the file
 * @mode: its permissions
 * @fill: writes what it is to hold
 * @data: for @fill
 */
enum exit_code replace_file(const char *what, const char *path, mode_t mode,
			    void (*fill)(FILE *file, const void *data), const void *data)
{
	struct output output;
	int err;

	signals_block();
	err = output_open(&output, path, false);
	if (!err) {
		err = write_all(output.fd, fill, data);
		if (!err)
			err = output_commit(&output, mode, true);
		output_discard(&output);
	}
	signals_allow();
	return err ? replace_error(what, path, err) : EXIT_OK;
}
