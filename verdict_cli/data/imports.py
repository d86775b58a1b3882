"""Converters from benchmarks' own files to rows for a config, and recorded replies where a file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verdict_cli.data.dataset import Dataset
from verdict_cli.data.read import rows
from verdict_cli.errors import DataError, Problem

Rows = Iterator[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Imported:
    """The rows of a benchmark; `replies` are recorded replies as `--replay` reads them, None where there are none."""

    rows: Callable[[], Rows]
    replies: Callable[[], Rows] | None = None


def xstest(path: Path) -> Imported:
    """XSTest (Röttger et al., 2024): its prompts, or a model's completions with GPT-4's recorded labels.

    Prompts give `id, prompt, type, label, focus, note`; `label` is safe or unsafe. Completions give
    `id, type, prompt, completion, final_label`, and GPT-4's raw labels as replies of a unit named `judge`.
    """
    first: Mapping[str, Any] = next(_records(path), {})
    columns = first.keys()
    if {"id", "prompt", "type", "label"} <= columns:
        return Imported(lambda: (_prompt(record) for record in _records(path)))
    if {"id", "prompt", "completion", "final_label", "gpt4_label"} <= columns:
        kept = ("id", "type", "prompt", "completion", "final_label")
        return Imported(
            lambda: ({name: record[name] for name in kept if name in record} for record in _records(path)),
            lambda: (
                {"id": record["id"], "unit": "judge", "reply": record["gpt4_label"]}
                for record in _records(path)
            ),
        )
    raise DataError(
        Problem(
            "bad-header",
            f"this is no file of XSTest: its columns are {', '.join(columns) or 'missing, as are all rows'}",
            "prompts have id, prompt, type, label; completions have id, prompt, completion, final_label, gpt4_label",
            file=str(path),
        )
    )


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    return (row.source for row in rows(Dataset((path,))))


def _prompt(record: Mapping[str, Any]) -> Mapping[str, Any]:
    identity = record["id"]
    return {
        "id": int(identity) if str(identity).isdigit() else identity,
        **{name: record.get(name, "") for name in ("prompt", "type", "label", "focus", "note")},
    }


IMPORTERS: dict[str, Callable[[Path], Imported]] = {"xstest": xstest}
"""The registry: a new benchmark is a function and a name in this line."""
