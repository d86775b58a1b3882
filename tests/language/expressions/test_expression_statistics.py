"""Summary statistics, against Python's own."""

import contextlib
import math
import statistics as oracle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.expressions.expression import compile_expression

NUMBERS = st.lists(
    st.one_of(st.integers(-1000, 1000), st.floats(-1e6, 1e6), st.booleans()), min_size=2
)


@settings(deadline=None)
@given(NUMBERS)
def test_the_values_are_those_of_the_standard_library(values):
    floats = [float(value) for value in values]
    assert summary_statistics.mean(values) == pytest.approx(oracle.fmean(floats))
    assert summary_statistics.median(values) == oracle.median(floats)
    assert summary_statistics.variance(values) == pytest.approx(oracle.variance(floats))
    assert summary_statistics.stdev(values) == pytest.approx(oracle.stdev(floats), abs=1e-9)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.integers(0, 4), st.text(max_size=1), st.none(), st.lists(st.integers(0, 1))),
        min_size=1,
    )
)
def test_the_mode_is_the_most_frequent_value_and_the_first_of_several(values):
    mode = summary_statistics.mode(values)
    most = max(values.count(value) for value in values)
    assert values.count(mode) == most
    assert mode == next(value for value in values if values.count(value) == most)


@settings(deadline=None)
@given(st.lists(st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.just(10**400))))
def test_any_values_give_a_finite_number_or_a_row_error(values):
    for compute in (
        summary_statistics.mean,
        summary_statistics.median,
        summary_statistics.variance,
        summary_statistics.stdev,
    ):
        with contextlib.suppress(RowError):
            assert abs(compute(values)) < float("inf")


def test_one_value_has_no_variance():
    assert summary_statistics.variance([3]) == 0.0
    assert summary_statistics.stdev([3]) == 0.0


def test_a_result_too_large_for_a_float_is_an_error_and_not_infinity():
    for compute in (
        summary_statistics.mean,
        summary_statistics.median,
        summary_statistics.variance,
    ):
        with pytest.raises(RowError, match="too large"):
            compute([1.7e308, 1.7e308, -1.7e308, 1.7e308, 1.7e308, 1.7e308])
    with pytest.raises(RowError, match="too large"):
        summary_statistics.weighted_mean([1.7e308, 1.7e308], [9.0, 9.0])


@pytest.mark.parametrize("value", ["a", None, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises(RowError, match="mean needs numbers"):
        summary_statistics.mean([1, value])


def test_weights_need_not_sum_to_one_but_to_something():
    assert summary_statistics.weighted_mean([1, 4], [2, 1]) == 2.0
    with pytest.raises(RowError, match="sum to 0"):
        summary_statistics.weighted_mean([1, 4], [1, -1])


def test_weights_too_large_for_a_sum_are_an_error_of_the_row():
    with pytest.raises(RowError, match="sum of the weights of these values is too large"):
        summary_statistics.weighted_mean([1, 4, 2], [1e308, 1e308, 1e308])


def test_a_weighted_vote_goes_to_the_largest_sum_and_to_the_first_of_equals():
    assert summary_statistics.weighted_mode(["a", "b", "a"], [1, 3, 1]) == "b"
    assert summary_statistics.weighted_mode(["a", "b", "a"], [1, 2, 1]) == "a"
    with pytest.raises(RowError, match="mode of no values"):
        summary_statistics.mode([])


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("log", 2, math.log(2)), ("exp", 0.5, math.exp(0.5)), ("sqrt", 9, 3)],
)
def test_every_expression_knows_logarithms_exponentials_and_roots(name, value, wanted):
    values = {"source": {"p": value}}
    assert compile_expression(f"source.p | {name}", ("source",))(values) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("name", "value"), [("log", 0), ("log", -1), ("sqrt", -1), ("exp", 1e6), ("log", "2")]
)
def test_a_number_without_a_logarithm_or_root_fails_the_row(name, value):
    with pytest.raises(RowError, match=name):
        compile_expression(f"source.p | {name}", ("source",))({"source": {"p": value}})
