/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The nodes of a machine that has one: the test says on which node a page is.
 */
#ifndef RXD_KUNIT_INDEX_TEST_H
#define RXD_KUNIT_INDEX_TEST_H

struct page;

int test_nid(const struct page *page);

#endif /* RXD_KUNIT_INDEX_TEST_H */
