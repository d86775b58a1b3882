"""Which row of one run is which row of another: by id, and where the rows have none, by what they hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.stats.columns.column import key_text
from verdict_cli.storage.tables.reader import read_table, table_columns


@dataclass(frozen=True, slots=True)
class Identities:
    """A key for each row of two runs, in the order of their files; equal keys are one row of the dataset.

    `by` says what the keys are made of: `id`, or `content` where the runs' ids are only the rows' numbers.
    `shown` is how a reader knows the second run's rows: their ids or numbers.
    """

    keys: tuple[Sequence[str], Sequence[str]]
    by: str
    shown: Sequence[Any]


def identities(results: tuple[Path, Path]) -> Identities:
    """The keys of both `results.parquet`. Raises DataError where two rows of one run have the same key."""
    first, second = (_given(path) for path in results)
    if first is not None and second is not None:
        keys, by = (first, second), "id"
        cure = "set `dataset.id` to a column that tells rows apart"
    else:
        columns = [{name for name in table_columns(path) if name.startswith("source.")} for path in results]
        shared = sorted(columns[0] & columns[1])
        keys, by = (_content(results[0], shared), _content(results[1], shared)), "content"
        cure = "set `dataset.id` to a column that tells them apart"
    for path, run in zip(results, keys, strict=True):
        _check(path, run, by, cure)
    shown = [key for batch in read_table(results[1], ["id"]) for key in batch["id"]]
    return Identities(keys, by, shown)


def _given(results: Path) -> list[str] | None:
    """The rows' ids as text; None where they are the rows' numbers and no column of the dataset says so."""
    sources = [name for name in table_columns(results) if name.startswith("source.")]
    numbered, same = True, set(sources)
    ids: list[str] = []
    for batch in read_table(results, ["row", "id", *sources]):
        numbered = numbered and batch["id"] == batch["row"]
        same = {name for name in same if batch[name] == batch["id"]}
        ids += map(key_text, batch["id"])
    return None if numbered and not same else ids


def _content(results: Path, columns: Sequence[str]) -> list[str]:
    keys: list[str] = []
    for batch in read_table(results, ["row", *columns]):
        keys += (_digest({name: batch[name][index] for name in columns}) for index in range(len(batch["row"])))
    return keys


def _digest(source: Mapping[str, Any]) -> str:
    text = json.dumps(source, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _check(results: Path, keys: Sequence[str], by: str, cure: str) -> None:
    seen: dict[str, int] = {}
    for row, key in enumerate(keys):
        if (first := seen.setdefault(key, row)) != row:
            same = f"the same id {key!r}" if by == "id" else "no id and the same content"
            ways = "ids repeat" if by == "id" else "content repeats"
            message = f"{ways}, so rows cannot be paired: rows {first} and {row} have {same}"
            raise DataError(Problem("ambiguous-rows", message, cure, file=str(results)))
