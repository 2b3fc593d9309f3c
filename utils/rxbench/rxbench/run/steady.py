# SPDX-License-Identifier: GPL-2.0-only
"""Which figures lie so far apart that they are measured more often."""

import math
import statistics

# The standard error of a mean, as a part of it.
LARGE = 0.04
# With fewer repeats nothing is said of what is noise.
LEAST = 3


def unsteady(plan, results):
    """Cases with a subject whose repeats say too little, by the metric that decides."""
    metric, values = plan.metrics[0].name, {}
    for row in results:
        amount = row["metrics"].get(metric)
        if amount:
            values.setdefault((row["case"], row["subject"]), []).append(math.log(amount))
    return {case for (case, _subject), logs in values.items()
            if len(logs) >= LEAST and statistics.stdev(logs) > LARGE * math.sqrt(len(logs))}
