// SPDX-License-Identifier: GPL-2.0-only
/*
 * The record of changes: a bit for each page that was changed since a state with a name.
 *
 * Each step of a write sets the bits of its pages before it changes them. A store has a record
 * only if it has a struct rxd_hold, and gets another one while writes are held, so each step
 * belongs to one record.
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/find.h>
#include <linux/limits.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "hold.h"
#include "record.h"
#include "store.h"

/* Bits that are searched, and words that are added, between two calls of cond_resched(). */
#define BITS_PER_STEP	BIT(20)
#define WORDS_PER_STEP	(BITS_PER_STEP / BITS_PER_LONG)

static size_t size_of_record(unsigned long nr_pages)
{
	struct rxd_record *record;

	return struct_size(record, bits, BITS_TO_LONGS(nr_pages));
}

/**
 * rxd_record_prepare - wait for the memory that a record will take
 * @nr_pages: number of pages
 *
 * May sleep while memory is being freed.
 *
 * Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
int rxd_record_prepare(unsigned long nr_pages)
{
	return rxd_prepare_table(size_of_record(nr_pages));
}

/**
 * rxd_record_alloc - allocate a record without changes
 * @nr_pages: number of pages
 * @state: the name of the state
 *
 * Return: the record, or NULL if memory is short.
 */
struct rxd_record *rxd_record_alloc(unsigned long nr_pages, const u8 *state)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN;
	size_t size = size_of_record(nr_pages);
	static atomic64_t last_id;
	struct rxd_record *record;

	if (rxd_record_prepare(nr_pages))
		return NULL;
	/* That of a disk of more than 64 TiB is larger than kvmalloc() allows. */
	record = size > INT_MAX ? __vmalloc(size, gfp) : kvmalloc(size, gfp);
	if (!record)
		return NULL;
	record->id = atomic64_inc_return(&last_id);
	import_uuid(&record->state, state);
	record->nr_pages = nr_pages;
	return record;
}

/**
 * rxd_record_free - free a record
 * @record: the record, which no store has; NULL is allowed
 */
void rxd_record_free(struct rxd_record *record)
{
	kvfree(record);
}

/* Other tasks may set bits of the same word. Most bits are set already: only read these. */
static void set_bits(unsigned long *word, unsigned long mask)
{
	BUILD_BUG_ON(sizeof(*word) != sizeof(atomic_long_t));
	if ((READ_ONCE(*word) & mask) != mask)
		atomic_long_or(mask, (atomic_long_t *)word);
}

/**
 * rxd_record_note - record a change that is about to be made
 * @record: the record
 * @pos: position in bytes
 * @len: number of bytes, greater than 0; the part beyond the record is ignored, because the
 *	record of a disk that grows is about to end
 */
void rxd_record_note(struct rxd_record *record, u64 pos, unsigned int len)
{
	unsigned long first = pos >> PAGE_SHIFT, next;
	unsigned long end = min_t(u64, (pos + len + PAGE_SIZE - 1) >> PAGE_SHIFT,
				  record->nr_pages);

	for (; first < end; first = next) {
		next = min(round_down(first, BITS_PER_LONG) + BITS_PER_LONG, end);
		set_bits(&record->bits[BIT_WORD(first)],
			 GENMASK((next - 1) % BITS_PER_LONG, first % BITS_PER_LONG));
	}
}

/**
 * rxd_record_add - add the changes of another record
 * @record: the record, in which bits may be set meanwhile
 * @other: the other record, for the same number of pages, in which none are set meanwhile
 */
void rxd_record_add(struct rxd_record *record, const struct rxd_record *other)
{
	unsigned long i, nr = BITS_TO_LONGS(record->nr_pages);

	for (i = 0; i < nr; i++) {
		if (other->bits[i])
			set_bits(&record->bits[i], other->bits[i]);
		if (i % WORDS_PER_STEP == 0)
			cond_resched();
	}
}

