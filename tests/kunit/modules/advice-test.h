/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_KUNIT_ADVICE_TEST_H
#define RXD_KUNIT_ADVICE_TEST_H

#include "../dm-target/advice.h"

void test_pass_time(struct rxc_sampler *sampler, unsigned int seconds);
void test_hold_worker(struct rxc_sampler *sampler);
void test_release_worker(struct rxc_sampler *sampler);
void test_use_up_budget(struct rxc_sampler *sampler);
void test_set_budget(struct rxc_sampler *sampler, s64 budget);
s64 test_budget(struct rxc_sampler *sampler);
void test_end_rest(struct rxc_sampler *sampler);
bool test_rests(struct rxc_sampler *sampler);
void test_watch(void (*watch)(u64 block));
unsigned int test_samples_left(struct rxc_sampler *sampler);
unsigned int test_ring_length(const struct rxc_sampler *sampler);
const struct rxc_mini *test_mini(const struct rxc_sampler *sampler, unsigned int i);
size_t test_advice_bytes(const struct rxc_sampler *sampler);
size_t test_bytes_for(u64 nr_slots, unsigned int nr_cpus);

#endif /* RXD_KUNIT_ADVICE_TEST_H */
