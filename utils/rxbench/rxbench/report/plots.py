# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of a report, as SVG."""

import io

from ..run.plan import LOWER
from ..system.errors import BadInput
from ..system.units import number

COLOURS = ("#3465a4", "#cc4c02", "#4e9a06", "#75507b", "#a40000", "#555753", "#c4a000", "#06989a")
# What shares an axis up to here is drawn on a linear one.
LINEAR_SPAN = 30
SERIES = {"mb_s": ("Throughput over time", "MB/s"),
          "lat_mean_us": ("Mean latency over time", "us"),
          "hit_percent": ("Hit ratio over time", "% of reads")}


def pyplot():
    """matplotlib, which is needed for pictures only."""
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
    """The picture without what makes it a file of its own; its ids differ from others'."""
    import matplotlib
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg"):]


def _titles(document):
    return {subject["name"]: subject["title"] for subject in document["subjects"]}


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
    for rank, subject in enumerate(subjects):
        for place, case in enumerate(cases):
            for row in rows:
                if (row["case"], row["subject"]) != (case["name"], subject["name"]):
                    continue
                y = place + (rank - (len(subjects) - 1) / 2) * thick
                axes.barh(y, row["median"], thick * 0.9, color=COLOURS[rank % len(COLOURS)],
                          xerr=[[row["median"] - row["low"]], [row["high"] - row["median"]]],
                          error_kw={"elinewidth": 0.8, "capsize": 2},
                          label=subject["title"])
                axes.annotate(" " + number(row["median"]), (row["high"], y), va="center",
                              fontsize=7)
    axes.set_yticks(range(len(cases)), [case["title"] for case in cases])
    axes.invert_yaxis()
    positive = [row["median"] for row in rows if row["median"] > 0]
    if positive and max(positive) > LINEAR_SPAN * min(positive):
        axes.set_xscale("log")
    axes.set_xlabel(metric["unit"] + (", less is better" if metric["better"] == LOWER else ""))
    handles = dict(zip(*reversed(axes.get_legend_handles_labels())))
    axes.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.02, 1))
    return figure


def _lasts(document, key):
    """The last repeat's values of a key, by case and subject, where there are some."""
    found = {}
    for row in document["results"]:
        if row.get(key):
            found.setdefault(row["case"], {})[row["subject"]] = row[key]
    return found


def _grid(plt, count):
    columns = min(2, count)
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 2.7 * rows),
                                squeeze=False, layout="constrained")
    flat = [each for line in axes for each in line]
    for each in flat[count:]:
        each.set_visible(False)
    return figure, flat


def _lines(plt, document, found, draw):
    """One small plot a case, a line a subject."""
    cases = [case for case in document["cases"] if case["name"] in found]
    if not cases:
        return None
    titles = _titles(document)
    order = list(titles)
    figure, axes = _grid(plt, len(cases))
    for case, each in zip(cases, axes):
        for subject, values in found[case["name"]].items():
            draw(each, values, titles[subject],
                 COLOURS[order.index(subject) % len(COLOURS)])
        each.set_title(case["title"], fontsize=9)
        each.legend(fontsize=7)
    return figure


def _percentiles(plt, document):
    def draw(axes, values, label, colour):
        points = sorted((float(percent), amount) for percent, amount in values.items())
        # Nines, so that the tail is seen.
        axes.plot([1 / (1 - percent / 100) for percent, _ in points],
                  [amount for _, amount in points], marker=".", label=label, color=colour)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([2, 10, 100, 1000, 10000], ["50", "90", "99", "99.9", "99.99"])
        axes.set_xlabel("percentile")
        axes.set_ylabel("us")
    return _lines(plt, document, _lasts(document, "percentiles"), draw)


def _series(plt, document, name):
    found = {}
    for case, subjects in _lasts(document, "series").items():
        having = {subject: series[name] for subject, series in subjects.items()
                  if series.get(name)}
        if having:
            found[case] = having
    title, unit = SERIES[name]

    def draw(axes, values, label, colour):
        axes.plot([point[0] for point in values], [point[1] for point in values], label=label,
                  color=colour, marker="." if len(values) < 3 else None)
        axes.set_xlabel("s")
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
    return title, _lines(plt, document, found, draw)


def draw(document, salt):
    """Name, title and SVG of each picture that the report has figures for."""
    plt = pyplot()
    wanted = [("bars", document["metrics"][0]["title"].capitalize(), _bars(plt, document)),
              ("percentiles", "Latency percentiles", _percentiles(plt, document))]
    for name in SERIES:
        title, figure = _series(plt, document, name)
        wanted.append((name.replace("_", "-"), title, figure))
    return [(name, title, _svg(plt, figure, f"{salt}-{name}"))
            for name, title, figure in wanted if figure]
