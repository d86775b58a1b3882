"""A recording: which call got which reply, from a JSONL file or a run's `calls.parquet` (language.md, section 12)."""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from sys import intern
from typing import Any, Protocol

import orjson

from verdict_cli.errors import DataError, Problem
from verdict_cli.llm.providers.recorded_call import (
    CallName,
    RecordedCall,
    check_reply,
    read_name,
    read_recorded,
    row_name,
)
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Request

_NAMES = ("row", "id", "unit", "call", "attempt")
_OUTCOME = ("reply", "failure")
_REST = ("finish_reason", "logprobs", "prompt_tokens", "completion_tokens", "model", "error")
_SHIFT = 32


class RecordedColumns:
    """The records of a Parquet file, held as Arrow arrays; a place is the batch's number and the row in it."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._path = path
        try:
            with pq.ParquetFile(path) as file:
                there = [name for name in _NAMES + _OUTCOME + _REST if name in file.schema_arrow.names]
                missing = [name for name in (*_NAMES, *_OUTCOME) if name not in there]
                if missing:
                    raise self._problem(f"no column {', '.join(map(repr, missing))}")
                self._batches = list(file.iter_batches(columns=there))
        except (pa.ArrowException, OSError) as problem:
            raise self._problem(f"not a readable Parquet file: {problem}") from None

    def _problem(self, message: str) -> DataError:
        hint = "a recording is a run directory, its calls.parquet, or a JSONL file"
        return DataError(Problem("recording", message, hint, file=str(self._path)))

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each record, without the parts that only an answer needs, with its place."""
        for number, batch in enumerate(self._batches):
            for row, record in enumerate(batch.select([*_NAMES, *_OUTCOME]).to_pylist()):
                yield number << _SHIFT | row, record

    def read(self, place: int) -> Any:
        """The record at a place that iterating gave."""
        number, row = divmod(place, 1 << _SHIFT)
        (record,) = self._batches[number].slice(row, 1).to_pylist()
        if isinstance(record.get("logprobs"), str):
            record["logprobs"] = orjson.loads(record["logprobs"])
        return record

    def where(self, place: int) -> Problem:
        """The place in words: the file, and the row of the table counted from 1."""
        number, row = divmod(place, 1 << _SHIFT)
        before = sum(batch.num_rows for batch in self._batches[:number])
        return Problem("recording", "", file=str(self._path), line=before + row + 1)

    def close(self) -> None:
        self._batches = []


_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class RecordedLines:
    """The records of a file, found by the byte at which their line starts.

    A plain file stays on disk and is mapped; a compressed one is held unpacked, as bytes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: bytes | mmap.mmap = _content(path)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Each record with its place; raises DataError at a line that is not JSON."""
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
                yield start, _parse(text, self._path, line)
            start = end + 1

    def read(self, place: int) -> Any:
        """The record at a place that iterating gave."""
        end = self._bytes.find(b"\n", place)
        return loads(self._bytes[place : None if end < 0 else end])

    def where(self, place: int) -> Problem:
        """The place in words: file and line."""
        return Problem("recording", "", file=str(self._path), line=self._bytes[:place].count(b"\n") + 1)

    def close(self) -> None:
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()


