"""The type of an expression before there is a value."""

from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, Resolved
from verdict_cli.language.fields.field_keys import fits
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    FieldType,
    ScaleType,
    UnknownType,
)
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale

FIELDS: dict[Any, tuple[FieldType, Any]] = {
    "i": (INTEGER, 3),
    "f": (NUMBER, 0.5),
    "t": (TEXT, "hello"),
    "b": (TRUTH, True),
    "likert": (ScaleType(LIKERT), 4),
    "yes": (ScaleType(BooleanScale()), True),
    "word": (ScaleType(DiscreteScale(values=("a", "b"), scores={"a": 0, "b": 1})), "a"),
    "any": (UnknownType(), [1, 2]),
}


def resolve(path: tuple[str | int, ...]) -> Resolved:
    if path[0] not in FIELDS:
        raise ExpressionError("no such field")
    return Resolved((path,), FIELDS[path[0]][0])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i", INTEGER),
        ("likert", ScaleType(LIKERT)),
        ("3", INTEGER),
        ("0.5", NUMBER),
        ("'a'", TEXT),
        ("true", TRUTH),
        ("i / 5", NUMBER),
        ("i + 1", INTEGER),
        ("likert + 1", INTEGER),
        ("likert * f", NUMBER),
        ("-likert", INTEGER),
        ("-b", INTEGER),
        ("-f", NUMBER),
        ("b + b", INTEGER),
        ("i > 2", TRUTH),
        ("not i", TRUTH),
        ("t is defined", TRUTH),
        ("t ~ i", TEXT),
        ("t | upper", TEXT),
        ("any | mean", NUMBER),
        ("any | length", INTEGER),
        ("i if b else f", NUMBER),
        ("'a' if b else 'c'", TEXT),
        ("likert if b else likert", ScaleType(LIKERT)),
        ("f ** 2", NUMBER),
        ("i ** -1", UnknownType()),
        ("word + 'x'", UnknownType()),
        ("-any", UnknownType()),
        ("'a' if b else 1", UnknownType()),
        ("'a' if b", UnknownType()),
        ("b and i", UnknownType()),
        ("[1]", UnknownType()),
        ("none", UnknownType()),
        ("t.upper()", UnknownType()),
    ],
)
def test_the_inferred_type_is_one_that_the_value_has(text, kind):
    expression = compile_expression(text, FIELDS, resolve)
    assert expression.type == kind
    if text != "-any":
        result = expression({name: value for name, (_, value) in FIELDS.items()})
        assert expression.type.read(result) == result


def test_a_scores_negative_is_no_value_of_its_scale():
    assert not fits(compile_expression("-likert", FIELDS, resolve).type, ScaleType(LIKERT))
