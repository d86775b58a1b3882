"""The interval of the calibration error, which inverts its test.

A sum of absolute values is too large by what chance alone adds to each, so neither its standard error nor its resamples lie
around the truth. Instead, for every true sum, the sums that samples would show are drawn, and the interval holds the true sums
for which the observed one is not among the most extreme (Garthwaite and Buckland, 1992). The true deviation is taken as equally
large in every bin, as that of the bins alone whose deviation is plainly not chance, and as that which was found; the interval
holds what any of them allows.

What chance adds to a bin is drawn from the confidence distributions of its share of positive rows, of which one end of Clopper
and Pearson's interval takes one more row to be positive, and the other end takes it not to be: a bin in which no row is wrong
does not show how far it could be off. In one half of the draws, that row is wrong in every bin. In clusters, rows count as the independent ones that they are worth, and the noise has
Student's tails.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.distributions import last_passing
from verdict_cli.stats.columns.column import Ends, Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import (
    cluster_freedom,
    effective_share,
)
from verdict_cli.stats.metrics.statistic import CALIBRATION_BINS, CalibrationBins, Proportion

DRAWS = 1000
"""Each tail of a 95% interval then has 25 of the sums drawn at its end."""
CLEAR_DEVIATION = 2.0
"""A bin whose deviation is so many times its standard error has one."""


def calibration_error_interval(
    bins: CalibrationBins, sample: Sample, rng: np.random.Generator, level: float
) -> Ends:
    """The ends of the interval of the sum over bins of the absolute mean deviation."""
    mean = (
        np.bincount(bins.bin, sample.counts * bins.deviation, minlength=CALIBRATION_BINS) / sample.n
    )
    rows = np.bincount(bins.bin, sample.counts, minlength=CALIBRATION_BINS) / sample.n
    observed = float(np.abs(mean).sum())
    noise = _noise(bins, sample, mean, rng)
    is_clear = np.abs(mean) > CLEAR_DEVIATION * noise.std(axis=0)
    shares = np.copysign(rows, mean)
    # A few bins may have the whole deviation: of the others, noise alone is added to it.
    plain = np.where(is_clear, mean, 0.0)
    shapes = [shares, plain / np.abs(plain).sum()] if plain.any() else [shares]
    # A deviation that is not clear may have the other sign, which the noise hides.
    hidden = np.where(is_clear, shares, np.copysign(rows, -noise.mean(axis=0)))
    tail = (1 - level) / 2
    most = max(2 * observed, 1e-9) + float(np.abs(noise).sum(axis=1).max())

    def end(shape: Floats, often: float) -> float:
        """The largest true sum of this shape that shows as much as was found less often than this."""

        def is_rare(true: float) -> bool:
            sums = np.abs(true * shape + noise).sum(axis=1)
            return bool((sums >= observed).mean() < often)

        return last_passing(is_rare, most)

    low = min(end(shape, tail) for shape in shapes)
    seen = mean / observed if observed else shares
    high = max(end(shape, 1 - tail) for shape in (hidden, seen))
    # The sum is no larger than those of the bins' confidence distributions, which have what chance adds twice.
    high = min(high, float(np.quantile(np.abs(mean - noise).sum(axis=1), 1 - tail)))
    return low, max(high, low)


def _noise(bins: CalibrationBins, sample: Sample, mean: Floats, rng: np.random.Generator) -> Floats:
    """What chance adds to the bins' mean deviations, (draws, bins)."""
    kinds = 2 * bins.bin + bins.positive.astype(np.int64)
    counts = np.bincount(kinds, sample.counts, minlength=2 * CALIBRATION_BINS).reshape(-1, 2)
    rows = counts.sum(axis=1)
    probability = (mean * sample.n + counts[:, 1]) / np.maximum(rows, 1)
    # Rows whose probability is nearer to the other end decide how far the clusters' rows go together.
    wrong = Proportion(np.where(np.abs(bins.deviation) > 0.5, 1.0, 0.0), np.ones(len(bins.bin)))
    effect = sample.n / effective_share(wrong, sample).worth
    is_wrong = rng.integers(0, 2, size=(DRAWS, 1))
    more = np.where(probability < 0.5, is_wrong, 1 - is_wrong) * (rows > 0)
    drawn = rng.gamma(counts / effect + np.stack([np.sign(rows) - more, more], axis=2))
    every = drawn.sum(axis=2)
    deviations = every * probability - drawn[:, :, 1]
    noise: Floats = mean - deviations / every.sum(axis=1, keepdims=True)
    if sample.cluster is None:
        return noise
    freedom = cluster_freedom(sample)
    return noise / np.sqrt(rng.chisquare(freedom, size=(DRAWS, 1)) / freedom)
