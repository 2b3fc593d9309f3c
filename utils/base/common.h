/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_COMMON_H
#define BASE_COMMON_H

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#define __printf(format_at, args_at)	__attribute__((format(printf, format_at, args_at)))
#define __always_unused			__attribute__((__unused__))
#define __noreturn			__attribute__((__noreturn__))

#endif /* BASE_COMMON_H */
