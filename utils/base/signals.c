// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protect changes from the signals of users.
 */
#include <signal.h>
#include <stddef.h>

#include "base/signals.h"
#include "copy/signals.h"

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
	sigset_t mask, pending, fatal;

	sigemptyset(&mask);
	copy_signals_fatal(block_depth ? &mask_before : &mask, &fatal);
	sigpending(&pending);
	sigandset(&fatal, &fatal, &pending);
	return !sigisemptyset(&fatal);
}
