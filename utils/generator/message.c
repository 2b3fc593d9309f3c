// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print error messages, or write them to the kernel log.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "message.h"

static int log_fd = STDERR_FILENO;

/* From now on, write messages to the kernel log, if it can be opened. */
void say_to_kernel_log(void)
{
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		log_fd = fd;
}

void complain(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = format_list(format, args);
	va_end(args);
	dprintf(log_fd, "%srxd-generator: %s\n", log_fd == STDERR_FILENO ? "" : "<3>", text);
	free(text);
}
