// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the mounted file systems that are on a disk, also behind partitions and other devices, and
 * open a file of each, so that the driver can freeze them.
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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/system.h"
#include "device/device.h"
#include "device/filesystems.h"
#include "device/nvmet.h"
#include "device/openers.h"

#define BTRFS_FOLDER	"/sys/fs/btrfs"

/* A device that is the disk, a part of it, or on top of it. */
struct layer {
	dev_t number;
	bool stacked;		/* neither the disk nor one of its partitions */
	bool used;		/* what uses it is known, or will be frozen */
};

/* A mounted file system on at least one of the layers. */
struct mounted {
	dev_t number;		/* of the superblock */
	int fd;			/* a file of it, or -1 */
	char *target;		/* one of its mount points */
};

struct search {
	struct layer *layers;	/* the disk first */
	size_t nr_layers;
	struct mounted *mounted;
	size_t nr_mounted;
	ino_t *namespaces;	/* mount namespaces that were searched */
	size_t nr_namespaces;
};

static struct layer *find_layer(const struct search *search, dev_t number)
{
	size_t i;

	for (i = 0; i < search->nr_layers; i++)
		if (search->layers[i].number == number)
			return &search->layers[i];
	return NULL;
}

/* Add a device and its partitions. */
static void add_layers(struct search *search, dev_t number, bool stacked)
{
	struct disk_family family = disk_family_of(number);
	size_t i;

	for (i = 0; i < family.count; i++) {
		if (find_layer(search, family.numbers[i]))
			continue;
		search->layers = resize_array(search->layers, search->nr_layers + 1,
					      sizeof(*search->layers));
		search->layers[search->nr_layers++] = (struct layer){
			.number = family.numbers[i],
			.stacked = stacked,
		};
	}
	disk_family_release(&family);
}

static void add_holders(struct search *search, size_t layer)
{
	dev_t holder, number = search->layers[layer].number;
	DIR *dir = sysfs_open(number, "holders");
	struct dirent *entry;
	char *attribute;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		attribute = format_text("holders/%s/dev", entry->d_name);
		if (sysfs_read_number(number, attribute, &holder)) {
			add_layers(search, holder, true);
			search->layers[layer].used = true;
		}
		free(attribute);
	}
	if (dir)
		closedir(dir);
}

static bool is_loop_on(const char *name, dev_t number)
{
	char *path = format_text("/sys/block/%s/loop/backing_file", name);
	char *file = first_line(path);
	struct stat st;
	bool found;

	found = file && !stat(file, &st) && S_ISBLK(st.st_mode) && st.st_rdev == number;
	free(file);
	free(path);
	return found;
}

/* sysfs does not list loop devices as holders. */
static void add_loops(struct search *search, size_t layer)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	dev_t loop;

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "loop", 4) ||
		    !is_loop_on(entry->d_name, search->layers[layer].number) ||
		    !sysfs_number_of(entry->d_name, &loop))
			continue;
		add_layers(search, loop, true);
		search->layers[layer].used = true;
	}
	if (dir)
		closedir(dir);
}

static void find_layers(struct search *search, dev_t disk)
{
	size_t i;

	add_layers(search, disk, false);
	for (i = 0; i < search->nr_layers; i++) {
		add_holders(search, i);
		add_loops(search, i);
	}
}

/*
 * If a device is a member of this btrfs file system, mark the layers that are members. Return:
 * whether there is such a layer.
 */
static bool is_btrfs_with(struct search *search, const char *uuid, dev_t with)
{
	char *folder = format_text(BTRFS_FOLDER "/%s/devices", uuid);
	bool member = false, found = false;
	struct dirent *entry;
	struct layer *layer;
	unsigned int round;
	dev_t number;
	DIR *dir;

	dir = opendir(folder);
	for (round = 0; dir && round < 2; round++, rewinddir(dir)) {
		while ((entry = readdir(dir))) {
			if (!sysfs_number_of(entry->d_name, &number))
				continue;
			member = member || number == with;
			layer = round && member ? find_layer(search, number) : NULL;
			if (layer)
				layer->used = true;
			found = found || layer;
		}
	}
	if (dir)
		closedir(dir);
	free(folder);
	return found;
}

static bool is_on_btrfs(struct search *search, dev_t source)
{
	DIR *dir = opendir(BTRFS_FOLDER);
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			found = is_btrfs_with(search, entry->d_name, source);
	if (dir)
		closedir(dir);
	return found;
}

/* Return true if the file system of a mount is on one of the layers, and mark these. */
static bool is_on_layers(struct search *search, struct libmnt_fs *fs)
{
	const char *source = mnt_fs_get_srcpath(fs);
	const char *type = mnt_fs_get_fstype(fs);
	dev_t number = mnt_fs_get_devno(fs);
	struct layer *layer = find_layer(search, number);
	struct stat st;

	/*
	 * btrfs has an anonymous device number: look at the source. Of other file systems, this
	 * may be any text.
	 */
	if (!layer && type && !strcmp(type, "btrfs") && source && *source == '/' &&
	    !stat(source, &st) && S_ISBLK(st.st_mode))
		return is_on_btrfs(search, st.st_rdev);
	if (layer)
		layer->used = true;
	return layer;
}

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

static bool is_mount(int fd, struct libmnt_fs *fs)
{
	struct statx st;

	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MNT_ID,
		      &st) && st.stx_mask & STATX_MNT_ID &&
	       st.stx_mnt_id == (uint64_t)mnt_fs_get_id(fs) &&
	       (S_ISDIR(st.stx_mode) || S_ISREG(st.stx_mode));
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
	if (is_mount(path, fs)) {
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
		if (!is_on_layers(search, fs))
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
		layer = find_layer(search, family.numbers[i]);
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

	for (i = 0; i < search->nr_layers; i++) {
		layer = &search->layers[i];
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
			add_user(found, "in use by the kernel", "");
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
	free(search->layers);
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
	find_layers(&search, disk->number);
	search_namespaces(&search);
	ret = take_files(&search, disk, found);
	note_devices(&search, found);
	note_openers(&search, disk, found);
	search_release(&search);
	return ret;
}

/**
 * filesystems_check_swap - report if a disk holds swap space that is in use
 * @disk: the disk
 */
enum exit_code filesystems_check_swap(const struct device *disk)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = mnt_new_table();
	enum exit_code ret = EXIT_OK;
	struct search search = { 0 };
	struct libmnt_fs *fs;
	const char *source;
	struct stat st;
	dev_t on;

	find_layers(&search, disk->number);
	if (table && iter && !mnt_table_parse_swaps(table, NULL))
		while (!ret && !mnt_table_next_fs(table, iter, &fs)) {
			source = mnt_fs_get_source(fs);
			if (!source || stat(source, &st))
				continue;
			on = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
			if (find_layer(&search, on))
				ret = report(EXIT_BUSY,
					     "%s '%s': is in use (swap on %s), and swap space cannot be cloned; run 'swapoff' first",
					     disk->what, disk->path, source);
		}
	mnt_free_iter(iter);
	mnt_unref_table(table);
	search_release(&search);
	return ret;
}

void filesystems_close(struct filesystems *found)
{
	while (found->count)
		close(found->fds[--found->count]);
	free(found->unfrozen);
	found->unfrozen = NULL;
}
