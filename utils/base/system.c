// SPDX-License-Identifier: GPL-2.0-only
/*
 * Query the system (memory, privileges, paths, modules), read the reason of an error from the
 * kernel log, run other programs, and wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "copy/clock.h"

#define RECORD_MAX	8192	/* the kernel's limit */

/**
 * kmsg_open - open the kernel log at its end
 *
 * Return: a descriptor that reads only later messages, or -1.
 */
int kmsg_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/* Return TEXT of "PRIORITY,SEQUENCE,...;TEXT" without the lines after it, or NULL. */
static char *text_of(char *record)
{
	record[strcspn(record, "\n")] = '\0';
	record = strchr(record, ';');
	return record ? record + 1 : NULL;
}

/*
 * Return REASON of "device-mapper: table: 253:0: TARGET: REASON (-ERRNO)" or, if the target logged
 * the message, of "device-mapper: TARGET: REASON"; otherwise return NULL.
 */
static char *target_reason(char *text, const char *target)
{
	static const char origin[] = "device-mapper: ";
	char *errno_text;
	char *prefix;
	char *reason;

	if (strncmp(text, origin, strlen(origin)))
		return NULL;
	prefix = format_text(": %s: ", target);
	reason = strstr(text, prefix);
	if (reason)
		reason += strlen(prefix);
	free(prefix);
	if (!reason)
		return NULL;
	errno_text = strstr(reason, " (-E");
	if (errno_text)
		*errno_text = '\0';
	return reason;
}

/* Return REASON of "MODULE: REASON", or NULL. The kernel writes '_' for '-' in @module. */
static char *module_reason(char *text, const char *module)
{
	size_t i;

	for (i = 0; module[i]; i++)
		if (text[i] != (module[i] == '-' ? '_' : module[i]))
			return NULL;
	return strncmp(text + i, ": ", 2) ? NULL : text + i + 2;
}

static char *last_reason(int fd, const char *name,
			 char *(*reason_of)(char *text, const char *name))
{
	char record[RECORD_MAX + 1];
	char *last = NULL;
	char *reason;
	ssize_t len;

	if (fd < 0)
		return NULL;
	for (;;) {
		len = read(fd, record, RECORD_MAX);
		if (len < 0 && errno == EPIPE)	/* records were overwritten: continue */
			continue;
		if (len <= 0)
			return last;
		record[len] = '\0';
		reason = text_of(record);
		if (reason)
			reason = reason_of(reason, name);
		if (reason) {
			free(last);
			last = copy_text(reason);
		}
	}
}

/**
 * kmsg_target_error - return the last error that was logged for a target
 * @fd: what kmsg_open() returned; -1 is allowed
 * @target: the target
 *
 * Return: allocated text, or NULL.
 */
char *kmsg_target_error(int fd, const char *target)
{
	return last_reason(fd, target, target_reason);
}

/* Return: the last line that a module logged, as allocated text, or NULL. */
static char *kmsg_module_error(int fd, const char *module)
{
	return last_reason(fd, module, module_reason);
}

#define EXIT_NOT_RUN	127

/**
 * program_find - find a program of the system
 * @name: its name
 *
 * Return: allocated path, or NULL if there is none.
 */
char *program_find(const char *name)
{
	static const char *const folders[] = { "/usr/sbin", "/usr/bin", "/sbin", "/bin" };
	char *path;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(folders); i++) {
		path = format_text("%s/%s", folders[i], name);
		if (!access(path, X_OK))
			return path;
		free(path);
	}
	return NULL;
}

