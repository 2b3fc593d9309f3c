# SPDX-License-Identifier: GPL-2.0-only
"""Run the steps of a plan, interleaved and repeated, without knowledge of their meaning."""

import signal
import time
from dataclasses import dataclass, field

from ..system.errors import BenchError, Interrupted
from ..system.undo import Undo, check
from .steady import unsteady


# Maximum number of cases that a note names.
MOST_LISTED = 6


@dataclass
class Outcome:
    """The results, and the reason for an early end."""
    results: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    ended_by: str = None
    signum: int = 0
    seconds: float = 0.0


class Runner:
    """Keep the results, whatever ends the run."""

    def __init__(self, plan, progress, complain):
        self.plan, self.progress, self.complain = plan, progress, complain
        self.outcome = Outcome()
        self.undo = None

    def run(self):
        begin = time.monotonic()
        try:
            with Undo(self._failed_to_undo) as self.undo:
                self.plan.set_up(self.undo)
                self._repeats()
        except Interrupted as interrupted:
            self.outcome.signum = interrupted.signum
            self.outcome.ended_by = signal.Signals(interrupted.signum).name
        except Exception as error:
            self._fail(None, None, None, error)
        finally:
            self.progress.end()
        self.outcome.seconds = time.monotonic() - begin
        return self.outcome

    def _failed_to_undo(self, text):
        self.outcome.failures.append({"case": None, "subject": None, "repeat": None,
                                      "message": text})
        self.complain(text)

    def _fail(self, case, subject, repeat, error, skipped=()):
        # The text of an error that nobody expected, such as KeyError, may say nothing.
        said = str(error) if isinstance(error, (BenchError, OSError)) else repr(error)
        if skipped:
            titles = "; ".join(each.title for each in skipped)
            said += "; skipped: " + (f"{len(skipped)} cases" if len(skipped) > MOST_LISTED
                                     else titles)
        self.outcome.failures.append({"case": case and case.name,
                                      "subject": subject and subject.name,
                                      "repeat": repeat, "message": said})
        where = ", ".join(part.title for part in (subject, case) if part)
        self.complain(f"{where}: {said}" if where else said)

    def _repeats(self):
        for repeat in range(self.plan.repeats):
            self._repeat(repeat, self.plan.rounds)
        again = {}
        for repeat in range(self.plan.repeats, self.plan.most_repeats):
            cases = unsteady(self.plan, self.outcome.results)
            rounds = [each for each in self.plan.rounds
                      if any(case.name in cases for case in each.cases)]
            if not rounds:
                break
            again.update((case.title, repeat + 1) for each in rounds for case in each.cases)
            self.progress.more(self.plan.seconds(rounds))
            self._repeat(repeat, rounds)
        if again:
            listed = "; ".join(f"{title} ({count} times)" for title, count in again.items())
            if len(again) > MOST_LISTED:
                listed = f"{len(again)} cases, up to {max(again.values())} times"
            self.plan.notes.append(f"Repeated more often, because the results varied: {listed}.")

    def _repeat(self, repeat, rounds):
        for each, subject in self.plan.steps(repeat, rounds):
            check()
            if self.undo.failed:
                raise BenchError("stopped, because not everything could be undone")
            try:
                self._round(each, subject, repeat)
            except Exception as error:
                # A case that fails must not discard the figures of the others.
                self._fail(None, subject, repeat, error)

    def _round(self, each, subject, repeat):
        with self.plan.open(subject, each, repeat) as measure:
            for number, case in enumerate(each.cases, 1):
                self.progress.step(case, subject, repeat)
                try:
                    sample = measure(case)
                except Exception as error:
                    self._fail(case, subject, repeat, error, each.cases[number:])
                    return
                finally:
                    self.progress.done(case)
                self.outcome.results.append({"case": case.name, "subject": subject.name,
                                             "repeat": repeat,
                                             "order": len(self.outcome.results), **sample})
                check()
