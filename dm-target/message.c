// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages of a cache, sent by "dmsetup message". See rxcache(4).
 */
#include <linux/device-mapper.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "advise.h"
#include "limit.h"
#include "message.h"
#include "origin.h"
#include "promise.h"

#define DM_MSG_PREFIX "rxcache"

/* Maximum number of slots that one "cached" message examines. */
#define MAX_SLOTS	1048576UL
/* Room for two numbers with separators. */
#define LAST_NUMBERS	48

static int refuse(const char *message, const char *argument, const char *why)
{
	DMERR("message %s '%s': %s", message, argument, why);
	return -EINVAL;
}

static int set_mode(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	enum rxc_mode mode;

	if (rxc_parse_mode(argv[1], &mode))
		return refuse("mode", argv[1],
			      "must be writethrough, writearound or passthrough");
	/* Each mode announces all writes to the index, so the mode may change at any time. */
	WRITE_ONCE(c->mode, mode);
	return 0;
}

static int set_seq_cutoff(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	u64 bytes;

	if (rxc_parse_seq_cutoff(argv[1], &bytes))
		return refuse("seq_cutoff", argv[1],
			      "must be a multiple of 512 bytes, at most 1 TiB");
	WRITE_ONCE(c->seq_cutoff, bytes);
	return 0;
}

static int set_size(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	const char *error = "size must be a number of bytes";
	u64 bytes;

	if (!rxc_parse_number(argv[1], &bytes))
		error = rxc_limit_set(c, bytes);
	if (error)
		return refuse("size", argv[1], error);
	rxc_advise_adjust(c);
	return 0;
}

static int set_min_size(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	const char *error = "min_size must be a number of bytes";
	u64 bytes;

	if (!rxc_parse_number(argv[1], &bytes))
		error = rxc_promise_min(c, bytes);
	return error ? refuse("min_size", argv[1], error) : 0;
}

static int drop_all(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	rxc_index_drop(c->index, 0, c->nr_blocks);
	return 0;
}

static int reset_stats(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	mutex_lock(&c->stats_lock);
	rxc_stats_reset(c->stats, &c->stats_base);
	mutex_unlock(&c->stats_lock);
	return 0;
}

/* Get the range of blocks from the sectors in a message, and the sector after these. */
static int parse_range(const struct rxcache *c, char **argv, struct rxc_range *range,
		       u64 *end_sector)
{
	const u64 len = c->ti->len;
	u64 start, nr, end;

	if (rxc_parse_number(argv[1], &start))
		return refuse(argv[0], argv[1], "START must be a number of sectors");
	if (start >= len)
		return refuse(argv[0], argv[1], "START must lie within the target");
	if (rxc_parse_number(argv[2], &nr) || !nr)
		return refuse(argv[0], argv[2],
			      "LENGTH must be a number of sectors, greater than 0");
	if (nr > len - start)
		return refuse(argv[0], argv[2], "LENGTH must end within the target");

	range->first = start >> c->block_shift;
	end = (start + nr + (1ULL << c->block_shift) - 1) >> c->block_shift;
	range->nr = max(min(end, c->nr_blocks), range->first) - range->first;
	*end_sector = start + nr;
	return 0;
}

static int invalidate(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	struct rxc_range range;
	u64 end;
	int ret;

	ret = parse_range(c, argv, &range, &end);
	if (ret)
		return ret;
	rxc_index_drop(c->index, range.first, range.nr);
	return 0;
}

/*
 * Prefetch a part of a range. The answer has two numbers: the sector to continue from,
 * which is the one after the range at the end, and the number of blocks before it that are
 * not in the cache, because other I/O was using them.
 */
static int start_prefetch(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	struct rxc_range range;
	unsigned int sz = 0;
	u64 end, left_out;
	int ret;

	ret = parse_range(c, argv, &range, &end);
	if (ret)
		return ret;
	if (READ_ONCE(c->mode) == RXC_PASSTHROUGH)
		return refuse(argv[0], argv[1], "nothing is cached in mode passthrough");
	if (maxlen < LAST_NUMBERS)
		return -ENOSPC;
	ret = rxc_prefetch(c, &range, &left_out);
	if (ret)
		return ret;
	DMEMIT("%llu %llu", range.nr ? range.first << c->block_shift : end, left_out);
	return 1;
}

