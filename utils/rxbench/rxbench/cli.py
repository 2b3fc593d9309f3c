# SPDX-License-Identifier: GPL-2.0-only
"""The command line."""

import argparse
import contextlib
import math
import os
import signal
import sys
import time

from . import VERSION, workloads
from .report import compare, document, html, markdown, merge, plots, text
from .run import progress
from .run.runner import Runner
from .system import machine
from .system.errors import BadInput, BenchError, Interrupted
from .system.output import say
from .system.undo import catch_signals, ignore_signals, interruptible

FAILED, USAGE, WORSE = 1, 2, 3


class Parser(argparse.ArgumentParser):
    """An argument parser that reports each error in one line."""

    def error(self, message):
        self.exit(USAGE, f"{self.prog}: {message} (see --help)\n")


def _complain(message):
    say(f"rxbench: {message}\n", sys.stderr)


def _drop_output():
    """Drop what cannot be written, which would be an error of the interpreter at its exit."""
    say("", sys.stdout)


def _count(least):
    def count(value):
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= 1000:
            raise argparse.ArgumentTypeError(f"{value!r}: must be a whole number from {least} "
                                             "to 1000")
        return int(value)
    return count


def _percent(value):
    try:
        percent = float(value)
    except ValueError:
        percent = -1.0
    # A time may get worse by more than 100 %.
    if not 0 <= percent < math.inf:
        raise argparse.ArgumentTypeError(f"{value!r}: must be a percentage, 0 or more")
    return percent


