// SPDX-License-Identifier: GPL-2.0-only
/*
 * Display of 'rxadm top': compute rates from two readings of counters, redraw the terminal,
 * and wait for a key, a signal or a new size of the terminal. Without a terminal, wait for
 * signals only.
 */
#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "output/screen.h"

/* A counter that decreased was reset to zero in between. */
static double grown(uint64_t before, uint64_t after)
{
	return after < before ? after : after - before;
}

/**
 * rates_between - compute the rates between two readings
 * @before: the first
 * @after: the second
 * @seconds: time between them, more than 0
 */
struct rates rates_between(const struct counts *before, const struct counts *after,
			   double seconds)
{
	const struct iostat *from = &before->io, *to = &after->io;
	double reads = grown(from->requests[IO_READ], to->requests[IO_READ]);
	double writes = grown(from->requests[IO_WRITE], to->requests[IO_WRITE]);
	double hits = grown(before->hits, after->hits);
	double misses = grown(before->misses, after->misses);
	struct rates rates = {
		.reads = reads / seconds,
		.writes = writes / seconds,
		.read_bytes = grown(from->bytes[IO_READ], to->bytes[IO_READ]) / seconds,
		.write_bytes = grown(from->bytes[IO_WRITE], to->bytes[IO_WRITE]) / seconds,
		.has_latency = reads + writes > 0,
		.has_hits = hits + misses > 0,
		.given_back = grown(before->given_back, after->given_back) / seconds,
		.taken = grown(before->taken, after->taken) / seconds,
	};

	if (rates.has_latency)
		rates.latency_us = grown(from->ms[IO_READ] + from->ms[IO_WRITE],
					 to->ms[IO_READ] + to->ms[IO_WRITE]) * 1000 /
				   (reads + writes);
	if (rates.has_hits)
		rates.hit_percent = 100 * hits / (hits + misses);
	return rates;
}

static struct {
	SCREEN *curses;		/* NULL: no terminal */
	bool keys;		/* standard input is a terminal, too */
	int signals;
} screen = { .signals = -1 };

/* Restore the terminal. The next refresh() takes it over again and redraws all of it. */
static void leave(void)
{
	if (screen.curses && !isendwin())
		endwin();
}

static void close_terminal(void)
{
	leave();
	if (screen.curses)
		delscreen(screen.curses);
	screen.curses = NULL;
}

static enum exit_code open_terminal(void)
{
	const char *type = getenv("TERM");

	/* Set only LC_CTYPE: numbers stay in the C locale. */
	setlocale(LC_CTYPE, "");
	screen.curses = newterm(NULL, stdout, stdin);
	if (screen.curses && !tigetstr("cup"))
		close_terminal();
	if (!screen.curses)
		return report(EXIT_PARAMETERS,
			      "cannot draw on a terminal of type '%s' (TERM); --batch prints lines",
			      type ? type : "");
	screen.keys = isatty(STDIN_FILENO);
	cbreak();
	noecho();
	nodelay(stdscr, true);
	curs_set(0);
	return EXIT_OK;
}

/**
 * screen_open - block the user's signals, and take over the terminal
 * @terminal: draw on the terminal; false: signals only
 *
 * screen_close() releases the terminal again.
 */
enum exit_code screen_open(bool terminal)
{
	enum exit_code ret = EXIT_OK;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, SIGWINCH);
	/* Block them: with the handlers of ncurses, a signal just before poll() would be missed. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	screen.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (screen.signals < 0)
		return report(exit_code_of(errno), "cannot wait for signals: %s", strerror(errno));
	report_before(leave);
	if (terminal)
		ret = open_terminal();
	if (ret)
		screen_close();
	return ret;
}

void screen_close(void)
{
	close_terminal();
	report_before(NULL);
	close(screen.signals);
}

/* A process in the background gets no SIGWINCH, so the size may have changed meanwhile. */
static void take_size(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
}

static int count_lines(const char *text)
{
	int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

/* A line that is too long wraps; the next line overwrites the wrapped part. */
static void put_line(int row, const char *text, size_t length)
{
	mvaddnstr(row, 0, text, length);
	clrtoeol();
}

/**
 * screen_draw - redraw the terminal
 * @title: the first line
 * @text: the other lines; if they do not fit, the last row says how many are left out
 */
void screen_draw(const char *title, const char *text)
{
	int lines = count_lines(text);
	int row = 0;
	size_t length;

	take_size();
	put_line(row++, title, strlen(title));
	while (lines && (row < LINES - 1 || (lines == 1 && row < LINES))) {
		length = strcspn(text, "\n");
		put_line(row++, text, length);
		text += length + 1;
		lines--;
	}
	if (lines && row < LINES) {
		mvprintw(row++, 0, "... %d more", lines);
		clrtoeol();
	}
	if (move(row, 0) == OK)
		clrtobot();
	refresh();
}

static bool read_signal(enum screen_event *event)
{
	struct signalfd_siginfo info;

	if (read(screen.signals, &info, sizeof(info)) != sizeof(info))
		return false;
	switch (info.ssi_signo) {
	case SIGTSTP:
		/* Restore the terminal before stopping, as the shell expects. */
		leave();
		raise(SIGSTOP);
		return false;
	case SIGCONT:
		leave();
		*event = SCREEN_RESIZED;
		return screen.curses;
	case SIGWINCH:
		*event = SCREEN_RESIZED;
		return screen.curses;
	default:
		*event = SCREEN_QUIT;
		return true;
	}
}

/* If poll() reported a key but there is none, the terminal has hung up. */
static bool read_key(enum screen_event *event)
{
	int key = getch();

	if (key != ERR && key != 'q' && key != 'Q')
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
 * screen_wait - wait for an event
 * @seconds: timeout
 */
enum screen_event screen_wait(double seconds)
{
	double end = now() + seconds;
	struct pollfd fds[] = {
		{ .fd = screen.signals, .events = POLLIN },
		{ .fd = screen.curses && screen.keys ? STDIN_FILENO : -1, .events = POLLIN },
		/* poll() always reports POLLHUP. */
		{ .fd = screen.curses ? STDOUT_FILENO : -1 },
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
		if (fds[2].revents)
			return SCREEN_QUIT;
	}
}
