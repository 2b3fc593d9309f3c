// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the mounted file systems that are on a disk, also behind partitions and other devices (see
 * layers.c), and open a file of each, so that the driver can freeze them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "device/device.h"
#include "device/filesystems.h"
#include "device/layers.h"
#include "device/nvmet_locks.h"
#include "device/openers.h"

/* A mounted file system on at least one of the layers. */
struct mounted {
	dev_t number;		/* of the superblock */
	int fd;			/* a file of it, or -1 */
	char *target;		/* one of its mount points */
};

struct search {
	struct layers layers;
	struct mounted *mounted;
	size_t nr_mounted;
	ino_t *namespaces;	/* mount namespaces that were searched */
	size_t nr_namespaces;
};

static struct mounted *note_mounted(struct search *search, dev_t number, const char *target)
{
	struct mounted *mounted;
	size_t i;

	for (i = 0; i < search->nr_mounted; i++)
		if (search->mounted[i].number == number)
			return &search->mounted[i];
	search->mounted = resize_array(search->mounted, search->nr_mounted + 1,
				       sizeof(*search->mounted));
	mounted = &search->mounted[search->nr_mounted++];
	*mounted = (struct mounted){
		.number = number,
		.fd = -1,
		.target = copy_text(target),
	};
	return mounted;
}

/*
 * Open a mount point. The user of a namespace may have put anything there: follow no links, and
 * open nothing but the mount. Return: the descriptor; -1: it is hidden by another mount, or gone.
 */
static int open_mount(int root, struct libmnt_fs *fs)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int path = syscall(SYS_openat2, root, mnt_fs_get_target(fs), &how, sizeof(how));
	char *name;
	int fd = -1;

	if (path < 0)
		return -1;
	if (mount_has_file(path, fs)) {
		name = format_text("/proc/self/fd/%d", path);
		fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		free(name);
	}
	close(path);
	return fd;
}

/* Search the mounts that a process sees. @path is its root directory. */
static void search_mounts(struct search *search, const char *mountinfo, const char *path)
{
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct libmnt_table *table = mnt_new_table_from_file(mountinfo);
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct mounted *mounted;
	struct libmnt_fs *fs;

	while (table && iter && !mnt_table_next_fs(table, iter, &fs)) {
		if (!layers_have(&search->layers, fs))
			continue;
		mounted = note_mounted(search, mnt_fs_get_devno(fs), mnt_fs_get_target(fs));
		if (mounted->fd < 0)
			mounted->fd = open_mount(root, fs);
	}
	mnt_free_iter(iter);
	mnt_unref_table(table);
	if (root >= 0)
		close(root);
}

/* Return true at the first process of each mount namespace. */
static bool is_new_namespace(struct search *search, const char *pid)
{
	char *path = format_text("/proc/%s/ns/mnt", pid);
	struct stat st;
	bool known;
	size_t i;

	known = stat(path, &st);
	free(path);
	for (i = 0; !known && i < search->nr_namespaces; i++)
		known = search->namespaces[i] == st.st_ino;
	if (known)
		return false;
	search->namespaces = resize_array(search->namespaces, search->nr_namespaces + 1,
					  sizeof(*search->namespaces));
	search->namespaces[search->nr_namespaces++] = st.st_ino;
	return true;
}

static void search_namespaces(struct search *search)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char *mountinfo;
	char *root;

	is_new_namespace(search, "self");
	search_mounts(search, "/proc/self/mountinfo", "/");
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    !is_new_namespace(search, entry->d_name))
			continue;
		mountinfo = format_text("/proc/%s/mountinfo", entry->d_name);
		root = format_text("/proc/%s/root", entry->d_name);
		search_mounts(search, mountinfo, root);
		free(root);
		free(mountinfo);
	}
	if (dir)
		closedir(dir);
}

static void add_user(struct filesystems *found, const char *how, const char *name)
{
	append_text(&found->unfrozen, "%s%s%s", found->unfrozen ? ", " : "", how, name);
}

/* Return true if nothing mounted or stacked is on a device that is no partition. */
static bool is_bare(const struct search *search, dev_t number)
{
	char *partition = sysfs_read(number, "partition");
	struct disk_family family = disk_family_of(number);
	const struct layer *layer;
	bool bare = !partition;
	size_t i;

	for (i = 0; bare && i < family.count; i++) {
		layer = layers_find(&search->layers, family.numbers[i]);
		bare = !layer || !layer->used;
	}
	disk_family_release(&family);
	free(partition);
	return bare;
}

/* Devices on top that have no file system, and exports. */
static void note_devices(struct search *search, struct filesystems *found)
{
	struct layer *layer;
	char *path, *export;
	size_t i;

	for (i = 0; i < search->layers.count; i++) {
		layer = &search->layers.list[i];
		export = nvmet_exports_of(layer->number);
		if (export)
			add_user(found, "exported as ", export);
		free(export);
		if (layer->stacked && is_bare(search, layer->number)) {
			path = device_path(layer->number);
			add_user(found, "held by ", path);
			free(path);
		}
	}
}