def _add_workload(commands, workload):
    parser = commands.add_parser(workload.NAME, help=workload.SUMMARY,
                                 description=workload.EXPLANATION,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    workload.add_arguments(parser)
    least = getattr(workload, "LEAST", 1)
    parser.add_argument("--repeats", metavar="N", type=_count(least),
                        help="repeat all measurements N times"
                             + (f", at least {least}" if least > 1 else "")
                             + f" (default: {getattr(workload, 'REPEATS', 3)})")
    parser.add_argument("--most-repeats", metavar="N", type=_count(1),
                        help="repeat measurements with a large variation up to N times (default: "
                             "twice --repeats)")
    parser.add_argument("--destroy", metavar="DEVICE", action="append", default=[],
                        help=f"allow writing to this {getattr(workload, 'DESTROYED', 'device')}, "
                             "whatever it contains; may be repeated")
    parser.add_argument("-o", "--output", metavar="DIRECTORY",
                        help="directory for report.json and report.html; older ones are replaced "
                             f"(default: rxbench-{workload.NAME}-DATE-TIME)")
    parser.add_argument("--no-html", action="store_true", help="write report.json only")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not show the progress")
    parser.set_defaults(run=_measure, workload=workload)


def parser():
    made = Parser(prog="rxbench", description="Benchmark block devices and file systems.")
    made.add_argument("--version", action="version", version=f"rxbench {VERSION}")
    commands = made.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for workload in workloads.ALL:
        _add_workload(commands, workload)
    listed = commands.add_parser("list", help="explain each workload")
    listed.set_defaults(run=_list)
    shown = commands.add_parser("report", help="print the tables of reports, or convert reports")
    shown.add_argument("reports", nargs="+", metavar="REPORT.json")
    shown.add_argument("--html", metavar="FILE", help="write all reports to one HTML page")
    shown.add_argument("--json", metavar="FILE",
                       help="write all reports to one file, which report can read")
    shown.add_argument("--markdown", action="store_true",
                       help="print the tables as Markdown, with spreads, verdicts and the "
                            "commands that created them")
    shown.add_argument("--merge", action="store_true",
                       help="make one report of all, which measured parts of one workload")
    shown.set_defaults(run=_report)
    compared = commands.add_parser("compare", help="print what has become better or worse")
    compared.add_argument("before", metavar="BEFORE.json")
    compared.add_argument("after", metavar="AFTER.json")
    compared.add_argument("--fail-if-worse", metavar="PERCENT", type=_percent,
                          help=f"exit with {WORSE} if a result is worse by more than this, or "
                               f"missing; with {USAGE} if uncertain, or AFTER is incomplete")
    compared.add_argument("--metric", metavar="NAME",
                          help="metric to compare, such as lat_mean_us (default: the first metric "
                               "of the reports)")
    compared.set_defaults(run=_compare)
    return made


def _list(_options):
    for workload in workloads.ALL:
        print(f"{workload.NAME}: {workload.SUMMARY}")
        print("".join(f"    {line}\n" for line in workload.EXPLANATION.splitlines()))
    return 0


def _report(options):
    documents = [each for path in options.reports for each in document.load_all(path)]
    if options.merge:
        documents = [merge.merge(documents)]
    if options.json:
        document.write(documents[0] if options.merge else documents, options.json)
    if options.html:
        document.put(options.html, html.render(documents))
    if options.markdown:
        print("\n".join(markdown.render(documents)))
    written = [path for path in (options.html, options.json) if path]
    # A device or a pipe holds no report, and may be the standard output.
    for path in filter(os.path.isfile, written):
        print(f"Report: {path}", file=sys.stderr if options.markdown else sys.stdout)
    for each in [] if options.markdown or written else documents:
        print("\n".join([f"{each['workload']}: {' '.join(each['command'])}", *text.render(each),
                         ""]))
    return 0


def _compare(options):
    before, after = document.load(options.before), document.load(options.after)
    rows = compare.compare(before, after, options.metric)
    print("\n".join(compare.render(rows, before, after, options.metric)))
    gone, _new = compare.missing(before, after, options.metric)
    if options.fail_if_worse is None:
        return 0
    if gone or compare.worse(rows, options.fail_if_worse):
        return WORSE
    doubt = compare.doubt(rows, after, options.fail_if_worse)
    if doubt:
        raise BadInput(f"--fail-if-worse {options.fail_if_worse:g}: {doubt}")
    return 0


def _folder(options):
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = options.output or f"rxbench-{options.workload.NAME}-{stamp}"
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--output {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise BadInput(f"--output {folder}: cannot be written")
    return folder


def _write(made, folder, page_wanted):
    """Write report.json always; report.html has plots if matplotlib is installed.

    Return what was written, as lines, and the reason why the rest was not.
    """
    lines, path = [""], os.path.join(folder, "report.json")
    try:
        document.write(made, path)
        lines.append(f"Report: {path}")
        if page_wanted:
            path = os.path.join(folder, "report.html")
            document.put(path, html.render([made]))
            lines.append(f"        {path}" + ("" if plots.available() else
                         ", without plots: they need matplotlib (python3-matplotlib)"))
    except OSError as error:
        return lines, f"{path}: cannot be written: {error.strerror}"
    return lines, None


def _measure(options):
    needs_root = getattr(options.workload, "needs_root", lambda _options: True)
    if not getattr(options, "show_jobs", False) and needs_root(options):
        machine.need_root()
    plan = options.workload.plan(options)
    plan.repeats = options.repeats or getattr(options.workload, "REPEATS", 3)
    plan.most_repeats = options.most_repeats or 2 * plan.repeats
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    described = machine.describe()
    warnings = list(machine.warnings(described))
    folder = _folder(options)
    for warning in warnings:
        _complain(f"warning: {warning}")
    outcome = Runner(plan, progress.for_output(plan, sys.stderr, options.quiet), _complain).run()
    # A run that was ended by an error or a signal is still reported.
    ignore_signals()
    made = document.make(options.workload.NAME, ["rxbench", *sys.argv[1:]], started, described,
                         warnings, plan, outcome)
    # The report comes first: the reader of the output may be gone.
    written, lost = _write(made, folder, not options.no_html)
    shown = "\n".join([*text.render(made), *written, ""])
    if lost:
        _complain(lost)
    if outcome.signum:
        say(shown, sys.stdout)
        _complain(f"interrupted by {outcome.ended_by}")
        return 128 + outcome.signum
    sys.stdout.write(shown)
    return FAILED if outcome.failures or lost else 0


def _prepare_output():
    """Either output may be closed, and names in it may be no valid text."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")
        stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream)


def main():
    # mkfs is in these folders; PATH after su may lack them.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    _prepare_output()
    catch_signals()
    try:
        options = parser().parse_args()
        # What measures nothing has nothing to undo, and may end anywhere.
        with contextlib.nullcontext() if options.run is _measure else interruptible():
            status = options.run(options)
        sys.stdout.flush()
        return status
    except BadInput as error:
        _complain(error)
        return USAGE
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except (BenchError, OSError) as error:
        _complain(error)
        _drop_output()
        return FAILED
    except Interrupted as interrupted:
        _complain(interrupted)
        return 128 + interrupted.signum
    finally:
        ignore_signals()
