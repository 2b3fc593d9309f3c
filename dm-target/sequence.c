// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which I/O is a part of a long sequential stream.
 */
#include <linux/string.h>

#include "sequence.h"

/**
 * rxc_sequence_init - forget all streams
 * @seq: where they are kept
 */
void rxc_sequence_init(struct rxc_sequence *seq)
{
	memset(seq, 0, sizeof(*seq));
	spin_lock_init(&seq->lock);
}

/*
 * A bio belongs to the stream that it continues. Device mapper brings the rest of
 * a bio that was cut again: it belongs to the stream that the bio continued.
 */
static struct rxc_stream *find_stream(struct rxc_sequence *seq, sector_t sector)
{
	struct rxc_stream *stream, *oldest = seq->stream;

	for (stream = seq->stream; stream < seq->stream + RXC_STREAMS; stream++) {
		if (stream->length && sector > stream->start && sector <= stream->next)
			return stream;
		if (stream->used < oldest->used)
			oldest = stream;
	}
	oldest->next = sector;
	oldest->length = 0;
	return oldest;
}

/**
 * rxc_sequence_exceeds - note a bio, and tell whether it is far into a stream
 * @seq: the streams so far
 * @sector: where the bio begins
 * @nr: its sectors, at least 1
 * @cutoff: how long a stream may become, in sectors
 *
 * Return: true if the bio's stream is longer than that.
 */
bool rxc_sequence_exceeds(struct rxc_sequence *seq, sector_t sector, unsigned int nr,
			  u64 cutoff)
{
	struct rxc_stream *stream;
	unsigned long flags;
	bool exceeds;

	spin_lock_irqsave(&seq->lock, flags);
	stream = find_stream(seq, sector);
	if (sector + nr > stream->next) {
		stream->length += sector + nr - stream->next;
		stream->start = sector;
		stream->next = sector + nr;
	}
	stream->used = ++seq->clock;
	exceeds = stream->length > cutoff;
	spin_unlock_irqrestore(&seq->lock, flags);
	return exceeds;
}
