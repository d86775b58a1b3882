"""Metrics of a probability against whether the target is positive. Oracle: scikit-learn (ECE: by hand)."""

from __future__ import annotations

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.metrics.statistic import (
    CALIBRATION_BINS,
    CalibrationBins,
    Statistic,
    Statistics,
    Sums,
    WeightedValues,
    mean_of_values,
    ratio,
    statistic_of,
    undefined_statistic,
)

CERTAIN = 1e-4
"""A probability nearer to 0 or 1 costs 9 nats or more if it is wrong."""
OUTSIDE = "some probabilities are not between 0 and 1"


def probability_statistics(p: Floats, positive: Floats) -> Statistics:
    """The metrics of probabilities `p` against 1 (positive) or 0 at each atom."""
    scores, classes = Sums(p), (positive,)

    def auroc(weights: Floats) -> Floats:
        up, down = scores(weights * positive), scores(weights * (1 - positive))
        above = up.sum(axis=1, keepdims=True) - np.cumsum(up, axis=1)
        wins = (down * (above + up / 2)).sum(axis=1)
        return ratio(wins, up.sum(axis=1) * down.sum(axis=1))

    def average_precision(weights: Floats) -> Floats:
        up = scores(weights * positive)[:, ::-1]
        predicted_positive = np.cumsum(scores(weights)[:, ::-1], axis=1)
        precision = np.nan_to_num(ratio(np.cumsum(up, axis=1), predicted_positive))
        return ratio((up * precision).sum(axis=1), up.sum(axis=1))

    def with_disagreement(weights: Floats, rows: float) -> float:
        """The value at perfect separation, if beside its rows this many of the rarer class were on the wrong side."""
        fewer = float(min(weights @ positive, weights @ (1 - positive)))
        return fewer / (fewer + rows) if fewer else float("nan")

    def ranked(name: str, at: WeightedValues, undefined: str) -> Statistic:
        return statistic_of(
            name,
            at,
            undefined,
            with_disagreement=with_disagreement,
            classes=classes,
            separates=positive,
        )

    statistics = {
        "auroc": ranked("auroc", auroc, "the targets are all positive or all negative"),
        "average_precision": ranked(
            "average_precision", average_precision, "no target is positive"
        ),
    }
    if len(p) and (p.min() < 0 or p.max() > 1):
        outside = undefined_statistic(OUTSIDE)
        return statistics | dict.fromkeys(("brier", "log_loss", "ece"), outside)

    tiny = np.finfo(np.float64).eps
    clipped = np.clip(
        p, tiny, 1 - tiny
    )  # as scikit-learn: a certain error costs 36 nats, not infinitely many
    bins = CalibrationBins(
        np.searchsorted(np.arange(1, CALIBRATION_BINS) / CALIBRATION_BINS, p, side="left"),
        p - positive,
        positive,
    )
    by_bin = Sums(bins.bin)

    def ece(weights: Floats) -> Floats:
        """Bins of equal width, closed on the right (Guo et al., 2017), of the probability of the positive label."""
        return ratio(np.abs(by_bin(weights * bins.deviation)).sum(axis=1), weights.sum(axis=1))

    surprise = -np.where(positive > 0, np.log(clipped), np.log1p(-clipped))
    return statistics | {
        "brier": statistic_of(
            "brier",
            mean_of_values((p - positive) ** 2),
            classes=classes,
            mean_of=(p - positive) ** 2,
        ),
        "log_loss": statistic_of(
            "log_loss",
            mean_of_values(surprise),
            classes=classes,
            certain=(np.minimum(p, 1 - p) < CERTAIN).astype(float),
        ),
        "ece": statistic_of("ece", ece, bins=bins, classes=classes),
    }
