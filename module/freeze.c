// SPDX-License-Identifier: GPL-2.0-only
/*
 * Freeze and thaw the file systems of a disk, of each of which user space names a file.
 *
 * bdev_freeze() would find a file system on the disk itself. But FITHAW ends its freeze, after
 * which the disk counts as frozen for ever, and no file system on it can be mounted meanwhile.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "freeze.h"

static struct super_block *sb_of(const struct rxd_freeze *freeze, unsigned int i)
{
	return file_inode(freeze->file[i])->i_sb;
}

/* File systems without a device, such as tmpfs, have nothing to write to the disk. */
static bool can_freeze(const struct super_block *sb)
{
	return sb->s_bdev || sb->s_op->freeze_fs || sb->s_op->freeze_super;
}

static int get_file_of(struct rxd_freeze *freeze, int fd)
{
	unsigned int i, nr = freeze->nr_files;

	freeze->file[nr] = fget(fd);
	if (!freeze->file[nr])
		return -EBADF;
	for (i = 0; i < nr; i++) {
		if (sb_of(freeze, i) == sb_of(freeze, nr)) {
			fput(freeze->file[nr]);
			return 0;
		}
	}
	freeze->nr_files++;
	return can_freeze(sb_of(freeze, nr)) ? 0 : -EOPNOTSUPP;
}

/**
 * rxd_freeze_get - get the file systems to be frozen
 * @freeze: all zeros; rxd_freeze_put() ends its use, also after an error
 * @fds: descriptors of files or directories
 * @nr: number of descriptors, at most RXD_CLONE_FDS_MAX
 *
 * Return: 0; -EFAULT; -EBADF if one is not an open file; -EOPNOTSUPP if its file system cannot be
 * frozen.
 */
int rxd_freeze_get(struct rxd_freeze *freeze, const s32 __user *fds, unsigned int nr)
{
	unsigned int i;
	int ret = 0;
	s32 fd;

	for (i = 0; i < nr && !ret; i++) {
		if (get_user(fd, fds + i))
			return -EFAULT;
		ret = get_file_of(freeze, fd);
	}
	return ret;
}

/**
 * rxd_freeze_put - forget the file systems
 * @freeze: the file systems, not frozen
 */
void rxd_freeze_put(struct rxd_freeze *freeze)
{
	while (freeze->nr_files)
		fput(freeze->file[--freeze->nr_files]);
}

/**
 * rxd_freeze_sync - write what the file systems have in memory, so that freezing them is short
 * @freeze: the file systems, not frozen
 *
 * Return: 0, the error of one of them, or -EINTR for SIGKILL.
 */
int rxd_freeze_sync(const struct rxd_freeze *freeze)
{
	struct super_block *sb;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < freeze->nr_files && !ret; i++) {
		sb = sb_of(freeze, i);
		down_read(&sb->s_umount);
		ret = sync_filesystem(sb);
		up_read(&sb->s_umount);
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return ret;
}

/**
 * rxd_freeze - freeze the file systems
 * @freeze: the file systems
 *
 * May sleep for long. No signal ends this.
 *
 * Return: 0; or the error of the file system that could not be frozen, after which none is frozen.
 */
int rxd_freeze(struct rxd_freeze *freeze)
{
	int ret = 0;

	freeze->start = ktime_get_ns();
	while (freeze->nr_frozen < freeze->nr_files) {
		ret = rxd_freeze_super(sb_of(freeze, freeze->nr_frozen));
		if (ret)
			break;
		freeze->nr_frozen++;
	}
	if (ret)
		rxd_thaw(freeze);
	return ret;
}

/**
 * rxd_thaw - undo rxd_freeze(), in reverse order
 * @freeze: the file systems; how long they were frozen is stored there
 *
 * Return: 0, or -EBUSY if another task has thawed one of them meanwhile.
 */
int rxd_thaw(struct rxd_freeze *freeze)
{
	int ret = 0;

	while (freeze->nr_frozen)
		if (rxd_thaw_super(sb_of(freeze, --freeze->nr_frozen)))
			ret = -EBUSY;
	freeze->ns = freeze->nr_files ? ktime_get_ns() - freeze->start : 0;
	return ret;
}
