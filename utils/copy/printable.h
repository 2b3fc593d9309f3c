/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_PRINTABLE_H
#define COPY_PRINTABLE_H

/**
 * make_printable - let text with names be one line, which does not control the terminal
 * @text: where newlines, escapes and other control characters are replaced
 */
static inline void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

#endif /* COPY_PRINTABLE_H */
