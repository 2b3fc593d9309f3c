# SPDX-License-Identifier: GPL-2.0-only
#
# Each file in probes/ tests for one difference between kernels: it compiles or it does
# not. The results are passed to compat.h as RXD_HAVE_*. Include this from a Kbuild file.
# The first one that includes it runs the probes, and those of its subfolders get the results.

# make clean and modpost read Kbuild files, too, and need no probes.
ifneq ($(filter %/Makefile.build,$(MAKEFILE_LIST)),)
ifeq ($(origin RXD_PROBED),undefined)

rxd-probe-cc = $(CC) $(NOSTDINC_FLAGS) $(LINUXINCLUDE) $(KBUILD_CPPFLAGS) \
	-include $(srctree)/include/linux/compiler_types.h \
	$(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE) -DMODULE \
	-DKBUILD_MODNAME='"probe"' -DKBUILD_BASENAME='"probe"' \
	-Werror=incompatible-pointer-types -Werror=int-conversion \
	-fsyntax-only $(rxd-probe-dir)/$(1).c

ifeq ($(shell $(call rxd-probe-cc,headers) >/dev/null 2>&1 && echo yes),)
$(error $(shell $(call rxd-probe-cc,headers) 2>&1) \
	rxd: the kernel headers in $(srctree) do not compile)
endif

# Up to four at a time. They end in any order, and a change of order would rebuild all objects.
rxd-probes := $(filter-out headers,$(basename $(notdir $(wildcard $(rxd-probe-dir)/*.c))))
rxd-found := $(sort $(shell { n=0; for name in $(rxd-probes); do \
	{ $(call rxd-probe-cc,$$name) >/dev/null 2>&1 && echo $$name; } & \
	n=$$((n + 1)); [ $$((n % 4)) -ne 0 ] || wait; done; wait; } | tr a-z A-Z))

export RXD_PROBED := $(addprefix -DRXD_HAVE_,$(rxd-found))

endif
endif

ccflags-y += $(RXD_PROBED)
