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
#include "plan.h"

/**
 * plan_add - add a step to the end
 * @plan: the plan
 * @kind: what to do
 * @path: allocated, from now on the plan's
 * @value: allocated, or NULL, from now on the plan's
 *
 * Return: the step, which stays there until the next is added.
 */
struct step *plan_add(struct plan *plan, enum step_kind kind, char *path, char *value)
{
	plan->steps = resize_array(plan->steps, plan->count + 1, sizeof(*plan->steps));
	plan->steps[plan->count] = (struct step){ .kind = kind, .path = path, .value = value };
	return &plan->steps[plan->count++];
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
 * plan_run - make the changes, up to the first that fails
 * @plan: the changes
 * @failed: out: the step that failed, if one did
 *
 * Return: 0 or an errno.
 */
int plan_run(const struct plan *plan, const struct step **failed)
{
	size_t i;
	int err;

	for (i = 0; i < plan->count; i++) {
		err = run_step(&plan->steps[i]);
		if (err) {
			*failed = &plan->steps[i];
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
void plan_print(const struct plan *plan)
{
	size_t i;

	for (i = 0; i < plan->count; i++)
		print_step(&plan->steps[i]);
}

void plan_free(struct plan *plan)
{
	size_t i;

	for (i = 0; i < plan->count; i++) {
		free(plan->steps[i].path);
		free(plan->steps[i].value);
		free(plan->steps[i].record);
		free(plan->steps[i].note);
	}
	free(plan->steps);
	*plan = (struct plan){ 0 };
}
