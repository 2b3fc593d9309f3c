# SPDX-License-Identifier: GPL-2.0-only
"""Run jobs on devices, without knowledge of their meaning."""

from rxbench.system import command
from rxbench.system.errors import BenchError

from . import dd, fio


def run_fio(what, device, job):
    """The row that a fio job on a device gives."""
    try:
        return fio.measure(device, job)
    except BenchError as error:
        raise BenchError(f"{what}: {error}") from error


def run_dd(what, device, direction, size):
    """The row that a copy to or from a device gives."""
    try:
        return dd.row(command.run(*dd.command(device, direction, size))[1])
    except BenchError as error:
        raise BenchError(f"{what}: {error}") from error
