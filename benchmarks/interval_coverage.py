"""Coverage of the 95% intervals, by simulation: `python benchmarks/interval_coverage.py [SIMULATIONS [FAMILY]]`.

Prints, for each metric, the percentage of simulated samples with an interval whose interval contains the true value: 20, 100 and 1,000
independent rows, then the same in 10, 25 and 100 clusters of unequal size. Every row is drawn from normal variables
with a correlation of 0.3 within its cluster, so clustered rows have the same distribution as independent ones.

A metric of labels takes few values in a small sample, and the coverage of any interval that is not randomised swings
with the true value (Brown, Cai and DasGupta, 2001). If data are labels or ratings, every sample therefore has its own true
value, drawn evenly from a range, and the percentage is the mean coverage over it (Agresti and Coull, 1998); the true value is
computed from the table of the population. If data are continuous, the true value is the metric of two million rows.
Uses two processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import Pool

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri
from scipy.stats import multivariate_normal

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals, paired_metric_value
from verdict_cli.stats.metrics import confusion, numbers, panel, probability, ranks
from verdict_cli.stats.metrics.statistic import Statistic

Columns = tuple[Floats, ...]
LARGE = 2_000_000
SHARED = 0.3
CLUSTERS = {20: (1, 3, 10), 100: (2, 6, 25), 1000: (5, 15, 100)}
"""Rows -> the least and the most rows of a cluster, and the number of clusters."""


SHARES = np.array([0.5, 0.3, 0.2])
"""How often each of three labels is the target."""
EDGES = np.array([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(81)
HUNDREDTHS = np.arange(1, 100) / 100

Table = tuple[Columns, Floats]
"""The distinct rows of a population, and how likely each is."""


def between(share: float, low: float, high: float) -> float:
    """Linear interpolation."""
    return low + share * (high - low)


def judged(z: Floats, right: float) -> Columns:
    """Three labels, five, three and two of ten rows; a judge that is right by itself and guesses otherwise."""
    target = np.searchsorted([0.5, 0.8], ndtr(z[0]))
    return target, np.where(ndtr(z[1]) < right, target, np.minimum(ndtr(z[2]) * 3, 2).astype(int))


def judged_table(right: float) -> Table:
    """The population of `judged`."""
    weights = np.diag(SHARES * right) + SHARES[:, None] * (1 - right) / 3
    return tuple(np.indices((3, 3)).reshape(2, -1)), weights.ravel()


def sorted_out(z: Floats, positive: float, right: float) -> Columns:
    """Two labels of which one is positive, and a judge of them."""
    target = (ndtr(z[0]) < positive).astype(int)
    return target, np.where(ndtr(z[1]) < right, target, 1 - target)


def sorted_table(positive: float, right: float) -> Table:
    """The population of `sorted_out`."""
    weights = np.outer([1 - positive, positive], [1, 1]) * np.array([[right, 1 - right], [1 - right, right]])
    return tuple(np.indices((2, 2)).reshape(2, -1)), weights.ravel()


def scored(z: Floats, middle: float, noise: float) -> Columns:
    """Two ratings from 1 to 5 that share a normal quality."""
    return tuple(np.clip(np.round(middle + z[0] + noise * own), 1, 5) for own in (z[1], z[2]))


def scored_table(middle: float, noise: float) -> Table:
    """The population of `scored`."""
    likely = np.diff(ndtr((EDGES[:, None] - middle - NODES) / noise), axis=0)
    weights = (likely * WEIGHTS / WEIGHTS.sum()) @ likely.T
    return tuple(np.indices((5, 5)).reshape(2, -1) + 1.0), weights.ravel()


def believed(z: Floats, slope: float) -> Columns:
    """Overconfident probabilities in hundredths; a smaller slope means more overconfidence."""
    p = np.clip(np.round(betaincinv(0.8, 1.2, ndtr(z[0])), 2), 0.01, 0.99)
    return p, (ndtr(z[1]) < 0.5 + slope * (p - 0.5)).astype(float)


def believed_table(slope: float) -> Table:
    """The population of `believed`."""
    edges = np.concatenate([[0.0], betainc(0.8, 1.2, HUNDREDTHS[:-1] + 0.005), [1.0]])
    likely, true = np.diff(edges), 0.5 + slope * (HUNDREDTHS - 0.5)
    columns = (np.tile(HUNDREDTHS, 2), np.repeat([0.0, 1.0], len(HUNDREDTHS)))
    return columns, np.concatenate([likely * (1 - true), likely * true])


def rated(z: Floats, middle: float, spread: float) -> Columns:
    """Values from 1 to 5."""
    return (np.clip(np.round(middle + spread * z[0]), 1, 5),)


def rated_table(middle: float, spread: float) -> Table:
    """The population of `rated`."""
    return (np.arange(1.0, 6.0),), np.diff(ndtr((EDGES - middle) / spread))


def skewed(z: Floats) -> Columns:
    """Exponential values."""
    return (-np.log1p(-np.clip(ndtr(z[0]), 0, 1 - 1e-12)),)


def continued(z: Floats) -> Columns:
    """Two normal columns of correlation 0.6."""
    return z[0], 0.6 * z[0] + 0.8 * z[1]


def two_judges(z: Floats, first: float, second: float) -> Columns:
    """Three labels and two judges of them, whose errors are correlated."""
    target, guess = np.searchsorted([0.5, 0.8], ndtr(z[0])), np.minimum(ndtr(z[2]) * 3, 2).astype(int)
    right = ndtr(z[1]) < first, ndtr(0.6 * z[1] + 0.8 * z[3]) < second
    return target, *(np.where(each, target, guess) for each in right)


def two_judges_table(first: float, second: float) -> Table:
    """The population of `two_judges`."""
    both = float(multivariate_normal.cdf(ndtri([first, second]), cov=[[1, 0.6], [0.6, 1]]))
    target, one, other, guess = np.indices((3, 3, 3, 3)).reshape(4, -1)
    ways = (
        (both, target, target),
        (first - both, target, guess),
        (second - both, guess, target),
        (1 - first - second + both, guess, guess),
    )
    likely = sum(share * (one == said) * (other == also) for share, said, also in ways)
    return (target, one, other), SHARES[target] / 3 * likely


def three_judges(z: Floats, *right: float) -> Columns:
    """Two labels and three judges of them, whose errors are correlated."""
    target = (ndtr(z[0]) < 0.4).astype(int)
    mixed = np.linalg.cholesky(np.full((3, 3), 0.5) + 0.5 * np.eye(3)) @ z[1:]
    return target, *(np.where(ndtr(own) < share, target, 1 - target) for own, share in zip(mixed, right, strict=True))


def three_judges_table(*right: float) -> Table:
    """The population of `three_judges`."""
    alone = ndtr((ndtri(right)[:, None] - np.sqrt(0.5) * NODES) / np.sqrt(0.5))
    target, *hits = np.indices((2, 2, 2, 2)).reshape(4, -1)
    each = [np.where(hit[:, None] == 1, share, 1 - share) for hit, share in zip(hits, alone, strict=True)]
    likely = np.prod(each, axis=0) @ WEIGHTS / WEIGHTS.sum()
    votes = [np.where(hit == 1, target, 1 - target) for hit in hits]
    return (target, *votes), np.where(target == 1, 0.4, 0.6) * likely


def of_panel(target: Ints, *votes: Ints) -> dict[str, Statistic]:
    """The metrics of a panel with a known target."""
    values = [said.astype(float) for said in votes]
    return panel.panel_statistics(votes, values, [(said != target).astype(float) for said in votes], True)


@dataclass(frozen=True)
class Family:
    """How a sample is drawn, its statistics, the metrics to check, and the ranges of the population's parameters."""

    sample: Callable[..., Columns]
    statistics: Callable[..., dict[str, Statistic]]
    figures: tuple[str, ...]
    table: Callable[..., Table] | None = None
    ranges: tuple[tuple[float, float], ...] = ()


