"""What the plan knows of evaluations before anything runs: checks of `evaluate`, `gates` and published tables, the values
that a prediction can have, and labels that a prompt shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from verdict_cli.errors import RowError
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.evaluations import (
    Evaluation,
    Evaluations,
    Published,
    evaluation_problems,
    evaluator_of,
)
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    ExpressionPaths,
    format_expression_path,
    overlap,
)
from verdict_cli.language.fields.types import TRUTH, FieldType, ScaleType, all_values, number_bounds
from verdict_cli.language.gate_rules import Ends, gate_problems
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.base import NO_PREFERENCE
from verdict_cli.messages import JsonObject
from verdict_cli.plan.link import Indices
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.plan.place import Place, UseColumn
from verdict_cli.plan.scope import EVALUATION_ROOTS, EntriesOf, ResultScope, panel_expressions


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


class CheckedEvaluations(Struct, frozen=True):
    """What the evaluations of a file name: the indices of units; the ends of the scale that each value, or prediction, is on;
    and the paths of each target."""

    used: set[int]
    ends: dict[str, Ends]
    targets: dict[str, ExpressionPaths]


def check_evaluations(
    names: Namespace,
    nodes: tuple[Node, ...],
    outputs: Indices,
    use_column: UseColumn,
    entries: EntriesOf,
) -> CheckedEvaluations:
    """What evaluations name; reports expressions that cannot be resolved.

    ``entries`` gives the types of the names that units inside `each` steps see.
    """
    file = names.spec.file
    rows = ResultScope(nodes, outputs)
    scopes: dict[str, ResultScope] = {}
    checked = CheckedEvaluations(rows.used, {}, {})
    for name, evaluation in file.evaluate.items():
        place = Place(names, ("evaluate", name))
        try:
            scope = rows if evaluation.items is None else rows.of_items(evaluation.items, entries)
        except ExpressionError as error:
            place.problem("bad-evaluation", error.message, error.hint, "items")
            continue
        scopes[name] = scope
        for issue in evaluation_problems(name, evaluation):
            place.issue("bad-evaluation", issue)
        expressions = _expressions(evaluation, place, scope, use_column)
        predicted = expressions.get(("prediction",))
        if predicted is not None:
            _check_nominal(evaluation, predicted.type, place)
        measured = expressions.get(("value",)) or predicted
        ends = None if measured is None else _ends(evaluation, measured.type)
        if ends is not None:
            checked.ends[name] = ends
        target = expressions.get(("target",))
        if target is not None:
            checked.targets[name] = target.paths
    for index, gate in enumerate(file.gates):
        place = Place(names, ("gates", index))
        for issue in gate_problems(gate, file.evaluate, checked.ends):
            place.issue("bad-gate", issue)
        scope = scopes.get(gate.metric.rpartition(".")[0], rows)
        for text in gate.where or {}:
            _check(text, place.below("where", text), scope, scope.roots, use_column)
    return checked


def _expressions(
    evaluation: Evaluation, place: Place, scope: ResultScope, use_column: UseColumn
) -> dict[ExpressionPath, Expression | None]:
    """The expressions of an evaluation by the keys that hold them; None, and reported, for one that cannot be resolved."""
    texts = [*_texts(evaluation), *_panel(evaluation, scope.nodes, place)]
    of_labels = ("source", "human", *scope.entries)
    expressions = {}
    for keys, text in texts:
        if text is not None:
            roots = of_labels if keys[0] == "gold" else scope.roots
            expressions[keys] = _check(text, place.below(*keys), scope, roots, use_column)
    return expressions


def _texts(evaluation: Evaluation) -> list[tuple[ExpressionPath, str | None]]:
    """The expressions over a row, with the keys that hold them."""
    texts: list[tuple[ExpressionPath, str | None]] = [
        ((key,), getattr(evaluation, key)) for key in _EXPRESSIONS
    ]
    for key in ("by", "options"):
        listed = getattr(evaluation, key) or ()
        texts += [((key, index), text) for index, text in enumerate(listed)]
    for key in ("target", "where", "weight") if evaluation.gold else ():
        texts.append((("gold", key), getattr(evaluation.gold, key)))
    evaluator = evaluator_of(evaluation)
    return texts if evaluator is None else [*texts, *evaluator.expressions(evaluation)]


def _panel(
    evaluation: Evaluation, nodes: Sequence[Node], place: Place
) -> list[tuple[ExpressionPath, str]]:
    """What each judge of a panel says, with its keys."""
    if not isinstance(evaluation.panel, str):
        return [(("panel", index), text) for index, text in enumerate(evaluation.panel or ())]
    expressions = panel_expressions(evaluation.panel, [node.id for node in nodes])
    if not expressions:
        message = f"`{evaluation.panel}` is no field of two or more units of one name"
        hint = "write `judge.score` for units called `judge`, or list an expression for each judge"
        place.problem("bad-evaluation", message, hint, "panel")
    return [(("panel",), text) for text in expressions]


def _check(
    text: str, place: Place, scope: ResultScope, roots: tuple[str, ...], use_column: UseColumn
) -> Expression | None:
    expression = place.expression(text, roots, scope.resolve)
    for path in expression.paths if expression is not None else ():
        if path[0] == "source" and len(path) > 1 and isinstance(path[1], str):
            use_column(path[1], place)
    return expression


def _ends(evaluation: Evaluation, kind: FieldType) -> Ends | None:
    """The ends of the scale that the evaluation's value, or its prediction, of this type is on; truths are from 0 to 1."""
    if evaluation.value is None and evaluation.positive is not None:
        return 0.0, 1.0  # the share of the positive label
    return number_bounds(kind)


