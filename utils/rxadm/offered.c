// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether a device is offered by the kernel's NVMe target, and as it is meant to be.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmet.h"
#include "subject.h"

/**
 * export_find - find out whether a device is exported
 * @device: its path
 * @state: out: what there is, to be released by export_state_release()
 */
enum exit_code export_find(const char *device, struct export_state *state)
{
	struct nvmet_exports exports;
	struct steps leftovers = { 0 };
	const struct nvmet_export *export;
	struct device dev;
	enum exit_code ret;
	size_t i;

	*state = (struct export_state){ 0 };
	ret = device_find("device", device, &dev);
	if (ret)
		return ret;
	ret = nvmet_plan_stale(&leftovers, NULL, device, &state->left);
	steps_free(&leftovers);
	if (ret) {
		device_release(&dev);
		return ret;
	}
	nvmet_exports_read(&exports);
	for (i = 0; i < exports.count && !state->nqn; i++) {
		export = &exports.list[i];
		if (!nvmet_export_is_of(export, dev.number) || (export->ours && !export->address))
			continue;
		state->nqn = copy_text(export->nqn);
		state->address = copy_text(export->address ? export->address : "no port");
		state->ours = export->ours;
	}
	nvmet_exports_free(&exports);
	device_release(&dev);
	return EXIT_OK;
}

/**
 * export_is_made - whether rxadm exports anything, of whatever device
 * @nqn: its name, or NULL for any
 */
bool export_is_made(const char *nqn)
{
	struct nvmet_exports exports;
	bool found = false;
	size_t i;

	nvmet_exports_read(&exports);
	for (i = 0; !found && i < exports.count; i++)
		found = exports.list[i].ours && (!nqn || !strcmp(exports.list[i].nqn, nqn));
	nvmet_exports_free(&exports);
	return found;
}

/* Note the first difference only. */
static void differ(struct export_state *state, const char *key, const char *has,
		   const char *wants)
{
	if (state->key)
		return;
	state->key = key;
	state->has = copy_text(has);
	state->wants = copy_text(wants);
}

static void compare_hosts(const struct export_request *request, struct export_state *state)
{
	bool any = nvmet_allows_any_host(state->nqn);
	char *wants = NULL;
	bool all = true;
	size_t count;
	char *has;
	size_t i;

	if (any != request->allow_any_host)
		differ(state, "allow-any-host", any ? "yes" : "no",
		       request->allow_any_host ? "yes" : "no");
	has = nvmet_allowed_hosts(state->nqn, &count);
	for (i = 0; i < request->host_count; i++) {
		all &= nvmet_allows(state->nqn, request->hosts[i]);
		append_text(&wants, "%s%s", wants ? " " : "", request->hosts[i]);
	}
	if (!all || count != request->host_count)
		differ(state, "allow-host", has ? has : "none", wants ? wants : "none");
	free(wants);
	free(has);
}

/* Secrets are compared, but not shown. */
static void compare_keys(const struct export_request *request, const char *key,
			 struct export_state *state)
{
	char *has;
	size_t i;

	for (i = 0; i < request->host_count; i++) {
		has = nvmet_host_key(request->hosts[i]);
		if (strcmp(has, key ? key : ""))
			differ(state, "dhchap-key", *has ? "another" : "none",
			       key ? request->key_path : "none");
		free(has);
	}
}

/**
 * export_compare - find out whether a device is exported as it is meant to be
 * @request: what is wanted
 * @state: out: what there is, to be released by export_state_release()
 */
enum exit_code export_compare(const struct export_request *request, struct export_state *state)
{
	struct subject subject;
	enum exit_code ret;
	char *address;

	ret = export_find(request->device, state);
	if (ret)
		return ret;
	ret = subject_find(request, &subject);
	if (!ret && state->nqn) {
		address = export_address(request);
		if (strcmp(state->nqn, subject.nqn))
			differ(state, "nqn", state->nqn, subject.nqn);
		if (strcmp(state->address, address))
			differ(state, "address", state->address, address);
		compare_hosts(request, state);
		compare_keys(request, subject.key, state);
		free(address);
	}
	subject_release(&subject);
	return ret;
}

/**
 * export_address - where an export is to be reached, as lists show it
 * @request: the export
 *
 * Return: allocated text.
 */
char *export_address(const struct export_request *request)
{
	if (!request->address)
		return copy_text(request->transport);
	return format_text(strchr(request->address, ':') ? "%s [%s]:%u" : "%s %s:%u",
			   request->transport, request->address,
			   request->port ? request->port : EXPORT_PORT);
}

void export_state_release(struct export_state *state)
{
	free(state->nqn);
	free(state->address);
	free(state->has);
	free(state->wants);
	*state = (struct export_state){ 0 };
}
