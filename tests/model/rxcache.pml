/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lockless protocol of dm-rxcache; README.rst tells what is modelled and what is not.
 *
 * Each printf() begins with the C function whose step it is. What one atomic block does,
 * the others see at once: either it touches one word that they read without a lock, or
 * they could not tell its parts apart.
 */
#ifndef READERS
#define READERS	2
#endif
#ifndef WRITERS
#define WRITERS	2
#endif
#ifndef WRITES		/* of each writer; readers and the evictor go on for ever */
#define WRITES	1
#endif
#ifndef SLOTS
#define SLOTS	2
#endif
#ifndef PAGES
#define PAGES	(SLOTS + 2)
#endif
#define BLOCKS	2

#define EMPTY	0
#define VALID	1
#define FILL	2
#define WRITE	3

/* What a write covers: the block, a part with the sector that is watched, another part. */
#define WHOLE	0
#define PART	1
#define OTHER	2

/* How the origin answers a write; FAILED_LATE is an error although the data came to be there. */
#define OK	0
#define FAILED	1
#define FAILED_LATE	2

/* What a sector holds: 0 is old memory, else which block's it is and which write's. */
#define VALUE(b, ver)	(((ver) << 1 | (b)) + 1)
#define BLOCK_OF(v)	(((v) - 1) & 1)
#define BIT_OF(v)	(1 << ((((v) - 1) >> 1) & 7))
/* A buffer that its owner changed meanwhile. */
#define CHANGED(v)	((v) + 16)

/* struct rxc_index: tags; struct rxd_store: page pointers. */
byte state[SLOTS], doomed[SLOTS], block[SLOTS], slot_page[SLOTS];
bit locked;			/* rxc_bucket.lock, held over more than one step */
byte ranges[BLOCKS];		/* rxc_shard.ranges: writes without a slot */
byte waiting;			/* rxc_io.readers: who joined a fill of what he reads */

/* Pages: 0 is none. */
byte data[PAGES + 1];		/* what the sector that is watched holds */
byte used;			/* bit p: allocated, or waits for a grace period */
byte awaited[PAGES + 1];	/* readers whose RCU sections a retired page waits for */
byte rcu;			/* readers in an RCU section */

byte origin[BLOCKS];

/* What the checks must know. */
byte current[BLOCKS];		/* writes that ended, and none began later that ended, too */
byte in_flight[BLOCKS];		/* writes that began and have not ended */
bit begun;			/* there was a write */
byte reads[READERS + 1];	/* 1 + the block that a reader reads; 0: none */
byte fair[READERS + 1];		/* writes whose data he may get */

byte i;				/* 0 outside of a d_step */

/* ---- checks ---- */

/* Item 7, item 1. */
#define CHECK_READ(r, b, v)						\
	if								\
	:: v == 0 || BLOCK_OF(v) != b ->				\
		printf("!! item 7: reader %d of block %d gets what he did not ask for\n", r, b); \
		assert(false)						\
	:: else ->							\
		if							\
		:: !(fair[r] & BIT_OF(v)) ->				\
			printf("!! item 1: reader %d of block %d gets old data\n", r, b); \
			assert(false)					\
		:: else -> skip						\
		fi							\
	fi

