# SPDX-License-Identifier: GPL-2.0-only
"""tests/guest: whether KVM works here, as several guests remember it."""

import multiprocessing
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.append(f"{TOP}/tests/guest")

from rxguest import accel  # noqa: E402


def remember_often(start):
    start.wait()
    for _ in range(200):
        accel.remember(True)


def test_two_guests_remember(tmp_path, monkeypatch):
    """Guests of two kernels that are started side by side find it out at the same time."""
    monkeypatch.setenv("RXD_CACHE", str(tmp_path))
    assert accel.recall() is None
    start = multiprocessing.Barrier(4)
    guests = [multiprocessing.Process(target=remember_often, args=[start]) for _ in range(4)]
    for guest in guests:
        guest.start()
    for guest in guests:
        guest.join()
    assert [guest.exitcode for guest in guests] == [0] * 4
    assert accel.recall() is True
    assert len(os.listdir(tmp_path / "guest")) == 1, "nothing else is left behind"
