// SPDX-License-Identifier: GPL-2.0-only
/*
 * Check and convert the values of options and of the configuration. The caller passes the size of
 * the memory.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <linux/rxd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/common.h"
#include "base/text.h"
#include "base/values.h"

#define BLOCK_SIZE_MIN	4096
#define BLOCK_SIZE_MAX	(1024 * 1024)
#define NQN_MAX		223
#define NQN_DISCOVERY	"nqn.2014-08.org.nvmexpress.discovery"
#define NODE_MAX	1023	/* the most nodes that a kernel can be built for */
#define SEQ_CUTOFF_MAX	(1ULL << 40)
#define SECTOR		512
#define RAMDISK_MULTIPLE	4096
#define PORT_MAX	65535
#define COMPRESS_DEFAULT	3	/* a level of zstd, like COMPRESS_MAX */
#define COMPRESS_MAX	22
#define RULE_NQN \
	"must be of the form nqn.YYYY-MM.DOMAIN:NAME, of at most %d printable characters without spaces, slashes and quotes"
#define RULE_FLAG	"must be yes, true, on or 1, or no, false, off or 0"
#define RULE_OPTIONS \
	"must be mount options separated by commas, without blanks, quotes and backslashes"
#define RULE_PATH \
	"must be an absolute path of ASCII characters without blanks, quotes, backslashes, '//' and parts '.' or '..'"
#define RULE_UUID \
	"must be hexadecimal digits in groups of 8, 4, 4, 4 and 12, separated by hyphens"

static char *parse(const char *text, const struct size_rule *rule, uint64_t *bytes)
{
	enum size_error error = size_parse(text, rule, bytes);

	return error ? size_message(error, rule) : NULL;
}

/**
 * value_number - read a decimal number
 * @text: what the user wrote
 * @min: smallest value allowed
 * @max: largest value allowed
 * @value: out: the number
 */
char *value_number(const char *text, unsigned int min, unsigned int max, unsigned int *value)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || number < min ||
	    number > max)
		return format_text("must be a number from %u to %u", min, max);
	*value = number;
	return NULL;
}

/* Return the allowed sizes of a RAM disk. */
static struct size_rule ramdisk_rule(uint64_t ram)
{
	long page = sysconf(_SC_PAGESIZE);

	return (struct size_rule) {
		.ram = ram,
		.multiple = page > RAMDISK_MULTIPLE ? page : RAMDISK_MULTIPLE,
		.max = RXD_SIZE_MAX,
	};
}

/**
 * value_size - read the size of a RAM disk, or of a part of its memory
 * @text: what the user wrote
 * @ram: the memory that percentages refer to
 * @bytes: out: the size
 */
char *value_size(const char *text, uint64_t ram, uint64_t *bytes)
{
	const struct size_rule rule = ramdisk_rule(ram);

	return parse(text, &rule, bytes);
}

/**
 * value_size_change - read the new size of a RAM disk
 * @text: what the user wrote: a size, or an amount to add or subtract
 * @ram: the memory that percentages refer to
 * @change: out: the size or the amount
 */
char *value_size_change(const char *text, uint64_t ram, struct size_change *change)
{
	const struct size_rule rule = ramdisk_rule(ram);

	return size_change_parse(text, &rule, change);
}

/**
 * value_new_size - calculate the new size of a RAM disk
 * @change: the result of value_size_change()
 * @ram: the memory that percentages refer to
 * @old: the old size
 * @bytes: out: the new size
 */
char *value_new_size(const struct size_change *change, uint64_t ram, uint64_t old,
		     uint64_t *bytes)
{
	const struct size_rule rule = ramdisk_rule(ram);

	return size_change_apply(change, &rule, old, bytes);
}

/* Return: what follows the dots in MIN..MAX, or NULL if there are none. */
const char *size_range_max(const char *text)
{
	const char *dots = strstr(text, "..");

	return dots ? dots + 2 : NULL;
}

static char *parse_limit(const char *what, const char *text, const struct size_rule *rule,
			 uint64_t *bytes)
{
	char *error = *text ? parse(text, rule, bytes) : NULL;
	char ram[SIZE_TEXT_MAX];
	char *message;

	if (!*text)
		return format_text("the %s is missing; must be MIN..MAX, such as 4G..75%%", what);
	if (!error && *bytes > rule->ram)
		error = format_text("is more than the memory of the machine; must be at most %s",
				    size_format(rule->ram, ram));
	message = error ? format_text("the %s '%s' %s", what, text, error) : NULL;
	free(error);
	return message;
}

/**
 * value_size_range - read the sizes of an elastic cache
 * @text: what the user wrote: MIN..MAX
 * @ram: the memory that percentages refer to
 * @range: out: the sizes
 */
