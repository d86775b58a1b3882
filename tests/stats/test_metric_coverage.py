"""Coverage of the intervals of metrics that `benchmarks/interval_coverage.py` does not draw, with fixed seeds."""

import numpy as np

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals
from verdict_cli.stats.metrics import metric_families, panel

SAMPLES = 150


def covered(one_sample, truth):
    """The share of samples without a warning whose interval holds the truth."""
    covered = unwarned = 0
    for seed in range(SAMPLES):
        rng = np.random.default_rng([11, seed])
        columns, statistic = one_sample(rng)
        sample = Sample.of(columns)
        estimates = metrics_with_intervals(
            {"it": statistic(*(column[sample.first] for column in columns))}, sample, Draw(rng)
        )
        estimate = estimates["it"]
        unwarned += not estimate.warnings
        covered += not estimate.warnings and estimate.low <= truth <= estimate.high
    assert unwarned > SAMPLES / 2
    return covered / unwarned


def test_pass_at_k_of_sixty_problems_with_five_samples():
    def one_sample(rng):
        right = rng.random((60, 5)) < rng.beta(1, 2, 60)[:, None]
        return (right.sum(axis=1).astype(float),), lambda count: panel.pass_at_k_of_panel(
            (np.arange(5) < count[:, None]).astype(float), 2
        )

    truth = 1 - np.mean((1 - np.random.default_rng(0).beta(1, 2, 1_000_000)) ** 2)
    assert covered(one_sample, truth) >= 0.93 - 0.05


def test_the_length_controlled_win_rate_of_two_hundred_choices():
    def one_sample(rng):
        size = np.round(np.tanh(rng.normal(0.5, 1, 200)), 2)
        wins = (rng.random(200) < 1 / (1 + np.exp(-0.5 - size))).astype(float)
        return (wins, size), metric_families.length_controlled_win_rate

    assert covered(one_sample, 1 / (1 + np.exp(-0.5))) >= 0.93 - 0.05
