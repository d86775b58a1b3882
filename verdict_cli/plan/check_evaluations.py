"""Check `evaluate`, `gates` and published tables against the plan before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError

from verdict_cli.errors import SpecError
from verdict_cli.language import evaluations
from verdict_cli.language import gate_rules as gates
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import explain_error
from verdict_cli.language.evaluations import Published
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError, ExpressionPath
from verdict_cli.language.fields.types import FieldType, ScaleType
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.language.namespace import Namespace
from verdict_cli.plan.node import Node
from verdict_cli.plan.scope import ResultScope, compile_expression_at, panel_expressions


def load_published(names: Namespace) -> dict[str, Published]:
    """The published table of each evaluation that names one; reports invalid files."""
    tables = {}
    for name, evaluation in names.spec.file.evaluate.items():
        if evaluation.published is None:
            continue
        path = names.inside(evaluation.published, ("evaluate", name, "published"))
        if path is None:
            continue
        try:
            document = read_document(path)
        except SpecError as error:
            names.bad_file(evaluation.published, error, ("evaluate", name, "published"))
            continue
        try:
            tables[name] = Published.model_validate(document.data)
        except ValidationError as error:
            for problem in explain_error(error, Published, document):
                names.tell(problem)
    return tables


_EXPRESSIONS = ("prediction", "target", "value", "probability", "consistent", "cluster", "group", "where")


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
        base: tuple[str | int, ...] = ("evaluate", name)
        try:
            scope = scopes[name] = rows if evaluation.items is None else rows.of_items(evaluation.items, entries)
        except ExpressionError as error:
            names.problem("bad-evaluation", error.message, error.hint, (*base, "items"))
            continue
        for where, message, hint in evaluations.evaluation_problems(name, evaluation):
            names.problem("bad-evaluation", message, hint, _below(base, where))
        _check_nominal(names, evaluation, base, scope)
        texts: list[tuple[ExpressionPath, str | None]] = [((key,), getattr(evaluation, key)) for key in _EXPRESSIONS]
        texts += [(("by", index), text) for index, text in enumerate(evaluation.by)]
        texts += [(("options", index), text) for index, text in enumerate(evaluation.options or ())]
        texts += _panel(names, evaluation, nodes, (*base, "panel"))
        if (own := evaluations.evaluator_of(evaluation)) is not None:
            texts += own[1].expressions(evaluation)
        if evaluation.gold is not None:
            gold_texts: list[tuple[ExpressionPath, str | None]] = [
                (("gold", "target"), evaluation.gold.target),
                (("gold", "where"), evaluation.gold.where),
                (("gold", "weight"), evaluation.gold.weight),
            ]
            for key, text in gold_texts:
                if text is not None:
                    _check(names, text, (*base, *key), scope, use_column, ("source", "human", *scope.entries))
        for key, text in texts:
            if text is not None:
                _check(names, text, (*base, *key), scope, use_column)
    for index, gate in enumerate(names.spec.file.gates):
        for where, message, hint in gates.gate_problems(index, gate, names.spec.file.evaluate):
            names.problem("bad-gate", message, hint, _below(("gates", index), where))
        scope = scopes.get(gate.metric.rpartition(".")[0], rows)
        for text in gate.where or {}:
            _check(names, text, ("gates", index, "where", text), scope, use_column)
    return rows.used


_NEEDS_ORDER = ("weighted_kappa", "spearman", "kendall")


def _check_nominal(
    names: Namespace, evaluation: evaluations.Evaluation, base: ExpressionPath, scope: ResultScope
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
    labels = [value for value in kind.scale.values() if value not in ("A", "B", "tie")]
    measured = [find_metric(name) for name in evaluation.metrics or ()]
    prefers = any(metric is not None and metric.inputs[0] in ("choice", "choice_length") for metric in measured)
    if labels and (prefers or evaluation.options is not None):
        message = f"preferences are between A and B, and `{evaluation.prediction}` is {kind.scale.display()}"
        fix = f"write `prediction: \"'A' if {evaluation.prediction} == {labels[0]!r} else 'B'\"`, or leave the unit's `labels` out"
        names.problem("bad-evaluation", message, fix, (*base, "prediction"))
    for index, metric in enumerate(evaluation.metrics or ()):
        if metric.removesuffix("_within") in _NEEDS_ORDER:
            names.problem("bad-evaluation", f"`{metric}` needs an order; {why}", hint, (*base, "metrics", index))
    if evaluation.kind in ("ordinal", "numeric"):
        names.problem("bad-evaluation", f"`kind: {evaluation.kind}` needs an order; {why}", hint, (*base, "kind"))


def _panel(
    names: Namespace, evaluation: evaluations.Evaluation, nodes: tuple[Node, ...], path: ExpressionPath
) -> list[tuple[ExpressionPath, str | None]]:
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
