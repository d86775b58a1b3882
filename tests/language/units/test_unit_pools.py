"""Pools."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import INTEGER, NUMBER, TEXT, RecordType
from verdict_cli.language.units.pools import (
    AbstainedError,
    MaxPoolUnit,
    MeanPoolUnit,
    MeanVariancePoolUnit,
    MedianFilterUnit,
    MedianPoolUnit,
    MinPoolUnit,
    ModePoolUnit,
    Pool,
)

POOLS: dict[str, Pool] = {
    "mean": MeanPoolUnit(),
    "median": MedianPoolUnit(),
    "max": MaxPoolUnit(),
    "min": MinPoolUnit(),
    "mode": ModePoolUnit(),
    "mean_variance": MeanVariancePoolUnit(),
}
NUMBERS = st.lists(st.integers(-100, 100), min_size=1, max_size=8)


@settings(deadline=None)
@given(NUMBERS)
def test_each_pool_has_its_result(values):
    assert POOLS["mean"].pool(values, None) == pytest.approx(statistics.fmean(values))
    assert POOLS["median"].pool(values, None) == statistics.median(values)
    assert POOLS["max"].pool(values, None) == max(values)
    assert POOLS["min"].pool(values, None) == min(values)
    assert POOLS["mode"].pool(values, None) == statistics.mode(values)
    variance = statistics.variance(values) if len(values) > 1 else 0.0
    output = POOLS["mean_variance"].pool(values, None)
    assert output == pytest.approx({"mean": statistics.fmean(values), "variance": variance})


@settings(deadline=None)
@given(
    st.sampled_from(sorted(POOLS)),
    st.lists(st.one_of(st.text(), st.none(), st.floats(), st.integers(), st.just(10**400))),
)
def test_any_values_give_a_value_or_a_row_error(name, values):
    try:
        POOLS[name].pool(values, None)
    except RowError as error:
        assert error.message


@settings(deadline=None)
@given(NUMBERS)
def test_equal_weights_change_nothing(values):
    weights = [2.0] * len(values)
    for name in ("mean", "mode"):
        assert POOLS[name].pool(values, weights) == pytest.approx(POOLS[name].pool(values, None))


def test_weights_weigh():
    unit = MeanPoolUnit(weights=(3, 1))
    assert unit.pool_weights() == (3, 1)
    assert unit.pool([1, 5], unit.pool_weights()) == 2.0
    assert ModePoolUnit(weights=(1, 3)).pool(["a", "b"], (1, 3)) == "b"


def test_the_largest_of_booleans_is_a_boolean():
    assert POOLS["max"].pool([False, True], None) is True
    assert POOLS["min"].pool([False, True], None) is False


def test_what_a_pool_gives_on():
    narrow, two = RecordType({"a": INTEGER}), RecordType({"a": INTEGER, "b": TEXT})
    assert POOLS["mean"].output_fields(narrow) == RecordType({"a": NUMBER})
    assert POOLS["max"].output_fields(narrow) == narrow
    assert POOLS["mode"].output_fields(two) == two
    both = RecordType({"mean": NUMBER, "variance": NUMBER})
    assert POOLS["mean_variance"].output_fields(narrow) == RecordType({**both.fields, "a": both})
    assert POOLS["mean_variance"].output_fields(two) == RecordType({"a": both, "b": both})
    settled = POOLS["mean_variance"].to_output({"a": {"mean": 2.0, "variance": 1.0}})
    assert settled == {"mean": 2.0, "variance": 1.0, "a": {"mean": 2.0, "variance": 1.0}}


def test_field_and_fields_are_two_ways_to_say_one_thing():
    assert MeanPoolUnit(field="a").field_names() == ("a",)
    assert MeanPoolUnit(fields=("a", "b")).field_names() == ("a", "b")
    assert POOLS["mean"].field_names() is None
    trouble = MeanPoolUnit(field="a", fields=("a",)).validation_error()
    assert trouble is not None
    assert trouble[0] == "fields"
    assert POOLS["mean"].validation_error() is None


def test_the_median_is_also_called_a_filter():
    assert MedianFilterUnit().type_name == "MedianFilterUnit"


def test_a_tie_is_broken_as_ties_says():
    tie = ["no", "yes", "yes", "no", "maybe"]
    assert ModePoolUnit().pool(tie, None, 1) == "no"
    assert ModePoolUnit(ties="first").pool(tie, None, 1) == "no"
    with pytest.raises(RowError, match="tie between 'no', 'yes'"):
        ModePoolUnit(ties="fail").pool(tie, None, 1)
    with pytest.raises(AbstainedError):
        ModePoolUnit(ties="abstain").pool(tie, None, 1)
    drawn = [ModePoolUnit(ties="random").pool(tie, None, seed) for seed in range(50)]
    assert set(drawn) == {"no", "yes"}
    assert drawn == [ModePoolUnit(ties="random").pool(tie, None, seed) for seed in range(50)]


@pytest.mark.parametrize("ties", ["first", "fail", "abstain", "random"])
def test_without_a_tie_ties_changes_nothing(ties):
    assert ModePoolUnit(ties=ties).pool([1, 2, 2], None, 1) == 2
    assert ModePoolUnit(ties=ties).pool([1, 2, 2], [3.0, 1.0, 1.0], 1) == 1


def test_a_tie_of_weights_is_detected_in_spite_of_rounding():
    with pytest.raises(AbstainedError):
        ModePoolUnit(ties="abstain").pool([1, 1, 2], [0.1, 0.2, 0.3], 1)


@pytest.mark.parametrize(
    ("votes", "weights", "agreement", "margin"),
    [
        ([1, 1, 2], None, 2 / 3, 1 / 3),
        ([1, 2], None, 0.5, 0.0),
        ([1, 1], None, 1.0, 1.0),
        ([1, 1, 2], [0.1, 0.2, 0.3], 0.5, 0.0),
        ([1, 2, 3], [5.0, 3.0, 2.0], 0.5, 0.2),
    ],
)
def test_the_margin_is_the_winners_share_without_the_runner_ups(votes, weights, agreement, margin):
    unit = ModePoolUnit(agreement=True)
    fields = unit.extra_fields({"score": unit.pool(votes, weights)}, {"score": votes}, weights)
    assert fields == pytest.approx({"agreement": agreement, "margin": margin})
    assert list(unit.output_fields(RecordType({"score": INTEGER})).fields) == [
        "score",
        "agreement",
        "margin",
    ]
