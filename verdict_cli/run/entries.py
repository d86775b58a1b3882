"""Run the entries of an `each` side by side, and lay out what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import orjson
from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.messages import Entry, Row
from verdict_cli.plan.levels import EachGroup, spread_outputs
from verdict_cli.plan.node import Node

T = TypeVar("T")
ENTRY_SLOTS = 64
"""How many entries beyond one of each list run at a time where nothing else is said."""


class EntrySlots:
    """How many more entries may be run at a time by all rows together.

    Each list always runs one entry, also without a slot: a list inside an entry can then not wait for its own end.
    """

    def __init__(self, free: int = ENTRY_SLOTS) -> None:
        self.free = free


async def run_entries(count: int, run: Callable[[int], Awaitable[T]], slots: EntrySlots) -> list[T]:
    """What ``run`` gives for each entry, in order. After an error that stops the run, no further entry is started; those
    that are running are waited for, since their calls are paid for."""
    found: list[Any] = [None] * count
    places: Iterator[int] = iter(range(count))
    errors: list[VerdictError] = []
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
    if errors:
        raise errors[0]
    return found


def entry_rows(row: Row, group: EachGroup, entries: Sequence[Any]) -> list[Row]:
    """The row with each of the entries."""
    outer = row.entry
    names: Mapping[str, Any] = {} if outer is None else outer.names
    before, key = ("", "") if outer is None else (f"{outer.item}.", outer.key)
    seen: dict[str, int] = {}
    rows = []
    for place, entry in enumerate(entries):
        digest = _digest([key, entry])
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
    if group.is_turns:
        names[group.name] = {key: value for key, value in names[group.name].items() if key not in ("before", "message")}
    return names


def entry_names(
    node: Node, lists: Mapping[int, int], row: Row, outputs: Sequence[Any], entries: Mapping[int, Any]
) -> list[Mapping[str, Any]]:
    """The names that each output before a node has beside it: those of its entry, and its number as `index`.

    ``lists`` has the innermost `each` around each parent that is inside one, ``entries`` the names of the entries of each.
    """
    around: Mapping[str, Any] = {} if row.entry is None else row.entry.names
    if node.spread is None:
        return [{**around, "index": place} for place in range(len(node.parents))]
    found: list[Mapping[str, Any]] = []
    for parent, places, _ in spread_outputs(node.spread, outputs.__getitem__):
        names: Any = entries[lists[parent]] if places else {}
        for place in places:
            names = names[place]
        found.append({**around, **names, "index": places[-1] if places else len(found)})
    return found
