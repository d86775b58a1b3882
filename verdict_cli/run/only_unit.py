"""Run a row through a plan of one unit, without the bookkeeping of several, which costs as much as the call's own."""

from __future__ import annotations

from typing import Any

from verdict_cli.errors import ProviderError, ReplyError, RowError
from verdict_cli.messages import Call, Failure, Result, Row
from verdict_cli.plan.node import Node
from verdict_cli.run.attempts import Context
from verdict_cli.run.entries import entry_failure
from verdict_cli.run.node_run import answer_node, fails_row


async def run_only_unit(node: Node, row: Row, context: Context) -> Result:
    """The row's result, as `RowRunner` gives it."""
    calls: list[Call] = []
    output: dict[str, Any] | None = None
    failure: Failure | None = None
    try:
        output = (await answer_node(node, row, {}, context, calls)).output
    except (ReplyError, ProviderError, RowError) as error:
        if not fails_row(error):
            raise
        if not node.skips:
            failure = entry_failure(row, node, error.failure, str(error))
    return Result(row, (output,), failure, tuple(calls))
