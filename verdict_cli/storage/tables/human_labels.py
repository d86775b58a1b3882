"""Human labels of a run's rows: `labels.jsonl` next to its tables. Lines are appended; a row's last line counts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import DataError, OutputError, Problem

FILE = "labels.jsonl"
_NOT_A_LINK = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
NOTHING: Mapping[str, Any] = {"label": None, "note": None}
"""The label of a row that nobody labelled."""


def label_key(row_id: Any) -> str:
    """The key of a row in the file: its id as JSON, so that 1 and "1" are two rows."""
    return json.dumps(row_id, sort_keys=True, default=str)


def read_labels(path: Path) -> dict[str, dict[str, Any]]:
    """`label_key` -> `label`, `note` and `at` of each labelled row. DataError for an invalid line.

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
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = orjson.loads(line)
            key = label_key(entry["id"])
            label = {name: entry.get(name) for name in ("label", "note", "at")}
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            if number == len(lines):
                break
            problem = Problem("bad-label", "this line is not a label", "fix or remove the line")
            raise DataError(problem.at(str(path), number, 1, "")) from None
        if label["label"] is None and not label["note"]:
            found.pop(key, None)
        else:
            found[key] = label
    return found


def add_label(path: Path, row_id: Any, label: Any, note: str | None, at: str) -> None:
    """Append a row's label and sync it to disk; neither label nor note removes it. Raises OutputError."""
    line = orjson.dumps({"id": row_id, "label": label, "note": note or None, "at": at}) + b"\n"
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
