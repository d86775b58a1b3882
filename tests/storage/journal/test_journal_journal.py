"""What was settled is on disk, whatever happens afterwards."""

import asyncio
import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.messages import Alternative, Reply, Usage
from verdict_cli.storage.file_reads import FileRead, reads_observed
from verdict_cli.storage.journal.entry import JournalEntry, decode_entry, encode_entry
from verdict_cli.storage.journal.journal import Journal


def entry(row: object, node: str = "judge", text: str = "four") -> JournalEntry:
    logprobs = ((Alternative("4", -0.1), Alternative("ö", -2.5)),)
    return JournalEntry(
        str(row), node, 0, 0, Reply(text, "stop", logprobs, Usage(10, 1), None, "m", 0.25), latency_s=0.25
    )


def filled(path: Path, rows: int) -> None:
    with Journal.open(path) as journal:
        for row in range(rows):
            journal.append(entry(row))


def test_entries_are_recalled_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "out" / "journal.jsonl"
    failed = JournalEntry("3", "judge", 1, 2, None, "timeout", "too slow", retryable=True)
    with Journal.open(path) as journal:
        journal.append(entry(0))
        journal.append(failed)
        journal.append(entry(0, text="five"))
    with Journal.open(path) as journal:
        assert len(journal) == 2
        assert journal.recall("0", "judge", 0, 0) == entry(0, text="five")
        assert journal.recall("3", "judge", 1, 2) == failed
        assert journal.recall("3", "judge", 1, 1) is None
        assert journal.recall("0", "judge[0]", 0, 0) is None


def test_opening_a_big_journal_tells_how_much_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = encode_entry(entry(0, text="long " * 20_000), "")
    path.write_bytes(line * 30)
    reads: list[FileRead] = []
    with reads_observed(reads.append), Journal.open(path):
        pass
    assert [(read.path, read.unit, read.total) for read in reads] == 2 * [(path, "bytes", len(line) * 30)]
    assert 1 << 20 <= reads[0].done < reads[1].done <= reads[1].total


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    filled(tmp_path / "journal.jsonl", 1)
    assert stat.S_IMODE((tmp_path / "journal.jsonl").stat().st_mode) == 0o600


def test_fresh_forgets_the_earlier_run(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 3)
    with Journal.open(path, fresh=True) as journal:
        assert len(journal) == 0
        journal.append(entry(1))
    assert path.read_bytes().count(b"\n") == 1


def test_a_file_cut_at_any_byte_keeps_every_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # 700 of them take seconds
    path = tmp_path / "journal.jsonl"
    filled(path, 5)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(b"".join(lines[:2])), len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n")
        with Journal.open(path) as journal:
            assert path.read_bytes() == b"".join(lines[:complete])
            assert [journal.recall(str(row), "judge", 0, 0) is not None for row in range(5)] == [
                row < complete for row in range(5)
            ]
            journal.append(entry(9))
        assert path.read_bytes().count(b"\n") == complete + 1
        assert all(decode_entry(line) for line in path.read_bytes().splitlines(keepends=True))


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"garbage\nmore\n", b"{}\n\n\n", b"\xff\xfe", b'{"row":1,\n'])
def test_garbage_behind_the_last_entry_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 2)
    good = path.read_bytes()
    path.write_bytes(good + tail)
    with Journal.open(path) as journal:
        assert len(journal) == 2
    assert path.read_bytes() == good


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0" * (len(lines[1]) - 1) + b"\n" + lines[2])
    with Journal.open(path) as journal:
        assert [journal.recall(str(row), "judge", 0, 0) is not None for row in range(3)] == [True, False, True]


def test_a_line_whose_reply_is_damaged_is_no_call(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 2)
    path.write_bytes(path.read_bytes().replace(b'"text"', b'"test"', 1))
    with Journal.open(path) as journal:
        assert [journal.recall(str(row), "judge") is not None for row in range(2)] == [False, True]


