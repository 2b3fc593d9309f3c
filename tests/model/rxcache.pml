/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lockless protocol of dm-rxcache; README.rst tells what is modelled and what is not.
 *
 * Each printf() begins with the C function whose step it is. What one atomic block does,
 * the others see at once: either it touches one word that they read without a lock, or
 * they could not tell its parts apart.
 */
#ifndef HITS		/* readers who hit at the same time, 1 or 2; others miss */
#define HITS	2
#endif
#ifndef WRITERS		/* 0 to 2 */
#define WRITERS	2
#endif
#ifndef SLOTS		/* 1 or 2 */
#define SLOTS	2
#endif
#define BLOCKS	2

/* Conditions on the second slot, reader or writer, if there is one. */
#if SLOTS > 1
#define SLOT_1(what)	(what)
#else
#define SLOT_1(what)	0
#endif
#if HITS > 1
#define HIT_1(what)	(what)
#else
#define HIT_1(what)	0
#endif
#if WRITERS > 1
#define WRITER_1(what)	(what)
#else
#define WRITER_1(what)	0
#endif

#define EMPTY	0
#define VALID	1
#define FILL	2
#define WRITE	3

/*
 * What a sector holds: 0 is old memory, else which block's it is and which write's. A set of
 * values has a bit for each.
 */
#define VALUE(b, write)	(((write) << 1 | (b)) + 1)
#define BLOCK_OF(v)	(((v) - 1) & 1)
#define BIT_OF(v)	(1 << (((v) - 1) & 15))
#define OF_BLOCK(b)	((b) == 0 -> 5461 : 10922)
/* A buffer that its owner changed meanwhile. */
#define CHANGED(v)	((v) + 16)

/* struct rxc_index: tags; struct rxd_store: page pointers. */
byte state[SLOTS], block[SLOTS];
bit doomed[SLOTS], has_page[SLOTS];
bit locked;			/* rxc_bucket.lock, held over more than one step */
byte ranges[BLOCKS];		/* rxc_range_shard.ranges: writes without a slot */

/* Readers that hit: where one looks, and which page it has found there. */
#define NONE	0
#define IN_SLOT	1
#define RETIRED	2
#define NOT_YET	3		/* it has not looked */
byte hit_page[HITS];
bit hit_slot[HITS];

/*
 * What the sector that is watched holds. Pages go by where they are: in a slot, or retired
 * and kept by the RCU section of a reader that has found it.
 */
byte data[SLOTS], retired[HITS];
byte origin[BLOCKS];
byte fetched[BLOCKS];		/* data that a fill has read, and that is not in the page yet */

byte joined;			/* rxc_io.readers: 1 + the block whose fill a reader waits for */

/*
 * What the checks must know, in sets of values. A write gets a value that is nowhere; one
 * that is nowhere any more is in no set.
 */
byte in_flight[BLOCKS];		/* how many writes began and have not ended */
short current;			/* of writes that ended, and none began later that ended, too */
short old;			/* of other writes that ended: a new read gets none */
short stale[HITS];		/* old, when the reader that hits began */
short joined_stale;		/* old, when the reader that joined began */
short before[WRITERS + 1];	/* current, when a writer began */
byte writing[WRITERS + 1];	/* the value that it writes; 0: nothing */

/* For name_values(), else 0. */
#define MAX_VALUES	6	/* of a block: the origin, a page, a fill, two readers, a writer */
#define NAMES		33
#ifdef SHORTEST			/* spin has nothing hidden in a search by breadth */
#define SCRATCH
#else
#define SCRATCH	hidden
#endif
SCRATCH byte name[NAMES], nr_values[BLOCKS], i;
SCRATCH short names;

/* ---- checks ---- */

#define IS_FOREIGN(b, v)	((v) == 0 || BLOCK_OF(v) != (b))
/* The item that is violated if a reader gets this value, or 0. */
#define BROKEN(b, v, stale)	(IS_FOREIGN(b, v) -> 7 : ((stale) & BIT_OF(v) -> 1 : 0))

