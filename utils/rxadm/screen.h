/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SCREEN_H
#define RXADM_SCREEN_H

#include <stdbool.h>

#include "error.h"

/* Why a wait ended. */
enum screen_event {
	SCREEN_TIME,	/* the time is over */
	SCREEN_RESIZED,	/* the terminal has another size */
	SCREEN_QUIT,	/* the user has seen enough */
};

enum exit_code screen_open(bool terminal);
void screen_close(void);
void screen_draw(const char *title, const char *text);
enum screen_event screen_wait(double seconds);

#endif /* RXADM_SCREEN_H */
