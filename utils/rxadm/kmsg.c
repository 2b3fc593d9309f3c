// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel log says about what was refused.
 */
#include <errno.h>
#include <fcntl.h>
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

/* "PRIORITY,SEQUENCE,...;TEXT" without the lines after it: TEXT, or NULL */
static char *text_of(char *record)
{
	record[strcspn(record, "\n")] = '\0';
	record = strchr(record, ';');
	return record ? record + 1 : NULL;
}

/*
 * "device-mapper: table: 253:0: TARGET: REASON (-ERRNO)" or, of the target itself,
 * "device-mapper: TARGET: REASON": REASON, or NULL
 */
static char *target_reason(char *text, const char *target)
{
	static const char origin[] = "device-mapper: ";
	char *errno_text;
	char *prefix;
	char *reason;

	if (strncmp(text, origin, strlen(origin)))
		return NULL;
	prefix = format_text(": %s: ", target);
	reason = strstr(text, prefix);
	if (reason)
		reason += strlen(prefix);
	free(prefix);
	if (!reason)
		return NULL;
	errno_text = strstr(reason, " (-E");
	if (errno_text)
		*errno_text = '\0';
	return reason;
}

/* "MODULE: REASON": REASON, or NULL. Where modprobe writes a minus, the kernel does not. */
static char *module_reason(char *text, const char *module)
{
	size_t i;

	for (i = 0; module[i]; i++)
		if (text[i] != (module[i] == '-' ? '_' : module[i]))
			return NULL;
	return strncmp(text + i, ": ", 2) ? NULL : text + i + 2;
}

static char *last_reason(int fd, const char *name,
			 char *(*reason_of)(char *text, const char *name))
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
		reason = text_of(record);
		if (reason)
			reason = reason_of(reason, name);
		if (reason) {
			free(last);
			last = copy_text(reason);
		}
	}
}

/**
 * kmsg_target_error - the last reason that was logged for a target's refusal
 * @fd: what kmsg_open() returned; -1 is allowed
 * @target: the target
 *
 * Return: allocated text, or NULL.
 */
char *kmsg_target_error(int fd, const char *target)
{
	return last_reason(fd, target, target_reason);
}

/**
 * kmsg_module_error - the last line that a module logged
 * @fd: what kmsg_open() returned; -1 is allowed
 * @module: the module, as modprobe calls it
 *
 * Return: allocated text, or NULL.
 */
char *kmsg_module_error(int fd, const char *module)
{
	return last_reason(fd, module, module_reason);
}