inline check_read(b, item)
{
	if
	:: item == 7 ->
		printf("!! item 7: a reader of block %d gets what he did not ask for\n", b);
		assert(false)
	:: item == 1 ->
		printf("!! item 1: a reader of block %d gets old data\n", b);
		assert(false)
	:: else -> skip
	fi
}

/* Items 2, 3 and 6: what is in the cache is what the origin holds. */
#define IS_WRONG(s)	(state[s] == VALID && !in_flight[block[s]] && \
			 data[s] != origin[block[s]])
inline check_cached()
{
	if
	:: !locked && (IS_WRONG(0) || SLOT_1(IS_WRONG(SLOTS - 1))) ->
		printf("!! item 2: a valid block is not what the origin holds\n");
		assert(false)
	:: else -> skip
	fi
}

inline name_value(v)
{
	if
	:: v && !name[v] ->
		name[v] = VALUE(BLOCK_OF(v), nr_values[BLOCK_OF(v)]);
		nr_values[BLOCK_OF(v)]++
	:: else -> skip
	fi;
	v = name[v]
}

inline name_set(set)
{
	if
	:: set ->
		names = 0;
		i = 1;
		do
		:: set & 1 && name[i] -> names = names | BIT_OF(name[i]); set = set >> 1; i++
		:: !(set & 1 && name[i]) && set -> set = set >> 1; i++
		:: else -> break
		od;
		set = names
	:: else -> skip
	fi
}

/*
 * What matters is which values are the same, and which are in which set. So each step ends
 * with numbers in the order in which this finds them.
 */
inline name_values()
{
	d_step {
		name_value(origin[0]);
		name_value(origin[1]);
		name_value(data[0]);
#if SLOTS > 1
		name_value(data[1]);
#endif
		name_value(fetched[0]);
		name_value(fetched[1]);
		name_value(retired[0]);
#if HITS > 1
		name_value(retired[1]);
#endif
		name_value(writing[0]);
#if WRITERS > 1
		name_value(writing[1]);
#endif
		name_set(current);
		name_set(old);
		name_set(joined_stale);
		name_set(stale[0]);
#if HITS > 1
		name_set(stale[1]);
#endif
		name_set(before[0]);
#if WRITERS > 1
		name_set(before[1]);
#endif
		i = 0;
		do
		:: i < NAMES -> name[i] = 0; i++
		:: else -> break
		od;
		i = 0;
		names = 0;
		nr_values[0] = 0;
		nr_values[1] = 0
	}
}

inline announce_write(w, b)
{
	writing[w] = VALUE(b, MAX_VALUES);
	before[w] = current & OF_BLOCK(b);
	in_flight[b]++;
	name_values()
}

inline drop_before()
{
	before[0] = before[0] & current;
#if WRITERS > 1
	before[1] = before[1] & current
#endif
}

/* @came: the origin holds its data. Writes that ended before this one began are now old. */
inline end_of_write(w, b, came)
{
	in_flight[b]--;
	if
	:: came ->
		old = old | (current & before[w]);
		current = (current & ~before[w]) | BIT_OF(writing[w]);
		drop_before()
	:: else -> old = old | BIT_OF(writing[w])
	fi;
	writing[w] = 0;
	before[w] = 0;
	check_cached();
	name_values()
}

/* ---- module/store.c, module/alloc.c ---- */

/* rxd_retire_pages(): a reader in an RCU section that has found the page keeps it. */
inline retire_page(s, r)
{
	if
#if !defined(NO_GRACE_PERIOD) && !defined(NO_RCU_READ_LOCK)
	:: hit_page[r] == IN_SLOT && hit_slot[r] == s ->
		hit_page[r] = RETIRED;
		retired[r] = data[s]
#endif
	:: else -> skip
	fi
}

/*
 * rxd_store_exchange(): another page in the place of a page, or none. It is seen by all as it
 * is done; the model lets it order nothing else. A page that no reader keeps is reused at once.
 */
inline exchange(s, there)
{
	retire_page(s, 0);
#if HITS > 1
	retire_page(s, 1);
#endif
	data[s] = 0;
	has_page[s] = there
}

/* ---- dm-target/state.c ---- */

/*
 * Slots are alike, so of two slots that of block b is slot b. A block that is not there has
 * the one that it is going to get.
 */
