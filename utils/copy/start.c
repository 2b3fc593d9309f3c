// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a program does first, so that its files are safe from the way it was started.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "start.h"

/* What is opened later must not take the number of a standard stream, and get our messages. */
static void fill_standard_streams(void)
{
	int fd;

	do
		fd = open("/", O_PATH);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/**
 * copy_start - to be called before the first file is opened
 */
void copy_start(void)
{
	fill_standard_streams();
	/* A limit of the size of files is an error of write(), with all that is then undone. */
	signal(SIGXFSZ, SIG_IGN);
}
