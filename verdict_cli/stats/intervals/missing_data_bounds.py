"""Bounds for missing data: the worst and the best value that a metric could have (Manski, 2003)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from verdict_cli.stats.columns.column import MISSING, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.intervals.interval_methods import MetricValue, clopper_pearson
from verdict_cli.stats.metrics import probability
from verdict_cli.stats.metrics.metric_families import RowMask

BoundEnds = tuple[float, float]
RANKED = ("auroc", "average_precision", "brier")
"""Metrics of a probability that its ends, 0 and 1, bound; the log loss is unbounded, and the calibration error is not monotone."""


def missing_data_bounds(metrics: tuple[str, ...], data: EvaluationData, missing: RowMask) -> dict[str, BoundEnds]:
    """Worst and best values if the missing rows had predictions, of the metrics for which these exist.

    These are shares of right rows, shares of values that are true or false, and metrics of a probability in `RANKED`.
    """
    if data.panel:
        return {}
    if "mean" in metrics and data.value.types == {"bool"}:
        trues, rows = float(np.nansum(data.value.numbers)), len(missing)
        return {"mean": (trues / rows, (trues + int((~data.value.present).sum())) / rows)}
    found: dict[str, BoundEnds] = {}
    if "consistency" in metrics and data.consistent.types == {"bool"}:
        found["consistency"] = _true(data.consistent.numbers)
    if not (data.target != MISSING).any():
        return found
    found |= _of_labels(metrics, data, missing)
    positive = data.is_positive
    if positive is not None and data.probability.types:
        found |= _of_probability(metrics, data.probability.numbers, positive, data.target != MISSING)
    return found


def worst_case_interval(
    found: MetricValue, bounds: BoundEnds, wrong: MetricValue | None, missing: int, level: float
) -> BoundEnds | None:
    """Ends that hold the metric of all rows with the missing ones at their worst: sampling error and bounds in one.

    They reach beyond the bounds as far as the widest of three: the interval of the rows that are there, the exact one of a
    share at the bound, and, below, the interval with missing rows as `wrong` (Imbens and Manski, 2004). None where
    the metric has no interval.
    """
    if found.value is None or found.low is None or found.high is None:
        return None
    rows = found.n + missing if found.clusters is None or found.effective_n is None else found.effective_n
    low, high = (clopper_pearson(bound * rows, rows, level) for bound in bounds)
    below = [found.value - found.low, bounds[0] - low[0]]
    if wrong is not None and wrong.value is not None and wrong.low is not None:
        below.append(wrong.value - wrong.low)
    return max(bounds[0] - max(below), 0.0), min(bounds[1] + max(found.high - found.value, high[1] - bounds[1]), 1.0)


def _true(values: Floats) -> BoundEnds:
    trues, absent = float(np.nansum(values)), int(np.isnan(values).sum())
    return trues / len(values), (trues + absent) / len(values)


def _of_labels(metrics: tuple[str, ...], data: EvaluationData, missing: RowMask) -> dict[str, BoundEnds]:
    labelled = data.target != MISSING
    right = (data.target == data.prediction) & labelled
    found: dict[str, BoundEnds] = {}
    if "accuracy" in metrics:
        found["accuracy"] = _share(right, missing, labelled)
    if "balanced_accuracy" in metrics:
        found["balanced_accuracy"] = _mean_share(right, missing, data.target)
    if data.positive is None:
        return found
    target, predicted = data.target == data.positive, (data.prediction == data.positive) & labelled
    if "recall" in metrics and target.any():
        found["recall"] = _share(right, missing, target)
    hits, falls = int((target & predicted).sum()), int((predicted & ~target).sum())
    open_hits, open_falls = int((missing & target).sum()), int((missing & labelled & ~target).sum())
    if "precision" in metrics and predicted.any():
        worst, best = (hits, hits + falls + open_falls), (hits + open_hits, hits + falls + open_hits)
        found["precision"] = worst[0] / worst[1], best[0] / best[1]
    if "f1" in metrics and (target | predicted).any():
        wrong = falls + int((target & ~predicted & ~missing).sum())
        worst_f1 = 2 * hits / (2 * hits + wrong + open_hits + open_falls)
        found["f1"] = worst_f1, 2 * (hits + open_hits) / (2 * (hits + open_hits) + wrong)
    return found


def _of_probability(
    metrics: tuple[str, ...], given: Floats, positive: Floats, labelled: RowMask
) -> dict[str, BoundEnds]:
    """Worst: missing probabilities are 1 where the target is negative and 0 where it is positive; best: the reverse."""
    p, y = given[labelled], positive[labelled]
    absent = np.isnan(p)
    inside = not absent.all() and np.nanmin(p) >= 0 and np.nanmax(p) <= 1
    if not inside or not absent.any():
        return {}
    sides = [np.where(absent, end, p) for end in (1 - y, y)]
    found: dict[str, BoundEnds] = {}
    for metric in RANKED:
        if metric in metrics:
            worst, best = (_value(metric, side, y) for side in sides)
            found[metric] = (min(worst, best), max(worst, best))
    return {metric: ends for metric, ends in found.items() if np.isfinite(ends).all()}


def _value(metric: str, p: Floats, positive: Floats) -> float:
    at: Callable[[Floats], Floats] = probability.probability_statistics(p, positive)[metric].at
    return float(at(np.ones((1, len(p))))[0])


def _share(right: RowMask, missing: RowMask, among: RowMask) -> BoundEnds:
    total = int(among.sum())
    hits, open_rows = int((right & among).sum()), int((missing & among).sum())
    return hits / total, (hits + open_rows) / total


def _mean_share(right: RowMask, missing: RowMask, target: Ints) -> BoundEnds:
    ends = [_share(right, missing, target == code) for code in np.unique(target[target != MISSING])]
    return float(np.mean([low for low, _ in ends])), float(np.mean([high for _, high in ends]))
