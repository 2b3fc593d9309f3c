// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the machine allows: memory, privilege, modules, one change at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "kmsg.h"
#include "machine.h"
#include "program.h"

#define LOCK_FILE	"/run/rxadm.lock"
#define MODPROBE	"/sbin/modprobe"

#define WAIT_ROUNDS	40	/* of pause_briefly(), until a wait is announced: 2 seconds */

/* Never closed: that would end all locks that the process has. */
static int lock_fd = -1;

/**
 * machine_ram - memory of the machine in bytes, as the kernel counts it
 */
uint64_t machine_ram(void)
{
	struct sysinfo info;

	sysinfo(&info);
	return (uint64_t)info.totalram * info.mem_unit;
}

/**
 * machine_available - memory that programs could still get, in bytes
 */
uint64_t machine_available(void)
{
	unsigned long long kib = 0;
	char *line = NULL;
	size_t size = 0;
	FILE *file;

	file = fopen("/proc/meminfo", "re");
	if (!file)
		return 0;
	while (getline(&line, &size, file) > 0)
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	free(line);
	fclose(file);
	return kib * 1024;
}

/**
 * machine_nodes - the NUMA nodes that have memory
 *
 * Return: allocated text such as "0-1,4", or NULL if the kernel knows no nodes.
 */
char *machine_nodes(void)
{
	char *line = NULL;
	size_t size = 0;
	FILE *file;

	file = fopen("/sys/devices/system/node/has_memory", "re");
	if (!file)
		return NULL;
	if (getline(&line, &size, file) < 0) {
		free(line);
		line = NULL;
	} else {
		line[strcspn(line, "\n")] = '\0';
	}
	fclose(file);
	return line;
}

/**
 * privilege_check - report unless this process has CAP_SYS_ADMIN
 */
enum exit_code privilege_check(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (!syscall(SYS_capget, &header, data) &&
	    data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN))
		return EXIT_OK;
	return report(EXIT_PERMISSION,
		      "user id %u lacks the privilege CAP_SYS_ADMIN; run rxadm as root", geteuid());
}

bool module_is_loaded(const char *name)
{
	char *path = format_text("/sys/module/%s", name);
	bool loaded = !access(path, F_OK);

	free(path);
	return loaded;
}

/* Why modprobe failed: what the module logged, or else what modprobe said. */
static enum exit_code load_error(const char *name, const char *reason, int kmsg)
{
	char *logged = kmsg_module_error(kmsg, name);
	enum exit_code ret;

	if (logged)
		ret = report(EXIT_DEVICE,
			     "the module %s is not loaded, and 'modprobe %s' failed: %s; the kernel log says: %s",
			     name, name, reason, logged);
	else if (strstr(reason, " not found"))
		ret = report(EXIT_DEVICE,
			     "the module %s is not loaded, and 'modprobe %s' failed: %s; install the package rxd-dkms, or run 'make install', for this kernel",
			     name, name, reason);
	else
		ret = report(EXIT_DEVICE,
			     "the module %s is not loaded, and 'modprobe %s' failed: %s", name,
			     name, reason);
	free(logged);
	return ret;
}

/**
 * module_load - load a module with modprobe, or report why not
 * @name: module, as modprobe calls it
 */
enum exit_code module_load(const char *name)
{
	char *const argv[] = { MODPROBE, "--", (char *)name, NULL };
	enum exit_code ret = EXIT_OK;
	int kmsg = kmsg_open();
	char *reason;

	reason = program_run(argv);
	if (reason)
		ret = load_error(name, reason, kmsg);
	free(reason);
	if (kmsg >= 0)
		close(kmsg);
	return ret;
}

/* Each lock is a byte of the file, so that nothing has to be made or removed for one. */
static enum exit_code lock_byte(off_t at, const char *what)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = at, .l_len = 1 };
	struct flock holder = lock;
	unsigned int round = 0;

	if (lock_fd < 0)
		lock_fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0)
		return report(exit_code_of(errno), "cannot open " LOCK_FILE ": %s",
			      strerror(errno));
	while (fcntl(lock_fd, F_SETLK, &lock)) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return report(EXIT_DEVICE, "cannot lock " LOCK_FILE ": %s",
				      strerror(errno));
		if (++round == WAIT_ROUNDS && !fcntl(lock_fd, F_GETLK, &holder) &&
		    holder.l_type != F_UNLCK)
			report(EXIT_OK, "waiting for process %d, which is changing %s",
			       (int)holder.l_pid, what);
		pause_briefly();
	}
	return EXIT_OK;
}

static void unlock_byte(off_t at)
{
	struct flock lock = { .l_type = F_UNLCK, .l_start = at, .l_len = 1 };

	fcntl(lock_fd, F_SETLK, &lock);
}

/* The first byte is that of all. */
static off_t byte_of(uint64_t key)
{
	return key % INT64_MAX | 1;
}

/**
 * lock_take - wait until no other rxadm changes anything
 *
 * The lock is held until lock_give(), or until the process ends. What may take long, or
 * waits for a disk, must not hold it: lock_take_one() is for that.
 */
enum exit_code lock_take(void)
{
	return lock_byte(0, "a RAM disk, a cache or an export");
}

void lock_give(void)
{
	unlock_byte(0);
}

/**
 * lock_take_one - wait until no other rxadm changes one thing
 * @key: a number made of its identity
 * @what: its name
 *
 * The lock is held until lock_give_one(), or until the process ends.
 */
enum exit_code lock_take_one(uint64_t key, const char *what)
{
	return lock_byte(byte_of(key), what);
}

void lock_give_one(uint64_t key)
{
	unlock_byte(byte_of(key));
}

static void change_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGPIPE);
	sigprocmask(how, &set, NULL);
}

/* Until signals_allow(), the user's signals wait, so that a change ends whole. */
void signals_block(void)
{
	change_mask(SIG_BLOCK);
}

void signals_allow(void)
{
	change_mask(SIG_UNBLOCK);
}

/* A twentieth of a second, to wait for something that sends no event. */
void pause_briefly(void)
{
	const struct timespec interval = { .tv_nsec = 50 * 1000 * 1000 };

	nanosleep(&interval, NULL);
}
