"""How often the 95% intervals cover the truth, by simulation: `python benchmarks/interval_coverage.py [SIMULATIONS]`.

Prints, for each figure, the percentage of simulated samples whose interval holds the true value: 20, 100 and 1,000
independent rows, then the same in 10, 25 and 100 clusters of unequal size. Every row is drawn from normal variables
that its cluster shares by 0.3, so clustered rows are distributed as independent ones are, and the truth is the figure
of two million of these. Uses two processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import Pool

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import betaincinv, ndtr

from verdict_cli.evaluate.column import Floats, Ints
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.intervals import Draw, figures
from verdict_cli.evaluate.metrics import Statistic, labels, numbers, probability, ranks
from verdict_cli.evaluate.paired import change
from verdict_cli.evaluate.sample import Sample

Columns = tuple[Floats, ...]
LARGE = 2_000_000
SHARED = 0.3
CLUSTERS = {20: (1, 3, 10), 100: (2, 6, 25), 1000: (5, 15, 100)}
"""Rows -> the least and the most rows of a cluster, and the number of clusters."""


def judged(z: Floats, right: float) -> Columns:
    """Three labels, five, three and two of ten rows; a judge that is right by itself and guesses otherwise."""
    target = np.searchsorted([0.5, 0.8], ndtr(z[0]))
    return target, np.where(ndtr(z[1]) < right, target, np.minimum(ndtr(z[2]) * 3, 2).astype(int))


def sorted_out(z: Floats) -> Columns:
    """Two labels, the positive one on four of ten rows; a judge that is right on eight of ten."""
    target = (ndtr(z[0]) < 0.4).astype(int)
    return target, np.where(ndtr(z[1]) < 0.8, target, 1 - target)


def scored(z: Floats) -> Columns:
    """Two ratings from 1 to 5 that share a normal quality."""
    return tuple(np.clip(np.round(3 + z[0] + 0.7 * noise), 1, 5) for noise in (z[1], z[2]))


def believed(z: Floats) -> Columns:
    """Probabilities that are too sure of themselves, in hundredths."""
    p = np.clip(np.round(betaincinv(0.8, 1.2, ndtr(z[0])), 2), 0.01, 0.99)
    return p, (ndtr(z[1]) < 0.5 + 0.7 * (p - 0.5)).astype(float)


def rated(z: Floats) -> Columns:
    """Values from 1 to 5."""
    return (np.clip(np.round(3.5 + z[0]), 1, 5),)


def skewed(z: Floats) -> Columns:
    """Exponential values."""
    return (-np.log1p(-np.clip(ndtr(z[0]), 0, 1 - 1e-12)),)


def continued(z: Floats) -> Columns:
    """Two normal columns of correlation 0.6."""
    return z[0], 0.6 * z[0] + 0.8 * z[1]


def two_judges(z: Floats) -> Columns:
    """Three labels and two judges of them, whose mistakes go together: the second is a little better."""
    target, guess = np.searchsorted([0.5, 0.8], ndtr(z[0])), np.minimum(ndtr(z[2]) * 3, 2).astype(int)
    first, second = ndtr(z[1]) < 0.75, ndtr(0.6 * z[1] + 0.8 * z[3]) < 0.8
    return target, np.where(first, target, guess), np.where(second, target, guess)


@dataclass(frozen=True)
class Family:
    """How a sample is drawn, its statistics, and the figures that are looked at."""

    sample: Callable[[Floats], Columns]
    statistics: Callable[..., dict[str, Statistic]]
    figures: tuple[str, ...]


OF_LABELS = ("balanced_accuracy", "precision", "recall", "f1", "mcc", "cohen_kappa", "gwet_ac1")
OF_LABELS += ("krippendorff_alpha",)
OF_NUMBERS = ("pearson", "spearman", "kendall", "krippendorff_alpha", "weighted_kappa", "mae", "rmse")


def three(target: Ints, prediction: Ints) -> dict[str, Statistic]:
    """The figures of three labels."""
    return labels.statistics(target, prediction, 3, None, False)


def pairs(x: Floats, y: Floats) -> dict[str, Statistic]:
    """The figures of two columns of numbers."""
    return numbers.pairs(x, y) | ranks.pairs(x, y)


FAMILIES: Mapping[str, Family] = {
    "three labels, 75%": Family(lambda z: judged(z, 0.75), three, ("accuracy", *OF_LABELS)),
    "three labels, 93%": Family(lambda z: judged(z, 0.93), three, ("accuracy", *OF_LABELS)),
    "a positive label": Family(
        sorted_out, lambda t, p: labels.statistics(t, p, 2, 1, False), ("precision", "recall", "f1")
    ),
    "two ratings": Family(scored, pairs, OF_NUMBERS),
    "two normal columns": Family(continued, pairs, OF_NUMBERS),
    "probabilities": Family(
        believed, probability.statistics, ("auroc", "average_precision", "brier", "log_loss", "ece")
    ),
    "two judges": Family(two_judges, three, ("accuracy", "balanced_accuracy", "f1", "mcc", "cohen_kappa")),
    "ratings": Family(rated, lambda x: numbers.values(x, False), ("mean", "variance")),
    "exponential values": Family(skewed, lambda x: numbers.values(x, False), ("mean", "median", "variance")),
}


PAIRED = "two judges"
"""Here `statistics` gives the figures of each judge, and the truth is their difference."""


def figures_of(name: str, columns: Columns, sample: Sample, draw: Draw) -> dict[str, Figure]:
    """The figures of a sample, or the differences of the two judges' figures."""
    family = FAMILIES[name]
    at = tuple(column[sample.first] for column in columns)
    if name != PAIRED:
        statistics = family.statistics(*at)
        return figures({figure: statistics[figure] for figure in family.figures}, sample, draw)
    first, second = (family.statistics(at[0], said) for said in at[1:])
    return {figure: change(first[figure], second[figure], sample, draw) for figure in family.figures}


