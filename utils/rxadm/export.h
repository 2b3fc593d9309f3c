/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_EXPORT_H
#define RXADM_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

#define EXPORT_PORT	4420	/* where none is given */

/* How a device is to be offered by the kernel's NVMe target. */
struct export_request {
	const char *device;
	const char *transport;		/* "tcp" or "loop" */
	const char *address;		/* IP address to listen at; NULL: not given */
	unsigned int port;		/* 0: not given */
	const char *nqn;		/* NULL: one that belongs to the device */
	const char **hosts;	/* NQNs of those who may connect */
	size_t host_count;
	bool allow_any_host;
	const char *key_path;		/* file of the hosts' DH-HMAC-CHAP secret, or NULL */
	bool dry_run;			/* only print what would be done */
};

/* An export that there is. */
struct export_state {
	char *nqn;		/* NULL: there is none */
	char *address;		/* as lists show it */
	bool ours;		/* made by rxadm */
	bool left;		/* there is something that a killed rxadm left */
	const char *key;	/* what is otherwise than wanted, as rxd.conf calls it, or NULL */
	char *has;
	char *wants;
};

enum exit_code export_device(const struct export_request *request, char **nqn);
enum exit_code unexport_device(const char *name, bool dry_run);

enum exit_code export_find(const char *device, struct export_state *state);
bool export_is_made(const char *nqn);
enum exit_code export_compare(const struct export_request *request, struct export_state *state);
void export_state_release(struct export_state *state);
char *export_address(const struct export_request *request);

enum exit_code export_clean_up(const char *nqn, const char *device, bool dry_run,
			       bool *found);
enum exit_code export_take_back(const char *nqn);

#endif /* RXADM_EXPORT_H */
