// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/block/rxdN/rxd/: attributes of a RAM disk. Sizes are in bytes.
 *
 *	mem_used	memory that holds data
 *	mem_max_used	the maximum of mem_used since creation
 *	mem_limit	the limit of mem_used, 0 for no limit. The file is writable and
 *			takes multiples of the page size (EINVAL otherwise). A limit
 *			below mem_used frees nothing; it only prevents growth.
 *	mem_index	memory of the index, not included in mem_used
 *	promised	bytes that count towards the share of memory
 *	nospc		writes that failed with ENOSPC
 *	discards	discards and write-zeroes that freed memory
 *	reads		completed reads, including those of partitions; counted while
 *			queue/iostats is 1
 *	writes		completed writes, counted in the same way
 *	changes		a number that increases when the data is changed for the first time
 *			after this file was read; 0 if the data was never changed. It
 *			does not need queue/iostats.
 *	folio_size	the largest piece of memory that a long write allocates
 *	node		the preferred NUMA node, "local" or "interleave"
 *	name		the name of the disk, or an empty line. The file is writable; see
 *			RXD_NAME_MAX. EINVAL: the name is not allowed; EEXIST: another disk
 *			has it. A new name is announced by a uevent.
 *	uuid		the UUID of the disk
 *	parent		the UUID of the disk that RXD_CLONE or RXD_RESET took the data from,
 *			or an empty line. That disk need not exist any more.
 *	state		"idle", or those of "open", "cache", "overcommit", "readonly",
 *			"reserved", "detect-zeroes", "expendable", "lost" and "elastic" that
 *			apply
 */
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/part_stat.h>

#include "disk.h"
#include "name.h"

static struct rxd_disk *to_rxd(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

static void query(struct device *dev, struct rxd_query *q)
{
	rxd_disk_query(to_rxd(dev), q);
}

#define RXD_SHOW(_name)								\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,	\
			    char *buf)						\
{										\
	struct rxd_query q;							\
										\
	query(dev, &q);								\
	return sysfs_emit(buf, "%llu\n", (u64)q._name);				\
}

RXD_SHOW(mem_used)
RXD_SHOW(mem_max_used)
RXD_SHOW(mem_limit)
RXD_SHOW(mem_index)
RXD_SHOW(promised)
RXD_SHOW(nospc)
RXD_SHOW(discards)

static ssize_t mem_limit_store(struct device *dev, struct device_attribute *attr,
			       const char *buf, size_t len)
{
	u64 limit;
	int ret;

	ret = kstrtou64(buf, 10, &limit);
	if (ret)
		return ret;
	ret = rxd_disk_set_mem_limit(to_rxd(dev), limit);
	return ret ?: len;
}

#define RXD_SHOW_IOS(_name, _group)						\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,	\
			    char *buf)						\
{										\
	return sysfs_emit(buf, "%lu\n",						\
			  part_stat_read(dev_to_bdev(dev), ios[_group]));	\
}

RXD_SHOW_IOS(reads, STAT_READ)
RXD_SHOW_IOS(writes, STAT_WRITE)

static ssize_t changes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", rxd_disk_changes(to_rxd(dev)));
}

static ssize_t folio_size_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_rxd(dev)->folio_size);
}

static ssize_t node_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	int node = to_rxd(dev)->node;

	if (node >= 0)
		return sysfs_emit(buf, "%d\n", node);
	return sysfs_emit(buf, "%s\n", node == RXD_NODE_LOCAL ? "local" : "interleave");
}

static ssize_t name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	char name[RXD_NAME_MAX + 1];

	rxd_name_get(to_rxd(dev), name);
	return sysfs_emit(buf, "%s\n", name);
}

static ssize_t name_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t len)
{
	struct rxd_disk *rxd = to_rxd(dev);
	int ret;

	ret = rxd_name_set(rxd, buf, len && buf[len - 1] == '\n' ? len - 1 : len);
	if (ret)
		return ret;
	/* Partitions have links of this name, too. */
	disk_uevent(rxd->gd, KOBJ_CHANGE);
	return len;
}

static ssize_t uuid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%pUb\n", &to_rxd(dev)->uuid);
}

static ssize_t parent_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	uuid_t parent;

	rxd_disk_get_parent(to_rxd(dev), &parent);
	if (uuid_is_null(&parent))
		return sysfs_emit(buf, "\n");
	return sysfs_emit(buf, "%pUb\n", &parent);
}

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	static const struct {
		u32 bit;
		const char *word;
	} words[] = {
		{ RXD_STATE_OPEN, "open" },
		{ RXD_STATE_CACHE, "cache" },
		{ RXD_STATE_OVERCOMMIT, "overcommit" },
		{ RXD_STATE_READONLY, "readonly" },
		{ RXD_STATE_RESERVED, "reserved" },
		{ RXD_STATE_DETECT_ZEROES, "detect-zeroes" },
		{ RXD_STATE_EXPENDABLE, "expendable" },
		{ RXD_STATE_LOST, "lost" },
		{ RXD_STATE_ELASTIC, "elastic" },
	};
	u32 state = rxd_disk_state(to_rxd(dev));
	unsigned int i;
	int len = 0;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (state & words[i].bit)
			len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "",
					     words[i].word);
	if (!len)
		len = sysfs_emit_at(buf, len, "idle");
	return len + sysfs_emit_at(buf, len, "\n");
}

static DEVICE_ATTR_RO(mem_used);
static DEVICE_ATTR_RO(mem_max_used);
static DEVICE_ATTR_RW(mem_limit);
static DEVICE_ATTR_RO(mem_index);
static DEVICE_ATTR_RO(promised);
static DEVICE_ATTR_RO(nospc);
static DEVICE_ATTR_RO(discards);
static DEVICE_ATTR_RO(reads);
static DEVICE_ATTR_RO(writes);
static DEVICE_ATTR_ADMIN_RO(changes);
static DEVICE_ATTR_RO(folio_size);
static DEVICE_ATTR_RO(node);
static DEVICE_ATTR_RW(name);
static DEVICE_ATTR_RO(uuid);
static DEVICE_ATTR_RO(parent);
static DEVICE_ATTR_RO(state);

static struct attribute *rxd_attrs[] = {
	&dev_attr_mem_used.attr,
	&dev_attr_mem_max_used.attr,
	&dev_attr_mem_limit.attr,
	&dev_attr_mem_index.attr,
	&dev_attr_promised.attr,
	&dev_attr_nospc.attr,
	&dev_attr_discards.attr,
	&dev_attr_reads.attr,
	&dev_attr_writes.attr,
	&dev_attr_changes.attr,
	&dev_attr_folio_size.attr,
	&dev_attr_node.attr,
	&dev_attr_name.attr,
	&dev_attr_uuid.attr,
	&dev_attr_parent.attr,
	&dev_attr_state.attr,
	NULL
};

static const struct attribute_group rxd_group = {
	.name	= "rxd",
	.attrs	= rxd_attrs,
};

const struct attribute_group *rxd_disk_groups[] = {
	&rxd_group,
	NULL
};
