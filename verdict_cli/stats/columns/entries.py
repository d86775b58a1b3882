"""The entries of a unit under `each` as observations (`evaluate: items:`): what expressions see of each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.plan.levels import ITEM_COLUMN
from verdict_cli.stats.columns.saved_rows import SavedRowPath, TextKeyed
from verdict_cli.storage.tables.column_types import DeclaredType


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a row: the place of its entry (`3`, nested `3.1`), the values that expressions see, and whether
    there is no output."""

    place: str
    values: Mapping[str, Any]
    lacks_output: bool


def observations(unit: str, values: Mapping[str, Any]) -> list[Observation] | None:
    """An observation for each entry of a saved row that was not skipped; None where the entries are not known."""
    fields: Mapping[str, Any] = values["nodes"].get(unit, {})
    entries = fields.get(ITEM_COLUMN)
    if not isinstance(entries, list):
        return None
    outputs = {name: column for name, column in fields.items() if name != ITEM_COLUMN}
    return [
        _observation(place, index, entry, given, values) for place, index, entry, given in _flat("", entries, outputs)
    ]


def _flat(
    prefix: str, entries: Sequence[Any], columns: Mapping[str, Any]
) -> Iterator[tuple[str, int, Mapping[str, Any], dict[str, Any]]]:
    """Place, index in the innermost list, names and outputs of each entry. A null among the entries was skipped."""
    for index, entry in enumerate(entries):
        inner = {name: column[index] if isinstance(column, list) else None for name, column in columns.items()}
        place = f"{prefix}{index}"
        if isinstance(entry, list):
            yield from _flat(f"{place}.", entry, inner)
        elif entry is not None:
            yield place, index, entry, inner


def _observation(
    place: str, index: int, entry: Mapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]
) -> Observation:
    output = {name: TextKeyed(value) if type(value) is dict else value for name, value in given.items()}
    lacks_output = all(value is None for value in output.values())
    return Observation(
        place, {**values, **entry, "index": index, "output": {} if lacks_output else output}, lacks_output
    )


def row_paths(unit: str, paths: Sequence[SavedRowPath]) -> list[SavedRowPath]:
    """The paths of the row that these paths of an entry's expressions reach: all of the unit, whose outputs may be
    missing."""
    return [("nodes", unit), *(path for path in paths if path[0] in ("source", "nodes", "human"))]


def entry_type(declared: DeclaredType | None) -> DeclaredType | None:
    """What is declared of the values in the lists of a column."""
    while declared is not None and declared.schema.get("type") == "array" and "items" in declared.schema:
        declared = DeclaredType(declared.schema["items"])
    return declared