def _content(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        head = file.read(2)
        if head == _GZIP:
            file.seek(0)
            try:
                return gzip.GzipFile(fileobj=file).read()
            except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
                raise DataError(
                    Problem(
                        "broken-gzip",
                        f"the compressed recording cannot be unpacked: {problem}",
                        "the file is cut off or damaged: copy or record it again",
                        file=str(path),
                    )
                ) from None
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if head else b""


def _parse(text: bytes, path: Path, line: int) -> Any:
    try:
        return loads(text)
    except ValueError as problem:
        hint = "a recording has one JSON object a line"
        raise DataError(Problem("not-json", f"not JSON: {problem}", hint, file=str(path), line=line)) from None


CALLS = "calls.parquet"


class Source(Protocol):
    """Where the records are: each is found again by its place."""

    def __iter__(self) -> Iterator[tuple[int, Any]]: ...

    def read(self, place: int) -> Any: ...

    def where(self, place: int) -> Problem: ...

    def close(self) -> None: ...


class Recording:
    """Recorded calls, found by row or id, unit, call and attempt. Only the places are held here."""

    def __init__(self, source: Source) -> None:
        """Reads every record's name. Raises DataError with file and line at the first record that is wrong,
        or that records a call a second time."""
        self._source = source
        self._aliases: dict[str, str] = {}
        self._by_id: dict[tuple[str, int, int], dict[str, int]] = {}
        self._by_row: dict[tuple[str, int, int], dict[int, int]] = {}
        self._by_both: dict[tuple[str, int, int], dict[tuple[int, str], int]] = {}
        for place, record in source:
            try:
                name = read_name(record)
                check_reply(record)
                self._add(name, place)
            except ValueError as problem:
                raise DataError(replace(source.where(place), message=str(problem))) from None

    @classmethod
    def load(cls, path: Path) -> Recording:
        """The recording at a run directory, a ``calls.parquet`` or a JSONL file (``.gz`` allowed)."""
        pass
        pass

        file = path / CALLS if path.is_dir() else path
        try:
            return cls(RecordedColumns(file) if file.suffix == ".parquet" else RecordedLines(file))
        except OSError as problem:
            hint = "a recording is a run directory, its calls.parquet, or a JSONL file"
            message = f"the recording cannot be read: {problem.strerror or problem}"
            raise DataError(Problem("recording", message, hint, file=str(file))) from None

    def find(self, request: Request) -> RecordedCall | None:
        """What was recorded for this call, None where nothing was. Raises DataError for a record that is wrong."""
        place = self._place(request, request.attempt)
        if place is None:
            return None
        try:
            return read_recorded(self._source.read(place))
        except ValueError as problem:
            raise DataError(replace(self._source.where(place), message=str(problem))) from None

    def attempts(self, request: Request) -> int:
        """How many attempts before this one are recorded for the same call."""
        return sum(self._place(request, attempt) is not None for attempt in range(request.attempt))

    def units(self) -> tuple[str, ...]:
        """The units that have a recorded call."""
        return tuple(sorted({unit for index in (self._by_id, self._by_row) for unit, _, _ in index}))

    def close(self) -> None:
        self._source.close()

    def _place(self, request: Request, attempt: int) -> int | None:
        key = (self._named(request.node), request.call, attempt)
        name = row_name(request.row.id) or ""
        if key in self._by_both:
            place = self._by_both[key].get((request.row.index, name))
            if place is not None:
                return place
        place = self._by_id.get(key, {}).get(name)
        return self._by_row.get(key, {}).get(request.row.index) if place is None else place

    def _named(self, node: str) -> str:
        """The unit as it is recorded: `judge` and `judge[0]` are the same, as a pipeline has one copy or several."""
        if node not in self._aliases:
            known = self.units()
            bare = node.removesuffix("[0]")
            other = bare if bare != node else f"{node}[0]"
            self._aliases[node] = other if node not in known and other in known else node
        return self._aliases[node]

    def _add(self, name: CallName, place: int) -> None:
        """A record with an id is found by it, whatever its row, so that a dataset may be reordered or cut;
        the row decides only between records of the same id."""
        key = (name.unit, name.call, name.attempt)
        if name.id is None:
            rows = self._by_row.setdefault(key, {})
            if name.row is not None and rows.setdefault(name.row, place) != place:
                raise ValueError(_twice(name, self._source.where(rows[name.row])))
            return
        ids = self._by_id.setdefault(key, {})
        first = ids.setdefault(intern(name.id), place)
        if first == place:
            return
        if name.row is None or read_name(self._source.read(first)).row in (None, name.row):
            raise ValueError(_twice(name, self._source.where(first)))
        both = self._by_both.setdefault(key, {})
        if both.setdefault((name.row, name.id), place) != place:
            raise ValueError(_twice(name, self._source.where(both[name.row, name.id])))


def _twice(name: CallName, first: Problem) -> str:
    row = f"row {name.row}" if name.id is None else f"id {name.id!r}"
    return (
        f"unit {name.unit}, {row}, call {name.call}, attempt {name.attempt} is recorded a second time: "
        f"it stands in line {first.line} already"
    )
