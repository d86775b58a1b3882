"""Entries run side by side, but only so many at a time, of all rows together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from verdict_cli.errors import BudgetError
from verdict_cli.run.attempts import EntrySlots
from verdict_cli.run.entries import run_entries


class Gauge:
    """Counts how many are inside, and the most that ever were."""

    def __init__(self) -> None:
        self.inside = self.most = 0

    async def __call__(self, place: int) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(3):
            await asyncio.sleep(0)
        self.inside -= 1
        return place


@pytest.mark.parametrize(
    ("count", "slots", "most"), [(500, 7, 8), (500, 0, 1), (3, 64, 3), (0, 4, 0)]
)
def test_as_many_entries_run_as_there_are_slots_and_one_more(count, slots, most):
    gauge, free = Gauge(), EntrySlots(slots)
    assert asyncio.run(run_entries(count, gauge, free)) == list(range(count))
    assert (gauge.most, free.free) == (most, slots)


def test_lists_of_several_rows_and_entries_share_the_slots_without_waiting():
    gauge, free = Gauge(), EntrySlots(5)

    async def row(_: int) -> Any:
        return await run_entries(20, gauge, free)

    async def rows() -> list[Any]:
        return await asyncio.gather(*(run_entries(10, row, free) for _ in range(4)))

    assert asyncio.run(rows()) == [[list(range(20))] * 10] * 4
    assert gauge.most <= 4 + 5
    assert free.free == 5


def test_an_error_that_stops_the_run_starts_no_entry_and_waits_for_running_ones():
    started, ended, free = [], [], EntrySlots(3)

    async def run(place: int) -> None:
        started.append(place)
        await asyncio.sleep(0)
        if place == 1:
            raise BudgetError("spent")
        await asyncio.sleep(0)
        ended.append(place)

    with pytest.raises(BudgetError):
        asyncio.run(run_entries(100, run, free))
    assert len(started) <= 8
    assert sorted([*ended, 1]) == sorted(started)
    assert free.free == 3
