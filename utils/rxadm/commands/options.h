/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_COMMANDS_OPTIONS_H
#define RXADM_COMMANDS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/size.h"

/* getopt_long() values of options that have no letter. */
enum option_value {
	OPT_FIRST = 256,
	OPT_ADDRESS = OPT_FIRST,
	OPT_ADVISE,
	OPT_ALLOW_ANY_HOST,
	OPT_ALLOW_HOST,
	OPT_BASE,
	OPT_BLOCK_SIZE,
	OPT_CACHE,
	OPT_COMPARE,
	OPT_COMPRESS,
	OPT_CONFIG,
	OPT_COUNT,
	OPT_DETECT_ZEROES,
	OPT_DHCHAP_KEY,
	OPT_DRY_RUN,
	OPT_EXPENDABLE,
	OPT_FOLIO_SIZE,
	OPT_FORCE,
	OPT_FORMAT,
	OPT_GENERATION,
	OPT_INDEX,
	OPT_INTO,
	OPT_KEEP,
	OPT_LATENCY,
	OPT_LIST,
	OPT_LOGICAL_BLOCK_SIZE,
	OPT_MEM_LIMIT,
	OPT_MODE,
	OPT_NAME,
	OPT_NODE,
	OPT_NO_FREEZE,
	OPT_NQN,
	OPT_ORIGIN,
	OPT_OVERCOMMIT,
	OPT_PORT,
	OPT_PROGRESS,
	OPT_READ_ONLY,
	OPT_RESERVE,
	OPT_SAVE,
	OPT_SEQ_CUTOFF,
	OPT_SIZE,
	OPT_STOP,
	OPT_TO,
	OPT_TRANSPORT,
	OPT_UPDATE,
	OPT_UUID,
};

/* An option without a value, and what it sets. */
struct flag {
	const char *name;
	bool *set;
};

#define FLAGS_MAX	3

enum exit_code print_usage(const char *usage, bool *help);
enum exit_code flag_options(int argc, char **argv, const char *usage, const struct flag *flags,
			    bool *help);
enum exit_code help_option(int argc, char **argv, const char *usage, bool *help);
enum exit_code dry_run_option(int argc, char **argv, const char *usage, bool *dry_run, bool *help);
enum exit_code operands(int argc, char **argv, int wanted, const char *names);
enum exit_code number_argument(const char *what, const char *text, unsigned int min,
			       unsigned int max, unsigned int *value);
enum exit_code seconds_argument(const char *what, const char *text, double min, double max,
				double *seconds);
enum exit_code size_argument(const char *what, const char *text, uint64_t *bytes);
enum exit_code size_change_argument(const char *text, struct size_change *change);
enum exit_code size_change_result(const char *text, const struct size_change *change,
				  uint64_t old, uint64_t *bytes);
enum exit_code size_range_argument(const char *text, struct size_range *range);
enum exit_code block_size_argument(const char *text, uint64_t *bytes);
enum exit_code logical_block_size_argument(const char *text, unsigned int *bytes);
enum exit_code folio_size_argument(const char *text, uint32_t *bytes);
enum exit_code node_argument(const char *text, int32_t *node);
enum exit_code uuid_argument(const char *text, uint8_t *uuid);
enum exit_code name_argument(const char *text);
enum exit_code mode_argument(const char *text);
enum exit_code seq_cutoff_argument(const char *text, uint64_t *bytes);
enum exit_code transport_argument(const char *text);
enum exit_code address_argument(const char *text);
enum exit_code port_argument(const char *text, unsigned int *port);
enum exit_code nqn_argument(const char *what, const char *text);

#endif /* RXADM_COMMANDS_OPTIONS_H */
