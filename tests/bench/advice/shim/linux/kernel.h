/* SPDX-License-Identifier: GPL-2.0-only */
/* What the policy and the simulated caches need of the kernel, for a program. */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define U64_MAX			UINT64_MAX
#define BIT(n)			(1UL << (n))
#define GENMASK(high, low)	(~0UL >> (63 - (high)) & ~0UL << (low))
#define GENMASK_ULL(high, low)	GENMASK(high, low)
#define BIT_ULL(n)		BIT(n)
#define FIELD_GET(mask, value)	(((value) & (mask)) >> __builtin_ctzl(mask))
#define FIELD_PREP(mask, value)	((unsigned long)(value) << __builtin_ctzl(mask))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define mult_frac(n, m, d)	((n) / (d) * (m) + (n) % (d) * (m) / (d))
#define struct_size(p, member, nr) \
	(sizeof(*(p)) + (nr) * sizeof((p)->member[0]))

#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define clamp(x, low, high)	min(max(x, low), high)
#define likely(x)		(x)
#define unlikely(x)		(x)
#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, value)	((x) = (value))
#define cmpxchg(p, old, new)	__sync_val_compare_and_swap(p, old, new)

#define __aligned(n)		__attribute__((aligned(n)))
#define SMP_CACHE_BYTES		64
#define ____cacheline_aligned	__aligned(SMP_CACHE_BYTES)
#define offsetofend(type, member)	(offsetof(type, member) + sizeof(((type *)0)->member))

#define GFP_KERNEL		0
#define __GFP_ZERO		0
#define __GFP_NORETRY		0
#define __GFP_NOWARN		0

static inline void *shim_zalloc(size_t size)
{
	void *p = aligned_alloc(128, (size + 127) / 128 * 128);

	return p ? memset(p, 0, size) : NULL;
}

#define vmalloc_huge(size, gfp)		shim_zalloc(size)
#define __vmalloc(size, gfp)		shim_zalloc(size)
#define vfree(p)			free(p)

#define div64_ul(n, d)			((n) / (d))

static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 d)
{
	return (unsigned __int128)a * b / d;
}

static inline u32 hash_64(u64 value, unsigned int bits)
{
	return value * 0x61C8864680B583EBull >> (64 - bits);
}

static inline u32 reciprocal_scale(u32 value, u32 end)
{
	return (u64)value * end >> 32;
}

#endif /* SHIM_KERNEL_H */
