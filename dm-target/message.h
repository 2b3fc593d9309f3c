/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_MESSAGE_H
#define RXC_MESSAGE_H

struct rxcache;

int rxc_message(struct rxcache *c, unsigned int argc, char **argv, char *result,
		unsigned int maxlen);

#endif /* RXC_MESSAGE_H */
