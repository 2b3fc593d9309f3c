// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the file of a DH-HMAC-CHAP secret, by which hosts prove who they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "device/nvmet_key.h"

#define KEY_PREFIX	"DHHC-1:"
#define KEY_MAX		256

static enum exit_code check_key_file(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return report(exit_code_of(errno), "key file '%s': %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return report(EXIT_PARAMETERS, "key file '%s': is not a file", path);
	if (st.st_mode & 077)
		return report(EXIT_PARAMETERS,
			      "key file '%s': is accessible to other users (mode %04o); its mode must be 0600",
			      path, st.st_mode & 07777);
	if (st.st_uid && st.st_uid != geteuid())
		return report(EXIT_PARAMETERS,
			      "key file '%s': belongs to another user (UID %u); its owner must be root",
			      path, st.st_uid);
	return EXIT_OK;
}

static bool is_key(const char *text)
{
	static const char characters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:-";
	size_t length = strlen(text);

	return !strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) &&
	       length > strlen(KEY_PREFIX) && length < KEY_MAX && text[length - 1] == ':' &&
	       strspn(text, characters) == length;
}

/**
 * nvmet_key_read - read a DH-HMAC-CHAP secret
 * @path: the file
 * @key: out: the secret, allocated; unchanged after an error
 */
enum exit_code nvmet_key_read(const char *path, char **key)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[KEY_MAX + 1];
	enum exit_code ret;
	ssize_t length;

	if (fd < 0)
		return report(exit_code_of(errno), "key file '%s': %s", path, strerror(errno));
	ret = check_key_file(path, fd);
	length = ret ? 0 : read(fd, text, KEY_MAX);
	if (length < 0)
		ret = report(exit_code_of(errno), "key file '%s': %s", path, strerror(errno));
	close(fd);
	if (ret)
		return ret;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!is_key(text))
		return report(EXIT_PARAMETERS,
			      "key file '%s': must hold a line that begins with %s; 'nvme gen-dhchap-key' generates one",
			      path, KEY_PREFIX);
	*key = copy_text(text);
	return EXIT_OK;
}
