"""The run's journal dealt to parts and gathered from them again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from verdict_cli.messages import Reply, Row
from verdict_cli.storage.journal.entry import JournalEntry
from verdict_cli.storage.journal.journal import JOURNAL, Journal
from verdict_cli.storage.journal.partition import (
    COPIED,
    clear_partitions,
    merge_partitions,
    part_name,
    partition_journal,
)

ROWS = [Row(place, place, {}, f"{place:032x}") for place in range(10)]
NODES = {"judge": "now"}


def kept(path: Path, rows: list[Row], nodes: dict[str, str] = NODES, cost: float = 0.5) -> None:
    with Journal.open(path, nodes) as journal:
        for row in rows:
            journal.append(JournalEntry(row.key, "judge", 0, 0, Reply("3", cost_usd=cost)))


def test_each_part_has_the_lines_of_its_rows_and_their_cost_is_known(tmp_path: Path) -> None:
    journal, parts = tmp_path / "journal.jsonl", tmp_path / "parts"
    pinned = Row(-1, "pinned", {}, "pinned")
    kept(journal, [*ROWS[7:], ROWS[0], pinned, Row(0, 0, {}, "gone")])
    kept(journal, ROWS[:1], {"judge": "before"})
    assert partition_journal(journal, parts, ROWS, 4, NODES) == 5 * 0.5
    found = {one.name: len((one / JOURNAL).read_bytes().splitlines()) for one in parts.iterdir()}
    assert found == {part_name(0): 2, part_name(1): 1, part_name(2): 2, "pinned": 1}
    with Journal.open(parts / part_name(1) / JOURNAL, NODES) as part:
        assert part.recall(ROWS[7].key, "judge") is not None


def test_only_what_a_part_has_added_is_gathered(tmp_path: Path) -> None:
    journal, parts = tmp_path / "journal.jsonl", tmp_path / "parts"
    kept(journal, ROWS[:4])
    partition_journal(journal, parts, ROWS, 4, NODES)
    kept(parts / part_name(0) / JOURNAL, ROWS[4:6])
    kept(parts / part_name(1) / JOURNAL, ROWS[6:8])
    with (parts / part_name(1) / JOURNAL).open("ab") as file:
        file.write(b'{"row": "torn')
    assert not (parts / part_name(1) / COPIED).exists()
    with Journal.open(journal, NODES) as whole:
        asyncio.run(merge_partitions(tmp_path, None, whole))
    lines = journal.read_bytes().splitlines()
    assert len(lines) == len(set(lines)) == 8
    with Journal.open(journal, NODES) as whole:
        assert all(whole.recall(row.key, "judge") for row in ROWS[:8])
    clear_partitions(tmp_path, None, ())
    assert not parts.exists()
