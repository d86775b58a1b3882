"""The finished rows of a run, as they are read again from its database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from verdict_cli.llm.middleware.replies import free_reply
from verdict_cli.messages import Call, Entry, Failure, Request, Row
from verdict_cli.model import Model
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import RowCall, StoredCall, StoredRow


class FinishedRow(NamedTuple):
    """A finished row as it is read again: the names and values of its columns, its calls, and what counts of it."""

    stored: StoredRow
    names: tuple[str, ...]
    calls: list[Call]

    @property
    def failure(self) -> Failure | None:
        """Why it has no result."""
        failure = self.stored.failure
        return None if failure is None else Failure(*failure, "")


_CHUNK = 200


def finished_rows(database: Database) -> Iterator[list[FinishedRow]]:
    """All rows with a result, in order, several at a time. DamagedError where one cannot be read."""
    names: dict[int, tuple[str, ...]] = {}
    chunk: list[StoredRow] = []
    count = 0
    for row in database.rows():
        chunk.append(row)
        count += 1 + len(row.calls)
        if count >= _CHUNK:
            yield _with_calls(database, chunk, names)
            chunk, count = [], 0
    if chunk:
        yield _with_calls(database, chunk, names)


def _with_calls(
    database: Database, rows: list[StoredRow], names: dict[int, tuple[str, ...]]
) -> list[FinishedRow]:
    stored = database.calls([call.number for row in rows for call in row.calls])
    database.read_texts(
        [number for call in stored.values() for _, number, _ in call.content.messages]
    )
    finished = []
    for row in rows:
        if row.names not in names:
            names[row.names] = tuple(json.loads(database.text(row.names)))
        calls = [_call(database, row, call, stored[call.number]) for call in row.calls]
        finished.append(FinishedRow(row, names[row.names], calls))
    return finished


def _call(database: Database, row: StoredRow, call: RowCall, stored: StoredCall) -> Call:
    reply = stored.content.reply
    if reply is not None and call.shared:
        reply = free_reply(reply, shared=True)
    elif reply is not None and call.recalled:
        reply = replace(reply, recalled=True)
    entry = Entry(call.item, {}, 0, "") if call.item else None
    of_row = Row(row.row, row.id, {}, "", False, entry)
    messages = database.messages(stored.content)
    request = Request(of_row, call.unit, _model(stored.model), messages, call.call, call.attempt)
    latency = 0.0 if reply is None else reply.latency_s
    return Call(request, reply, call.failure, call.error, latency, call.repaired, call.mass)


@lru_cache(maxsize=1000)
def _model(name: str) -> Any:
    return Model.model_construct(name=name)
