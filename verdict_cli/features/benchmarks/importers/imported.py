"""The result of an importer, and how it reads a benchmark's own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.datasets.read import stream_rows

ImportedRecord = Mapping[str, Any]
ImportedRows = Iterator[ImportedRecord]


@dataclass(frozen=True, slots=True)
class ImportedBenchmark:
    """The rows of a benchmark; `replies` are recorded replies for `--replay`, None if there are none."""

    rows: Callable[[], ImportedRows]
    replies: Callable[[], ImportedRows] | None = None


def file_records(path: Path) -> ImportedRows:
    """The rows of a file, or of all files of a directory."""
    return (row.source for row in stream_rows(Dataset(find_files(str(path)))))


def file_columns(path: Path) -> frozenset[str]:
    """The columns of the first row."""
    return frozenset(next(file_records(path), {}))


def not_a_file_of(benchmark: str, path: Path, expected: str) -> DataError:
    """The error for a file that is not the benchmark's."""
    columns = ", ".join(sorted(file_columns(path))) or "missing, as are all rows"
    return DataError(
        Problem("bad-header", f"this is not a file of {benchmark}: its columns are {columns}", expected, file=str(path))
    )


def label_meaning(value: Any, meanings: Mapping[Any, str], what: str, path: Path) -> str:
    """The meaning of a label. Raises DataError for an unknown one."""
    try:
        return meanings[value]
    except (KeyError, TypeError):
        expected_labels = ", ".join(str(meaning) for meaning in meanings)
        raise DataError(
            Problem(
                "bad-label",
                f"{what} is {value!r}, expected one of {expected_labels}",
                "is the file whole?",
                file=str(path),
            )
        ) from None
