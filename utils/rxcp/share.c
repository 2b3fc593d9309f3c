// SPDX-License-Identifier: GPL-2.0-only
/*
 * Let a copy share the data of its source.
 */
#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share.h"

/*
 * FICLONE may return 0 after a part. The copy begins anew then, because it leaves out holes. It
 * also shares what was appended since the source was opened.
 */
static bool is_whole(const struct target *target, const struct source *source, int *err)
{
	struct stat st;
	bool whole;

	whole = !fstat(target->fd, &st) && (uint64_t)st.st_size >= source->size;
	if (!whole || (uint64_t)st.st_size > source->size)
		*err = ftruncate(target->fd, whole ? source->size : 0) ? errno : 0;
	return whole && !*err;
}

/**
 * share_data - share all data of a file with its copy by FICLONE
 * @target: the new file, which is empty, and stays empty if false is returned
 * @source: the file
 * @err: out: set to an errno if the new file cannot be made as long as it must be
 *
 * It remembers a refusal: most file systems do not support it.
 *
 * Return: false if the data must be copied, or *@err is set.
 */
bool share_data(const struct target *target, const struct source *source, int *err)
{
	static dev_t from, to;
	static bool refused;
	dev_t source_dev = source->st.st_dev, target_dev = target->output.st.st_dev;

	*err = 0;
	if (refused && from == source_dev && to == target_dev)
		return false;
	if (!ioctl(target->fd, FICLONE, source->fd))
		return is_whole(target, source, err);
	/* EXDEV within one device comes from overlayfs, and may not hold for other files. */
	refused = errno == EOPNOTSUPP || (errno == EXDEV && source_dev != target_dev);
	from = source_dev;
	to = target_dev;
	/* Any other failure may come after a part. */
	if (!refused && ftruncate(target->fd, 0))
		*err = errno;
	return false;
}
