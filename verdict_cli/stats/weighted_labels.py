"""Estimates from human labels of rows that were drawn with unequal probabilities, as `verdict queue` draws them.

A labelled row stands for one over its probability of rows. Means are those of Hajek (1971): weighted sums over the sum of
the weights. `ppi` is the judge's mean over all rows times a slope, plus the weighted mean of what the labels differ from it;
the slope is that with the least variance, from 0 to 1. Variances are linearised: the sum of the squares of what each row
adds to the estimate (Saerndal, Swensson and Wretman, 1992, sections 5.5 and 5.7); for the rows themselves a label's square
counts with the probability that its row was not drawn. With equal weights these are the estimates of PPI++.
"""

from __future__ import annotations

import math

import numpy as np

from verdict_cli.language.evaluations import GoldScope
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.gold_pairs import GoldPairs
from verdict_cli.stats.intervals.effective_size import FEW_EFFECTIVE, FEWEST_CLUSTERS, kish, raised_design_effect
from verdict_cli.stats.intervals.interval_methods import MetricValue, normal, score, student

NOT_RANDOM = 0.01
"""The p-value below which labelled rows are taken to differ from the others: a false alarm in one of 100 evaluations."""
LABELS_NOT_RANDOM = (
    "the labels are not a random sample of the rows: the judge's mean is {labelled:.3g} on the labelled rows "
    "and {others:.3g} on the others"
)
WEIGHTS_DO_NOT_FIT = (
    "the labels are not a sample with these weights: the judge's mean is {labelled:.3g} on the labelled rows, weighted, "
    "and {every:.3g} on all"
)


def weighted_slope(found: GoldPairs) -> float:
    """The slope of the labels on the judge's answers that makes the weighted residuals' variance least, from 0 to 1."""
    weights, has = found.weights, found.labelled
    squares = weights**2 * _not_drawn(found)
    total = weights.sum()
    judge, truth = (column[has] - weights @ column[has] / total for column in (found.judge, found.truth))
    spread = float(squares @ judge**2)
    return min(max(float(squares @ (judge * truth)) / spread, 0.0), 1.0) if spread > 0 else 0.0


def weighted_influence(found: GoldPairs, slope: float, of: GoldScope) -> tuple[float, Floats]:
    """The estimate with this slope, and what each row adds to it; the sum of their squares is its variance."""
    weights, has, rows = found.weights, found.labelled, len(found.judge)
    total, effective = float(weights.sum()), kish(weights)
    residuals = found.truth[has] - slope * found.judge[has]
    mean = float(weights @ residuals) / total
    fitted = 2 if slope else 1
    labels = weights * (residuals - mean) / total * math.sqrt(effective / max(effective - fitted, 0.5))
    level = float(found.judge.mean())
    influence = np.zeros(rows) if of == "rows" else slope * (found.judge - level) / rows
    influence[has] += labels * np.sqrt(_not_drawn(found)) if of == "rows" else labels
    return mean + slope * level, influence


def weighted_estimate(found: GoldPairs, slope: float, level: float, of: GoldScope, method: str) -> MetricValue:
    """The estimate with its interval; a slope of 0 gives the labels alone."""
    value, influence = weighted_influence(found, slope, of)
    value = found.clip(value)
    variance = float((influence**2).sum()) * design_effect(found, influence)
    variance += unseen_error(found, of)
    quantile, effective = student(level, labelled_freedom(found)), kish(found.weights)
    # A share that is not quite 0 or 1, as Wilson's interval has it where no label differs.
    inside = min(max(value, 0.5 / effective), 1 - 0.5 / effective)
    if found.binary and variance:
        low, high = score(value, inside * (1 - inside) / variance, quantile)
    else:
        low, high = value - quantile * math.sqrt(variance), value + quantile * math.sqrt(variance)
    low, high = min(found.clip(low), value), max(found.clip(high), value)
    n = len(found.judge) if slope else int(found.labelled.sum())
    return MetricValue(value, low, high, n, se=math.sqrt(variance), method=method, level=level)


def _not_drawn(found: GoldPairs) -> Floats:
    """For each labelled row, the probability that it was not drawn and labelled. Where only part of the rows that were
    drawn have their label, the weights add up to fewer rows than there are, by the share that has it."""
    weights = found.weights
    share = min(float(weights.sum()) / len(found.judge), 1.0)
    left: Floats = np.maximum(1 - share / weights, 0.0)
    return left


def labelled_freedom(found: GoldPairs) -> float:
    """What the labelled rows, or their clusters, are worth with their weights, minus one."""
    if found.cluster is None:
        return max(kish(found.weights) - 1, 1.0)
    of = np.unique(found.cluster[found.labelled], return_inverse=True)[1]
    return max(kish(np.bincount(of, found.weights).astype(np.float64)) - 1, 1.0)


def design_effect(found: GoldPairs, influence: Floats) -> float:
    """How much larger the variance of an estimate is in clusters, from what each row adds to it; 1 without clusters."""
    if found.cluster is None:
        return 1.0
    of = np.unique(found.cluster, return_inverse=True)[1]
    alone = float((influence**2).sum())
    if not alone:
        return 1.0
    sizes = np.bincount(of).astype(np.float64)
    sums = np.bincount(of, influence)
    seen = float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1) / alone
    return raised_design_effect(seen, sizes, 0.5)


def unseen_error(found: GoldPairs, of: GoldScope = "population") -> float:
    """The variance of one more error of the judge than the labels show; `of` the rows, of those without a label."""
    if not found.binary:
        return 0.0
    labels = int(found.labelled.sum())
    return (1 - labels / len(found.judge) if of == "rows" else 1.0) / kish(found.weights) / labels


def label_warnings(found: GoldPairs) -> list[str]:
    """Why the estimates from labels may not hold: the judge says something else on labelled rows than on all (the mean of
    a sample from a finite population: Cochran, 1977, section 2.6), or few clusters have labels."""
    warnings = []
    labelled, others = found.judge[found.labelled], found.judge[~found.labelled]
    if len(labelled) and len(others) and np.ptp(found.judge) > 0:
        weights, effective = found.weights, kish(found.weights)
        mean, every = float(np.average(labelled, weights=weights)), float(found.judge.mean())
        variance = float(found.judge.var(ddof=1)) * (1 / effective - 1 / len(found.judge))
        if found.inclusion is not None:
            variance = max(variance, float(((weights / weights.sum() * (labelled - mean)) ** 2).sum()))
        # Half a row less: the continuity correction of a count.
        away = abs(mean - every) - (0.5 / effective if found.binary else 0.0)
        if away > normal(1 - NOT_RANDOM) * math.sqrt(max(variance, 0.0)):
            said = LABELS_NOT_RANDOM if found.inclusion is None else WEIGHTS_DO_NOT_FIT
            warnings.append(said.format(labelled=mean, others=others.mean(), every=every))
    if found.cluster is not None and (effective := labelled_freedom(found) + 1) < FEWEST_CLUSTERS:
        warnings.append(FEW_EFFECTIVE.format(effective=effective))
    return warnings


def effective_labels(found: GoldPairs, kept: Floats) -> float:
    """How many equally drawn labels the labelled rows in `kept` are worth for the share of the judge's answers there."""
    weights = np.zeros(len(found.judge))
    weights[found.labelled] = found.weights
    weights *= kept
    worth, total = kish(weights), float(weights.sum())
    share = float(weights @ found.judge) / total
    variance = float((weights**2) @ (found.judge - share) ** 2) / total**2
    return min(float((weights > 0).sum()), share * (1 - share) / variance) if variance > 0 else worth
