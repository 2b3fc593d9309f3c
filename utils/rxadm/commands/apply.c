// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm apply
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/system.h"
#include "commands/command.h"
#include "commands/options.h"
#include "config/apply.h"
#include "config/config.h"
#include "config/config_files.h"
#include "config/plan.h"

static const char usage[] =
	"Usage: rxadm apply [--save|--stop] [OPTION...] [NAME...]\n"
	"\n"
	"Create the RAM disks, caches and exports of the configuration, and adjust those that\n"
	"differ. NAME or KIND/NAME selects sections; the default is all without noauto. Devices\n"
	"that are not in the configuration are left alone.\n"
	"\n"
	"Options:\n"
	"     --config FILE   read FILE and FILE.d/*.conf (default: " CONFIG_FILE ", with the\n"
	"                     vendor defaults in " CONFIG_VENDOR ")\n"
	"     --dry-run       print what would be done; change nothing\n"
	"     --save          save the started RAM disks that have an image, even if in use\n"
	"     --stop          stop the exports, save images and hot lists, and remove the\n"
	"                     caches and RAM disks; not with --save\n"
	" -h, --help          print this help\n";

static enum exit_code parse(int argc, char **argv, struct apply_request *request, bool *help)
{
	static const struct option options[] = {
		{ "config",	required_argument, NULL, OPT_CONFIG },
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "save",	no_argument,	   NULL, OPT_SAVE },
		{ "stop",	no_argument,	   NULL, OPT_STOP },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_CONFIG:
			request->path = optarg;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_SAVE:
			request->save = true;
			break;
		case OPT_STOP:
			request->stop = true;
			break;
		case 'h':
			return print_usage(usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (request->save && request->stop)
		return report(EXIT_PARAMETERS,
			      "options --save and --stop exclude each other; --stop saves, too");
	request->names = argv + optind;
	return EXIT_OK;
}

static const char *find_unknown(const struct config *config, char **names)
{
	size_t i;

	for (; *names; names++) {
		for (i = 0; i < config->count; i++)
			if (config_is_called(config->sections[i], *names))
				break;
		if (i == config->count)
			return *names;
	}
	return NULL;
}

/* Fail if there are errors, unless names are given and the named sections have none. */
static enum exit_code check_config(const struct config *config, const struct apply_request *request)
{
	const char *unknown = find_unknown(config, request->names);
	const char *vendor = config_vendor(request->path);
	bool broken = unknown || !*request->names;
	size_t i;

	for (i = 0; i < config->count; i++)
		broken |= config->sections[i]->broken &&
			  plan_is_chosen(config->sections[i], request->names);
	if (broken)
		for (i = 0; i < config->error_count; i++)
			report(EXIT_PARAMETERS, "%s", config->errors[i]);
	if (unknown)
		return report(EXIT_PARAMETERS, "'%s': there is no such section in %s, %s.d%s%s",
			      unknown, request->path, request->path, vendor ? ", " : "",
			      vendor ? vendor : "");
	return broken && config->error_count ? EXIT_PARAMETERS : EXIT_OK;
}

/* Fail if a name is not of a section that can be saved. */
static enum exit_code check_images(const struct config *config, char **names)
{
	const struct config_section *section;
	size_t i;

	for (; *names; names++) {
		for (i = 0; i < config->count; i++) {
			section = config->sections[i];
			if (section->values[CONFIG_IMAGE].text && config_is_called(section, *names))
				break;
		}
		if (i == config->count)
			return report(EXIT_PARAMETERS, "'%s': has no key image", *names);
	}
	return EXIT_OK;
}

static void number_sections(struct config *config)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		config->sections[i]->order = i;
}

static enum exit_code read_config(struct config *config, const struct apply_request *request)
{
	config_load(config, request->path, config_vendor(request->path));
	number_sections(config);
	return check_config(config, request);
}

static int by_order(const void *a, const void *b)
{
	const struct config_section *const *one = a, *const *two = b;

	return (*one)->order < (*two)->order ? -1 : (*one)->order > (*two)->order;
}

/*
 * Return: whether the result must tell of an error in the records. If sections are named, those of
 * others do not matter, and their own stop tells of them.
 */
static bool is_wrong(const struct config *started, char **names, bool known)
{
	bool wrong = started->error_count && !known;
	size_t i;

	for (i = 0; i < started->count; i++)
		wrong |= started->sections[i]->broken &&
			 plan_is_chosen(started->sections[i], names);
	return wrong;
}

/*
 * Read what to stop or to save: the sections as they were recorded at their start. The
 * configuration is read, too, because an export may have a record while its disk has none, or the
 * record may be damaged. An error in the configuration does not prevent saving what was started.
 */
static enum exit_code read_started(struct config *config, const struct apply_request *request,
				   enum exit_code *late)
{
	struct config started = { .ram = config->ram };
	enum exit_code ret = EXIT_OK;
	bool known, wrong;
	size_t i;

	config_record_read_all(&started, RUN_FOLDER, request->path);
	known = *request->names && !find_unknown(&started, request->names);
	wrong = is_wrong(&started, request->names, known);
	for (i = 0; wrong && i < started.error_count; i++)
		report(EXIT_DEVICE, "%s", started.errors[i]);
	for (i = 0; i < started.count; i++) {
		started.sections[i]->noauto = false;
		started.sections[i]->broken = false;
	}
	config_load(config, request->path, config_vendor(request->path));
	number_sections(config);
	config_replace(config, &started);
	if (config->count)
		qsort(config->sections, config->count, sizeof(*config->sections), by_order);
	if (*request->names && !known)
		ret = check_config(config, request);
	else if (!known)
		*late = check_config(config, request);
	if (wrong)
		*late = EXIT_DEVICE;
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct config config = { .ram = system_ram() };
	struct apply_request request = { .path = CONFIG_FILE };
	enum exit_code late = EXIT_OK;
	bool help = false;
	enum exit_code ret;

	ret = parse(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	request.stop |= request.save;
	if (!ret)
		ret = request.stop ? read_started(&config, &request, &late) :
				     read_config(&config, &request);
	if (!ret && request.save)
		ret = check_images(&config, request.names);
	if (!ret)
		ret = config_apply(&config, &request);
	config_free(&config);
	return ret ? ret : late;
}

const struct command command_apply = {
	.name = "apply",
	.summary = "create the devices of the configuration",
	.run = run,
};
