"""A database of calls, finished rows and batches, and what is looked up in it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from verdict_cli.messages import Message
from verdict_cli.storage.database.records import (
    CallContent,
    Images,
    StoredCall,
    StoredRow,
    check,
    checksum,
    decode,
    decode_text,
    encode,
    encode_text,
)
from verdict_cli.storage.database.schema import (
    DamagedError,
    check_schema,
    connect,
    create,
    damage_raised,
    last_number,
    open_foreign,
    refused,
    select,
)
from verdict_cli.storage.database.writer import Writer

RUN_DB = "run.db"
"""The name of the file in a run's directory."""
_SHARED_TEXTS = 5_000
"""Texts whose numbers are remembered, so that calls share them."""
_TOGETHER = 500
"""Records that are read by one statement."""
_CACHE_KB = 32_000
_CALLS = select("calls")
_LONGEST_IMAGE = 200


class Spent(NamedTuple):
    """The calls of a model in a database, and what they cost: None if the price of one is unknown."""

    model: str
    calls: int
    cost_usd: float | None


class Database:
    """Calls, rows and batches at ``path``. Its methods belong to one thread, that of the event loop.

    ``damaged`` counts the calls that were looked up and cannot be read: they are called again.
    """

    def __init__(
        self, path: Path, reader: sqlite3.Connection, writer: Writer | None, *, shared: bool = False
    ) -> None:
        self.path = path
        self.damaged = 0
        self._shared = shared
        self._reader, self._writer = reader, writer
        self._recent: dict[bytes, list[StoredCall]] = {}
        self._older: dict[bytes, list[StoredCall]] = {}
        """Calls that may not be written yet: these are, once the writer has committed as many records as ``_older_end``."""
        self._older_end = 0
        self._unusable: set[int] = set()
        self._names: dict[tuple[str, ...], int] = {}
        self._columns: dict[int, tuple[str, ...]] = {}
        self._texts: OrderedDict[str, int] = OrderedDict()
        self._read_texts: dict[int, str] = {}
        with damage_raised():
            self._next_call = last_number(reader, "calls") + 1
            self._next_text = last_number(reader, "texts") + 1

    @classmethod
    def open(cls, path: Path, *, durable: bool = True, shared: bool = False) -> Self:
        """Open or create the database at the path, for its owner only. The caller holds the run's lock.

        DamagedError for a file that is none; OutputError when the disk refuses. ``durable``: a commit is on the disk once it
        has returned, also where the power fails. ``shared``: other processes write to it, too.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            with damage_raised(), ExitStack() as stack:
                connection = stack.enter_context(closing(connect(path, "rw")))
                create(connection)
                check_schema(connection)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
                reader = stack.enter_context(closing(connect(path, "rw")))
                database = cls(path, reader, Writer(path, connection), shared=shared)
                stack.pop_all()
        except (OSError, sqlite3.OperationalError) as error:
            raise refused(path, error) from error
        return database

    @classmethod
    def open_foreign(cls, path: Path) -> Self:
        """Open a database for reading, which another person may have made. DataError where it cannot be read."""
        return cls(path, open_foreign(path), None)

    @property
    def writer(self) -> Writer:
        """The thread that writes."""
        assert self._writer is not None, "the database was opened for reading"
        return self._writer

    def close(self) -> None:
        """Write what is left, merge the log into the file, and close it. OutputError when the disk refuses."""
        self._reader.close()
        if self._writer is None:
            return
        self._writer.close()
        if self._shared:
            return
        # Where another process reads the file, the log is merged by the next one.
        with suppress(sqlite3.Error), closing(connect(self.path, "rw")) as connection:
            connection.execute("PRAGMA busy_timeout=1000")
            connection.execute("PRAGMA journal_mode=DELETE")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # calls

    def add_call(
        self,
        digest: bytes | None,
        place: tuple[int, str, str, int, int],
        model: str,
        content: CallContent,
        *,
        failure: str = "",
        usable: bool = True,
        messages: Sequence[Message] = (),
    ) -> StoredCall:
        """Add a call, whose ``place`` is row, unit, entry, call and attempt; return its record."""
        if messages:
            content = replace(content, messages=self.add_messages(messages))
        if content.reply is not None and (content.reply.allowance or content.reply.answers):
            content = replace(content, reply=replace(content.reply, allowance=None, answers=()))
        call = StoredCall(self._next_call, digest, *place, model, failure, usable, content)
        self._next_call += 1
        cost = 0.0 if content.reply is None or content.reused else content.reply.cost_usd
        values = (digest, *place, model, failure, cost, int(time.time()), encode(content))
        number = None if self._shared else call.number
        self.writer.insert("calls", (number, *values, checksum(number, *values), usable))
        if digest is not None:
            self._remember(call, digest)
        return call

    def add_messages(self, messages: Sequence[Message]) -> tuple[tuple[str, int, Images], ...]:
        """Add the texts of messages; return what a call has of them."""
        return tuple(
            [(message.role, self._text(message.content), _images(message)) for message in messages]
        )

    def mark_unusable(self, number: int) -> None:
        """Note that a reply could not be read: it answers no equal request."""
        self._unusable.add(number)
        self.writer.execute("UPDATE calls SET usable=0 WHERE number=?", (number,))

    def find(self, digest: bytes) -> list[StoredCall]:
        """The calls of a request, the latest first. A record that cannot be read is counted and left out."""
        unwritten = [*self._older.get(digest, ()), *self._recent.get(digest, ())][::-1]
        numbers = {call.number for call in unwritten}
        stored = self._calls(f"{_CALLS} WHERE digest=? AND usable>=0 ORDER BY number DESC", digest)
        calls = unwritten + [call for call in stored if call.number not in numbers]
        if self._unusable.isdisjoint(call.number for call in calls):
            return calls
        return [
            replace(call, usable=False) if call.number in self._unusable else call for call in calls
        ]

    def remove_calls(self, digest: bytes) -> None:
        """Remove the calls of a request."""
        self._older.pop(digest, None)
        self._recent.pop(digest, None)
        self.writer.execute("DELETE FROM calls WHERE digest=?", (digest,))

    def limit(self, most_bytes: int, room: float) -> None:
        """Remove the oldest calls where the file is larger, until it has this share of that size."""
        pages = [
            self._reader.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count")
        ]
        size = (pages[0] - pages[1]) * self._reader.execute("PRAGMA page_size").fetchone()[0]
        if size > most_bytes:
            calls = self._reader.execute("SELECT count(*) FROM calls").fetchone()[0]
            excess = round(calls * (1 - room * most_bytes / size))
            query = "DELETE FROM calls WHERE number IN (SELECT number FROM calls ORDER BY number LIMIT ?)"
            self.writer.execute(query, (excess,))

    def last_attempts(
        self, finished: Callable[[int], bool]
    ) -> dict[tuple[int, str, str, int], int]:
        """The last attempt at each call of an unfinished row that was made more than once."""
        query = (
            "SELECT row, unit, item, call, max(attempt) FROM calls WHERE attempt > 0 AND usable >= 0 "
            "GROUP BY row, unit, item, call"
        )
        return {
            (row, unit, item, call): last
            for row, unit, item, call, last in self._read(query)
            if not finished(row)
        }

    @property
    def next_call(self) -> int:
        """The number of the next call that is added."""
        return self._next_call

    def calls(self, numbers: Sequence[int]) -> dict[int, StoredCall]:
        """The calls of these numbers. DamagedError where one cannot be read."""
        records: dict[int, StoredCall] = {}
        for start in range(0, len(numbers), _TOGETHER):
            some = numbers[start : start + _TOGETHER]
            query = f"{_CALLS} WHERE number IN ({','.join('?' * len(some))})"
            for record in self._read(query, some):
                records[record[0]] = _call(record)
        if len(records) < len(set(numbers)):
            raise DamagedError("a row's call is missing")
        return records

    def calls_after(self, number: int, most: int) -> Iterator[StoredCall]:
        """The calls that were added after one, so many at most. DamagedError where one cannot be read."""
        query = f"{_CALLS} WHERE number>? ORDER BY number LIMIT ?"
        return map(_call, self._read(query, (number, most)))

    def messages(self, content: CallContent) -> tuple[Message, ...]:
        """The messages of a call."""
        return tuple(
            [Message(role, self.text(number), images) for role, number, images in content.messages]
        )

    def spent(self) -> list[Spent]:
        """What the calls have cost, by model."""
        query = "SELECT model, count(*), sum(cost_usd), count(cost_usd) FROM calls GROUP BY model ORDER BY model"
        return [
            Spent(model, calls, cost if priced == calls else None)
            for model, calls, cost, priced in self._read(query)
        ]

    @property
    def retracted_usd(self) -> float | None:
        """What retracted calls have cost; None if the price of one is unknown."""
        query = "SELECT count(*), coalesce(sum(cost_usd), 0.0), count(cost_usd) FROM calls WHERE usable=-1"
        ((calls, cost, priced),) = self._read(query)
        return cost if priced == calls else None

    def failed_calls(self, row: int) -> list[int]:
        """The numbers of a row's calls without a reply that can be used."""
        query = "SELECT number FROM calls WHERE row=? AND usable=0"
        return [number for (number,) in self._read(query, (row,))]

    def retract(self, numbers: Sequence[int]) -> None:
        """Have calls answer no request from now on; what they cost still counts."""
        for number in numbers:
            self.writer.execute("UPDATE calls SET usable=-1 WHERE number=?", (number,))

    # texts

    def read_texts(self, numbers: Iterable[int]) -> None:
        """Read texts together, which `text` then gives."""
        if len(self._read_texts) > _SHARED_TEXTS:
            self._read_texts.clear()
        absent = [number for number in dict.fromkeys(numbers) if number not in self._read_texts]
        for start in range(0, len(absent), _TOGETHER):
            some = absent[start : start + _TOGETHER]
            query = f"{select('texts')} WHERE number IN ({','.join('?' * len(some))})"
            for number, text, stored in self._read(query, some):
                check((number, text), stored)
                self._read_texts[number] = decode_text(text)

    def text(self, number: int) -> str:
        """The text of a number. DamagedError where it cannot be read."""
        if number not in self._read_texts:
            self.read_texts([number])
        try:
            return self._read_texts[number]
        except KeyError:
            raise DamagedError("a text is missing") from None

    def _text(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._next_text
            self._next_text += 1
            value = encode_text(text)
            self.writer.insert("texts", (number, value, checksum(number, value)))
            self._texts[text] = number
            if len(self._texts) > _SHARED_TEXTS:
                self._texts.popitem(last=False)
        else:
            self._texts.move_to_end(text)
        return number

    # rows

    def names(self, names: tuple[str, ...]) -> int:
        """The number of the text with the names of a row's columns."""
        number = self._names.get(names)
        if number is None:
            number = self._names[names] = self._text(json.dumps(list(names)))
        return number

    def names_at(self, number: int) -> tuple[str, ...]:
        """The names of a row's columns. DamagedError where they cannot be read."""
        if number not in self._columns:
            self._columns[number] = tuple(json.loads(self.text(number)))
        return self._columns[number]

    def add_row(self, row: StoredRow) -> None:
        """Add a finished row."""
        record = encode(row)
        self.writer.insert(
            "rows", (row.row, row.status, record, checksum(row.row, row.status, record))
        )

    def rows(self, *, status: str = "") -> Iterator[StoredRow]:
        """The rows in order, those of one status only where it is named. DamagedError where one cannot be read."""
        for row, found, record, stored in self._read(f"{select('rows')} ORDER BY row"):
            if status in ("", found):
                check((row, found, record), stored)
                yield decode(StoredRow, record)

    def row(self, row: int) -> StoredRow | None:
        """One row, None where it is not finished."""
        for *values, stored in self._read(f"{select('rows')} WHERE row=?", (row,)):
            check(tuple(values), stored)
            return decode(StoredRow, values[-1])
        return None

    def check_rows(self) -> Iterator[tuple[int, str]]:
        """The number and the status of each finished row. DamagedError where one cannot be read."""
        for row, status, record, stored in self._read(select("rows")):
            check((row, status, record), stored)
            yield row, status

    def check_values(self) -> None:
        """DamagedError where what is stored of the run, or of batches, cannot be read."""
        for name, value, stored in self._read(f"{select('meta')} UNION ALL {select('batches')}"):
            check((name, value), stored)

    def remove_row(self, row: int) -> None:
        """Remove a row, which is then run again."""
        self.writer.execute("DELETE FROM rows WHERE row=?", (row,))

    # what else is stored, by name

    def get(self, name: str, table: str = "meta") -> Any:
        """A value by its name, None where there is none. DamagedError where it cannot be read."""
        for _, value, stored in self._read(f"{select(table)} WHERE name=?", (name,)):
            check((name, value), stored)
            return msgspec.json.decode(value)
        return None

    def put(self, name: str, value: Any, table: str = "meta") -> None:
        """Store a value of JSON under a name: of the run, or of a batch."""
        encoded = msgspec.json.encode(value).decode()
        self.writer.insert(table, (name, encoded, checksum(name, encoded)))

    def names_of(self, table: str, pattern: str = "*") -> list[str]:
        """The names under which values are stored, those that fit a pattern."""
        query = f"SELECT name FROM {table} WHERE name GLOB ? ORDER BY name"
        return [name for (name,) in self._read(query, (pattern,))]

    def remove(self, name: str, table: str = "meta") -> None:
        """Remove a value."""
        self.writer.execute(f"DELETE FROM {table} WHERE name=?", (name,))

    def _read(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The records of a query. DamagedError where the file is damaged."""
        with damage_raised():
            yield from self._reader.execute(query, values)

    def _calls(self, query: str, digest: bytes) -> list[StoredCall]:
        calls = []
        try:
            for record in self._read(query, (digest,)):
                try:
                    calls.append(_call(record, shared=self._shared))
                except DamagedError:
                    self.damaged += 1
        except DamagedError:
            self.damaged += 1
        return calls

    def _remember(self, call: StoredCall, digest: bytes) -> None:
        """Have the call found before it is written."""
        if self.writer.committed >= self._older_end:
            self._older, self._recent = self._recent, {}
            self._older_end = self.writer.added
        self._recent.setdefault(digest, []).append(call)


def _call(record: tuple[Any, ...], *, shared: bool = False) -> StoredCall:
    check((None, *record[1:-2]) if shared else record[:-2], record[-2])
    fields = *record[:9], bool(record[-1]), decode(CallContent, record[-3])
    return StoredCall(*fields)


def _images(message: Message) -> Images:
    """The images of a message: of long ones, such as encoded pictures, the start."""
    if not message.images:
        return ()
    return tuple(
        (position, url if len(url) <= _LONGEST_IMAGE else f"{url[: _LONGEST_IMAGE - 1]}…")
        for position, url in message.images
    )