/*
 * List the numbers of the blocks in the slots from the given slot on, as many as fit. The
 * last number is the slot to continue from, or 0 at the end.
 */
static int list_cached(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	unsigned long nr_slots = rxc_index_nr_slots(c->index);
	unsigned long slot, end;
	unsigned int sz = 0;
	u64 from, block;

	if (rxc_parse_number(argv[1], &from) || from >= nr_slots)
		return refuse(argv[0], argv[1], "SLOT must be less than the number of slots");
	if (maxlen < LAST_NUMBERS)
		return -ENOSPC;

	end = min(nr_slots, from + MAX_SLOTS);
	for (slot = from; slot < end && sz + LAST_NUMBERS < maxlen; slot++) {
		if (rxc_index_block_in(c->index, slot, &block))
			DMEMIT("%llu ", block);
		if (!(slot % 4096))
			cond_resched();
	}
	DMEMIT("%lu", slot < nr_slots ? slot : 0);
	return 1;
}

static int set_advise(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	if (strcasecmp(argv[1], "on") && strcasecmp(argv[1], "off"))
		return refuse("advise", argv[1], "must be on or off");
	return rxc_advise(c, !strcasecmp(argv[1], "on"));
}

/* See rxc_sampler_report(). */
static int tell_advice(struct rxcache *c, char **argv, char *result, unsigned int maxlen)
{
	int ret;

	mutex_lock(&c->advice_lock);
	ret = rxc_sampler_report(&c->sampler, result, maxlen);
	mutex_unlock(&c->advice_lock);
	return ret ?: 1;
}

#define MESSAGE_NAMES \
	"advice, advise, cached, drop, invalidate, min_size, mode, prefetch, reset_stats, " \
	"seq_cutoff or size"

static const struct message {
	const char *name;
	unsigned int nr_args;
	const char *usage;
	int (*send)(struct rxcache *c, char **argv, char *result, unsigned int maxlen);
} messages[] = {
	{ "advice", 0, "takes no arguments", tell_advice },
	{ "advise", 1, "takes on or off", set_advise },
	{ "cached", 1, "takes SLOT", list_cached },
	{ "drop", 0, "takes no arguments", drop_all },
	{ "invalidate", 2, "takes START and LENGTH", invalidate },
	{ "min_size", 1, "takes BYTES", set_min_size },
	{ "mode", 1, "takes writethrough, writearound or passthrough", set_mode },
	{ "prefetch", 2, "takes START and LENGTH", start_prefetch },
	{ "reset_stats", 0, "takes no arguments", reset_stats },
	{ "seq_cutoff", 1, "takes BYTES", set_seq_cutoff },
	{ "size", 1, "takes BYTES", set_size },
};

/**
 * rxc_message - handle a message
 * @c: the cache, whose @index_lock the caller holds
 * @argc: number of words, at least 1
 * @argv: the words
 * @result: buffer for an answer
 * @maxlen: size of @result
 *
 * A line in the kernel log names an argument that is rejected.
 *
 * Return: 0; 1 if there is an answer; -EINVAL for bad arguments; or another errno.
 */
int rxc_message(struct rxcache *c, unsigned int argc, char **argv, char *result,
		unsigned int maxlen)
{
	const struct message *message;

	lockdep_assert_held(&c->index_lock);
	for (message = messages; message < messages + ARRAY_SIZE(messages); message++) {
		if (strcasecmp(argv[0], message->name))
			continue;
		if (argc - 1 < message->nr_args) {
			DMERR("message %s: missing argument, %s", message->name, message->usage);
			return -EINVAL;
		}
		if (argc - 1 > message->nr_args)
			return refuse(message->name, argv[message->nr_args + 1], message->usage);
		return message->send(c, argv, result, maxlen);
	}
	return refuse("name", argv[0], "must be " MESSAGE_NAMES);
}
