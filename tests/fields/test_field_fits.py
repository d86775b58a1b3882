"""Which values can stand where others are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.fields import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    FieldType,
    OnScale,
    Record,
    TextList,
    Unknown,
    fits,
)
from verdict_cli.scales import LIKERT, Boolean, Categories, Continuous, Discrete

KINDS: list[tuple[FieldType, st.SearchStrategy[Any]]] = [
    (TEXT, st.text()),
    (INTEGER, st.integers(-(2**53), 2**53)),
    (NUMBER, st.floats(allow_nan=False, allow_infinity=False)),
    (TRUTH, st.booleans()),
    (TextList(), st.lists(st.text())),
    (OnScale(LIKERT), st.integers(1, 5)),
    (OnScale(Boolean()), st.booleans()),
    (OnScale(Continuous()), st.floats(0, 1)),
    (OnScale(Discrete(values=("a", "b"))), st.sampled_from(["a", "b"])),
    (OnScale(Categories(values=("b", "c"))), st.sampled_from(["b", "c"])),
    (OnScale(Discrete(range=(0, 1, 0.5))), st.sampled_from([0.0, 0.5, 1.0])),
    (Record({"a": INTEGER}), st.fixed_dictionaries({"a": st.integers(-9, 9)})),
]


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(KINDS), st.data())
def test_where_a_type_fits_all_of_its_values_are_read(
    given_kind: tuple[FieldType, st.SearchStrategy[Any]], wanted: tuple[FieldType, Any], data: st.DataObject
) -> None:
    value = data.draw(given_kind[1])
    if fits(given_kind[0], wanted[0]):
        assert wanted[0].read(value) == value


@pytest.mark.parametrize(("kind", "_"), KINDS)
def test_every_type_fits_itself_and_the_unknown(kind: FieldType, _: Any) -> None:
    assert fits(kind, kind)
    assert fits(kind, Unknown())
    assert fits(Unknown(), kind)


def test_bounds_and_directions_must_be_the_same() -> None:
    assert not fits(OnScale(LIKERT), OnScale(Discrete(range=(1, 10))))
    assert not fits(OnScale(Discrete(values=("a", "b"))), OnScale(Discrete(values=("b", "a"))))
    assert fits(OnScale(Discrete(values=(1, 2, 3, 4, 5))), OnScale(LIKERT))


def test_scales_fit_the_plain_type_of_their_values() -> None:
    assert fits(OnScale(LIKERT), INTEGER)
    assert fits(OnScale(LIKERT), NUMBER)
    assert fits(OnScale(Boolean()), TRUTH)
    assert fits(OnScale(Categories(values=("x",))), TEXT)
    assert not fits(OnScale(Continuous()), INTEGER)
    assert not fits(OnScale(Discrete(values=("x", 1))), TEXT)
    assert not fits(INTEGER, OnScale(LIKERT))
    assert not fits(TRUTH, INTEGER)


def test_a_record_may_have_more_fields_than_are_wanted() -> None:
    given_record = Record({"a": INTEGER, "b": TEXT})
    assert fits(given_record, Record({"a": NUMBER}))
    assert not fits(Record({"a": NUMBER}), given_record)


def test_a_record_is_not_read_where_it_only_fits_by_leaving_fields_out() -> None:
    with pytest.raises(ReplyError):
        Record({"a": NUMBER}).read({"a": 1, "b": "x"})
