"""What people would say of all rows, from a judge's answers to all and people's labels of some.

| figure | is |
| --- | --- |
| `judged` | the mean of what the judge says: the raw figure |
| `labelled` | the mean of the labels alone |
| `ppi` | prediction-powered, PPI++ (Angelopoulos, Duchi and Zrnic, 2023). Oracle: ppi-python |
| `rogan_gladen` | the share corrected by the judge's sensitivity and specificity (Rogan and Gladen, 1978), with the interval of Lang and Reiczigel (2014), whose labels are another sample; here they are among the rows, and the variance is that of the rows' true share plus that of finding it out |

Values are the same whatever they are `of`; intervals are not. Of the population that the rows come from, both the rows and
the labels among them are drawn; of the rows themselves the labels alone, from a finite population (Cochran, 1977, sections
2.6 and 7.4): what the judge says of all rows is then known, `ppi` is the regression estimator, and its variance that of what
the judge leaves unsaid times the share of rows without a label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from verdict_cli.language.evaluations import Evaluation, GoldScope
from verdict_cli.stats.columns.column import MISSING, Column, Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.figures import GoldFacts, MetricValue
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals
from verdict_cli.stats.intervals.proportions import normal, student
from verdict_cli.stats.metrics import numbers
from verdict_cli.stats.metrics.confusion import LabelSet
from verdict_cli.stats.metrics.metric_families import RowMask

GOLD_ROUNDING = 1e-12
"""What the judge leaves unsaid differs by no more than this where it differs in nothing."""


@dataclass(frozen=True, slots=True)
class GoldPairs:
    """What the judge says of each row that it answered, and what is true of it: NaN where nobody said. `binary`: both are
    0 or 1. `cluster` is each row's cluster."""

    judge: Floats
    truth: Floats
    binary: bool
    cluster: Ints | None = None

    @property
    def labelled(self) -> RowMask:
        """True where the row has a label."""
        return np.logical_not(np.isnan(self.truth))


def gold_pairs(evaluation: Evaluation, said: Column, gold: Column, cluster: Ints | None) -> GoldPairs | str:
    """The rows that the judge answered; or why they cannot be compared. A `positive` makes shares of labels."""
    if evaluation.positive is not None:
        found = LabelSet.of(gold, said, also=(evaluation.positive,))
        place = found.place(evaluation.positive)
        judge, truth = ((found.codes(column) == place).astype(np.float64) for column in (said, gold))
        binary = True
    elif said.numeric and gold.numeric:
        judge, truth = said.numbers.copy(), gold.numbers.copy()
        both = np.concatenate([judge[said.present], truth[gold.present]])
        binary = bool(np.isin(both, (0.0, 1.0)).all())
    else:
        return "`gold` compares numbers; set `positive` to count a label"
    truth[np.equal(gold.codes, MISSING)] = np.nan
    kept = said.present
    return GoldPairs(judge[kept], truth[kept], binary, None if cluster is None else cluster[kept])


def corrected(
    found: GoldPairs, draw: Draw, half_width: float | None = None, of: GoldScope = "population"
) -> tuple[dict[str, MetricValue], GoldFacts]:
    """The four figures, and how many labels a half-width needs."""
    labelled = found.labelled
    count, rows = int(labelled.sum()), len(labelled)
    made = {"judged": _mean(found, np.ones(rows, bool), found.judge, draw)}
    if of == "rows":
        made["judged"] = _narrowed(made["judged"], 0.0)
    if count < 2:
        none = MetricValue(None, None, None, count, "fewer than two rows have a label")
        empty = dict.fromkeys(("labelled", "ppi", "rogan_gladen"), none)
        return made | empty, GoldFacts(count, rows, half_width=half_width)
    made["labelled"] = _mean(found, labelled, found.truth, draw)
    if of == "rows":
        made["labelled"] = _narrowed(made["labelled"], math.sqrt(1 - count / rows))
    weight = tuned(found.judge, found.truth)
    made["ppi"] = ppi(found, weight, draw.level, of)
    made["rogan_gladen"] = rogan_gladen(found, draw.level, of)
    needed = alone = None
    if half_width is not None:
        needed, alone = labels_needed(found.judge, found.truth, half_width, draw.level, of)
    return made, GoldFacts(count, rows, weight, half_width, needed, alone)


def _mean(found: GoldPairs, kept: RowMask, column: Floats, draw: Draw) -> MetricValue:
    places = np.flatnonzero(kept)
    if not len(places):
        return MetricValue(None, None, None, 0, "no rows")
    cluster = None
    if found.cluster is not None:
        cluster = np.unique(found.cluster[places], return_inverse=True)[1].astype(np.int64)
    sample = Sample.of((column[places],), cluster)
    mean = numbers.number_values(column[places][sample.first], found.binary)["mean"]
    return metrics_with_intervals({"mean": mean}, sample, draw)["mean"]


def _narrowed(figure: MetricValue, by: float) -> MetricValue:
    """The figure with its interval drawn in to this share of its reach."""
    if figure.value is None or figure.low is None or figure.high is None:
        return figure
    low, high = (figure.value + by * (end - figure.value) for end in (figure.low, figure.high))
    return replace(figure, low=low, high=high)


