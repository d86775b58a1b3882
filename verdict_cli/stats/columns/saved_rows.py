"""The rows of a run's results: as expressions see them (`source`, `output`, `nodes`, `human`), and which is which in another run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.stats.columns.column import key_text
from verdict_cli.storage.tables.human_labels import label_key
from verdict_cli.storage.tables.label_queue import NOBODY, human_values
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
        return dict.__contains__(self, key) or any(dict.__contains__(self, text) for text in _texts(key))

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
    results: Path, paths: Sequence[SavedRowPath], ids: Sequence[str] | None = None
) -> Iterator[tuple[int, bool, Any, Mapping[str, Any]]]:
    """Each row's number, whether it failed, its key of `ids`, and the values that these paths reach (of a failed row,
    what there is), in the order of the file. DataError for a file that is not a table of results."""
    names = table_columns(results)
    homes = _homes(names, paths)
    flow = [SKIPPED] if SKIPPED in names else []
    with_labels = any(path[0] == "human" for path in paths)
    labels = human_values(results.parent) if with_labels else {}
    at = 0
    for batch in read_table(results, ["row", "status", *flow, *(["id"] if with_labels else []), *homes]):
        columns = [(home, batch[name]) for name, home in homes.items()]
        for index, row in enumerate(batch["row"]):
            nodes: dict[str, dict[str, Any]] = {}
            values: dict[str, Any] = {"source": {}, "output": {}, "nodes": nodes}
            if flow:
                values[SKIPPED] = batch[SKIPPED][index] or ()
            if with_labels:
                values["human"] = labels.get(label_key(batch["id"][index]), NOBODY)
            failed = batch["status"][index] != "ok"
            for (root, node, field), column in columns:
                value = column[index]
                if failed and root != "source" and value is None:
                    continue
                fields = nodes.setdefault(node, {}) if root == "nodes" else values[root]
                fields[field] = TextKeyed(value) if type(value) is dict and root != "source" else value
            yield row, failed, ids[at] if ids is not None else None, values
            at += 1


def _homes(columns: Sequence[str], paths: Sequence[SavedRowPath]) -> dict[str, tuple[str, str, str]]:
    """Column -> (root, node, field) for the columns that these paths reach."""
    reserved = {"row", "id", "status", "calls", "cost_usd"}
    found: dict[str, tuple[str, str, str]] = {}
    for column in columns:
        head, dot, field = column.partition(".")
        if not dot or head in reserved or head == "failure":
            continue
        home = (head, "", field) if head in ("source", "output") else ("nodes", head, field)
        parts = [part for part in home if part]
        if any(list(path[: len(parts)]) == parts[: len(path)] for path in paths):
            found[column] = home
    return found


@dataclass(frozen=True, slots=True)
class RowIdentities:
    """A key for each row of the runs, in the order of their files; equal keys are one row of the dataset.

    `by` says what the keys are: `id`, or `content` where a run's ids are only the rows' numbers. `shown` are the ids or
    numbers of the last run's rows, for reports.
    """

    keys: tuple[Sequence[str], ...]
    by: str
    shown: Sequence[Any]


def row_identities(results: Sequence[Path]) -> RowIdentities:
    """The keys of each `results.parquet`. Raises DataError where two rows of one run have the same key."""
    found = [_ids(path) for path in results]
    keys, by = tuple(ids for ids in found if ids is not None), "id"
    hint = "set `dataset.id` to a column that is unique"
    if len(keys) < len(found):
        columns = [{name for name in table_columns(path) if name.startswith("source.")} for path in results]
        shared = sorted(set.intersection(*columns))
        keys, by = tuple(_content_keys(path, shared) for path in results), "content"
    for path, run in zip(results, keys, strict=True):
        _check_unique(path, run, by, hint)
    shown = [key for batch in read_table(results[-1], ["id"]) for key in batch["id"]]
    return RowIdentities(keys, by, shown)


def _ids(results: Path) -> list[str] | None:
    """The rows' ids as text; None where they are the rows' numbers and no column of the dataset says so."""
    sources = [name for name in table_columns(results) if name.startswith("source.")]
    numbered, same = True, set(sources)
    ids: list[str] = []
    for batch in read_table(results, ["row", "id", *sources]):
        numbered = numbered and batch["id"] == batch["row"]
        same = {name for name in same if batch[name] == batch["id"]}
        ids += map(key_text, batch["id"])
    return None if numbered and not same else ids


def _content_keys(results: Path, columns: Sequence[str]) -> list[str]:
    keys: list[str] = []
    for batch in read_table(results, ["row", *columns]):
        keys += (_digest({name: batch[name][index] for name in columns}) for index in range(len(batch["row"])))
    return keys


def _digest(source: Mapping[str, Any]) -> str:
    text = json.dumps(source, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _check_unique(results: Path, keys: Sequence[str], by: str, hint: str) -> None:
    seen: dict[str, int] = {}
    for row, key in enumerate(keys):
        if (first := seen.setdefault(key, row)) != row:
            same = f"the same id {key!r}" if by == "id" else "no id and the same content"
            repeats = "ids repeat" if by == "id" else "content repeats"
            message = f"{repeats}, so rows cannot be paired: rows {first} and {row} have {same}"
            raise DataError(Problem("ambiguous-rows", message, hint, file=str(results)))
