"""Run one row through a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from verdict_cli.errors import (
    Pending,
    PinnedError,
    ProviderError,
    ReplyError,
    RowError,
    VerdictError,
)
from verdict_cli.messages import Call, Failure, JsonObject, Output, Result, Row, Stage
from verdict_cli.plan.levels import EachGroup, Level
from verdict_cli.plan.node import LLMNode, Node, Plan, PoolNode
from verdict_cli.run.attempts import Context
from verdict_cli.run.compute import compute, empty_output, outputs_before, pooled_values
from verdict_cli.run.entries import entry_failure, fan_out, has_output, is_empty
from verdict_cli.run.escalation import AnsweringStage, escalate_answer, stages_of
from verdict_cli.run.event_loop import cancel_all
from verdict_cli.run.node_run import answer_node, calls_of, fails_row
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.scores import judged_span, result_scores
from verdict_cli.run.stopping_rule import EarlyStopState, is_audited, is_decided

PINNED = "pinned"
PINNED_ROW = Row(-1, PINNED, {}, PINNED)
"""The row under which the calls of pinned units are recorded."""


def run_row(plan: Plan, row: Row, context: Context) -> Coroutine[Any, Any, Result]:
    """The row's result. A failure is a value of it; what is raised stops the run, but for Pending.

    Units that do not depend on a failed one are still run, so that the order of replies does not count. The failure is
    that of the first failed unit in order of definition.
    """
    return RowRunner(plan, row, context, context.pinned, plan.level).run()


def run_observed_row(
    plan: Plan, row: Row, context: Context, observer: RunObserver
) -> Awaitable[Result]:
    """The row's result, as by `run_row`; the observer gets its scores and the span that it judges."""
    running = run_row(plan, row, context)
    if type(observer) is RunObserver:
        return running  # one coroutine less
    return _observed(plan, row, running, observer)


async def _observed(
    plan: Plan, row: Row, running: Awaitable[Result], observer: RunObserver
) -> Result:
    with observer.row(row, judged_span(plan, row.source)) as ended:
        result = await running
        ended(result.failure, result_scores(plan, result))
    return result


async def run_pinned(
    plan: Plan, context: Context
) -> tuple[dict[int, Output | None], tuple[Call, ...]]:
    """The outputs of the pinned units, and the calls made. PinnedError when one of them fails."""
    if not any(node.pinned for node in plan.nodes):
        return {}, ()
    runner = RowRunner(plan, PINNED_ROW, context, {}, plan.pinned_level)
    result = await runner.run()
    if (failure := result.failure) is not None:
        message = f"the pinned unit {failure.node!r} failed ({failure.kind}): {failure.message}"
        raise PinnedError(message, hint="every row shares its result, so no row was run")
    return {
        node.index: runner.outputs[node.index] for node in plan.nodes if node.pinned
    }, result.calls


def _pending(done: Iterable[asyncio.Task[None]]) -> list[Pending]:
    """The calls of ended tasks that are answered later. Raises any other error."""
    # The error of each task is taken: asyncio writes a traceback for one that nobody took.
    errors = [error for task in done if (error := task.exception()) is not None]
    pending = []
    for error in errors:
        if not isinstance(error, Pending):
            raise error
        pending.append(error)
    return pending


