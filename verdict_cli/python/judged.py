"""What a pipeline gives on for one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.language.authoring.schema import View
from verdict_cli.messages import Call, Result
from verdict_cli.plan.node import Plan


class Judged(View):
    """The output of the last step as a mapping with attributes: `judged.score`.

    Where the last step gives on several units, it holds their outputs by id: `judged["judge[0]"].score`.
    ``nodes`` holds every unit's output by id (None: skipped), ``calls`` every model call that was made.
    """

    __slots__ = ("calls", "nodes")

    nodes: Mapping[str, Any]
    calls: tuple[Call, ...]


def judged_of(plan: Plan, result: Result, pinned: tuple[Call, ...]) -> Judged:
    """The outcome of a row that did not fail, the calls of its pinned units before its own."""
    by_id = {node.id: output for node, output in zip(plan.nodes, result.outputs, strict=True)}
    last = plan.output_node
    given = {plan.nodes[index].id: result.outputs[index] for index in plan.outputs} if last is None else by_id[last.id]
    made = Judged(given or {})
    object.__setattr__(made, "nodes", View(by_id))
    object.__setattr__(made, "calls", pinned + result.calls)
    return made
