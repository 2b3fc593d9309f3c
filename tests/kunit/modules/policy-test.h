/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on the only set of a policy under test, and a second way to choose a victim.
 */
#ifndef RXD_KUNIT_POLICY_TEST_H
#define RXD_KUNIT_POLICY_TEST_H

#include <linux/types.h>

#include "../dm-target/policy.h"
#include "../dm-target/tag.h"

bool test_in_main(u64 tag);
int test_plain_victim(struct rxc_policy *policy, u64 *tags);
bool test_has_order(const struct rxc_policy *policy, const u64 *tags);
void test_copy_policy(struct rxc_policy *to, const struct rxc_policy *from);
bool test_same_policy(const struct rxc_policy *a, const struct rxc_policy *b);
void test_set_policy(struct rxc_policy *policy, unsigned int share, u32 clocks);
u64 test_make_tag(u64 block, bool in_main, unsigned int freq, unsigned int stamp,
		  enum rxc_state state);

#endif /* RXD_KUNIT_POLICY_TEST_H */