_NEEDS_ORDER = ("weighted_kappa", "spearman", "kendall")


def _check_nominal(evaluation: Evaluation, kind: FieldType, place: Place) -> None:
    """Report statistics of ranks or distances over predictions of a nominal scale, which have neither, and metrics of the choice
    between A and B where the options have other names."""
    prediction = evaluation.prediction
    if not isinstance(kind, ScaleType) or kind.scale.ordered:
        return
    values = kind.scale.display()
    names = evaluation.metrics or ()
    labels = [value for value in kind.scale.values() if value not in ("A", "B", *NO_PREFERENCE)]
    metrics = [metric for metric in map(find_metric, names) if metric is not None]
    is_choice = any(metric.inputs[0] in ("choice", "choice_length") for metric in metrics)
    if labels and (is_choice or evaluation.options is not None):
        message = f"preferences are between A and B, and `{prediction}` is {values}"
        choice = f"`prediction: \"'A' if {prediction} == {labels[0]!r} else 'B'\"`"
        hint = f"write {choice}, or leave the unit's `labels` out"
        place.problem("bad-evaluation", message, hint, "prediction")
    why = f"`{prediction}` is on a nominal scale ({values}): no value is above another"
    hint = "use accuracy, cohen_kappa or f1, or give the scale `scores:` or `ordered: true`, worst first"
    for index, name in enumerate(names):
        if name.removesuffix("_within") in _NEEDS_ORDER:
            message = f"`{name}` needs an order; {why}"
            place.problem("bad-evaluation", message, hint, "metrics", index)
    if evaluation.kind in ("ordinal", "numeric"):
        message = f"`kind: {evaluation.kind}` needs an order; {why}"
        place.problem("bad-evaluation", message, hint, "kind")


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
    scope = ResultScope(nodes, outputs)
    try:
        typed = compile_expression(text, EVALUATION_ROOTS, scope.resolve)
        plain = compile_expression(text, EVALUATION_ROOTS)
        kinds = {path: scope.resolve(path).type for path in plain.paths}
    except ExpressionError:
        return PossibleValues(None, None)
    domains = {path: all_values(kind) for path, kind in kinds.items()}
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


def _row_with(values: dict[ExpressionPath, Any]) -> JsonObject:
    """The roots of an expression in which these paths have these values."""
    roots: JsonObject = {"source": {}, "output": {}, "nodes": {}}
    for path, value in values.items():
        here: Any = roots
        for part in path[:-1]:
            here = here.setdefault(part, {})
        here[path[-1]] = value
    return roots


def shown_labels(
    nodes: Sequence[Node],
    evaluations: Evaluations,
    targets: Mapping[str, ExpressionPaths],
) -> Iterator[tuple[int, str, str]]:
    """(place of the node, label as a path, name of the evaluation) for each label that is its target."""
    for name, paths in targets.items():
        item = next((node for node in nodes if node.id == evaluations[name].items), None)
        for label in _labels(paths, is_of_entries=item is not None):
            for node in nodes:
                if label[0] != "source" and (item is None or node.groups[:1] != item.groups[:1]):
                    continue
                if any(overlap(label, path) for path in _prompt_paths(node)):
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


def _labels(paths: ExpressionPaths, *, is_of_entries: bool) -> list[ExpressionPath]:
    """The columns of the row that the paths of a target name, and what they name of an entry."""
    roots = ("output", "nodes", "human", "index")
    return [
        path
        for path in dict.fromkeys(paths)
        if (path[0] == "source" and len(path) > 1)
        or (is_of_entries and path[0] not in ("source", *roots))
    ]


def _prompt_paths(node: Node) -> list[ExpressionPath]:
    """The paths that a node's prompt names, and those of its options."""
    if not isinstance(node.work, LLMNode):
        return []
    return [*node.work.prompt.paths, *node.work.option_paths]
