// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which I/O is a part of a long sequential stream.
 *
 * Streams are kept by the region that they have come to, each with a lock of its
 * own, so they are known on every processor. What misses or writes is noted there.
 * A hit takes no lock and writes to no line that another processor's hit reads: it
 * is noted by its processor, and becomes a stream once such hits have gone on for
 * a part of the cut-off.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/lockdep.h>
#include <linux/slab.h>

#include "sequence.h"

#define NR_SHARDS	BIT(RXC_SHARDS_BITS)
/* What part of the cut-off makes a run of hits a stream. */
#define RUN_SHARE	4

/**
 * rxc_sequence_init - make room for streams
 * @seq: where they are kept
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_sequence_init(struct rxc_sequence *seq)
{
	unsigned int i;

	seq->shards = kvcalloc(NR_SHARDS, sizeof(*seq->shards), GFP_KERNEL);
	seq->runs = alloc_percpu(struct rxc_run);
	if (!seq->shards || !seq->runs) {
		rxc_sequence_exit(seq);
		return -ENOMEM;
	}
	for (i = 0; i < NR_SHARDS; i++)
		spin_lock_init(&seq->shards[i].lock);
	return 0;
}

/**
 * rxc_sequence_exit - undo rxc_sequence_init()
 * @seq: where streams are kept
 */
void rxc_sequence_exit(struct rxc_sequence *seq)
{
	free_percpu(seq->runs);
	kvfree(seq->shards);
}

/* Where a stream is found that has come to @next, or to just beyond it. */
static struct rxc_shard *shard_of(struct rxc_sequence *seq, sector_t next)
{
	sector_t last = next ? next - 1 : 0;

	return &seq->shards[hash_64(last >> RXC_REGION_SHIFT, RXC_SHARDS_BITS)];
}

/*
 * A bio belongs to the stream that it continues. Device mapper brings the rest of
 * a bio that was cut again: it belongs to the stream that the bio continued.
 */
static bool continues(const struct rxc_stream *stream, sector_t sector)
{
	return sector > READ_ONCE(stream->start) && sector <= READ_ONCE(stream->next);
}

static struct rxc_stream *find_stream(struct rxc_shard *shard, sector_t sector)
{
	struct rxc_stream *stream;

	lockdep_assert_held(&shard->lock);
	for (stream = shard->stream; stream < shard->stream + RXC_STREAMS; stream++)
		if (continues(stream, sector))
			return stream;
	return NULL;
}

static struct rxc_stream *oldest_stream(struct rxc_shard *shard)
{
	struct rxc_stream *stream, *oldest = shard->stream;

	lockdep_assert_held(&shard->lock);
	for (stream = shard->stream; stream < shard->stream + RXC_STREAMS; stream++)
		if (stream->used < oldest->used)
			oldest = stream;
	return oldest;
}

static void set_stream(struct rxc_shard *shard, struct rxc_stream *stream, sector_t start,
		       sector_t next, u64 length)
{
	lockdep_assert_held(&shard->lock);
	WRITE_ONCE(stream->start, start);
	WRITE_ONCE(stream->next, next);
	stream->length = length;
	stream->used = ++shard->clock;
}

/* A look without the lock: a wrong answer costs a stream, and is rare. */
static bool is_known(struct rxc_sequence *seq, sector_t sector)
{
	const struct rxc_shard *shard = shard_of(seq, sector);
	unsigned int i;

	for (i = 0; i < RXC_STREAMS; i++)
		if (continues(&shard->stream[i], sector))
			return true;
	return false;
}

/*
 * Have a stream in the shard of the region that it has come to, too. Where it comes
 * from it stays, for the rest of its newest bio.
 */
static void carry_over(struct rxc_sequence *seq, sector_t start, sector_t next, u64 length)
{
	struct rxc_shard *shard = shard_of(seq, next);

	spin_lock(&shard->lock);
	set_stream(shard, oldest_stream(shard), start, next, length);
	spin_unlock(&shard->lock);
}

/* Note a bio in the stream that it continues, or in one that has come so far: @before. */
static u64 note_bio(struct rxc_sequence *seq, sector_t sector, unsigned int nr, u64 before)
{
	struct rxc_shard *shard = shard_of(seq, sector);
	struct rxc_stream *stream;
	sector_t next = sector + nr;
	bool grows = true;
	u64 length;

	spin_lock(&shard->lock);
	stream = find_stream(shard, sector);
	if (!stream) {
		stream = oldest_stream(shard);
		length = before + nr;
	} else if (next > stream->next) {
		length = stream->length + next - stream->next;
	} else {
		length = stream->length;
		grows = false;
	}
	if (grows)
		set_stream(shard, stream, sector, next, length);
	else
		stream->used = ++shard->clock;
	spin_unlock(&shard->lock);

	if (grows && shard_of(seq, next) != shard)
		carry_over(seq, sector, next, length);
	return length;
}

/* How far the hits of this processor have come that end at a sector. */
static u64 length_of_hits(struct rxc_sequence *seq, sector_t sector)
{
	const struct rxc_run *run = get_cpu_ptr(seq->runs);
	u64 length = run->next == sector ? run->next - run->start : 0;

	put_cpu_ptr(seq->runs);
	return length;
}

/**
 * rxc_sequence_exceeds - note a bio, and tell whether it is far into a stream
 * @seq: the streams so far
 * @sector: where the bio begins
 * @nr: its sectors, at least 1
 * @cutoff: how long a stream may become, in sectors
 *
 * For what is not read from the cache.
 *
 * Return: true if the bio's stream is longer than that.
 */
bool rxc_sequence_exceeds(struct rxc_sequence *seq, sector_t sector, unsigned int nr,
			  u64 cutoff)
{
	return note_bio(seq, sector, nr, length_of_hits(seq, sector)) > cutoff;
}

/*
 * Where hits began that were read up to a sector, by a task that has come from other
 * processors since.
 */
static sector_t trace_back(struct rxc_sequence *seq, sector_t start)
{
	const struct rxc_run *run;
	sector_t before;
	bool found;
	int cpu;

	do {
		found = false;
		for_each_online_cpu(cpu) {
			run = per_cpu_ptr(seq->runs, cpu);
			if (READ_ONCE(run->next) != start)
				continue;
			/* What is read while it changes costs a stream, and is rare. */
			before = READ_ONCE(run->start);
			if (before < start) {
				start = before;
				found = true;
			}
		}
	} while (found);
	return start;
}

/**
 * rxc_sequence_hit - note what is read from the cache
 * @seq: the streams so far
 * @sector: where it begins
 * @nr: its sectors, at least 1
 * @cutoff: how long a stream may become, in sectors
 */
void rxc_sequence_hit(struct rxc_sequence *seq, sector_t sector, unsigned int nr, u64 cutoff)
{
	struct rxc_run *run = get_cpu_ptr(seq->runs);
	sector_t start = sector, next = sector + nr;
	bool is_stream, known = false;

	if (run->start < sector && run->next == sector) {
		start = run->start;
		is_stream = next - start > cutoff / RUN_SHARE;
	} else {
		known = is_known(seq, sector);
		is_stream = known || nr > cutoff / RUN_SHARE;
	}
	/* What has become a stream is a run no more. */
	WRITE_ONCE(run->start, is_stream ? next : start);
	WRITE_ONCE(run->next, next);
	put_cpu_ptr(seq->runs);

	if (is_stream)
		note_bio(seq, sector, nr, known ? 0 : sector - trace_back(seq, start));
}
