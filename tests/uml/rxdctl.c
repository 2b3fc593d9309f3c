// SPDX-License-Identifier: GPL-2.0-only
/*
 * The few operations on RAM disks and mappings that the guest's script needs,
 * without a library.
 *
 *	rxdctl create INDEX BYTES [overcommit] [folio=BYTES]
 *	rxdctl folio INDEX		print the size of the folios
 *	rxdctl resize INDEX BYTES [force]
 *	rxdctl remove INDEX
 *	rxdctl clone SOURCE INDEX	with overcommit, freezing nothing; print for how
 *					many ns writes were held
 *	rxdctl reset INDEX SOURCE	and open the disk
 *	rxdctl map NAME SECTORS PARAMETERS [TARGET]	default rxcache
 *	rxdctl load NAME SECTORS ARGS [TARGET]	a table that the next resume takes
 *	rxdctl unmap NAME
 *	rxdctl status NAME
 *	rxdctl table NAME
 *	rxdctl message NAME TEXT
 *	rxdctl suspend NAME
 *	rxdctl resume NAME
 *
 *	rxdctl disturb FILE NAME...	until FILE exists, all that a user may do to
 *					live mappings
 *
 *	rxdctl timed COMMAND...		print how long the command took, in ns
 *
 * Exits with the errno of what failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <linux/dm-ioctl.h>
#include <linux/rxd.h>

#define BUFFER	16384

static int failed(const char *what)
{
	int err = errno;

	fprintf(stderr, "rxdctl: %s: %s\n", what, strerror(err));
	return err;
}

static int control(unsigned long request, void *arg, const char *what)
{
	int fd = open("/dev/" RXD_CONTROL_NAME, O_RDWR);

	if (fd < 0)
		return failed("/dev/" RXD_CONTROL_NAME);
	return ioctl(fd, request, arg) ? failed(what) : 0;
}

static int create(int argc, char **argv)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.index = atoi(argv[0]),
		.size = strtoull(argv[1], NULL, 10),
		.node = RXD_NODE_LOCAL,
	};
	int i;

	for (i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "overcommit"))
			arg.flags |= RXD_CREATE_OVERCOMMIT;
		else if (!strncmp(argv[i], "folio=", 6))
			arg.folio_size = atoi(argv[i] + 6);
		else
			return EINVAL;
	}

	return control(RXD_CREATE, &arg, "create");
}

static int resize(int argc, char **argv)
{
	struct rxd_resize arg = {
		.version = RXD_ABI_VERSION,
		.flags = argc > 2 ? RXD_RESIZE_FORCE : 0,
		.index = atoi(argv[0]),
		.size = strtoull(argv[1], NULL, 10),
	};

	return control(RXD_RESIZE, &arg, "resize");
}

static int folio(int argc, char **argv)
{
	struct rxd_query arg = {
		.version = RXD_ABI_VERSION,
		.index = atoi(argv[0]),
	};
	int ret;

	(void)argc;
	ret = control(RXD_QUERY, &arg, "query");
	if (!ret)
		printf("%u\n", arg.folio_size);
	return ret;
}

static int drop(int argc, char **argv)
{
	struct rxd_remove arg = {
		.version = RXD_ABI_VERSION,
		.index = atoi(argv[0]),
	};

	(void)argc;
	return control(RXD_REMOVE, &arg, "remove");
}

/* Other trees have neither. */
#ifdef RXD_RESET
static int duplicate(int argc, char **argv)
{
	struct rxd_clone arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_CREATE_OVERCOMMIT | RXD_CLONE_NO_FREEZE,
		.source = atoi(argv[0]),
		.index = atoi(argv[1]),
	};
	int ret;

	(void)argc;
	ret = control(RXD_CLONE, &arg, "clone");
	if (!ret)
		printf("%llu\n", (unsigned long long)arg.held_ns);
	return ret;
}

static int reset(int argc, char **argv)
{
	struct rxd_reset arg = {
		.version = RXD_ABI_VERSION,
		.index = atoi(argv[0]),
		.source = atoi(argv[1]),
	};
	char path[32];
	int ret;

	(void)argc;
	ret = control(RXD_RESET, &arg, "reset");
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "/dev/rxd%d", arg.index);
	return open(path, O_RDWR) < 0 ? failed(path) : 0;
}
#endif

static struct dm_ioctl *request(const char *name)
{
	struct dm_ioctl *dmi = calloc(1, BUFFER);

	if (!dmi)
		exit(failed("calloc"));
	dmi->version[0] = DM_VERSION_MAJOR;
	dmi->data_size = BUFFER;
	dmi->data_start = sizeof(*dmi);
	snprintf(dmi->name, sizeof(dmi->name), "%s", name);
	return dmi;
}

static void *payload(struct dm_ioctl *dmi)
{
	return (char *)dmi + dmi->data_start;
}

