// SPDX-License-Identifier: GPL-2.0-only
/*
 * What connects a section of the configuration with its RAM disk: the UUID that it
 * gives, or one made of its kind and name, always the same (version 5 of RFC 9562).
 */
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "identity.h"

/* 9d47b8a6-8b9a-45b5-97ac-626c1b790991 */
static const uuid_t namespace = {
	0x9d, 0x47, 0xb8, 0xa6, 0x8b, 0x9a, 0x45, 0xb5,
	0x97, 0xac, 0x62, 0x6c, 0x1b, 0x79, 0x09, 0x91,
};

/**
 * section_uuid - the UUID of a section's RAM disk
 * @section: the section
 * @uuid: out: its 16 bytes
 */
void section_uuid(const struct config_section *section, uint8_t *uuid)
{
	char *name;

	if (section->values[CONFIG_UUID].text) {
		memcpy(uuid, section->disk.uuid, sizeof(section->disk.uuid));
		return;
	}
	name = format_text("%s/%s", config_kind_name(section->kind), section->name);
	uuid_generate_sha1(uuid, namespace, name, strlen(name));
	free(name);
}

/**
 * identity_text - write a UUID as the kernel does
 * @uuid: its 16 bytes
 * @text: IDENTITY_TEXT bytes
 *
 * Return: @text.
 */
const char *identity_text(const uint8_t *uuid, char *text)
{
	uuid_unparse_lower(uuid, text);
	return text;
}