def clusters(rng: np.random.Generator, n: int) -> Ints:
    """The cluster of each of `n` rows."""
    least, most, count = CLUSTERS[n]
    sizes = rng.permutation(np.resize(np.arange(least, most + 1), count))
    while sizes.sum() != n:
        sizes[rng.integers(count)] += np.sign(n - sizes.sum())
        sizes = np.maximum(sizes, 1)
    return np.repeat(np.arange(count), sizes)


def truths(name: str) -> dict[str, float]:
    """The figures of the population."""
    family = FAMILIES[name]
    columns = family.sample(np.random.default_rng(1).normal(size=(4, LARGE)))
    found: dict[str, float] = {}
    sample = Sample.of(columns)
    some = sample
    if len(sample.counts) > 10_000:
        columns = tuple(np.round(column, 2) for column in columns)
        some = Sample.of(columns)
    at = tuple(column[some.first] for column in columns)
    sides = [at] if name != PAIRED else [(at[0], said) for said in at[1:]]
    for figure in family.figures:
        each = [float(family.statistics(*side)[figure].at(some.counts[None, :])[0]) for side in sides]
        found[figure] = each[-1] - (each[0] if name == PAIRED else 0.0)
    return found


def covered(job: tuple[str, int, bool, int, int, dict[str, float]]) -> tuple[str, int, bool, dict[str, int]]:
    """How many of the simulations `first`, `first + 2`, … have an interval that holds the truth."""
    name, n, clustered, first, simulations, true = job
    family, held = FAMILIES[name], dict.fromkeys(true, 0)
    for seed in range(first, simulations, 2):
        rng = np.random.default_rng([seed, n, clustered])
        z, cluster = rng.normal(size=(4, n)), None
        if clustered:
            cluster = clusters(rng, n)
            z = np.sqrt(SHARED) * rng.normal(size=(4, n))[:, cluster] + np.sqrt(1 - SHARED) * z
        columns = family.sample(z)
        sample = Sample.of(columns, cluster)
        for figure, one in figures_of(name, columns, sample, Draw(rng)).items():
            inside = one.low is not None and one.high is not None
            held[figure] += inside and one.low - 1e-9 <= true[figure] <= one.high + 1e-9
    return name, n, clustered, held


def main(simulations: int) -> None:
    """Prints the table."""
    cells = [(n, clustered) for clustered in (False, True) for n in CLUSTERS]
    total: dict[tuple[str, str, int, bool], int] = {}
    with Pool(2) as pool:
        true = dict(zip(FAMILIES, pool.map(truths, FAMILIES, chunksize=1), strict=True))
        jobs = [
            (name, n, clustered, first, simulations, true[name])
            for n, clustered in reversed(cells)
            for name in FAMILIES
            for first in (0, 1)
        ]
        for name, n, clustered, held in pool.imap_unordered(covered, jobs):
            for figure, count in held.items():
                key = (name, figure, n, clustered)
                total[key] = total.get(key, 0) + count
    heads = [f"{n} in {CLUSTERS[n][2]} clusters" if clustered else str(n) for n, clustered in cells]
    print(f"| data | figure | {' | '.join(heads)} |\n| --- | --- |{' ---: |' * len(cells)}")
    outside = 0
    for name, family in FAMILIES.items():
        for figure in family.figures:
            shares = [100 * total[name, figure, n, clustered] / simulations for n, clustered in cells]
            outside += sum(not 93 <= share <= 97 for share in shares)
            spelled = [f"{share:.1f}" if 93 <= share <= 97 else f"**{share:.1f}**" for share in shares]
            print(f"| {name} | `{figure}` | {' | '.join(spelled)} |")
    print(f"\n{len(total) - outside} of {len(total)} within 93 to 97; {simulations} simulations each.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
