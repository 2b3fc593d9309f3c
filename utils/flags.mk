# SPDX-License-Identifier: GPL-2.0-only
#
# How all C programs of this folder are compiled. CFLAGS of the environment or the command
# line replace -O2 -g and the level of _FORTIFY_SOURCE: distributions choose their own.
#
# make STRICT=1                     warnings are errors: for development, and what CI does
# make SANITIZE=address,undefined   programs end at the first error

PKG_CONFIG	?= pkg-config
SANITIZE	?=
STRICT		?=
WARNINGS	:= -Wall -Wextra -Wformat=2 -Wmissing-prototypes -Wshadow -Wstrict-prototypes -Wundef
ifeq ($(STRICT),1)
WARNINGS	+= -Werror
endif
ifeq ($(SANITIZE),)
CFLAGS		?= -O2 -g $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS)),,-U_FORTIFY_SOURCE \
		   -D_FORTIFY_SOURCE=2)
HARDENING	:= -fstack-protector-strong -fPIE
else
CFLAGS		?= -O2 -g
HARDENING	:= -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer -fPIE
endif
override CFLAGS	+= -std=gnu11 -pthread $(WARNINGS) $(HARDENING)
override LDFLAGS += -pthread -pie -Wl,-z,relro,-z,now -Wl,--as-needed

# What was compiled with another STRICT or SANITIZE is compiled anew.
$(OBJ)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(STRICT) $(SANITIZE)' | cmp -s - $@ || echo '$(STRICT) $(SANITIZE)' > $@

FORCE:

.PHONY: FORCE

# What comes first is for the Makefile to say.
.DEFAULT_GOAL :=
