"""The type of an expression's value, as far as it can be told before there is a value."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import nodes

from verdict_cli.expressions.paths import Path
from verdict_cli.expressions.tree import literal_path
from verdict_cli.fields import INTEGER, NUMBER, TEXT, TRUTH, FieldType, Plain, Unknown

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
        return infer(node.node, type_of)
    if isinstance(node, nodes.BinExpr) and not isinstance(node, nodes.And | nodes.Or):
        return _arithmetic(node, type_of)
    return Unknown()


def _arithmetic(node: nodes.BinExpr, type_of: Callable[[Path], FieldType]) -> FieldType:
    sides = infer(node.left, type_of), infer(node.right, type_of)
    if not all(isinstance(side, Plain) and side.numeric() for side in sides):
        numeric = all(side.numeric() for side in sides)
        return NUMBER if numeric and not any(isinstance(side, Unknown) for side in sides) else Unknown()
    whole = all(side != NUMBER for side in sides) and not isinstance(node, nodes.Div)
    return INTEGER if whole else NUMBER


def _either(one: FieldType, other: FieldType) -> FieldType:
    if one == other:
        return one
    if {one, other} == {INTEGER, NUMBER}:
        return NUMBER
    return Unknown()
