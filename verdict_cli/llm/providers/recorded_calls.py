"""Recorded calls: the files that hold them, and what is read from one record."""

from __future__ import annotations

import gzip
import mmap
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from verdict_cli.errors import DataError, Problem
from verdict_cli.llm.providers.decision_answers import checked_answer
from verdict_cli.llm.providers.usage import MOST_TOKENS
from verdict_cli.llm.providers.wire_values import loads, read_logprobs
from verdict_cli.messages import Alternative, JsonObject, NamedValues, Question, Reply, Usage
from verdict_cli.regex import regex
from verdict_cli.storage.database.database import RUN_DB, Database
from verdict_cli.storage.database.records import RowCall, StoredRow
from verdict_cli.storage.database.schema import DamagedError, unreadable

CALLS = "calls.parquet"
_NAMES = ("row", "id", "unit", "call", "attempt")
_OUTCOME = ("reply", "failure")
_ITEM = "item"
"""The number of the entry inside `each`; recordings of other programs may lack the column."""
_REST = ("finish_reason", "logprobs", "prompt_tokens", "completion_tokens", "model", "error")
_SHIFT = 32
RECORDING_HINT = "a recording is a run directory, its run.db or calls.parquet, or a JSONL file"


def recorded_file(replay: Path) -> Path:
    """The file behind `--replay`: the database of a run's directory, the calls of one of an earlier version, or the path
    itself."""
    if not replay.is_dir():
        return replay
    return replay / RUN_DB if (replay / RUN_DB).exists() else replay / CALLS


class RecordedRun:
    """The calls of finished rows in a run's database; a position is the row, and the number of the call in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database.open_foreign(path)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each record, without the parts that only an answer needs, with its position."""
        with self._damage():
            for row in self._database.rows():
                for number, call in enumerate(row.calls if row.row >= _SHARED else ()):
                    yield (
                        _position(row.row, number),
                        _named(row, call) | {"failure": call.failure or "none"},
                    )

    def read(self, position: int) -> Any:
        """The record at a position."""
        number, place = divmod(position, 1 << _SHIFT)
        with self._damage():
            row = self._database.row(number - 1)
            if row is None:
                raise DamagedError("a row is missing")
            call = row.calls[place]
            content = self._database.calls([call.number])[call.number].content
            prompt = [
                (message.role, message.content) for message in self._database.messages(content)
            ]
        reply = content.reply
        recorded = reply and Reply(
            reply.text,
            finish_reason=reply.finish_reason,
            logprobs=reply.logprobs,
            usage=Usage(reply.usage.prompt_tokens, reply.usage.completion_tokens),
            cost_usd=0.0,
            model=reply.model,
        )
        outcome = {"reply": recorded, "failure": call.failure, "error": call.error}
        return _named(row, call) | outcome | {"prompt": tuple(prompt)}

    def line(self, position: int) -> int:
        """The position for an error message: the row from 1."""
        return position >> _SHIFT

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (DamagedError, sqlite3.Error) as error:
            raise unreadable(self.path, error) from None


def _position(row: int, call: int) -> int:
    return (row + 1) << _SHIFT | call


def _named(row: StoredRow, call: RowCall) -> JsonObject:
    """What identifies a call of a row."""
    name = None if row.row == _SHARED else row.id
    return {
        "row": row.row,
        "id": name,
        "unit": call.unit,
        "call": call.call,
        "attempt": call.attempt,
        _ITEM: call.item,
    }


class RecordedColumns:
    """The records of a Parquet file, held as Arrow arrays; a position is the number of the row."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                names = file.schema_arrow.names
                missing = [name for name in (*_NAMES, *_OUTCOME) if name not in names]
                if missing:
                    raise self._problem(f"no column {', '.join(map(repr, missing))}")
                read = [name for name in (*_NAMES, *_OUTCOME, *_REST, _ITEM) if name in names]
                self._table = file.read(columns=read)
        except (pa.ArrowException, OSError) as error:
            raise self._problem(f"not a readable Parquet file: {error}") from None

    def _problem(self, message: str) -> DataError:
        return DataError(Problem("recording", message, RECORDING_HINT, file=str(self.path)))

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each record, without the parts that only an answer needs, with its position."""
        names = [name for name in self._table.column_names if name not in _REST]
        batches = self._table.select(names).to_batches()
        return enumerate(record for batch in batches for record in batch.to_pylist())

    def read(self, position: int) -> Any:
        """The record at a position."""
        (record,) = self._table.slice(position, 1).to_pylist()
        return record

    def line(self, position: int) -> int:
        """The position for an error message: the row of the table from 1."""
        return position + 1

    def close(self) -> None:
        self._table = self._table.schema.empty_table()


_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class RecordedLines:
    """The records of a JSONL file; a position is the byte at which a line starts.

    A plain file is memory-mapped; a compressed one is held decompressed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes: bytes | mmap.mmap = _content(path)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each record with its position; raises DataError at a line that is not JSON."""
        content = self._bytes
        start = len(_BOM) if content[:3] == _BOM else 0
        size = len(content)
        line = 0
        while start < size:
            end = content.find(b"\n", start)
            end = size if end < 0 else end
            line += 1
            text = content[start:end]
            if text.strip():
                yield start, _parse(text, self.path, line)
            start = end + 1

    def read(self, position: int) -> Any:
        """The record at a position."""
        end = self._bytes.find(b"\n", position)
        return loads(self._bytes[position : None if end < 0 else end])

    def line(self, position: int) -> int:
        """The position for an error message: the line from 1."""
        return self._bytes[:position].count(b"\n") + 1

    def close(self) -> None:
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()


