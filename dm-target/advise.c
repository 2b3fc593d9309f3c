// SPDX-License-Identifier: GPL-2.0-only
/*
 * When the advice begins and ends: it is switched on and off, and is for one size of the cache.
 */
#include <linux/device-mapper.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>

#include "advise.h"
#include "limit.h"
#include "origin.h"

#define DM_MSG_PREFIX "rxcache"

/**
 * rxc_advise - switch the advice on or off
 * @c: the cache, whose @index_lock the caller holds
 * @on: the advice is wanted
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_advise(struct rxcache *c, bool on)
{
	int ret = 0;

	lockdep_assert_held(&c->index_lock);
	mutex_lock(&c->advice_lock);
	if (!on)
		rxc_sampler_off(&c->sampler);
	else if (!rxc_sampler_is_on(&c->sampler))
		ret = rxc_sampler_on(&c->sampler, rxc_limit_most(c), c->stats);
	if (!ret)
		WRITE_ONCE(c->advise, on);
	mutex_unlock(&c->advice_lock);
	return ret;
}

/**
 * rxc_advise_adjust - adjust the advice to the cache
 * @c: the cache, whose @index_lock the caller holds
 *
 * Switch it on or off, as the table or a message says. Its simulated caches stand for parts and
 * multiples of the cache's size. If that has changed, the advice begins again.
 */
void rxc_advise_adjust(struct rxcache *c)
{
	unsigned long nr_slots;

	lockdep_assert_held(&c->index_lock);
	mutex_lock(&c->advice_lock);
	/* Of two messages that change the size, the last one here must see the last size. */
	nr_slots = rxc_limit_most(c);
	if (!c->advise || !rxc_sampler_suits(&c->sampler, nr_slots))
		rxc_sampler_off(&c->sampler);
	if (c->advise && !rxc_sampler_is_on(&c->sampler) &&
	    rxc_sampler_on(&c->sampler, nr_slots, c->stats)) {
		DMWARN("%s: no memory for the advice, it stays off",
		       dm_table_device_name(c->ti->table));
		WRITE_ONCE(c->advise, false);
	}
	mutex_unlock(&c->advice_lock);
}
