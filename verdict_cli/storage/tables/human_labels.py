"""Human labels of a run's rows: `labels.jsonl` next to its tables. Lines are appended; an annotator's last line of a row counts."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.errors import DataError, OutputError, Problem

FILE = "labels.jsonl"
_NOT_A_LINK = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
NOTHING: Mapping[str, Any] = {"label": None, "note": None}
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
            Problem("not-readable", error.strerror or str(error), "check the permissions", str(path))
        ) from error
    labels: dict[str, dict[str, HumanLabel]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = orjson.loads(line)
            key, by = label_key(entry["id"]), entry.get("by") or ""
            label = HumanLabel(entry.get("label"), entry.get("note"), entry.get("at"), entry.get("skip") is True)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            if number == len(lines):
                break
            problem = Problem("bad-label", "this line is not a label", "fix or remove the line")
            raise DataError(problem.at(str(path), number, 1, "")) from None
        if not isinstance(by, str):
            problem = Problem("bad-label", "`by` is not a name", "fix or remove the line")
            raise DataError(problem.at(str(path), number, 1, ""))
        row = labels.setdefault(key, {})
        if label.label is None and not label.note and not label.skipped:
            row.pop(by, None)
        else:
            row[by] = label
    return {key: row for key, row in labels.items() if row}


def consensus(labels: Sequence[Any]) -> Any:
    """The label of a row from those of its annotators: that of more than half of them, else the median of numbers, else None."""
    if not labels:
        return None
    counts = Counter(label_key(label) for label in labels)
    key, most = counts.most_common(1)[0]
    if 2 * most > len(labels):
        return next(label for label in labels if label_key(label) == key)
    numbers = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    return median(labels) if numbers else None


def read_labels(path: Path) -> dict[str, dict[str, Any]]:
    """`label_key` -> `label`, `note` and `at` of each labelled row: its `row_label`. Raises what `read_annotations` does."""
    return {key: row_label(row) for key, row in read_annotations(path).items()}


def row_label(row: RowLabels) -> dict[str, Any]:
    """One label of a row: the annotators' `consensus`, their notes, and the time of the last one."""
    given = [annotation.label for annotation in row.values() if annotation.label is not None]
    notes = [
        annotation.note if len(row) == 1 else f"{by or 'unnamed'}: {annotation.note}"
        for by, annotation in row.items()
        if annotation.note
    ]
    return {
        "label": consensus(given),
        "note": "\n".join(notes) or None,
        "at": max((annotation.at for annotation in row.values() if annotation.at), default=None),
    }


def add_label(
    path: Path, row_id: Any, label: Any, note: str | None, at: str, by: str = "", *, skipped: bool = False
) -> None:
    """Append an annotator's label of a row and sync it to disk; neither label, note nor skip removes it. Raises OutputError."""
    entry: dict[str, Any] = {"id": row_id, "label": label, "note": note or None, "at": at}
    line = orjson.dumps(entry | ({"by": by} if by else {}) | ({"skip": True} if skipped else {})) + b"\n"
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
            f"{path} cannot be written: {error.strerror or error}", hint="free space, or check the permissions"
        ) from None
