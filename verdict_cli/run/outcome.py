"""A row's result as a JSON document, for `verdict judge` and `verdict serve`, and as one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from verdict_cli.errors import RowError, UsageError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.types import DistributionType, FieldType, ScaleType, without_null
from verdict_cli.messages import Call, Failure, JsonObject, NamedValues, Output, Result, cost_of
from verdict_cli.plan.levels import in_lists
from verdict_cli.plan.node import Plan
from verdict_cli.plan.scope import RESULT_ROOTS, ResultScope
from verdict_cli.run.preflight import models_in_use


def outcome(plan: Plan, result: Result) -> JsonObject:
    """`{"status", "id", "output", "failure", "calls", "cost_usd"}`.

    ``output`` is the output of the last step, by unit where it has several; None for a row that failed or abstained.
    """
    failure = result.failure
    return {
        "status": result.status,
        "id": result.row.id,
        "output": given(plan, result) if result.status == "ok" else None,
        "failure": None if failure is None else failed(failure),
        "calls": len(result.calls),
        "cost_usd": cost_of(result.calls),
    }


def given(plan: Plan, result: Result) -> NamedValues:
    """The output of the last step: its fields, or the outputs by id where it has several units."""
    last = plan.output_node
    if last is not None:
        return in_lists(last, result.outputs[last.index]) or {}
    return {
        plan.nodes[index].id: in_lists(plan.nodes[index], result.outputs[index])
        for index in plan.outputs
    }


def failed(failure: Failure) -> dict[str, str]:
    """A failure's kind, message and unit."""
    return {"kind": failure.kind, "message": failure.message, "unit": failure.node}


def floors(plan: Plan) -> tuple[str, ...]:
    """The baseline models that the plan calls, which are not judges."""
    names = {model.name for _, model, _ in models_in_use(plan)}
    return tuple(sorted(name for name in names if name.startswith("baseline/")))


def tokens(calls: Iterable[Call]) -> tuple[int, int]:
    """The number of prompt tokens and of completion tokens."""
    replies = [call.reply for call in calls if call.reply is not None]
    return (
        sum(reply.usage.prompt_tokens for reply in replies),
        sum(reply.usage.completion_tokens for reply in replies),
    )


Reward = Callable[[Result], float]
_REWARD_FIELDS = ("score", "mean", "distribution")
"""Fields to choose where a step has several: a judge's, a mean-variance pool's, a token extractor's."""


def reward_of(plan: Plan, text: str | None = None) -> Reward:
    """The number of a result that did not fail: of the expression over `output`, `nodes` and `source`, or the last step's.

    A value of a scale counts as its number, a distribution as its expectation. UsageError where there is no such number;
    the function raises RowError where a row has none.
    """
    return (
        _of_output(plan)
        if text is None
        else _of_expression(compile_reward(plan, text, "the reward"))
    )


def compile_reward(plan: Plan, text: str, what: str) -> Callable[[Result], Any]:
    """The value of an expression over `output`, `nodes` and `source` of a result. UsageError names ``what``."""
    try:
        expression = compile_expression(
            text, RESULT_ROOTS, ResultScope(plan.nodes, plan.outputs).resolve
        )
    except ExpressionError as error:
        raise UsageError(f"{what} `{text}`: {error.message}", hint=error.hint) from None

    def value(result: Result) -> Any:
        nodes = {
            node.id: in_lists(node, output)
            for node, output in zip(plan.nodes, result.outputs, strict=True)
        }
        last = plan.output_node
        output = None if last is None else nodes[last.id]
        return expression({"source": result.row.source, "output": output, "nodes": nodes})

    return value


def _of_expression(value: Callable[[Result], Any]) -> Reward:
    return lambda result: _finite(value(result), "the reward")


def _of_output(plan: Plan) -> Reward:
    last = plan.output_node
    if last is None:
        outputs = ", ".join(plan.nodes[index].id for index in plan.outputs)
        raise UsageError(
            f"the last step has {len(plan.outputs)} units and no single number: {outputs}",
            hint=f"pool them, or name the number: \"nodes['{plan.nodes[plan.outputs[0]].id}'].score\"",
        )
    fields = last.result.fields
    names = [name for name in _REWARD_FIELDS if name in fields] or (
        list(fields) if len(fields) == 1 else []
    )
    for name in names:
        number = _number(fields[name])
        if number is not None:
            return lambda result: _finite(
                _number_at(number, _given(result.outputs[last.index])[name]), f"`{name}`"
            )
    raise UsageError(
        f"{last.id} has the fields {', '.join(fields) or '(none)'}, none of which is the row's number",
        hint="give the scale `scores:`, or name the number by an expression such as `output.score`",
    )


def _number_at(number: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else number(value)


def _given(output: Output | None) -> Output:
    if output is None:
        raise RowError("the last unit was skipped, so the row has no number", kind="skipped")
    return output


def _number(kind: FieldType) -> Callable[[Any], Any] | None:
    """The function from a value of the type to its number; None for a type without numbers."""
    if isinstance(kind, DistributionType):
        scale = kind.scale
        if not scale.numeric():
            return None
        return lambda distribution: math.fsum(
            p * (scale.number(value) or 0.0) for value, p in distribution.items()
        )
    if kind.numeric() is False:
        return None
    scaled = without_null(kind)
    return scaled.scale.number if isinstance(scaled, ScaleType) else lambda value: value


def _finite(value: Any, what: str) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise RowError(f"{what} is {value!r:.80}, expected a number", kind="no-number")
