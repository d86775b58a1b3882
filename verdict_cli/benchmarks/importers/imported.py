"""What an importer gives, and how it reads a benchmark's own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.data import Dataset, locate, rows
from verdict_cli.errors import DataError, Problem

Record = Mapping[str, Any]
Rows = Iterator[Record]


@dataclass(frozen=True, slots=True)
class Imported:
    """The rows of a benchmark; `replies` are recorded replies as `--replay` reads them, None where there are none."""

    rows: Callable[[], Rows]
    replies: Callable[[], Rows] | None = None


def records(path: Path) -> Rows:
    """The rows of a file, or of all files of a directory."""
    return (row.source for row in rows(Dataset(locate(str(path)))))


def columns(path: Path) -> frozenset[str]:
    """The columns of the first row."""
    return frozenset(next(records(path), {}))


def no_file_of(benchmark: str, path: Path, expected: str) -> DataError:
    """The error for a file that is not the benchmark's."""
    found = ", ".join(sorted(columns(path))) or "missing, as are all rows"
    return DataError(
        Problem(
            "bad-header", f"this is no file of {benchmark}: its columns are {found}", expected, file=str(path)
        )
    )


def told(value: Any, meanings: Mapping[Any, str], what: str, path: Path) -> str:
    """What a value means. DataError for a value that means nothing."""
    try:
        return meanings[value]
    except (KeyError, TypeError):
        known = ", ".join(str(each) for each in meanings)
        raise DataError(
            Problem(
                "bad-label",
                f"{what} is {value!r}, expected one of {known}",
                "is the file whole?",
                file=str(path),
            )
        ) from None
