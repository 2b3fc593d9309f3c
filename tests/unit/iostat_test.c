// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O counters of a disk.
 */
#include "base/common.h"
#include "device/device.h"
#include "tap.h"

#define FIELDS "    1  2  3    4   5  6  7   8  9  10  11  12 13  14  15"

static const struct {
	const char *text;
	bool ok;
} texts[] = {
	{ FIELDS "  16  17", true },
	{ FIELDS "  16  17\n", true },
	{ FIELDS "  16  17  18  19", true },
	{ FIELDS "  16", false },
	{ FIELDS "  16  x", false },
	{ FIELDS "  16  -17", false },
	{ "", false },
	{ "1,2", false },
};

static void check_fields(const struct iostat *io)
{
	tap_ok(io->requests[IO_READ] == 1 && io->requests[IO_WRITE] == 5 &&
	       io->requests[IO_DISCARD] == 12 && io->requests[IO_FLUSH] == 16, "requests");
	tap_ok(io->bytes[IO_READ] == 3 * 512 && io->bytes[IO_WRITE] == 7 * 512 &&
	       io->bytes[IO_DISCARD] == 14 * 512 && !io->bytes[IO_FLUSH], "bytes");
	tap_ok(io->ms[IO_READ] == 4 && io->ms[IO_WRITE] == 8 && io->ms[IO_DISCARD] == 15 &&
	       io->ms[IO_FLUSH] == 17, "times");
	tap_ok(io->in_flight == 9 && io->busy_ms == 10, "in flight, busy");
}

int main(void)
{
	struct iostat io;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		tap_ok(iostat_parse(texts[i].text, &io) == texts[i].ok, "iostat_parse: text %zu",
		       i);
	iostat_parse(texts[0].text, &io);
	check_fields(&io);
	return tap_end();
}
