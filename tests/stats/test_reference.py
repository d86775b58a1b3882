"""Several pipelines against a reference: repeated runs are a level of their own."""

import itertools

import numpy as np
import pytest
from evaluation_data import label_data
from scipy.special import expit

from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.paired import compare_with_reference, pair, paired_difference
from verdict_cli.stats.simultaneous import RunSpread

SEEDS = [7]


def a_run(right, cluster=None):
    """The rows of a run whose judge gets these right."""
    n = len(right)
    target = (np.arange(n) % 2).astype(np.int64)
    data = label_data(target, np.where(right, target, 1 - target), cluster=cluster)
    return data, (), [str(row) for row in range(n)]


def runs(count, hard, rng, shift=0.0, between=0.0):
    """Runs of a pipeline on rows of this difficulty, each with a chance of its own."""
    return [
        a_run(rng.random(len(hard)) < expit(hard + shift + rng.normal(0, between)))
        for _ in range(count)
    ]


def against(*pipelines, level=0.95, swaps=0):
    rows = pair(*(run for pipeline in pipelines for run in pipeline))
    sizes = [len(pipeline) for pipeline in pipelines]
    return compare_with_reference(["accuracy"], rows, sizes, level, SEEDS, swaps)["accuracy"]


def accuracy(run):
    return float((run[0].target == run[0].prediction).mean())


def test_the_spread_of_runs_is_their_variance_and_that_of_their_rows():
    rng = np.random.default_rng(1)
    hard = rng.normal(1, 1, 120)
    first, second = runs(3, hard, rng), runs(2, hard, rng)
    compared = against(first, second)
    values = [[accuracy(run) for run in pipeline] for pipeline in (first, second)]
    assert compared.values == pytest.approx([np.mean(values_of_run) for values_of_run in values])
    assert [list(run) for run in compared.runs] == [pytest.approx(value) for value in values]
    squares = sum(
        np.var(values_of_run, ddof=1) * (len(values_of_run) - 1) for values_of_run in values
    )
    assert compared.spread.seen == pytest.approx(squares / 3)
    noise = []
    for pipeline in (first, second):
        right = [run[0].target == run[0].prediction for run in pipeline]
        pairs = [
            np.var(first.astype(float) - two, ddof=1) / 120 / 2
            for first, two in itertools.combinations(right, 2)
        ]
        noise.append(np.mean(pairs) * (len(pipeline) - 1))
    assert compared.spread.within == pytest.approx(sum(noise) / 3, rel=1e-6)


def test_a_pipeline_without_repeats_is_compared_as_two_runs_are():
    rng = np.random.default_rng(2)
    first, second = runs(2, rng.normal(1, 1, 60), rng)
    compared = against([first], [second], swaps=199)
    alone = paired_difference(
        "accuracy", pair(first, second), Draw(np.random.default_rng([*SEEDS, 0])), 199
    )
    assert compared.spread is None
    assert compared.differences[0] == alone


def test_intervals_of_several_pipelines_are_wider_than_those_of_one():
    rng = np.random.default_rng(3)
    hard = rng.normal(1, 1, 100)
    first, *others = ([run] for run in runs(5, hard, rng))
    alone, together = against(first, others[0]), against(first, *others)
    widths = [
        comparison.differences[0].change.high - comparison.differences[0].change.low
        for comparison in (alone, together)
    ]
    assert widths[1] > 1.1 * widths[0]


def test_equal_pipelines_of_repeated_runs_seldom_differ_for_any_variance():
    rng = np.random.default_rng(4)
    for count, between in ((3, 0.0), (3, 0.6)):
        missed = wrong = 0
        for _ in range(60):
            hard = rng.normal(1.2, 1.5, 80)
            compared = against(
                runs(count, hard, rng, 0, between), runs(count, hard, rng, 0, between), swaps=99
            )
            change = compared.differences[0].change
            missed += not change.low <= 0 <= change.high
            wrong += compared.differences[0].p <= 0.05
        assert missed <= 7, (count, between)
        assert wrong <= 7, (count, between)


def test_two_runs_that_happen_to_agree_do_not_prove_that_runs_agree():
    """Two and two runs of variance 3, of which the rows explain 1: the variance seen has two degrees of freedom."""
    rng = np.random.default_rng(7)
    wrong = 0
    for variance in 3 * rng.chisquare(2, 3000) / 2:
        value = float(rng.normal(0, 3**0.5))
        change = MetricValue(value, value - 2, value + 2, 1000, se=1.0, df=1000.0)
        wrong += RunSpread(variance, 2, 1.0, 1000.0).widened(change, 1.0, 100.0)[1] <= 0.05
    assert wrong / 3000 <= 0.06


def test_the_noise_floor_holds_for_most_new_pairs_of_runs():
    rng = np.random.default_rng(5)
    within = 0
    for _ in range(80):
        hard = rng.normal(1, 1.5, 80)
        first, two = runs(2, hard, rng, 0, 0.1)
        floor = against(runs(4, hard, rng, 0, 0.1)).spread.noise_floor(0.95)
        within += abs(accuracy(first) - accuracy(two)) <= floor
    assert within >= 71


def test_two_repeated_runs_are_too_few_to_know_the_variance_between_runs():
    rng = np.random.default_rng(6)
    hard = rng.normal(1, 1, 80)
    difference = against(runs(2, hard, rng), runs(1, hard, rng)).differences[0]
    assert "two repeated runs do not show how much runs differ" in difference.change.reason
    assert not against(runs(2, hard, rng), runs(2, hard, rng)).differences[0].change.warnings


def test_runs_of_the_same_outcomes_have_p_1_and_an_interval():
    right = np.arange(40) % 5 > 0
    difference = against([a_run(right)] * 3, [a_run(right)], swaps=99).differences[0]
    assert difference.p == pytest.approx(1)
    assert difference.change.low < 0 < difference.change.high


def test_other_targets_and_no_shared_row_are_reasons():
    first, second = runs(2, np.zeros(20), np.random.default_rng(9))
    third = (second[0], (), [f"other {row}" for row in range(20)])
    assert "no row in common" in pair(first, second, third)
    assert "targets differ" in pair(first, (second[0], (), [*second[2][1:], second[2][0]]))
