"""Run the entries of an `each` side by side, and lay out what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import ProviderError, ReplyError, RowError, VerdictError
from verdict_cli.language.expressions.turns import Turn
from verdict_cli.llm.batches.parking import ParkedError
from verdict_cli.messages import Call, Entry, Failure, Row, Stage
from verdict_cli.plan.levels import EachGroup, field_lists, present
from verdict_cli.plan.node import Node
from verdict_cli.run.attempts import EntrySlots
from verdict_cli.run.node_run import answer_node, fails_row
from verdict_cli.run.per_call import answer_together, together

if TYPE_CHECKING:
    from verdict_cli.run.row import RowRunner

T = TypeVar("T")


async def run_entries(count: int, run: Callable[[int], Awaitable[T]], slots: EntrySlots) -> list[T]:
    """What ``run`` gives for each entry, in order. After an error that stops the run, no further entry is started; those
    that are running are waited for, since their calls are paid for. Entries that wait for a batch hold back no other."""
    found: list[Any] = [None] * count
    places: Iterator[int] = iter(range(count))
    errors: list[VerdictError] = []
    parked: list[ParkedError] = []
    workers: list[asyncio.Task[None]] = []
    started = 0

    async def work(*, holds_slot: bool) -> None:
        nonlocal started
        try:
            for place in places:
                started += 1
                if started < count and slots.free > 0:
                    slots.free -= 1
                    workers.append(asyncio.create_task(work(holds_slot=True)))
                try:
                    found[place] = await run(place)
                except ParkedError as waiting:
                    parked.append(waiting)
                except VerdictError as error:
                    errors.append(error)
                if errors:
                    return
        finally:
            if holds_slot:
                slots.free += 1

    try:
        await work(holds_slot=False)
        while workers:
            await workers.pop()
    finally:
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.gather(*workers, return_exceptions=True)
    if errors or parked:
        raise [*errors, *parked][0]
    return found


def entry_rows(row: Row, group: EachGroup, entries: Sequence[Any]) -> list[Row]:
    """The row with each of the entries."""
    outer = row.entry
    names: Mapping[str, Any] = {} if outer is None else outer.names
    before, key = ("", "") if outer is None else (f"{outer.item}.", outer.key)
    seen: dict[str, int] = {}
    rows = []
    for place, entry in enumerate(entries):
        digest = _digest([key, entry.digest if isinstance(entry, Turn) else entry])
        copy = seen[digest] = seen.get(digest, -1) + 1
        inside = {**names, group.name: entry, "index": place}
        rows.append(
            replace(row, entry=Entry(f"{before}{place}", inside, len(entries), f"{digest}.{copy}" if copy else digest))
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


async def fan_out(row_runner: RowRunner, head: int) -> None:
    """Run the units inside an `each` for every entry of its list."""
    place = row_runner.level.groups[head]
    group, level = row_runner.plan.groups[place], row_runner.plan.inner_levels[place]
    try:
        rows = entry_rows(row_runner.row, group, group.list_of(row_runner.values()))
    except RowError as error:
        node = row_runner.plan.nodes[head]
        row_runner.failures[head] = entry_failure(row_runner.row, node, error.failure, str(error))
        return

    alone = _only_unit(row_runner, group)

    async def run_entry(number: int) -> _EntryOutcome:
        if alone is not None:
            return await _run_unit(row_runner, alone, rows[number])
        runner = row_runner.inside(rows[number], level)
        result = await runner.run()
        outputs = [runner.outputs[unit] for unit in group.nodes]
        return _EntryOutcome(
            outputs,
            result.failure,
            result.calls,
            runner.abstained,
            runner.skipped,
            result.saved,
            result.stages,
            result.entries,
        )

    async def run_some(number: int) -> list[_EntryOutcome]:
        assert group.per_call is not None
        some = rows[number * group.per_call : (number + 1) * group.per_call]
        if len(some) == 1:
            return [await run_entry(number * group.per_call)]
        return await _run_together(row_runner, row_runner.plan.nodes[head], some)

    if group.per_call is None or alone is None:
        found = await run_entries(len(rows), run_entry, row_runner.context.slots)
    else:
        chunks = -(-len(rows) // group.per_call)
        found = [entry for some in await run_entries(chunks, run_some, row_runner.context.slots) for entry in some]
    row_runner.calls[head] = [call for entry in found for call in entry.calls]
    names = [shown_names(row, group) for row in rows]
    for index in group.nodes:
        if row_runner.plan.nodes[index].groups[-1] == place:
            shown = [None if index in entry.skipped else one for one, entry in zip(names, found, strict=True)]
            row_runner.entries[index] = shown
        else:
            row_runner.entries[index] = [entry.entries.get(index) for entry in found]
    for entry in found:
        for pool, count in entry.saved.items():
            row_runner.saved[pool] = row_runner.saved.get(pool, 0) + count
        for unit, stages in entry.stages.items():
            known = row_runner.inner_stages.get(unit)
            row_runner.inner_stages[unit] = (
                stages if known is None else tuple(one.plus(other) for one, other in zip(known, stages, strict=True))
            )
    for number, index in enumerate(group.nodes):
        row_runner.outputs[index] = [entry.outputs[number] for entry in found]
    failed = next((entry.failure for entry in found if entry.failure is not None), None)
    if failed is not None:
        row_runner.failures[head] = failed
        return
    depth = 0 if row_runner.row.entry is None else 1 + row_runner.row.entry.item.count(".")
    for index in group.nodes:
        node = row_runner.plan.nodes[index]
        if found and all(index in entry.skipped for entry in found):
            row_runner.skipped.add(index)
        if any(index in entry.abstained for entry in found):
            row_runner.abstained.add(index)
        levels = len(node.groups) - depth
        left = row_runner.previous[node.id] = present(row_runner.outputs[index], levels)
        for name in node.output.fields:
            row_runner.previous[f"{node.id}.{name}"] = field_lists(left, name, levels)
    row_runner.done(head)


def has_output(output: Any) -> bool:
    """Whether there is an output; of a unit inside `each`, whether any entry has one."""
    return any(map(has_output, output)) if isinstance(output, list) else output is not None


def is_empty(output: Any) -> bool:
    """Whether it is a list without entries, also inside its entries."""
    return isinstance(output, list) and all(map(is_empty, output))


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


def _only_unit(row_runner: RowRunner, group: EachGroup) -> Node | None:
    """The only unit inside an `each`, where it calls a model and nothing but its answer decides what it gives."""
    node = row_runner.plan.nodes[group.head]
    many = len(group.nodes) > 1 or len(node.groups) > 1 + len(group.around)  # of an `each` inside this one
    many = bool(many or node.checked or node.escalation is not None or not node.stages)
    return None if many or not row_runner.skipped.isdisjoint(node.needs) else node


async def _run_unit(row_runner: RowRunner, node: Node, row: Row) -> _EntryOutcome:
    """Run the only unit at an entry, without the bookkeeping of several, which costs as much as the call's own."""
    calls: list[Call] = []
    try:
        with row_runner.context.unit(node.id) as ended:
            answered = await answer_node(node, row, row_runner.previous, row_runner.context, calls)
            ended(answered.output)
    except (ReplyError, ProviderError, RowError) as error:
        if not fails_row(error):
            raise
        failure = None if node.skips else entry_failure(row, node, error.failure, str(error))
        return _EntryOutcome([None], failure, calls)
    return _EntryOutcome([answered.output], None, calls)


async def _run_together(row_runner: RowRunner, node: Node, rows: Sequence[Row]) -> list[_EntryOutcome]:
    """Run the only unit at several entries by one call, which is counted as the first entry's."""
    calls: list[Call] = []
    failure = None
    outputs: Sequence[Any] = [None] * len(rows)
    try:
        with row_runner.context.unit(node.id) as ended:
            outputs = await answer_together(node, rows, row_runner.previous, row_runner.context, calls)
            ended(None)
    except (ReplyError, ProviderError, RowError) as error:
        if not fails_row(error):
            raise
        failure = None if node.skips else entry_failure(together(rows), node, error.failure, str(error))
    outcomes = [_EntryOutcome([output], None, ()) for output in outputs]
    outcomes[0].failure, outcomes[0].calls = failure, calls
    return outcomes


def entry_failure(row: Row, node: Node, kind: str, message: str) -> Failure:
    """A failure of a unit at a row, or at one of its entries, whose number it names."""
    return Failure(kind, f"entry {row.item}: {message}" if row.item else message, node.id)