#if SLOTS > 1
#define SLOT(b)	(0 + b)
#else
#define SLOT(b)	0
#endif

/* find_way() */
#define IN_CACHE(b)	(state[SLOT(b)] != EMPTY && block[SLOT(b)] == (b))

#ifdef NO_MAY_ENTER
#define MAY_ENTER(b)	true
#else
#define MAY_ENTER(b)	(ranges[b] == 0)
#endif

/* rxc_policy_victim() */
#ifdef VICTIM_FILL
#define IS_VICTIM(s)	(state[s] != EMPTY)
#else
#define IS_VICTIM(s)	(state[s] == VALID)
#endif

/* may_begin() of a write whose block is there */
#ifdef WRITE_JOINS
#define CAN_WRITE(s)	(state[s] == VALID || state[s] == WRITE)
#else
#define CAN_WRITE(s)	(state[s] == VALID)
#endif

/* rxc_index_is_filling() */
#ifdef JOIN_DOOMED
#define IS_FILLING(b)	(IN_CACHE(b) && state[SLOT(b)] == FILL)
#else
#define IS_FILLING(b)	(IN_CACHE(b) && state[SLOT(b)] == FILL && !doomed[SLOT(b)])
#endif

inline set_tag(s, b, to)
{
	state[s] = to;
	doomed[s] = 0;
	block[s] = b
}

/*
 * Of two stores under the lock the first is done with the step that decides on them, the
 * second, and the unlock, is a step of its own. Without a barrier between them, any of the
 * two may be the first.
 */
#if defined(NO_WMB_REPLACE)
#define TAG_FIRST	true
#define PAGE_FIRST	true
#elif defined(PAGE_BEFORE_TAG)
#define TAG_FIRST	false
#define PAGE_FIRST	true
#else
#define TAG_FIRST	true
#define PAGE_FIRST	false
#endif
#ifdef NO_WMB_EMPTY
#define PAGE_GOES_FIRST	true
#else
#define PAGE_GOES_FIRST	false
#endif

/* vacate_slot() of a valid block; finish_empty_slot() follows. */
inline empty_slot(s)
{
	locked = 1;
	if
	:: true ->
		set_tag(s, 0, EMPTY);
		printf("vacate_slot(): set_state(slot %d, EMPTY)\n", s)
	:: PAGE_GOES_FIRST ->
		exchange(s, 0);
		printf("vacate_slot(): remove_pages(slot %d)\n", s)
	fi
}

inline finish_empty_slot(s)
{
	if
	:: state[s] == EMPTY ->
		exchange(s, 0);
		printf("vacate_slot(): remove_pages(slot %d)\n", s)
	:: else ->
		set_tag(s, 0, EMPTY);
		printf("vacate_slot(): set_state(slot %d, EMPTY)\n", s)
	fi;
	locked = 0;
	name_values()
}

/* A valid slot comes to hold another block, or fresh pages; finish_change() follows. */
inline change_slot(s, b, to)
{
	locked = 1;
	if
	:: TAG_FIRST ->
		set_tag(s, b, to);
		printf("take_slot(): tag of slot %d: block %d, state %d\n", s, b, to)
	:: PAGE_FIRST ->
		exchange(s, 1);
		printf("replace_pages(): another page into slot %d\n", s)
	fi
}

inline finish_change(s, b, to)
{
	if
	:: state[s] == to ->
		exchange(s, 1);
		printf("replace_pages(): another page into slot %d\n", s)
	:: else ->
		set_tag(s, b, to);
		printf("take_slot(): tag of slot %d: block %d, state %d\n", s, b, to)
	fi;
	locked = 0;
	name_values()
}

inline rename_hit(r)
{
	hit_slot[r] = (hit_page[r] != NONE -> 1 - hit_slot[r] : 0)
}

