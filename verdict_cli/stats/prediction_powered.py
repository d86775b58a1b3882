"""Estimates of what people would say of all rows, from a judge's answers to all and human labels of some.

| estimate | is |
| --- | --- |
| `judged` | the mean of the judge's answers, uncorrected |
| `labelled` | the mean of the labels alone |
| `ppi` | prediction-powered, PPI++ (Angelopoulos, Duchi and Zrnic, 2023). Oracle: ppi-python |
| `rogan_gladen` | the share corrected by the judge's sensitivity and specificity (Rogan and Gladen, 1978), with the interval of Lang and Reiczigel (2014), whose labels are another sample; here they are among the rows, and the variance is that of the rows' true share plus that of estimating it |

What they are `of` changes the intervals, not the values. For the population that the rows come from, both the rows and the
labels among them are sampled; for the rows themselves the labels alone, from a finite population (Cochran, 1977, sections
2.6 and 7.4): the judge's answers are then known, `ppi` is the regression estimator, and its variance is that of the
residuals times the share of rows without a label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from verdict_cli.language.evaluations import GoldScope
from verdict_cli.stats.columns.column import Floats, RowMask
from verdict_cli.stats.columns.gold_pairs import GoldPairs
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import MetricValue, normal, score, student
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals
from verdict_cli.stats.metrics import numbers
from verdict_cli.stats.weighted_labels import (
    design_effect,
    effective_labels,
    label_warnings,
    labelled_freedom,
    unseen_error,
    weighted_estimate,
    weighted_slope,
)


@dataclass(frozen=True, slots=True)
class GoldFacts:
    """The rows with a human label, the weight of the judge's answers in `ppi`, and how many labels the `half_width` needs
    with the judge (None: more than there are rows) and `alone`."""

    labels: int
    rows: int
    weight: float | None = None
    half_width: float | None = None
    needed: int | None = None
    alone: int | None = None


def corrected(
    found: GoldPairs, draw: Draw, half_width: float | None = None, of: GoldScope = "population"
) -> tuple[dict[str, MetricValue], GoldFacts]:
    """The four estimates, and how many labels a half-width needs."""
    labelled = found.labelled
    count, rows = int(labelled.sum()), len(labelled)
    estimates = {"judged": _mean(found, np.ones(rows, bool), found.judge, draw)}
    if of == "rows":
        estimates["judged"] = _narrowed(estimates["judged"], 0.0)
    if count < 2:
        needs = "a label" if found.inclusion is None else "a label and its weight"
        none = MetricValue(None, None, None, count, f"fewer than two rows have {needs}")
        empty = dict.fromkeys(("labelled", "ppi", "rogan_gladen"), none)
        return estimates | empty, GoldFacts(count, rows, half_width=half_width)
    if found.inclusion is not None:
        weight = weighted_slope(found)
        estimates["labelled"] = weighted_estimate(found, 0.0, draw.level, of, "weighted mean")
        estimates["ppi"] = weighted_estimate(found, weight, draw.level, of, "weighted PPI")
    else:
        weight = tuned(found.judge, found.truth)
        estimates["labelled"] = _mean(found, labelled, found.truth, draw)
        if of == "rows":
            estimates["labelled"] = _narrowed(estimates["labelled"], math.sqrt(1 - count / rows))
        estimates["ppi"] = ppi(found, weight, draw.level, of)
    estimates["rogan_gladen"] = rogan_gladen(found, draw.level, of)
    warnings = label_warnings(found)
    estimates |= {name: estimates[name].warned(*warnings) for name in ("labelled", "ppi", "rogan_gladen")}
    needed = alone = None
    if half_width is not None:
        needed, alone = labels_needed(found, half_width, draw.level, of)
    return estimates, GoldFacts(count, rows, weight, half_width, needed, alone)


def _mean(found: GoldPairs, kept: RowMask, column: Floats, draw: Draw) -> MetricValue:
    rows = np.flatnonzero(kept)
    if not len(rows):
        return MetricValue(None, None, None, 0, "no rows")
    cluster = None
    if found.cluster is not None:
        cluster = np.unique(found.cluster[rows], return_inverse=True)[1].astype(np.int64)
    sample = Sample.of((column[rows],), cluster)
    mean = numbers.number_values(column[rows][sample.first], found.binary, found.bounds)["mean"]
    return metrics_with_intervals({"mean": mean}, sample, draw)["mean"]


def _narrowed(estimate: MetricValue, by: float) -> MetricValue:
    """The estimate with its interval narrowed to this share of its width."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    low, high = (estimate.value + by * (end - estimate.value) for end in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high)


def tuned(judge: Floats, truth: Floats) -> float:
    """The weight of the judge's answers with the smallest variance (PPI++, section 6), from 0 to 1."""
    labelled = ~np.isnan(truth)
    count, others = int(labelled.sum()), int((~labelled).sum())
    spread = float(judge.var(ddof=1))
    if not others or spread == 0:
        return 0.0
    together = float(np.cov(judge[labelled], truth[labelled])[0, 1])
    return min(max(together / ((1 + count / others) * spread), 0.0), 1.0)


