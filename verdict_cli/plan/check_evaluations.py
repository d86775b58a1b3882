"""What the plan knows of evaluations before anything runs: checks of `evaluate`, `gates` and published tables, the values
that a prediction can have, and labels that a prompt shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from verdict_cli.errors import RowError
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.evaluations import (
    Evaluation,
    Published,
    evaluation_problems,
    evaluator_of,
)
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    format_expression_path,
)
from verdict_cli.language.fields.types import TRUTH, FieldType, ScaleType
from verdict_cli.language.gate_rules import Ends, gate_problems
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.choice import NO_PREFERENCE
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.plan.scope import (
    EVALUATION_ROOTS,
    ResultScope,
    compile_expression_at,
    panel_expressions,
)


def load_published(names: Namespace) -> dict[str, Published]:
    """The published table of each evaluation that names one; reports invalid files."""
    tables = {}
    for name, evaluation in names.spec.file.evaluate.items():
        if evaluation.published is None:
            continue
        document = names.used_document(evaluation.published, ("evaluate", name, "published"))
        if document is None:
            continue
        try:
            tables[name] = Published.model_validate(document.data)
        except ValidationError as error:
            for problem in explain_error(error, Published, document).values():
                names.tell(problem)
    return tables


_EXPRESSIONS = (
    "prediction",
    "target",
    "value",
    "probability",
    "consistent",
    "cluster",
    "group",
    "where",
)


def check_evaluations(
    names: Namespace,
    nodes: tuple[Node, ...],
    outputs: tuple[int, ...],
    use_column: Callable[[str, Namespace, tuple[str | int, ...]], None],
    entries: Callable[[Sequence[int]], Mapping[str, FieldType]],
) -> set[int]:
    """The indices of the units that evaluations name; reports expressions that cannot be resolved.

    ``entries`` gives the types of the names that units inside `each` steps see.
    """
    rows = ResultScope(nodes, outputs)
    scopes: dict[str, ResultScope] = {}
    for name, evaluation in names.spec.file.evaluate.items():
        base = ("evaluate", name)
        try:
            scope = rows if evaluation.items is None else rows.of_items(evaluation.items, entries)
        except ExpressionError as error:
            names.problem("bad-evaluation", error.message, error.hint, (*base, "items"))
            continue
        scopes[name] = scope
        for where, message, hint in evaluation_problems(name, evaluation):
            names.problem("bad-evaluation", message, hint, _below(base, where))
        _check_nominal(names, evaluation, base, scope)
        texts = _texts(evaluation) + _panel(names, evaluation, nodes, (*base, "panel"))
        for key, text in texts:
            _check(names, text, (*base, *key), scope, use_column)
        labels = ("source", "human", *scope.entries)
        for key, text in _gold_texts(evaluation):
            _check(names, text, (*base, *key), scope, use_column, labels)
    scales = scale_ends(nodes, outputs, names.spec.file.evaluate)
    for index, gate in enumerate(names.spec.file.gates):
        for where, message, hint in gate_problems(index, gate, names.spec.file.evaluate, scales):
            names.problem("bad-gate", message, hint, _below(("gates", index), where))
        scope = scopes.get(gate.metric.rpartition(".")[0], rows)
        for text in gate.where or {}:
            _check(names, text, ("gates", index, "where", text), scope, use_column)
    return rows.used


def _texts(evaluation: Evaluation) -> list[tuple[ExpressionPath, str]]:
    """The expressions over a row, with the keys that hold them."""
    texts: list[tuple[ExpressionPath, str | None]] = [
        ((key,), getattr(evaluation, key)) for key in _EXPRESSIONS
    ]
    texts += [(("by", index), text) for index, text in enumerate(evaluation.by)]
    texts += [(("options", index), text) for index, text in enumerate(evaluation.options or ())]
    own = evaluator_of(evaluation)
    if own is not None:
        texts += own[1].expressions(evaluation)
    return [(key, text) for key, text in texts if text is not None]


def _gold_texts(evaluation: Evaluation) -> list[tuple[ExpressionPath, str]]:
    """The expressions over people's labels."""
    if evaluation.gold is None:
        return []
    texts = [(key, getattr(evaluation.gold, key)) for key in ("target", "where", "weight")]
    return [(("gold", key), text) for key, text in texts if text is not None]


def scale_ends(
    nodes: Sequence[Node], outputs: Sequence[int], evaluations: Mapping[str, Evaluation]
) -> dict[str, Ends]:
    """The ends of the scale that each evaluation's value, or its prediction, is on; truths are from 0 to 1."""
    every = {name: _ends(nodes, outputs, evaluation) for name, evaluation in evaluations.items()}
    return {name: ends for name, ends in every.items() if ends is not None}


def _ends(nodes: Sequence[Node], outputs: Sequence[int], evaluation: Evaluation) -> Ends | None:
    text = evaluation.value or evaluation.prediction
    if text is None:
        return None
    if evaluation.value is None and evaluation.positive is not None:
        return 0.0, 1.0  # the share of the positive label
    try:
        scope = ResultScope(tuple(nodes), tuple(outputs))
        if evaluation.items is not None:
            scope = scope.of_items(evaluation.items, lambda _: {})
        kind = compile_expression(text, scope.roots, scope.resolve).type
    except ExpressionError:
        return None  # reported where the expression is checked
    if kind == TRUTH:
        return 0.0, 1.0
    return kind.scale.bounds() if isinstance(kind, ScaleType) else None