def test_a_call_is_found_only_under_the_fingerprint_of_its_node(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for nodes in ({"judge": "a"}, {"judge": "b"}):
        with Journal.open(path, nodes) as journal:
            assert journal.recall("0", "judge") is None
            journal.append(entry(0, text=nodes["judge"]))
    for name in "ab":
        with Journal.open(path, {"judge": name}) as journal:
            found = journal.recall("0", "judge")
            assert found is not None and found.reply is not None and found.reply.text == name


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    with Journal.open(path), pytest.raises(JournalError, match=r"another run is writing to .*run"):
        Journal.open(path, fresh=True)
    Journal.open(path).close()


def test_a_writer_in_another_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    program = (
        "import sys, pathlib\n"
        "from verdict_cli.storage.journal.journal import Journal\n"
        "try: Journal.open(pathlib.Path(sys.argv[1])).close()\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    root = Path(__file__).parents[3]
    with Journal.open(path):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], cwd=root, capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "JournalError"


def test_settled_entries_are_on_disk_and_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    sizes: list[int] = []
    sync = os.fsync

    def counted(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    async def run() -> None:
        with Journal.open(path) as journal:
            monkeypatch.setattr(os, "fsync", counted)
            for row in range(3):
                journal.append(entry(row))
                await journal.flush()
                assert sizes[-1] == path.stat().st_size
                assert len(path.read_bytes().splitlines()) == row + 1
            await journal.flush()
        assert len(sizes) == 3

    asyncio.run(run())


def test_an_entry_outlives_its_process_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path) as journal:
        journal.append(entry(0))
        assert decode_entry(path.read_bytes()) == entry(0)


def test_entries_of_an_earlier_run_are_told_from_those_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 2)
    with Journal.open(path) as journal:
        journal.append(entry(2))
        asyncio.run(journal.flush())
        assert [journal.has(str(row), "judge") for row in range(4)] == [True, True, False, False]
        assert journal.recall("2", "judge") is None
        assert len(journal) == 2


def test_many_who_settle_share_few_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    path = tmp_path / "journal.jsonl"

    async def one(journal: Journal, row: int) -> None:
        journal.append(entry(row))
        await journal.flush()
        assert encode_entry(entry(row)) in path.read_bytes()

    async def run() -> None:
        with Journal.open(path) as journal:
            monkeypatch.setattr(os, "fsync", syncs.append)
            await asyncio.gather(*(one(journal, row) for row in range(500)))

    asyncio.run(run())
    assert len(syncs) <= 3
    assert path.read_bytes().count(b"\n") == 500


def test_a_cancelled_settle_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    async def run() -> Journal:
        journal = Journal.open(path)
        journal.append(entry(0))
        waiting = [asyncio.create_task(journal.flush()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(*waiting[1:])
        journal.append(entry(1))
        last = asyncio.create_task(journal.flush())
        await asyncio.sleep(0)
        last.cancel()
        return journal

    journal = asyncio.run(run())
    journal.append(entry(2))
    asyncio.run(journal.flush())
    journal.close()
    assert [decode_entry(line) for line in path.read_bytes().splitlines()] == [entry(row) for row in range(3)]


def test_a_full_disk_is_told_to_everybody_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 1)
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return write(descriptor, bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    async def run() -> None:
        with Journal.open(path) as journal:
            monkeypatch.setattr(os, "write", full)
            with pytest.raises(OutputError, match="No space left"):
                journal.append(entry(1))
            outcomes = await asyncio.gather(*(journal.flush() for _ in range(3)), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [OutputError] * 3
            assert "journal.jsonl: the journal cannot be written: No space left" in str(outcomes[0])
            monkeypatch.undo()
            with pytest.raises(OutputError):
                journal.append(entry(2))
            with pytest.raises(OutputError):
                await journal.flush()

    asyncio.run(run())
    with Journal.open(path) as journal:
        assert len(journal) == 1
        assert journal.recall("0", "judge", 0, 0) == entry(0)


def test_a_directory_in_its_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the journal cannot be written"):
        Journal.open(tmp_path)


def test_a_line_without_its_end_is_not_joined_to_the_next_entry(tmp_path: Path) -> None:
    first, cut, last = (JournalEntry(str(row), "judge", 0, 0, Reply(f"reply {row}")) for row in range(3))
    with Journal.open(tmp_path / "journal.jsonl") as journal:
        journal.include([encode_entry(first), encode_entry(cut).removesuffix(b"\n")])
        journal.append(last)
    with Journal.open(tmp_path / "journal.jsonl") as journal:
        assert [journal.has(entry.row, "judge") for entry in (first, cut, last)] == [True, False, True]


def test_a_damaged_line_is_counted_and_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"four", b"five") + lines[2])
    with Journal.open(path) as journal:
        assert journal.damaged == 1
        assert [journal.recall(row, "judge") for row in "012"] == [entry(0), None, entry(2)]


@pytest.mark.parametrize("change", ["removed", "moved", "replaced"])
def test_a_journal_that_was_taken_away_stops_the_run_at_the_next_flush(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "out"

    async def write() -> None:
        journal = Journal.open(folder / "journal.jsonl")
        try:
            journal.append(entry(0))
            await journal.flush()
            if change == "removed":
                shutil.rmtree(folder)
            else:
                folder.rename(tmp_path / "elsewhere")
            if change == "replaced":
                filled(folder / "journal.jsonl", 1)
            journal.append(entry(1))
            with pytest.raises(OutputError, match="removed or moved"):
                await journal.flush()
            with pytest.raises(OutputError, match="removed or moved"):
                journal.append(entry(2))
        finally:
            journal.close()

    asyncio.run(write())
