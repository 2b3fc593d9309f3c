// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxd-generator: make systemd drop-ins and mount units from the configuration.
 *
 * The services are installed templates. For each valid section, the generator adds the
 * dependencies that follow from its values, and has the unit started at boot. Errors go to
 * the kernel log; they never make the boot fail.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <uuid/uuid.h>

#include "base/file.h"
#include "base/text.h"
#include "config/config.h"
#include "config/config_files.h"
#include "config/config_keys.h"
#include "message.h"
#include "network.h"
#include "unit.h"

#define FSTAB		"/etc/fstab"
#define UNIT_FOLDERS	"/etc/systemd/system:/run/systemd/system:" \
			"/usr/local/lib/systemd/system:/usr/lib/systemd/system:/lib/systemd/system"
#define LOCAL_FS	"local-fs.target"
#define REMOTE_FS	"remote-fs.target"
#define MULTI_USER	"multi-user.target"
#define COMMAND_LINE	"/proc/cmdline"
#define SWITCHED_OFF	"rxadm.apply=off"

static char *value(const struct config_section *section, enum config_key key)
{
	const char *text = section->values[key].text;

	return text ? unit_escape(text) : NULL;
}

/* Let a service save a file when it stops: require its mount, make its folder writable. */
static void add_saved(char **text, const char *file)
{
	char *escaped = unit_escape(file);
	char *writable = unit_writable(file);

	append_text(text, "RequiresMountsFor=%s\n\n[Service]\n%s", escaped, writable);
	free(writable);
	free(escaped);
}

static void write_drop_in(const char *folder, const char *service, const char *file, char *text)
{
	char *name = format_text("%s.d/%s", service, file);

	unit_write(folder, name, text);
	free(name);
}

/* Start a unit at boot, unless noauto is set: then it is only started by its name. */
static void want(const char *folder, const struct config_section *section, const char *target,
		 const char *unit, const char *file)
{
	if (!section->noauto)
		unit_want(folder, target, unit, file);
}

/* The target that waits for the RAM disk and its mount. */
static const char *target_of(const struct config_section *section)
{
	return section->remote ? REMOTE_FS : LOCAL_FS;
}

static void make_mount(const char *folder, const struct config_section *section,
		       const char *service)
{
	char *unit = unit_name_of_path(section->values[CONFIG_MOUNT].text, ".mount");
	char *options = value(section, CONFIG_OPTIONS);
	char *where = value(section, CONFIG_MOUNT);
	const char *fs = section->values[CONFIG_FS].text;
	char *file = format_text("../%s", unit);
	char *text = unit_begin(section);
	char uuid_text[UUID_STR_LEN];
	uint8_t uuid[16];

	config_section_uuid(section, uuid);
	uuid_unparse_lower(uuid, uuid_text);
	append_text(&text,
		    "Documentation=man:rxd.conf(5)\nRequires=%s\nAfter=%s\n\n"
		    "[Mount]\nWhat=/dev/disk/by-id/rxd-%s\nWhere=%s\n", service, service,
		    uuid_text, where);
	if (fs)
		append_text(&text, "Type=%s\n", fs);
	if (options || section->remote)
		append_text(&text, "Options=%s%s%s\n", options ? options : "",
			    options && section->remote ? "," : "",
			    section->remote ? "_netdev" : "");
	unit_write(folder, unit, text);
	want(folder, section, target_of(section), unit, file);
	free(file);
	free(where);
	free(options);
	free(unit);
}

static void make_saved(const char *folder, const struct config_section *section,
		       const char *service, const char *file, const char *saved)
{
	char *text = unit_begin(section);

	add_saved(&text, saved);
	write_drop_in(folder, service, file, text);
}

/* The timer is started with the service of the RAM disk, also if that has noauto. */
static void make_autosave(const char *folder, const struct config_section *section,
			  const char *image)
{
	char *service = format_text("rxd-autosave@%s.service", section->name);
	char *timer = format_text("rxd-autosave@%s.timer", section->name);
	char *text = unit_begin(section);

	make_saved(folder, section, service, CONFIG_DROP_IN, image);
	append_text(&text, "\n[Timer]\nOnActiveSec=%us\nOnUnitActiveSec=%us\n",
		    section->autosave, section->autosave);
	write_drop_in(folder, timer, CONFIG_DROP_IN, text);
	free(timer);
	free(service);
}