_NEEDS_ORDER = ("weighted_kappa", "spearman", "kendall")


def _check_nominal(
    names: Namespace, evaluation: Evaluation, base: ExpressionPath, scope: ResultScope
) -> None:
    """Report statistics of ranks or distances over values of a nominal scale, which have neither, and metrics of the choice
    between A and B where the options have other names."""
    if evaluation.prediction is None:
        return
    try:
        path = compile_expression(evaluation.prediction, scope.roots).path
        kind = None if path is None else scope.resolve(path).type
    except ExpressionError:
        return  # reported where the expression is checked
    if not isinstance(kind, ScaleType) or kind.scale.ordered:
        return
    why = f"`{evaluation.prediction}` is on a nominal scale ({kind.scale.display()}): no value is above another"
    hint = "use accuracy, cohen_kappa or f1, or give the scale `scores:` or `ordered: true`, worst first"
    labels = [value for value in kind.scale.values() if value not in ("A", "B", *NO_PREFERENCE)]
    measured = [find_metric(name) for name in evaluation.metrics or ()]
    prefers = any(
        metric is not None and metric.inputs[0] in ("choice", "choice_length")
        for metric in measured
    )
    if labels and (prefers or evaluation.options is not None):
        message = f"preferences are between A and B, and `{evaluation.prediction}` is {kind.scale.display()}"
        fix = f"write `prediction: \"'A' if {evaluation.prediction} == {labels[0]!r} else 'B'\"`, or leave the unit's `labels` out"
        names.problem("bad-evaluation", message, fix, (*base, "prediction"))
    for index, metric in enumerate(evaluation.metrics or ()):
        if metric.removesuffix("_within") in _NEEDS_ORDER:
            names.problem(
                "bad-evaluation",
                f"`{metric}` needs an order; {why}",
                hint,
                (*base, "metrics", index),
            )
    if evaluation.kind in ("ordinal", "numeric"):
        names.problem(
            "bad-evaluation",
            f"`kind: {evaluation.kind}` needs an order; {why}",
            hint,
            (*base, "kind"),
        )


def _panel(
    names: Namespace, evaluation: Evaluation, nodes: tuple[Node, ...], path: ExpressionPath
) -> list[tuple[ExpressionPath, str]]:
    """What each judge of a panel says, with its place."""
    if not isinstance(evaluation.panel, str):
        return [(("panel", index), text) for index, text in enumerate(evaluation.panel or ())]
    expressions = panel_expressions(evaluation.panel, [node.id for node in nodes])
    if not expressions:
        message = f"`{evaluation.panel}` is no field of two or more units of one name"
        hint = "write `judge.score` for units called `judge`, or list an expression for each judge"
        names.problem("bad-evaluation", message, hint, path)
    return [(("panel",), text) for text in expressions]


def _check(
    names: Namespace,
    text: str,
    path: tuple[str | int, ...],
    scope: ResultScope,
    use_column: Callable[[str, Namespace, tuple[str | int, ...]], None],
    roots: tuple[str, ...] = (),
) -> None:
    expression = compile_expression_at(
        text,
        roots or scope.roots,
        scope.resolve,
        lambda message, hint: names.problem("bad-expression", message, hint, path),
    )
    for path_found in expression.paths if expression is not None else ():
        if path_found[0] == "source" and len(path_found) > 1 and isinstance(path_found[1], str):
            use_column(path_found[1], names, path)


def _below(base: tuple[str | int, ...], where: str) -> tuple[str | int, ...]:
    """The path of a key that a check writes relative to its section: `safety.metrics[0]`, `[2].max`."""
    own = f"[{base[-1]}]" if isinstance(base[-1], int) else str(base[-1])
    parts = re.findall(r"[^.\[\]]+", where.removeprefix(own))
    return (*base, *(int(part) if part.isdigit() else part for part in parts))


_MOST_COMBINATIONS = 1_000
"""The most combinations of values for which an expression is evaluated: 10 ms."""


class PossibleValues(Struct, frozen=True):
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
    if any(
        path[0] not in ("output", "nodes") or domain is None for path, domain in domains.items()
    ) or (prod(len(domain or ()) for domain in domains.values()) > _MOST_COMBINATIONS):
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


def shown_labels(
    nodes: Sequence[Node], evaluations: Mapping[str, Evaluation]
) -> Iterator[tuple[int, str, str]]:
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
        if (path[0] == "source" and len(path) > 1)
        or (is_of_entries and path[0] not in ("source", *known))
    ]


def _prompt_paths(node: Node) -> list[ExpressionPath]:
    """The paths that a node's prompt names, and those of its options."""
    if not isinstance(node.work, LLMNode):
        return []
    return [
        *node.work.prompt.paths,
        *(path for _, option in node.work.options for path in option.paths),
    ]


def _is_prefix(first: ExpressionPath, second: ExpressionPath) -> bool:
    """Whether one path leads to the other's value or to a part of it."""
    length = min(len(first), len(second))
    return first[:length] == second[:length]
