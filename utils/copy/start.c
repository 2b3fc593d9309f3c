// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protect the files of a program from inherited descriptors and signals, before it opens any.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "start.h"

/* Open closed standard streams, or messages would be written to the next file opened. */
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
 * copy_start - prepare a program before it opens its first file
 */
void copy_start(void)
{
	fill_standard_streams();
	/* Let write() fail at the limit of the file size (EFBIG), so that it is cleaned up. */
	signal(SIGXFSZ, SIG_IGN);
}
