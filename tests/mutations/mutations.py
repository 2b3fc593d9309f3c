# SPDX-License-Identifier: GPL-2.0-only
"""Twenty ways to break the sources, five of each kind, and the cheapest stages that may tell.

They were chosen before any of them had been run. What is replaced must occur once in the
function named, or else the mutation is refused: then the sources have changed, and it must
be written anew.
"""

STORE, INDEX, ORIGIN = "module/store.c", "dm-target/index.c", "dm-target/origin.c"
MODEL = ["model"]
CACHE = ["test_cache_basic.py", "test_cache_modes.py", "test_cache_conflicts.py"]
DISK = ["test_create_remove.py", "test_full.py", "test_memory.py"]

# kind, name, file, function, [what is replaced, by what]..., KUnit suites or MODEL, tests
MUTATIONS = [
    ("barrier", "hit-page-rmb", INDEX, "rxc_index_hit_page",
     [("\tsmp_rmb();\n", "")], MODEL, []),
    ("barrier", "hit-page-acquire", INDEX, "rxc_index_hit_page",
     [("smp_load_acquire(&index->tags[slot])", "READ_ONCE(index->tags[slot])")], MODEL, []),
    ("barrier", "set-state-release", INDEX, "set_state",
     [("smp_store_release(tag,", "WRITE_ONCE(*tag,")], MODEL, []),
    ("barrier", "replace-pages-wmb", INDEX, "replace_pages",
     [("\tsmp_wmb();\n", "")], MODEL, []),
    ("barrier", "end-range-mb", INDEX, "rxc_index_end_range",
     [("\tsmp_mb__after_spinlock();\n", "")], MODEL, []),

    ("order", "recycle-before-grace-period", STORE, "retire_pages",
     [("call_rcu_hurry(&first->rcu_head, free_pages_rcu)", "free_pages_rcu(&first->rcu_head)")],
     ["rxd_store_race", "rxcache_index"], CACHE),
    ("order", "enter-before-filled", STORE, "write_hole",
     [("\tfill_batch(batch, nr, offset_in_page(pos), src, len);\n", ""),
      ("\tbatch->taken += nr;\n",
       "\tfill_batch(batch, nr, offset_in_page(pos), src, len);\n\tbatch->taken += nr;\n")],
     ["rxd_store", "rxd_store_race"], DISK),
    ("order", "grow-before-directory", STORE, "rxd_store_grow",
     [("\tif (nr_leaves(nr_pages) > store->dir_leaves)\n",
       "\tsmp_store_release(&store->nr_pages, nr_pages);\n"
       "\tif (nr_leaves(nr_pages) > store->dir_leaves)\n")],
     ["rxd_store", "rxd_store_race"], ["test_resize.py"]),
    ("order", "copy-after-end-of-fill", ORIGIN, "finish_fill",
     [("\tend_joining(io, &readers);\n", ""),
      ("\tbio_put(&io->bio);\n", "\tend_joining(io, &readers);\n\tbio_put(&io->bio);\n")],
     ["rxcache_join", "smoke"], CACHE),
    ("order", "list-after-drop", INDEX, "rxc_index_begin_range",
     [("\tspin_lock_irqsave(&shard->lock, flags);\n"
       "\tlist_add_tail(&range->list, &shard->ranges);\n"
       "\tspin_unlock_irqrestore(&shard->lock, flags);\n", ""),
      ("\t\tdrop_block(index, block);\n",
       "\t\tdrop_block(index, block);\n"
       "\tspin_lock_irqsave(&shard->lock, flags);\n"
       "\tlist_add_tail(&range->list, &shard->ranges);\n"
       "\tspin_unlock_irqrestore(&shard->lock, flags);\n")],
     ["rxcache_index", "smoke"], CACHE),

    ("condition", "limit-by-one", STORE, "charge",
     [("if ((unsigned long)used >= limit)", "if ((unsigned long)used > limit)")],
     ["rxd_store"], DISK),
    ("condition", "zeroes-of-part", STORE, "all_zeroes",
     [("if (offset_in_page(pos) || len != PAGE_SIZE)", "if (!len)"),
      ("memchr_inv(src, 0, PAGE_SIZE)", "memchr_inv(src, 0, len)")],
     ["rxd_store", "rxd_store_runs"], DISK),
    ("condition", "publish-doomed", INDEX, "end_io",
     [("} else if (ok && !(READ_ONCE(tags[way]) & RXC_TAG_DOOMED)) {", "} else if (ok) {")],
     ["rxcache_index"], CACHE),
    ("condition", "part-takes-slot", INDEX, "can_write",
     [("return whole && may_enter(index, block);", "return may_enter(index, block);")],
     ["rxcache_index"], CACHE),
    ("condition", "join-without-asking", ORIGIN, "join_in",
     [("while (block < end && rxc_index_is_filling(c->index, block))", "while (block < end)")],
     ["rxcache_join", "smoke"], ["test_cache_join.py"]),

    ("error path", "keep-charge", STORE, "rxd_store_exchange",
     [("\t\t\tuncharge(store, 1);\n\t\t\treturn -ENOMEM;\n", "\t\t\treturn -ENOMEM;\n")],
     ["rxd_store"], DISK),
    ("error path", "fill-ignores-nospc", STORE, "rxd_store_fill",
     [("\t\t\t\tret = -ENOSPC;\n", "")], ["rxd_store", "rxd_store_runs"], DISK),
    ("error path", "failed-write-stays", ORIGIN, "rxc_bio_ended",
     [("end_slots(c, &rb->range, !status)", "end_slots(c, &rb->range, true)")],
     ["smoke"], CACHE),
    ("error path", "failed-fill-stays", ORIGIN, "finish_fill",
     [("rxc_index_end_fill(c->index, block, !status)",
       "rxc_index_end_fill(c->index, block, true)")],
     ["smoke"], CACHE),
    ("error path", "failed-slot-keeps-tag", INDEX, "end_io",
     [("\t\tempty_slot(index, first_slot(index, set) + way);\n", "")],
     ["rxcache_index"], CACHE),
]
