"""Run one row through a plan."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from verdict_cli.errors import PinnedError, ProviderError, ReplyError, RowError, VerdictError
from verdict_cli.language.units.escalate import ABSTAIN, ITSELF
from verdict_cli.messages import Call, Failure, Output, Result, Row, Stage, cost_of
from verdict_cli.plan.levels import EachGroup, Level, field_lists, present
from verdict_cli.plan.node import Early, LLMNode, Node, Plan, PoolNode
from verdict_cli.run.attempts import Context
from verdict_cli.run.entries import entry_rows, run_entries, shown_names
from verdict_cli.run.node_run import (
    answer_node,
    calls_of,
    compute,
    empty_output,
    escalate_answer,
    fails_row,
    outputs_before,
    pooled_values,
)
from verdict_cli.run.stopping_rule import first_batch, is_decided

PINNED_ROW = Row(-1, "pinned", {}, "pinned")
"""The row under which the calls of pinned units are recorded."""


def run_row(plan: Plan, row: Row, context: Context) -> Coroutine[Any, Any, Result]:
    """The row's result. A failure is a value of it; what is raised (Refused, BudgetError) stops the run.

    Every unit that does not depend on a failed one is still run, so that the result does not depend on the order of
    replies. The failure is that of the first failed unit in order of definition.
    """
    return _RowRunner(plan, row, context, context.pinned, plan.level).run()


async def run_pinned(plan: Plan, context: Context) -> tuple[dict[int, Output | None], tuple[Call, ...]]:
    """The outputs of the pinned units, and the calls made. PinnedError when one of them fails."""
    if not any(node.pinned for node in plan.nodes):
        return {}, ()
    runner = _RowRunner(plan, PINNED_ROW, context, {}, plan.pinned_level)
    result = await runner.run()
    if result.failure is not None:
        failure = result.failure
        raise PinnedError(
            f"the pinned unit {failure.node!r} failed ({failure.kind}): {failure.message}",
            hint="every row shares its result, so no row was run",
        )
    return {node.index: runner.outputs[node.index] for node in plan.nodes if node.pinned}, result.calls


class _RowRunner:
    """The state of one row, or of one entry of it: what is finished, how many parents each node waits for, what failed."""

    def __init__(
        self, plan: Plan, row: Row, context: Context, known: Mapping[int, Output | None], level: Level
    ) -> None:
        self.plan = plan
        self.row = row
        self.context = context
        self.level = level
        self.outputs: list[Any] = [None] * len(plan.nodes)
        self.previous: dict[str, Any] = {}
        for index, output in known.items():
            self.outputs[index] = self.previous[plan.nodes[index].id] = output
        self.calls: dict[int, list[Call]] = {}
        self.failures: dict[int, Failure] = {}
        self.waiting = dict(level.waiting)
        self.ready = deque(level.ready)
        self.saved: dict[str, int] = {}
        self.abstained: set[int] = set()
        self.stages: dict[int, int] = {}
        self.skipped: set[int] = set()
        self.conditions: dict[int, bool] = {}
        self.entries: dict[int, Any] = {}
        self.inner_stages: dict[str, tuple[Stage, ...]] = {}
        self.layers: dict[int, _EarlyStopState] = {}
        for early in level.early:
            self._hold(_EarlyStopState(early))

    def inside(self, row: Row, level: Level) -> _RowRunner:
        """The runner of one entry, which sees what this one has finished."""
        runner = _RowRunner(self.plan, row, self.context, {}, level)
        runner.outputs = self.outputs.copy()
        runner.previous = self.previous.copy()
        runner.skipped = self.skipped.copy()
        return runner

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
        awaited = self.level.awaited
        may_skip = bool(self.plan.conditions)
        try:
            while self.ready or running:
                while self.ready:
                    index = self.ready.popleft()
                    if self.abstained and self._is_without_input(index):
                        self._abstain(index)
                    elif may_skip and not self._is_run(index):
                        continue
                    elif not awaited[index]:
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

    def _is_run(self, index: int) -> bool:
        """Whether a unit, or an `each`, is run. One whose condition is false, or that needs a skipped unit, is skipped."""
        node, group = self.plan.nodes[index], self.level.groups.get(index)
        step: Node | EachGroup = node if group is None else self.plan.groups[group]
        try:
            runs = self.skipped.isdisjoint(step.needs) and all(self._holds(condition) for condition in step.checked)
        except RowError as error:
            self.failures[index] = self._failure(index, error.failure, str(error))
            return False
        if runs and group is None and isinstance(node.work, PoolNode) and node.work.unit.empty is None:
            runs = not self.skipped.issuperset(node.parents)
        if not runs:
            self._skip(index, (index,) if group is None else self.plan.groups[group].nodes)
        return runs

    def _holds(self, condition: int) -> bool:
        if condition not in self.conditions:
            compiled = self.plan.conditions[condition]
            self.conditions[condition] = self.skipped.isdisjoint(compiled.needs) and compiled(self._values())
        return self.conditions[condition]

    def _values(self) -> dict[str, Any]:
        """What the list of an `each` and conditions see."""
        names = {} if self.row.entry is None else self.row.entry.names
        return {"source": self.row.source, "previous": self.previous, **names}

    def _skip(self, index: int, units: Sequence[int]) -> None:
        self.skipped.update(units)
        for unit in units:
            self.outputs[unit] = None
            self.previous.pop(self.plan.nodes[unit].id, None)
        self._done(index)

    def _compute(self, index: int) -> None:
        node = self.plan.nodes[index]
        try:
            with self.context.unit(node.id) as ended:
                if self._gets_nothing(node):
                    output: Output | None = empty_output(node)
                else:
                    output = compute(node, self.row, self.outputs, self.previous, self.entries, self.context.seed)
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
        return self.skipped.issuperset(node.parents) or not outputs_before(node, self.outputs)

    async def _fan_out(self, head: int) -> None:
        """Run the units inside an `each` for every entry of its list."""
        place = self.level.groups[head]
        group, level = self.plan.groups[place], self.plan.inner_levels[place]
        try:
            rows = entry_rows(self.row, group, group.list_of(self._values()))
        except RowError as error:
            self.failures[head] = self._failure(head, error.failure, str(error))
            return

        async def run_entry(number: int) -> _EntryOutcome:
            runner = self.inside(rows[number], level)
            result = await runner.run()
            return _EntryOutcome(runner, result, group.nodes)

        found = await run_entries(len(rows), run_entry, self.context.slots)
        self.calls[head] = [call for entry in found for call in entry.calls]
        self.entries[place] = [shown_names(row, group) for row in rows]
        for inner in {key for entry in found for key in entry.entries}:
            self.entries[inner] = [entry.entries.get(inner) for entry in found]
        for entry in found:
            for pool, count in entry.saved.items():
                self.saved[pool] = self.saved.get(pool, 0) + count
            for unit, stages in entry.stages.items():
                known = self.inner_stages.get(unit)
                self.inner_stages[unit] = (
                    stages
                    if known is None
                    else tuple(one.plus(other) for one, other in zip(known, stages, strict=True))
                )
        for number, index in enumerate(group.nodes):
            self.outputs[index] = [entry.outputs[number] for entry in found]
        failed = next((entry.failure for entry in found if entry.failure is not None), None)
        if failed is not None:
            self.failures[head] = failed
            return
        depth = 0 if self.row.entry is None else 1 + self.row.entry.item.count(".")
        for index in group.nodes:
            node = self.plan.nodes[index]
            if found and all(index in entry.skipped for entry in found):
                self.skipped.add(index)
            if any(index in entry.abstained for entry in found):
                self.abstained.add(index)
            levels = len(node.groups) - depth
            left = self.previous[node.id] = present(self.outputs[index], levels)
            for name in node.output.fields:
                self.previous[f"{node.id}.{name}"] = field_lists(left, name, levels)
        self._done(head)

    async def _ask(self, index: int) -> None:
        if index in self.level.groups:
            await self._fan_out(index)
            return
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
        if self.abstained.isdisjoint(node.parents) or index in self.level.groups:
            return False
        if isinstance(node.work, LLMNode):
            return True
        left = sum(output is not None for _, output in outputs_before(node, self.outputs))
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
        self._done(index)

    def _done(self, index: int) -> None:
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
                if index in self.waiting:
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
            self.failures[index] = self._failure(index, kind, message)

    def _failure(self, index: int, kind: str, message: str) -> Failure:
        entry = self.row.entry
        return Failure(kind, message if entry is None else f"entry {entry.item}: {message}", self.plan.nodes[index].id)

    def _result(self) -> Result:
        failure = self.failures[min(self.failures)] if self.failures else None
        calls = tuple([call for index in sorted(self.calls) for call in self.calls[index]])
        if not (self.abstained or self.plan.escalating or self.plan.groups or self.skipped):
            return Result(self.row, tuple(self.outputs), failure, calls, self.saved)
        abstained = (
            failure is None
            and not self.abstained.isdisjoint(self.plan.outputs)
            and not any(_has_output(self.outputs[index]) for index in self.plan.outputs)
        )
        stages = {
            self.plan.nodes[index].id: self._stages(index) for index in self.plan.escalating if index in self.waiting
        }
        stages |= self.inner_stages
        skipped = tuple(self.plan.nodes[index].id for index in sorted(self.skipped))
        return Result(
            self.row, tuple(self.outputs), failure, calls, self.saved, stages, abstained, skipped, self.entries
        )

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


def _has_output(output: Any) -> bool:
    """Whether there is an output; of a unit inside `each`, whether any entry has one."""
    return any(map(_has_output, output)) if isinstance(output, list) else output is not None


class _EntryOutcome:
    """What is kept of an entry once it has been run."""

    __slots__ = ("abstained", "calls", "entries", "failure", "outputs", "saved", "skipped", "stages")

    def __init__(self, runner: _RowRunner, result: Result, units: Sequence[int]) -> None:
        self.outputs = [runner.outputs[unit] for unit in units]
        self.failure, self.calls = result.failure, result.calls
        self.saved, self.stages, self.entries = result.saved, result.stages, result.entries
        self.abstained, self.skipped = runner.abstained, runner.skipped


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
