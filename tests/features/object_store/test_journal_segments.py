"""A journal in a store: what was settled is there, whatever became of the objects behind it and of the copy here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.features.object_store import run_store as segments
from verdict_cli.features.object_store.run_store import RemoteFolder, Segments
from verdict_cli.messages import Reply
from verdict_cli.storage.journal.entry import JournalEntry
from verdict_cli.storage.journal.journal import SENT, Journal

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteFolder]:
    monkeypatch.setattr(segments, "PACE_S", 0.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    yield RemoteFolder.at("memory://journals/run")
    fsspec.filesystem("memory").store.clear()


def entry(row: object, text: str = "four") -> JournalEntry:
    return JournalEntry(str(row), "judge", 0, 0, Reply(text))


def opened(place: RemoteFolder, folder: Path, *, fresh: bool = False) -> Journal:
    return Journal.open(folder / "journal.jsonl", fresh=fresh, segments=Segments(place))


def kept(place: RemoteFolder, folder: Path, *batches: range) -> None:
    """An object for each batch of rows."""
    with opened(place, folder) as journal:
        for batch in batches:
            for row in batch:
                journal.append(entry(row))
            asyncio.run(journal.flush())


def has(journal: Journal, rows: int) -> list[bool]:
    return [journal.recall(str(row), "judge") is not None for row in range(rows)]


def test_what_is_settled_is_in_the_store_in_as_many_objects_as_it_was_settled(
    place: RemoteFolder, tmp_path: Path
) -> None:
    with opened(place, tmp_path) as journal:
        journal.append(entry(0))
        journal.append(entry(1))
        assert place.names() == []
        asyncio.run(journal.flush())
        assert len(place.names("journal")) == 1
        assert b"".join(place.read_all(place.names())) == (tmp_path / "journal.jsonl").read_bytes()
        asyncio.run(journal.flush())
        assert len(place.names("journal")) == 1
    with opened(place, tmp_path / "elsewhere") as journal:
        assert has(journal, 3) == [True, True, False]
        assert journal.has("0", "judge")
        journal.append(entry(0, "five"))
    with opened(place, tmp_path / "third") as journal:
        found = journal.recall("0", "judge")
        assert found is not None and found.reply is not None and found.reply.text == "five"


def test_a_last_object_cut_at_any_byte_keeps_every_whole_line(place: RemoteFolder, tmp_path: Path) -> None:
    kept(place, tmp_path, range(2), range(2, 5))
    last = place.names("journal")[-1]
    whole = place.read(last) or b""
    for cut in range(len(whole) + 1):
        place.remove(place.names("journal")[1:])
        place.write(last, whole[:cut])
        with opened(place, tmp_path / f"cut-{cut}") as journal:
            complete = 2 + sum(
                whole[:cut].startswith(whole[: len(line) - 1])
                for line in (b"".join(whole.splitlines(keepends=True)[:n]) for n in (1, 2, 3))
            )
            assert has(journal, 5) == [row < complete for row in range(5)]
            journal.append(entry(9))
        with opened(place, tmp_path / f"again-{cut}") as journal:
            assert has(journal, 10) == [row < complete or row == 9 for row in range(10)]


def test_an_object_that_is_gone_costs_only_its_own_lines(place: RemoteFolder, tmp_path: Path) -> None:
    kept(place, tmp_path, range(2), range(2, 4), range(4, 6))
    place.remove([place.names("journal")[1]])
    with opened(place, tmp_path / "elsewhere") as journal:
        assert has(journal, 6) == [True, True, False, False, True, True]


def test_what_a_killed_process_had_not_sent_is_sent_by_the_next_one_here(place: RemoteFolder, tmp_path: Path) -> None:
    kept(place, tmp_path, range(2))
    path = tmp_path / "journal.jsonl"
    with Journal.open(path) as journal:  # which sends nothing
        journal.append(entry(2))
    with path.open("ab") as file:
        file.write(b'{"row": "torn')
    with opened(place, tmp_path) as journal:
        assert has(journal, 3) == [True, True, True]
    assert len(place.names("journal")) == 2
    with opened(place, tmp_path / "elsewhere") as journal:
        assert has(journal, 3) == [True, True, True]


@pytest.mark.parametrize("told", ["", "x", "0", "99999999"])
def test_a_note_of_what_was_sent_that_is_wrong_loses_nothing_that_the_store_has(
    told: str, place: RemoteFolder, tmp_path: Path
) -> None:
    kept(place, tmp_path, range(3))
    (tmp_path / SENT).write_text(told)
    with opened(place, tmp_path) as journal:
        assert has(journal, 3) == [True, True, True]


def test_a_store_that_refuses_is_told_to_all_who_wait_and_what_it_has_not_stays_here(
    place: RemoteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OutputError("the store refuses")

    async def run() -> None:
        with opened(place, tmp_path) as journal:
            monkeypatch.setattr(RemoteFolder, "write", refuse)
            journal.append(entry(0))
            outcomes = await asyncio.gather(*(journal.flush() for _ in range(3)), return_exceptions=True)
            assert [str(one) for one in outcomes] == ["the store refuses"] * 3
            assert journal.recall("0", "judge") is None
            journal.append(entry(1))
            with pytest.raises(OutputError):
                await journal.flush()

    asyncio.run(run())
    monkeypatch.undo()
    with opened(place, tmp_path) as journal:
        assert has(journal, 2) == [True, True]


def test_nothing_is_written_once_another_has_taken_over(place: RemoteFolder, tmp_path: Path) -> None:
    def lost() -> int:
        raise JournalError("another run has taken over")

    journal = Journal.open(tmp_path / "journal.jsonl", segments=Segments(place, lost))
    journal.append(entry(0))
    with pytest.raises(JournalError):
        asyncio.run(journal.flush())
    journal.close()
    assert place.names() == []


def test_fresh_removes_all_lines_and_a_whole_journal_its_objects(place: RemoteFolder, tmp_path: Path) -> None:
    kept(place, tmp_path, range(2), range(2, 4))
    Segments(place).put_whole(tmp_path / "journal.jsonl")
    assert place.names() == ["journal.jsonl"]
    kept(place, tmp_path / "elsewhere", range(4, 5))
    with opened(place, tmp_path / "third") as journal:
        assert has(journal, 5) == [True] * 5
    opened(place, tmp_path / "third", fresh=True).close()
    assert place.names() == []


def test_much_at_once_is_sent_in_several_objects_of_whole_lines(
    place: RemoteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verdict_cli.storage.journal import journal as module

    monkeypatch.setattr(module, "_SEGMENT_BYTES", 300)
    kept(place, tmp_path, range(10))
    contents = list(place.read_all(place.names("journal")))
    assert len(contents) > 3
    assert all(content.endswith(b"\n") for content in contents)
    assert b"".join(contents) == (tmp_path / "journal.jsonl").read_bytes()


def test_lines_of_a_writer_that_was_taken_over_sort_before_those_of_the_new_one(
    place: RemoteFolder, tmp_path: Path
) -> None:
    new, old = Segments(place, lambda: 2), Segments(place, lambda: 1)
    for writer, line in ((old, b"a\n"), (new, b"c\n"), (new, b"d\n"), (old, b"b\n")):
        writer.put(line)
    assert b"".join(place.read_all(place.names("journal"))) == b"a\nb\nc\nd\n"