/* Items 2, 3 and 6: what is in the cache is what the origin holds. */
inline check_cached()
{
	d_step {
		i = 0;
		do
		:: i < SLOTS ->
			if
			:: !locked && state[i] == VALID && !in_flight[block[i]] &&
			   data[slot_page[i]] != origin[block[i]] ->
				printf("!! item 2: slot %d, block %d is not what the origin holds\n",
				       i, block[i]);
				assert(false)
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline begin_read(r, b)
{
	d_step {
		reads[r] = b + 1;
		fair[r] = current[b] | in_flight[b]
	}
}

inline end_read(r)
{
	d_step {
		reads[r] = 0;
		fair[r] = 0
	}
}

inline announce_write(b, ver)
{
	d_step {
		begun = 1;
		in_flight[b] = in_flight[b] | 1 << ver;
		i = 0;
		do
		:: i < READERS ->
			if
			:: reads[i] == b + 1 -> fair[i] = fair[i] | 1 << ver
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

/* @came: the origin holds its data. Then who began before it and had ended is old. */
inline end_of_write(b, ver, before, came)
{
	d_step {
		in_flight[b] = in_flight[b] & ~(1 << ver);
		if
		:: came -> current[b] = (current[b] & ~before) | 1 << ver
		:: else -> skip
		fi
	}
	check_cached()
}

/* ---- module/store.c ---- */

/*
 * rxd_store_alloc_run(): the first page that is free. None of those is anybody's, so they
 * are all alike. There must be one.
 */
inline alloc_page(p)
{
	d_step {
		p = 1;
		do
		:: used & 1 << p -> p++
		:: else -> break
		od;
		used = used | 1 << p
	}
}
#define NO_PAGE	(used == (1 << (PAGES + 1)) - 2)

/* free_pages_rcu() */
inline free_page(p)
{
	data[p] = 0;
	used = used & ~(1 << p)
}

/* retire_pages(): the page has left the index; who is in an RCU section may have it. */
inline retire_page(p)
{
	if
	:: p == 0 -> skip
#ifndef NO_GRACE_PERIOD
	:: p && rcu -> awaited[p] = rcu
	:: p && !rcu -> free_page(p)
#else
	:: else -> free_page(p)
#endif
	fi
}

inline rcu_lock(r)
{
#ifndef NO_RCU_READ_LOCK
	rcu = rcu | 1 << r
#else
	skip
#endif
}

inline rcu_unlock(r)
{
	d_step {
		rcu = rcu & ~(1 << r);
		i = 1;
		do
		:: i <= PAGES ->
			if
			:: awaited[i] & 1 << r ->
				awaited[i] = awaited[i] & ~(1 << r);
				if
				:: !awaited[i] -> free_page(i)
				:: else -> skip
				fi
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

/* rxd_store_exchange(): seen by all as it is done; the model lets it order nothing else. */
inline exchange(s, new)
{
	retire_page(slot_page[s]);
	slot_page[s] = new
}

/* ---- dm-target/index.c ---- */

/* What holds of the second slot, if there is one. */
#if SLOTS > 1
#define SLOT_1(what)	(what)
#else
#define SLOT_1(what)	false
#endif

/* find_way(): 1 + the slot that holds the block, or 0. */
#define HOLDS(s, b)	(state[s] != EMPTY && block[s] == (b))
#define FIND_WAY(b)	(HOLDS(0, b) -> 1 : (SLOT_1(HOLDS(SLOTS - 1, b)) -> SLOTS : 0))

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

/* can_write() */
#ifdef WRITE_JOINS
#define CAN_WRITE(s)	(state[s] == VALID || state[s] == WRITE)
#else
#define CAN_WRITE(s)	(state[s] == VALID)
#endif
#ifdef PART_ENTERS
#define MAY_HAVE_SLOT(kind)	true
#else
#define MAY_HAVE_SLOT(kind)	((kind) == WHOLE)
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

/* empty_slot() of a valid block; finish_empty_slot() follows. */
inline empty_slot(s)
{
	locked = 1;
	if
	:: set_tag(s, 0, EMPTY);
	   printf("empty_slot(): set_state(slot %d, EMPTY)\n", s)
	:: PAGE_GOES_FIRST ->
	   exchange(s, 0);
	   printf("empty_slot(): remove_pages(slot %d)\n", s)
	fi
}

inline finish_empty_slot(s)
{
	d_step {
		if
		:: state[s] == EMPTY ->
			exchange(s, 0);
			printf("empty_slot(): remove_pages(slot %d)\n", s)
		:: else ->
			set_tag(s, 0, EMPTY);
			printf("empty_slot(): set_state(slot %d, EMPTY)\n", s)
		fi;
		locked = 0
	}
}

/* A valid slot comes to hold another block, or fresh pages; finish_change() follows. */
inline change_slot(s, p, b, to)
{
	locked = 1;
	if
	:: TAG_FIRST ->
		set_tag(s, b, to);
		printf("take_slot(): tag of slot %d: block %d, state %d\n", s, b, to)
	:: PAGE_FIRST ->
		exchange(s, p);
		printf("replace_pages(): page %d into slot %d\n", p, s)
	fi
}

inline finish_change(s, p, b, to)
{
	d_step {
		if
		:: slot_page[s] != p ->
			exchange(s, p);
			printf("replace_pages(): page %d into slot %d\n", p, s)
		:: else ->
			set_tag(s, b, to);
			printf("take_slot(): tag of slot %d: block %d, state %d\n", s, b, to)
		fi;
		locked = 0
	}
}

#define CAN_TAKE	(state[0] == EMPTY || IS_VICTIM(0) || \
			 SLOT_1(state[SLOTS - 1] == EMPTY || IS_VICTIM(SLOTS - 1)))

/*
 * take_slot() for a block that find_way() did not find; finish_change() follows if the
 * lock is held afterwards, because another block must go. Of an empty slot no reader
 * could tell the tag from the pages: they change at once.
 */
inline take_slot(s, p, b, to)
{
	if
	:: state[0] == EMPTY -> s = 0
	:: SLOT_1(state[0] != EMPTY && state[SLOTS - 1] == EMPTY) -> s = SLOTS - 1
	:: state[0] != EMPTY && SLOT_1(state[SLOTS - 1] != EMPTY) && IS_VICTIM(SLOTS - 1) ->
		s = SLOTS - 1
	:: state[0] != EMPTY && (SLOTS == 1 || state[SLOTS - 1] != EMPTY) && IS_VICTIM(0) ->
		s = 0
	fi;
	if
	:: state[s] == EMPTY ->
		slot_page[s] = p;
		set_tag(s, b, to);
		printf("take_slot(): empty slot %d: page %d, block %d, state %d\n", s, p, b, to)
	:: else -> change_slot(s, p, b, to)
	fi
}

/*
 * end_io(): the data of @p is there, or will not be. A page that leaves a slot in FILL or
 * WRITE gets no new reader: tag and pointer change at once.
 */
inline end_io(s, b, p, ok)
{
	d_step {
		/* The WARN_ON_ONCE(), and whose are the pages? */
		if
		:: FIND_WAY(b) != s + 1 || slot_page[s] != p ->
			printf("!! slot %d is not block %d's any more\n", s, b);
			assert(false)
		:: else -> skip
		fi;
		if
		:: (ok) && !doomed[s] ->
			state[s] = VALID;
			printf("end_io(): slot %d, block %d: VALID\n", s, b)
		:: else ->
			set_tag(s, 0, EMPTY);
			exchange(s, 0);
			printf("end_io(): slot %d, block %d: EMPTY\n", s, b)
		fi
	}
}

/* ---- dm-target/origin.c ---- */

/* join_in(): a fill that is listed, of a slot that rxc_index_is_filling() */
#ifdef JOIN_DOOMED
#define IS_FILLING(s)	(state[s] == FILL)
#else
#define IS_FILLING(s)	(state[s] == FILL && !doomed[s])
#endif
#define CAN_JOIN(b)	(READERS > 1 && FIND_WAY(b) && IS_FILLING(FIND_WAY(b) - 1))

/*
 * finish_fill(), end_joining(): all who joined get what the fill has read. After an error
 * the origin answers them.
 */
inline serve_joined(b, p, ok)
{
	d_step {
		i = 0;
		do
		:: i < READERS ->
			if
			:: waiting & 1 << i && reads[i] == b + 1 ->
				waiting = waiting & ~(1 << i);
				if
				:: ok -> CHECK_READ(i, b, data[p])
				:: else -> skip
				fi;
				reads[i] = 0;
				fair[i] = 0
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

/*
 * Who hits changes nothing that others see, but keeps pages from being freed: what one of
 * two who hit may get, he also may get alone. So the second reader does not hit.
 */
#define HITS(r)	((r) == 0)

/*
 * rxc_read() of a block, again and again. What is not modelled: a read that goes round the
 * cache is right by nature, and one that tries a slot in vain begins anew, since who begins
 * later may get less.
 */
proctype reader(byte r)
{
	byte b, s, p, v, ok;

end_idle:
	atomic {
		/* Nothing of the last read stays behind. */
		s = 0; p = 0; v = 0; ok = 0;
		if
		:: b = 0
		:: b = 1
		fi;
		/*
		 * read_hits(): rxc_index_find() may name any slot, since its answer may
		 * be out of date; a slot without a page is refused whatever its tag says.
		 */
		if
		:: HITS(r) && slot_page[0] -> s = 0; goto hit
		:: HITS(r) && SLOT_1(slot_page[SLOTS - 1]) -> s = SLOTS - 1; goto hit
		:: !locked -> goto miss
		:: CAN_JOIN(b) ->
			begin_read(r, b);
			waiting = waiting | 1 << r;
			printf("join_fill(block %d)\n", b);
			goto joined
		fi;
hit:		begin_read(r, b);
		rcu_lock(r);
#ifdef NO_RMB
		if
		:: b = b; goto tag_first
		:: b = b
		fi;
#endif
		p = slot_page[s];
		printf("rxc_index_hit_page(block %d, slot %d): page %d\n", b, s, p)
	}
#ifdef NO_ACQUIRE
	/* The copy, or the second look at the pointer, may come before the tag. */
	if
	:: true
	:: atomic {
		v = data[p];
		printf("copy_hit(block %d): early\n", b)
	   }
	   atomic {
		if
		:: state[s] == VALID && block[s] == b && slot_page[s] == p -> goto got
		:: else -> goto no_hit
		fi
	   }
	:: atomic {
		slot_page[s] == p;
		printf("rxc_index_hit_page(block %d): page %d still\n", b, p)
	   }
	   atomic {
		if
		:: state[s] == VALID && block[s] == b ->
			printf("rxc_index_hit_page(block %d): tag valid\n", b);
			goto copy
		:: else -> goto no_hit
		fi
	   }
	fi;
#endif
	atomic {
		if
		:: state[s] == VALID && block[s] == b ->
			printf("rxc_index_hit_page(block %d): tag valid\n", b)
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
		:: slot_page[s] == p ->
			printf("rxc_index_hit_page(block %d): page %d still\n", b, p);
			goto copy
		:: else -> goto no_hit
		fi
	   }
	:: atomic {
		v = data[p];
		printf("copy_hit(block %d): early\n", b)
	   }
	   atomic {
		if
		:: slot_page[s] == p -> goto got
		:: else -> goto no_hit
		fi
	   }
	fi;
#ifdef NO_RMB
tag_first:
	atomic {
		if
		:: state[s] == VALID && block[s] == b ->
			printf("rxc_index_hit_page(block %d, slot %d): tag valid\n", b, s)
		:: else -> goto no_hit
		fi
	}
	atomic {
		p = slot_page[s];
		if
		:: p ->
			printf("rxc_index_hit_page(block %d): page %d, twice\n", b, p);
			goto copy
		:: else -> goto no_hit
		fi
	}
#endif
copy:
	atomic {
		v = data[p];
got:		printf("copy_hit(block %d): page %d\n", b, p);
		CHECK_READ(r, b, v);
#ifdef PLAIN_TOUCH
		rcu_unlock(r);
		end_read(r)
	}
	/* rxc_index_touch() had read the tag when it was valid. */
	atomic {
		set_tag(s, b, VALID);
		printf("rxc_index_touch(slot %d): block %d\n", s, b);
		goto end_idle;
#endif
no_hit:		rcu_unlock(r);
		end_read(r);
		goto end_idle
	}

joined:
	atomic {
		!(waiting & 1 << r);
		goto end_idle
	}

miss:
#ifdef NO_ACQUIRE_LISTED
	/* What is_listed() sees is loaded after what the fill reads of the origin. */
	atomic {
		v = origin[b];
		printf("fill(block %d): the origin, early\n", b)
	}
#endif
	atomic {
		/* take_slots(), rxc_index_begin_fill(), try_fill() */
		!locked;
		if
		:: FIND_WAY(b) == 0 && MAY_ENTER(b) && CAN_TAKE && !NO_PAGE ->
			begin_read(r, b);
			alloc_page(p);
			take_slot(s, p, b, FILL);
			if
			:: locked -> skip
			:: else -> goto fill
			fi
		:: else -> goto end_idle
		fi
	}
	atomic { finish_change(s, p, b, FILL) }
fill:
	/* The origin reads into the pages, or does not. */
	atomic {
		if
		::
#ifndef NO_ACQUIRE_LISTED
		   v = origin[b];
#endif
#ifndef NO_RELEASE
		   data[p] = v;
#endif
		   ok = 1;
		   printf("fill_ended(block %d): page %d\n", b, p)
		:: printf("fill_ended(block %d): error\n", b)
		fi
	}
	/*
	 * finish_fill(): copy_to_reader(), then rxc_index_end_fill(). After an error the
	 * origin answers the reader.
	 */
	atomic {
		!locked;
#if !defined(COPY_AFTER_END) && !defined(NO_RELEASE)
		if
		:: ok ->
			v = data[p];
			printf("copy_to_reader(block %d): page %d\n", b, p);
			CHECK_READ(r, b, v)
		:: else -> skip
		fi;
#endif
		serve_joined(b, p, ok);
#ifdef ERROR_FILLS
		end_io(s, b, p, true);
#else
		end_io(s, b, p, ok);
#endif
#ifdef NO_RELEASE
		/* The data is seen after the tag, but before the unlock. */
		locked = 1
	}
	atomic {
		data[p] = v;
		locked = 0;
#endif
#ifdef COPY_AFTER_END
	}
	atomic {
		v = data[p];
		printf("copy_to_reader(block %d): page %d\n", b, p);
		if
		:: ok -> CHECK_READ(r, b, v)
		:: else -> skip
		fi;
#endif
		end_read(r);
		check_cached();
		goto end_idle
	}
}

/* rxc_write(), rxc_write_range(): some writes, one after the other. */
proctype writer(byte w)
{
	byte b, s, p, ver, kind, before, result, n;

next:
	atomic {
		b = 0; s = 0; p = 0; ver = 0; kind = 0; before = 0; result = FAILED;
		if
		:: n == WRITES -> goto done
		:: else -> skip
		fi;
		/*
		 * Blocks are alike: the first write of all is to block 0. Writers are alike:
		 * the first begins first.
		 */
		if
		:: w == 0 || begun
		fi;
		if
		:: b = 0
		:: begun -> b = 1
		fi;
		ver = 1 + w * WRITES + n;
		if
		:: !locked ->
			if
			:: kind = WHOLE
			:: kind = PART
			:: kind = OTHER
			fi;
			goto tracked
		:: goto untracked
		fi;

		/* start_write(), take_written(), rxc_index_begin_write(), try_write() */
tracked:	if
		:: FIND_WAY(b) && CAN_WRITE(FIND_WAY(b) - 1) ->
			s = FIND_WAY(b) - 1;
			/* A write of the block without fresh pages is as one of a part. */
			if
			:: kind == WHOLE && state[s] == VALID && !NO_PAGE ->
				announce_write(b, ver);
				before = current[b];
				alloc_page(p);
				change_slot(s, p, b, WRITE);
				goto change
			:: kind != WHOLE ->
				announce_write(b, ver);
				before = current[b];
				state[s] = WRITE;
				p = slot_page[s];
				printf("try_write(block %d): slot %d WRITE\n", b, s);
				goto copy
			:: else -> goto next
			fi
		:: !FIND_WAY(b) && MAY_HAVE_SLOT(kind) && MAY_ENTER(b) && CAN_TAKE && !NO_PAGE ->
			announce_write(b, ver);
			before = current[b];
			alloc_page(p);
			take_slot(s, p, b, WRITE);
			if
			:: locked -> goto change
			:: else -> goto copy
			fi
		:: else -> goto next
		fi
	}
change:
	atomic { finish_change(s, p, b, WRITE) }
copy:
	atomic {
#ifndef NO_RELEASE
		if
		:: kind != OTHER -> data[p] = VALUE(b, ver)
		:: else -> skip
		fi;
#endif
		printf("start_write(block %d): copy_bio() into page %d\n", b, p)
	}
	/* The origin writes what is in the page, or does not; after an error, who knows? */
	atomic {
		if
		:: result = OK
		:: result = FAILED
		:: kind != OTHER -> result = FAILED_LATE
		fi;
		if
		:: kind != OTHER && result != FAILED ->
#if defined(WRITERS_PAGES)
			/* The bio carries the writer's pages, and he changes them. */
			origin[b] = CHANGED(VALUE(b, ver))
#elif defined(NO_RELEASE)
			origin[b] = VALUE(b, ver)
#else
			origin[b] = data[p]
#endif
		:: else -> skip
		fi;
		printf("clone_endio(): write %d of block %d: %d\n", ver, b, result)
	}
	/* rxc_bio_ended(), end_slots(), rxc_index_end_write() */
	atomic {
		!locked;
#ifdef ERROR_WRITES
		end_io(s, b, p, true);
#else
		end_io(s, b, p, result == OK);
#endif
#ifdef NO_RELEASE
		locked = 1
	}
	atomic {
		if
		:: kind != OTHER -> data[p] = VALUE(b, ver)
		:: else -> skip
		fi;
		locked = 0;
#endif
		end_of_write(b, ver, before, kind != OTHER && result != FAILED);
		n++;
		goto next
	}

	/* start_untracked(), rxc_write_range(): first the range is listed */
untracked:
	atomic {
		announce_write(b, ver);
		before = current[b];
#ifndef LIST_AFTER_DROP
		ranges[b]++;
#endif
		printf("rxc_index_begin_range(block %d): listed\n", b)
	}
#ifdef SUBMIT_BEFORE_DROP
	goto submit;
#endif
drop:
	/* then the block is dropped: drop_block(), drop_in_set() */
	atomic {
		!locked;
		if
		:: FIND_WAY(b) && state[FIND_WAY(b) - 1] == VALID ->
			s = FIND_WAY(b) - 1;
			empty_slot(s)
		:: FIND_WAY(b) && state[FIND_WAY(b) - 1] != VALID ->
#ifndef NO_DOOM
			doomed[FIND_WAY(b) - 1] = 1;
#endif
			printf("drop_slot(slot %d): doomed\n", FIND_WAY(b) - 1);
			goto dropped
		:: else -> goto dropped
		fi
	}
	atomic { finish_empty_slot(s) }
dropped:
#ifdef LIST_AFTER_DROP
	atomic { ranges[b]++ }
#endif
#ifdef SUBMIT_BEFORE_DROP
	goto ended;
#endif
#ifdef NO_MB_UNLIST
	/* That the range is gone may be seen before what the origin has got. */
	atomic {
		ranges[b]--;
		printf("rxc_index_end_range(block %d): early\n", b)
	}
#endif
submit:
	atomic {
		if
		:: result = OK
		:: result = FAILED
		:: result = FAILED_LATE
		fi;
		if
		:: result != FAILED -> origin[b] = VALUE(b, ver)
		:: else -> skip
		fi;
		printf("clone_endio(): write %d of block %d: %d\n", ver, b, result)
#ifdef SUBMIT_BEFORE_DROP
		; goto drop
#endif
	}
ended:
	/* rxc_bio_ended(), rxc_index_end_range() */
	atomic {
#ifndef NO_MB_UNLIST
		ranges[b]--;
#endif
		printf("rxc_index_end_range(block %d)\n", b);
		end_of_write(b, ver, before, result != FAILED);
		n++;
		goto next
	}
done:
	skip
}

/* rxc_index_make_room(), evict_from(): for want of memory, at any time. */
proctype evictor()
{
	byte s;

end_idle:
	atomic {
		s = 0;
		if
		:: !locked && state[0] == VALID -> s = 0
		:: !locked && SLOT_1(state[SLOTS - 1] == VALID) -> s = SLOTS - 1
		fi;
		empty_slot(s)
	}
	atomic {
		finish_empty_slot(s);
		goto end_idle
	}
}

init {
	atomic {
		current[0] = 1;
		current[1] = 1;
		origin[0] = VALUE(0, 0);
		origin[1] = VALUE(1, 0);
#if READERS > 0
		run reader(0);
#endif
#if READERS > 1
		run reader(1);
#endif
#if WRITERS > 0
		run writer(0);
#endif
#if WRITERS > 1
		run writer(1);
#endif
#ifndef NO_EVICTOR
		run evictor();
#endif
	}
}
