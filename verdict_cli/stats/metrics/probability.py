"""Metrics of a probability against whether the target is positive. Oracle: scikit-learn (ECE: by hand).

The calibration error's interval inverts its test. A sum of absolute values is too large by what chance alone adds to
each, so neither its standard error nor its resamples lie around the truth. Instead, for every true sum, the sums that
samples would show are drawn (the deviations of the bins plus Student-t noise with their own covariance, clusters
together), and the interval holds the true sums for which the observed one is not among the most extreme (Garthwaite and
Buckland, 1992). The true deviation is taken as equally large in every bin; for the lower end also as that of the bins alone
whose deviation is plainly not chance.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from verdict_cli.distributions import last_passing
from verdict_cli.stats.columns.column import Ends, Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics.statistic import (
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

CALIBRATION_BINS = 10
"""As in Guo et al. (2017, section 2) and most reliability diagrams, so that values can be compared."""
DRAWS = 1000
"""Each tail of a 95% interval then has 25 of the sums drawn at its end."""
CERTAIN = 1e-4
"""A probability nearer to 0 or 1 costs 9 nats or more if it is wrong."""
MORE_ROWS = 0.5
"""So many rows of either kind are added to each bin's variance (measured with few levels that are next to always right)."""
CLEAR_DEVIATION = 2.0
"""A bin whose deviation is so many times its standard error has one."""
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
        CALIBRATION_BINS,
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


def inverted_test_interval(
    bins: CalibrationBins,
    sample: Sample,
    effective_units: float,
    rng: np.random.Generator,
    level: float,
) -> Ends:
    """The ends of the interval of the sum over bins of the absolute mean deviation."""
    mean = np.bincount(bins.bin, sample.counts * bins.deviation, minlength=bins.bins) / sample.n
    observed = float(np.abs(mean).sum())
    covariance = _covariance(bins, sample, mean)
    # As many degrees of freedom as its sum has (Satterthwaite, 1946): those of one bin, times how many it is spread over.
    squares = float((covariance**2).sum())
    bins_of_noise = float(np.trace(covariance)) ** 2 / squares if squares else 1.0
    freedom = (max(effective_units, 2.0) - 1) * bins_of_noise
    noise = student_noise(covariance, freedom, rng, DRAWS)
    rows = np.bincount(bins.bin, sample.counts, minlength=bins.bins) / sample.n
    shares = np.where(mean < 0, -rows, rows)

    tail = (1 - level) / 2
    most = max(2 * observed, 1e-9) + float(np.abs(noise).sum(axis=1).max())
    # A few bins may have the whole deviation: of the others, noise alone is added to it.
    plain = np.where(np.abs(mean) > CLEAR_DEVIATION * np.sqrt(np.diag(covariance)), mean, 0.0)
    shapes = [shares, plain / np.abs(plain).sum()] if plain.any() else [shares]

    def is_rare(shape: Floats, true: float) -> bool:
        """Whether a true sum of this shape shows as much as was found more rarely than in the tail."""
        return bool((np.abs(true * shape + noise).sum(axis=1) >= observed).mean() < tail)

    low = min(last_passing(partial(is_rare, shape), most) for shape in shapes)
    high = last_passing(
        lambda true: bool((np.abs(true * shares + noise).sum(axis=1) <= observed).mean() >= tail),
        most,
    )
    return low, max(high, low)


def _covariance(bins: CalibrationBins, sample: Sample, mean: Floats) -> Floats:
    """The covariance of the bins' mean deviations; rows, or whole clusters, are independent."""
    units, n = sample.units, sample.n
    if sample.cluster is None:
        squares = np.bincount(bins.bin, sample.counts * bins.deviation**2, minlength=bins.bins)
        scatter = np.diag(squares) - n * np.outer(mean, mean)
    else:
        cell = sample.cluster * bins.bins + bins.bin[sample.atom]
        sums = np.bincount(cell, bins.deviation[sample.atom], minlength=units * bins.bins)
        rows = np.bincount(sample.cluster, minlength=units)
        centred = sums.reshape(units, bins.bins) - rows[:, None] * mean
        scatter = centred.T @ centred
    covariance: Floats = units / (units - 1) * (scatter + np.diag(_unseen(bins, sample))) / n**2
    return covariance


def _unseen(bins: CalibrationBins, sample: Sample) -> Floats:
    """What further rows would add to each bin's scatter, as many of them right as wrong: a bin in which no row is wrong, or few
    are, does not show how far it could be off."""
    size = np.abs(bins.deviation)  # of one kind of rows; that of the other kind is one minus it
    both = np.bincount(bins.bin, sample.counts * (size**2 + (1 - size) ** 2), minlength=bins.bins)
    rows = np.bincount(bins.bin, sample.counts, minlength=bins.bins)
    unseen: Floats = MORE_ROWS * both / np.maximum(rows, 1.0)
    return unseen


def student_noise(
    covariance: Floats, freedom: float, rng: np.random.Generator, draws: int
) -> Floats:
    """Student-t noise of the covariance, (draws, variables)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    normal = rng.normal(size=(draws, len(values))) @ root.T
    noise: Floats = normal / np.sqrt(rng.chisquare(freedom, size=(draws, 1)) / freedom)
    return noise
