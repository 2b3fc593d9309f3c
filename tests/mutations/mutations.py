# SPDX-License-Identifier: GPL-2.0-only
"""Twenty ways to break the sources, five of each kind, and the cheapest stages that may tell.

Most of them were chosen before any of them had been run; others have replaced them or were
rewritten, because the sources had changed, the result showed nothing, or no stage found them. The
replaced text must occur once in the named function. Otherwise the mutation is refused, because the
sources have changed, and it must be rewritten.
"""

STORE, CHARGE, ALLOC, COPY = (f"module/{name}.c" for name in ("store", "charge", "alloc", "copy"))
FILL, WRITE = "dm-target/fill.c", "dm-target/write.c"
LOOKUP, STATE = (f"dm-target/{name}.c" for name in ("lookup", "state"))
MODEL = ["model"]
CACHE = ["test_cache_basic.py", "test_cache_modes.py", "test_cache_conflicts.py"]
DISK = ["test_create_remove.py", "test_full.py", "test_memory.py"]

# kind, name, file, function, [what is replaced, by what]..., KUnit suites or MODEL, tests
MUTATIONS = [
    ("barrier", "hit-page-rmb", LOOKUP, "page_of_hit",
     [("\tsmp_rmb();\n", "")], MODEL, []),
    ("barrier", "set-state-release", STATE, "set_state",
     [("smp_store_release(tag,", "WRITE_ONCE(*tag,")], MODEL, []),
    ("barrier", "pages-before-wmb", STATE, "replace_pages",
     [("\tsmp_wmb();\n\tret = install_pages(index, slot, pages);\n",
       "\tret = install_pages(index, slot, pages);\n\tsmp_wmb();\n")], MODEL, []),
    ("barrier", "leaf-grace-period", STORE, "rxd_free_leaf_later",
     [("call_rcu_hurry(&virt_to_page(leaf)->rcu_head, free_leaf_rcu);",
       "free_leaf_rcu(&virt_to_page(leaf)->rcu_head);")],
     ["rxd_store_race", "rxd_share"], DISK),
    ("barrier", "directory-grace-period", STORE, "replace_dir",
     [("\tsynchronize_rcu();\n", "")], ["rxd_store_race"], ["test_resize.py"]),

    ("order", "recycle-before-grace-period", ALLOC, "rxd_retire_page",
     [("\tspin_lock_irqsave(&batch->lock, flags);\n",
       "\trxd_store_free_page(page);\n\treturn;\n\tspin_lock_irqsave(&batch->lock, flags);\n")],
     ["rxd_store_race", "rxcache_index"], CACHE),
    ("order", "enter-before-filled", COPY, "write_hole",
     [("\tfill_pages(write, nr, offset, src, len);\n", ""),
      ("\twrite->taken += charged;\n",
       "\tfill_pages(write, charged, offset, src, len);\n\twrite->taken += charged;\n")],
     ["rxd_store", "rxd_store_race"], DISK),
    ("order", "take-before-grace-period", STORE, "rxd_store_free_taken",
     [("\tsynchronize_rcu_expedited();\n", "")],
     ["rxcache_index", "rxcache_lend"], ["test_lend.py"]),
    ("order", "copy-after-end-of-fill", FILL, "finish_fill",
     [("\tend_joining(io, &readers);\n", ""),
      ("\tif (status && !wait)\n\t\tnote_failure(io, readers.head);\n", ""),
      ("\tbio_put(&io->bio);\n",
       "\tend_joining(io, &readers);\n"
       "\tif (status && !wait)\n\t\tnote_failure(io, readers.head);\n"
       "\tbio_put(&io->bio);\n")],
     ["rxcache_join", "smoke"], CACHE),
    ("order", "list-after-drop", STATE, "rxc_index_begin_range",
     [("\trxc_ranges_add(&index->ranges, range);\n", ""),
      ("\t\trxc_index_drop(index, range->first, range->nr);\n",
       "\t\trxc_index_drop(index, range->first, range->nr);\n"
       "\t\trxc_ranges_add(&index->ranges, range);\n"),
      ("\t\tdrop_block(index, block);\n",
       "\t\tdrop_block(index, block);\n"
       "\trxc_ranges_add(&index->ranges, range);\n")],
     ["rxcache_index", "smoke"], CACHE),

    ("condition", "limit-by-one", CHARGE, "rxd_store_charge",
     [("if ((unsigned long)used >= limit)", "if ((unsigned long)used > limit)"),
      ("nr, limit - used)", "nr, limit - used + 1)")],
     ["rxd_store"], DISK),
    ("condition", "zeroes-of-part", COPY, "all_zeroes",
     [("if (offset_in_page(pos) || len != PAGE_SIZE)", "if (!len)"),
      ("memchr_inv(src, 0, PAGE_SIZE)", "memchr_inv(src, 0, len)")],
     ["rxd_store", "rxd_store_runs"], DISK),
    ("condition", "publish-doomed", STATE, "end_io",
     [("} else if (ok && !(READ_ONCE(tags[way]) & RXC_TAG_DOOMED)) {", "} else if (ok) {")],
     ["rxcache_index"], CACHE),
    ("condition", "part-takes-slot", STATE, "may_begin",
     [("return whole && may_enter(index, block);", "return may_enter(index, block);")],
     ["rxcache_index"], CACHE),
    ("condition", "join-without-asking", FILL, "join_in",
     [("while (block < end && rxc_index_is_filling(c->index, block))", "while (block < end)")],
     ["rxcache_join", "smoke"], ["test_cache_join.py"]),

    ("error path", "keep-charge", STORE, "rxd_store_exchange",
     [("\t\t\trxd_store_uncharge(store, 1);\n\t\t\treturn -ENOMEM;\n", "\t\t\treturn -ENOMEM;\n")],
     ["rxd_store"], DISK),
    ("error path", "fill-ignores-nospc", COPY, "rxd_store_fill",
     [("ret = -ENOSPC;\n", "ret = 0;\n")],
     ["rxd_store", "rxd_store_runs"], DISK),
    ("error path", "failed-write-stays", WRITE, "rxc_bio_ended",
     [("end_slots(c, &rb->range, !status)", "end_slots(c, &rb->range, true)")],
     ["smoke"], CACHE),
    ("error path", "failed-fill-stays", FILL, "finish_fill",
     [("rxc_index_end_fill(c->index, block, !status)",
       "rxc_index_end_fill(c->index, block, true)")],
     ["smoke"], CACHE),
    ("error path", "failed-slot-keeps-tag", STATE, "end_io",
     [("\t\tempty_slot(index, first_slot(index, set) + way);\n", "")],
     ["rxcache_index"], CACHE),
]
