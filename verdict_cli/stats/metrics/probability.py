"""Figures of a probability against whether the target is positive. Oracle: scikit-learn (ECE: by hand)."""

from __future__ import annotations

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.metrics.statistic import (
    ARCSINE,
    LOG,
    LOGIT,
    At,
    CalibrationBins,
    NormalizingScale,
    Statistic,
    Sums,
    ratio,
)

CALIBRATION_BINS = 10
OUTSIDE = "probabilities lie outside 0 to 1"


def probability_statistics(p: Floats, positive: Floats) -> dict[str, Statistic]:
    """The figures of probabilities `p` against 1 (positive) or 0 at each atom."""
    scores = Sums(p)
    one_class = "the targets are all positive or all negative"

    def auroc(weights: Floats) -> Floats:
        up, down = scores(weights * positive), scores(weights * (1 - positive))
        above = up.sum(axis=1, keepdims=True) - np.cumsum(up, axis=1)
        wins = (down * (above + up / 2)).sum(axis=1)
        return ratio(wins, up.sum(axis=1) * down.sum(axis=1))

    def average_precision(weights: Floats) -> Floats:
        up = scores(weights * positive)[:, ::-1]
        kept = np.cumsum(scores(weights)[:, ::-1], axis=1)
        precision = np.nan_to_num(ratio(np.cumsum(up, axis=1), kept))
        return ratio((up * precision).sum(axis=1), up.sum(axis=1))

    def beside(weights: Floats, rows: float) -> float:
        """Perfect separation, if besides this many of the rarer kind were on the wrong side."""
        fewer = float(min(weights @ positive, weights @ (1 - positive)))
        return fewer / (fewer + rows) if fewer else float("nan")

    def ranked(at: At, why: str, scale: NormalizingScale) -> Statistic:
        return Statistic(at, why, scale=scale, beside=beside, least=0.0, most=1.0)

    found = {
        "auroc": ranked(auroc, one_class, ARCSINE),
        "average_precision": ranked(average_precision, "no target is positive", LOGIT),
    }
    if len(p) and (p.min() < 0 or p.max() > 1):
        return found | {name: Statistic(_undefined, OUTSIDE) for name in ("brier", "log_loss", "ece")}

    def mean(column: Floats, most: float) -> Statistic:
        return Statistic(
            lambda weights: ratio(weights @ column, weights.sum(axis=1)), "no rows", scale=LOG, least=0.0, most=most
        )

    tiny = np.finfo(np.float64).eps
    clipped = np.clip(p, tiny, 1 - tiny)
    gaps = CalibrationBins(
        np.searchsorted(np.arange(1, CALIBRATION_BINS) / CALIBRATION_BINS, p, side="left"),
        p - positive,
        CALIBRATION_BINS,
    )
    bins = Sums(gaps.bin)

    def ece(weights: Floats) -> Floats:
        """Bins of equal width, closed on the right (Guo et al., 2017), of the probability of the positive label."""
        return ratio(np.abs(bins(weights * gaps.off)).sum(axis=1), weights.sum(axis=1))

    return found | {
        "brier": mean((p - positive) ** 2, 1.0),
        "log_loss": mean(-np.where(positive > 0, np.log(clipped), np.log1p(-clipped)), np.inf),
        "ece": Statistic(ece, "no rows", gaps=gaps, smooth=False, least=0.0, most=1.0),
    }


def _undefined(weights: Floats) -> Floats:
    return np.full(len(weights), np.nan)
