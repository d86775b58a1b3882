"""Read the first sheet of an Excel workbook (.xlsx), row by row. Needs the extra `excel`."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets.files import unreadable
from verdict_cli.storage.datasets.json_files import HeaderCheck, JsonRecord
from verdict_cli.storage.datasets.separated import header_problem


def excel_records(path: Path, check: HeaderCheck) -> Iterator[JsonRecord]:
    """The rows that are not empty, each with its number in the sheet. Dates become ISO text, empty cells null; formulas have
    the value that was last computed."""
    with _rows(path) as rows:
        names = _header(path, rows)
        if names:
            check(names)
        for number, cells in rows:
            values = [_value(cell) for cell in cells]
            if any(value is not None for value in values[len(names) :]):
                more = f"the row has more than the {len(names)} cells of the header"
                yield number, Problem("cell-count", more, "give every column a name in the first row")
            else:
                values += [None] * (len(names) - len(values))
                yield number, dict(zip(names, values, strict=False))


def _header(path: Path, rows: Iterator[tuple[int, tuple[Any, ...]]]) -> tuple[str, ...]:
    """The names in the first of the rows, which is taken."""
    names = next((_names(cells) for _, cells in rows), [])
    problem = header_problem(names) if names else None
    if problem:
        raise DataError(problem.at(str(path), 1, 0, ""))
    return tuple(names)


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[tuple[int, tuple[Any, ...]]]]:
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        hint = "pip install '.[excel]', or save the sheet as CSV"
        raise DataError(Problem("not-readable", "reading .xlsx needs openpyxl", hint, str(path))) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError) as error:
        message = f"this is not an Excel workbook: {error!s:.100}"
        raise DataError(Problem("not-readable", message, "save it again as .xlsx", str(path))) from None
    except OSError as error:
        raise DataError(unreadable(path, error)) from error
    try:
        cells = enumerate(book.worksheets[0].iter_rows(values_only=True), 1)
        yield ((number, row) for number, row in cells if any(cell is not None for cell in row))
    finally:
        book.close()


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
