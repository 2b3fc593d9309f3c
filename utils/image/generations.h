/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_GENERATIONS_H
#define IMAGE_GENERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "image/log_format.h"

const struct log_generation *generation_find(const struct log_head *head, uint64_t number);
void generation_time(const struct log_generation *generation, bool utc, char *text, size_t size);
char *generations_list(const struct log_head *head);
int generations_begin(struct log_head *head, const struct image_header *header,
		      struct log_segment *segment);
int generations_add(struct log_head *head, const struct log_segment *segment, unsigned int keep,
		    uint64_t written);
bool generations_need_cleaning(const struct log_head *head);
bool generations_clean(int fd, struct log_head *head, bool (*stopped)(void), uint64_t *taken,
		       char **error);
bool generations_need_rewriting(const struct log_head *head, uint64_t taken);

#endif /* IMAGE_GENERATIONS_H */