RecordSource = RecordedRun | RecordedColumns | RecordedLines
"""A file of records. Iterating gives each record with its position, by which it is read again."""


def _content(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        head = file.read(2)
        if head == _GZIP:
            file.seek(0)
            try:
                return gzip.GzipFile(fileobj=file).read()
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                message = f"the compressed recording cannot be decompressed: {error}"
                hint = "the file is cut off or damaged: copy or record it again"
                raise DataError(Problem("broken-gzip", message, hint, str(path))) from None
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if head else b""


def _parse(text: bytes, path: Path, line: int) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        hint = "a recording has one JSON object a line"
        problem = Problem("not-json", f"not JSON: {error}", hint, str(path), line)
        raise DataError(problem) from None


class RecordKey(Struct, frozen=True):
    """The key of a recorded call. At least one of ``row`` (0-based) and ``id`` is set."""

    row: int | None
    id: str | None
    unit: str
    call: int
    attempt: int
    item: str = ""


class RecordedCall(Struct, frozen=True):
    """A recorded outcome. ``reply`` is None for a call without one; ``failure`` and ``error`` say how a call failed.

    ``prompt`` has role and text of the messages, where the recording is a run's database.
    """

    reply: Reply | None
    failure: str
    error: str
    prompt: tuple[tuple[str, str], ...] = ()


_SHARED = -1
"""The row of units that run once for all rows."""


def read_key(record: Any) -> RecordKey:
    """The key of a record. Raises ValueError with what is wrong with it."""
    if not isinstance(record, Mapping):
        raise ValueError(f"a recorded call must be an object, not {type(record).__name__}")
    unit = record.get("unit")
    if not isinstance(unit, str) or not unit:
        raise ValueError('"unit" must be the id of a node, such as judge or judge[1]')
    row = record.get("row")
    if row is not None:
        row = _SHARED if row == _SHARED else _whole(row, "row")
    name = row_name(record.get("id"))
    if row is None and name is None:
        raise ValueError('a recorded call needs "id" or "row"')
    call, attempt = (_whole(record.get(key) or 0, key) for key in ("call", "attempt"))
    return RecordKey(row, name, unit, call, attempt, _item(record.get(_ITEM)))


_ITEM_TEXT = regex(r"(\d+(\.\d+)*)?")


def _item(value: Any) -> str:
    """The number of an entry: 3 or "3", inside another entry "3.1"."""
    text = "" if value is None else value
    if type(value) is int:
        text = str(value)
    if not isinstance(text, str) or not _ITEM_TEXT.fullmatch(text):
        raise ValueError(
            f'"item" must be the number of an entry, such as 3 or "3.1", not {value!r:.40}'
        )
    return text


def row_name(value: Any) -> str | None:
    """A row's id for comparison: 3 and "3" are the same row, because a CSV file has only texts."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f'"id" must be a text or a whole number, not {value!r}')
    return str(value)


def check_reply(record: NamedValues) -> None:
    """Raises ValueError unless there is a reply or a failure."""
    reply = record.get("reply")
    if reply is None and not record.get("failure"):
        raise ValueError('"reply" is missing')
    is_decision = isinstance(reply, Mapping) and "type" in reply
    if not isinstance(reply, str | None) and not is_decision:
        raise ValueError(
            f'"reply" must be a text, not {type(reply).__name__}: write JSON replies as text'
        )


def read_recorded(
    record: NamedValues, model: str, questions: Sequence[Question] = ()
) -> RecordedCall:
    """The record's outcome, of ``model`` where it names none. The reply to one of the ``questions`` may be the server's answer.

    Raises ValueError with what is wrong with it.
    """
    failure, error = (str(record.get(key) or "") for key in ("failure", "error"))
    text = record.get("reply")
    if isinstance(text, Reply):
        return RecordedCall(text, failure, error, record["prompt"])
    usage = record.get("usage")
    tokens = usage if isinstance(usage, Mapping) else record
    prompt, completion = (
        _whole(tokens.get(key) or 0, "usage") for key in ("prompt_tokens", "completion_tokens")
    )
    logprobs = read_logprobs(record.get("logprobs"))
    if isinstance(text, Mapping):
        text, logprobs = _decision(text, questions)
    reply = Reply(
        text or "",
        finish_reason=str(record.get("finish_reason") or "stop"),
        logprobs=logprobs,
        usage=Usage(prompt, completion),
        cost_usd=0.0,
        model=str(record.get("model") or model),
    )
    return RecordedCall(None if text is None else reply, failure, error)


def _decision(
    answer: NamedValues, questions: Sequence[Question]
) -> tuple[str, tuple[tuple[Alternative, ...], ...]]:
    """The chosen token and the probabilities in a decision model's answer."""
    if not questions:
        raise ValueError(
            '"reply" is the answer of a decision model, and this unit asks a chat model'
        )
    read = checked_answer(answer, "reply", questions[0])
    return read.token, (read.alternatives,)


def _whole(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        raise ValueError(f'"{key}" must be a whole number from 0 to 10^12, not {value!r:.40}')
    return value
