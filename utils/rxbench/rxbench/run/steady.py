# SPDX-License-Identifier: GPL-2.0-only
"""Find figures that are so far apart that they need more repeats."""

import math
import statistics

# Limit of the standard error of a mean, relative to the mean.
LARGE = 0.04
# With fewer repeats, noise is not estimated.
LEAST = 3


def unsteady(plan, results):
    """Cases with a subject whose repeats are too far apart, by the deciding metric."""
    metric, values = plan.metrics[0].name, {}
    for row in results:
        amount = row["metrics"].get(metric)
        if amount:
            values.setdefault((row["case"], row["subject"]), []).append(math.log(amount))
    return {case for (case, _subject), logs in values.items()
            if len(logs) >= LEAST and statistics.stdev(logs) > LARGE * math.sqrt(len(logs))}
