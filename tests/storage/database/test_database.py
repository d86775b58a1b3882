"""A database of calls and rows: what is added is found, after a kill, a flipped bit or a foreign hand, too."""

from __future__ import annotations

import asyncio
import errno
import math
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import DataError, JournalError, OutputError
from verdict_cli.messages import Alternative, Message, Reply, Usage
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent, RowCall, StoredRow
from verdict_cli.storage.database.repair import repair
from verdict_cli.storage.database.schema import DamagedError, check_pages
from verdict_cli.storage.database.writer import Writer
from verdict_cli.storage.file_lock import exclusive

LONG = "Judge the answer. " * 100


def content(text: str = "yes", cost: float | None = 0.5) -> CallContent:
    logprobs = ((Alternative("yes", -0.1), Alternative("no", -math.inf)),)
    return CallContent(
        Reply(text, logprobs=logprobs, usage=Usage(3, 1), cost_usd=cost, model="m-1")
    )


def fill(path: Path, rows: int = 50) -> None:
    with Database.open(path) as database:
        for number in range(rows):
            messages = (Message("system", LONG), Message("user", f"Row {number}"))
            place = (number, "judge", "", 0, 0)
            call = database.add_call(
                b"%016d" % number, place, "m", content(f"reply {number}"), messages=messages
            )
            names = database.names(("row", "judge.score"))
            database.add_row(
                StoredRow(
                    number,
                    f"r{number}",
                    names,
                    [number, number / 3],
                    (RowCall(call.number, "judge"),),
                )
            )


def test_an_added_call_is_there_after_reopening(tmp_path):
    fill(tmp_path / "run.db")
    with Database.open(tmp_path / "run.db") as database:
        (call,) = database.find(b"%016d" % 7)
        assert call.content.reply == content("reply 7").reply
        assert database.messages(call.content) == (
            Message("system", LONG),
            Message("user", "Row 7"),
        )
        rows = list(database.rows())
    assert [row.values for row in rows] == [[number, number / 3] for number in range(50)]


def test_a_call_is_available_before_it_is_written(tmp_path):
    with Database.open(tmp_path / "run.db") as database:
        for number in range(500):
            database.add_call(b"%016d" % number, (0, "judge", "", 0, 0), "m", content(str(number)))
            (call,) = database.find(b"%016d" % number)
            assert call.content.reply is not None and call.content.reply.text == str(number)


def test_texts_that_calls_share_are_stored_once(tmp_path):
    fill(tmp_path / "run.db")
    connection = sqlite3.connect(tmp_path / "run.db")
    assert connection.execute("SELECT count(*) FROM texts").fetchone() == (1 + 50 + 1,)


def test_one_file_is_left_when_it_is_closed(tmp_path):
    fill(tmp_path / "run.db")
    assert [path.name for path in tmp_path.iterdir()] == ["run.db"]


@pytest.mark.parametrize("text", ["\ud800 half a pair", "ключ" * 300, "", "\0"])
def test_any_text_is_stored(tmp_path, text):
    with Database.open(tmp_path / "run.db") as database:
        database.add_call(
            b"k", (0, "judge", "", 0, 0), "m", content(text), messages=(Message("user", text),)
        )
        names = database.names((text,))
        database.add_row(StoredRow(0, text, names, [text, 2**80, {"a": [text]}, math.inf], ()))
    with Database.open(tmp_path / "run.db") as database:
        (call,) = database.find(b"k")
        assert call.content.reply == content(text).reply
        assert database.messages(call.content)[0].content == text
        assert next(database.rows()).values == [text, 2**80, {"a": [text]}, math.inf]


def test_flush_returns_once_the_disk_has_it(tmp_path):
    with Database.open(tmp_path / "run.db") as database:
        database.add_call(b"k", (0, "judge", "", 0, 0), "m", content())
        asyncio.run(database.writer.flush())
        with Database.open_foreign(tmp_path / "run.db") as other:
            assert len(other.find(b"k")) == 1


def test_a_reply_that_cannot_be_read_is_not_usable(tmp_path):
    with Database.open(tmp_path / "run.db") as database:
        call = database.add_call(b"k", (0, "judge", "", 0, 0), "m", content())
        database.mark_unusable(call.number)
        assert not database.find(b"k")[0].usable
    with Database.open(tmp_path / "run.db") as database:
        assert not database.find(b"k")[0].usable


def test_a_retracted_call_is_unavailable_and_still_costs(tmp_path):
    with Database.open(tmp_path / "run.db") as database:
        call = database.add_call(b"k", (0, "judge", "", 0, 0), "m", content())
        database.retract([call.number])
    with Database.open(tmp_path / "run.db") as database:
        assert database.find(b"k") == []
        assert database.spent() == [("m", 1, 0.5)]


def test_a_call_of_unknown_price_makes_the_sum_unknown(tmp_path):
    with Database.open(tmp_path / "run.db") as database:
        database.add_call(b"a", (0, "judge", "", 0, 0), "m", content(cost=0.5))
        database.add_call(b"b", (1, "judge", "", 0, 0), "m", content(cost=None))
    with Database.open_foreign(tmp_path / "run.db") as database:
        assert database.spent() == [("m", 2, None)]


