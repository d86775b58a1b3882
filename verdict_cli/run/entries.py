"""Run the entries of an `each` side by side, and lay out what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Pending, RowError, VerdictError
from verdict_cli.language.expressions.entry_lists import Turn
from verdict_cli.messages import Call, Entry, Failure, Row, Stage
from verdict_cli.plan.levels import EachGroup, field_lists, present
from verdict_cli.plan.node import LLMNode, Node
from verdict_cli.run.attempts import EntrySlots

if TYPE_CHECKING:
    from verdict_cli.run.row import RowRunner


T = TypeVar("T")


async def run_entries(count: int, run: Callable[[int], Awaitable[T]], slots: EntrySlots) -> list[T]:
    """What ``run`` gives for each entry, in order. After an error that stops the run, no further entry is started; those
    that are running are waited for, since their calls are paid for. Entries with a pending call hold back no other."""
    return await _EntryLoop(count, run, slots).outcomes()


class _EntryLoop(Generic[T]):
    """Workers over the entries of a row: one, and another for each slot that is free."""

    def __init__(self, count: int, run: Callable[[int], Awaitable[T]], slots: EntrySlots) -> None:
        self._run, self._slots = run, slots
        self._outcomes: list[Any] = [None] * count
        self._numbers = iter(range(count))
        self._unstarted = count
        self._errors: list[VerdictError] = []
        self._pending: list[Pending] = []
        self._workers: list[asyncio.Task[None]] = []

    async def outcomes(self) -> list[T]:
        """The outcomes. Raises the first error, else a pending call."""
        try:
            await self._work()
            while self._workers:
                await self._workers.pop()
        finally:
            for worker in self._workers:
                worker.cancel()
            if self._workers:
                await asyncio.gather(*self._workers, return_exceptions=True)
        if self._errors or self._pending:
            raise [*self._errors, *self._pending][0]
        return self._outcomes

    async def _work(self) -> None:
        for number in self._numbers:
            self._unstarted -= 1
            if self._unstarted and self._slots.free > 0:
                self._slots.free -= 1
                self._workers.append(asyncio.create_task(self._work_in_slot()))
            try:
                self._outcomes[number] = await self._run(number)
            except Pending as error:
                self._pending.append(error)
            except VerdictError as error:
                self._errors.append(error)
            if self._errors:
                return

    async def _work_in_slot(self) -> None:
        try:
            await self._work()
        finally:
            self._slots.free += 1


def entry_rows(row: Row, group: EachGroup, entries: Sequence[Any]) -> list[Row]:
    """The row with each of the entries."""
    outer = row.entry
    names: Mapping[str, Any] = {} if outer is None else outer.names
    before, key = ("", "") if outer is None else (f"{outer.item}.", outer.key)
    seen: dict[str, int] = {}
    rows = []
    for number, entry in enumerate(entries):
        digest = _digest([key, entry.digest if isinstance(entry, Turn) else entry])
        copy = seen[digest] = seen.get(digest, -1) + 1
        inside = {**names, group.name: entry, "index": number}
        rows.append(
            replace(
                row,
                entry=Entry(
                    f"{before}{number}",
                    inside,
                    len(entries),
                    f"{digest}.{copy}" if copy else digest,
                ),
            )
        )
    return rows


def _digest(value: Any) -> str:
    """A digest of a value of the row: equal for equal content."""
    try:
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # beyond 64 bits, half a surrogate pair, or deeply nested
        content = repr(value).encode("utf-8", "surrogatepass")
    return blake2b(content, digest_size=8).hexdigest()


def shown_names(row: Row, group: EachGroup) -> dict[str, Any]:
    """The entries that a unit inside sees, by name, as the results have them: turns without the messages before them."""
    assert row.entry is not None
    names = {name: entry for name, entry in row.entry.names.items() if name != "index"}
    if isinstance(names[group.name], Turn):
        names[group.name] = names[group.name].row_columns()
    return names


async def fan_out(runner: RowRunner, head: int) -> EachOutcome:
    """What the units inside an `each` give for every entry of its list. ``runner`` is that of the row, which takes the outcome."""
    number = runner.level.groups[head]
    group, node = runner.plan.groups[number], runner.plan.nodes[head]
    try:
        rows = entry_rows(runner.row, group, group.list_of(runner.values()))
    except RowError as error:
        return EachOutcome(entry_failure(runner.row, node, error.failure, str(error)))

    async def run_entry(index: int) -> _EntryOutcome:
        inner = runner.inside(rows[index], runner.plan.inner_levels[number])
        result = await inner.run()
        outputs = [inner.outputs[unit] for unit in group.nodes]
        return _EntryOutcome(
            outputs,
            result.failure,
            result.calls,
            inner.abstained,
            inner.skipped,
            result.saved,
            result.stages,
            result.entries,
        )

    # All questions of a row wait for one another, in one request to a decision model.
    slots = EntrySlots(len(rows)) if _asks_decisions(node) else runner.context.slots
    entries = await run_entries(len(rows), run_entry, slots)
    return _gathered(runner, number, rows, entries)


def _asks_decisions(node: Node) -> bool:
    return isinstance(node.work, LLMNode) and node.work.state_prompt is not None


def _gathered(
    runner: RowRunner, number: int, rows: Sequence[Row], entries: Sequence[_EntryOutcome]
) -> EachOutcome:
    """The outcomes of all entries as that of their `each`."""
    nodes, group = runner.plan.nodes, runner.plan.groups[number]
    outcome = EachOutcome(
        next((entry.failure for entry in entries if entry.failure is not None), None),
        [call for entry in entries for call in entry.calls],
        {
            index: [entry.outputs[position] for entry in entries]
            for position, index in enumerate(group.nodes)
        },
    )
    names = [shown_names(row, group) for row in rows]
    for index in group.nodes:
        if nodes[index].groups[-1] == number:
            shown = [
                None if index in entry.skipped else name
                for name, entry in zip(names, entries, strict=True)
            ]
            outcome.entries[index] = shown
        else:
            outcome.entries[index] = [entry.entries.get(index) for entry in entries]
    for entry in entries:
        for pool, count in entry.saved.items():
            outcome.saved[pool] = outcome.saved.get(pool, 0) + count
        outcome.add_stages(entry.stages)
    depth = 0 if runner.row.entry is None else 1 + runner.row.entry.item.count(".")
    for index in group.nodes if outcome.failure is None else ():
        node = nodes[index]
        if entries and all(index in entry.skipped for entry in entries):
            outcome.skipped.add(index)
        if any(index in entry.abstained for entry in entries):
            outcome.abstained.add(index)
        levels = len(node.groups) - depth
        left = outcome.previous[node.id] = present(outcome.outputs[index], levels)
        for name in node.output.fields:
            outcome.previous[f"{node.id}.{name}"] = field_lists(left, name, levels)
    return outcome


def has_output(output: Any) -> bool:
    """Whether there is an output; of a unit inside `each`, whether any entry has one."""
    return any(map(has_output, output)) if isinstance(output, list) else output is not None


def is_empty(output: Any) -> bool:
    """Whether it is a list without entries, also inside its entries."""
    return isinstance(output, list) and all(map(is_empty, output))


class EachOutcome(Struct):
    """What an `each` gives. Of one that failed, only the calls, the outputs and what is counted matter."""

    failure: Failure | None
    calls: list[Call] = []
    outputs: dict[int, list[Any]] = {}
    """For each unit inside, its output at every entry."""
    entries: dict[int, list[Any]] = {}
    """For each unit inside, the names that it saw at every entry."""
    previous: dict[str, Any] = {}
    """What later units see of the units inside, and of each of their fields: lists without what was skipped."""
    skipped: set[int] = set()
    """The units that were skipped at every entry."""
    abstained: set[int] = set()
    """The units that abstained at any entry."""
    saved: dict[str, int] = {}
    """The calls that early stopping avoided, by pool."""
    stages: dict[str, tuple[Stage, ...]] = {}

    def add_stages(self, stages: Mapping[str, tuple[Stage, ...]]) -> None:
        """Add the stages of one entry to those of the others."""
        for unit, counts in stages.items():
            known = self.stages.get(unit)
            self.stages[unit] = (
                counts
                if known is None
                else tuple(before.plus(stage) for before, stage in zip(known, counts, strict=True))
            )


class _EntryOutcome(Struct):
    """What is kept of an entry once it has been run."""

    outputs: list[Any]
    failure: Failure | None
    calls: Sequence[Call]
    abstained: AbstractSet[int] = frozenset()
    skipped: AbstractSet[int] = frozenset()
    saved: Mapping[str, int] = MappingProxyType({})
    stages: Mapping[str, tuple[Stage, ...]] = MappingProxyType({})
    entries: Mapping[int, Any] = MappingProxyType({})


def entry_failure(row: Row, node: Node, kind: str, message: str) -> Failure:
    """A failure of a unit at a row, or at one of its entries, whose number it names."""
    return Failure(kind, f"entry {row.item}: {message}" if row.item else message, node.id)
