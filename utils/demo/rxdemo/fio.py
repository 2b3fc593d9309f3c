# SPDX-License-Identifier: GPL-2.0-only
"""fio: command line, and its JSON output as the numbers of one row."""

import json
import os

from .errors import DemoError

# Direct I/O on a block device needs no invalidation, and the ioctl fio would
# use for it empties a RAM disk on some drivers.
BASE = {"ioengine": "libaio", "direct": 1, "iodepth": 32, "invalidate": 0,
        "allow_file_create": 0, "lat_percentiles": 1, "thread": 1}


def command(device, job):
    """argv of a run of one job on one device."""
    options = {"name": "demo", "filename": device, **BASE, **job}
    return ["fio", "--output-format=json"] + [f"--{key}={value}"
                                              for key, value in options.items()]


def document(text):
    """The JSON in fio's output, which warnings may precede."""
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise DemoError(f"fio: no JSON in its output: {text.strip()[:80]!r}") from error


def row(text):
    """Throughput and latency of the only job in fio's output."""
    try:
        job, = document(text)["jobs"]
        if job["error"]:
            raise DemoError(f"fio: error {job['error']} ({os.strerror(job['error'])})")
        read, write = job["read"], job["write"]
        side = read if read["total_ios"] else write
        if not side["total_ios"]:
            raise DemoError("fio: not one I/O was completed")
        latency = side["lat_ns"]
        return {"bw_mb_s": side["bw_bytes"] / 1e6,
                "iops": side["iops"],
                "lat_mean_us": latency["mean"] / 1e3,
                "lat_p99_us": latency["percentile"]["99.000000"] / 1e3}
    except (KeyError, TypeError, ValueError) as error:
        raise DemoError(f"fio: its JSON is not as expected: {error!r}") from error
