"""Rows are drawn with the probabilities that are written down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.labelling.draw import (
    inclusion_probabilities,
    scaled_sizes,
    stratified_probabilities,
    systematic_draw,
)

sizes = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=60)


@given(sizes, st.data())
def test_probabilities_follow_the_sizes_and_sum_to_the_number_of_rows(values, data):
    n = data.draw(st.integers(1, len(values)))
    size = np.array(values)
    probabilities = inclusion_probabilities(size, n)
    assert (
        probabilities.sum() == pytest.approx(n)
        and (probabilities > 0).all()
        and (probabilities <= 1).all()
    )
    free = probabilities < 1
    if free.sum() > 1:
        assert np.allclose(probabilities[free] / size[free], probabilities[free][0] / size[free][0])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.data())
def test_strata_give_the_same_number_of_rows_as_far_as_they_have_them(values, data):
    n = data.draw(st.integers(1, len(values)))
    strata = np.array(values)
    probabilities = stratified_probabilities(strata, n)
    assert probabilities.sum() == pytest.approx(n) and (probabilities <= 1 + 1e-12).all()
    drawn = {code: probabilities[strata == code].sum() for code in set(values)}
    assert all(len(set(probabilities[strata == code])) == 1 for code in drawn)
    most = max(drawn.values())
    assert all(
        drawn[code] == pytest.approx(most) or probabilities[strata == code][0] == pytest.approx(1)
        for code in drawn
    )


@given(sizes, st.data(), st.integers(0, 2**32 - 1))
def test_a_draw_has_the_number_of_rows_without_repeats(values, data, seed):
    n = data.draw(st.integers(1, len(values)))
    drawn = systematic_draw(
        inclusion_probabilities(np.array(values), n), np.random.default_rng(seed)
    )
    assert len(drawn) == n and len(set(drawn.tolist())) == n


def test_rows_come_as_often_as_their_probabilities_say():
    size = np.concatenate([np.full(20, 1.0), np.full(10, 5.0)])
    share = inclusion_probabilities(size, 12)
    rng, times = np.random.default_rng(3), 4_000
    counts = np.zeros(30)
    for _ in range(times):
        counts[systematic_draw(share, rng)] += 1
    assert np.abs(counts / times - share).max() < 5 * np.sqrt(0.25 / times)


def test_sizes_run_from_the_floor_to_one_more_and_an_unknown_doubt_is_the_greatest():
    assert scaled_sizes(np.array([0.0, 0.5, 1.0, np.nan])).tolist() == pytest.approx(
        [0.1, 0.6, 1.1, 1.1]
    )
    assert scaled_sizes(np.array([2.0, 2.0])).tolist() == [1, 1]
