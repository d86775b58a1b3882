"""Run one row through a plan."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from verdict_cli.errors import PinnedError, ProviderError, ReplyError, RowError, VerdictError
from verdict_cli.language.units.escalate import ABSTAIN, ITSELF
from verdict_cli.messages import Call, Failure, Output, Result, Row, Stage, cost_of
from verdict_cli.plan.node import Early, LLMNode, Plan, PoolNode, SourceStart
from verdict_cli.run.attempts import Context
from verdict_cli.run.node_run import answer_node, calls_of, compute, escalate_answer, fails_row, pooled_values
from verdict_cli.run.stopping_rule import first_batch, is_decided

PINNED_ROW = Row(-1, "pinned", {}, "pinned")
"""The row under which the calls of pinned units are recorded."""


def run_row(plan: Plan, row: Row, context: Context) -> Coroutine[Any, Any, Result]:
    """The row's result. A failure is a value of it; what is raised (Refused, BudgetError) stops the run.

    Every unit that does not depend on a failed one is still run, so that the result does not depend on the order of
    replies. The failure is that of the first failed unit in order of definition.
    """
    return _RowRunner(plan, row, context, context.pinned, plan.start).run()


async def run_pinned(plan: Plan, context: Context) -> tuple[dict[int, Output | None], tuple[Call, ...]]:
    """The outputs of the pinned units, and the calls made. PinnedError when one of them fails."""
    if not any(node.pinned for node in plan.nodes):
        return {}, ()
    runner = _RowRunner(plan, PINNED_ROW, context, {}, plan.pinned_start)
    result = await runner.run()
    if result.failure is not None:
        failure = result.failure
        raise PinnedError(
            f"the pinned unit {failure.node!r} failed ({failure.kind}): {failure.message}",
            hint="every row shares its result, so no row was run",
        )
    return {node.index: runner.outputs[node.index] for node in plan.nodes if node.pinned}, result.calls


class _RowRunner:
    """The state of one row: what is finished, how many parents each node waits for, what failed."""

    def __init__(
        self, plan: Plan, row: Row, context: Context, known: Mapping[int, Output | None], start: SourceStart
    ) -> None:
        self.plan = plan
        self.row = row
        self.context = context
        self.outputs: list[Output | None] = [None] * len(plan.nodes)
        self.previous: dict[str, Any] = {}
        for index, output in known.items():
            self.outputs[index] = self.previous[plan.nodes[index].id] = output
        self.calls: dict[int, list[Call]] = {}
        self.failures: dict[int, Failure] = {}
        self.waiting = dict(start.waiting)
        self.ready = deque(start.ready)
        self.saved: dict[str, int] = {}
        self.abstained: set[int] = set()
        self.stages: dict[int, int] = {}
        self.layers: dict[int, _EarlyStopState] = {}
        for early in plan.early:
            self._hold(_EarlyStopState(early))

    def _hold(self, layer: _EarlyStopState) -> None:
        """Have all but the first items of a layer wait for the answers of these."""
        self.layers.update(dict.fromkeys(layer.early.leaves, layer))
        for index in layer.waiting():
            if index in self.waiting:
                self.waiting[index] += 1
                with suppress(ValueError):
                    self.ready.remove(index)

    async def run(self) -> Result:
        """Run the nodes that are ready. A single call is awaited directly, which is cheaper than a task.

        Where one of several calls stops the run, the others are waited for: they are paid for.
        """
        running: set[asyncio.Task[None]] = set()
        try:
            while self.ready or running:
                while self.ready:
                    index = self.ready.popleft()
                    if self.abstained and self._is_without_input(index):
                        self._abstain(index)
                    elif not isinstance(self.plan.nodes[index].work, LLMNode):
                        self._compute(index)
                    elif not self.ready and not running:
                        await self._ask(index)
                    else:
                        running.add(asyncio.create_task(self._ask(index)))
                if running:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    errors = [error for task in done if (error := task.exception()) is not None]
                    if errors:
                        raise errors[0]
        except VerdictError:
            await asyncio.gather(*running, return_exceptions=True)
            raise
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)
        return self._result()

    def _compute(self, index: int) -> None:
        node = self.plan.nodes[index]
        try:
            with self.context.unit(node.id) as ended:
                output = compute(node, self.row, self.outputs, self.previous, self.context.seed)
                ended(output)
        except RowError as error:
            self._fail(index, error.failure, str(error))
        else:
            self._complete(index, output)

    async def _ask(self, index: int) -> None:
        node = self.plan.nodes[index]
        try:
            with self.context.unit(node.id) as ended:
                calls = self.calls[index] = []
                output: Output | None
                if node.escalation is None:
                    output = (await answer_node(node, self.row, self.previous, self.context, calls)).output
                else:
                    output, self.stages[index] = await escalate_answer(
                        node, node.escalation, self.row, self.previous, self.context, calls
                    )
                ended(output)
        except (ReplyError, ProviderError, RowError) as error:
            if not fails_row(error):
                raise
            self._fail(index, error.failure, str(error))
        else:
            self._complete(index, output)

    def _is_without_input(self, index: int) -> bool:
        """Whether a unit abstains because its parents did: one that calls a model where any of them did, a pool where
        fewer than its quorum are left."""
        node = self.plan.nodes[index]
        if self.abstained.isdisjoint(node.parents):
            return False
        if isinstance(node.work, LLMNode):
            return True
        left = sum(self.outputs[parent] is not None for parent in node.parents)
        return left < (node.work.unit.quorum if isinstance(node.work, PoolNode) else 1)

    def _complete(self, index: int, output: Output | None) -> None:
        if output is None:
            self._abstain(index)
        else:
            self._finish(index, output)

    def _abstain(self, index: int) -> None:
        self.abstained.add(index)
        self._finish(index, None)

    def _finish(self, index: int, output: Output | None) -> None:
        self.outputs[index] = output
        self.previous[self.plan.nodes[index].id] = output
        for child in self.plan.nodes[index].children:
            if child in self.waiting:
                self._parent_done(child)
        layer = self.layers.get(index)
        if layer is not None and index in self.waiting:
            self._check_layer(layer)

    def _parent_done(self, index: int) -> None:
        self.waiting[index] -= 1
        if not self.waiting[index]:
            self.ready.append(index)

    def _check_layer(self, layer: _EarlyStopState) -> None:
        """After a unit of a layer that stops early: once all started items are done, start the next ones or stop it."""
        early = layer.early
        layer.open -= 1
        if layer.open or layer.started == len(early.items):
            return
        pool = self.plan.nodes[early.pool]
        values = pooled_values(pool, self.outputs, early.leaves[: layer.started])
        if not is_decided(early, values, len(early.items) - layer.started):
            for index in layer.next_batch():
                self._parent_done(index)
            return
        rest = [index for item in early.items[layer.started :] for index in item]
        layer.started = len(early.items)
        self.saved[pool.id] = sum(calls_of(self.plan.nodes[index]) for index in rest)
        for index in rest:
            self.waiting.pop(index, None)
        for index in rest:
            self._finish(index, None)

    def _fail(self, index: int, kind: str, message: str) -> None:
        node = self.plan.nodes[index]
        if node.skips:
            self._finish(index, None)
        else:
            self.failures[index] = Failure(kind, message, node.id)

    def _result(self) -> Result:
        failure = self.failures[min(self.failures)] if self.failures else None
        calls = tuple([call for index in sorted(self.calls) for call in self.calls[index]])
        if not (self.abstained or self.plan.escalating):
            return Result(self.row, tuple(self.outputs), failure, calls, self.saved)
        abstained = (
            failure is None
            and not self.abstained.isdisjoint(self.plan.outputs)
            and all(self.outputs[index] is None for index in self.plan.outputs)
        )
        stages = {
            self.plan.nodes[index].id: self._stages(index) for index in self.plan.escalating if index in self.waiting
        }
        return Result(self.row, tuple(self.outputs), failure, calls, self.saved, stages, abstained)

    def _stages(self, index: int) -> tuple[Stage, ...]:
        """The counts of each stage of an escalating unit at this row; where it may abstain, that is the last stage."""
        node = self.plan.nodes[index]
        answered = self.stages.get(index) if self.outputs[index] is not None else None
        each, numbered = calls_of(node), self.calls.get(index, [])
        found = [] if node.stages else [Stage(ITSELF, int(self.outputs[index] is not None), 0, 0.0)]
        for place in range(len(node.stages)):
            made = [call for call in numbered if call.request.call // each == place]
            found.append(Stage(node.stages[place][0].name, int(answered == place), len(made), cost_of(made)))
        if node.escalation is not None and node.escalation.abstains:
            found.append(Stage(ABSTAIN, int(index in self.abstained), 0, 0.0))
        return tuple(found)


class _EarlyStopState:
    """A layer that stops early at one row: how many items were started, and how many of these are not done."""

    def __init__(self, early: Early) -> None:
        self.early = early
        self.started = first_batch(early)
        self.open = self.started

    def waiting(self) -> list[int]:
        """The nodes of the items that wait for the answers of others."""
        return [index for item in self.early.items[self.started :] for index in item]

    def next_batch(self) -> list[int]:
        """The nodes of the items that are started next."""
        items = self.early.items[self.started : self.started + self.early.batch]
        self.started += len(items)
        self.open = len(items)
        return [index for item in items for index in item]
