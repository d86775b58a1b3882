"""The values that a prediction can have, as far as the plan knows, and labels that a prompt shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, ExpressionPath, format_expression_path
from verdict_cli.language.fields.types import TRUTH, FieldType, ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.plan.result_scope import EVALUATION_ROOTS, ResultScope

_MOST = 1_000
"""The most combinations of values for which an expression is evaluated: 10 ms."""


@dataclass(frozen=True)
class PossibleValues:
    """``values`` are all that an expression can give, None where they are not known; ``numeric`` says whether these are
    numbers, None where that is not known. ``scale`` is the yes/no scale that the expression is the value of."""

    values: tuple[Any, ...] | None
    numeric: bool | None
    scale: Scale | None = None


def possible_values(nodes: Sequence[Node], outputs: Sequence[int], text: str) -> PossibleValues:
    """The values that an expression over a row's result can have."""
    scope = ResultScope(tuple(nodes), tuple(outputs))
    try:
        typed = compile_expression(text, EVALUATION_ROOTS, scope.resolve)
        plain = compile_expression(text, EVALUATION_ROOTS)
        kinds = {path: scope.resolve(path).type for path in plain.paths}
    except ExpressionError:
        return PossibleValues(None, None)
    domains = {path: _values(kind) for path, kind in kinds.items()}
    scale = _boolean(kinds.get(plain.path)) if plain.path is not None else None
    if any(path[0] not in ("output", "nodes") or domain is None for path, domain in domains.items()) or (
        prod(len(domain or ()) for domain in domains.values()) > _MOST
    ):
        return PossibleValues(None, typed.type.numeric())
    results: dict[Any, Any] = {}
    for values_by_path in product(*(domain or () for domain in domains.values())):
        try:
            value = plain(_row_with(dict(zip(domains, values_by_path, strict=True))))
        except RowError:
            continue
        if not isinstance(value, str | int | float | None):
            return PossibleValues(None, None)
        results |= {} if value is None else {(type(value), value): value}
    values = tuple(results.values())
    numbers = {not isinstance(value, str) for value in values}
    return PossibleValues(values or None, numbers.pop() if len(numbers) == 1 else None, scale)


def _boolean(kind: FieldType | None) -> Scale | None:
    if not isinstance(kind, ScaleType) or kind.json_schema() != TRUTH.json_schema():
        return None
    return kind.scale


def _values(kind: FieldType) -> tuple[Any, ...] | None:
    if isinstance(kind, ScaleType):
        return kind.scale.values() or None
    return (False, True) if kind == TRUTH else None


def _row_with(values: dict[ExpressionPath, Any]) -> dict[str, Any]:
    """The roots of an expression in which these paths have these values."""
    roots: dict[str, Any] = {"source": {}, "output": {}, "nodes": {}}
    for path, value in values.items():
        here: Any = roots
        for part in path[:-1]:
            here = here.setdefault(part, {})
        here[path[-1]] = value
    return roots


def shown_labels(nodes: Sequence[Node], evaluations: Mapping[str, Evaluation]) -> Iterator[tuple[int, str, str]]:
    """(place of the node, label as a path, name of the evaluation) for each label that is its target."""
    for name, evaluation in evaluations.items():
        item = next((node for node in nodes if node.id == evaluation.items), None)
        for label in _labels(evaluation.target, is_of_entries=item is not None):
            for node in nodes:
                if label[0] != "source" and (item is None or node.groups[:1] != item.groups[:1]):
                    continue
                if any(_is_prefix(label, path) for path in _prompt_paths(node)):
                    yield node.index, format_expression_path(label), name


def rows_shown(nodes: Sequence[Node]) -> bool:
    """Whether some prompt shows anything of the row: a column, an entry, or what an earlier unit made of one."""
    seeing: set[int] = set()
    for node in nodes:
        paths = [*_prompt_paths(node), *(cast.path for cast in node.casts if cast.path is not None)]
        roots = {path[0] for path in paths} - {"unit", "input"}
        asks = isinstance(node.work, LLMNode)
        from_parents = ("previous" in roots or not asks) and not seeing.isdisjoint(node.parents)
        if from_parents or roots - {"previous"} or not (asks or node.parents):
            seeing.add(node.index)
    return any(isinstance(node.work, LLMNode) and node.index in seeing for node in nodes)


def _labels(target: str | None, *, is_of_entries: bool) -> list[ExpressionPath]:
    """The columns of the row that a target names, and what it names of an entry."""
    try:
        paths = compile_expression(target).paths if target is not None else ()
    except ExpressionError:
        return []
    known = ("output", "nodes", "human", "index")
    return [
        path
        for path in dict.fromkeys(paths)
        if (path[0] == "source" and len(path) > 1) or (is_of_entries and path[0] not in ("source", *known))
    ]


def _prompt_paths(node: Node) -> list[ExpressionPath]:
    """The paths that a node's prompt names, and those of its options."""
    if not isinstance(node.work, LLMNode):
        return []
    return [*node.work.prompt.paths, *(path for _, option in node.work.options for path in option.paths)]


def _is_prefix(first: ExpressionPath, second: ExpressionPath) -> bool:
    """Whether one path leads to the other's value or to a part of it."""
    length = min(len(first), len(second))
    return first[:length] == second[:length]
