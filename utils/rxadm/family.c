// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk with its partitions, or a partition with its disk: who uses one of them
 * stands in the way of changing the other.
 */
#include <dirent.h>
#include <stdlib.h>

#include "device.h"
#include "family.h"

static void family_add(struct family *family, dev_t number)
{
	family->numbers = resize_array(family->numbers, family->count + 1,
				       sizeof(*family->numbers));
	family->numbers[family->count++] = number;
}

bool family_has(const struct family *family, dev_t number)
{
	size_t i;

	for (i = 0; i < family->count; i++)
		if (family->numbers[i] == number)
			return true;
	return false;
}

/**
 * family_of - the devices whose users are users of a device
 * @number: the device
 *
 * Return: the device first, then its partitions or its whole disk, to be released by
 * family_release().
 */
struct family family_of(dev_t number)
{
	struct family family = { 0 };
	struct dirent *entry;
	char *attribute;
	char *partition;
	dev_t relative;
	DIR *dir;

	family_add(&family, number);
	partition = sysfs_read(number, "partition");
	if (partition && sysfs_read_number(number, "../dev", &relative))
		family_add(&family, relative);
	free(partition);

	dir = sysfs_open(number, ".");
	if (!dir)
		return family;
	while ((entry = readdir(dir))) {
		attribute = format_text("%s/partition", entry->d_name);
		partition = entry->d_name[0] == '.' ? NULL : sysfs_read(number, attribute);
		free(attribute);
		if (!partition)
			continue;
		free(partition);
		attribute = format_text("%s/dev", entry->d_name);
		if (sysfs_read_number(number, attribute, &relative))
			family_add(&family, relative);
		free(attribute);
	}
	closedir(dir);
	return family;
}

void family_release(struct family *family)
{
	free(family->numbers);
	*family = (struct family){ 0 };
}