def ppi(found: GoldPairs, weight: float, level: float, of: GoldScope = "population") -> MetricValue:
    """The mean residual of the labelled rows, plus the judge's weighted mean on the rows without a label."""
    judge, truth, labelled = found.judge, found.truth, found.labelled
    count, others = int(labelled.sum()), int((~labelled).sum())
    slope = weight
    residuals = truth[labelled] - slope * judge[labelled]
    rest = weight * judge[~labelled]
    value = float(residuals.mean()) + (float(rest.mean()) if others else 0.0)
    if of == "rows":
        slope = weight * len(judge) / others if others else 0.0
        residuals = truth[labelled] - slope * judge[labelled]
        rest = np.zeros(others)
    variance = (_variance(found, residuals, rest) + unseen_error(found)) * (
        others / len(judge) if of == "rows" else 1.0
    )
    quantile = student(level, labelled_freedom(found))
    value = found.clip(value)
    if found.binary and variance:
        # Wilson's, of as many rows as the variance is worth at a share that is not quite 0 or 1.
        inside = min(max(value, 0.5 / count), 1 - 0.5 / count)
        low, high = score(value, inside * (1 - inside) / variance, quantile)
    else:
        low, high = value - quantile * math.sqrt(variance), value + quantile * math.sqrt(variance)
    low, high = min(found.clip(low), value), max(found.clip(high), value)
    return MetricValue(value, low, high, len(judge), se=math.sqrt(variance), method="PPI++", level=level)


def _variance(found: GoldPairs, residuals: Floats, rest: Floats) -> float:
    """The variance of the sum of the two means."""
    influence = np.zeros(len(found.judge))
    influence[found.labelled] = (residuals - residuals.mean()) / len(residuals)
    if len(rest):
        influence[~found.labelled] = (rest - rest.mean()) / len(rest)
    spread = float(rest.var(ddof=1)) / len(rest) if len(rest) > 1 else 0.0
    return (float(residuals.var(ddof=1)) / len(residuals) + spread) * design_effect(found, influence)


def rogan_gladen(found: GoldPairs, level: float, of: GoldScope = "population") -> MetricValue:
    """The judge's share, corrected by its sensitivity and specificity."""
    rows = len(found.judge)
    if not found.binary:
        return MetricValue(None, None, None, rows, "it is for shares: true or false, or a `positive` label")
    judge, truth, labelled = found.judge, found.truth, found.labelled
    positive, negative = labelled & (truth == 1), labelled & (truth == 0)
    if not positive.any() or not negative.any():
        return MetricValue(None, None, None, rows, "the labels are all the same")
    weights = np.zeros(rows)
    weights[labelled] = found.weights
    up, down = float(weights[positive].sum()), float(weights[negative].sum())
    sensitivity = float(weights[positive] @ judge[positive]) / up
    specificity = 1 - float(weights[negative] @ judge[negative]) / down
    if sensitivity + specificity <= 1:
        return MetricValue(None, None, None, rows, "on the labelled rows the judge is no better than chance")
    share = float(judge.mean())
    value = (share + specificity - 1) / (sensitivity + specificity - 1)
    z = normal(level)
    ups, downs = effective_labels(found, positive), effective_labels(found, negative)
    right, true = (ups * sensitivity + 1) / (ups + 2), (downs * specificity + 1) / (downs + 2)
    gain = right + true - 1
    p = share if of == "rows" else (rows * share + z * z / 2) / (rows + z * z)
    middle = (p + true - 1) / gain
    estimation = middle * right * (1 - right) / (ups + 2), (1 - middle) * true * (1 - true) / (downs + 2)
    shift = 2 * z * z * (estimation[0] - estimation[1])
    unlabelled = 1 - (ups + downs) / rows
    variance = unlabelled * (middle * estimation[0] + (1 - middle) * estimation[1])
    if of == "population":
        inside = min(max(middle, 0.0), 1.0)
        variance += inside * (1 - inside) / rows * gain**2
    slope = sensitivity + specificity - 1
    influence = (judge - share) / rows / slope
    influence = influence - np.where(positive, value * weights * (judge - sensitivity) / up / slope, 0.0)
    influence = influence - np.where(negative, (1 - value) * weights * (judge - 1 + specificity) / down / slope, 0.0)
    effect = design_effect(found, influence)
    reach = (
        (z if found.cluster is None else student(level, labelled_freedom(found))) * math.sqrt(variance * effect) / gain
    )
    ends = (value, middle + shift - reach, middle + shift + reach)
    value, low, high = (min(max(end, 0.0), 1.0) for end in ends)
    low, high, error = min(low, value), max(high, value), math.sqrt(variance * effect) / gain
    return MetricValue(value, low, high, rows, se=error, method="Lang and Reiczigel", level=level)


def labels_needed(
    found: GoldPairs, half_width: float, level: float, of: GoldScope = "population"
) -> tuple[int | None, int]:
    """The labels for an interval of `ppi` of this half-width on as many rows, None where all of them are too few; and
    those without the judge."""
    judge, weights = found.judge, found.weights
    human, judged = found.truth[found.labelled], judge[found.labelled]
    (spread, shared), _ = np.cov(human, judged, aweights=weights)
    if spread == 0:
        return 2, 2
    shared = min(float(shared) ** 2 / spread / float(judge.var(ddof=1)), 1.0) if judge.var() > 0 else 0.0
    variance = half_width**2 / (normal(level) ** 2 * spread)
    if of == "rows":
        alone = math.ceil(1 / (variance + 1 / len(judge)))
        return max(math.ceil((1 - shared) / (variance + (1 - shared) / len(judge))), 2), alone
    alone = math.ceil(1 / variance)
    room = variance - shared / len(judge)
    needed = None if room <= 0 else max(math.ceil((1 - shared) / room), 2)
    return (needed if needed is not None and needed <= len(judge) else None), alone
