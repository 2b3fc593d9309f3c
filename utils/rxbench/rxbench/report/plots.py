# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of a report, as SVG."""

import io
import statistics

from ..run.plan import LOWER
from ..system.errors import BadInput
from ..system.units import number
from . import sweep

COLOURS = ("#3465a4", "#cc4c02", "#4e9a06", "#75507b", "#a40000", "#555753", "#c4a000", "#06989a",
           "#8ab4e8", "#f4a582", "#a6d96a", "#c5a3d1", "#e06666", "#babdb6", "#7a5230", "#ff66b3")
# After the last colour, colours repeat with other lines, hatches and markers.
DASHES = ("-", "--", ":", "-.")
HATCHES = ("", "//", "..", "xx")
MARKERS = ("o", "s", "^", "D")
# If the values on an axis differ by at most this factor, the axis is linear.
LINEAR_SPAN = 30
SERIES = {"mb_s": ("Throughput over time", "MB/s"),
          "lat_mean_us": ("Mean latency over time", "us"),
          "hit_percent": ("Hit ratio over time", "% of reads")}


def pyplot():
    """Load matplotlib, which only plots need."""
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot as found
    except ImportError as error:
        raise BadInput("the HTML report needs matplotlib for its plots: install "
                       "python3-matplotlib") from error
    matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                                "grid.alpha": 0.3, "axes.spines.top": False,
                                "axes.spines.right": False, "legend.frameon": False,
                                "axes.prop_cycle": matplotlib.cycler(color=COLOURS)})
    return found


def available():
    try:
        return bool(pyplot())
    except BadInput:
        return False


def _svg(plt, figure, salt):
    """The picture without the parts of a separate file; its ids differ from those of others."""
    import matplotlib
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg"):]


def _style(rank):
    """Colour, line, hatch and marker of a subject, unique among 64."""
    again = rank // len(COLOURS) % len(DASHES)
    return COLOURS[rank % len(COLOURS)], DASHES[again], HATCHES[again], MARKERS[again]


def _titles(document):
    return {subject["name"]: subject["title"] for subject in document["subjects"]}


def _median(axes, row, y, thick, rank, title, bar):
    """A bar with its whisker, or a point for a logarithmic axis, where a bar has no length."""
    colour, _dashes, hatch, marker = _style(rank)
    spread = [[row["median"] - row["low"]], [row["high"] - row["median"]]]
    if bar:
        axes.barh(y, row["median"], thick * 0.9, color=colour, hatch=hatch, edgecolor="white",
                  linewidth=0, xerr=spread, error_kw={"elinewidth": 0.8, "capsize": 2},
                  label=title)
    else:
        axes.errorbar(row["median"], y, xerr=spread, fmt=marker, color=colour, markersize=4,
                      elinewidth=0.8, capsize=2, label=title)
    # Put the text beside the whisker, not on it.
    axes.annotate(number(row["median"]), (row["high"], y), (5, 0), textcoords="offset points",
                  va="center", fontsize=7)


def _bars(plt, document):
    """A group of bars for each case: medians of the metric that decides, and their spread."""
    metric = document["metrics"][0]
    rows = [row for row in document["summary"] if row["metric"] == metric["name"]]
    cases = [case for case in document["cases"] if any(row["case"] == case["name"]
                                                       for row in rows)]
    subjects = [subject for subject in document["subjects"]
                if any(row["subject"] == subject["name"] for row in rows)]
    if not rows:
        return None
    thick = 0.8 / len(subjects)
    figure, axes = plt.subplots(figsize=(8, 0.8 + len(cases) * (0.16 + 0.2 * len(subjects))))
    positive = [row["median"] for row in rows if row["median"] > 0]
    log = positive and max(positive) > LINEAR_SPAN * min(positive)
    for rank, subject in enumerate(subjects):
        for place, case in enumerate(cases):
            for row in rows:
                if (row["case"], row["subject"]) == (case["name"], subject["name"]):
                    y = place + (rank - (len(subjects) - 1) / 2) * thick
                    _median(axes, row, y, thick, rank, subject["title"], not log)
    axes.set_yticks(range(len(cases)), [case["title"] for case in cases])
    axes.invert_yaxis()
    if log:
        # Before, matplotlib would extend the axis to the logarithms of the values.
        axes.set_xscale("log")
    axes.set_xlabel(metric["unit"] + (", lower is better" if metric["better"] == LOWER else "")
                    + (", logarithmic axis" if log else ""))
    handles = dict(zip(*reversed(axes.get_legend_handles_labels())))
    axes.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.02, 1))
    return figure


def _repeats(document, key):
    """The values of a key in each repeat, by case and subject, if there are any."""
    found = {}
    for row in document["results"]:
        if row.get(key):
            found.setdefault(row["case"], {}).setdefault(row["subject"], []).append(row[key])
    return found


