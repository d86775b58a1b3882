"""The shapes behind figures, against sums by hand, numpy and scipy."""

import numpy as np
import pytest
from scipy import stats

from verdict_cli.report.report_context import histogram, means_by_bin, proportions_by_bin, quantiles


def test_shares_are_by_bins_closed_on_the_right_with_their_exact_interval():
    x = np.array([0.05, 0.1, 0.11, 0.95, 1.0, 0.0])
    hits = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    bins = proportions_by_bin(x, hits, np.linspace(0, 1, 11))
    assert [bucket.n for bucket in bins] == [3, 1, 2]
    assert bins[0].x == pytest.approx((0.05 + 0.1 + 0.0) / 3)
    assert [bucket.y for bucket in bins] == pytest.approx([1 / 3, 1, 0.5])
    expected = stats.binomtest(1, 3).proportion_ci(0.95, "exact")
    assert (bins[0].low, bins[0].high) == pytest.approx((expected.low, expected.high))


def test_means_have_students_interval_for_each_value():
    x = np.array([1.0, 1, 1, 2])
    y = np.array([3.0, 4, 5, 9])
    first, second = means_by_bin(x, y)
    assert (first.n, first.x, first.y) == (3, 1.0, 4.0)
    expected = stats.t.interval(0.95, 2, loc=4, scale=stats.sem([3, 4, 5]))
    assert (first.low, first.high) == pytest.approx(expected)
    assert (second.low, second.y, second.high) == (9, 9, 9)


def test_many_values_are_binned_without_losing_a_row():
    x = np.random.default_rng(0).random(1_000)
    bins = means_by_bin(x, x)
    assert sum(bucket.n for bucket in bins) == 1_000
    assert len(bins) == 10
    assert all(bucket.x == pytest.approx(bucket.y) for bucket in bins)


def test_a_histogram_counts_every_row_once_and_whole_numbers_have_a_bar_each():
    whole = histogram(np.array([1.0, 2, 2, 5]), None, ())
    assert whole.edges == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    assert whole.counts == {"": (1, 2, 0, 0, 1)}
    split = histogram(
        np.array([0.0, 0.5, 1.0]), np.array([0, 1, 1]), ("no", "yes"), (0.0, 1.0), continuous=True
    )
    assert sum(split.counts["no"]) == 1
    assert sum(split.counts["yes"]) == 2
    constant = histogram(np.array([0.3, 0.3]), None, ())
    assert sum(constant.counts[""]) == 2


def test_repeated_values_make_fewer_fifths():
    assert quantiles(np.array([1.0, 1, 1, 1, 1, 9])).tolist() == [1, 9]
