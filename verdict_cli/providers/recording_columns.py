"""Recorded calls in a run's ``calls.parquet``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import DataError, Problem

_NAMES = ("row", "id", "unit", "call", "attempt")
_OUTCOME = ("reply", "failure")
_REST = ("finish_reason", "logprobs", "prompt_tokens", "completion_tokens", "model", "error")
_SHIFT = 32


class Columns:
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
