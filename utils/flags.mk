# SPDX-License-Identifier: GPL-2.0-only
#
# How all C programs of this folder are compiled; with SANITIZE=address,undefined they
# end at the first error.

PKG_CONFIG	?= pkg-config
CFLAGS		?= -O2 -g
WARNINGS	:= -Wall -Wextra -Werror -Wformat=2 -Wmissing-prototypes -Wshadow -Wstrict-prototypes \
		   -Wundef
SANITIZE	?=
ifeq ($(SANITIZE),)
HARDENING	:= -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
else
HARDENING	:= -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer -fPIE
endif
override CFLAGS	+= -std=gnu11 -pthread $(WARNINGS) $(HARDENING)
override LDFLAGS += -pthread -pie -Wl,-z,relro,-z,now -Wl,--as-needed