static void make_ramdisk(const char *folder, const struct config_section *section)
{
	char *service = format_text("rxd-ramdisk@%s.service", section->name);
	const char *image = section->values[CONFIG_IMAGE].text;
	char *text = unit_begin(section);

	append_text(&text, "Before=%s\n", target_of(section));
	if (section->autosave) {
		append_text(&text, "Wants=rxd-autosave@%s.timer\n", section->name);
		make_autosave(folder, section, image);
	}
	if (image)
		add_saved(&text, image);
	write_drop_in(folder, service, CONFIG_DROP_IN, text);
	want(folder, section, target_of(section), service, UNITDIR "/rxd-ramdisk@.service");
	if (section->values[CONFIG_MOUNT].text)
		make_mount(folder, section, service);
	free(service);
}

static void make_warming(const char *folder, const struct config_section *section)
{
	char *service = format_text("rxd-warm@%s.service", section->name);
	char *hotlist = value(section, CONFIG_HOTLIST);
	char *text = unit_begin(section);

	append_text(&text,
		    "RequiresMountsFor=%s\nConditionPathExists=%s\n\n"
		    "[Service]\nEnvironment=RXD_HOTLIST=%s\n", hotlist, hotlist, hotlist);
	write_drop_in(folder, service, CONFIG_DROP_IN, text);
	free(hotlist);
	free(service);
}

/* At boot, only mounts through the cache wait for it. */
static void make_cache(const char *folder, const struct config_section *section)
{
	char *device = unit_name_of_path(section->values[CONFIG_ORIGIN].text, ".device");
	char *service = format_text("rxd-cache@%s.service", section->name);
	const char *hotlist = section->values[CONFIG_HOTLIST].text;
	char *text = unit_begin(section);

	append_text(&text, "BindsTo=%s\nAfter=%s\n", device, device);
	if (hotlist) {
		append_text(&text, "Wants=rxd-warm@%s.service\n", section->name);
		add_saved(&text, hotlist);
		make_warming(folder, section);
	}
	write_drop_in(folder, service, CONFIG_DROP_IN, text);
	want(folder, section, LOCAL_FS, service, UNITDIR "/rxd-cache@.service");
	free(service);
	free(device);
}

/* A TCP export starts after the network is up, so that its address exists. */
static void make_export(const char *folder, const struct config_section *section)
{
	const char *device = section->values[CONFIG_DEVICE].text;
	int kind = strcspn(device, "/");
	char *disk = format_text("rxd-%.*s@%s.service", kind, device, device + kind + 1);
	char *service = format_text("rxd-export@%s.service", section->name);
	bool tcp = !strcmp(section->export.transport, "tcp");
	const char *module = tcp ? "nvmet-tcp" : "nvme-loop";
	const char *network = tcp ? " network-online.target" : "";
	char *key = value(section, CONFIG_DHCHAP_KEY);
	char *text = unit_begin(section);

	append_text(&text, "BindsTo=%s\nWants=modprobe@%s.service%s\n", disk, module, network);
	append_text(&text, "After=%s modprobe@%s.service%s\n", disk, module, network);
	if (key)
		append_text(&text, "RequiresMountsFor=%s\n", key);
	write_drop_in(folder, service, CONFIG_DROP_IN, text);
	want(folder, section, MULTI_USER, service, UNITDIR "/rxd-export@.service");
	free(key);
	free(service);
	free(disk);
}

static void (*const makers[CONFIG_KINDS])(const char *folder,
					   const struct config_section *section) = {
	[CONFIG_RAMDISK] = make_ramdisk,
	[CONFIG_CACHE] = make_cache,
	[CONFIG_EXPORT] = make_export,
};

static bool differs(const struct config_section *started, const struct config_section *now,
		    enum config_key key)
{
	const char *text = now->values[key].text;

	return started->values[key].text && (!text || strcmp(started->values[key].text, text));
}

/*
 * A device is saved and unmounted as it was started, even if the files have changed since:
 * let its service write there, and stop it after its mount.
 */
static void make_started(const char *folder, struct config_section *section,
			 const struct config_section *now)
{
	enum config_key saved = section->kind == CONFIG_RAMDISK ? CONFIG_IMAGE : CONFIG_HOTLIST;
	const char *file = section->values[saved].text;
	char *service, *timed;

	section->noauto = true;
	if (!now) {
		makers[section->kind](folder, section);
		return;
	}
	service = format_text("rxd-%s@%s.service", config_kind_name(section->kind), section->name);
	timed = format_text("rxd-autosave@%s.service", section->name);
	if (differs(section, now, saved))
		make_saved(folder, section, service, CONFIG_DROP_IN_STARTED, file);
	if (section->autosave && !now->autosave)
		make_autosave(folder, section, file);
	else if (section->autosave && differs(section, now, saved))
		make_saved(folder, section, timed, CONFIG_DROP_IN_STARTED, file);
	free(timed);
	if (differs(section, now, CONFIG_MOUNT))
		make_mount(folder, section, service);
	free(service);
}