/*
 * Processes that write to the disk or its partitions, and users that are not known at all. A
 * process that only reads, such as udev, does not matter.
 */
static void note_openers(const struct search *search, const struct device *disk,
			 struct filesystems *found)
{
	char *writers = device_writers(disk->number);
	char *list = writers;
	bool known = search->nr_mounted || found->unfrozen;
	const char *name;
	int fd;

	while ((name = strsep(&list, "\n")))
		add_user(found, "open in process ", name);
	if (!writers && !known) {
		fd = open(disk->path, O_RDONLY | O_EXCL | O_CLOEXEC);
		if (fd < 0 && errno == EBUSY)
			add_user(found, "claimed by the kernel, or by a program that reads it", "");
		if (fd >= 0)
			close(fd);
	}
	free(writers);
}

static enum exit_code take_files(struct search *search, const struct device *disk,
				 struct filesystems *found)
{
	struct mounted *mounted;
	char *text;
	size_t i;

	for (i = 0; i < search->nr_mounted; i++) {
		mounted = &search->mounted[i];
		if (mounted->fd < 0) {
			text = format_text("%s, where another mount hides it", mounted->target);
			add_user(found, "mounted on ", text);
			free(text);
			continue;
		}
		if (found->count == RXD_CLONE_FDS_MAX)
			return report(EXIT_DEVICE,
				      "%s '%s': more than %d mounted file systems are on it; --no-freeze freezes none",
				      disk->what, disk->path, RXD_CLONE_FDS_MAX);
		found->fds[found->count++] = mounted->fd;
		mounted->fd = -1;
	}
	return EXIT_OK;
}

static void search_release(struct search *search)
{
	size_t i;

	for (i = 0; i < search->nr_mounted; i++) {
		if (search->mounted[i].fd >= 0)
			close(search->mounted[i].fd);
		free(search->mounted[i].target);
	}
	free(search->mounted);
	layers_end(&search->layers);
	free(search->namespaces);
}

/**
 * filesystems_open - find and open the mounted file systems on a disk
 * @disk: the disk
 * @found: out: to be released by filesystems_close(), also after an error
 */
enum exit_code filesystems_open(const struct device *disk, struct filesystems *found)
{
	struct search search = { 0 };
	enum exit_code ret;

	*found = (struct filesystems){ .searched = true };
	layers_begin(&search.layers, disk->number);
	search_namespaces(&search);
	ret = take_files(&search, disk, found);
	note_devices(&search, found);
	note_openers(&search, disk, found);
	search_release(&search);
	return ret;
}

static bool layers_have_swap(struct layers *layers, struct libmnt_table *mounts, const char *source)
{
	struct libmnt_fs *mount;
	struct stat st;

	if (!source || stat(source, &st))
		return false;
	if (S_ISBLK(st.st_mode))
		return layers_find(layers, st.st_rdev);
	/* The device number of a file is that of no disk on btrfs. */
	mount = mounts ? mnt_table_find_mountpoint(mounts, source, MNT_ITER_BACKWARD) : NULL;
	return mount && layers_have(layers, mount);
}

/**
 * filesystems_check_swap - report if a disk holds swap space that is in use
 * @disk: the disk
 */
enum exit_code filesystems_check_swap(const struct device *disk)
{
	struct libmnt_table *mounts = mnt_new_table_from_file("/proc/self/mountinfo");
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = mnt_new_table();
	enum exit_code ret = EXIT_OK;
	struct libmnt_fs *fs;
	struct layers layers;

	layers_begin(&layers, disk->number);
	if (table && iter && !mnt_table_parse_swaps(table, NULL))
		while (!ret && !mnt_table_next_fs(table, iter, &fs))
			if (layers_have_swap(&layers, mounts, mnt_fs_get_source(fs)))
				ret = report(EXIT_BUSY,
					     "%s '%s': is in use (swap on %s), and swap space can be neither cloned nor saved; run 'swapoff' first",
					     disk->what, disk->path, mnt_fs_get_source(fs));
	mnt_unref_table(mounts);
	mnt_free_iter(iter);
	mnt_unref_table(table);
	layers_end(&layers);
	return ret;
}

/**
 * filesystems_have - check whether a folder is on a disk, also behind partitions and other devices
 * @disk: the disk
 * @folder_fd: the folder; may be open with O_PATH
 */
bool filesystems_have(const struct device *disk, int folder_fd)
{
	struct libmnt_table *table = mnt_new_table_from_file("/proc/self/mountinfo");
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	struct layers layers;
	struct stat st;
	bool found;

	layers_begin(&layers, disk->number);
	/* btrfs has a number of its own: look at the devices of the mount. */
	found = !fstat(folder_fd, &st) && layers_find(&layers, st.st_dev);
	while (!found && table && iter && !mnt_table_next_fs(table, iter, &fs))
		found = mount_has_file(folder_fd, fs) && layers_have(&layers, fs);
	mnt_free_iter(iter);
	mnt_unref_table(table);
	layers_end(&layers);
	return found;
}

void filesystems_close(struct filesystems *found)
{
	while (found->count)
		close(found->fds[--found->count]);
	free(found->unfrozen);
	found->unfrozen = NULL;
}
