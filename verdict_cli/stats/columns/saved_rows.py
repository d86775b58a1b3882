"""The rows of a run's results as expressions see them: `source`, `output`, `nodes`, `human`; and the entries of a unit under
`each` as observations (`evaluate: items:`).

They are columns, each as the distinct values that occur and which of them each row has. An expression is computed once for
each distinct tuple of the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.expression import Expression, to_plain
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plan.levels import ITEM_COLUMN
from verdict_cli.stats.columns.column import MISSING, Factorized, Ints, KeyBuilder, RowMask
from verdict_cli.stats.columns.run_labels import RunLabels, run_labels
from verdict_cli.stats.columns.sample import distinct_tuples
from verdict_cli.storage.datasets.arrow_vectors import integers
from verdict_cli.storage.datasets.parquet import column_values
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.human_labels import label_key
from verdict_cli.storage.tables.label_queue import NOBODY
from verdict_cli.storage.tables.reader import read_arrow, table_columns

SavedRowPath = tuple[str | int, ...]
"""A path that an expression names, such as `("source", "label")`."""

SAVED_ROW_ROOTS = ("source", "output", "nodes", "human")
"""What an expression over saved rows can name."""

SKIPPED = "skipped"
"""The column with the units that `when` skipped at a row, and `output` where the last one was; it is among a row's values."""

_BATCH = 10_000
"""Rows that are in memory at once."""


class Evaluated(Struct, frozen=True):
    """What an expression gives for some rows: `values[at]`, MISSING for a row that is left out.

    A value that cannot be computed is the RowError.
    """

    values: Sequence[Any]
    at: Ints

    def where(self, test: Callable[[Any], bool]) -> RowMask:
        """The rows whose value passes a test."""
        passing = np.array([*map(test, self.values), False])  # the last one is that of MISSING
        return passing[self.at]

    @property
    def failing(self) -> RowMask:
        """The rows whose value cannot be computed."""
        return self.where(lambda value: isinstance(value, RowError))

    def only(self, rows: RowMask) -> Evaluated:
        """Leave the other rows out, and the values that only they have."""
        if rows.all():
            return self
        places = np.full(len(self.at), MISSING, dtype=np.int64)
        used, places[rows] = np.unique(self.at[rows], return_inverse=True)
        return Evaluated([self.values[place] for place in used], places)


class Rows(Struct, frozen=True):
    """Rows of a run's results, or entries in them: the rows' numbers and indices in the file, and the entries' places in their
    rows (`3`, nested `3.1`), "" for a row.

    `skipped` has the units that `when` skipped. `columns` is path -> values, MISSING where a failed row has none.
    """

    numbers: Ints
    at: Ints
    entries: Sequence[str]
    failed: RowMask
    skipped: Factorized
    columns: Mapping[SavedRowPath, Factorized]

    def name(self, place: int) -> str:
        """What a message calls one of them."""
        row, entry = f"row {self.numbers[place]}", self.entries[place]
        return f"{row}, entry {entry}" if entry else row

    def take(self, rows: RowMask) -> Rows:
        """Those of the rows that the mask selects."""
        return self if rows.all() else self.at_places(np.flatnonzero(rows))

    def at_places(self, places: Ints) -> Rows:
        return Rows(
            self.numbers[places],
            self.at[places],
            [self.entries[place] for place in places.tolist()],
            self.failed[places],
            self.skipped.take(places),
            {path: column.take(places) for path, column in self.columns.items()},
        )

    def evaluate(self, expression: Expression) -> Evaluated:
        """The expression's values: it is computed once for each distinct tuple of the columns that it reads."""
        columns = {
            path: column
            for path, column in self.columns.items()
            if any(is_reached(path, read) for read in expression.paths)
        }
        first, tuples, _ = distinct_tuples(
            [column.codes for column in columns.values()], len(self.at)
        )
        order = np.argsort(first)  # of their first rows
        column = columns.get(expression.path or ())
        if column is not None and column.codes.min(initial=0) != MISSING:
            values = [
                _computed(to_plain, column.labels[code]) for code in column.codes[first[order]]
            ]
        else:
            values = [_computed(expression, row) for row in _mappings(columns, first[order])]
        return Evaluated(values, np.argsort(order)[tuples])


def _computed(compute: Callable[[Any], Any], value: Any) -> Any:
    try:
        return compute(value)
    except RowError as error:
        return error


