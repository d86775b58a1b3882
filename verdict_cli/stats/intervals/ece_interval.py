"""The interval of a sum of absolute gaps, such as the calibration error, by inverting its test.

A sum of absolute values is too large by what chance alone adds to each, so neither its standard error nor its
resamples lie around the truth. Instead, for every true sum, the sums that samples would show are drawn (the gaps of
the bins plus Student-t noise with their own covariance, clusters together), and the interval holds the true sums for
which the one that was found is not among the most extreme (Garthwaite and Buckland, 1992). The true gap is taken as
equally large in every bin; as large as the sample has them, the gaps that chance alone makes would count as true ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics.statistic import CalibrationBins

DRAWS = 1000
HALVINGS = 20


def folded_interval(
    gaps: CalibrationBins, sample: Sample, rng: np.random.Generator, level: float
) -> tuple[float, float]:
    """The ends of the interval of the sum over bins of the absolute mean gap."""
    mean = np.bincount(gaps.bin, sample.counts * gaps.off, minlength=gaps.bins) / sample.n
    found = float(np.abs(mean).sum())
    noise = _noise(_covariance(gaps, sample, mean), sample.units, rng)
    rows = np.bincount(gaps.bin, sample.counts, minlength=gaps.bins) / sample.n
    shares = np.where(mean < 0, -rows, rows)

    def sums(true: float) -> Floats:
        drawn: Floats = np.abs(true * shares + noise).sum(axis=1)
        return drawn

    tail = (1 - level) / 2
    most = max(2 * found, 1e-9) + float(np.abs(noise).sum(axis=1).max())
    low = _crossing(lambda true: float((sums(true) >= found).mean()) < tail, most)
    high = _crossing(lambda true: float((sums(true) <= found).mean()) >= tail, most)
    return low, max(high, low)


def _covariance(gaps: CalibrationBins, sample: Sample, mean: Floats) -> Floats:
    """The covariance of the bins' mean gaps, rows or whole clusters being independent."""
    units, n = sample.units, sample.n
    if sample.cluster is None:
        squares = np.bincount(gaps.bin, sample.counts * gaps.off**2, minlength=gaps.bins)
        away = np.diag(squares) - n * np.outer(mean, mean)
    else:
        place = sample.cluster * gaps.bins + gaps.bin[sample.atom]
        sums = np.bincount(place, gaps.off[sample.atom], minlength=units * gaps.bins)
        rows = np.bincount(sample.cluster, minlength=units)
        off = sums.reshape(units, gaps.bins) - rows[:, None] * mean
        away = off.T @ off
    covariance: Floats = units / (units - 1) * away / n**2
    return covariance


def _noise(covariance: Floats, units: int, rng: np.random.Generator) -> Floats:
    """Student-t noise of the covariance, with as many degrees of freedom as its sum has (Satterthwaite, 1946): those of
    one bin, times how many bins the noise is spread over."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0)
    root = vectors * np.sqrt(values)
    squares = float((values**2).sum())
    freedom = (units - 1) * (float(values.sum()) ** 2 / squares if squares > 0 else 1.0)
    normal = rng.normal(size=(DRAWS, len(values))) @ root.T
    drawn: Floats = normal / np.sqrt(rng.chisquare(freedom, size=(DRAWS, 1)) / freedom)
    return drawn


def _crossing(below: Callable[[float], bool], most: float) -> float:
    """The largest value below which the condition holds, 0 where it holds nowhere."""
    if not below(0.0):
        return 0.0
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low
