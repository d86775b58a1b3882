"""What a prediction can be, as far as the plan tells: all of its values, or whether it is text or a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.expressions import ExpressionError, Path, compile_expression
from verdict_cli.fields import TRUTH, FieldType, OnScale
from verdict_cli.plan.given import MEASURED, Given
from verdict_cli.plan.node import Node
from verdict_cli.scales import Boolean, Continuous

_MOST = 1_000
"""The most combinations of values for which an expression is evaluated: 10 ms."""


@dataclass(frozen=True)
class Possible:
    """``values`` are all that an expression can give, None where they are not known; ``numeric`` says whether these are
    numbers, None where that is not known. ``scale`` is the yes/no scale that the expression is the value of."""

    values: tuple[Any, ...] | None
    numeric: bool | None
    scale: Boolean | None = None


def possible(nodes: Sequence[Node], outputs: Sequence[int], text: str) -> Possible:
    """What the expression over a row's outcome can give."""
    given = Given(tuple(nodes), tuple(outputs))
    try:
        typed = compile_expression(text, MEASURED, given.resolve)
        plain = compile_expression(text, MEASURED)
        kinds = {path: given.resolve(path).type for path in plain.paths}
    except ExpressionError:
        return Possible(None, None)
    domains = {path: _values(kind) for path, kind in kinds.items()}
    scale = _boolean(kinds.get(plain.way)) if plain.way is not None else None
    if any(path[0] not in ("output", "nodes") or domain is None for path, domain in domains.items()) or (
        prod(len(domain or ()) for domain in domains.values()) > _MOST
    ):
        return Possible(None, typed.type.numeric())
    found: dict[Any, Any] = {}
    for chosen in product(*(domain or () for domain in domains.values())):
        try:
            value = plain(_row(dict(zip(domains, chosen, strict=True))))
        except RowError:
            continue
        if not isinstance(value, str | int | float | None):
            return Possible(None, None)
        found |= {} if value is None else {(type(value), value): value}
    values = tuple(found.values())
    numbers = {not isinstance(value, str) for value in values}
    return Possible(values or None, numbers.pop() if len(numbers) == 1 else None, scale)


def _boolean(kind: FieldType | None) -> Boolean | None:
    return kind.scale if isinstance(kind, OnScale) and isinstance(kind.scale, Boolean) else None


def _values(kind: FieldType) -> tuple[Any, ...] | None:
    if isinstance(kind, OnScale) and not isinstance(kind.scale, Continuous):
        return kind.scale.values()
    return (False, True) if kind == TRUTH else None


def _row(values: dict[Path, Any]) -> dict[str, Any]:
    """The roots of an expression in which these paths have these values."""
    roots: dict[str, Any] = {"source": {}, "output": {}, "nodes": {}}
    for path, value in values.items():
        here: Any = roots
        for part in path[:-1]:
            here = here.setdefault(part, {})
        here[path[-1]] = value
    return roots