static void become(char *const argv[], int output, pid_t parent)
{
	static char *const environment[] = {
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL
	};
	int input = open("/dev/null", O_RDONLY);

	/* Kill the program if rxadm dies, because no process waits for it then. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && input >= 0 && dup2(input, STDIN_FILENO) >= 0 &&
	    dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)
		execve(argv[0], argv, environment);
	dprintf(STDERR_FILENO, "%s", strerror(errno));
	_exit(EXIT_NOT_RUN);
}

/* Read a descriptor to its end, and return the last line that is not empty, without newline. */
static char *last_line(int fd)
{
	FILE *file = fdopen(fd, "r");
	char *text = NULL;
	char *last = NULL;
	size_t size = 0;

	if (!file) {
		close(fd);
		return NULL;
	}
	while (getline(&text, &size, file) > 0) {
		text[strcspn(text, "\n")] = '\0';
		if (!*text)
			continue;
		free(last);
		last = copy_text(text);
	}
	free(text);
	fclose(file);
	return last;
}

/**
 * program_run - run a program and wait for it; kill it if this process dies
 * @argv: its path and its arguments
 *
 * Return: NULL if it succeeded, or allocated text with the reason why not.
 */
char *program_run(char *const argv[])
{
	pid_t parent = getpid();
	char *reason;
	int status;
	pid_t pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return format_text("cannot create a pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (!pid)
		become(argv, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return format_text("cannot start a process: %s", strerror(errno));
	}

	reason = last_line(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		free(reason);
		return NULL;
	}
	return reason ? reason : copy_text("no reason was given");
}

#define MODPROBE	"/sbin/modprobe"

static char *read_until(const char *path, int end)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&text, &size, end, file) < 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

/**
 * whole_file - read a file of text
 * @path: the file
 *
 * Return: allocated text up to the first NUL, or NULL.
 */
char *whole_file(const char *path)
{
	return read_until(path, '\0');
}

/**
 * first_line - read the first line of a file in sysfs or /proc
 * @path: the file
 *
 * Return: allocated text without its newline, or NULL.
 */
char *first_line(const char *path)
{
	char *line = read_until(path, '\n');

	if (line)
		line[strcspn(line, "\n")] = '\0';
	return line;
}

/**
 * system_ram - return the memory of the machine in bytes, as the kernel counts it
 */
uint64_t system_ram(void)
{
	struct sysinfo info;

	sysinfo(&info);
	return (uint64_t)info.totalram * info.mem_unit;
}

/**
 * system_ram_available - return the memory that programs can still get, in bytes
 */
uint64_t system_ram_available(void)
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
 * system_nodes - list the NUMA nodes that have memory
 *
 * Return: allocated text such as "0-1,4", or NULL if the kernel knows no nodes.
 */
char *system_nodes(void)
{
	return first_line("/sys/devices/system/node/has_memory");
}

/* Return true if a NUMA node exists, with or without memory. */
bool system_has_node(int node)
{
	char *path = format_text("/sys/devices/system/node/node%d", node);
	bool found = !access(path, F_OK);

	free(path);
	return found;
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

/* Report why modprobe failed, with the message of the module if it logged one. */
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

/* Resolve the symbolic links in the folder of a path, but not in its last component. */
static char *real_path(const char *path)
{
	char *copy = copy_text(path);
	char *folder = realpath(dirname(copy), NULL);
	const char *name = strrchr(path, '/');
	char *text = folder ? format_text("%s/%s", folder, name ? name + 1 : path) :
			      copy_text(path);

	free(folder);
	free(copy);
	return text;
}

/**
 * path_is_same - return whether two paths name the same entry of the same folder
 * @path: a path
 * @other: another path
 *
 * A symbolic link is not followed if it is the last component of a path.
 */
bool path_is_same(const char *path, const char *other)
{
	char *one = real_path(path);
	char *two = real_path(other);
	bool same = !strcmp(one, two);

	free(one);
	free(two);
	return same;
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

/* Sleep for 50 ms, to poll for something that sends no event. */
void pause_briefly(void)
{
	const struct timespec interval = { .tv_nsec = 50 * 1000 * 1000 };

	nanosleep(&interval, NULL);
}

#define TOLD_ROUND	40	/* two seconds */
#define BUSY_ROUNDS	20	/* one second */

static uint64_t shared_time, waited, last_look;	/* nanoseconds */

/* The waits that follow for devices that unknown processes have open take ten seconds in all. */
void waits_share(void)
{
	shared_time = UINT64_C(10000000000);
	waited = 0;
}

/**
 * wait_is_over - return whether to give up a device that an unknown process has open
 * @round: number of this call in this wait
 *
 * udev probes a device after it was written, for less than a second. So any wait has some rounds.
 */
bool wait_is_over(unsigned int round)
{
	const uint64_t now = copy_clock();

	waited += round > 1 ? now - last_look : 0;
	last_look = now;
	return round >= BUSY_ROUNDS && waited >= shared_time;
}

static bool all_waits;

/* From now on, report each wait when it begins, and how long writes were held. */
void waits_tell(void)
{
	all_waits = true;
}

bool waits_are_told(void)
{
	return all_waits;
}

/**
 * wait_is_told - return whether to report a wait now: when it begins, or after two seconds
 * @round: number of calls of pause_briefly() in this wait
 */
bool wait_is_told(unsigned int round)
{
	return round == (all_waits ? 0 : TOLD_ROUND);
}

/**
 * pause_for - pause briefly in a wait, and report the wait if wait_is_told() says so
 * @round: number of pauses before this one in this wait
 * @format: the purpose of the wait, which follows "waiting "
 */
void pause_for(unsigned int round, const char *format, ...)
{
	va_list args;
	char *what;

	if (wait_is_told(round)) {
		va_start(args, format);
		what = format_list(format, args);
		va_end(args);
		report(EXIT_OK, "waiting %s", what);
		free(what);
	}
	pause_briefly();
}
