"""Checks of `evaluate` and `gates` against the plan, before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from verdict_cli.expressions import Path, Resolved
from verdict_cli.plan.bench import compiled
from verdict_cli.plan.given import MEASURED, Given
from verdict_cli.plan.node import Node
from verdict_cli.plan.panel import judges
from verdict_cli.spec import Namespace
from verdict_cli.spec import evaluate as evaluations
from verdict_cli.spec import gate as gates

_EXPRESSIONS = ("prediction", "target", "value", "probability", "consistent", "cluster", "group", "where")


def check_evaluations(
    names: Namespace,
    nodes: tuple[Node, ...],
    outputs: tuple[int, ...],
    use_column: Callable[[str, Namespace, tuple[str | int, ...]], None],
) -> set[int]:
    """The units that evaluations name; tells of every expression that nothing can fill."""
    given = Given(nodes, outputs)
    for name, evaluation in names.spec.file.evaluate.items():
        base: tuple[str | int, ...] = ("evaluate", name)
        for where, message, hint in evaluations.problems(name, evaluation):
            names.problem("bad-evaluation", message, hint, _below(base, where))
        texts: list[tuple[Path, str | None]] = [((key,), getattr(evaluation, key)) for key in _EXPRESSIONS]
        texts += [(("by", place), text) for place, text in enumerate(evaluation.by)]
        texts += [(("options", place), text) for place, text in enumerate(evaluation.options or ())]
        texts += _panel(names, evaluation, nodes, (*base, "panel"))
        if evaluation.gold is not None:
            of_gold: list[tuple[Path, str | None]] = [
                (("gold", "target"), evaluation.gold.target),
                (("gold", "where"), evaluation.gold.where),
            ]
            for key, text in of_gold:
                if text is not None:
                    _check(names, text, (*base, *key), given.resolve, use_column, ("source", "human"))
        for key, text in texts:
            if text is not None:
                _check(names, text, (*base, *key), given.resolve, use_column)
    for place, gate in enumerate(names.spec.file.gates):
        for where, message, hint in gates.problems(place, gate, names.spec.file.evaluate):
            names.problem("bad-gate", message, hint, _below(("gates", place), where))
        for text in gate.where or {}:
            _check(names, text, ("gates", place, "where", text), given.resolve, use_column)
    return given.used


def _panel(
    names: Namespace, evaluation: evaluations.Evaluation, nodes: tuple[Node, ...], path: Path
) -> list[tuple[Path, str | None]]:
    """What each judge of a panel says, with its place."""
    if not isinstance(evaluation.panel, str):
        return [(("panel", place), text) for place, text in enumerate(evaluation.panel or ())]
    found = judges(evaluation.panel, [node.id for node in nodes])
    if not found:
        message = f"`{evaluation.panel}` is no field of two or more units of one name"
        hint = "write `judge.score` for units called `judge`, or list an expression for each judge"
        names.problem("bad-evaluation", message, hint, path)
    return [(("panel",), text) for text in found]


def _check(
    names: Namespace,
    text: str,
    path: tuple[str | int, ...],
    resolve: Callable[[Path], Resolved],
    use_column: Callable[[str, Namespace, tuple[str | int, ...]], None],
    roots: tuple[str, ...] = MEASURED,
) -> None:
    expression = compiled(
        text, roots, resolve, lambda message, hint: names.problem("bad-expression", message, hint, path)
    )
    for found in expression.paths if expression is not None else ():
        if found[0] == "source" and len(found) > 1 and isinstance(found[1], str):
            use_column(found[1], names, path)


def _below(base: tuple[str | int, ...], where: str) -> tuple[str | int, ...]:
    """The path of a key, which a check spells from its section on: `safety.metrics[0]`, `[2].max`."""
    own = f"[{base[-1]}]" if isinstance(base[-1], int) else str(base[-1])
    parts = re.findall(r"[^.\[\]]+", where.removeprefix(own))
    return (*base, *(int(part) if part.isdigit() else part for part in parts))
