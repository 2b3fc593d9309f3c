// SPDX-License-Identifier: GPL-2.0-only
/*
 * How the user wants to see progress.
 */
#include "progress.h"

/**
 * progress_argument - read how progress is to be shown
 * @text: what the user wrote
 * @mode: out: what it means
 */
enum exit_code progress_argument(const char *text, enum progress_mode *mode)
{
	if (progress_parse(text, mode))
		return EXIT_OK;
	return report(EXIT_PARAMETERS, "progress '%s': must be auto, bar, json or none", text);
}
