// SPDX-License-Identifier: GPL-2.0-only
/*
 * A RAM disk for oneself, for the time that it is open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "machine.h"
#include "users.h"

#define BUSY_ROUNDS	20	/* of pause_briefly(): one second */

static enum exit_code busy_error(const struct device *dev, const struct rxd_query *query,
				 const char *users)
{
	if (query->state & RXD_STATE_CACHE)
		return report(EXIT_BUSY,
			      "%s '%s': is in use as a cache%s%s; run 'rxadm unmap' first",
			      dev->what, dev->path, users ? ", " : "", users ? users : "");
	return report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first", dev->what,
		      dev->path, users ? users : "a process has it open");
}

/**
 * claim - open a RAM disk that nobody else uses, so that nobody can mount it meanwhile
 * @control: the control node
 * @dev: the disk
 * @index: its number
 * @flags: O_RDONLY or O_RDWR
 * @query: out: what it is
 * @fd: out: the descriptor, past the page cache
 */
enum exit_code claim(int control, const struct device *dev, int index, int flags,
		     struct rxd_query *query, int *fd)
{
	unsigned int round = 0;
	enum exit_code ret;
	char *users;
	int err;

	for (;;) {
		err = control_query(control, index, 0, query);
		if (err)
			return control_error(err, dev->path);
		if (!(query->state & (RXD_STATE_OPEN | RXD_STATE_CACHE))) {
			*fd = open(dev->path, flags | O_EXCL | O_DIRECT | O_CLOEXEC);
			if (*fd >= 0)
				return EXIT_OK;
			if (errno != EBUSY)
				return control_error(errno, dev->path);
		}
		users = users_of(dev->number);
		/* udev looks into a device that was just written: let it finish. */
		if (users || query->state & RXD_STATE_CACHE || ++round == BUSY_ROUNDS) {
			ret = busy_error(dev, query, users);
			free(users);
			return ret;
		}
		pause_briefly();
	}
}
