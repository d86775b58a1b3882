"""What stands in a run's directory, which may come from a stranger, is what a run writes there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, JournalError, Problem
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.run.result_columns import CALL_COLUMNS, result_columns
from verdict_cli.storage.tables.column_types import ColumnKind
from verdict_cli.storage.tables.reader import column_kinds, read_table

_LARGEST = 2**63
_FILLED = ("row", "call", "attempt", "status", "unit")
"""Columns that have a value in every row."""


@lru_cache(maxsize=1)
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(RunFacts)


def facts_of(content: bytes) -> RunFacts:
    """What `run.json` says. ValueError, with the first field that is wrong, for a value that no run writes."""
    from pydantic import ValidationError

    try:
        made: RunFacts = _adapter().validate_json(content, strict=True)
    except ValidationError as fault:
        wrong = fault.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    for name, value in asdict(made).items():
        if not _bounded(value):
            raise ValueError(f"{name}: the number is out of range")
    return made


def check_links(path: Path) -> None:
    """JournalError for a link in a run's directory: what is written through it would land elsewhere."""
    try:
        links = [one.name for one in path.iterdir() if one.is_symlink()]
    except OSError:  # whoever reads or writes there says so
        return
    if links:
        raise JournalError(
            f"{path / links[0]} is a link, and no run makes one", hint="remove it, or choose another --out"
        )


def _bounded(value: Any) -> bool:
    if isinstance(value, int):
        return -_LARGEST <= value < _LARGEST
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return all(map(_bounded, inner))


def check_tables(results: Path, calls: Path, plan: Plan) -> None:
    """DataError for a table whose columns hold what no run of the plan writes there."""
    _check(results, result_columns(plan, ()))
    if calls.exists():
        _check(calls, CALL_COLUMNS)


def _check(path: Path, wanted: Mapping[str, ColumnKind]) -> None:
    found = column_kinds(path)
    for name in wanted.keys() - found.keys():
        raise _strange(path, f"there is no column {name!r}")
    for name, kind in found.items():
        expected = wanted.get(name, "null")
        fits = kind in {expected, "null"} or (expected, kind) == ("float", "int")
        if expected == "null":
            fits = kind is not None
        elif (expected, kind) == ("str", "json"):  # half a surrogate pair made it so
            fits = all(isinstance(value, str | None) for value in _values(path, name))
        if fits and name in _FILLED:
            fits = None not in _values(path, name)
        if not fits:
            raise _strange(path, f"the column {name!r} holds what no run writes there")


def _strange(path: Path, said: str) -> DataError:
    return DataError(Problem("not-a-run", said, "run the pipeline again", str(path)))


def _values(path: Path, name: str) -> Iterator[Any]:
    return (value for batch in read_table(path, [name]) for value in batch[name])
