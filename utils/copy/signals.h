/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_SIGNALS_H
#define COPY_SIGNALS_H

#include <signal.h>

/* Blocked signals, which are read from a signalfd. */
struct copy_signals {
	int fd;
	sigset_t before;	/* the signal mask before */
};

void copy_start(void);
void copy_signals_fatal(const sigset_t *mask, sigset_t *set);
int copy_signals_hold(struct copy_signals *signals);
int copy_signals_take(const struct copy_signals *signals);
void copy_signals_release(struct copy_signals *signals);
void copy_interrupt(int signal);

#endif /* COPY_SIGNALS_H */
