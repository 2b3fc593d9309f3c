# SPDX-License-Identifier: GPL-2.0-only
"""fio: a job's numbers as a row."""

from rxbench.tools import fio


def measure(device, job):
    """Throughput and latency of one job on one device."""
    found = fio.measure(device, job)["metrics"]
    return {"bw_mb_s": found["mb_s"], "iops": found["iops"],
            "lat_mean_us": found["lat_mean_us"], "lat_p99_us": found["lat_p99_us"]}
