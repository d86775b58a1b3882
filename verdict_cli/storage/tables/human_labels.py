"""Human labels of a run's rows: `labels.jsonl` next to its tables. Lines are appended; an annotator's last line of a row counts."""

from __future__ import annotations

import codecs
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.errors import DataError, OutputError, Problem
from verdict_cli.messages import JsonObject, NamedValues, is_number

FILE = "labels.jsonl"
_NOT_A_LINK = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
NOTHING: NamedValues = {"label": None, "note": None}
"""The label of a row that nobody labelled."""


class HumanLabel(Struct, frozen=True):
    """What one annotator said of a row: a label, a note, or that they skip it. ``at`` is the time, in ISO 8601."""

    label: Any = None
    note: str | None = None
    at: str | None = None
    skipped: bool = False


RowLabels = Mapping[str, HumanLabel]
"""The labels of one row by annotator; "" is whoever gave no name."""


def label_key(row_id: Any) -> str:
    """The key of a row in the file: its id as JSON, so that 1 and "1" are two rows."""
    return json.dumps(row_id, sort_keys=True, default=str)


def read_annotations(path: Path) -> dict[str, dict[str, HumanLabel]]:
    """`label_key` -> annotator -> label, in the order in which rows were labelled first. DataError for an invalid line.

    A last line that is cut off is what a crash left, and is skipped.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(
            Problem(
                "not-readable", error.strerror or str(error), "check the permissions", str(path)
            )
        ) from error
    labels: dict[str, dict[str, HumanLabel]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = orjson.loads(line.removeprefix(codecs.BOM_UTF8))
        except orjson.JSONDecodeError:
            if number == len(lines):
                break
            raise _bad_line(path, number, "this line is not JSON") from None
        try:
            key, by, label = _entry(entry)
        except ValueError as error:
            raise _bad_line(path, number, str(error)) from None
        row = labels.setdefault(key, {})
        if label.label is None and not label.note and not label.skipped:
            row.pop(by, None)
        else:
            row[by] = label
    return {key: row for key, row in labels.items() if row}


def _bad_line(path: Path, number: int, message: str) -> DataError:
    return DataError(
        Problem("bad-label", message, "fix or remove the line").at(str(path), number, 1, "")
    )


def _entry(entry: Any) -> tuple[str, str, HumanLabel]:
    """The row's key, the annotator and the label of a line. ValueError for a line that is not one."""
    if not isinstance(entry, dict) or "id" not in entry:
        raise ValueError("this line is not a label: it has no `id`")
    label, note, by, skip = (entry.get(name) for name in ("label", "note", "by", "skip"))
    if not isinstance(label, str | int | float | bool | None):
        raise ValueError("`label` is neither a text, a number, true nor false")
    if not isinstance(note, str | None):
        raise ValueError("`note` is not a text")
    if isinstance(by, bool) or not isinstance(by, str | int | float | None):
        raise ValueError("`by` is not a name")
    if skip not in (None, True, False, "true", "false"):
        raise ValueError("`skip` is neither true nor false")
    name = "" if by is None else str(by)
    return (
        label_key(entry["id"]),
        name,
        HumanLabel(label, note, _time(entry.get("at")), skip in (True, "true")),
    )


def _time(time: Any) -> str | None:
    """A time in ISO 8601, of a text or of seconds since 1970. ValueError for another value."""
    if time is None or isinstance(time, str):
        return time
    if not is_number(time):
        raise ValueError("`at` is neither a time nor seconds since 1970")
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        raise ValueError("`at` is no time in seconds since 1970") from None


def consensus(labels: Sequence[Any]) -> Any:
    """The label of a row from those of its annotators: that of more than half of them, else the median of numbers, else None."""
    if not labels:
        return None
    counts = Counter(label_key(label) for label in labels)
    key, most = counts.most_common(1)[0]
    if 2 * most > len(labels):
        return next(label for label in labels if label_key(label) == key)
    numbers = all(is_number(label) for label in labels)
    return median(labels) if numbers else None


def row_label(row: RowLabels) -> JsonObject:
    """One label of a row: the annotators' `consensus`, their notes, and the time of the last one."""
    labels = [annotation.label for annotation in row.values() if annotation.label is not None]
    notes = [
        annotation.note if len(row) == 1 else f"{by or 'unnamed'}: {annotation.note}"
        for by, annotation in row.items()
        if annotation.note
    ]
    return {
        "label": consensus(labels),
        "note": "\n".join(notes) or None,
        "at": max((annotation.at for annotation in row.values() if annotation.at), default=None),
    }


def add_label(
    path: Path,
    row_id: Any,
    label: Any,
    note: str | None,
    at: str,
    by: str = "",
    *,
    skipped: bool = False,
) -> None:
    """Append an annotator's label of a row and sync it to disk; neither label, note nor skip removes it. Raises OutputError."""
    entry: JsonObject = {"id": row_id, "label": label, "note": note or None, "at": at}
    line = (
        orjson.dumps(entry | ({"by": by} if by else {}) | ({"skip": True} if skipped else {}))
        + b"\n"
    )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NOT_A_LINK, 0o600)
        try:
            if os.lseek(descriptor, 0, os.SEEK_END):
                os.lseek(descriptor, -1, os.SEEK_END)
                if os.read(descriptor, 1) != b"\n":  # what a crash left unfinished
                    line = b"\n" + line
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="free space, or check the permissions",
        ) from None
