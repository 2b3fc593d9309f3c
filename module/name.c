// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of RAM disks. A disk has one name or none, and no two have the same.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "check.h"
#include "name.h"

/* The disks that have a name. This lock is taken last, and held for short times only. */
static DEFINE_MUTEX(rxd_names_lock);
static LIST_HEAD(rxd_names);

static bool is_taken(const struct rxd_disk *rxd, const char *name)
{
	struct rxd_disk *other;

	lockdep_assert_held(&rxd_names_lock);
	list_for_each_entry(other, &rxd_names, named)
		if (other != rxd && !strcmp(other->name, name))
			return true;
	return false;
}

/**
 * rxd_name_set - give a RAM disk another name
 * @rxd: the disk, which is not being removed
 * @text: the name, without a NUL at its end
 * @len: number of its bytes; 0 takes the name away
 *
 * Return: 0, -EINVAL if the name is not allowed, -EEXIST if another disk has it, -EINTR.
 */
int rxd_name_set(struct rxd_disk *rxd, const char *text, size_t len)
{
	char name[RXD_NAME_MAX + 1];
	int ret;

	ret = rxd_check_name(text, len);
	if (ret)
		return ret;
	memcpy(name, text, len);
	name[len] = '\0';

	ret = mutex_lock_interruptible(&rxd_names_lock);
	if (ret)
		return ret;
	if (len && is_taken(rxd, name)) {
		ret = -EEXIST;
	} else {
		list_del_init(&rxd->named);
		memcpy(rxd->name, name, sizeof(name));
		if (len)
			list_add(&rxd->named, &rxd_names);
	}
	mutex_unlock(&rxd_names_lock);
	return ret;
}

/**
 * rxd_name_get - get the name of a RAM disk
 * @rxd: the disk
 * @name: RXD_NAME_MAX + 1 bytes; empty if the disk has no name
 */
void rxd_name_get(struct rxd_disk *rxd, char *name)
{
	mutex_lock(&rxd_names_lock);
	strscpy(name, rxd->name, RXD_NAME_MAX + 1);
	mutex_unlock(&rxd_names_lock);
}

/**
 * rxd_name_drop - let other disks have the name of a disk
 * @rxd: the disk, whose name nobody can set any more
 */
void rxd_name_drop(struct rxd_disk *rxd)
{
	mutex_lock(&rxd_names_lock);
	list_del_init(&rxd->named);
	mutex_unlock(&rxd_names_lock);
}
