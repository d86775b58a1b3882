"""Check a file against its data card."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from verdict_cli.errors import UsageError
from verdict_cli.features.benchmarks.card import UNKNOWN, Card, CardFile
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import stream_rows


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of a file, compared with its card; `unknown`: the card does not state it."""

    what: str
    verdict: Literal["same", "differs", "unknown"]
    detail: str


def card_file_of(card: Card, path: Path) -> CardFile:
    """The card's entry for a path: by its name, else by its columns. Raises UsageError if there is none."""
    named = next((file for file in card.files if file.name == path.name), None)
    if named is not None:
        return named
    found = set(_first(path))
    fitting = [file for file in card.files if file.columns and set(file.columns) <= found]
    if not fitting:
        raise UsageError(
            f"{path} is not a file of {card.name}: its columns are {', '.join(sorted(found)) or 'missing'}",
            hint=f"its files are {', '.join(file.name for file in card.files)}",
        )
    return fitting[0]


def findings(file: CardFile, path: Path) -> list[Finding]:
    """The properties of the file, compared with the card. Raises DataError for a file that cannot be read."""
    found = [_checksum(file, path)]
    if file.holds == "results":
        return found
    columns, count = set(_first(path)), 0
    counted: dict[str, Counter[str]] = {column: Counter() for column in file.labels}
    for row in stream_rows(Dataset((path,))):
        count += 1
        for column, counter in counted.items():
            counter[str(row.source.get(column))] += 1
    found.append(_columns(file, columns))
    found.append(_number("rows", file.rows, count))
    for column, labels in file.labels.items():
        same = counted[column] == Counter(labels)
        found.append(
            Finding(
                f"labels of {column}",
                "same" if same else "differs",
                _counts(labels) if same else f"{_counts(counted[column])}; the card says {_counts(labels)}",
            )
        )
    return found


def _checksum(file: CardFile, path: Path) -> Finding:
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="give the benchmark's own file") from None
    if file.sha256 == UNKNOWN:
        return Finding("SHA-256", "unknown", f"{digest}; the card does not state it")
    if digest == file.sha256:
        return Finding("SHA-256", "same", digest)
    return Finding("SHA-256", "differs", f"{digest}; the card says {file.sha256}")


def _first(path: Path) -> Mapping[str, Any]:
    first = next(stream_rows(Dataset((path,))), None)
    return {} if first is None else first.source


def _columns(file: CardFile, found: set[str]) -> Finding:
    if not file.columns:
        return Finding("columns", "unknown", ", ".join(sorted(found)))
    lacking = [column for column in file.columns if column not in found]
    if lacking:
        return Finding("columns", "differs", f"{', '.join(lacking)} missing")
    return Finding("columns", "same", ", ".join(file.columns))


def _number(what: str, stated: int | None, found: int) -> Finding:
    if stated is None:
        return Finding(what, "unknown", f"{found:,}; the card does not state it")
    if stated == found:
        return Finding(what, "same", f"{found:,}")
    return Finding(what, "differs", f"{found:,}; the card says {stated:,}")


def _counts(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {label}" for label, count in sorted(labels.items()))
