// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protect changes from the signals of users.
 */
#include <signal.h>
#include <stddef.h>

#include "base/common.h"
#include "base/signals.h"

/* Of signals_block(). */
static sigset_t mask_before;
static unsigned int block_depth;

/*
 * Block the signals of users until signals_allow(), so that they do not interrupt a change.
 * Calls may be nested.
 */
void signals_block(void)
{
	sigset_t set;

	if (block_depth++)
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, &mask_before);
}

void signals_allow(void)
{
	if (!--block_depth)
		sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

bool signals_are_blocked(void)
{
	return block_depth;
}

/* Return true if signals_allow() would end the program. */
bool signals_pending(void)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	struct sigaction action;
	sigset_t pending;
	size_t i;

	sigpending(&pending);
	for (i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigismember(&pending, signals[i]) == 1 &&
		    !(block_depth && sigismember(&mask_before, signals[i])) &&
		    !sigaction(signals[i], NULL, &action) && action.sa_handler == SIG_DFL)
			return true;
	return false;
}
