// SPDX-License-Identifier: GPL-2.0-only
/*
 * Histograms of dm-stats: all bins are read, exactly, or the line is refused.
 */
#include "fuzz.h"
#include "kernel/rxcache.h"

int fuzz_input(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct latency latency, again;
	char line[LATENCY_BINS * 21 + 8];
	const char *word = text;
	uint64_t total = 0;
	unsigned int bin;
	size_t at = 0;
	char *error;

	error = latency_parse(text, &latency);
	if (error) {
		must(*error);
		free(error);
		free(text);
		return 0;
	}

	must(latency.measured);
	for (bin = 0; bin < LATENCY_BINS; bin++) {
		total += latency.count[bin];
		at += snprintf(line + at, sizeof(line) - at, "%s%llu", bin ? ":" : "0+8 1 ",
			       (unsigned long long)latency.count[bin]);
	}
	must(total == latency.total);
	must(!latency_parse(line, &again));
	must(!memcmp(latency.count, again.count, sizeof(again.count)));

	/* Compare the digits, without leading zeros. */
	text[strcspn(text, "\n")] = '\0';
	if (strrchr(text, ' '))
		word = strrchr(text, ' ') + 1;
	for (bin = 0, at = strlen("0+8 1 "); bin < LATENCY_BINS; bin++, word++, at++) {
		while (*word == '0' && word[1] >= '0' && word[1] <= '9')
			word++;
		for (; *word >= '0' && *word <= '9'; word++, at++)
			must(*word == line[at]);
		must(line[at] == *word);
	}
	free(text);
	return 0;
}
