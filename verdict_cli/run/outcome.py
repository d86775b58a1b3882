"""A row's outcome as one JSON document: what `verdict judge` prints and `verdict serve` answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from verdict_cli.messages import Call, Failure, Result, cost_of
from verdict_cli.plan.node import LLMNode, Plan


def outcome(plan: Plan, result: Result) -> dict[str, Any]:
    """`{"status", "id", "output", "failure", "calls", "cost_usd"}`.

    ``output`` is what the last step gives on, by unit where that is several; None for a row that failed or has no verdict.
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


def given(plan: Plan, result: Result) -> Mapping[str, Any]:
    """What the last step gives on: its fields, or where it is several units their outputs by id."""
    last = plan.output_node
    if last is not None:
        return result.outputs[last.index] or {}
    return {plan.nodes[index].id: result.outputs[index] for index in plan.outputs}


def failed(failure: Failure) -> dict[str, str]:
    """A failure's kind, words and unit."""
    return {"kind": failure.kind, "message": failure.message, "unit": failure.node}


def floors(plan: Plan) -> tuple[str, ...]:
    """The baselines that the plan asks: floors to beat, not judges."""
    models = (
        model.name
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for model in (*(model for models in node.stages for model in models), *node.work.follow_up)
    )
    return tuple(sorted({name for name in models if name.startswith("baseline/")}))


def tokens(calls: Iterable[Call]) -> tuple[int, int]:
    """The tokens of the prompts and of the replies."""
    replies = [call.reply for call in calls if call.reply is not None]
    return (
        sum(reply.usage.prompt_tokens for reply in replies),
        sum(reply.usage.completion_tokens for reply in replies),
    )
