# SPDX-License-Identifier: GPL-2.0-only
#
# Compiler flags of all C programs in this folder, and the libraries that a program is linked
# with. CFLAGS of the environment or the command line replace -O2 -g. Those who build packages
# choose the level of _FORTIFY_SOURCE.
#
# make STRICT=1                     warnings are errors, and _FORTIFY_SOURCE is 2 if nothing else
#                                   sets it: for development, and what CI does
# make SANITIZE=address,undefined   programs end at the first error

PKG_CONFIG	?= pkg-config
SANITIZE	?=
STRICT		?=
WARNINGS	:= -Wall -Wextra -Wformat=2 -Wmissing-prototypes -Wshadow -Wstrict-prototypes -Wundef
ifeq ($(STRICT),1)
WARNINGS	+= -Werror
endif
ifeq ($(STRICT)$(SANITIZE),1)
FORTIFIED	:= $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) \
		   $(shell $(CC) -O2 -dM -E -x c /dev/null 2>/dev/null))
CFLAGS		?= -O2 -g $(if $(FORTIFIED),,-D_FORTIFY_SOURCE=2)
endif
CFLAGS		?= -O2 -g
ifeq ($(SANITIZE),)
HARDENING	:= -fstack-protector-strong -fPIE
else
HARDENING	:= -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer -fPIE
endif
# On 32-bit machines, too, offsets and times have 64 bits.
LARGE		:= -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64
override CFLAGS	+= -std=gnu11 -pthread $(LARGE) $(WARNINGS) $(HARDENING)
override LDFLAGS += -pthread -pie -Wl,-z,relro,-z,now -Wl,--as-needed

# Rebuild objects that were compiled with another STRICT or SANITIZE.
$(OBJ)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(STRICT) $(SANITIZE)' | cmp -s - $@ || echo '$(STRICT) $(SANITIZE)' > $@

# The program's Makefile sets LINKED: libraries of this folder, from the top down. They are
# built beside OBJ.
ARCHIVES	:= $(foreach name,$(LINKED),$(abspath $(OBJ)/..)/$(name)/lib$(name).a)

ifneq ($(ARCHIVES),)
$(ARCHIVES): FORCE
	$(MAKE) --no-print-directory -C $(TOP)/utils/$(notdir $(@D)) OBJ=$(@D)
endif

FORCE:

.PHONY: FORCE

# The Makefile that includes this file sets its own default goal.
.DEFAULT_GOAL :=
