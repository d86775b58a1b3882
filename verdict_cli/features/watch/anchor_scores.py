"""The number of each anchor row in a run's results, and the range in which it must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem, RowError, UsageError
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.types import ScaleType, without_null
from verdict_cli.plan.node import Plan
from verdict_cli.plan.result_scope import RESULT_ROOTS, ResultScope
from verdict_cli.stats.columns.saved_rows import saved_rows

_FIELDS = ("score", "mean")


@dataclass(frozen=True)
class AnchorScore:
    """The expression whose value is watched, the function to its number, and the ends of its range."""

    text: str
    expression: Expression
    number: Callable[[Any], float | None]
    ends: tuple[float, float]

    def read(self, results: Path) -> tuple[list[float | None], list[str]]:
        """The scores of all rows, None where there is none; and the rows that did not fail and have none, in words."""
        scores: list[float | None] = []
        unreadable = []
        for row, failed, _, values in saved_rows(results, self.expression.paths):
            score = None
            if not failed:
                try:
                    score = self.number(self.expression(values))
                except RowError as error:
                    unreadable.append(f"row {row}: {error.message}")
            if score is not None and not self.ends[0] <= score <= self.ends[1]:
                ends = f"{self.ends[0]:g} to {self.ends[1]:g}"
                message = f"row {row}: `{self.text}` is {score:g}, outside {ends}"
                hint = "give the ends of its scale: --range LOW,HIGH"
                raise DataError(Problem("off-range", message, hint, file=str(results)))
            scores.append(score)
        return scores, unreadable


def anchor_score(plan: Plan, text: str | None, ends: tuple[float, float] | None) -> AnchorScore:
    """The score that `--score` names, or that of the last step. UsageError where neither is a number."""
    scope = ResultScope(plan.nodes, plan.outputs)
    if text is None:
        fields = {} if plan.output_node is None else plan.output_node.result.fields
        name = next((name for name in _FIELDS if name in fields and fields[name].numeric() is not False), None)
        if name is None:
            raise UsageError(
                f"{plan.name} gives no number that can be watched",
                hint="name one, or a condition: --score \"output.choice == 'A'\"",
            )
        text = f"output.{name}"
    try:
        expression = compile_expression(text, RESULT_ROOTS, scope.resolve)
        kind = None if expression.path is None else scope.resolve(expression.path).type
    except ExpressionError as error:
        raise UsageError(f"--score `{text}`: {error.message}", hint=error.hint) from None
    found = None if kind is None else without_null(kind)
    if isinstance(found, ScaleType):
        numbers = found.scale.bounds()
        if numbers is None:
            raise UsageError(
                f"`{text}` is a label without a number", hint=f'watch a condition: --score "{text} == source.label"'
            )
        return AnchorScore(text, expression, found.scale.number, ends or numbers)
    return AnchorScore(text, expression, _number, ends or (0.0, 1.0))


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise RowError(f"the score is {value!r:.80}, expected a number or a condition")
