"""Run the entries of an `each` side by side, and lay out what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson
from msgspec.structs import replace

from verdict_cli.errors import Pending, RowError, VerdictError
from verdict_cli.language.expressions.entry_lists import Turn
from verdict_cli.messages import (
    Entry,
    Failure,
    JsonObject,
    NamedValues,
    Result,
    Row,
    add_counts,
    add_stages,
)
from verdict_cli.plan.levels import EachGroup, field_lists, present
from verdict_cli.plan.node import Node
from verdict_cli.run.attempts import EntrySlots
from verdict_cli.run.event_loop import cancel_all

if TYPE_CHECKING:
    from verdict_cli.run.row import RowRunner


T = TypeVar("T")


async def run_entries(count: int, run: Callable[[int], Awaitable[T]], slots: EntrySlots) -> list[T]:
    """What ``run`` gives for each entry, in order. After an error that stops the run, no further entry is started; those
    that are running are waited for, since their calls are paid for. Entries with a pending call hold back no other."""
    outcomes: list[Any] = [None] * count
    errors: list[VerdictError] = []
    pending: list[Pending] = []
    workers: set[asyncio.Task[None]] = set()
    numbers = iter(range(count))

    async def work(taken_slots: int) -> None:
        try:
            for number in numbers:
                if number + 1 < count and slots.free > 0:
                    slots.free -= 1
                    workers.add(asyncio.create_task(work(1)))
                try:
                    outcomes[number] = await run(number)
                except Pending as error:
                    pending.append(error)
                except VerdictError as error:
                    errors.append(error)
                if errors:
                    return
        finally:
            slots.free += taken_slots

    try:
        await work(0)
        while workers:
            await workers.pop()
    finally:
        await cancel_all(workers)
    if errors or pending:
        raise [*errors, *pending][0]
    return outcomes


def entry_rows(row: Row, group: EachGroup, entries: Sequence[Any]) -> list[Row]:
    """The row with each of the entries."""
    outer = row.entry
    names: NamedValues = {} if outer is None else outer.names
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


def shown_names(row: Row, group: EachGroup) -> JsonObject:
    """The entries that a unit inside sees, by name, as the results have them: turns without the messages before them."""
    assert row.entry is not None
    names = {name: entry for name, entry in row.entry.names.items() if name != "index"}
    if isinstance(names[group.name], Turn):
        names[group.name] = names[group.name].row_columns()
    return names


class _EntryRun(NamedTuple):
    """An entry that was run: its result, and the units that were skipped and that abstained."""

    result: Result
    skipped: AbstractSet[int]
    abstained: AbstractSet[int]


async def fan_out(runner: RowRunner, head: int) -> None:
    """Run the units inside an `each` at every entry of its list. ``runner`` is that of the row, and takes what they give."""
    number = runner.level.groups[head]
    group, node = runner.plan.groups[number], runner.plan.nodes[head]
    try:
        rows = entry_rows(runner.row, group, group.list_of(runner.values()))
    except RowError as error:
        runner.failures[head] = entry_failure(runner.row, node, error.failure, str(error))
        return

    async def run_entry(index: int) -> _EntryRun:
        inner = runner.inside(rows[index], runner.plan.inner_levels[number])
        return _EntryRun(await inner.run(), inner.skipped, inner.abstained)

    # All questions of a row wait for one another, in one request to a decision model.
    slots = EntrySlots(len(rows)) if node.asks_decisions else runner.context.slots
    entries = await run_entries(len(rows), run_entry, slots)
    results = [entry.result for entry in entries]
    runner.calls[head] = [call for result in results for call in result.calls]
    for result in results:
        add_counts(runner.saved, result.saved)
        add_stages(runner.inner_stages, result.stages)
    names = [shown_names(row, group) for row in rows]
    for index in group.nodes:
        runner.outputs[index] = [result.outputs[index] for result in results]
        if runner.plan.nodes[index].groups[-1] == number:
            runner.entries[index] = [
                None if index in entry.skipped else name
                for name, entry in zip(names, entries, strict=True)
            ]
        else:
            runner.entries[index] = [result.entries.get(index) for result in results]
    failure = next((result.failure for result in results if result.failure is not None), None)
    if failure is not None:
        runner.failures[head] = failure
        return
    _show_lists(runner, group, entries)
    runner.done(head)


def _show_lists(runner: RowRunner, group: EachGroup, entries: Sequence[_EntryRun]) -> None:
    """Have later units see the units inside, and each of their fields, as lists without what was skipped."""
    depth = 0 if runner.row.entry is None else 1 + runner.row.entry.item.count(".")
    for index in group.nodes:
        node = runner.plan.nodes[index]
        if entries and all(index in entry.skipped for entry in entries):
            runner.skipped.add(index)
        if any(index in entry.abstained for entry in entries):
            runner.abstained.add(index)
        levels = len(node.groups) - depth
        outputs = runner.previous[node.id] = present(runner.outputs[index], levels)
        for name in node.output.fields:
            runner.previous[f"{node.id}.{name}"] = field_lists(outputs, name, levels)


def has_output(output: Any) -> bool:
    """Whether there is an output; of a unit inside `each`, whether any entry has one."""
    return any(map(has_output, output)) if isinstance(output, list) else output is not None


def is_empty(output: Any) -> bool:
    """Whether it is a list without entries, also inside its entries."""
    return isinstance(output, list) and all(map(is_empty, output))


def entry_failure(row: Row, node: Node, kind: str, message: str) -> Failure:
    """A failure of a unit at a row, or at one of its entries, whose number it names."""
    return Failure(kind, f"entry {row.item}: {message}" if row.item else message, node.id)
