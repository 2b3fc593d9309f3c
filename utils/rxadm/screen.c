// SPDX-License-Identifier: GPL-2.0-only
/*
 * A terminal that is drawn anew from time to time, and waiting that keys, signals and
 * another size of the terminal end. Without a terminal there are the signals only.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"

/* Another screen, no cursor, no wrapping of long lines; and back. */
#define ENTER	"\033[?1049h\033[?25l\033[?7l"
#define LEAVE	"\033[?7h\033[?25h\033[?1049l"
#define HOME	"\033[H"
#define CLEAR_TO_END_OF_LINE	"\033[K"
#define CLEAR_TO_END	"\033[J"

#define DEFAULT_ROWS	24

static struct {
	bool terminal;
	bool taken;
	bool keys;		/* they come from this terminal, too */
	struct termios before;
	int signals;
} screen = { .signals = -1 };

static void enter(void)
{
	struct termios raw = screen.before;

	if (!screen.terminal)
		return;
	screen.taken = true;
	if (screen.keys) {
		raw.c_lflag &= ~(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs(ENTER, stdout);
	fflush(stdout);
}

static void leave(void)
{
	if (!screen.taken)
		return;
	screen.taken = false;
	if (screen.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
	fputs(LEAVE, stdout);
	fflush(stdout);
}

/**
 * screen_open - take over the terminal, if there is one, and the user's signals
 * @terminal: draw on it
 *
 * To be undone by screen_close().
 */
enum exit_code screen_open(bool terminal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	screen.signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (screen.signals < 0)
		return report(exit_code_of(errno), "cannot wait for signals: %s", strerror(errno));
	screen.terminal = terminal;
	screen.keys = terminal && !tcgetattr(STDIN_FILENO, &screen.before);
	report_before(leave);
	enter();
	return EXIT_OK;
}

void screen_close(void)
{
	leave();
	report_before(NULL);
	close(screen.signals);
}

static unsigned int rows_there_are(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row)
		return DEFAULT_ROWS;
	return size.ws_row;
}

static unsigned int count_lines(const char *text)
{
	unsigned int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void put_line(const char *text, size_t length)
{
	printf("%.*s" CLEAR_TO_END_OF_LINE, (int)length, text);
}

/**
 * screen_draw - replace what the terminal shows
 * @title: its first line
 * @text: the others; where they are too many, a line says so in place of the last
 */
void screen_draw(const char *title, const char *text)
{
	unsigned int rows = rows_there_are();
	unsigned int lines = count_lines(text);
	unsigned int shown = lines < rows ? lines : rows - 1;
	unsigned int i;
	size_t length;

	if (shown < lines && shown)
		shown--;
	fputs(HOME, stdout);
	put_line(title, strlen(title));
	for (i = 0; i < shown; i++) {
		length = strcspn(text, "\n");
		putchar('\r');
		putchar('\n');
		put_line(text, length);
		text += length + 1;
	}
	if (shown < lines && rows > 1)
		printf("\r\n... %u more" CLEAR_TO_END_OF_LINE, lines - shown);
	fputs(CLEAR_TO_END, stdout);
	fflush(stdout);
}

/* As the shell expects it: stopped with the terminal as it was. */
static void stop(void)
{
	leave();
	raise(SIGSTOP);
	enter();
}

static bool read_signal(enum screen_event *event)
{
	struct signalfd_siginfo info;

	if (read(screen.signals, &info, sizeof(info)) != sizeof(info))
		return false;
	switch (info.ssi_signo) {
	case SIGTSTP:
		stop();
		*event = SCREEN_RESIZED;
		return true;
	case SIGWINCH:
		*event = SCREEN_RESIZED;
		return screen.terminal;
	default:
		*event = SCREEN_QUIT;
		return true;
	}
}

static bool read_key(enum screen_event *event)
{
	char key;

	if (read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q')
		return false;
	*event = SCREEN_QUIT;
	return true;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/**
 * screen_wait - wait for the next thing that matters
 * @seconds: how long at most
 */
enum screen_event screen_wait(double seconds)
{
	double end = now() + seconds;
	struct pollfd fds[] = {
		{ .fd = screen.signals, .events = POLLIN },
		{ .fd = screen.keys ? STDIN_FILENO : -1, .events = POLLIN },
	};
	enum screen_event event;
	double left;

	for (;;) {
		left = end - now();
		if (left <= 0 || !poll(fds, ARRAY_SIZE(fds), left * 1000 + 1))
			return SCREEN_TIME;
		if (fds[0].revents && read_signal(&event))
			return event;
		if (fds[1].revents && read_key(&event))
			return event;
	}
}