def test_values_are_stored_by_name(tmp_path):
    with Database.open(tmp_path / "run.db") as database:
        database.put("facts", {"rows": 3})
        database.put("batch_1", {"calls": [1, 2]}, "batches")
    with Database.open(tmp_path / "run.db") as database:
        assert database.get("facts") == {"rows": 3}
        assert database.names_of("batches") == ["batch_1"]
        database.remove("batch_1", "batches")
    with Database.open_foreign(tmp_path / "run.db") as database:
        assert database.names_of("batches") == []


def is_sound(path: Path) -> bool:
    try:
        check_pages(path)
        with Database.open(path) as database:
            database.check_values()
            for _ in database.check_rows():
                pass
    except DamagedError:
        return False
    return True


def damages(data: bytes) -> list[bytes]:
    size = len(data)
    flips = [
        data[:index] + bytes([data[index] ^ 0x41]) + data[index + 1 :]
        for index in range(0, size, size // 150)
    ]
    return [b"", bytes(size), data[: size // 2], data[:100], data[: size - 5000], *flips]


def test_no_damage_gives_another_reply_or_an_internal_error(tmp_path):
    path = tmp_path / "run.db"
    fill(path)
    data = path.read_bytes()
    losses = 0
    for damaged in damages(data):
        for old in tmp_path.glob("run.db*"):
            old.unlink()
        path.write_bytes(damaged)
        if not is_sound(path):
            repair(path)
            losses += 1
        with Database.open(path) as database:
            for row in database.rows():
                assert row.values == [row.row, row.row / 3]
            for number in range(50):
                for call in database.find(b"%016d" % number):
                    assert call.content.reply == content(f"reply {number}").reply
    assert losses > 10


def test_most_of_a_damaged_database_is_copied_and_the_old_one_stays(tmp_path):
    path = tmp_path / "run.db"
    fill(path, 2000)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = bytes(4096)
    path.write_bytes(data)
    assert not is_sound(path)
    outcome = repair(path)
    assert outcome.kept.read_bytes() == data
    assert outcome.rows > 1500 and outcome.calls > 1500
    assert is_sound(path)


def test_a_foreign_database_with_other_tables_is_refused(tmp_path):
    path = tmp_path / "run.db"
    fill(path)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM calls; END")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match="does not have the tables"):
        Database.open_foreign(path)
    with pytest.raises(DamagedError):
        Database.open(path)


def test_a_foreign_database_is_not_written(tmp_path):
    fill(tmp_path / "run.db")
    before = (tmp_path / "run.db").read_bytes()
    tmp_path.chmod(0o500)
    try:
        with Database.open_foreign(tmp_path / "run.db") as database:
            assert len(list(database.rows())) == 50
    finally:
        tmp_path.chmod(0o700)
    assert (tmp_path / "run.db").read_bytes() == before


def test_a_database_that_another_program_locks_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("verdict_cli.storage.database.schema.BUSY_S", 0.2)
    path = tmp_path / "run.db"
    fill(path)

    async def work() -> None:
        with Database.open(path) as database:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            database.add_call(b"new", (0, "judge", "", 0, 0), "m", content())
            with pytest.raises(OutputError, match="locked by another program"):
                await database.writer.flush()
            other.execute("COMMIT")
            other.close()

    asyncio.run(work())
    with Database.open(path) as database:
        assert len(database.find(b"new")) == 1


def test_a_database_that_was_moved_is_reported(tmp_path):
    async def work() -> None:
        database = Database.open(tmp_path / "run.db")
        (tmp_path / "run.db").rename(tmp_path / "moved.db")
        (tmp_path / "run.db").touch()
        database.add_call(b"new", (0, "judge", "", 0, 0), "m", content())
        with pytest.raises(OutputError, match="removed or moved"):
            await database.writer.flush()

    asyncio.run(work())


def test_who_waits_while_the_writing_thread_fails_and_ends_gets_an_error(tmp_path, monkeypatch):
    """The thread failed after the check and before the wait: the wait had no end."""
    is_checked = threading.Event()
    check = Writer._check

    def fail(writer: Writer, _: Any) -> None:
        assert is_checked.wait(10)
        raise OSError(errno.ENOSPC, "No space left on device")

    def check_and_let_it_fail(writer: Writer) -> None:
        check(writer)
        is_checked.set()
        if not writer._lock.locked():
            assert writer._thread is not None
            writer._thread.join()

    async def work() -> None:
        database = Database.open(tmp_path / "run.db")
        database.add_call(b"new", (0, "judge", "", 0, 0), "m", content())
        monkeypatch.setattr(Writer, "_check", check_and_let_it_fail)
        with pytest.raises(OutputError, match="No space left"):
            await asyncio.wait_for(database.writer.flush(), 10)

    monkeypatch.setattr(Writer, "_commit", fail)
    asyncio.run(work())


def test_a_second_holder_of_the_lock_is_refused_at_once(tmp_path):
    lock = tmp_path / "run.lock"
    with (
        exclusive(lock),
        pytest.raises(JournalError, match="another run is writing"),
        exclusive(lock),
    ):
        pass
    with exclusive(lock):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_the_file_is_for_its_owner_only(tmp_path):
    with Database.open(tmp_path / "new" / "run.db") as database:
        database.put("facts", {})
        database.writer.wait()
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    assert set(modes.values()) == {0o600}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