/* Slots change their names. One is empty, or both are. */
inline rename_slots()
{
	d_step {
		state[0] = state[0] + state[SLOTS - 1];
		state[SLOTS - 1] = state[0] - state[SLOTS - 1];
		state[0] = state[0] - state[SLOTS - 1];
		block[0] = block[0] + block[SLOTS - 1];
		block[SLOTS - 1] = block[0] - block[SLOTS - 1];
		block[0] = block[0] - block[SLOTS - 1];
		data[0] = data[0] + data[SLOTS - 1];
		data[SLOTS - 1] = data[0] - data[SLOTS - 1];
		data[0] = data[0] - data[SLOTS - 1];
		has_page[0] = state[0] != EMPTY;
		has_page[SLOTS - 1] = state[SLOTS - 1] != EMPTY;
		rename_hit(0);
#if HITS > 1
		rename_hit(1)
#endif
	}
}

/* Can a block that is not there get a slot? */
#define CAN_TAKE(b)	(state[SLOT(b)] == EMPTY || IS_VICTIM(SLOT(b)))

/*
 * take_slot() for a block that find_way() did not find; finish_change() follows if the
 * lock is held afterwards, because another block must go. Of an empty slot no reader
 * could tell the tag from the pages: they change at once. A block may also get the other's
 * slot though its own is empty, as if a third block were there.
 */
inline take_slot(b, to)
{
	if
	:: state[SLOT(b)] == EMPTY ->
#if SLOTS > 1
		if
		:: state[1 - b] == EMPTY -> rename_slots()
		:: true
		fi;
#endif
		has_page[SLOT(b)] = 1;
		set_tag(SLOT(b), b, to);
		printf("take_slot(): empty slot %d: block %d, state %d\n", SLOT(b), b, to)
#if SLOTS > 1
	:: state[SLOT(b)] == EMPTY && IS_VICTIM(1 - b) ->
		rename_slots();
		change_slot(SLOT(b), b, to)
#else
	:: state[0] != EMPTY -> change_slot(0, b, to)
#endif
	fi
}

/*
 * end_io(): the data of the slot's page is there, or will not be. A page that leaves a slot
 * in FILL or WRITE gets no new reader: tag and pointer change at once.
 */
inline end_io(b, was, ok)
{
	/* The WARN_ON_ONCE(), and more. */
	if
	:: !IN_CACHE(b) || state[SLOT(b)] != was ->
		printf("!! slot %d is not block %d's any more\n", SLOT(b), b);
		assert(false)
	:: else -> skip
	fi;
	if
	:: (ok) && !doomed[SLOT(b)] ->
		state[SLOT(b)] = VALID;
		printf("end_io(): slot %d, block %d: VALID\n", SLOT(b), b)
	:: else ->
		set_tag(SLOT(b), 0, EMPTY);
		exchange(SLOT(b), 0);
		printf("end_io(): slot %d, block %d: EMPTY\n", SLOT(b), b)
	fi
}

/* ---- dm-target/read.c, fill.c and write.c ---- */

#define TAG_IS_VALID	(state[hit_slot[r]] == VALID && block[hit_slot[r]] == b)
#define PAGE_IS_STILL	(has_page[hit_slot[r]] && hit_page[r] == IN_SLOT)
#define FOUND		(hit_page[r] == RETIRED -> retired[r] : data[hit_slot[r]])

/*
 * read_hits(), again and again. The look-up may name any slot, since its answer may be
 * out of date; a slot without a page is refused whatever its tag says.
 */
