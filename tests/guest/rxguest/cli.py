# SPDX-License-Identifier: GPL-2.0-only
"""The command line of tests/guest/run."""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time

from . import accel, trouble
from .errors import GuestError
from .guest import Guest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__)))))
KERNELS = ("6.1", "6.12", "7.2")
SYSTEMS = ("debian-12", "debian-13")

USAGE, NO_GUEST, TROUBLE = 2, 125, 3
SHOWN = 100
TRIES = 3


class Parser(argparse.ArgumentParser):
    """One line for each error."""

    def error(self, message):
        self.exit(USAGE, f"guest: {message} (see --help)\n")


def say(text):
    print(f"guest: {text}", file=sys.stderr, flush=True)


def _number(least, most):
    def number(text):
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r}: must be a whole number from {least} to {most}")
        return int(text)
    return number


def _disk(text):
    if not os.path.isfile(text.partition(",")[0]):
        raise argparse.ArgumentTypeError(f"{text!r}: must be FILE[,OPTIONS] of a file that exists")
    return text


def _file(text):
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a file that exists")
    return text


def parser():
    made = Parser(prog="run", description="Boot a guest and run a command in it as root: the "
                  "checkout is /rxd, build/guest/KERNEL/out is /out; vdb is a fresh 1 GiB disk, "
                  "vdc a fresh 2 GiB disk, throttled to 150 requests and 150 MB a second.",
                  epilog=f"Exit code: the command's; {TROUBLE} when the kernel log tells of "
                  f"trouble; {NO_GUEST} when the guest did not run or did not end by itself.")
    made.add_argument("kernel", choices=KERNELS + SYSTEMS, metavar="GUEST",
                      help="a kernel, " + ", ".join(KERNELS) + ", or a whole system with systemd, "
                           + ", ".join(SYSTEMS))
    made.add_argument("--mem", type=_number(256, 1 << 20), default=2048, metavar="MIB",
                      help="memory (default: %(default)s)")
    made.add_argument("--prealloc", action="store_true",
                      help="have all memory at hand before the boot: for what is timed")
    made.add_argument("--nodes", type=_number(1, 2), default=1, metavar="N",
                      help="NUMA nodes, each with a part of the memory and of the CPUs "
                           "(default: %(default)s)")
    made.add_argument("--disk", type=_disk, action="append", default=[], metavar="FILE[,OPTIONS]",
                      help="one more raw disk, vdd and so on, which keeps what is written; "
                           "OPTIONS are those of QEMU's -drive (default: cache=writeback)")
    made.add_argument("--root", metavar="FILE",
                      help="a root disk that keeps what is written; made where it is missing")
    made.add_argument("--initrd", type=_file, metavar="FILE",
                      help="boot from this initrd, not the harness's own")
    made.add_argument("--append", action="append", default=[], metavar="PARAMETER",
                      help="one more kernel parameter")
    made.add_argument("--qemu", action="append", default=[], metavar="'OPTION VALUE'",
                      help="one more option of QEMU's own")
    made.add_argument("--no-kvm", action="store_true", help="emulate, even where KVM works")
    made.add_argument("--icount", action="store_true",
                      help="emulate one CPU whose clock counts instructions, one each ns")
    made.add_argument("--timeout", type=_number(1, 86400), default=3600, metavar="S",
                      help="seconds the command may take (default: %(default)s)")
    made.add_argument("command", nargs="+", metavar="COMMAND")
    return made


def _split(argv):
    """The command is everything after the first --."""
    if "--" not in argv:
        return argv
    cut = argv.index("--")
    return argv[:cut] + ["--"] + argv[cut + 1:]


def _need_memory(mib):
    with open("/proc/meminfo", encoding="ascii") as file:
        info = dict(line.split(":", 1) for line in file)
    free = int(info["MemAvailable"].split()[0]) // 1024
    if free < mib:
        raise GuestError(f"{free} MiB of memory free, the guest needs {mib} MiB")


def boot_directory(kernel):
    found = subprocess.run([os.path.join(TOP, "tests/guest/rootfs"), kernel], check=False,
                           stdout=subprocess.PIPE, text=True)
    if found.returncode:
        raise GuestError(f"no root file system for Linux {kernel}")
    return found.stdout.strip()


def lock(guest):
    """Allow one guest for each kernel and checkout, because they share out/ and the disks."""
    os.makedirs(guest.base, exist_ok=True)
    held = open(os.path.join(guest.base, "run.lock"), "wb")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting for another guest with Linux {guest.kernel}")
        fcntl.flock(held, fcntl.LOCK_EX)
    return held


def start(guest, options):
    """Start it with KVM where that works, else emulated."""
    works = False if options.no_kvm or options.icount or not accel.present() else accel.recall()
    if works is None:
        say("trying KVM")
    unknown = works is None
    # If it is emulated, a stock kernel's boot sometimes hangs before its first program, when
    # no code of this project has run.
    for kvm in [True] * unknown + [works or False] * TRIES:
        begin = time.monotonic()
        up = guest.start(kvm)
        if unknown and kvm:
            accel.remember(up)
        if up:
            say(f"Linux {guest.kernel} up after {time.monotonic() - begin:.0f} s, "
                + ("with KVM" if kvm else "emulated (TCG): speeds are not those of hardware"))
            return
        complaint = guest.complaint()
        guest.kill()
        if kvm and unknown:
            unknown = False
            say("KVM does not work here (" + (complaint or "no answer within "
                f"{accel.FIRST_LINE_SECONDS} s") + "): emulating until the machine's next boot")
            continue
        if complaint:
            raise GuestError(f"Linux {guest.kernel} does not come up: {complaint}")
        say(f"Linux {guest.kernel} did not come up within {time.monotonic() - begin:.0f} s; "
            f"its console: {guest.last_line()}")
    raise GuestError(f"Linux {guest.kernel} does not come up: see {guest.console}")


def judge(guest):
    log = guest.log()
    if not trouble.find(log):
        return False
    say(f"the kernel log tells of trouble ({guest.out}/dmesg.txt):")
    # The next guest replaces the log.
    for line in trouble.report(log, SHOWN):
        print(f"    {line}", file=sys.stderr)
    return True


def _run(options):
    if os.geteuid():
        raise GuestError("must be root")
    deps = subprocess.run([os.path.join(TOP, "packaging/deps"), "guest"], check=False)
    if deps.returncode:
        raise GuestError("this machine lacks what guests need")
    boot = boot_directory(options.kernel)
    _need_memory(options.mem)
    guest = Guest(TOP, options.kernel, boot, options)
    with lock(guest):
        guest.prepare(options.command)
        try:
            start(guest, options)
            guest.deadline = time.monotonic() + options.timeout
            guest.follow()
        finally:
            guest.kill()
            troubled = judge(guest)
        code = guest.result()
    return TROUBLE if troubled else code


def _interrupted(signum, _frame):
    raise KeyboardInterrupt(signum)


def ending(function, *args):
    """Convert signals to exceptions, so that no guest outlives this program."""
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGHUP, _interrupted)
    try:
        return function(*args)
    except GuestError as error:
        say(str(error))
        return NO_GUEST
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def main():
    return ending(_run, parser().parse_args(_split(sys.argv[1:])))
