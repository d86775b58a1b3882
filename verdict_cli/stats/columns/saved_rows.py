"""The rows of a run's results as expressions see them: `source`, `output`, `nodes`, and `human`, what people said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verdict_cli.storage.tables.human_labels import FILE, NOTHING, label_key, read_labels
from verdict_cli.storage.tables.reader import read_table, table_columns

SavedRowPath = tuple[str | int, ...]
"""A path that an expression names, such as `("source", "label")`."""

SAVED_ROW_ROOTS = ("source", "output", "nodes", "human")
"""What an expression over saved rows can name."""


class Spelled(dict[Any, Any]):
    """A mapping out of a table, where keys have become texts: `true` finds `"true"`, and 4 finds `"4"`."""

    def __missing__(self, key: Any) -> Any:
        """The value of a boolean's or a number's text. KeyError where there is none."""
        for text in _texts(key):
            if dict.__contains__(self, text):
                return dict.__getitem__(self, text)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        """Whether the key is there, or its text."""
        return dict.__contains__(self, key) or any(dict.__contains__(self, text) for text in _texts(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of the key or of its text, else the default."""
        try:
            return self[key]
        except KeyError:
            return default


def _texts(key: object) -> tuple[str, ...]:
    """How JSON may write a key that is no text."""
    if isinstance(key, bool):
        return ("true" if key else "false",)
    if isinstance(key, int):
        return str(key), f"{key}.0"
    if isinstance(key, float):
        return (repr(key), str(int(key))) if key.is_integer() else (repr(key),)
    return ()


def saved_rows(
    results: Path, paths: Sequence[SavedRowPath], ids: Sequence[str] | None = None
) -> Iterator[tuple[int, bool, Any, Mapping[str, Any]]]:
    """Each row's number, whether it failed, its key of `ids`, and the values that these paths reach (of a failed row,
    what there is), in the order of the file. DataError for a file that is no table of results."""
    places = _places(table_columns(results), paths)
    wanted = any(path[0] == "human" for path in paths)
    people = read_labels(results.with_name(FILE)) if wanted else {}
    at = 0
    for batch in read_table(results, ["row", "status", *(["id"] if wanted else []), *places]):
        columns = [(place, batch[name]) for name, place in places.items()]
        for index, row in enumerate(batch["row"]):
            nodes: dict[str, dict[str, Any]] = {}
            values: dict[str, Any] = {"source": {}, "output": {}, "nodes": nodes}
            if wanted:
                values["human"] = people.get(label_key(batch["id"][index]), NOTHING)
            failed = batch["status"][index] != "ok"
            for (root, node, field), column in columns:
                value = column[index]
                if failed and root != "source" and value is None:
                    continue
                home = nodes.setdefault(node, {}) if root == "nodes" else values[root]
                home[field] = Spelled(value) if type(value) is dict and root != "source" else value
            yield row, failed, ids[at] if ids is not None else None, values
            at += 1


def _places(columns: Sequence[str], paths: Sequence[SavedRowPath]) -> dict[str, tuple[str, str, str]]:
    """Column -> (root, node, field) for the columns that these paths reach."""
    reserved = {"row", "id", "status", "calls", "cost_usd"}
    found: dict[str, tuple[str, str, str]] = {}
    for column in columns:
        head, dot, field = column.partition(".")
        if not dot or head in reserved or head == "failure":
            continue
        place = (head, "", field) if head in ("source", "output") else ("nodes", head, field)
        way = [part for part in place if part]
        if any(list(path[: len(way)]) == way[: len(path)] for path in paths):
            found[column] = place
    return found
