"""Validation of a run's directory, which may come from a stranger: it holds what a run writes there."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from verdict_cli.errors import DataError, JournalError, Problem
from verdict_cli.messages import NamedValues
from verdict_cli.plan.node import Plan
from verdict_cli.run.result_columns import result_columns
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.parquet import count_rows
from verdict_cli.storage.tables.column_types import ColumnKind
from verdict_cli.storage.tables.reader import column_kinds, read_table
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_kinds_of, later_columns

_LARGEST = 2**63
_REQUIRED = frozenset({"row", "call", "attempt", "status", "unit"})
"""Columns that have a value in every row."""


def facts_of(fields: NamedValues) -> RunFacts:
    """The facts that the fields of a `run.json` say. ValueError, which names the field, for a value that no run writes."""
    try:
        facts = RunFacts.from_json(fields)
    except ValidationError as error:  # such as: Expected `int`, got `str` - at `$.rows`
        reason, _, place = str(error).partition(" - at `$.")
        raise ValueError(f"{place.rstrip('`')}: {reason[:1].lower()}{reason[1:]}") from None
    parts = [*facts.as_json().items()]
    for name, value in parts:
        if isinstance(value, Mapping):
            parts += [(name, inner) for inner in value.values()]
        elif isinstance(value, list | tuple):
            parts += [(name, inner) for inner in value]
        elif isinstance(value, int | float) and not -_LARGEST <= value < _LARGEST:
            raise ValueError(f"{name}: the number is out of range")
    return facts


def check_links(path: Path) -> None:
    """JournalError for a link in a run's directory, through which a file elsewhere would be written, and for a pipe, which is
    never read to its end."""
    try:
        entries = [*path.iterdir()]
    except OSError:  # the reader or writer reports it
        return
    for entry in entries:
        if entry.is_symlink() or entry.is_fifo():
            kind = "link" if entry.is_symlink() else "pipe"
            raise JournalError(
                f"{entry} is a {kind}, which no run creates",
                hint="remove it, or choose another --out",
            )


def check_rows(results: Path, facts: RunFacts) -> None:
    """DataError where the results of a run have more or fewer rows than its `run.json` says."""
    if facts.status == "running":
        return
    rows = count_rows(results)
    if rows != facts.done:
        message = (
            f"the table has {rows:,} rows, and run.json says {facts.done:,}: the file was replaced"
        )
        raise DataError(Problem("rows-differ", message, RESTORE, str(results)))


RESTORE = "remove the file: `verdict report RUN` writes the tables again from run.db"
"""What to do about tables that are not as the run wrote them."""


def check_tables(results: Path, calls: Path, plan: Plan) -> None:
    """DataError for a table with columns or values that no run of the plan writes."""
    _check(results, result_columns(plan, ()))
    if calls.exists():
        _check(calls, column_kinds_of(CALL_COLUMNS))


def _check(path: Path, columns: Mapping[str, ColumnKind]) -> None:
    kinds = column_kinds(path)
    for name in columns.keys() - kinds.keys() - later_columns():
        raise _not_a_run(path, f"there is no column {name!r}")
    texts = set()
    for name, kind in kinds.items():
        expected = columns.get(name, "null")
        fits = kind in {expected, "null"} or (expected, kind) in _OTHER_KINDS
        if expected == "null":
            fits = kind is not None
        if not fits:
            raise _other_values(path, name)
        if (expected, kind) == ("str", "json"):
            texts.add(name)
    required = _REQUIRED & kinds.keys()
    for batch in read_table(path, sorted(required | texts)):
        _check_values(path, batch, required, texts)


def _check_values(
    path: Path, batch: Mapping[str, list[Any]], required: Set[str], texts: Set[str]
) -> None:
    for name, values in batch.items():
        is_odd = name in texts and not all(isinstance(value, str | None) for value in values)
        if is_odd or (name in required and None in values):
            raise _other_values(path, name)


_OTHER_KINDS = {("float", "int"), ("native", "json"), ("json", "native"), ("str", "json")}
"""What is expected, and what fits too: lists and mappings are text where a value has another form, and a text with half a
surrogate pair is JSON."""


def _other_values(path: Path, name: str) -> DataError:
    return _not_a_run(path, f"the column {name!r} holds what no run writes there")


def _not_a_run(path: Path, message: str) -> DataError:
    return DataError(Problem("not-a-run", message, "run the pipeline again", str(path)))
