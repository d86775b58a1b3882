"""The type of an expression's value, as far as it can be told before there is a value."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import nodes

from verdict_cli.expressions.paths import Path
from verdict_cli.expressions.tree import literal_path
from verdict_cli.fields import INTEGER, NUMBER, TEXT, TRUTH, FieldType, OnScale, Plain, Unknown, fits

_FILTERS: dict[str, FieldType] = {
    **dict.fromkeys(("mean", "median", "variance", "stdev", "float"), NUMBER),
    **dict.fromkeys(("length", "count", "int", "wordcount"), INTEGER),
    **dict.fromkeys(
        ("upper", "lower", "trim", "join", "string", "title", "capitalize", "replace", "truncate"), TEXT
    ),
}


def infer(node: nodes.Node, type_of: Callable[[Path], FieldType]) -> FieldType:
    """The type, `Unknown` where it depends on the values. `type_of` tells a written path's type."""
    path = literal_path(node)
    if path is not None:
        return type_of(path)
    if isinstance(node, nodes.Const):
        return {bool: TRUTH, int: INTEGER, float: NUMBER, str: TEXT}.get(type(node.value), Unknown())
    if isinstance(node, nodes.Compare | nodes.Not | nodes.Test):
        return TRUTH
    if isinstance(node, nodes.Concat):
        return TEXT
    if isinstance(node, nodes.Filter):
        return _FILTERS.get(node.name, Unknown())
    if isinstance(node, nodes.CondExpr) and node.expr2 is not None:
        return _either(infer(node.expr1, type_of), infer(node.expr2, type_of))
    if isinstance(node, nodes.Neg | nodes.Pos):
        return _arithmetic([infer(node.node, type_of)], always_float=False)
    if isinstance(node, nodes.BinExpr) and not isinstance(node, nodes.And | nodes.Or):
        sides = [infer(node.left, type_of), infer(node.right, type_of)]
        if isinstance(node, nodes.Pow) and NUMBER not in map(_plain, sides):
            return Unknown()
        return _arithmetic(sides, always_float=isinstance(node, nodes.Div))
    return Unknown()


def _arithmetic(sides: list[FieldType], *, always_float: bool) -> FieldType:
    found = [_plain(side) for side in sides]
    if not all(isinstance(side, Plain) and side.numeric() for side in found):
        return Unknown()
    return NUMBER if always_float or NUMBER in found else INTEGER


def _plain(kind: FieldType) -> FieldType:
    """The plain type of a scale's values; another type as it is."""
    return next(
        (one for one in (INTEGER, TRUTH, NUMBER, TEXT) if isinstance(kind, OnScale) and fits(kind, one)), kind
    )


def _either(one: FieldType, other: FieldType) -> FieldType:
    if one == other:
        return one
    if {one, other} == {INTEGER, NUMBER}:
        return NUMBER
    return Unknown()
