# SPDX-License-Identifier: GPL-2.0-only
"""One guest: from its boot to its exit code."""

import os
import selectors
import shlex
import signal
import subprocess
import sys
import time

from . import accel, qemu
from .errors import GuestError

UP = "rxd-guest: up"
BOOT_SECONDS = 150
POWER_OFF_SECONDS = 60


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Guest:
    """A guest of one kernel, whose files are in out/."""

    def __init__(self, top, kernel, boot, options):
        self.top, self.kernel, self.boot, self.options = top, kernel, boot, options
        self.base = os.path.join(top, "build/guest", kernel)
        self.out = os.path.join(self.base, "out")
        self.disks = os.path.join(self.base, "disks")
        self.console = os.path.join(self.out, "console.txt")
        self.errors = os.path.join(self.out, "qemu.txt")
        self.process = None
        self.deadline = None

    def prepare(self, command):
        for path in (self.out, self.disks):
            os.makedirs(path, exist_ok=True)
        for name in (".exit", ".exit.new", "dmesg.txt", "console.txt", "qemu.pid"):
            path = os.path.join(self.out, name)
            if os.path.exists(path):
                os.unlink(path)
        with open(os.path.join(self.out, ".command"), "w", encoding="utf-8") as file:
            file.write(shlex.join(command) + "\n")
        if self.options.root and not os.path.exists(self.options.root):
            qemu.overlay(self.options.root, os.path.join(self.boot, "../root.ext4"))
        qemu.sparse(os.path.join(self.disks, "scratch.raw"), qemu.SCRATCH)
        qemu.sparse(os.path.join(self.disks, "slow.raw"), qemu.SLOW)

    def start(self, kvm):
        """Start QEMU; return whether the guest reached its first program in time."""
        args = qemu.command(self.boot, self.top, self.kernel, self.out, self.disks,
                            self.options, kvm)
        # The file for changes of the root disk.
        environment = dict(os.environ, TMPDIR=self.disks)
        open(self.console, "wb").close()
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=errors,
                                            env=environment)
        with open(os.path.join(self.out, "qemu.pid"), "w", encoding="ascii") as file:
            file.write(f"{self.process.pid}\n")
        end = time.monotonic() + (accel.FIRST_LINE_SECONDS if kvm else BOOT_SECONDS)
        while time.monotonic() < end:
            if UP in _read(self.console):
                return True
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        return False

    def complaint(self):
        """Return the last message of QEMU, if it has ended."""
        lines = _read(self.errors).strip().splitlines()
        return lines[-1] if lines and self.process.poll() is not None else ""

    def last_line(self):
        """Return the last line that the guest itself printed."""
        return (_read(self.console).strip().splitlines()[-1:] or ["nothing on its console"])[0]

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def follow(self):
        """Print the output of the command until the guest is off."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    raise GuestError(f"no end after {self.options.timeout} s; stopped. The log: "
                                     f"{self.console}")
                if not selector.select(min(left, 5)):
                    continue
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    break
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        try:
            self.process.wait(POWER_OFF_SECONDS)
        except subprocess.TimeoutExpired:
            raise GuestError("QEMU does not end") from None

    def result(self):
        """The command's exit code."""
        code = self.process.returncode
        if code < 0:
            raise GuestError(f"QEMU was killed by {signal.Signals(-code).name}")
        if code:
            raise GuestError(f"QEMU ended with exit code {code}: {self.complaint()}")
        text = _read(os.path.join(self.out, ".exit")).strip()
        if not text:
            raise GuestError(f"the guest died before the command ended: {self.last_line()}; "
                             f"the log: {self.console}")
        return int(text)

    def log(self):
        """The kernel log, as far as it was written; also saved as out/dmesg.txt."""
        path = os.path.join(self.out, "dmesg.txt")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(_read(self.console))
            return _read(path)
        return _read(path) + _read(self.console)
