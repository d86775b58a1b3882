"""A row's result as a JSON document: the output of `verdict judge` and the responses of `verdict serve`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from verdict_cli.messages import Call, Failure, Result, cost_of
from verdict_cli.plan.node import LLMNode, Plan


def outcome(plan: Plan, result: Result) -> dict[str, Any]:
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


def given(plan: Plan, result: Result) -> Mapping[str, Any]:
    """The output of the last step: its fields, or the outputs by id where it has several units."""
    last = plan.output_node
    if last is not None:
        return result.outputs[last.index] or {}
    return {plan.nodes[index].id: result.outputs[index] for index in plan.outputs}


def failed(failure: Failure) -> dict[str, str]:
    """A failure's kind, message and unit."""
    return {"kind": failure.kind, "message": failure.message, "unit": failure.node}


def floors(plan: Plan) -> tuple[str, ...]:
    """The baseline models that the plan calls, which are not judges."""
    models = (
        model.name
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for model in (*(model for models in node.stages for model in models), *node.work.follow_up)
    )
    return tuple(sorted({name for name in models if name.startswith("baseline/")}))


def tokens(calls: Iterable[Call]) -> tuple[int, int]:
    """The number of prompt tokens and of completion tokens."""
    replies = [call.reply for call in calls if call.reply is not None]
    return (
        sum(reply.usage.prompt_tokens for reply in replies),
        sum(reply.usage.completion_tokens for reply in replies),
    )
