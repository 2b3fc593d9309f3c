# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: the state that each test starts from, and checks of the state that it leaves."""

import os
import shutil
import stat
import sys

import pytest

# For the tests only, not for the programs that they start. What does not have the time and size
# of its source is compiled anew.
if "RXD_PYCACHE" in os.environ:
    sys.pycache_prefix = os.environ["RXD_PYCACHE"]
sys.path.insert(0, os.path.dirname(__file__))

from rxdlib import lab as lablib  # noqa: E402
from rxdlib import command, kmsg, modules  # noqa: E402

TOOLS = ("blockdev", "blkdiscard", "dmsetup", "e2fsck", "fio", "fstrim", "losetup", "mkfs.ext4",
         "mkfs.xfs", "modprobe", "mount", "rmmod", "setpriv", "umount", "valgrind", "xfs_repair")
PROGRAMS = ("rxadm", "rxcp", "rwmodel", "bufspy")


def pytest_configure(config):
    config.addinivalue_line("markers", "one_kernel: about what no kernel's version changes, "
                                       "so that one kernel is enough")
    config.addinivalue_line("markers", "long: takes minutes, so only runs with RXD_LONG include it")
    config.addinivalue_line("markers", "every_kernel: of a program that has a guest of its own on "
                                       "one kernel, what the others run")


def one_case(items, which):
    """The "first" or the "last" case of each test."""
    cases = {}
    for item in items if which == "first" else reversed(items):
        cases.setdefault(item.nodeid.split("[")[0], item)
    return set(cases.values())


def pytest_collection_modifyitems(config, items):
    """Leave out what other guests run.

    These are the tests of one kernel in RXD_ELSEWHERE, long ones, and all cases but one if
    RXD_ONE_CASE says which.
    """
    elsewhere = os.environ.get("RXD_ELSEWHERE", "").split(",")
    chosen = [item for item in items
              if not (item.path.name in elsewhere and item.get_closest_marker("one_kernel")) and
              (lablib.LONG or not item.get_closest_marker("long"))]
    which = os.environ.get("RXD_ONE_CASE")
    if which:
        kept = one_case(chosen, which)
        chosen = [item for item in chosen if item in kept or item.get_closest_marker("one_kernel")]
    left_out = set(items) - set(chosen)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = chosen


def pytest_sessionstart(session):
    """If the guest lacks something, fail at once, and not in each test."""
    if session.config.option.collectonly:
        return
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    for name in PROGRAMS:
        try:
            command.program(name)
        except FileNotFoundError as error:
            missing.append(str(error))
    try:
        if not stat.S_ISBLK(os.stat(lablib.DISK).st_mode):
            missing.append(f"{lablib.DISK} as a block device")
    except FileNotFoundError:
        missing.append(lablib.DISK)
    if os.geteuid():
        missing.append("root")
    if missing:
        pytest.exit("missing: " + ", ".join(missing), returncode=1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    """Show the memory with each failed test: what has run before decides how much is left."""
    report = (yield).get_result()
    if report.failed:
        with open("/proc/meminfo", encoding="ascii") as file:
            report.sections.append(("/proc/meminfo", file.read()))


@pytest.fixture(name="tmp_path")
def files_of_the_test(tmp_path):
    """The files of a test go with it, because those of all tests would fill the memory."""
    yield tmp_path
    if not any(str(tmp_path) in line for line in lablib.mounts()):
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def loaded_modules():
    """Both modules, freshly loaded, and unloaded at the end."""
    modules.unload()
    modules.load()
    yield
    modules.unload()
    assert not modules.loaded() & {modules.RXD, modules.RXCACHE}


@pytest.fixture(scope="session")
def kernel_log_reader():
    log = kmsg.KernelLog()
    yield log
    log.close()


@pytest.fixture(autouse=True)
def kernel_log(kernel_log_reader):
    """The lines the kernel logs during this test, none of them alarming."""
    kernel_log_reader.rewind()
    yield kernel_log_reader
    trouble = kernel_log_reader.trouble()
    if trouble:
        pytest.fail("kernel log:\n" + "\n".join(kernel_log_reader.lines()), pytrace=False)


@pytest.fixture(autouse=True)
def no_report():
    """No program with sanitizers or under valgrind may have reported anything."""
    command.reports()
    yield
    found = command.reports()
    if found:
        pytest.fail("reported:\n" + "\n".join(found), pytrace=False)


@pytest.fixture(autouse=True)
def nothing_left(kernel_log, loaded_modules):
    """No device, mapping, mount or unloaded module may outlive a test."""
    yield
    found = lablib.leftovers()
    for name in (modules.RXD, modules.RXCACHE):
        if name not in modules.loaded():
            found.append(f"module {name} not loaded")
            modules.load()
    if found:
        pytest.fail("left behind: " + ", ".join(found), pytrace=False)


@pytest.fixture
def lab(nothing_left):
    """Makes devices, and removes them."""
    with lablib.Lab() as made:
        yield made


@pytest.fixture
def cache(lab):
    """A cache of 16 MiB over the first 16 MiB of the scratch disk."""
    return lab.cache()


@pytest.fixture
def folder(lab):
    """A directory for files, without any at the end that is hidden, or named like an option."""
    directory = lab.directory()
    yield directory
    left = os.listdir(directory)
    for name in left:
        os.unlink(os.path.join(directory, name))
    assert not [name for name in left if name.startswith((".", "-"))], left


@pytest.fixture
def path(folder):
    """Where a file may go."""
    return os.path.join(folder, "image")


@pytest.fixture(name="share")
def small_share():
    """Only one percent of the memory may be promised. Returns how many MiB that is."""
    path = "/sys/module/rxd/parameters/memory_share"
    with open(path, "w", encoding="ascii") as file:
        file.write("1")
    yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 100 >> 20
    with open(path, "w", encoding="ascii") as file:
        file.write("75")
