/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer calls the first once at the start, if it exists, and the second for each input. */
int fuzz_begin(int *argc, char ***argv) __asm__("LLVMFuzzerInitialize");
int fuzz_input(const uint8_t *data, size_t size) __asm__("LLVMFuzzerTestOneInput");

/* A condition that must hold for every input. */
#define must(condition)									\
	do {										\
		if (!(condition)) {							\
			dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort();							\
		}									\
	} while (0)

/* Copy the input to a string in memory of exactly its length; it ends at a NUL. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	must(text);
	return text;
}

#endif /* FUZZ_H */
