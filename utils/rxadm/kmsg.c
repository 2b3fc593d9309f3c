// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel log says about a table that device-mapper refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "kmsg.h"

#define RECORD_MAX	8192	/* the kernel's limit */

/**
 * kmsg_open - begin to listen to the kernel log
 *
 * Return: a descriptor that reads what is logged from now on, or -1.
 */
int kmsg_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/* "device-mapper: table: 253:0: TARGET: REASON (-ERRNO)": REASON, or NULL */
static char *reason_of(char *line, const char *target)
{
	static const char origin[] = "device-mapper: table";
	char *errno_text;
	char *prefix;
	char *reason;

	line[strcspn(line, "\n")] = '\0';
	line = strchr(line, ';');
	if (!line || strncmp(line + 1, origin, strlen(origin)))
		return NULL;
	prefix = format_text(": %s: ", target);
	reason = strstr(line, prefix);
	if (reason)
		reason += strlen(prefix);
	free(prefix);
	if (!reason)
		return NULL;
	errno_text = strstr(reason, " (-E");
	if (errno_text)
		*errno_text = '\0';
	return copy_text(reason);
}

/**
 * kmsg_table_error - the last reason that device-mapper logged
 * @fd: what kmsg_open() returned; -1 is allowed
 * @target: of this target
 *
 * Return: allocated text, or NULL.
 */
char *kmsg_table_error(int fd, const char *target)
{
	char record[RECORD_MAX + 1];
	char *last = NULL;
	char *reason;
	ssize_t len;

	if (fd < 0)
		return NULL;
	for (;;) {
		len = read(fd, record, RECORD_MAX);
		if (len < 0 && errno == EPIPE)	/* the log went over us: go on */
			continue;
		if (len <= 0)
			return last;
		record[len] = '\0';
		reason = reason_of(record, target);
		if (reason) {
			free(last);
			last = reason;
		}
	}
}