def tuned(judge: Floats, truth: Floats) -> float:
    """The weight of the judge's answers that makes the variance least (PPI++, section 6), from 0 to 1."""
    labelled = ~np.isnan(truth)
    count, others = int(labelled.sum()), int((~labelled).sum())
    spread = float(judge.var(ddof=1))
    if not others or spread == 0:
        return 0.0
    together = float(np.cov(judge[labelled], truth[labelled])[0, 1])
    return min(max(together / ((1 + count / others) * spread), 0.0), 1.0)


def ppi(found: GoldPairs, weight: float, level: float, of: GoldScope = "population") -> MetricValue:
    """The labels' mean of what the judge leaves unsaid, plus the judge's mean on the rows without a label."""
    judge, truth, labelled = found.judge, found.truth, found.labelled
    count, others = int(labelled.sum()), int((~labelled).sum())
    left = truth[labelled] - weight * judge[labelled]
    rest = weight * judge[~labelled]
    value = float(left.mean()) + (float(rest.mean()) if others else 0.0)
    if of == "rows":
        left = truth[labelled] - (weight * len(judge) / others if others else 0.0) * judge[labelled]
        rest = np.zeros(others)
    variance = _variance(found, left, rest) * (others / len(judge) if of == "rows" else 1.0)
    reach = student(level, count - 1) * math.sqrt(variance)
    low, high = value - reach, value + reach
    if found.binary:
        value, low, high = (min(max(end, 0.0), 1.0) for end in (value, low, high))
    return MetricValue(value, low, high, len(judge))


def _variance(found: GoldPairs, left: Floats, rest: Floats) -> float:
    """Of the sum of the two means; where labels show no error at all, as if one row did, half of it each way."""
    count, others = len(left), len(rest)
    unseen = 1 / count**2 if found.binary and np.ptp(left) <= GOLD_ROUNDING else 0.0
    if found.cluster is None:
        spread = float(rest.var(ddof=1)) / others if others > 1 else 0.0
        return float(left.var(ddof=1)) / count + spread + unseen
    pull = np.zeros(len(found.judge))
    pull[found.labelled] = (left - left.mean()) / count
    if others:
        pull[~found.labelled] = (rest - rest.mean()) / others
    sums = np.bincount(np.unique(found.cluster, return_inverse=True)[1], pull)
    return float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1) + unseen


def rogan_gladen(found: GoldPairs, level: float, of: GoldScope = "population") -> MetricValue:
    """The judge's share, corrected by how often it is right about rows that are and that are not positive."""
    rows = len(found.judge)
    if not found.binary:
        return MetricValue(None, None, None, rows, "it is for shares: true or false, or a `positive` label")
    judge, truth, labelled = found.judge, found.truth, found.labelled
    positive, negative = labelled & (truth == 1), labelled & (truth == 0)
    ups, downs = int(positive.sum()), int(negative.sum())
    if not ups or not downs:
        return MetricValue(None, None, None, rows, "the labels are all the same")
    sensitivity, specificity = float(judge[positive].mean()), float(1 - judge[negative].mean())
    if sensitivity + specificity <= 1:
        return MetricValue(None, None, None, rows, "on the labelled rows the judge is no better than chance")
    share = float(judge.mean())
    value = (share + specificity - 1) / (sensitivity + specificity - 1)
    z = normal(level)
    right, true = (ups * sensitivity + 1) / (ups + 2), (downs * specificity + 1) / (downs + 2)
    gain = right + true - 1
    p = share if of == "rows" else (rows * share + z * z / 2) / (rows + z * z)
    middle = (p + true - 1) / gain
    found_out = middle * right * (1 - right) / (ups + 2), (1 - middle) * true * (1 - true) / (downs + 2)
    bend = 2 * z * z * (found_out[0] - found_out[1])
    unlabelled = 1 - (ups + downs) / rows
    variance = unlabelled * (middle * found_out[0] + (1 - middle) * found_out[1])
    if of == "population":
        inside = min(max(middle, 0.0), 1.0)
        variance += inside * (1 - inside) / rows * gain**2
    reach = z * math.sqrt(variance) / gain
    ends = (value, middle + bend - reach, middle + bend + reach)
    value, low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return MetricValue(value, min(low, value), max(high, value), rows)


def labels_needed(
    judge: Floats, truth: Floats, half_width: float, level: float, of: GoldScope = "population"
) -> tuple[int | None, int]:
    """How many labels make the interval of `ppi` this wide on as many rows, None where all of them would not; and how
    many without the judge."""
    labelled = ~np.isnan(truth)
    own, said = truth[labelled], judge[labelled]
    spread = float(own.var(ddof=1))
    if spread == 0:
        return 2, 2
    shared = float(np.cov(own, said)[0, 1]) ** 2 / spread / float(judge.var(ddof=1)) if judge.var() > 0 else 0.0
    shared = min(shared, 1.0)
    wanted = half_width**2 / (normal(level) ** 2 * spread)
    if of == "rows":
        alone = math.ceil(1 / (wanted + 1 / len(judge)))
        return max(math.ceil((1 - shared) / (wanted + (1 - shared) / len(judge))), 2), alone
    alone = math.ceil(1 / wanted)
    room = wanted - shared / len(judge)
    needed = None if room <= 0 else max(math.ceil((1 - shared) / room), 2)
    return (needed if needed is not None and needed <= len(judge) else None), alone
