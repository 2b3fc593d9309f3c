// SPDX-License-Identifier: GPL-2.0-only
/*
 * Undoing what a process that may be killed leaves half done.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"
#include "machine.h"

#define UNDO_ROUNDS	100	/* of pause_briefly(): five seconds */

/* The guard's answer to what it was asked to make. */
struct answer {
	int err;
	struct rxd_create arg;
};

static int undo_create(const struct guard *guard)
{
	struct rxd_remove arg = { .version = RXD_ABI_VERSION, .index = guard->index };
	unsigned int round = 0;

	while (ioctl(guard->fd, RXD_REMOVE, &arg)) {
		if (errno == ENODEV)
			return 0;
		/* udev may be looking into it. */
		if (errno != EBUSY || ++round == UNDO_ROUNDS)
			return errno;
		pause_briefly();
	}
	return 0;
}

static int undo_fill(const struct guard *guard)
{
	uint64_t range[] = { 0, guard->size };

	if (guard->record)
		unlink(guard->record);
	if (!fallocate(guard->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, guard->size) ||
	    !ioctl(guard->fd, BLKZEROOUT, range))
		return 0;
	return errno;
}

static int undo(const struct guard *guard)
{
	return guard->size ? undo_fill(guard) : undo_create(guard);
}

/* A disk that is to be removed must not be open, and one to be emptied only here. */
static void close_others(int one, int two)
{
	int low = one < two ? one : two;
	int high = one < two ? two : one;

	if (low > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0U, 0);
}

/* Away from the terminal, its signals, and the pipes that somebody waits for. */
static void detach(const struct guard *guard)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	close_others(guard->fd, guard->socket);
}

static _Noreturn void stand_guard(struct guard *guard, const struct rxd_create *create)
{
	struct answer answer = { 0 };
	ssize_t ret;
	char word;

	if (create) {
		answer.arg = *create;
		answer.err = ioctl(guard->fd, RXD_CREATE, &answer.arg) ? errno : 0;
		guard->index = answer.arg.index;
	}
	send(guard->socket, &answer, sizeof(answer), MSG_NOSIGNAL);
	if (answer.err)
		_exit(0);
	do {
		ret = recv(guard->socket, &word, sizeof(word), 0);
	} while (ret < 0 && errno == EINTR);
	/* The end of the other process is no word. */
	_exit(ret == sizeof(word) ? 0 : undo(guard));
}

static int start(struct guard *guard, struct rxd_create *create)
{
	struct answer answer;
	int sockets[2];
	ssize_t ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return errno;
	guard->process = fork();
	if (guard->process < 0) {
		close(sockets[0]);
		close(sockets[1]);
		return errno;
	}
	guard->socket = sockets[!guard->process];
	close(sockets[!!guard->process]);
	if (!guard->process) {
		detach(guard);
		stand_guard(guard, create);
	}

	do {
		ret = recv(guard->socket, &answer, sizeof(answer), 0);
	} while (ret < 0 && errno == EINTR);
	if (ret != sizeof(answer))
		answer.err = ECHILD;
	if (answer.err) {
		close(guard->socket);
		waitpid(guard->process, NULL, 0);
		return answer.err;
	}
	if (create) {
		*create = answer.arg;
		guard->index = answer.arg.index;
	}
	return 0;
}

/**
 * guard_create - make a RAM disk that goes unless guard_keep() is called
 * @guard: out
 * @control: the control node
 * @arg: in and out, as RXD_CREATE takes it
 *
 * Return: 0 or an errno.
 */
int guard_create(struct guard *guard, int control, struct rxd_create *arg)
{
	*guard = (struct guard){ .fd = control };
	return start(guard, arg);
}

/**
 * guard_empty - see that an empty RAM disk is so again unless guard_keep() is called
 * @guard: out
 * @disk: the disk, open for oneself; the guard keeps it so until it ends
 * @size: its bytes
 * @record: a file that speaks of what the disk holds, and goes before that does, or NULL
 *
 * Return: 0 or an errno.
 */
int guard_empty(struct guard *guard, int disk, uint64_t size, const char *record)
{
	*guard = (struct guard){ .fd = disk, .size = size, .record = record };
	return start(guard, NULL);
}

/* Return: whether the guard ended as it should. */
static bool end(struct guard *guard)
{
	int status;

	close(guard->socket);
	while (waitpid(guard->process, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/**
 * guard_keep - all is done: let it stay
 * @guard: the guard, which ends
 */
void guard_keep(struct guard *guard)
{
	char word = 1;

	send(guard->socket, &word, sizeof(word), MSG_NOSIGNAL);
	end(guard);
}

/**
 * guard_undo - undo it now, and wait until that is done
 * @guard: the guard, which ends
 *
 * A disk that is to be removed must be closed before, one to be emptied open.
 */
void guard_undo(struct guard *guard)
{
	if (!end(guard))
		undo(guard);
}
