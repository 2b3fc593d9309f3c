// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration: each error is told, and what has none can be made.
 */
#include "base/text.h"
#include "config/config.h"
#include "config/config_files.h"
#include "fuzz.h"

#define RAM	(1ULL << 34)

static bool is_told(const struct config *config, const struct config_section *section)
{
	char *name = format_text(": [%s %s]: ", config_kind_name(section->kind), section->name);
	bool found = false;
	size_t i;

	for (i = 0; i < config->error_count; i++)
		found |= !!strstr(config->errors[i], name);
	free(name);
	return found;
}

static void check_export(const struct config *config, const struct config_section *section)
{
	const struct export_request *export = &section->export;
	const struct config_section *disk;
	size_t i;

	disk = config_find(config, section->values[CONFIG_DEVICE].text);
	must(disk && !disk->broken && disk->kind != CONFIG_EXPORT);
	must(!strcmp(export->transport, "tcp") == !!export->address);
	must(export->port <= 65535 && (export->address || !export->port));
	must(export->allow_any_host == !export->host_count);
	for (i = 0; i < export->host_count; i++)
		must(strlen(export->hosts[i]) <= 223 && !strpbrk(export->hosts[i], " \t/"));
}

static void check_section(const struct config *config, const struct config_section *section)
{
	static const enum config_key paths[] = {
		CONFIG_DHCHAP_KEY, CONFIG_HOTLIST, CONFIG_IMAGE, CONFIG_MOUNT, CONFIG_ORIGIN,
	};
	const char *text;
	size_t i;

	must(section->kind == CONFIG_EXPORT || section->disk.size);
	must(section->disk.size % 4096 == 0);
	must(section->disk.mem_limit % 4096 == 0);
	must(*section->name && !strpbrk(section->name, "\n %/\\"));
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		text = section->values[paths[i]].text;
		must(!text || (*text == '/' && text[1] && !strpbrk(text, " \t\n\"'\\") &&
			       text[strlen(text) - 1] != '/' && !strstr(text, "/../")));
	}
	if (section->kind == CONFIG_EXPORT)
		check_export(config, section);
	if (section->kind == CONFIG_CACHE)
		must(section->map.origin && section->map.mode && section->map.block_size >= 4096);
}

int fuzz_input(const uint8_t *data, size_t size)
{
	struct config config = { .ram = RAM };
	size_t i;
	FILE *file;

	/* fmemopen() does not accept an empty buffer. */
	if (!size)
		return 0;
	file = fmemopen((void *)data, size, "r");
	must(file);
	config_read(&config, "F", file, 0);
	fclose(file);
	config_check(&config);

	for (i = 0; i < config.error_count; i++)
		must(!strncmp(config.errors[i], "F:", 2) && config.errors[i][2]);
	for (i = 0; i < config.count; i++) {
		if (config.sections[i]->broken)
			must(is_told(&config, config.sections[i]));
		else
			check_section(&config, config.sections[i]);
	}
	config_free(&config);
	return 0;
}
