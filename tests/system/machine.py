# SPDX-License-Identifier: GPL-2.0-only
"""A Debian system: what runs inside its root file system, and what in a guest it boots."""

import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SYSTEMS = ("debian-12", "debian-13")
STEPS = "/rxd/tests/system/steps"
SECONDS = 3600     # a step that builds the modules three times, emulated, takes 25 minutes
CHECKER = "6.12"     # a root file system that has linters


class Machine:
    """One disk, which each boot leaves to the next."""

    def __init__(self, system):
        self.system = system
        self.folder = f"build/system/{system}"      # below the checkout, wherever it is
        self.base = os.path.join(TOP, self.folder)
        self.out = os.path.join(TOP, "build/guest", system, "out")
        self.root = os.path.join(self.base, "root.qcow2")
        self.steps = 0
        os.makedirs(self.base, exist_ok=True)
        if os.path.exists(self.root):
            os.unlink(self.root)

    def path(self, *names):
        """A file that the guest sees as /rxd/build/system/SYSTEM/..."""
        return os.path.join(self.base, *names)

    def _run(self, step, command):
        self.steps += 1
        log = self.path(f"{self.steps}-{step}.log")
        with open(log, "wb") as file:
            code = subprocess.run(command, cwd=TOP, check=False, stdin=subprocess.DEVNULL,
                                  stdout=file, stderr=subprocess.STDOUT).returncode
        with open(log, encoding="utf-8", errors="replace") as file:
            print(file.read())
        assert not code, f"step {step}: exit code {code}"

    def inside(self, step, *arguments, scratch=False):
        """Run a step in the root file system, at the host's full speed."""
        self._run(step, ["tests/guest/chroot", *(["--scratch"] if scratch else []), self.system,
                         f"{STEPS}/{step}", f"/rxd/{self.folder}", *arguments])

    def check(self, step, *command):
        """Run a linter."""
        self._run(step, ["tests/guest/chroot", CHECKER, *command])

    def boot(self, step, *arguments, initrd=None, append=(), disks=()):
        """Boot, run a step, and power off, as a user would."""
        options = ["--initrd", initrd] if initrd else []
        for parameter in append:
            options += ["--append", parameter]
        for disk in disks:
            options += ["--disk", disk]
        self._run(step, ["tests/guest/run", self.system, "--root", self.root, "--timeout",
                         str(SECONDS), *options, "--",
                         f"{STEPS}/{step}", f"/rxd/{self.folder}", *arguments])