class RowRunner:
    """The state of one row, or of one entry of it: what is finished, how many parents each node waits for, what failed."""

    def __init__(
        self,
        plan: Plan,
        row: Row,
        context: Context,
        known: Mapping[int, Output | None],
        level: Level,
    ) -> None:
        self.plan = plan
        self.row = row
        self.context = context
        self.level = level
        self.outputs: list[Any] = [None] * len(plan.nodes)
        self.previous: JsonObject = {}
        for index, output in known.items():
            self.outputs[index] = self.previous[plan.nodes[index].id] = output
        self.calls: dict[int, list[Call]] = {}
        self.failures: dict[int, Failure] = {}
        self.waiting = dict(level.waiting)
        self.ready = [*level.ready]
        self.saved: dict[str, int] = {}
        self.abstained: set[int] = set()
        self.stages: dict[int, AnsweringStage] = {}
        self.skipped: set[int] = set()
        self.conditions: dict[int, bool] = {}
        self.entries: dict[int, Any] = {}
        self.inner_stages: dict[str, tuple[Stage, ...]] = {}
        self.layers: dict[int, EarlyStopState] = {}
        for early in level.early:
            self._hold(EarlyStopState(early, audited=is_audited(early, context.seed, row.id)))

    def inside(self, row: Row, level: Level) -> RowRunner:
        """The runner of one entry, which sees what this one has finished."""
        runner = RowRunner(self.plan, row, self.context, {}, level)
        runner.outputs, runner.previous = self.outputs.copy(), self.previous.copy()
        runner.skipped = self.skipped.copy()
        return runner

    def _hold(self, layer: EarlyStopState) -> None:
        """Have all but the first items of a layer wait for the answers of these."""
        self.layers.update(dict.fromkeys(layer.early.leaves, layer))
        for index in layer.waiting():
            if index in self.waiting:
                self.waiting[index] += 1
                with suppress(ValueError):
                    self.ready.remove(index)

    async def run(self) -> Result:
        """Run the nodes that are ready; where one of several calls stops the run, the others, which are paid for, are waited for.

        A single call is awaited directly, which is cheaper than a task."""
        running: set[asyncio.Task[None]] = set()
        pending: list[Pending] = []
        try:
            while self.ready or running:
                await self._start_ready(running)
                if running:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    # A pending call ends the row once nothing else of it can be run: its other calls are then known, too.
                    pending += _pending(done)
        except VerdictError:
            await asyncio.gather(*running, return_exceptions=True)
            raise
        finally:
            await cancel_all(running)
        if pending:
            raise pending[0]
        return self._result()

    async def _start_ready(self, running: set[asyncio.Task[None]]) -> None:
        """Compute, skip or ask what is ready, also what becomes ready by that; further calls are added to ``running``."""
        awaited = self.level.awaited
        may_skip = bool(self.plan.conditions)
        while self.ready:
            index = self.ready.pop(0)
            if self.abstained and self._is_without_input(index):
                self._complete(index, None)
            elif may_skip and not self._is_run(index):
                continue
            elif not awaited[index]:
                self._compute(index)
            elif not self.ready and not running:
                await self._ask(index)
            else:
                running.add(asyncio.create_task(self._ask(index)))

    def _is_run(self, index: int) -> bool:
        """Whether a unit, or an `each`, is run. One whose condition is false, or that needs a skipped unit, is skipped."""
        node, group = self.plan.nodes[index], self.level.groups.get(index)
        step: Node | EachGroup = node if group is None else self.plan.groups[group]
        try:
            runs = self.skipped.isdisjoint(step.needs) and all(
                self._holds(condition) for condition in step.checked
            )
        except RowError as error:
            self.failures[index] = entry_failure(self.row, node, error.failure, str(error))
            return False
        if (
            runs
            and group is None
            and isinstance(node.work, PoolNode)
            and node.work.unit.empty is None
        ):
            runs = not self.skipped.issuperset(node.parents)
        if not runs:
            self._skip(index, (index,) if group is None else self.plan.groups[group].nodes)
        return runs

    def _holds(self, condition: int) -> bool:
        if condition not in self.conditions:
            compiled = self.plan.conditions[condition]
            self.conditions[condition] = self.skipped.isdisjoint(compiled.needs) and compiled(
                self.values()
            )
        return self.conditions[condition]

    def values(self) -> JsonObject:
        """What the list of an `each` and conditions see."""
        names = self.row.entry.names if self.row.entry is not None else {}
        return {"source": self.row.source, "previous": self.previous, **names}

    def _skip(self, index: int, units: Sequence[int]) -> None:
        self.skipped.update(units)
        for unit in units:
            self.outputs[unit] = None
            self.previous.pop(self.plan.nodes[unit].id, None)
        self.done(index)

    def _compute(self, index: int) -> None:
        node = self.plan.nodes[index]
        try:
            with self.context.unit(node.id) as ended:
                if self._gets_nothing(node):
                    output: Output | None = empty_output(node)
                else:
                    output = compute(
                        node, self.row, self.outputs, self.previous, self.context.seed, self.entries
                    )
                ended(output)
        except RowError as error:
            if self.skipped and self.skipped.issuperset(node.parents) and node.parents:
                self._skip(index, (index,))  # nothing is left that it could be computed from
            else:
                self._fail(index, error.failure, str(error))
        else:
            self._complete(index, output)

    def _gets_nothing(self, node: Node) -> bool:
        """Whether it is a pool with a value for this case, and the list before it is empty or all units are skipped."""
        if not isinstance(node.work, PoolNode) or node.work.unit.empty is None:
            return False
        return all(
            parent in self.skipped or is_empty(self.outputs[parent]) for parent in node.parents
        )

    async def _ask(self, index: int) -> None:
        if index in self.level.groups:
            await fan_out(self, index)
            return
        node = self.plan.nodes[index]
        try:
            with self.context.unit(node.id) as ended:
                calls = self.calls[index] = []
                output: Output | None
                if node.escalation is None:
                    output = (
                        await answer_node(node, self.row, self.previous, self.context, calls)
                    ).output
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
        if self.abstained.isdisjoint(node.parents) or index in self.level.groups:
            return False
        if isinstance(node.work, LLMNode):
            return True
        quorum = node.work.unit.quorum if isinstance(node.work, PoolNode) else 1
        return sum(output is not None for output in outputs_before(node, self.outputs)) < quorum

    def _complete(self, index: int, output: Output | None) -> None:
        """Take a unit's output, None where it abstained."""
        if output is None:
            self.abstained.add(index)
        self._finish(index, output)

    def _finish(self, index: int, output: Output | None) -> None:
        self.outputs[index] = output
        self.previous[self.plan.nodes[index].id] = output
        self.done(index)

    def done(self, index: int) -> None:
        """Note that a unit, or an `each`, has been run: those that wait for it wait for one less."""
        for child in self.level.children[index]:
            if child in self.waiting:
                self._parent_done(child)
        layer = self.layers.get(index)
        if layer is not None and index in self.waiting:
            self._check_layer(layer)

    def _parent_done(self, index: int) -> None:
        self.waiting[index] -= 1
        if not self.waiting[index]:
            self.ready.append(index)

    def _check_layer(self, layer: EarlyStopState) -> None:
        """After a unit of a layer that stops early: once all started items are done, start the next ones or stop it."""
        early = layer.early
        layer.open -= 1
        if layer.open or layer.started == len(early.items):
            return
        pool = self.plan.nodes[early.pool]
        values = pooled_values(pool, self.outputs, early.leaves[: layer.started])
        if layer.audited or not is_decided(early, values, len(early.items) - layer.started):
            for index in layer.next_batch():
                if index in self.waiting:
                    self._parent_done(index)
            return
        indices = [index for item in early.items[layer.started :] for index in item]
        layer.started = len(early.items)
        self.saved[pool.id] = sum(calls_of(self.plan.nodes[index]) for index in indices)
        for index in indices:
            self.waiting.pop(index, None)
        for index in indices:
            self._finish(index, None)

    def _fail(self, index: int, kind: str, message: str) -> None:
        node = self.plan.nodes[index]
        if node.skips:
            self._finish(index, None)
        else:
            self.failures[index] = entry_failure(self.row, node, kind, message)

    def _result(self) -> Result:
        failure = self.failures[min(self.failures)] if self.failures else None
        calls = tuple([call for index in sorted(self.calls) for call in self.calls[index]])
        abstained = (
            failure is None
            and not self.abstained.isdisjoint(self.plan.outputs)
            and not any(has_output(self.outputs[index]) for index in self.plan.outputs)
        )
        stages = {
            self.plan.nodes[index].id: self._stages(index)
            for index in self.plan.escalating
            if index in self.waiting
        }
        stages |= self.inner_stages
        skipped = tuple(self.plan.nodes[index].id for index in sorted(self.skipped))
        if self.plan.output_node is not None and self.plan.output_node.index in self.skipped:
            skipped += ("output",)
        return Result(
            self.row,
            tuple(self.outputs),
            failure,
            calls,
            self.saved,
            stages,
            abstained,
            skipped,
            self.entries,
        )

    def _stages(self, index: int) -> tuple[Stage, ...]:
        answered = (
            None if self.outputs[index] is None else self.stages.get(index, AnsweringStage(0))
        )
        abstained = index in self.abstained
        return stages_of(
            self.plan.nodes[index], answered, self.calls.get(index, []), abstained=abstained
        )
