"""Which values can stand where others are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.fields.field_keys import fits
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    FieldType,
    ListType,
    OptionalType,
    RecordType,
    ScaleType,
    TextListType,
    UnknownType,
)
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, Categories, DiscreteScale

KINDS: list[tuple[FieldType, st.SearchStrategy[Any]]] = [
    (TEXT, st.text()),
    (INTEGER, st.integers(-(2**53), 2**53)),
    (NUMBER, st.floats(allow_nan=False, allow_infinity=False)),
    (TRUTH, st.booleans()),
    (TextListType(), st.lists(st.text())),
    (ScaleType(LIKERT), st.integers(1, 5)),
    (ScaleType(BooleanScale()), st.booleans()),
    (ScaleType(ContinuousScale()), st.floats(0, 1)),
    (ScaleType(DiscreteScale(values=("a", "b"))), st.sampled_from(["a", "b"])),
    (ScaleType(Categories(values=("b", "c"))), st.sampled_from(["b", "c"])),
    (ScaleType(DiscreteScale(range=(0, 1, 0.5))), st.sampled_from([0.0, 0.5, 1.0])),
    (ListType(INTEGER), st.lists(st.integers(-9, 9))),
    (ListType(ScaleType(LIKERT)), st.lists(st.integers(1, 5))),
    (ListType(OptionalType(NUMBER)), st.lists(st.none() | st.integers(-9, 9).map(float))),
    (OptionalType(INTEGER), st.none() | st.integers(-9, 9)),
    (OptionalType(ScaleType(LIKERT)), st.none() | st.integers(1, 5)),
    (RecordType({"a": INTEGER}), st.fixed_dictionaries({"a": st.integers(-9, 9)})),
]


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.data())
def test_where_a_type_fits_all_of_its_values_are_read(
    given_kind,
    wanted,
    data,
):
    value = data.draw(given_kind[1])
    if fits(given_kind[0], wanted[0]):
        assert wanted[0].read(value) == value


@pytest.mark.parametrize(("kind", "_"), KINDS)
def test_every_type_fits_itself_and_the_unknown(kind, _):
    assert fits(kind, kind)
    assert fits(kind, UnknownType())
    assert fits(UnknownType(), kind)


def test_bounds_and_directions_must_be_the_same():
    assert not fits(ScaleType(LIKERT), ScaleType(DiscreteScale(range=(1, 10))))
    assert not fits(
        ScaleType(DiscreteScale(values=("a", "b"))), ScaleType(DiscreteScale(values=("b", "a")))
    )
    assert fits(ScaleType(DiscreteScale(values=(1, 2, 3, 4, 5))), ScaleType(LIKERT))


def test_scales_fit_the_plain_type_of_their_values():
    assert fits(ScaleType(LIKERT), INTEGER)
    assert fits(ScaleType(LIKERT), NUMBER)
    assert fits(ScaleType(BooleanScale()), TRUTH)
    assert fits(ScaleType(Categories(values=("x",))), TEXT)
    assert not fits(ScaleType(ContinuousScale()), INTEGER)
    assert not fits(ScaleType(DiscreteScale(values=("x", 1))), TEXT)
    assert not fits(INTEGER, ScaleType(LIKERT))
    assert not fits(TRUTH, INTEGER)


def test_a_record_may_have_more_fields_than_are_wanted():
    given_record = RecordType({"a": INTEGER, "b": TEXT})
    assert fits(given_record, RecordType({"a": NUMBER}))
    assert not fits(RecordType({"a": NUMBER}), given_record)


def test_a_record_is_not_read_where_it_only_fits_by_leaving_fields_out():
    with pytest.raises(ReplyError):
        RecordType({"a": NUMBER}).read({"a": 1, "b": "x"})
