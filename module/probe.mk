# SPDX-License-Identifier: GPL-2.0-only
#
# Each file in probes/ tests for one difference between kernels: it compiles or it does
# not. The results are passed to compat.h as RXD_HAVE_*. Include this from a Kbuild file.

rxd-probe-cc = $(CC) $(NOSTDINC_FLAGS) $(LINUXINCLUDE) $(KBUILD_CPPFLAGS) \
	-include $(srctree)/include/linux/compiler_types.h \
	$(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE) -DMODULE \
	-DKBUILD_MODNAME='"probe"' -DKBUILD_BASENAME='"probe"' \
	-Werror=incompatible-pointer-types -Werror=int-conversion \
	-fsyntax-only $(rxd-probe-dir)/$(1).c
rxd-probe = $(shell $(call rxd-probe-cc,$(1)) >/dev/null 2>&1 && echo -DRXD_HAVE_$(2))

# make clean reads no kernel configuration, and needs no probes.
ifdef CONFIG_MODULES

ifeq ($(call rxd-probe,headers,HEADERS),)
$(error $(shell $(call rxd-probe-cc,headers) 2>&1) \
	rxd: the kernel headers in $(srctree) do not compile)
endif

ccflags-y += $(call rxd-probe,alloc_pages_bulk,ALLOC_PAGES_BULK)
ccflags-y += $(call rxd-probe,limits_at_alloc,LIMITS_AT_ALLOC)
ccflags-y += $(call rxd-probe,limit_features,LIMIT_FEATURES)
ccflags-y += $(call rxd-probe,freeze_memflags,FREEZE_MEMFLAGS)
ccflags-y += $(call rxd-probe,open_gendisk,OPEN_GENDISK)
ccflags-y += $(call rxd-probe,bdev_mapping,BDEV_MAPPING)
ccflags-y += $(call rxd-probe,namespace_string,NAMESPACE_STRING)
ccflags-y += $(call rxd-probe,call_rcu_hurry,CALL_RCU_HURRY)
ccflags-y += $(call rxd-probe,dfl_wq,DFL_WQ)
ccflags-y += $(call rxd-probe,freeze_holder,FREEZE_HOLDER)
ccflags-y += $(call rxd-probe,freeze_owner,FREEZE_OWNER)
ccflags-y += $(call rxd-probe,shrinker_alloc,SHRINKER_ALLOC)
ccflags-y += $(call rxd-probe,account_reclaimed,ACCOUNT_RECLAIMED)

endif