char *value_size_range(const char *text, uint64_t ram, struct size_range *range)
{
	const struct size_rule rule = ramdisk_rule(ram);
	const char *max = size_range_max(text);
	char *min = format_text("%.*s", (int)(max - 2 - text), text);
	char *error = parse_limit("minimum", min, &rule, &range->min);

	if (!error)
		error = parse_limit("maximum", max, &rule, &range->max);
	if (!error && range->min > range->max)
		error = format_text("the minimum '%s' is above the maximum; must be at most '%s'",
				    min, max);
	free(min);
	return error;
}

/**
 * value_block_size - read the block size of a cache
 * @text: what the user wrote
 * @ram: the memory that percentages refer to
 * @bytes: out: the block size
 */
char *value_block_size(const char *text, uint64_t ram, uint64_t *bytes)
{
	const struct size_rule rule = {
		.ram = ram,
		.multiple = BLOCK_SIZE_MIN,
		.max = BLOCK_SIZE_MAX,
	};

	if (size_parse(text, &rule, bytes) || *bytes & (*bytes - 1))
		return copy_text("must be a power of two from 4K to 1M");
	return NULL;
}

/**
 * value_logical_block_size - read the logical block size of a RAM disk
 * @text: what the user wrote
 * @bytes: out: the size
 */
char *value_logical_block_size(const char *text, unsigned int *bytes)
{
	if (!strcmp(text, "512"))
		*bytes = 512;
	else if (!strcmp(text, "4096"))
		*bytes = 4096;
	else
		return copy_text("must be 512 or 4096");
	return NULL;
}

/**
 * value_folio_size - read the size of the largest folio to allocate
 * @text: what the user wrote
 * @ram: the memory that percentages refer to
 * @bytes: out: the size
 */
char *value_folio_size(const char *text, uint64_t ram, uint32_t *bytes)
{
	const struct size_rule rule = { .ram = ram, .multiple = 1, .max = 1 << 21 };
	uint64_t size;

	if (size_parse(text, &rule, &size) ||
	    (size != 1 << 12 && size != 1 << 16 && size != 1 << 21))
		return copy_text("must be 4K, 64K or 2M");
	*bytes = size;
	return NULL;
}

/**
 * value_node - read the NUMA node to allocate memory from
 * @text: what the user wrote
 * @node: out: a NUMA node, RXD_NODE_LOCAL or RXD_NODE_INTERLEAVE
 */
char *value_node(const char *text, int32_t *node)
{
	unsigned int number;
	char *error;

	if (!strcmp(text, "local")) {
		*node = RXD_NODE_LOCAL;
		return NULL;
	}
	if (!strcmp(text, "interleave")) {
		*node = RXD_NODE_INTERLEAVE;
		return NULL;
	}
	error = value_number(text, 0, NODE_MAX, &number);
	if (error) {
		free(error);
		return format_text("must be local, interleave or a number from 0 to %d", NODE_MAX);
	}
	*node = number;
	return NULL;
}

/**
 * value_uuid - read a UUID
 * @text: what the user wrote
 * @uuid: out: its 16 bytes
 */
char *value_uuid(const char *text, uint8_t *uuid)
{
	if (uuid_parse(text, uuid))
		return copy_text(RULE_UUID);
	if (uuid_is_null(uuid))
		return copy_text("must not be zero");
	return NULL;
}

/* The name space of derived UUIDs: 9d47b8a6-8b9a-45b5-97ac-626c1b790991. */
static const uuid_t namespace = {
	0x9d, 0x47, 0xb8, 0xa6, 0x8b, 0x9a, 0x45, 0xb5,
	0x97, 0xac, 0x62, 0x6c, 0x1b, 0x79, 0x09, 0x91,
};

/**
 * uuid_derive - derive a UUID from a name, always the same (version 5 of RFC 9562)
 * @name: the name
 * @uuid: out: its 16 bytes
 */
void uuid_derive(const char *name, uint8_t *uuid)
{
	uuid_generate_sha1(uuid, namespace, name, strlen(name));
}

/**
 * value_name - check the name of a RAM disk
 * @text: what the user wrote
 */
char *value_name(const char *text)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
	size_t len = strlen(text);

	if (!len || len > RXD_NAME_MAX || strspn(text, allowed) < len || strchr("-.", *text))
		return format_text("must be 1-%d letters, digits or -_. and not begin with - or .",
				   RXD_NAME_MAX);
	/* Reject the kernel names of RAM disks. */
	if (!strncmp(text, "rxd", 3) && isdigit((unsigned char)text[3]))
		return copy_text("must not begin with rxd and a digit, as device names do");
	/* Reject NAME-partN, the link of a partition of the RAM disk NAME. */
	while (len && isdigit((unsigned char)text[len - 1]))
		len--;
	if (text[len] && len >= 5 && !strncmp(text + len - 5, "-part", 5))
		return copy_text("must not end in -part and a number, as links of partitions do");
	return NULL;
}

