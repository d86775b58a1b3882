"""Scales of all numbers between two ends."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.scales.continuous import ContinuousScale

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.floats(0, 1), st.sampled_from(["{}", " {} ", '"{}"', "{}.", "'{}'."]))
def test_every_number_between_the_ends_is_read_with_quotes_spaces_and_a_period(value, around):
    assert ContinuousScale().read(value) == value
    assert ContinuousScale().read(around.format(f"{value:.6f}")) == float(f"{value:.6f}")


@settings(deadline=None)
@given(FINITE, FINITE, st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none()))
def test_nothing_outside_the_ends_is_ever_read(first_end, second_end, value):
    scale = ContinuousScale.model_validate(
        {"min": min(first_end, second_end), "max": max(first_end, second_end)}
    )
    try:
        read = scale.read(value)
    except ReplyError as error:
        assert error.failure == "off-scale"
    else:
        assert scale.min <= read <= scale.max
        assert type(read) is float


@pytest.mark.parametrize(
    "value",
    [
        "nan",
        "inf",
        "Infinity",
        "1e999",
        "about 0.5",
        "1_0",
        "",
        True,
        None,
        math.nan,
        10**400,
        "0,512",
    ],
)
def test_what_is_no_number_of_the_scale_is_an_extraction_error(value):
    with pytest.raises(ReplyError, match="is not on the scale 0 to 1"):
        ContinuousScale().read(value)


def test_the_written_end_itself_is_included():
    assert ContinuousScale(min=0.1, max=0.3).read("0.3") == 0.3
    assert ContinuousScale(min=0.1, max=0.3).read("0.1") == 0.1


def test_the_prompt_names_the_ends_exactly_and_which_one_is_worst():
    assert ContinuousScale(min=0, max=1234567.5).display() == "0 to 1234567.5"
    assert ContinuousScale(max=10, end_is_worst=True).sentence("risk") == (
        "The risk must be a number from 0 to 10, where 10 is the worst and 0 the best."
    )
    assert ContinuousScale(max=10).json_schema() == {"type": "number", "minimum": 0, "maximum": 10}


def test_ends_in_the_wrong_order_are_a_problem():
    trouble = ContinuousScale.model_validate({"min": 1, "max": 1}).validation_error()
    assert trouble is not None
    assert trouble[0] == "min"
    assert ContinuousScale().validation_error() is None


def test_ends_so_far_apart_that_their_distance_is_no_number_are_a_problem():
    issue = ContinuousScale.model_validate({"min": -1e308, "max": 1e308}).validation_error()
    assert issue is not None
    assert issue.key == "max"
    assert ContinuousScale.model_validate({"min": 0, "max": 1e308}).validation_error() is None
    assert ContinuousScale().numeric()
    assert ContinuousScale().number(0.5) == 0.5
