// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checksums by libgcrypt.
 */
#include <stdio.h>
#include <string.h>

#include "checksum.h"
#include "source.h"

/**
 * checksum_begin - begin a checksum, or print an error
 * @checksum: out
 * @name: the algorithm, as libgcrypt calls it; NULL: no checksum is wanted
 */
bool checksum_begin(struct checksum *checksum, const char *name)
{
	*checksum = (struct checksum){ 0 };
	if (!name)
		return true;
	if (!gcry_control(GCRYCTL_INITIALIZATION_FINISHED_P)) {
		if (!gcry_check_version(GCRYPT_VERSION))
			return complain("libgcrypt is too old: must be %s or newer",
					GCRYPT_VERSION);
		gcry_control(GCRYCTL_DISABLE_SECMEM, 0);
		gcry_control(GCRYCTL_INITIALIZATION_FINISHED, 0);
	}
	checksum->algorithm = gcry_md_map_name(name);
	if (!checksum->algorithm || !gcry_md_get_algo_dlen(checksum->algorithm) ||
	    gcry_md_open(&checksum->handle, checksum->algorithm, 0)) {
		checksum->handle = NULL;
		return complain("checksum '%s': unknown algorithm; use md5, sha256 or another",
				name);
	}
	return true;
}

void checksum_add(struct checksum *checksum, const void *data, size_t length)
{
	if (checksum->handle)
		gcry_md_write(checksum->handle, data, length);
}

/* Print a path as md5sum does: on one line, with a backslash before the checksum if needed. */
static void print_path(const char *path)
{
	for (; *path; path++) {
		if (*path == '\n')
			fputs("\\n", stdout);
		else if (*path == '\\')
			fputs("\\\\", stdout);
		else
			putchar(*path);
	}
	putchar('\n');
}

/**
 * checksum_print - print a checksum in the format of md5sum(1)
 * @checksum: the checksum; it is finished here
 * @path: path of the file
 */
void checksum_print(struct checksum *checksum, const char *path)
{
	const unsigned char *digest;
	unsigned int i;

	if (!checksum->handle)
		return;
	digest = gcry_md_read(checksum->handle, checksum->algorithm);
	if (strpbrk(path, "\n\\"))
		putchar('\\');
	for (i = 0; i < gcry_md_get_algo_dlen(checksum->algorithm); i++)
		printf("%02x", digest[i]);
	fputs("  ", stdout);
	print_path(path);
}

void checksum_free(struct checksum *checksum)
{
	gcry_md_close(checksum->handle);
	checksum->handle = NULL;
}
