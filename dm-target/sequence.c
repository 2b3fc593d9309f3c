// SPDX-License-Identifier: GPL-2.0-only
/*
 * Detection of long sequential streams.
 *
 * Streams are recorded by the region that they have reached, in lists with a lock each, so
 * that every processor finds them. Misses and writes are recorded there, and hits that belong
 * to a stream. Any other hit takes no lock, and writes to no cache line that hits on other
 * processors read. It is recorded by its processor, and sequential hits become a stream after a
 * part of the cut-off.
 */
#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/lockdep.h>
#include <linux/slab.h>

#include "sequence.h"

#define NR_SHARDS	BIT(RXC_SHARDS_BITS)
/* A run of hits becomes a stream at the cut-off divided by this number. */
#define RUN_SHARE	4

/**
 * rxc_sequence_init - allocate the records of streams
 * @seq: the records
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
 * @seq: the records of streams
 */
void rxc_sequence_exit(struct rxc_sequence *seq)
{
	free_percpu(seq->runs);
	kvfree(seq->shards);
}

/* The region of a stream that has reached @next: that of the last sector before it. */
static u64 region_of(sector_t next)
{
	return (next ? next - 1 : 0) >> RXC_REGION_SHIFT;
}

static unsigned int shard_nr(u64 region)
{
	return hash_64(region, RXC_SHARDS_BITS);
}

static struct rxc_shard *shard_of(struct rxc_sequence *seq, sector_t next)
{
	return &seq->shards[shard_nr(region_of(next))];
}

/*
 * A bio continues a stream if it begins at its end. It also does so if it begins within the
 * newest bio of the stream, because device-mapper maps the rest of a bio that was cut again.
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

/* This takes no lock. A wrong answer is rare, and only affects one stream. */
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
 * Record a stream in the shards of the other regions of its newest bio, because the rest of
 * the bio may begin in each of them. The record in the old shard stays for the same reason.
 * This is not inlined, so that hits in one region do not save registers for it.
 */
static noinline void carry_over(struct rxc_sequence *seq, sector_t start, sector_t next,
				u64 length)
{
	u64 region = region_of(start), last = region_of(next);
	DECLARE_BITMAP(done, NR_SHARDS) = {};
	struct rxc_shard *shard;

	__set_bit(shard_nr(region), done);
	while (region++ < last) {
		/* A second record would take the place of another stream. */
		if (__test_and_set_bit(shard_nr(region), done))
			continue;
		shard = &seq->shards[shard_nr(region)];
		spin_lock(&shard->lock);
		set_stream(shard, oldest_stream(shard), start, next, length);
		spin_unlock(&shard->lock);
	}
}

/* Record a bio in the stream that it continues, or in a new one after @before sectors. */
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

	if (grows && region_of(next) != region_of(sector))
		carry_over(seq, sector, next, length);
	return length;
}

/* Length of the run of hits on this processor that ends at @sector. */
static u64 length_of_hits(struct rxc_sequence *seq, sector_t sector)
{
	const struct rxc_run *run = get_cpu_ptr(seq->runs);
	u64 length = run->next == sector ? run->next - run->start : 0;

	put_cpu_ptr(seq->runs);
	return length;
}

/**
 * rxc_sequence_note - record a bio that is not a hit
 * @seq: the records of streams
 * @sector: first sector of the bio
 * @nr: number of sectors, at least 1
 *
 * Return: length of the stream that the bio belongs to, in sectors.
 */
u64 rxc_sequence_note(struct rxc_sequence *seq, sector_t sector, unsigned int nr)
{
	return note_bio(seq, sector, nr, length_of_hits(seq, sector));
}

/*
 * Find the start of the hits that end at @start. The task that made them may have migrated
 * from other processors.
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
			/* A race with a change is rare, and only affects one stream. */
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
 * rxc_sequence_hit - record a hit
 * @seq: the records of streams
 * @sector: first sector
 * @nr: number of sectors, at least 1
 * @cutoff: the cut-off for streams, in sectors
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
	/* A run ends when it becomes a stream. */
	WRITE_ONCE(run->start, is_stream ? next : start);
	WRITE_ONCE(run->next, next);
	put_cpu_ptr(seq->runs);

	if (is_stream)
		note_bio(seq, sector, nr, known ? 0 : sector - trace_back(seq, start));
}
