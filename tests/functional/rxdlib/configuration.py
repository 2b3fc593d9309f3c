# SPDX-License-Identifier: GPL-2.0-only
"""A configuration of a test's own, and rxadm apply with it."""

import os
import subprocess
import uuid

from . import lab
from .command import ENVIRONMENT, program, run, rxadm
from .control import Control
from .lab import RamDisk

PARAMETERS, PERMISSION, DEVICE, BUSY = 1, 2, 4, 5
NAMESPACE = uuid.UUID("9d47b8a6-8b9a-45b5-97ac-626c1b790991")
RECORDS = "/run/rxadm"


class Configuration:
    """A file in a folder; what was made of it goes when the block ends."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "rxd.conf"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        lab.leftovers()
        if os.path.isdir(RECORDS):
            for name in os.listdir(RECORDS):
                os.unlink(os.path.join(RECORDS, name))

    def write(self, text):
        self.path.write_text(text)

    def apply(self, *args):
        return rxadm("apply", "--config", self.path, *args)

    def start(self, *args):
        """Apply in the background."""
        return subprocess.Popen(
            [program("rxadm"), "apply", "--config", str(self.path), *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)

    def failing(self, how, *args):
        """Apply with system calls of ioctl that strace changes."""
        # LeakSanitizer cannot work beside strace.
        environment = dict(ENVIRONMENT,
                           ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0")
        return run("strace", "-f", "-o", "/dev/null", "-e", "trace=ioctl", "-e", how,
                   program("rxadm"), "apply", "--config", self.path, *args, check=False,
                   environment=environment)

    def ok(self, *args):
        """Apply without any error; the lines printed."""
        result = self.apply(*args)
        assert (result.returncode, complaints(result.stderr)) == (0, []), result
        return result.stdout.splitlines()

    def refused(self, code, *args, names=()):
        """Apply with an error of one line and this code; what was printed."""
        result = self.apply(*args)
        assert result.returncode == code, result
        assert len(result.stderr.splitlines()) == 1, result.stderr
        for name in [names] if isinstance(names, str) else names:
            assert name in result.stderr
        return result.stdout.splitlines()


def complaints(errors):
    """The lines that tell of errors: that a wait takes long is told as well."""
    return [line for line in errors.splitlines() if ": waiting for process " not in line]


def records():
    """Of what was started."""
    return sorted(name for name in os.listdir(RECORDS)
                  if name.startswith(("ramdisk-", "cache-", "export-")))


def unfinished():
    """RAM disks that are not filled to the end, as far as anybody knows."""
    return [name for name in os.listdir(RECORDS) if name.startswith("unfinished-")]


def disk_of(section):
    """The RAM disk of a section, or None."""
    wanted = str(uuid.uuid5(NAMESPACE, section))
    with Control() as control:
        for device in control.query_all():
            if device.uuid == wanted:
                return RamDisk(device.index)
    return None
