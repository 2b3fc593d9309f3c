// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protect the files of a program: from inherited descriptors, before it opens any, and from
 * signals that would end the process, so that it can clean up first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "signals.h"

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

/**
 * copy_signals_fatal - find the signals of users that would end the process
 * @mask: the signals that are blocked
 * @set: out: those of SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGPIPE that are neither blocked,
 *	ignored nor handled
 */
void copy_signals_fatal(const sigset_t *mask, sigset_t *set)
{
	static const int fatal[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	struct sigaction action;
	unsigned int i;

	sigemptyset(set);
	for (i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
		if (!sigismember(mask, fatal[i]) && !sigaction(fatal[i], NULL, &action) &&
		    action.sa_handler == SIG_DFL)
			sigaddset(set, fatal[i]);
}

/**
 * copy_signals_hold - block SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGPIPE
 * @signals: out: for copy_signals_release()
 *
 * Signals that were blocked, ignored or handled before stay so.
 *
 * Return: 0 or an errno.
 */
int copy_signals_hold(struct copy_signals *signals)
{
	sigset_t set;

	sigprocmask(SIG_SETMASK, NULL, &signals->before);
	copy_signals_fatal(&signals->before, &set);
	signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd < 0)
		return errno;
	sigprocmask(SIG_BLOCK, &set, NULL);
	return 0;
}

/**
 * copy_signals_take - take a pending signal
 * @signals: the blocked signals
 *
 * Return: its number, or 0.
 */
int copy_signals_take(const struct copy_signals *signals)
{
	struct signalfd_siginfo info;

	return read(signals->fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

/**
 * copy_signals_release - unblock the signals; a pending one then ends the process
 * @signals: the blocked signals
 */
void copy_signals_release(struct copy_signals *signals)
{
	close(signals->fd);
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

/**
 * copy_interrupt - end the process by the signal that interrupted a copy, after cleaning up
 * @signal: its number
 */
void copy_interrupt(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signal);
}
