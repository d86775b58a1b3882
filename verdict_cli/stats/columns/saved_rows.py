"""The rows of a run's results as expressions see them: `source`, `output`, `nodes`, `human`; and the entries of a unit under
`each` as observations (`evaluate: items:`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verdict_cli.plan.levels import ITEM_COLUMN
from verdict_cli.stats.columns.run_labels import RunLabels, run_labels
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.human_labels import label_key
from verdict_cli.storage.tables.label_queue import NOBODY
from verdict_cli.storage.tables.reader import read_table, table_columns

SavedRowPath = tuple[str | int, ...]
"""A path that an expression names, such as `("source", "label")`."""

SAVED_ROW_ROOTS = ("source", "output", "nodes", "human")
"""What an expression over saved rows can name."""


SKIPPED = "skipped"
"""The column with the units that `when` skipped at a row, and `output` where the last one was; it is among a row's values."""


class TextKeyed(dict[Any, Any]):
    """A mapping from a table, whose keys have become texts: `true` finds `"true"`, and 4 finds `"4"`."""

    def __missing__(self, key: Any) -> Any:
        """The value of a boolean's or a number's text. KeyError where there is none."""
        for text in _texts(key):
            if dict.__contains__(self, text):
                return dict.__getitem__(self, text)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        """Whether the key is there, or its text."""
        return dict.__contains__(self, key) or any(
            dict.__contains__(self, text) for text in _texts(key)
        )

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of the key or of its text, else the default."""
        try:
            return self[key]
        except KeyError:
            return default


def _texts(key: object) -> tuple[str, ...]:
    """How JSON may write a key that is not a text."""
    if isinstance(key, bool):
        return ("true" if key else "false",)
    if isinstance(key, int):
        return str(key), f"{key}.0"
    if isinstance(key, float):
        return (repr(key), str(int(key))) if key.is_integer() else (repr(key),)
    return ()


def saved_rows(
    results: Path, paths: Sequence[SavedRowPath], labels: RunLabels | None = None
) -> Iterator[tuple[int, bool, Mapping[str, Any]]]:
    """Each row's number, whether it failed, and the values that these paths reach (of a failed row, what there is), in the
    order of the file. `labels` are those of people where they were read. DataError for a file that is not a table of
    results."""
    names = table_columns(results)
    homes = column_homes(names, paths)
    flow = [SKIPPED] if SKIPPED in names else []
    with_labels = any(path[0] == "human" for path in paths)
    if with_labels and labels is None:
        labels = run_labels(results)
    for batch in read_table(
        results, ["row", "status", *flow, *(["id"] if with_labels else []), *homes]
    ):
        columns = [(home, batch[name]) for name, home in homes.items()]
        for index, row in enumerate(batch["row"]):
            nodes: dict[str, dict[str, Any]] = {}
            values: dict[str, Any] = {"source": {}, "output": {}, "nodes": nodes}
            if flow:
                values[SKIPPED] = batch[SKIPPED][index] or ()
            if labels is not None and with_labels:
                values["human"] = labels.by_row.get(label_key(batch["id"][index]), NOBODY)
            failed = batch["status"][index] != "ok"
            for (root, *node, field), column in columns:
                value = column[index]
                if failed and root != "source" and value is None:
                    continue
                fields = nodes.setdefault(node[0], {}) if node else values[root]
                fields[field] = (
                    TextKeyed(value) if type(value) is dict and root != "source" else value
                )
            yield row, failed, values


def column_homes(
    columns: Sequence[str], paths: Sequence[SavedRowPath]
) -> dict[str, tuple[str, ...]]:
    """Column -> (root, field) or ("nodes", node, field) for the columns that these paths reach."""
    homes: dict[str, tuple[str, ...]] = {}
    for column in columns:
        head, dot, field = column.partition(".")
        if not dot or head == "failure":
            continue
        home = (head, field) if head in ("source", "output") else ("nodes", head, field)
        if any(path[: len(home)] == home[: len(path)] for path in paths):
            homes[column] = home
    return homes


def observations(
    unit: str, values: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any], bool]] | None:
    """Each entry of a saved row that was not skipped: its place (`3`, nested `3.1`), the values that expressions see, and
    whether there is no output. None where the entries are not known."""
    fields: Mapping[str, Any] = values["nodes"].get(unit, {})
    entries = fields.get(ITEM_COLUMN)
    if not isinstance(entries, list):
        return None
    outputs = {name: column for name, column in fields.items() if name != ITEM_COLUMN}
    entries_seen = []
    for number, index, entry, given in _flat("", entries, outputs):
        output = {
            name: TextKeyed(value) if type(value) is dict else value
            for name, value in given.items()
        }
        lacks_output = all(value is None for value in output.values())
        entries_seen.append(
            (
                number,
                {**values, **entry, "index": index, "output": {} if lacks_output else output},
                lacks_output,
            )
        )
    return entries_seen


def _flat(
    prefix: str, entries: Sequence[Any], columns: Mapping[str, Any]
) -> Iterator[tuple[str, int, Mapping[str, Any], dict[str, Any]]]:
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