/**
 * value_mode - check the mode of a cache
 * @text: what the user wrote
 */
char *value_mode(const char *text)
{
	static const char *const modes[] = { "writethrough", "writearound", "passthrough" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(text, modes[i]))
			return NULL;
	return copy_text("must be writethrough, writearound or passthrough");
}

/**
 * value_seq_cutoff - read the length from which sequential I/O bypasses the cache
 * @text: what the user wrote; "0": there is no cut-off
 * @ram: the memory that percentages refer to
 * @bytes: out: the length
 */
char *value_seq_cutoff(const char *text, uint64_t ram, uint64_t *bytes)
{
	const struct size_rule rule = {
		.ram = ram,
		.multiple = SECTOR,
		.max = SEQ_CUTOFF_MAX,
	};
	uint64_t size = 0;
	enum size_error error = strcmp(text, "0") ? size_parse(text, &rule, &size) : SIZE_OK;

	*bytes = size;
	if (error == SIZE_NEGATIVE || error == SIZE_ZERO)
		return copy_text("must be 0 to cache all I/O, or a multiple of 512 bytes up to 1T");
	return error ? size_message(error, &rule) : NULL;
}

/**
 * value_transport - check the transport of an export
 * @text: what the user wrote
 */
char *value_transport(const char *text)
{
	if (!strcmp(text, "tcp") || !strcmp(text, "loop"))
		return NULL;
	return copy_text("must be tcp or loop");
}

/**
 * value_address - check the address that an export listens at
 * @text: what the user wrote
 */
char *value_address(const char *text)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1)
		return NULL;
	return copy_text("must be an IP address such as 192.0.2.1 or 2001:db8::1");
}

/**
 * value_port - read a TCP port
 * @text: what the user wrote
 * @port: out: the port
 */
char *value_port(const char *text, unsigned int *port)
{
	return value_number(text, 1, PORT_MAX, port);
}

/**
 * value_nqn - check the name of a subsystem or a host
 * @text: what the user wrote
 */
char *value_nqn(const char *text)
{
	static const char form[] = "nqn.dddd-dd.";
	size_t length = strlen(text);
	bool ok = length > strlen(form) && length <= NQN_MAX;
	size_t i;

	for (i = 0; ok && i < length; i++) {
		if (i < strlen(form))
			ok = form[i] == 'd' ? isdigit((unsigned char)text[i]) : text[i] == form[i];
		else
			ok = text[i] > ' ' && text[i] <= '~' && !strchr("/\\'\"", text[i]);
	}
	return ok && strcmp(text, NQN_DISCOVERY) ? NULL : format_text(RULE_NQN, NQN_MAX);
}

/**
 * value_compress - read the compression of an image
 * @text: what the user wrote
 * @level: out: the level of zstd
 */
char *value_compress(const char *text, int *level)
{
	size_t length = strcspn(text, ":");
	unsigned int number = 0;

	if (length != strlen("zstd") || strncmp(text, "zstd", length))
		return format_text("must be zstd or zstd:LEVEL, with a LEVEL from 1 to %d",
				   COMPRESS_MAX);
	*level = COMPRESS_DEFAULT;
	if (!text[length])
		return NULL;
	text += length + 1;
	free(value_number(text, 1, COMPRESS_MAX, &number));
	*level = number;
	return number ? NULL : format_text("level '%s': must be a number from 1 to %d", text,
					   COMPRESS_MAX);
}

static bool is_one_of(const char *text, const char *const *words)
{
	while (*words && strcasecmp(text, *words))
		words++;
	return *words;
}

/* Return: whether a text is one of the words of systemd.syntax(7) for "no". */
bool value_is_no(const char *text)
{
	static const char *const words[] = { "no", "false", "off", "0", NULL };

	return is_one_of(text, words);
}

/* Accept the boolean words of systemd.syntax(7). */
char *value_flag(const char *text, bool *value)
{
	static const char *const words[] = { "yes", "true", "on", "1", NULL };

	*value = is_one_of(text, words);
	return *value || value_is_no(text) ? NULL : copy_text(RULE_FLAG);
}

/* Refuse characters that need quoting: the text is copied into units and tables unchanged. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~' || strchr("\"'\\", *text))
			return false;
	return true;
}

char *value_path(const char *text)
{
	const char *part;

	if (*text != '/' || !text[1] || !is_plain(text))
		goto wrong;
	for (part = text; part; part = strchr(part + 1, '/'))
		if (!part[1] || part[1] == '/' || !strcmp(part, "/.") || !strcmp(part, "/..") ||
		    !strncmp(part, "/./", 3) || !strncmp(part, "/../", 4))
			goto wrong;
	return NULL;
wrong:
	return copy_text(RULE_PATH);
}

char *value_options(const char *text)
{
	return *text && is_plain(text) ? NULL : copy_text(RULE_OPTIONS);
}
