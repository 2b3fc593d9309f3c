// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replay blocks through caches of eight sizes, and through the simulated caches that stand for
 * them. Prints for each size its number of slots, its hit ratio, and that which the simulated
 * cache finds, in percent.
 *
 *	replay SLOTS MOST <BLOCKS
 *
 *	SLOTS	size of the cache, of which the others are multiples
 *	MOST	number of slots that a simulated cache may have
 *	BLOCKS	numbers of 64 bits
 */
#include <stdio.h>

#include "mini.h"

/* Each simulated cache processes the blocks of its own sample. */
static void replay(struct rxc_mini *mini, const u64 *blocks, size_t nr, u64 *misses)
{
	u32 mask = BIT(mini->shift) - 1;
	size_t i;

	*misses = 0;
	for (i = 0; i < nr; i++)
		if (!rxc_until_sample(blocks[i], mask))
			*misses += !rxc_mini_use(mini, blocks[i], RXC_USE_READ);
	*misses <<= mini->shift;
}

static double hit_ratio(u64 slots, unsigned int shift, const u64 *blocks, size_t nr)
{
	struct rxc_mini mini;
	double ratio;
	u64 misses;

	if (rxc_mini_init(&mini, slots, shift))
		exit(1);
	replay(&mini, blocks, nr, &misses);
	rxc_mini_exit(&mini);
	ratio = 100 - 100.0 * misses / nr;
	return ratio < 0 ? 0 : ratio;
}

int main(int argc, char **argv)
{
	size_t nr = 0, room = 1 << 20;
	u64 *blocks = malloc(room * sizeof(u64)), slots;
	unsigned int i;

	if (argc != 3 || !blocks)
		return 2;
	while (fread(&blocks[nr], sizeof(u64), 1, stdin) == 1) {
		if (++nr < room)
			continue;
		room *= 2;
		blocks = realloc(blocks, room * sizeof(u64));
		if (!blocks)
			return 1;
	}
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		slots = rxc_mini_slots(strtoull(argv[1], NULL, 10), i);
		printf("%llu %.4f %.4f\n", (unsigned long long)slots,
		       hit_ratio(slots, 0, blocks, nr),
		       hit_ratio(slots, rxc_mini_shift(slots, strtoull(argv[2], NULL, 10)),
				 blocks, nr));
	}
	free(blocks);
	return 0;
}