def _medians(repeats):
    """The median of each percentile that all repeats have."""
    common = set.intersection(*map(set, repeats))
    return {key: statistics.median(values[key] for values in repeats) for key in common}


def _grid(plt, count):
    columns = min(2, count)
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 2.7 * rows),
                                squeeze=False, layout="constrained")
    flat = [each for line in axes for each in line]
    for each in flat[count:]:
        each.set_visible(False)
    return figure, flat


def _lines(plt, document, found, draw, **bounds):
    """One small plot per case; the bounds are those of the values after all lines are drawn."""
    cases = [case for case in document["cases"] if case["name"] in found]
    if not cases:
        return None
    titles = _titles(document)
    order = list(titles)
    figure, axes = _grid(plt, len(cases))
    for case, each in zip(cases, axes):
        for subject, repeats in found[case["name"]].items():
            draw(each, repeats, titles[subject], *_style(order.index(subject))[:2])
        each.set_ylim(**bounds)
        each.set_title(case["title"], fontsize=9)
        each.legend(fontsize=7)
    return figure


def _percentiles(plt, document):
    def draw(axes, repeats, label, colour, dashes):
        points = sorted((float(percent), amount)
                        for percent, amount in _medians(repeats).items())
        # Show nines, so that the tail is visible.
        axes.plot([1 / (1 - percent / 100) for percent, _ in points],
                  [amount for _, amount in points], dashes, marker=".", label=label,
                  color=colour)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([2, 10, 100, 1e3, 1e4, 1e5],
                        ["50", "90", "99", "99.9", "99.99", "99.999"])
        axes.set_xlabel("percentile")
        axes.set_ylabel("us")
    return _lines(plt, document, _repeats(document, "percentiles"), draw)


def _series(plt, document, name):
    found = {}
    for case, subjects in _repeats(document, "series").items():
        having = {subject: [series[name] for series in repeats if series.get(name)]
                  for subject, repeats in subjects.items()}
        having = {subject: repeats for subject, repeats in having.items() if repeats}
        if having:
            found[case] = having
    title, unit = SERIES[name]

    def draw(axes, repeats, label, colour, dashes):
        for rank, points in enumerate(repeats):
            axes.plot([point[0] for point in points], [point[1] for point in points], dashes,
                      color=colour, marker="." if len(points) < 3 else None,
                      alpha=1 if len(repeats) == 1 else 0.6, linewidth=1,
                      label=None if rank else label)
        axes.set_xlabel("s")
        axes.set_ylabel(unit)
    return title, _lines(plt, document, found, draw, bottom=0)


def _curves(plt, document):
    """Latency over I/O rate: a small plot for each block size and mix, a point for each depth."""
    found, titles = sweep.curves(document), _titles(document)
    if not found:
        return None
    order = list(titles)
    figure, flat = _grid(plt, len(found))
    for (title, subjects), axes in zip(found.items(), flat):
        for name, points in subjects.items():
            colour, dashes = _style(order.index(name))[:2]
            axes.plot([rate for rate, _, _ in points], [latency for _, latency, _ in points],
                      dashes, marker=".", color=colour, label=titles[name])
            for rate, latency, depth in points:
                axes.annotate(depth, (rate, latency), (3, 3), textcoords="offset points",
                              fontsize=6, color=colour)
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.set_xlabel("IOPS")
        axes.set_ylabel("us")
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7)
    return figure


def _wanted(plt, document):
    """Name, title and figure of each picture."""
    if sweep.points(document):
        # With this many cases, separate pictures would hide the important one.
        return [("latency-iops", "Mean latency over I/O rate, a point for each depth",
                 _curves(plt, document))]
    several = document["repeats"] > 1
    wanted = [("bars", document["metrics"][0]["title"].capitalize(), _bars(plt, document)),
              ("percentiles", "Latency percentiles" + (", medians of the repeats" if several
                                                       else ""), _percentiles(plt, document))]
    for name in SERIES:
        title, figure = _series(plt, document, name)
        wanted.append((name.replace("_", "-"), title +
                       (", one line for each repeat" if several else ""), figure))
    return wanted


def _as_text(document):
    """matplotlib refuses titles that are no valid text."""
    return {**document, **{key: [{**each, "title": each["title"].encode(
        "utf-8", "backslashreplace").decode()} for each in document[key]]
        for key in ("subjects", "cases")}}


def draw(document, salt):
    """Name, title and SVG of each picture that the report has figures for."""
    plt = pyplot()
    return [(name, title, _svg(plt, figure, f"{salt}-{name}"))
            for name, title, figure in _wanted(plt, _as_text(document)) if figure]
