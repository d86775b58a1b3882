"""The Pareto frontier, against its definition."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.features.sweep.compare_variants import frontier

POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def test_the_cheap_and_the_good_are_on_it_and_what_they_beat_is_not():
    assert frontier([1, 2, 3, 3], [0.5, 0.7, 0.6, 0.9]) == (True, True, False, True)


def test_a_point_without_a_price_or_a_metric_is_not_on_it():
    assert frontier([None, 1.0, 2.0], [0.9, 0.5, None]) == (False, True, False)


@given(POINTS)
def test_sorted_by_price_the_frontier_only_gains(points):
    on = frontier([price for price, _ in points], [gain for _, gain in points])
    points_on_it = sorted({point for point, is_on in zip(points, on, strict=True) if is_on})
    assert bool(points_on_it) == bool(points)
    assert all(
        first[0] < second[0] and first[1] < second[1]
        for first, second in itertools.pairwise(points_on_it)
    )


@given(POINTS)
def test_what_is_not_on_it_is_beaten_by_what_is(points):
    on = frontier([price for price, _ in points], [gain for _, gain in points])
    points_on_it = [point for point, is_on in zip(points, on, strict=True) if is_on]
    for (price, gain), is_on in zip(points, on, strict=True):
        assert is_on or any(
            point[0] <= price and point[1] >= gain and point != (price, gain)
            for point in points_on_it
        )