proctype hit(byte r)
{
	byte b, item;

end_idle:
	atomic {
		/* Readers that hit are alike: the second begins only beside the first. */
		r == 0 || hit_page[0] != NONE;
		if
		:: has_page[0] -> skip
		:: SLOT_1(has_page[SLOTS - 1]) -> hit_slot[r] = 1
		fi;
		if
		:: b = 0
		:: b = 1
		fi;
		stale[r] = old & OF_BLOCK(b);
#ifdef NO_RMB
		if
		:: hit_page[r] = NOT_YET;
		   goto tag_first
		:: true
		fi;
#endif
		hit_page[r] = IN_SLOT;
		printf("page_of_hit(block %d, slot %d): a page\n", b, hit_slot[r])
	}
#ifdef NO_ACQUIRE
	/* The copy, or the second look at the pointer, may come before the tag. */
	if
	:: true
	:: atomic {
		item = BROKEN(b, FOUND, stale[r]);
		printf("copy_hit(block %d): early\n", b)
	   }
	   atomic {
		if
		:: TAG_IS_VALID && PAGE_IS_STILL -> goto got
		:: else -> goto no_hit
		fi
	   }
	:: atomic {
		PAGE_IS_STILL;
		printf("page_of_hit(block %d): the page still\n", b)
	   }
	   atomic {
		if
		:: TAG_IS_VALID ->
			printf("page_of_hit(block %d): tag valid\n", b);
			goto copy
		:: else -> goto no_hit
		fi
	   }
	fi;
#endif
	atomic {
		if
		:: TAG_IS_VALID ->
			printf("page_of_hit(block %d): tag valid\n", b)
		:: else -> goto no_hit
		fi
#ifdef NO_RECHECK
		; goto copy
#endif
	}
	/* Nothing orders the copy after the second look at the pointer. */
	if
	:: atomic {
		if
		:: PAGE_IS_STILL ->
			printf("page_of_hit(block %d): the page still\n", b);
			goto copy
		:: else -> goto no_hit
		fi
	   }
	:: atomic {
		item = BROKEN(b, FOUND, stale[r]);
		printf("copy_hit(block %d): early\n", b);
		if
		:: item == 0 -> goto no_hit
		:: else -> skip
		fi
	   }
	   atomic {
		if
		:: PAGE_IS_STILL -> goto got
		:: else -> goto no_hit
		fi
	   }
	fi;
#ifdef NO_RMB
tag_first:
	atomic {
		if
		:: TAG_IS_VALID ->
			printf("page_of_hit(block %d, slot %d): tag valid\n", b, hit_slot[r])
		:: else -> goto no_hit
		fi
	}
	atomic {
		if
		:: has_page[hit_slot[r]] ->
			hit_page[r] = IN_SLOT;
			printf("page_of_hit(block %d): a page, twice\n", b);
			goto copy
		:: else -> goto no_hit
		fi
	}
#endif
copy:
	atomic {
		item = BROKEN(b, FOUND, stale[r]);
got:		printf("copy_hit(block %d)\n", b);
		check_read(b, item);
#ifdef PLAIN_TOUCH
		hit_page[r] = NONE
	}
	/* touch() uses the tag that was valid. Whether it comes before the copy does not matter. */
	atomic {
		set_tag(hit_slot[r], b, VALID);
		printf("touch(slot %d): block %d\n", hit_slot[r], b);
#endif
no_hit:		/* Nothing of this read stays behind. */
		b = 0; item = 0;
		hit_page[r] = NONE; hit_slot[r] = 0; retired[r] = 0; stale[r] = 0;
		name_values();
		goto end_idle
	}
}

/* rxc_join_fill(): readers that may wait for a fill. */
proctype join()
{
	byte b;

end_idle:
	atomic {
		if
		:: IS_FILLING(0) -> b = 0
		:: IS_FILLING(1) -> b = 1
		fi;
		joined = b + 1;
		joined_stale = old & OF_BLOCK(b);
		b = 0;
		printf("rxc_join_fill(block %d)\n", joined - 1)
	}
	atomic {
		joined == 0;
		goto end_idle
	}
}

