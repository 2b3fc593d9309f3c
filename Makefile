# SPDX-License-Identifier: GPL-2.0-only
#
# "make help" lists the targets.

VERSION		?= 0.1.0
B		?= build
KDIR		?= /lib/modules/$(shell uname -r)/build
PREFIX		?= /usr/local
KERNEL		?=
K		?=
HOST		?=
DEB_HOST	?=

INSTALL		?= install
DEPMOD		?= depmod

comma		:= ,
build		:= $(abspath $(B))
kernel_make	= $(MAKE) --no-print-directory -C $(KDIR) $(if $(ARCH),ARCH=$(ARCH))
# With Debian's 6.1, kernelrelease differs from uname -r: prefer UTS_RELEASE.
release		= $(or $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' \
		  $(KDIR)/include/generated/utsrelease.h 2>/dev/null), \
		  $(shell $(kernel_make) -s kernelrelease 2>/dev/null))
MODULES		:= rxd.ko dm-rxcache.ko
RXADM		= $(MAKE) --no-print-directory -C utils/rxadm O=$(build)/bin OBJ=$(build)/obj/rxadm \
		  VERSION=$(VERSION)
PAGES		= $(MAKE) --no-print-directory -C Documentation O=$(build)/man
RXCP		= $(MAKE) --no-print-directory -C utils/rxcp O=$(build)/bin OBJ=$(build)/obj/rxcp \
		  VERSION=$(VERSION)
GENERATOR	= $(MAKE) --no-print-directory -C utils/generator O=$(build)/bin \
		  OBJ=$(build)/obj/generator
RXBENCH		= $(MAKE) --no-print-directory -C utils/rxbench OBJ=$(build)/obj/rxbench
UAPI		:= include/uapi/linux/rxd.h
UDEV_RULES	:= packaging/udev/60-rxd.rules
UDEVRULESDIR	?= $(PREFIX)/lib/udev/rules.d
UNITS		:= $(wildcard packaging/systemd/*)
SYSTEMDUNITDIR	?= $(PREFIX)/lib/systemd/system
PROMETHEUS	:= packaging/prometheus/rxd-dashboard.json packaging/prometheus/rxd.rules.yml
PROMETHEUSDIR	?= $(PREFIX)/share/rxd/prometheus
# The sources of the modules, for DKMS.
DKMSDIR		?= /usr/src/rxd-$(VERSION)
DKMS_SOURCES	:= Kbuild module dm-target include
dist		= rxd-$(VERSION)
# The date of the release, so that the archive does not depend on the time of packing.
dist_date	= $(shell sed -n 's/^ -- .*>  //p' packaging/debian/changelog | head -n 1)
FUZZ_SECONDS	?= 600
SEED		?=

help:
	@echo 'make demo [KERNEL=6.12]            show and measure the main use, in a guest'
	@echo 'make demo HOST=1                   the same on this machine, with a file as the disk'
	@echo 'make test                          all checks of a change (root; about 55 minutes on'
	@echo '                                   two cores, longer on a slow machine); without'
	@echo '                                   test-system, with a short torture'
	@echo 'make check                         unit tests that need neither root nor a guest'
	@echo 'make lint                          checkpatch, sparse, shellcheck and other checkers'
	@echo 'make test-kunit                    KUnit suites, under User-Mode Linux'
	@echo 'make test-functional [KERNEL=6.12] [K=EXPRESSION]'
	@echo '                                   pytest in guests, with all kernels or with one'
	@echo 'make test-system                   packages on complete Debian systems in guests'
	@echo '                                   (about half an hour)'
	@echo 'make cross                         build modules, tools and packages for arm64'
	@echo 'make torture [KERNEL=7.2]          stress tests, stock tools, small, NUMA and other'
	@echo '                                   machines, valgrind, KCSAN (several hours)'
	@echo 'make mutations [ONLY="NAME..."]    check that the tests detect twenty faults that are'
	@echo '                                   put into the sources'
	@echo 'make fuzz [FUZZ_SECONDS=600] [SEED=N] [KERNEL=7.2]'
	@echo '                                   random ioctls, sysfs writes and parameters, in a guest'
	@echo 'make fuzz-parsers [FUZZ_SECONDS=600] [SEED=N]'
	@echo '                                   fuzz each parser of rxadm with libFuzzer for'
	@echo '                                   FUZZ_SECONDS'
	@echo 'make bench [KERNEL=7.2] [HOST=1]   rxbench profile, dd, peers and tree, in a guest'
	@echo '                                   (about 35 minutes) or on this machine'
	@echo 'make bench-memory [KERNEL=7.2] [ARGS="--works zipf"]'
	@echo '                                   compare the same memory as page cache, cache and RAM'
	@echo '                                   disk, in guests (at most four hours)'
	@echo 'make bench-rxd [ONLY=ROW,...] [BOOTS=3] [SIZE=512M] [PAGES=huge] [HOST=1]'
	@echo '                                   compare rxd with brd, null_blk and its targets, under'
	@echo '                                   User-Mode Linux or on this machine'
	@echo 'make bench-rxcache [ONLY=ROW,...] [BOOTS=3] [SIZE=512M] [PAGES=huge] [HOST=1]'
	@echo '                                   compare rxcache with dm-linear, dm-cache, bcache and,'
	@echo '                                   if it can be built, RapidDisk'
	@echo 'make -k bench-rxd bench-rxcache    both, also if a target of the first one is missed'
	@echo 'make bench-policy [TRACES=FOLDER]  compare the hit ratios of rxcache and other policies'
	@echo 'make bench-advice [TRACES=FOLDER]  compare the advice on the size of a cache with replays'
	@echo 'make bench-count [BASE=COMMIT]     compare the instructions per bio with a commit'
	@echo 'make bench-clones [KERNEL=7.2] [CLONES=1000]'
	@echo '                                   for how long clones and saves hold the writes to a'
	@echo '                                   disk in use, in a guest'
	@echo 'make bench-postgres [KERNEL=7.2] [COPIES=100]'
	@echo '                                   compare fresh copies of a PostgreSQL cluster: clone,'
	@echo '                                   dm-thin snapshot, cp --reflink, in a guest'
	@echo 'make bench-rxcp [FOLDERS="..."]    compare rxcp with cp, in folders of this machine'
	@echo 'make modules [KDIR=TREE] [ARCH=um] build/modules/RELEASE/*.ko, by default for the running'
	@echo '                                   kernel'
	@echo 'make tools [SANITIZE=address,undefined] [STRICT=1]'
	@echo '                                   build/bin/rxadm, build/bin/rxcp; STRICT=1 turns'
	@echo '                                   warnings into errors'
	@echo 'make install [DESTDIR=] [PREFIX=/usr/local] [KDIR=TREE]'
	@echo 'make install-tools, make install-headers, make install-rxbench'
	@echo '                                   the parts of install that need no modules'
	@echo 'make uninstall                     use the same variables; fails if there are RAM disks'
	@echo 'make install-dkms                  install the sources for DKMS in /usr/src'
	@echo 'make dist                          build/rxd-$(VERSION).tar.gz'
	@echo 'make deb [DEB_HOST=arm64]          Debian packages, in build/deb/'
	@echo 'make clean                         remove build/'
	@echo 'make distclean                     also remove the guests and kernels that are kept in'
	@echo '                                   RXD_CACHE=/var/cache/rxd'

# Build the modules in a copy of the sources per kernel, so that objects do not mix.
modules:
	@test -n '$(release)' || { \
		echo 'make: KDIR=$(KDIR): no prepared kernel tree; name one with KDIR=TREE' >&2; \
		exit 1; }
	@$(MAKE) --no-print-directory modules-of-release RELEASE=$(release)

modules-of-release: objects = $(build)/obj/$(RELEASE)
modules-of-release: out = $(build)/modules/$(RELEASE)
modules-of-release:
	@mkdir -p $(objects) $(out)
	@cp -Rup Kbuild module dm-target include $(objects)/
	+$(kernel_make) M=$(objects) modules
	@cp -up $(objects)/module/rxd.ko $(objects)/dm-target/dm-rxcache.ko $(out)/
	@echo 'Modules: $(out)'

tools:
	+$(RXADM)
	+$(RXCP)
	+$(GENERATOR)

install: modules install-tools install-headers install-rxbench
	$(INSTALL) -d $(DESTDIR)/lib/modules/$(release)/updates
	$(INSTALL) -m 644 $(MODULES:%=$(build)/modules/$(release)/%) \
		$(DESTDIR)/lib/modules/$(release)/updates/
	$(if $(DESTDIR),,$(DEPMOD) $(release))

install-headers:
	$(INSTALL) -D -m 644 $(UAPI) $(DESTDIR)$(PREFIX)/include/linux/rxd.h

install-tools: tools
	$(INSTALL) -D -m 644 $(UDEV_RULES) $(DESTDIR)$(UDEVRULESDIR)/60-rxd.rules
	+$(PAGES) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) install
	$(INSTALL) -D -m 644 packaging/rxd.conf.example \
		$(DESTDIR)$(PREFIX)/share/doc/rxd/rxd.conf.example
	$(INSTALL) -d -m 700 $(DESTDIR)/var/lib/rxd
	$(INSTALL) -d $(DESTDIR)$(SYSTEMDUNITDIR) $(DESTDIR)$(PROMETHEUSDIR)
	$(INSTALL) -m 644 $(UNITS) $(DESTDIR)$(SYSTEMDUNITDIR)/
	$(INSTALL) -m 644 $(PROMETHEUS) $(DESTDIR)$(PROMETHEUSDIR)/
	+$(RXADM) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) install
	+$(RXCP) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) install
	+$(GENERATOR) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) install

install-rxbench:
	+$(RXBENCH) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) install

install-dkms:
	$(INSTALL) -d $(DESTDIR)$(DKMSDIR)
	cp -R $(DKMS_SOURCES) $(DESTDIR)$(DKMSDIR)/
	sed 's/#MODULE_VERSION#/$(VERSION)/' packaging/dkms/dkms.conf >$(DESTDIR)$(DKMSDIR)/dkms.conf

# For packages only, since the paths are fixed: the scripts that cache the root disk at boot,
# a script for the maintainer scripts of packages, and the folder of vendor defaults.
install-packaged:
	$(INSTALL) -D -m 644 packaging/root-cache/default $(DESTDIR)/etc/default/rxd
	$(INSTALL) -D packaging/root-cache/root-cache $(DESTDIR)/usr/lib/rxd/root-cache
	$(INSTALL) -D packaging/initramfs-tools/hook \
		$(DESTDIR)/usr/share/initramfs-tools/hooks/rxd
	$(INSTALL) -D packaging/initramfs-tools/local-premount \
		$(DESTDIR)/usr/share/initramfs-tools/scripts/local-premount/rxd
	$(INSTALL) -d $(DESTDIR)/usr/lib/dracut/modules.d/90rxd
	$(INSTALL) packaging/dracut/90rxd/* $(DESTDIR)/usr/lib/dracut/modules.d/90rxd/
	$(INSTALL) packaging/stop-units $(DESTDIR)/usr/lib/rxd/stop-units
	$(INSTALL) -d $(DESTDIR)/usr/lib/rxd.conf.d

# Without rxadm, these RAM disks could not be saved or removed.
ramdisks	= $(notdir $(wildcard /sys/block/rxd[0-9]*))

uninstall:
	@[ -n '$(DESTDIR)' ] || [ -z '$(ramdisks)' ] || { \
		echo 'make: uninstall: there are RAM disks: $(ramdisks)' >&2; \
		echo "make: uninstall: 'rxadm apply --stop' saves and ends what rxd.conf made," \
			"'rxadm unmap' and 'rxadm remove' the others" >&2; \
		exit 1; }
	$(if $(release),rm -f $(MODULES:%=$(DESTDIR)/lib/modules/$(release)/updates/%))
	$(if $(DESTDIR)$(if $(release),,x),,$(DEPMOD) $(release))
	rm -f $(DESTDIR)$(PREFIX)/include/linux/rxd.h $(DESTDIR)$(UDEVRULESDIR)/60-rxd.rules
	+$(PAGES) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) uninstall
	rm -f $(DESTDIR)$(PREFIX)/share/doc/rxd/rxd.conf.example
	rm -f $(UNITS:packaging/systemd/%=$(DESTDIR)$(SYSTEMDUNITDIR)/%)
	rm -f $(PROMETHEUS:packaging/prometheus/%=$(DESTDIR)$(PROMETHEUSDIR)/%)
	+$(RXADM) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) uninstall
	+$(RXCP) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) uninstall
	+$(GENERATOR) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) uninstall
	+$(RXBENCH) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) uninstall

dist:
	@mkdir -p $(build)
	tar --create --gzip --file $(build)/$(dist).tar.gz.new --sort=name --owner=0 --group=0 \
		--numeric-owner --mode=go-w --mtime='$(dist_date)' --transform='s,^[.],$(dist),S' \
		--exclude-vcs --exclude=./build --exclude=__pycache__ --exclude=.pytest_cache .
	mv $(build)/$(dist).tar.gz.new $(build)/$(dist).tar.gz

deb: dist
	rm -rf $(build)/deb
	mkdir $(build)/deb
	cp $(build)/$(dist).tar.gz $(build)/deb/rxd_$(VERSION).orig.tar.gz
	tar -C $(build)/deb -xf $(build)/$(dist).tar.gz
	cp -R packaging/debian $(build)/deb/$(dist)/debian
	sed -i '1s/(.*)/($(VERSION)-1)/' $(build)/deb/$(dist)/debian/changelog
	cd $(build)/deb/$(dist) && \
		env -u MAKEFLAGS -u MFLAGS -u B -u VERSION dpkg-buildpackage --no-sign -j \
		$(if $(DEB_HOST),--host-arch $(DEB_HOST) --build-profiles=cross$(comma)nocheck)
	@echo 'Packages: $(build)/deb'

# Tests that a package build can run: without root, network and guest.
check:
	tests/unit/run
	python3 -B -m pytest -q -p no:cacheprovider -m 'not machine' tests/unit

demo:
	packaging/deps $(if $(filter 1,$(HOST)),host,guest)
	HOST=$(HOST) KERNEL=$(KERNEL) utils/demo/run

test:
	tests/run

lint:
	tests/run lint

test-kunit:
	packaging/deps uml
	tests/kunit/run

test-functional:
	tests/run $(if $(KERNEL),functional-$(KERNEL),functional) $(if $(K),-k '$(K)')

test-system:
	tests/run system

cross:
	tests/run cross

torture:
	tests/run torture-$(or $(KERNEL),7.2) long-$(or $(KERNEL),7.2) sanitize \
		crash-6.1 crash-6.12 lend-6.1 lend-6.12 \
		$(addprefix functional-,$(filter-out 7.2,$(or $(KERNEL),6.1 6.12))) \
		stock memcheck kcsan states cma \
		$(foreach stage,machines small small-512 small-2048 lend-1024 lend-nodes numa \
			movable movable-512 $(if $(filter 6.1,$(KERNEL)),,lazy),\
			$(stage)-$(or $(KERNEL),7.2)) \
		$(addsuffix $(if $(KERNEL),-$(KERNEL)),lend-2048 lend-4096)

mutations:
	tests/mutations/run $(ONLY)

fuzz:
	tests/run fuzz-$(or $(KERNEL),7.2) --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED))

fuzz-parsers:
	tests/run parsers --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED))

bench:
	packaging/deps $(if $(filter 1,$(HOST)),host plots,guest)
	tests/bench/rxbench $(if $(filter 1,$(HOST)),--host,--kernel $(or $(KERNEL),7.2))

bench-memory:
	packaging/deps guest
	tests/bench/memory $(or $(KERNEL),7.2) $(ARGS)

bench-rxd bench-rxcache:
	packaging/deps uml
	tests/bench/run $(@:bench-%=%) $(if $(ONLY),--only $(ONLY)) $(if $(TREE),--tree $(TREE)) \
		$(if $(BOOTS),--boots $(BOOTS)) $(if $(SIZE),--size $(SIZE)) \
		$(if $(PAGES),--pages $(PAGES)) $(if $(filter 1,$(HOST)),--host)

bench-count:
	tests/bench/count $(BASE)

bench-clones:
	packaging/deps guest
	tests/bench/clones $(or $(KERNEL),7.2) $(if $(CLONES),--clones $(CLONES))

bench-postgres:
	packaging/deps guest
	tests/bench/postgres $(or $(KERNEL),7.2) $(if $(COPIES),--copies $(COPIES))

bench-policy:
	packaging/deps uml policy
	tests/bench/policy/run $(if $(TRACES),'$(TRACES)')

bench-advice:
	tests/bench/advice/run $(if $(TRACES),'$(TRACES)')

bench-rxcp:
	packaging/deps host rxcp
	$(MAKE) --no-print-directory tools
	tests/bench/rxcp $(or $(FOLDERS),/dev/shm ext4 xfs btrfs)

clean:
	rm -rf $(build)

distclean: clean
	rm -rf --one-file-system $${RXD_CACHE:-/var/cache/rxd}/guest $${RXD_CACHE:-/var/cache/rxd}/uml

.PHONY: help modules modules-of-release tools install install-tools install-headers \
	install-rxbench install-dkms install-packaged uninstall dist deb check demo test lint \
	test-kunit test-functional test-system cross torture mutations fuzz fuzz-parsers bench \
	bench-memory bench-clones bench-postgres bench-advice bench-count bench-rxcp bench-rxd \
	bench-rxcache \
	clean distclean
