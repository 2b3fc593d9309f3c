/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_FILE_H
#define COPY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

int file_open(const char *path, int flags, bool direct, int *fd);
int file_size(int fd, uint64_t *size);
bool file_was_written(int fd, const struct stat *before);
int file_flush(int fd);
void file_next_data(int fd, uint64_t from, uint64_t size, uint64_t *start, uint64_t *end);
int file_read(int fd, void *data, size_t length, uint64_t offset, size_t *done);
int file_write(int fd, const void *data, size_t length, uint64_t offset);

/* A file that gets its name only when it is complete. */
struct output {
	char *name;		/* in the folder */
	char *temporary;	/* its name until then; NULL: none */
	int folder_fd;
	bool lent;		/* the caller closes the folder */
	int fd;
	bool exclusive;		/* fail with EEXIST if the name exists by then */
	bool unsynced;		/* do not sync the folder, which need not be readable then */
	struct stat st;		/* of the new file */
	struct stat old;	/* of the old file; st_mode is 0 if there was none */
};

int output_folder(const char *path, bool sync, int *fd);
int output_find_in(struct output *output, int folder, const char *name, bool devices);
int output_find(struct output *output, const char *path, bool devices);
bool output_is_lost_link(const char *path);
int output_find_folder(struct output *output, const char *path);
int output_begin(struct output *output, bool direct);
int output_open(struct output *output, const char *path, bool direct);
int output_commit(struct output *output, mode_t mode, bool sync);
void output_discard(struct output *output);

#endif /* COPY_FILE_H */
