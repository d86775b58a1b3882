"""Paths: how they are spelled and followed."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import follow, format_expression_path

VALUES = {
    "source": {"q": "hi", "list": [1, 2, 3], "deep": {"a b": None}},
    "previous": {"judge[0]": None},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("source", "q"), "hi"),
        (("source", "list", 0), 1),
        (("source", "list", -1), 3),
        (("source", "deep", "a b"), None),
        (("source",), VALUES["source"]),
    ],
)
def test_keys_and_places_are_followed(path, expected):
    assert follow(path, VALUES) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("source", "x"), "source.x: source has no 'x', only q, list, deep"),
        (("source", "list", 3), "source.list[3]: source.list has no 3"),
        (("source", "list", -4), "source.list[-4]: source.list has no -4"),
        (("source", "list", "append"), "source.list.append: source.list has no 'append'"),
        (("source", "q", "upper"), "source.q.upper: source.q has no 'upper'"),
        (("source", "q", 0), "source.q[0]: source.q has no 0"),
        (("source", "deep", "a b", "c"), "source.deep['a b'].c: source.deep['a b'] has no value"),
        (("nowhere",), "nowhere: the row has no 'nowhere', only source, previous"),
        (
            ("previous", "judge[0]", "score"),
            "previous['judge[0]'].score: previous['judge[0]'] has no value",
        ),
    ],
)
def test_what_is_not_there_is_named_with_its_owner(path, message):
    with pytest.raises(RowError) as caught:
        follow(path, VALUES)
    assert caught.value.message == message
    assert caught.value.failure == "missing-value"


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(), st.integers()), max_size=4))
def test_any_path_is_followed_or_raises_a_row_error(parts):
    with contextlib.suppress(RowError):
        follow(("source", *parts), VALUES)


NAMES = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=8
)


@settings(deadline=None)
@given(st.lists(st.one_of(NAMES, st.integers(-99, 99)), min_size=1, max_size=4))
def test_a_path_is_spelled_as_an_expression_reads_it(parts):
    path = ("source", *parts)
    assert compile_expression(format_expression_path(path)).paths == (path,)
