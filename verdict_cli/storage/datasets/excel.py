"""Read the first sheet of an Excel workbook (.xlsx), row by row. Needs the extra `excel`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets.files import SPREADSHEET, Reading, unreadable
from verdict_cli.storage.datasets.json_files import JsonRecord
from verdict_cli.storage.datasets.separated import check_names, named_cells


def excel_records(path: Path, reading: Reading) -> Iterator[JsonRecord]:
    """The rows that are not empty, each with its number in the sheet. Dates become ISO text, empty cells null; formulas have
    the value that was last computed."""
    with _rows(path, reading) as rows:
        names = _header(path, rows, reading)
        if names:
            reading.check_header(tuple(filter(None, names)))
        blank = 0
        for number, cells in rows:
            values = [_value(cell) for cell in cells]
            if all(
                value is None or (isinstance(value, str) and not value.strip()) for value in values
            ):
                blank += (
                    1  # those below the last row do not count: they are what a format was given to
                )
                continue
            reading.blank, blank = reading.blank + blank, 0
            if any(value is not None for value in values[len(names) :]):
                more = f"the row has more than the {len(names)} cells of the header"
                yield (
                    number,
                    Problem("cell-count", more, "give every column a name in the first row"),
                )
            else:
                values += [None] * (len(names) - len(values))
                yield number, named_cells(names, values)


def _header(
    path: Path, rows: Iterator[tuple[int, tuple[Any, ...]]], reading: Reading
) -> tuple[str, ...]:
    """The names in the first of the rows that has any, which is taken."""
    names = next(filter(None, (_names(cells) for _, cells in rows)), [])
    if names:
        check_names(names, path, 1, reading)
    return tuple(names)


@contextmanager
def _rows(path: Path, reading: Reading) -> Iterator[Iterator[tuple[int, tuple[Any, ...]]]]:
    try:
        import openpyxl
    except ImportError:
        hint = "pip install openpyxl, or save the sheet as CSV"
        raise DataError(
            Problem("not-readable", "reading .xlsx needs openpyxl", hint, str(path))
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:
        raise _broken(path, error) from error
    try:
        if not book.worksheets:
            raise DataError(
                Problem(
                    "empty-dataset", "the workbook has no sheet with cells", SPREADSHEET, str(path)
                )
            )
        first, *more_sheets = book.worksheets
        if more_sheets:
            names = ", ".join(repr(sheet.title) for sheet in more_sheets)
            message = f"only the first sheet {first.title!r} is read, not {names}"
            reading.note(
                path,
                "several-sheets",
                message,
                "save another sheet as a file of its own to judge it",
            )
        yield _numbered_cells(path, first)
    finally:
        book.close()


def _numbered_cells(path: Path, sheet: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The sheet's rows with their numbers, which are decompressed and parsed as they are read."""
    try:
        yield from enumerate(sheet.iter_rows(values_only=True), 1)
    except Exception as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> Exception:
    """The error of a workbook that cannot be read: openpyxl raises whatever its parsers meet in a damaged one."""
    if isinstance(error, MemoryError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return DataError(unreadable(path, error))
    message = f"this is not an Excel workbook, or it is damaged: {error!s:.100}"
    return DataError(
        Problem("not-readable", message, "save it again as .xlsx, or the sheet as CSV", str(path))
    )


def _names(cells: tuple[Any, ...]) -> list[str]:
    """The header's names; empty cells behind the last name are no columns."""
    names = ["" if cell is None else str(cell) for cell in cells]
    while names and not names[-1]:
        names.pop()
    return names


def _value(cell: Any) -> Any:
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)
