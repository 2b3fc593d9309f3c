// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O counters of a disk, as Documentation/block/stat.rst of the kernel has them.
 */
#include <ctype.h>
#include <stdlib.h>

#include "common.h"
#include "device.h"
#include "iostat.h"

#define SECTOR	512

/* Requests, merges, sectors and time of three operations, with others between them. */
enum {
	FIELD_READ	= 0,
	FIELD_WRITE	= 4,
	FIELD_IN_FLIGHT	= 8,
	FIELD_BUSY	= 9,
	FIELD_DISCARD	= 11,
	FIELD_FLUSH	= 15,
	FIELD_FLUSH_MS	= 16,
	FIELDS		= 17,
};

/**
 * iostat_parse - read the attribute "stat" of a disk
 * @text: what it says; more fields than are known here may follow
 * @iostat: out: the counters
 *
 * Return: whether it is understood.
 */
bool iostat_parse(const char *text, struct iostat *iostat)
{
	static const struct {
		enum io_operation operation;
		unsigned int field;
	} groups[] = {
		{ IO_READ, FIELD_READ },
		{ IO_WRITE, FIELD_WRITE },
		{ IO_DISCARD, FIELD_DISCARD },
	};
	unsigned long long field[FIELDS];
	unsigned int i;
	char *end;

	for (i = 0; i < FIELDS; i++) {
		while (*text == ' ')
			text++;
		if (!isdigit((unsigned char)*text))
			return false;
		field[i] = strtoull(text, &end, 10);
		text = end;
	}
	*iostat = (struct iostat) {
		.requests[IO_FLUSH] = field[FIELD_FLUSH],
		.ms[IO_FLUSH] = field[FIELD_FLUSH_MS],
		.in_flight = field[FIELD_IN_FLIGHT],
		.busy_ms = field[FIELD_BUSY],
	};
	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		iostat->requests[groups[i].operation] = field[groups[i].field];
		iostat->bytes[groups[i].operation] = field[groups[i].field + 2] * SECTOR;
		iostat->ms[groups[i].operation] = field[groups[i].field + 3];
	}
	return true;
}

/**
 * iostat_read - read the I/O counters of a disk
 * @number: the disk
 * @iostat: out: the counters
 *
 * Return: false if there is no such disk any more, or no counters of it.
 */
bool iostat_read(dev_t number, struct iostat *iostat)
{
	char *text = sysfs_read(number, "stat");
	bool ok = text && iostat_parse(text, iostat);

	free(text);
	return ok;
}
