/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libFuzzer calls: once at the beginning, if it is there, and for each input. */
int fuzz_begin(int *argc, char ***argv) __asm__("LLVMFuzzerInitialize");
int fuzz_input(const uint8_t *data, size_t size) __asm__("LLVMFuzzerTestOneInput");

/* What must hold whatever the input was. */
#define must(condition)									\
	do {										\
		if (!(condition)) {							\
			dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort();							\
		}									\
	} while (0)

/* The input as a string, in memory of just its length; it ends at a NUL. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	must(text);
	return text;
}

#endif /* FUZZ_H */
