// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file for each RAM disk that is being filled. Whoever finds one while nobody else
 * changes anything knows that the filling was interrupted. Like the RAM disks, the
 * files are gone after a reboot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "identity.h"
#include "record.h"
#include "unfinished.h"

static char *path_of(const uint8_t *uuid)
{
	char text[IDENTITY_TEXT];

	return format_text(RECORD_FOLDER "/unfinished-%s", identity_text(uuid, text));
}

/**
 * unfinished_begin - note that a RAM disk is going to be filled
 * @uuid: the RAM disk
 */
enum exit_code unfinished_begin(const uint8_t *uuid)
{
	char *path = path_of(uuid);
	enum exit_code ret = EXIT_OK;
	int fd = -1;

	errno = record_make_folder();
	if (!errno)
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		ret = report(exit_code_of(errno), "cannot make %s: %s", path, strerror(errno));
	else
		close(fd);
	free(path);
	return ret;
}

/**
 * unfinished_end - note that a RAM disk is filled, or gone
 * @uuid: the RAM disk
 */
void unfinished_end(const uint8_t *uuid)
{
	char *path = path_of(uuid);

	unlink(path);
	free(path);
}

bool unfinished(const uint8_t *uuid)
{
	char *path = path_of(uuid);
	bool found = !access(path, F_OK);

	free(path);
	return found;
}
