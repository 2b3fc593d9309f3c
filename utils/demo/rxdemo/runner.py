# SPDX-License-Identifier: GPL-2.0-only
"""Run jobs on devices. What the jobs mean is for others to know."""

from . import command, dd, fio
from .errors import DemoError


def _measured(what, argv, parse):
    try:
        stdout, stderr = command.run(*argv)
        return parse(stdout, stderr)
    except DemoError as error:
        raise DemoError(f"{what}: {error}") from error


def run_fio(what, device, job):
    """The row that a fio job on a device gives."""
    return _measured(what, fio.command(device, job), lambda out, _err: fio.row(out))


def run_dd(what, device, direction, size):
    """The row that a copy to or from a device gives."""
    return _measured(what, dd.command(device, direction, size), lambda _out, err: dd.row(err))
