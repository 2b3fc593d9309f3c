# SPDX-License-Identifier: GPL-2.0-only
"""A configuration that belongs to one test, and rxadm apply with it."""

import contextlib
import os
import subprocess
import uuid

from . import lab, nvme
from .command import ENVIRONMENT, program, run, rxadm
from .control import Control
from .lab import RamDisk

PARAMETERS, PERMISSION, MEMORY, DEVICE, BUSY = 1, 2, 3, 4, 5
NAMESPACE = uuid.UUID("9d47b8a6-8b9a-45b5-97ac-626c1b790991")
RECORDS = "/run/rxadm"


class Configuration:
    """A file in a folder; its devices are removed when the block ends."""

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
        """Apply while strace changes the results of ioctls."""
        # LeakSanitizer cannot work beside strace.
        environment = dict(ENVIRONMENT,
                           ASAN_OPTIONS=f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0")
        return run("strace", "-f", "-o", "/dev/null", "-e", "trace=ioctl", "-e", how,
                   program("rxadm"), "apply", "--config", self.path, *args, check=False,
                   environment=environment)

    def ok(self, *args):
        """Apply, which must succeed; return the printed lines."""
        result = self.apply(*args)
        assert (result.returncode, complaints(result.stderr)) == (0, []), result
        return result.stdout.splitlines()

    def refused(self, code, *args, names=()):
        """Apply, which must fail with one line and this code; return the output."""
        result = self.apply(*args)
        assert result.returncode == code, result
        assert len(result.stderr.splitlines()) == 1, result.stderr
        for name in [names] if isinstance(names, str) else names:
            assert name in result.stderr
        return result.stdout.splitlines()


@contextlib.contextmanager
def exporting(folder):
    """A configuration with exports, none of which exist before and after the block."""
    nvme.network()
    assert nvme.tree() == []
    with Configuration(folder) as config:
        yield config
        nvme.end_all()
    assert nvme.tree() == []


def complaints(errors):
    """The lines that report errors, without those that report long waits."""
    return [line for line in errors.splitlines() if ": waiting for process " not in line]


def records():
    """The records of started sections."""
    return sorted(name for name in os.listdir(RECORDS)
                  if name.startswith(("ramdisk-", "cache-", "export-")))


def note_unfinished(uuid):
    """Record the loading of a RAM disk as incomplete, as an apply that was killed leaves it."""
    with open(os.path.join(RECORDS, f"unfinished-{uuid}"), "w", encoding="ascii"):
        pass


def unfinished():
    """RAM disks whose loading is recorded as incomplete."""
    return [name for name in os.listdir(RECORDS) if name.startswith("unfinished-")]


def disk_of(section):
    """The RAM disk of a section, or None."""
    wanted = str(uuid.uuid5(NAMESPACE, section))
    with Control() as control:
        for device in control.query_all():
            if device.uuid == wanted:
                return RamDisk(device.index)
    return None
