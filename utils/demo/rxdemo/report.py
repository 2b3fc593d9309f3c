# SPDX-License-Identifier: GPL-2.0-only
"""The report: its summary, its verdict, and its text for a terminal."""

from rxbench.report.text import table, wrap
from rxbench.system.units import duration, size

VERSION = 1


def with_ratios(rows, key, speed, base):
    """Add times_plain: how many times the row of subject base with the same key."""
    plain = {row[key]: row[speed] for row in rows if row["subject"] == base}
    return [{**row, "times_plain": row[speed] / plain[row[key]] if plain.get(row[key]) else None}
            for row in rows]


def ratios(rows, subject):
    """times_plain of a subject by workload."""
    return {row["workload"]: row["times_plain"] for row in rows if row["subject"] == subject}


def failures(summary, promise):
    """Why the demo failed: sentences, none if all is well."""
    found = []
    if not summary["disk_verified"]:
        found.append("the disk does not hold what was written through the cache")
    if promise:
        workload, least = promise["workload"], promise["at_least"]
        ratio = summary["cached_over_disk"][workload]
        if ratio is None or ratio < least:
            found.append(f"{workload} through the warm cache is {times(ratio)} the plain disk, "
                         f"at least {least} is expected")
    return found


def times(ratio):
    if ratio is None:
        return "-"
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2
    return f"{ratio:,.{digits}f} x"


def speed(mb_s):
    return f"{mb_s:,.{2 if mb_s < 10 else 1 if mb_s < 100 else 0}f}"


def measured(row):
    """One measurement in a line, as it happens."""
    return (f"{speed(row['bw_mb_s']):>8} MB/s {row['iops']:>10,.0f} IOPS   "
            f"mean {duration(row['lat_mean_us']):>8}   p99 {duration(row['lat_p99_us']):>8}")


def _grouped(rows, key):
    """Rows one by one, None between those whose key differs."""
    for index, row in enumerate(rows):
        if index and rows[index - 1][key] != row[key]:
            yield None
        yield row


def _table(report):
    titles = {subject["name"]: subject["title"] for subject in report["subjects"]}
    first = None
    lines = []
    rows = report["results"] + [
        {"workload": f"dd_{row['direction']}", "title": f"dd 1M {row['direction']}",
         "iops": None, "lat_mean_us": None, "lat_p99_us": None, **row} for row in report["dd"]]
    for row in _grouped(rows, "workload"):
        if row is None:
            lines.append(None)
            continue
        lines.append(("" if row["workload"] == first else row["title"],
                      titles[row["subject"]],
                      speed(row["bw_mb_s"]),
                      "-" if row["iops"] is None else f"{row['iops']:,.0f}",
                      "-" if row["lat_mean_us"] is None else duration(row["lat_mean_us"]),
                      "-" if row["lat_p99_us"] is None else duration(row["lat_p99_us"]),
                      times(row["times_plain"])))
        first = row["workload"]
    return table(("workload", "subject", "MB/s", "IOPS", "mean", "p99", "times plain"), lines,
                 left=2)


def _notes(report):
    machine, summary = report["machine"], report["summary"]
    cache, warm = report["cache"], report["cache_warm_reads"]
    yield f"The plain disk: {report['slow_disk']['description']}."
    for note in report["slow_disk"].get("notes", ()):
        yield note
    yield (f"The cache: {size(cache['blocks_total'] * cache['block_size'])} of memory, "
           f"write-through, blocks of {size(cache['block_size'])}; in all "
           f"{cache['read_hits']:,} read hits, {cache['read_misses']:,} read misses.")
    yield (f"Unless marked as cold, the cache is warm: every block was read before. "
           f"Of those reads {warm['read_hits']:,} blocks were hits and "
           f"{warm['read_misses']:,} misses: {warm['hit_percent']:.2f} %.")
    yield "Writes go to the disk before they complete, so the cache does not speed them up."
    if machine["emulated"]:
        emulated = ("This machine is emulated in software (QEMU TCG): MB/s and latencies of "
                    "memory are meaningless here.")
        if report["slow_disk"]["promise"]:
            emulated += (" The ratios show that the cache answers without the disk, and not how "
                         "much faster it would be on hardware.")
        yield emulated
    verified = "yes" if summary["disk_verified"] else "NO"
    yield (f"The disk, read with the cache taken off, holds the same bytes: {verified} "
           f"({summary['verified_detail']}).")


def render(report):
    """The report as lines of text."""
    machine = report["machine"]
    lines = [f"Linux {machine['kernel']}, {machine['cpus']} CPUs ({machine['cpu']}), "
             f"{size(machine['memory'])} of memory, virtualization: {machine['virtualization']}",
             f"{machine['fio']}, libaio, direct I/O, queue depth 32, "
             f"{report['seconds_per_job']} s each over {size(report['area'])}", ""]
    lines += _table(report) + [""]
    for note in _notes(report):
        lines += wrap(note)
    return lines
