"""How often the 95% intervals cover the truth, by simulation: `python benchmarks/interval_coverage.py [SIMULATIONS]`.

Prints, for each figure and sample size, the share of simulated samples whose interval holds the true value, with the
simulation's own error. Truths are known in closed form, or are the figure of a sample of four million rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from verdict_cli.evaluate.column import Floats
from verdict_cli.evaluate.intervals import Draw, figures
from verdict_cli.evaluate.metrics import Statistic, labels, numbers, probability, ranks
from verdict_cli.evaluate.sample import Sample

Columns = tuple[Floats, ...]
LARGE = 4_000_000
FIGURES = {
    "labels": ("accuracy", "balanced_accuracy", "f1", "mcc", "cohen_kappa", "gwet_ac1", "krippendorff_alpha"),
    "numbers": ("pearson", "spearman", "kendall", "krippendorff_alpha", "weighted_kappa", "mae", "rmse"),
    "probability": ("auroc", "average_precision", "brier", "log_loss"),
    "value": ("mean", "median", "variance"),
}


def judged(rng: np.random.Generator, n: int) -> Columns:
    """Three labels, unequally frequent; a judge that is right on three rows of four."""
    target = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    return target, np.where(rng.random(n) < 0.75, target, rng.integers(0, 3, n))


def scored(rng: np.random.Generator, n: int) -> Columns:
    """Two ratings from 1 to 5 that share a normal quality."""
    quality = rng.normal(size=n)
    noisy = [np.clip(np.round(3 + quality + rng.normal(size=n) * 0.7), 1, 5) for _ in range(2)]
    return noisy[0], noisy[1]


def believed(rng: np.random.Generator, n: int) -> Columns:
    """Probabilities that are too sure of themselves, in hundredths."""
    p = np.clip(np.round(rng.beta(0.8, 1.2, n), 2), 0.01, 0.99)
    return p, (rng.random(n) < 0.5 + 0.7 * (p - 0.5)).astype(float)


def drawn(rng: np.random.Generator, n: int) -> Columns:
    """Exponential values."""
    return (np.round(rng.exponential(size=n), 2),)


FAMILIES: dict[
    str, tuple[Callable[[np.random.Generator, int], Columns], Callable[..., dict[str, Statistic]]]
] = {
    "labels": (judged, lambda t, p: labels.statistics(t, p, 3, None, False)),
    "numbers": (scored, lambda x, y: numbers.pairs(x, y) | ranks.pairs(x, y)),
    "probability": (believed, probability.statistics),
    "value": (drawn, lambda x: numbers.values(x, False)),
}


def main(simulations: int) -> None:
    """Prints the table."""
    print(f"{'figure':34}{'n':>6}  coverage of 95% intervals, {simulations} simulations")
    for family, (sample_of, statistics_of) in FAMILIES.items():
        rng = np.random.default_rng(1)
        columns = sample_of(rng, LARGE)
        large = Sample.of(columns)
        found = statistics_of(*(column[large.first] for column in columns))
        truths = {name: float(found[name].at(large.counts[None, :])[0]) for name in FIGURES[family]}
        for n in (30, 100, 450):
            covered = dict.fromkeys(truths, 0)
            for seed in range(simulations):
                rng = np.random.default_rng([seed, n])
                columns = sample_of(rng, n)
                sample = Sample.of(columns)
                found = statistics_of(*(column[sample.first] for column in columns))
                made = figures({name: found[name] for name in truths}, sample, Draw(rng))
                for name, figure in made.items():
                    inside = figure.low is not None and figure.high is not None
                    covered[name] += inside and figure.low <= truths[name] <= figure.high
            for name, count in covered.items():
                share = count / simulations
                error = np.sqrt(share * (1 - share) / simulations)
                print(f"{family + ' ' + name:34}{n:>6}  {share:.3f} ± {1.96 * error:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