OF_LABELS = ("balanced_accuracy", "precision", "recall", "f1", "mcc", "cohen_kappa", "gwet_ac1")
OF_LABELS += ("krippendorff_alpha",)
OF_TWO = ("accuracy", "balanced_accuracy", "f1", "mcc", "cohen_kappa")
OF_NUMBERS = ("pearson", "spearman", "kendall", "krippendorff_alpha", "weighted_kappa", "mae", "rmse")


def three(target: Ints, prediction: Ints) -> dict[str, Statistic]:
    """The metrics of three labels."""
    return confusion.label_statistics(target, prediction, 3, None, False)


def pairs(x: Floats, y: Floats) -> dict[str, Statistic]:
    """The metrics of two columns of numbers."""
    return numbers.number_pairs(x, y) | ranks.rank_pairs(x, y)


FAMILIES: Mapping[str, Family] = {
    "three labels, 60 to 90%": Family(judged, three, ("accuracy", *OF_LABELS), judged_table, ((0.6, 0.9),)),
    "three labels, 88 to 98%": Family(judged, three, ("accuracy", *OF_LABELS), judged_table, ((0.88, 0.98),)),
    "a positive label": Family(
        sorted_out,
        lambda t, p: confusion.label_statistics(t, p, 2, 1, False),
        ("precision", "recall", "f1"),
        sorted_table,
        ((0.3, 0.5), (0.7, 0.9)),
    ),
    "two ratings": Family(scored, pairs, OF_NUMBERS, scored_table, ((2, 4), (0.4, 1))),
    "two normal columns": Family(continued, pairs, OF_NUMBERS),
    "probabilities": Family(
        believed,
        probability.probability_statistics,
        ("auroc", "average_precision", "brier", "log_loss", "ece"),
        believed_table,
        ((0.4, 1),),
    ),
    "two judges, 60 to 90%": Family(two_judges, three, OF_TWO, two_judges_table, ((0.6, 0.9),) * 2),
    "two judges, 85 to 98%": Family(two_judges, three, OF_TWO, two_judges_table, ((0.85, 0.98),) * 2),
    "three judges": Family(
        three_judges,
        of_panel,
        ("krippendorff_alpha", "pairwise_kappa", "effective_judges"),
        three_judges_table,
        ((0.7, 0.95),) * 3,
    ),
    "ratings": Family(
        rated, lambda x: numbers.number_values(x, False), ("mean", "variance"), rated_table, ((2, 4), (0.7, 1.3))
    ),
    "exponential values": Family(skewed, lambda x: numbers.number_values(x, False), ("mean", "median", "variance")),
}


