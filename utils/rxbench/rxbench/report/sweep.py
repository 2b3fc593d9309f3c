# SPDX-License-Identifier: GPL-2.0-only
"""Cases that are points of a sweep: their tables, and their curves of latency over I/O rate."""

from ..system.units import duration, mix, short

RATE, LATENCY = "iops", "lat_mean_us"


def points(document):
    """(percentage of reads, block, depth, case) of the cases of a sweep, in order."""
    return [(case["point"]["read_percent"], case["point"]["block"], case["point"]["depth"],
             case["name"]) for case in document["cases"] if case.get("point")]


def _rows(document):
    """Rows of the summary by case, subject and metric."""
    return {(row["case"], row["subject"], row["metric"]): row for row in document["summary"]}


def tables(document, spread=None):
    """Head and rows for each mix: a row for each block size and subject, a column a depth.

    spread is the function that prints the spread of a rate, if that is wanted.
    """
    found, summary = points(document), _rows(document)
    depths = list(dict.fromkeys(depth for _percent, _block, depth, _name in found))
    names = {point[:3]: point[3] for point in found}
    several = len(document["subjects"]) > 1

    def cell(case, subject):
        rate, latency = (summary.get((case, subject, metric)) for metric in (RATE, LATENCY))
        if not rate or not latency:
            return "-"
        beside = duration(latency["median"]) + (f"; {spread(rate)}" if spread else "")
        return f"{rate['median']:,.0f} ({beside})"

    made = []
    for percent in dict.fromkeys(point[0] for point in found):
        rows = [[short(block) + (f", {subject['title']}" if several else ""),
                 *(cell(names.get((percent, block, depth)), subject["name"]) for depth in depths)]
                for block in dict.fromkeys(point[1] for point in found)
                for subject in document["subjects"]]
        rows = [row for row in rows if set(row[1:]) != {"-"}]
        if rows:
            made.append(([f"IOPS, random {mix(percent)}",
                          *(f"depth {depth}" for depth in depths)], rows))
    return made


def curves(document):
    """For each block size and mix: by subject, (I/O rate, latency, depth) as the depth grows."""
    summary, made = _rows(document), {}
    for percent, block, depth, case in sorted(points(document), key=lambda point: point[2]):
        for subject in document["subjects"]:
            rate, latency = (summary.get((case, subject["name"], metric), {}).get("median")
                             for metric in (RATE, LATENCY))
            if rate and latency:
                made.setdefault((percent, block), {}).setdefault(subject["name"], []).append(
                    (rate, latency, depth))
    order = list(dict.fromkeys(point[:2] for point in points(document)))
    return {f"{short(block)} random {mix(percent)}": made[percent, block]
            for percent, block in order if (percent, block) in made}
