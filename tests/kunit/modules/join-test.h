/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What device mapper does for a target, for bios that the test makes; and what others
 * do where the target lets them run.
 */
#ifndef RXD_KUNIT_JOIN_TEST_H
#define RXD_KUNIT_JOIN_TEST_H

#include <linux/bio.h>

void test_accept_partial_bio(struct bio *bio, unsigned int nr_sectors);
void *test_per_bio_data(struct bio *bio, size_t size);
void test_others_run(void);

#endif /* RXD_KUNIT_JOIN_TEST_H */
