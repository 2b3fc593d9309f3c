# SPDX-License-Identifier: GPL-2.0-only
"""The demo in a guest: outside, what starts it; inside, what runs it."""

import json
import os

from rxbench.system import command, machine
from rxbench.system.errors import BenchError
from rxbench.system.undo import Undo

from . import disks, story
from .devices import Devices

# What tests/guest/run gives to a guest.
DISK, IOPS, MB_S = "/dev/vdc", 150, 150
MODULES = "/lib/rxd"
OUT, OUT_INSIDE = "out", "/out"
REPORT = "report.json"
PROMISE = {"workload": "randread_4k", "at_least": 10}


def run(top, kernel, seconds):
    """Build for the guest's kernel, boot it, run the demo in it; returns the report."""
    machine.need_root()
    tools = [os.path.join(top, "tests/guest", name) for name in ("build", "run")]
    for tool in tools:
        if not os.access(tool, os.X_OK):
            raise BenchError(f"{tool} is missing: requires the complete source tree")
    found = os.path.join(top, "build/guest", kernel, OUT, REPORT)
    if os.path.exists(found):
        os.unlink(found)
    if command.show(tools[0], kernel):
        raise BenchError(f"tests/guest/build {kernel} failed")
    code = command.show(tools[1], kernel, "--", "/rxd/utils/demo/run", "--in-guest",
                        "--seconds", str(seconds), "--report", f"{OUT_INSIDE}/{REPORT}")
    if not os.path.exists(found):
        raise BenchError(f"the demo in the guest ended early, with exit code {code}")
    with open(found, encoding="utf-8") as file:
        report = json.load(file)
    if code and not report["summary"]["failures"]:
        report["summary"]["failures"] = [f"tests/guest/run {kernel} ended with exit code {code}"]
    return report


def run_inside(seconds, say):
    """Run the demo on the guest's slow disk; returns the report."""
    machine.need_root()
    machine.need_tools(*story.TOOLS, "rxadm")
    machine.need_memory(story.MEMORY)
    with Undo(say) as undo:
        devices = Devices(undo, "rxadm")
        for name in ("rxd", "dm-rxcache"):
            say(devices.load(os.path.join(MODULES, f"{name}.ko")))
        disk = disks.throttled(DISK, IOPS, MB_S)
        return story.Story(devices, disk, seconds, say, PROMISE).tell()