/* rxc_read() of a reader that misses: it fills a block, repeatedly. */
proctype fill(byte b)
{
	byte item;

end_idle:
#ifdef NO_ACQUIRE_LISTED
	/* is_listed() loads after the fill has read from the origin. */
	atomic {
		fetched[b] = origin[b];
		printf("is_listed(block %d): the origin, early\n", b)
	}
end_early:
#endif
	atomic {
		/* take_slots(), rxc_index_begin_fill(), try_to_begin() */
		!locked && !IN_CACHE(b) && MAY_ENTER(b) && CAN_TAKE(b);
		take_slot(b, FILL);
		if
		:: locked -> skip
		:: else -> goto submitted
		fi
	}
	atomic { finish_change(SLOT(b), b, FILL) }
submitted:
	/* The origin reads into the pages, or does not. */
	if
	:: atomic {
#ifndef NO_ACQUIRE_LISTED
		fetched[b] = origin[b];
#endif
#ifndef NO_RELEASE
		data[SLOT(b)] = fetched[b];
		fetched[b] = 0;
		name_values();
#endif
		printf("fill_ended(block %d)\n", b)
	   }
	:: atomic {
		!locked;
		printf("fill_ended(block %d): error\n", b);
		/* finish_fill(): the origin answers the readers. */
#ifdef ERROR_FILLS
		end_io(b, FILL, true);
#else
		end_io(b, FILL, false);
#endif
		goto ended
	   }
	fi;
	/* finish_fill(): end_joining(), then rxc_index_end_fill(). */
	atomic {
		!locked;
#if !defined(COPY_AFTER_END) && !defined(NO_RELEASE)
		printf("copy_to_reader(block %d)\n", b);
		item = BROKEN(b, data[SLOT(b)], (joined == b + 1 -> joined_stale : 0));
		check_read(b, item);
#endif
		end_io(b, FILL, true);
#ifdef NO_RELEASE
		/* The data is seen after the tag, but before the unlock. */
		locked = 1
	}
	atomic {
		data[SLOT(b)] = fetched[b];
		locked = 0;
#endif
#ifdef COPY_AFTER_END
	}
	atomic {
		printf("copy_to_reader(block %d)\n", b);
		item = BROKEN(b, data[SLOT(b)], 0);
		check_read(b, item);
#endif
ended:		if
		:: joined == b + 1 ->
			joined = 0;
			joined_stale = 0
		:: else -> skip
		fi;
		fetched[b] = 0;
		check_cached();
		name_values();
		goto end_idle
	}
}

/* rxc_bio_ended(), rxc_index_end_range() */
inline end_range(w, b, came)
{
#ifndef NO_MB_UNLIST
	ranges[b]--;
#endif
	printf("rxc_index_end_range(block %d)\n", b);
	end_of_write(w, b, came)
}