PAIRED = ("two judges, 60 to 90%", "two judges, 85 to 98%")
"""Here `statistics` gives the metrics of each judge, and the true value is their difference."""


def figures_of(name: str, columns: Columns, sample: Sample, draw: Draw) -> dict[str, MetricValue]:
    """The metrics of a sample, or the differences of the two judges' metrics."""
    family = FAMILIES[name]
    at = tuple(column[sample.first] for column in columns)
    if name not in PAIRED:
        statistics = family.statistics(*at)
        return metrics_with_intervals({figure: statistics[figure] for figure in family.figures}, sample, draw)
    first, second = (family.statistics(at[0], said) for said in at[1:])
    return {figure: paired_metric_value(first[figure], second[figure], sample, draw) for figure in family.figures}


def clusters(rng: np.random.Generator, n: int) -> Ints:
    """The cluster of each of `n` rows."""
    least, most, count = CLUSTERS[n]
    sizes = rng.permutation(np.resize(np.arange(least, most + 1), count))
    while sizes.sum() != n:
        sizes[rng.integers(count)] += np.sign(n - sizes.sum())
        sizes = np.maximum(sizes, 1)
    return np.repeat(np.arange(count), sizes)


def true_figures(name: str, columns: Columns, weights: Floats) -> dict[str, float]:
    """The metrics of a population, or the second judge's minus the first's."""
    family = FAMILIES[name]
    sides = [columns] if name not in PAIRED else [(columns[0], said) for said in columns[1:]]
    each = [
        {figure: float(one.at(LARGE * weights[None, :])[0]) for figure, one in family.statistics(*side).items()}
        for side in sides
    ]
    return {figure: each[-1][figure] - (each[0][figure] if name in PAIRED else 0.0) for figure in family.figures}


