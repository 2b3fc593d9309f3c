/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_FAMILY_H
#define RXADM_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct family {
	dev_t *numbers;
	size_t count;
};

struct family family_of(dev_t number);
bool family_has(const struct family *family, dev_t number);
void family_release(struct family *family);

#endif /* RXADM_FAMILY_H */
