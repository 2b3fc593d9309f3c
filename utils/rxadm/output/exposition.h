/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_OUTPUT_EXPOSITION_H
#define RXADM_OUTPUT_EXPOSITION_H

#include <linux/rxd.h>
#include <stddef.h>
#include <stdio.h>

#include "device/device.h"
#include "kernel/rxcache.h"
#include "kernel/saves.h"

enum exposition_format {
	EXPOSITION_OPENMETRICS,
	EXPOSITION_PROMETHEUS,	/* version 0.0.4, which node_exporter reads */
};

/* Metrics that RAM disks and caches have in common. */
struct disk_metrics {
	char *name;
	struct iostat io;
};

struct ramdisk_metrics {
	struct disk_metrics disk;	/* first: see struct kind in exposition.c */
	struct rxd_query query;
	char *uuid;
	char *node;
	char *state;			/* words separated by spaces */
	struct save_cost saves;
	unsigned int autosave;		/* seconds between two saves; 0: none */
};

struct cache_metrics {
	struct disk_metrics disk;	/* first, too */
	char *device;
	char *origin;
	char *cache;
	struct rxcache_status status;
	struct latency latency;
	struct advice advice;
};

struct metrics {
	struct ramdisk_metrics *ramdisks;
	size_t ramdisk_count;
	struct cache_metrics *caches;
	size_t cache_count;
};

void exposition_write(FILE *file, enum exposition_format format, const struct metrics *metrics);

#endif /* RXADM_OUTPUT_EXPOSITION_H */