static int dm(unsigned long cmd, struct dm_ioctl *dmi, const char *what)
{
	int fd = open("/dev/mapper/control", O_RDWR);
	int ret;

	if (fd < 0)
		return failed("/dev/mapper/control");
	ret = ioctl(fd, cmd, dmi) ? failed(what) : 0;
	close(fd);
	return ret;
}

static int unmap(int argc, char **argv)
{
	(void)argc;
	return dm(DM_DEV_REMOVE, request(argv[0]), "DM_DEV_REMOVE");
}

static int load(int argc, char **argv)
{
	struct dm_ioctl *dmi = request(argv[0]);
	struct dm_target_spec *spec = payload(dmi);

	dmi->target_count = 1;
	spec->length = strtoull(argv[1], NULL, 10);
	snprintf(spec->target_type, sizeof(spec->target_type), "%s",
		 argc > 3 ? argv[3] : "rxcache");
	snprintf((char *)(spec + 1), 1024, "%s", argv[2]);
	return dm(DM_TABLE_LOAD, dmi, "DM_TABLE_LOAD");
}

static int resume(int argc, char **argv)
{
	(void)argc;
	return dm(DM_DEV_SUSPEND, request(argv[0]), "DM_DEV_SUSPEND");
}

static int suspend(int argc, char **argv)
{
	struct dm_ioctl *dmi = request(argv[0]);

	(void)argc;
	dmi->flags = DM_SUSPEND_FLAG;
	return dm(DM_DEV_SUSPEND, dmi, "DM_DEV_SUSPEND");
}

static int map(int argc, char **argv)
{
	int ret;

	ret = dm(DM_DEV_CREATE, request(argv[0]), "DM_DEV_CREATE");
	if (ret)
		return ret;
	ret = load(argc, argv);
	if (!ret)
		ret = resume(argc, argv);
	if (ret)
		unmap(argc, argv);
	return ret;
}

static int print_table(const char *name, unsigned int flags)
{
	struct dm_ioctl *dmi = request(name);
	int ret;

	dmi->flags = flags;
	ret = dm(DM_TABLE_STATUS, dmi, "DM_TABLE_STATUS");
	if (!ret)
		puts((char *)payload(dmi) + sizeof(struct dm_target_spec));
	return ret;
}

static int status(int argc, char **argv)
{
	(void)argc;
	return print_table(argv[0], 0);
}

static int table(int argc, char **argv)
{
	(void)argc;
	return print_table(argv[0], DM_STATUS_TABLE_FLAG);
}

static int message(int argc, char **argv)
{
	struct dm_ioctl *dmi = request(argv[0]);
	struct dm_target_msg *msg = payload(dmi);

	(void)argc;
	snprintf(msg->message, 1024, "%s", argv[1]);
	return dm(DM_TARGET_MSG, dmi, "DM_TARGET_MSG");
}

static int send_text(char *name, const char *text)
{
	char words[64];
	char *argv[2] = { name, words };

	snprintf(words, sizeof(words), "%s", text);
	return message(2, argv);
}

static int disturb(int argc, char **argv)
{
	unsigned int round;
	int i, ret;

	for (round = 1; access(argv[0], F_OK); round++) {
		for (i = 1; i < argc; i++) {
			ret = send_text(argv[i], "drop");
			if (!ret)
				ret = send_text(argv[i], round % 2 ? "advise on" : "advise off");
			if (!ret)
				ret = dm(DM_TABLE_STATUS, request(argv[i]), "DM_TABLE_STATUS");
			if (!ret)
				ret = suspend(1, argv + i);
			if (!ret)
				ret = resume(1, argv + i);
			if (ret)
				return ret;
			usleep(200000);
		}
	}
	return 0;
}

static const struct {
	const char *name;
	int min_args;
	int (*fn)(int argc, char **argv);
} commands[] = {
	{ "create", 2, create },
	{ "folio", 1, folio },
	{ "resize", 2, resize },
	{ "remove", 1, drop },
#ifdef RXD_RESET
	{ "clone", 2, duplicate },
	{ "reset", 2, reset },
#endif
	{ "map", 3, map },
	{ "load", 3, load },
	{ "unmap", 1, unmap },
	{ "status", 1, status },
	{ "table", 1, table },
	{ "message", 2, message },
	{ "suspend", 1, suspend },
	{ "resume", 1, resume },
	{ "disturb", 2, disturb },
};

static unsigned long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	int timed = argc > 1 && !strcmp(argv[1], "timed");
	unsigned long long begin;
	unsigned int i;
	int ret;

	argc -= timed;
	argv += timed;
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (argc < 2 || strcmp(argv[1], commands[i].name) ||
		    argc - 2 < commands[i].min_args)
			continue;
		begin = now();
		ret = commands[i].fn(argc - 2, argv + 2);
		if (timed && !ret)
			printf("%llu\n", now() - begin);
		return ret;
	}
	fprintf(stderr, "rxdctl: bad command line\n");
	return 255;
}
