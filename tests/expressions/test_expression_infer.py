"""The type of an expression before there is a value."""

from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.expressions import ExpressionError, Resolved, compile_expression
from verdict_cli.fields import INTEGER, NUMBER, TEXT, TRUTH, FieldType, OnScale, Unknown, fits
from verdict_cli.scales import LIKERT, Boolean, Discrete

FIELDS: dict[Any, tuple[FieldType, Any]] = {
    "i": (INTEGER, 3),
    "f": (NUMBER, 0.5),
    "t": (TEXT, "hello"),
    "b": (TRUTH, True),
    "likert": (OnScale(LIKERT), 4),
    "yes": (OnScale(Boolean()), True),
    "word": (OnScale(Discrete(values=("a", "b"), scores={"a": 0, "b": 1})), "a"),
    "any": (Unknown(), [1, 2]),
}


def resolve(path: tuple[str | int, ...]) -> Resolved:
    if path[0] not in FIELDS:
        raise ExpressionError("no such field")
    return Resolved((path,), FIELDS[path[0]][0])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i", INTEGER),
        ("likert", OnScale(LIKERT)),
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
        ("likert if b else likert", OnScale(LIKERT)),
        ("f ** 2", NUMBER),
        ("i ** -1", Unknown()),
        ("word + 'x'", Unknown()),
        ("-any", Unknown()),
        ("'a' if b else 1", Unknown()),
        ("'a' if b", Unknown()),
        ("b and i", Unknown()),
        ("[1]", Unknown()),
        ("none", Unknown()),
        ("t.upper()", Unknown()),
    ],
)
def test_the_inferred_type_is_one_that_the_value_has(text: str, kind: FieldType) -> None:
    expression = compile_expression(text, FIELDS, resolve)
    assert expression.type == kind
    if text != "-any":
        found = expression({name: value for name, (_, value) in FIELDS.items()})
        assert expression.type.read(found) == found


def test_a_scores_negative_is_no_value_of_its_scale() -> None:
    assert not fits(compile_expression("-likert", FIELDS, resolve).type, OnScale(LIKERT))