/**
 * rxd_record_next - find the next page that was changed, or that was not
 * @record: the record, in which bits may be set meanwhile
 * @first: page to start from
 * @end: where to stop
 * @changed: which of the two
 *
 * Return: number of the first such page from @first on; or @end, or the number of pages if that is
 * lower.
 */
unsigned long rxd_record_next(const struct rxd_record *record, unsigned long first,
			      unsigned long end, bool changed)
{
	unsigned long step_end;

	end = min(end, record->nr_pages);
	while (first < end) {
		step_end = min(first + BITS_PER_STEP, end);
		/* A bit that is set meanwhile may or may not be seen. */
		first = data_race(changed ? find_next_bit(record->bits, step_end, first) :
					    find_next_zero_bit(record->bits, step_end, first));
		if (first < step_end)
			return first;
		cond_resched();
	}
	return end;
}

/**
 * rxd_store_record - get the record of a store
 * @store: the store; the caller prevents that its record is replaced
 *
 * Return: the record, or NULL.
 */
struct rxd_record *rxd_store_record(const struct rxd_store *store)
{
	return store->hold ? store->hold->record : NULL;
}

/**
 * rxd_store_swap_record - give a store another record
 * @store: the store, with a struct rxd_hold; its writes are held, or it has no I/O
 * @record: the record, or NULL
 *
 * Return: the earlier record, or NULL.
 */
struct rxd_record *rxd_store_swap_record(struct rxd_store *store, struct rxd_record *record)
{
	swap(record, store->hold->record);
	WRITE_ONCE(store->record_bytes,
		   store->hold->record ? size_of_record(store->hold->record->nr_pages) : 0);
	return record;
}

/**
 * rxd_store_replace_record - hold the writes to a store, and give it another record
 * @store: the store; one without a struct rxd_hold has no record, and gets none
 * @record: the record, or NULL
 *
 * May sleep. Callers serialise this.
 *
 * Return: the earlier record, or NULL.
 */
struct rxd_record *rxd_store_replace_record(struct rxd_store *store, struct rxd_record *record)
{
	u64 start;

	if (!store->hold || store->hold->record == record)
		return record;
	start = rxd_store_hold(store);
	record = rxd_store_swap_record(store, record);
	rxd_store_unhold(store, start);
	return record;
}

/**
 * rxd_store_lend_record - move the record of a store to a clone, and begin another one
 * @store: the store, whose writes are held
 * @clone: the clone, with a struct rxd_hold, to which there is no I/O yet
 * @record: the empty record for the store
 * @loan: filled in
 */
void rxd_store_lend_record(struct rxd_store *store, struct rxd_store *clone,
			   struct rxd_record *record, struct rxd_loan *loan)
{
	lockdep_assert_held_write(&store->hold->sem);
	loan->left = record->id;
	record = rxd_store_swap_record(store, record);
	loan->taken = record ? record->id : 0;
	rxd_store_swap_record(clone, record);
}

/**
 * rxd_store_return_record - give back a record, or end the one that the store got instead
 * @store: the store from which @loan was taken
 * @loan: the loan of the clone
 * @record: the record of the clone, or NULL; the caller does not use it any more
 *
 * May sleep, and allocates nothing. Callers serialise this.
 *
 * If the store has no record now, it gets none. If it has another one than @loan says, that one
 * has nothing to do with the loan, and stays. If @record is another one than was taken, the changes
 * since the earlier state are not known, and the record of the store ends: no image has its state.
 */
void rxd_store_return_record(struct rxd_store *store, const struct rxd_loan *loan,
			     struct rxd_record *record)
{
	struct rxd_record *own = rxd_store_record(store);

	if (!own || own->id != loan->left) {
		rxd_record_free(record);
		return;
	}
	if (record && record->id == loan->taken && record->nr_pages == own->nr_pages) {
		/* Nobody reads the record yet: hold writes for a moment only. */
		own = rxd_store_replace_record(store, record);
		rxd_record_add(record, own);
		rxd_record_free(own);
		return;
	}
	rxd_record_free(rxd_store_replace_record(store, NULL));
	rxd_record_free(record);
}
