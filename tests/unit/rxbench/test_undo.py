# SPDX-License-Identifier: GPL-2.0-only
"""Undoing, signals, and running programs."""

import contextlib
import os
import signal
import time
import unittest

from rxbench.system import command, undo
from rxbench.system.errors import BenchError, Interrupted


def running(argument):
    """Processes that have this argument."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                if argument in file.read().split("\0"):
                    found.append(name)
    return found


class Undoing(unittest.TestCase):
    def setUp(self):
        self.undone = []
        self.complaints = []
        # The last of many signals may have arrived after the last check.
        self.addCleanup(self.forget_signals)
        for signum in undo.SIGNALS:
            self.addCleanup(signal.signal, signum, signal.getsignal(signum))
        undo.catch_signals()

    @staticmethod
    def forget_signals():
        with contextlib.suppress(Interrupted):
            undo.check()

    def step(self, stack, name, unmake=None):
        return stack.do(name, lambda: name, unmake or self.undone.append)

    def test_reverse(self):
        with undo.Undo(self.complaints.append) as stack:
            self.step(stack, "a")
            mark = stack.mark()
            self.step(stack, "b")
            self.step(stack, "c")
            stack.back_to(mark)
            self.assertEqual(self.undone, ["c", "b"])
        self.assertEqual(self.undone, ["c", "b", "a"])

    def test_one_that_fails_stops_none(self):
        def stuck(_):
            raise BenchError("busy")
        with self.assertRaisesRegex(BenchError, "not everything"):
            with undo.Undo(self.complaints.append) as stack:
                self.step(stack, "a")
                self.step(stack, "b", stuck)
        self.assertEqual(self.undone, ["a"])
        self.assertEqual(self.complaints, ["could not undo: b: busy"])

    def test_signal_while_making(self):
        with self.assertRaises(Interrupted):
            with undo.Undo(self.complaints.append) as stack:
                stack.do("a", lambda: os.kill(os.getpid(), signal.SIGTERM), self.undone.append)
                self.fail("went on after the signal")
        self.assertEqual(self.undone, [None])

    def test_signal_while_undoing(self):
        def kill(_):
            os.kill(os.getpid(), signal.SIGINT)
        with self.assertRaises(Interrupted):
            with undo.Undo(self.complaints.append) as stack:
                self.step(stack, "a")
                self.step(stack, "b", kill)
        self.assertEqual(self.undone, ["a"])

    def test_signal_between_steps(self):
        with self.assertRaises(Interrupted):
            with undo.Undo(self.complaints.append) as stack:
                self.step(stack, "a")
                os.kill(os.getpid(), signal.SIGHUP)
                self.undone.append("done")
                undo.check()
                self.fail("went on after the signal")
        self.assertEqual(self.undone, ["done", "a"])

    def test_many_signals(self):
        signal.signal(signal.SIGALRM, lambda *_: [os.kill(os.getpid(), signum)
                                                  for signum in undo.SIGNALS])
        self.addCleanup(signal.signal, signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.001)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        for _ in range(50):
            self.undone.clear()
            with self.assertRaises(Interrupted):
                with undo.Undo(self.complaints.append) as stack:
                    for name in "abc":
                        self.step(stack, name)
                    command.run("sleep", "60")
            self.assertEqual(self.undone, list("cba")[3 - len(self.undone):])
            self.assertTrue(self.undone)

    def test_signal_stops_a_program(self):
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        self.addCleanup(signal.signal, signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with self.assertRaises(Interrupted):
            command.run("sleep", "60.25")
        self.assertFalse(running("60.25"))

    def test_signal_stops_what_a_program_left(self):
        """It has ended, but what it has started holds its output."""
        script = "sleep 60.125 &"
        for run in (lambda: command.run("sh", "-c", script),
                    lambda: command.follow(["sh", "-c", script], self.undone.append)):
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
            self.addCleanup(signal.signal, signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with self.assertRaises(Interrupted):
                run()
            # Nobody has waited for its end.
            deadline = time.monotonic() + 30
            while running("60.125") and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(running("60.125"))


class Command(unittest.TestCase):
    def test_failure_is_one_line(self):
        with self.assertRaisesRegex(command.CommandFailed, "^sh: no luck$") as caught:
            command.run("sh", "-c", "echo no luck >&2; echo more >&2; exit 5")
        self.assertEqual(caught.exception.code, 5)

    def test_failure_after_progress(self):
        script = "echo '0 errors' >&2; echo 'sh: error: full' >&2; exit 1"
        with self.assertRaisesRegex(command.CommandFailed, "^sh: error: full$"):
            command.run("env", "sh", "-c", script)

    def test_silent_failure(self):
        with self.assertRaisesRegex(command.CommandFailed, "^false: exit code 1$"):
            command.run("false")

    def test_bytes_that_are_no_text(self):
        """A compiler may quote a line of any encoding."""
        self.assertEqual(command.run("sh", "-c", r"printf '\377\n' | tee /dev/stderr"),
                         ("\ufffd\n", "\ufffd\n"))
        with self.assertRaisesRegex(command.CommandFailed, "^sh: \ufffd$"):
            command.follow(["sh", "-c", r"printf '\377\n' >&2; exit 1"], print)

    def test_no_program(self):
        with self.assertRaisesRegex(BenchError, "no such program"):
            command.run("/nonexistent/program")