def fixed(name: str) -> dict[str, float] | None:
    """The metrics of a population that is the same for every sample; None if it is random."""
    family = FAMILIES[name]
    if family.table is not None:
        return None
    drawn = np.random.default_rng(1).normal(size=(4, LARGE))
    columns = tuple(np.round(column, 2) for column in family.sample(drawn))
    sample = Sample.of(columns)
    return true_figures(name, tuple(column[sample.first] for column in columns), sample.counts / sample.n)


def covered(
    job: tuple[str, int, bool, int, int, dict[str, float] | None],
) -> tuple[str, int, bool, dict[str, tuple[int, int]]]:
    """How many of the simulations `first`, `first + 2`, … have an interval, and how many of those contain the true value."""
    name, n, clustered, first, simulations, known = job
    family = FAMILIES[name]
    given, held = dict.fromkeys(family.figures, 0), dict.fromkeys(family.figures, 0)
    for seed in range(first, simulations, 2):
        rng = np.random.default_rng([seed, n, clustered])
        population = [between(rng.random(), *ends) for ends in family.ranges]
        z, cluster = rng.normal(size=(4, n)), None
        if clustered:
            cluster = clusters(rng, n)
            z = np.sqrt(SHARED) * rng.normal(size=(4, n))[:, cluster] + np.sqrt(1 - SHARED) * z
        columns = family.sample(z, *population)
        sample = Sample.of(columns, cluster)
        true = known or true_figures(name, *family.table(*population))
        for figure, one in figures_of(name, columns, sample, Draw(rng)).items():
            if one.low is not None and one.high is not None:
                given[figure] += 1
                held[figure] += one.low - 1e-9 <= true[figure] <= one.high + 1e-9
    return name, n, clustered, {figure: (given[figure], held[figure]) for figure in family.figures}


def main(simulations: int, names: list[str]) -> None:
    """Print the table."""
    cells = [(n, clustered) for clustered in (False, True) for n in CLUSTERS]
    total: dict[tuple[str, str, int, bool], tuple[int, int]] = {}
    with Pool(2) as pool:
        true = dict(zip(names, pool.map(fixed, names, chunksize=1), strict=True))
        jobs = [
            (name, n, clustered, first, simulations, true[name])
            for n, clustered in reversed(cells)
            for name in names
            for first in (0, 1)
        ]
        for name, n, clustered, counts in pool.imap_unordered(covered, jobs):
            for figure, (given, held) in counts.items():
                key = (name, figure, n, clustered)
                before = total.get(key, (0, 0))
                total[key] = before[0] + given, before[1] + held
    heads = [f"{n} in {CLUSTERS[n][2]} clusters" if clustered else str(n) for n, clustered in cells]
    print(f"| Data | Metric | {' | '.join(heads)} |\n| --- | --- |{' ---: |' * len(cells)}")
    count = dict.fromkeys(("within", "above", "below", "none"), 0)
    for name in names:
        for figure in FAMILIES[name].figures:
            cells_of = [spelled(*total[name, figure, n, clustered], simulations) for n, clustered in cells]
            for kind, _ in cells_of:
                count[kind] += 1
            print(f"| {name} | `{figure}` | {' | '.join(shown for _, shown in cells_of)} |")
    print(
        f"\n{count['within']} of {len(total) - count['none']} within 93 to 97, {count['above']} above, "
        f"{count['below']} below; {count['none']} without intervals. {simulations} simulations each."
    )


def spelled(given: int, held: int, simulations: int) -> tuple[str, str]:
    """The class of the coverage, and its cell: none if fewer than one sample in twenty has an interval."""
    if given < simulations / 20:
        return "none", "–"
    share = 100 * held / given
    kind = "below" if share < 93 else "above" if share > 97 else "within"
    return kind, f"{share:.1f}" if kind == "within" else f"**{share:.1f}**"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, sys.argv[2:] or list(FAMILIES))