/* A record is read only if it can be stopped. That needs no mount, but its unit does. */
static void check_started(struct config *started)
{
	struct config_section *section;
	const char *mount;
	size_t i;

	for (i = 0; i < started->error_count; i++)
		complain("%s", started->errors[i]);
	for (i = 0; i < started->count; i++) {
		section = started->sections[i];
		mount = section->values[CONFIG_MOUNT].text;
		section->broken = mount && (*mount != '/' || !mount[1]);
		if (section->broken)
			complain("%s: is ignored, because the key 'mount' is missing or invalid",
				 section->file);
	}
}

static void generate_started(const struct config *config, const struct config *started,
			     const char *folder)
{
	const struct config_section *now;
	struct config_section *section;
	size_t i;

	for (i = 0; i < started->count; i++) {
		section = started->sections[i];
		now = config_section_find(config, section->kind, section->name);
		if (!section->broken)
			make_started(folder, section, now && !now->broken ? now : NULL);
	}
}

static void generate(const struct config *config, const char *folder)
{
	size_t i;

	for (i = 0; i < config->error_count; i++)
		complain("%s", config->errors[i]);
	for (i = 0; i < config->count; i++)
		if (!config->sections[i]->broken)
			makers[config->sections[i]->kind](folder, config->sections[i]);
}

/* Check the kernel command line for rxadm.apply=off. */
static bool is_switched_off(const char *path)
{
	FILE *file = fopen(path, "re");
	bool found = false;
	char *line = NULL;
	char *rest = NULL;
	size_t size = 0;
	char *word;

	if (!file || getline(&line, &size, file) < 0)
		goto out;
	for (word = strtok_r(line, CONFIG_BLANKS, &rest); word && !found;
	     word = strtok_r(NULL, CONFIG_BLANKS, &rest))
		found = !strcmp(word, SWITCHED_OFF);
out:
	free(line);
	if (file)
		fclose(file);
	return found;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "command-line", required_argument, NULL, 'l' },
		{ "config", required_argument, NULL, 'c' },
		{ "fstab", required_argument, NULL, 'f' },
		{ "records", required_argument, NULL, 'r' },
		{ "units", required_argument, NULL, 'u' },
		{ "vendor", required_argument, NULL, 'v' },
		{ }
	};
	struct mount_sources sources = { .fstab = FSTAB, .units = UNIT_FOLDERS };
	const char *command_line = COMMAND_LINE;
	const char *records = RUN_FOLDER;
	const char *path = CONFIG_FILE;
	const char *vendor = NULL;
	struct config config = { 0 }, started = { 0 };
	struct sysinfo info;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == '?')
			return EXIT_FAILURE;
		*(opt == 'c' ? &path : opt == 'l' ? &command_line :
		  opt == 'f' ? &sources.fstab : opt == 'u' ? &sources.units :
		  opt == 'r' ? &records : &vendor) = optarg;
	}
	if (argc - optind != 1 && argc - optind != 3) {
		fputs("usage: rxd-generator [OPTION VALUE...] NORMAL_DIR [EARLY_DIR LATE_DIR]\n",
		      stderr);
		return EXIT_FAILURE;
	}
	sysinfo(&info);
	config.ram = (uint64_t)info.totalram * info.mem_unit;
	started.ram = config.ram;
	config_record_read_all(&started, records, path);
	if (!config_load(&config, path, vendor ? vendor : config_vendor(path)) && !started.count &&
	    !started.error_count)
		goto out;

	/* With three folders, the caller is systemd: write errors to the kernel log. */
	if (argc - optind == 3)
		say_to_kernel_log();
	if (is_switched_off(command_line)) {
		complain("%s is ignored: the kernel command line contains " SWITCHED_OFF, path);
		goto out;
	}
	check_started(&started);
	network_mark(&config, &started, &sources);
	generate(&config, argv[optind]);
	generate_started(&config, &started, argv[optind]);
out:
	config_free(&started);
	config_free(&config);
	return EXIT_SUCCESS;
}
