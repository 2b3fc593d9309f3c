// SPDX-License-Identifier: GPL-2.0-only
/*
 * Running other programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define EXIT_NOT_RUN	127

/**
 * program_find - where a program of the system is
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

	/* It must not go on with what nobody waits for any more. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && input >= 0 && dup2(input, STDIN_FILENO) >= 0 &&
	    dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)
		execve(argv[0], argv, environment);
	dprintf(STDERR_FILENO, "%s", strerror(errno));
	_exit(EXIT_NOT_RUN);
}

/* The last line that comes from a descriptor, without its newline. */
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
 * program_run - run a program and wait for it; it dies if this process does
 * @argv: its path and its arguments
 *
 * Return: NULL if it ended well, or allocated text that says why it did not.
 */
char *program_run(char *const argv[])
{
	pid_t parent = getpid();
	char *reason;
	int status;
	pid_t pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return format_text("cannot make a pipe: %s", strerror(errno));
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
	return reason ? reason : copy_text("it gave no reason");
}