/* rxc_write(), rxc_write_range(): again and again. */
proctype writer(byte w)
{
	byte b;
#ifdef SUBMIT_BEFORE_DROP
	bit came;
#endif

end_idle:
	atomic {
		/* Writers are alike: the second begins only beside the first. */
		w == 0 || writing[0];
		if
		:: b = 0
		:: b = 1
		fi;
		if
		/* start_write(), take_written(), rxc_index_begin_write(), try_to_begin() */
		:: !locked && IN_CACHE(b) && state[SLOT(b)] == VALID ->
			/* The whole block, with fresh pages. */
			announce_write(w, b);
			change_slot(SLOT(b), b, WRITE);
			goto change
		:: !locked && IN_CACHE(b) && CAN_WRITE(SLOT(b)) ->
			/* A part with the sector that is watched, or the whole block in place. */
			announce_write(w, b);
			state[SLOT(b)] = WRITE;
			printf("try_to_begin(block %d): slot %d WRITE\n", b, SLOT(b));
			goto copy
		:: !locked && IN_CACHE(b) && CAN_WRITE(SLOT(b)) ->
			/* Another part. */
			announce_write(w, b);
			state[SLOT(b)] = WRITE;
			printf("try_to_begin(block %d): slot %d WRITE, another part\n", b, SLOT(b));
			goto other
		:: !locked && !IN_CACHE(b) && MAY_ENTER(b) && CAN_TAKE(b) ->
			/* The whole block. */
			announce_write(w, b);
			take_slot(b, WRITE);
			if
			:: locked -> goto change
			:: else -> goto copy
			fi
#ifdef PART_ENTERS
		:: !locked && !IN_CACHE(b) && MAY_ENTER(b) && state[SLOT(b)] == EMPTY ->
			announce_write(w, b);
			take_slot(b, WRITE);
			goto other
#endif
		/* start_untracked(), rxc_write_range(): first the range is listed */
		:: true ->
			announce_write(w, b);
#ifndef LIST_AFTER_DROP
			ranges[b]++;
#endif
			printf("rxc_index_begin_range(block %d): listed\n", b);
			goto listed
		fi
	}
change:
	atomic { finish_change(SLOT(b), b, WRITE) }
copy:
	atomic {
#ifndef NO_RELEASE
		data[SLOT(b)] = writing[w];
		name_values();
#endif
		printf("start_write(block %d): rxc_copy_bio()\n", b)
	}
	/* The origin writes what is in the page, or does not. */
	if
	:: atomic {
#if defined(WRITERS_PAGES)
		/* The bio carries the writer's pages, which the writer changes. */
		origin[b] = CHANGED(writing[w]);
#elif defined(NO_RELEASE)
		origin[b] = writing[w];
#else
		origin[b] = data[SLOT(b)];
#endif
		name_values();
		printf("clone_endio(): write of block %d: there\n", b)
	   }
	:: atomic {
		!locked;
		printf("clone_endio(): write of block %d: error\n", b);
#ifdef ERROR_WRITES
		end_io(b, WRITE, true);
#else
		end_io(b, WRITE, false);
#endif
		end_of_write(w, b, false);
		goto done
	   }
	fi;
	/*
	 * rxc_bio_ended(), end_slots(), rxc_index_end_write(). An error may come although
	 * the data is there.
	 */
	atomic {
		!locked;
		if
		:: true -> end_io(b, WRITE, true)
#ifndef ERROR_WRITES
		:: true -> end_io(b, WRITE, false)
#endif
		fi;
#ifdef NO_RELEASE
		locked = 1
	}
	atomic {
		data[SLOT(b)] = writing[w];
		locked = 0;
#endif
		end_of_write(w, b, true);
		goto done
	}

	/* In the sector that is watched, neither the page nor the origin changes. */
other:
	atomic {
		!locked;
		if
		:: true -> end_io(b, WRITE, true)
		:: true -> end_io(b, WRITE, false)
		fi;
		end_of_write(w, b, false);
		goto done
	}

listed:
#ifdef SUBMIT_BEFORE_DROP
	if
	:: atomic {
		origin[b] = writing[w];
		name_values();
		came = 1
	   }
	:: true
	fi;
#endif
	/* then the block is dropped: drop_block(), drop_in_set() */
	atomic {
		!locked;
		if
		:: IN_CACHE(b) && state[SLOT(b)] == VALID -> empty_slot(SLOT(b))
		:: IN_CACHE(b) && state[SLOT(b)] != VALID ->
#ifndef NO_DOOM
			doomed[SLOT(b)] = 1;
#endif
			printf("drop_slot(slot %d): doomed\n", SLOT(b));
			goto dropped
		:: else -> goto dropped
		fi
	}
	atomic { finish_empty_slot(SLOT(b)) }
dropped:
#ifdef LIST_AFTER_DROP
	atomic { ranges[b]++ }
#endif
#ifdef NO_MB_UNLIST
	/* Others may see the removal of the range before the data on the origin. */
	atomic {
		ranges[b]--;
		printf("rxc_index_end_range(block %d): early\n", b)
	}
#endif
#ifdef SUBMIT_BEFORE_DROP
	atomic {
		end_range(w, b, came);
		came = 0;
		goto done
	}
#endif
	if
	:: atomic {
		origin[b] = writing[w];
		name_values();
		printf("clone_endio(): write of block %d: there\n", b)
	   }
	:: atomic {
		printf("clone_endio(): write of block %d: error\n", b);
		end_range(w, b, false);
		goto done
	   }
	fi;
	atomic {
		end_range(w, b, true);
done:		b = 0;
		goto end_idle
	}
}

/* rxc_index_make_room(), rxc_index_take_out(), evict_from(): memory is short, at any time. */
proctype evictor()
{
	bit s;

end_idle:
	atomic {
		if
		:: !locked && state[0] == VALID -> s = 0
		:: !locked && SLOT_1(state[SLOTS - 1] == VALID) -> s = 1
		fi;
		empty_slot(s)
	}
	atomic {
		finish_empty_slot(s);
		s = 0;
		goto end_idle
	}
}

init {
	atomic {
		origin[0] = VALUE(0, 0);
		origin[1] = VALUE(1, 0);
		current = BIT_OF(VALUE(0, 0)) | BIT_OF(VALUE(1, 0));
		run hit(0);
#if HITS > 1
		run hit(1);
#endif
		run join();
		run fill(0);
		run fill(1);
#if WRITERS > 0
		run writer(0);
#endif
#if WRITERS > 1
		run writer(1);
#endif
		run evictor()
	}
}
