"""The entries of `each` at one row as tables: a line for each entry, with what every unit inside gave there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.plan.levels import ITEM_COLUMN


@dataclass(frozen=True, slots=True)
class EntryTable:
    """Columns and rows: the entry's number, the entries by name, and the outputs of the units inside."""

    columns: list[str]
    rows: list[list[Any]]


def entry_tables(outputs: Mapping[str, Any]) -> tuple[list[EntryTable], dict[str, Any]]:
    """A table for the units that share a list, from a row's columns by name; and the columns that are in none."""
    left = dict(outputs)
    shared: dict[tuple[str, ...], list[tuple[str, list[Any]]]] = {}
    for column in outputs:
        unit, _, field = column.rpartition(".")
        if field != ITEM_COLUMN or not isinstance(outputs[column], list):
            continue
        numbered = list(_flat(outputs[column]))
        shared.setdefault(tuple(number for number, _ in numbered), []).append((unit, [entry for _, entry in numbered]))
    tables = []
    for numbers, units in shared.items():
        names = list(dict.fromkeys(name for _, entries in units for entry in entries for name in entry or ()))
        columns = ["entry", *names]
        rows: list[list[Any]] = [[number] for number in numbers]
        for place, cells in enumerate(rows):
            known: Mapping[str, Any] = next((entries[place] for _, entries in units if entries[place] is not None), {})
            cells += [known.get(name) for name in names]
        for unit, _ in units:
            left.pop(f"{unit}.{ITEM_COLUMN}")
            for column in [each for each in left if each.startswith(f"{unit}.")]:
                values = [value for _, value in _flat(left.pop(column), numbers[-1].count(".") if numbers else 0)]
                columns.append(column)
                for cells, value in zip(rows, values, strict=False):
                    cells.append(value)
        if rows:
            tables.append(EntryTable(columns, rows))
    return tables, left


def _flat(values: Sequence[Any], depth: int | None = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Number and value of each entry, of lists inside lists too; ``depth``: how deep, where values may be lists."""
    for place, value in enumerate(values):
        number = f"{prefix}{place}"
        if isinstance(value, list) and depth != 0:
            yield from _flat(value, None if depth is None else depth - 1, f"{number}.")
        else:
            yield number, value