def _mappings(columns: Mapping[SavedRowPath, Factorized], rows: Ints) -> Iterator[JsonObject]:
    """What expressions see of the rows at these places."""
    taken = [(path, column.labels, column.codes[rows].tolist()) for path, column in columns.items()]
    for place in range(len(rows)):
        values: dict[Any, Any] = {"source": {}, "output": {}, "nodes": {}}
        for (*parents, name), labels, codes in taken:
            if codes[place] != MISSING:
                holder = values
                for parent in parents:
                    holder = holder.setdefault(parent, {})
                holder[name] = labels[codes[place]]
        yield values


def is_reached(column: SavedRowPath, path: SavedRowPath) -> bool:
    """Whether the path is that of the column, a part of its values, or something that holds it."""
    shorter = min(len(column), len(path))
    return path[:shorter] == column[:shorter]


class TextKeyed(dict[Any, Any]):
    """A mapping from a table, whose keys have become texts: `true` finds `"true"`, and 4 finds `"4"`."""

    def _text(self, key: Any) -> Any:
        """The text that the key has become; the key itself where there is none."""
        return next((text for text in _texts(key) if dict.__contains__(self, text)), key)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._text(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._text(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of the key or of its text, else the default."""
        return super().get(self._text(key), default)


def _texts(key: object) -> tuple[str, ...]:
    """How JSON may write a key that is not a text."""
    if isinstance(key, bool):
        return ("true" if key else "false",)
    if isinstance(key, int):
        return str(key), f"{key}.0"
    if isinstance(key, float):
        return (repr(key), str(int(key))) if key.is_integer() else (repr(key),)
    return ()


def row_batches(
    results: Path, paths: Sequence[SavedRowPath], labels: RunLabels | None = None
) -> Iterator[Rows]:
    """All rows with the columns that these paths reach, some at a time, in the order of the file.

    ``labels`` are those of people where they were read. DataError for a file that is not a table of results.
    """
    names = table_columns(results)
    homes = column_homes(names, paths)
    with_labels = any(path[0] == "human" for path in paths)
    if with_labels and labels is None:
        labels = run_labels(results)
    read = ["row", "status", *({SKIPPED} & {*names}), *(["id"] if with_labels else []), *homes]
    start = 0
    for batch in read_arrow(results, read, _BATCH):
        status = _factorized(_values(batch, "status"))
        failed = np.array([label != "ok" for label in status.labels], dtype=bool)[status.codes]
        columns: dict[SavedRowPath, Factorized] = {
            home: _column(batch, name, failed & (home[0] != "source"))
            for name, home in homes.items()
        }
        if with_labels and labels is not None:
            columns["human",] = _people(_values(batch, "id"), labels)
        skipped = [()] * len(failed) if SKIPPED not in read else _values(batch, SKIPPED)
        yield Rows(
            integers(batch["row"]),
            np.arange(start, start + len(failed)),
            [""] * len(failed),
            failed,
            _factorized(tuple(units or ()) for units in skipped),
            columns,
        )
        start += len(failed)


def _values(batch: Any, name: str) -> list[Any]:
    return column_values(batch.column(name), batch.schema.field(name))


def _column(batch: Any, name: str, without: RowMask) -> Factorized:
    """A column of an Arrow batch; a null is MISSING in the rows `without` a value."""
    import pyarrow as pa

    array, field = batch.column(name), batch.schema.field(name)
    if pa.types.is_nested(array.type):
        column = _factorized(_values(batch, name))
    else:
        encoded = array.dictionary_encode(null_encoding="encode")
        labels = column_values(encoded.dictionary, field)
        column = Factorized(integers(encoded.indices).astype(np.int32), tuple(labels))
    if not name.startswith("source."):
        column = Factorized(column.codes, tuple(map(_text_keyed, column.labels)))
    if without.any():
        is_null = np.array([label is None for label in column.labels], dtype=bool)
        column.codes[without & is_null[column.codes]] = MISSING
    return column


def _text_keyed(value: Any) -> Any:
    return TextKeyed(value) if type(value) is dict else value


def _factorized(values: Iterable[Any]) -> Factorized:
    """Python's values as a column; `_ABSENT` is MISSING."""
    builder = KeyBuilder()
    builder.codes.extend(MISSING if value is _ABSENT else builder.code(value) for value in values)
    return builder.keys()


_ABSENT = object()


def _people(ids: Sequence[Any], labels: RunLabels) -> Factorized:
    """The labels of people by row."""
    keys = [label_key(row_id) for row_id in ids]
    column = _factorized(key if key in labels.by_row else "" for key in keys)
    return Factorized(column.codes, tuple(labels.by_row.get(key, NOBODY) for key in column.labels))


def saved_rows(
    results: Path, paths: Sequence[SavedRowPath]
) -> Iterator[tuple[int, bool, NamedValues]]:
    """Each row's number, whether it failed, and the values that these paths reach (of a failed row, what there is), in the
    order of the file. DataError for a file that is not a table of results."""
    for rows in row_batches(results, paths):
        for place, values in enumerate(_mappings(rows.columns, np.arange(len(rows.at)))):
            skipped = rows.skipped.labels[rows.skipped.codes[place]]
            yield int(rows.numbers[place]), bool(rows.failed[place]), {**values, SKIPPED: skipped}


def column_homes(columns: Sequence[str], paths: Sequence[SavedRowPath]) -> dict[str, SavedRowPath]:
    """Column -> (root, field) or ("nodes", node, field) for the columns that these paths reach."""
    homes: dict[str, SavedRowPath] = {}
    for column in columns:
        head, dot, field = column.partition(".")
        if not dot or head == "failure":
            continue
        home = (head, field) if head in ("source", "output") else ("nodes", head, field)
        if any(is_reached(home, path) for path in paths):
            homes[column] = home
    return homes


def entry_rows(unit: str, rows: Rows) -> tuple[Rows, int]:
    """The entries of these rows that were not skipped; and of how many failed rows the entries are not known.

    An entry's `output` is the unit's, its names are those that `each` gives it. One that has no output counts as failed.
    """
    columns = {path: column for path, column in rows.columns.items() if path[:2] == ("nodes", unit)}
    entries: list[tuple[int, str, dict[SavedRowPath, Any]]] = []
    unreached = 0
    for place, values in enumerate(_mappings(columns, np.arange(len(rows.at)))):
        outputs = values["nodes"].get(unit, {})
        listed = outputs.pop(ITEM_COLUMN, None)
        if not isinstance(listed, list):
            unreached += bool(rows.failed[place])
            continue
        for number, index, entry, output in _flat("", listed, outputs):
            named: dict[SavedRowPath, Any] = {(name,): value for name, value in entry.items()}
            if any(value is not None for value in output.values()):
                named |= {("output", name): _text_keyed(value) for name, value in output.items()}
            entries.append((place, number, named | {("index",): index}))
    own = {
        path: _factorized(named.get(path, _ABSENT) for _, _, named in entries)
        for path in dict.fromkeys(path for _, _, named in entries for path in named)
    }
    lacking = [not any(path[0] == "output" for path in named) for _, _, named in entries]
    of_rows = rows.at_places(np.array([place for place, _, _ in entries], dtype=np.int64))
    outer = {path: column for path, column in of_rows.columns.items() if path[0] != "output"}
    rows_of_entries = replace(
        of_rows,
        entries=[number for _, number, _ in entries],
        failed=of_rows.failed | np.array(lacking, dtype=bool),
        columns=outer | own,
    )
    return rows_of_entries, unreached


def _flat(
    prefix: str, entries: Sequence[Any], columns: NamedValues
) -> Iterator[tuple[str, int, NamedValues, JsonObject]]:
    """Place, index in the innermost list, names and outputs of each entry. A null among the entries was skipped."""
    for index, entry in enumerate(entries):
        inner = {
            name: column[index] if isinstance(column, list) else None
            for name, column in columns.items()
        }
        number = f"{prefix}{index}"
        if isinstance(entry, list):
            yield from _flat(f"{number}.", entry, inner)
        elif entry is not None:
            yield number, index, entry, inner


def row_paths(unit: str, paths: Sequence[SavedRowPath]) -> list[SavedRowPath]:
    """The paths of the row that these paths of an entry's expressions reach: all of the unit, whose outputs may be
    missing."""
    return [("nodes", unit), *(path for path in paths if path[0] in ("source", "nodes", "human"))]


def entry_type(declared: DeclaredType | None) -> DeclaredType | None:
    """What is declared of the values in the lists of a column."""
    while (
        declared is not None
        and declared.schema.get("type") == "array"
        and "items" in declared.schema
    ):
        declared = DeclaredType(declared.schema["items"])
    return declared
