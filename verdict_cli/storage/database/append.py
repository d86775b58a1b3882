"""Append what one run's database holds to another one's."""

from __future__ import annotations

import sqlite3
from typing import Any

from msgspec.structs import replace

from verdict_cli.storage.database.records import (
    CallContent,
    RowCall,
    StoredRow,
    check,
    checksum,
    decode,
    encode,
)
from verdict_cli.storage.database.schema import insert, last_number, select

Record = tuple[Any, ...]


def append(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Add the texts, calls and rows of ``source`` under new numbers, in one transaction.

    DamagedError where one cannot be read. No row of the data is in both.
    """
    texts, calls = last_number(target, "texts"), last_number(target, "calls")
    target.execute("BEGIN IMMEDIATE")
    records = {table: source.execute(select(table)) for table in ("texts", "calls", "rows")}
    insert(target, "texts", (_text(record, texts) for record in records["texts"]))
    insert(target, "calls", (_call(record, texts, calls) for record in records["calls"]))
    insert(target, "rows", (_row(target, record, texts, calls) for record in records["rows"]))
    target.execute("COMMIT")


def _text(record: Record, texts: int) -> Record:
    number, text, stored = record
    check((number, text), stored)
    return number + texts, text, checksum(number + texts, text)


def _call(record: Record, texts: int, calls: int) -> Record:
    number, *values, content, stored, usable = record
    check((number, *values, content), stored)
    decoded = decode(CallContent, content)
    messages = tuple([(role, text + texts, images) for role, text, images in decoded.messages])
    content = encode(replace(decoded, messages=messages))
    return number + calls, *values, content, checksum(number + calls, *values, content), usable


def _row(target: sqlite3.Connection, record: Record, texts: int, calls: int) -> Record:
    number, status, content, stored = record
    check((number, status, content), stored)
    row = decode(StoredRow, content)
    own = tuple([replace(call, number=call.number + calls) for call in row.calls])
    # A number below 0 stands for no row of the data: each source may have calls there.
    earlier = _calls_of(target, number) if number < 0 else ()
    content = encode(replace(row, names=row.names + texts, calls=(*earlier, *own)))
    return number, status, content, checksum(number, status, content)


def _calls_of(target: sqlite3.Connection, row: int) -> tuple[RowCall, ...]:
    record = target.execute("SELECT record FROM rows WHERE row=?", (row,)).fetchone()
    return () if record is None else decode(StoredRow, record[0]).calls
