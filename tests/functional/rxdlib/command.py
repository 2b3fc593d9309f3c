# SPDX-License-Identifier: GPL-2.0-only
"""Running programs."""

import glob
import os
import shutil
import subprocess

KERNEL = ".".join(os.uname().release.split(".")[:2])
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ.get("RXD_BUILD", os.path.join(SOURCE, "build/guest", KERNEL))

# Where programs with sanitizers, or under valgrind, write their reports. A dot and the process
# ID are appended to the name.
REPORT = "/tmp/rxd-report"

# libdevmapper must not wait for a udev daemon that is not there.
ENVIRONMENT = dict(os.environ, LC_ALL="C", DM_DISABLE_UDEV="1",
                   ASAN_OPTIONS=f"exitcode=99:log_path={REPORT}")


class CommandError(Exception):
    """A program failed that must succeed."""

    def __init__(self, args, result):
        super().__init__(f"{' '.join(args)}: exit {result.returncode}\n"
                         f"{result.stdout}{result.stderr}")
        self.result = result


def run(*args, check=True, timeout=300, stdin=None, environment=None):
    """Run a program and return its CompletedProcess, text captured."""
    args = [str(arg) for arg in args]
    result = subprocess.run(args, capture_output=True, text=True, timeout=timeout, check=False,
                            input=stdin, env=environment or ENVIRONMENT)
    if check and result.returncode:
        raise CommandError(args, result)
    return result


def program(name):
    """The path of a program built from this checkout, or of what RXD_NAME says instead."""
    path = os.environ.get(f"RXD_{name.upper()}")
    if path:
        return path
    path = os.path.join(BUILD, "bin", name)
    if os.access(path, os.X_OK):
        return path
    path = shutil.which(name)
    if not path:
        raise FileNotFoundError(f"{name}: neither in {BUILD}/bin nor in PATH")
    return path


def rxadm(*args, **options):
    """Run rxadm. The caller checks the exit code, unless check is set."""
    options.setdefault("check", False)
    return run(program("rxadm"), *args, **options)


def reports():
    """Return the reports of programs since the last call."""
    found = []
    for path in sorted(glob.glob(f"{glob.escape(REPORT)}.*")):
        with open(path, encoding="utf-8", errors="replace") as file:
            found.append(file.read())
        os.unlink(path)
    return found


def as_nobody(*args, **options):
    """Run a program as a user without any privilege."""
    return run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
               "--bounding-set=-all", *args, **options)
