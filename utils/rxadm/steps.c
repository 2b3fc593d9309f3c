// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes of a tree such as configfs, in their order.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "steps.h"

/**
 * steps_add - add a step to the end
 * @steps: the steps
 * @kind: what to do
 * @path: allocated, from now on the steps's
 * @value: allocated, or NULL, from now on the steps's
 *
 * Return: the step, which stays there until the next is added.
 */
struct step *steps_add(struct steps *steps, enum step_kind kind, char *path, char *value)
{
	steps->list = resize_array(steps->list, steps->count + 1, sizeof(*steps->list));
	steps->list[steps->count] = (struct step){ .kind = kind, .path = path, .value = value };
	return &steps->list[steps->count++];
}

/* Return: 0 or an errno. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t length = strlen(text);
	ssize_t done;
	int err = 0;

	if (fd < 0)
		return errno;
	done = write(fd, text, length);
	if (done < 0)
		err = errno;
	else if ((size_t)done != length)
		err = EIO;
	if (close(fd) && !err)
		err = errno;
	return err;
}

/* Whoever dies between the two leaves the record of a folder that is not there. */
static int make(const struct step *step)
{
	int err;

	/* A link, and not a file, as it comes into being together with what it says. */
	if (step->record && symlink(step->note, step->record))
		return errno;
	if (!mkdir(step->path, 0755))
		return 0;
	err = errno;
	if (step->record)
		unlink(step->record);
	return err;
}

static int remove_folder(const struct step *step)
{
	if (rmdir(step->path) && errno != ENOENT)
		return errno;
	if (step->record && unlink(step->record) && errno != ENOENT)
		return errno;
	return 0;
}

static int run_step(const struct step *step)
{
	switch (step->kind) {
	case STEP_MAKE:
		return make(step);
	case STEP_WRITE:
		return write_text(step->path, step->value);
	case STEP_MODE:
		return chmod(step->path, strtoul(step->value, NULL, 8)) ? errno : 0;
	case STEP_LINK:
		return symlink(step->value, step->path) ? errno : 0;
	case STEP_UNLINK:
		return unlink(step->path) && errno != ENOENT ? errno : 0;
	case STEP_REMOVE:
		return remove_folder(step);
	}
	return EINVAL;
}

/**
 * steps_run - make the changes, up to the first that fails
 * @steps: the changes
 * @failed: out: the step that failed, if one did
 *
 * Return: 0 or an errno.
 */
int steps_run(const struct steps *steps, const struct step **failed)
{
	size_t i;
	int err;

	for (i = 0; i < steps->count; i++) {
		err = run_step(&steps->list[i]);
		if (err) {
			*failed = &steps->list[i];
			return err;
		}
	}
	return 0;
}

static void print_step(const struct step *step)
{
	switch (step->kind) {
	case STEP_MAKE:
		printf("mkdir '%s'\n", step->path);
		break;
	case STEP_WRITE:
		if (step->source)
			printf("cat '%s' > '%s'\n", step->source, step->path);
		else
			printf("echo '%s' > '%s'\n", step->value, step->path);
		break;
	case STEP_MODE:
		printf("chmod %s '%s'\n", step->value, step->path);
		break;
	case STEP_LINK:
		printf("ln -s '%s' '%s'\n", step->value, step->path);
		break;
	case STEP_UNLINK:
		printf("rm '%s'\n", step->path);
		break;
	case STEP_REMOVE:
		printf("rmdir '%s'\n", step->path);
		break;
	}
}

/* As shell commands. */
void steps_print(const struct steps *steps)
{
	size_t i;

	for (i = 0; i < steps->count; i++)
		print_step(&steps->list[i]);
}

void steps_free(struct steps *steps)
{
	size_t i;

	for (i = 0; i < steps->count; i++) {
		free(steps->list[i].path);
		free(steps->list[i].value);
		free(steps->list[i].record);
		free(steps->list[i].note);
	}
	free(steps->list);
	*steps = (struct steps){ 0 };
}
