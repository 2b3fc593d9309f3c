/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of device mapper that serves a target, for the bios of the test. In place of
 * cond_resched(), the target calls test_others_run(), which does what another task might do.
 */
#ifndef RXD_KUNIT_JOIN_TEST_H
#define RXD_KUNIT_JOIN_TEST_H

#include <linux/bio.h>

void test_accept_partial_bio(struct bio *bio, unsigned int nr_sectors);
void *test_per_bio_data(struct bio *bio, size_t size);
void test_others_run(void);

#endif /* RXD_KUNIT_JOIN_TEST_H */
