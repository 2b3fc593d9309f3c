# SPDX-License-Identifier: GPL-2.0-only
"""The command line of the demo."""

import argparse
import os
import sys
import time

from rxbench.report import document
from rxbench.system.errors import BenchError, Interrupted
from rxbench.system.undo import catch_signals, check, ignore_signals

from . import guest, host, report

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__)))))

FAILED, USAGE = 1, 2


class Parser(argparse.ArgumentParser):
    """One line for each error."""

    def error(self, message):
        self.exit(USAGE, f"demo: {message} (see --help)\n")


def _seconds(text):
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 600:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from 1 to 600")
    return int(text)


def _kernel(text):
    if not text.replace(".", "").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: must be a version such as 6.12")
    return text


def _directory(text):
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a directory")
    return text


def parser():
    made = Parser(prog="demo", description="Demonstrate and measure a RAM disk, and a RAM disk as "
                                           "the cache of a slow disk.")
    made.add_argument("--host", action="store_true", default=os.environ.get("HOST") == "1",
                      help="run on this machine, with a file as the disk (also: HOST=1 in the "
                           "environment); default: in a guest")
    made.add_argument("--kernel", type=_kernel, default=os.environ.get("KERNEL") or "6.12",
                      metavar="VERSION", help="the guest's kernel (also: KERNEL in the "
                                              "environment; default: 6.12)")
    made.add_argument("--seconds", type=_seconds, default=3, metavar="N",
                      help="duration of each measurement in seconds (default: 3)")
    made.add_argument("--dir", type=_directory, default="/var/tmp",
                      help="directory for the disk's file with --host (default: /var/tmp)")
    made.add_argument("--report", default=os.path.join(TOP, "build/demo/report.json"),
                      metavar="FILE", help="file for the report (default: %(default)s)")
    made.add_argument("--in-guest", action="store_true", help=argparse.SUPPRESS)
    return made


def say(text):
    check()
    print(text, flush=True)


def _complain(text):
    print(f"demo: {text}", file=sys.stderr, flush=True)


def _show(result, path, seconds):
    say("")
    for line in report.render(result):
        say(line)
    say(f"\nReport: {path} (all in {seconds / 60:.1f} minutes)")


def _run(options):
    start = time.monotonic()
    if options.in_guest:
        result = guest.run_inside(options.seconds, say)
    elif options.host:
        result = host.run(TOP, options.dir, options.seconds, say)
    else:
        result = guest.run(TOP, options.kernel, options.seconds)
    document.write(result, options.report)
    if not options.in_guest:
        _show(result, os.path.relpath(options.report), time.monotonic() - start)
    for failure in result["summary"]["failures"]:
        _complain(failure)
    return FAILED if result["summary"]["failures"] else 0


def main():
    options = parser().parse_args()
    catch_signals()
    try:
        return _run(options)
    except (BenchError, OSError) as error:
        _complain(error)
        return FAILED
    except Interrupted as interrupted:
        _complain(interrupted)
        return 128 + interrupted.signum
    finally:
        ignore_signals()
