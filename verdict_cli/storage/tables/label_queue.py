"""The rows of a run that people are to label: `queue.jsonl` next to its tables, in the order in which they are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from verdict_cli.errors import DataError, Problem
from verdict_cli.messages import JsonObject, NamedValues, is_number
from verdict_cli.storage.tables.human_labels import (
    NOTHING,
    HumanLabel,
    RowLabels,
    consensus,
    label_key,
    row_label,
)

QUEUE_FILE = "queue.jsonl"
QueueDraw = Literal["random", "uncertain", "disagree", "stratified"]
"""How the rows of a queue are drawn."""


class ByAnnotator(JsonObject):
    """The labels of a row by annotator; None for whoever gave none."""

    def __missing__(self, name: str) -> None:
        return None


NOBODY: NamedValues = {**NOTHING, "labels": ByAnnotator(), "inclusion": None}
"""What expressions see as `human` at a row that is neither labelled nor in the queue."""


class QueuedRow(Struct, frozen=True):
    """A row to label: its id, its position in the table, and the probability with which it was drawn."""

    id: Any
    row: int
    inclusion: float


class LabelQueue(Struct, frozen=True):
    """The rows to label and how: `choose` names the draw, `annotators` how many people label each row, `blind` whether the
    judge's verdict is hidden from a person until their part is done."""

    choose: str
    annotators: int
    blind: bool
    seed: int
    rows: tuple[QueuedRow, ...]

    def file_text(self) -> bytes:
        """The file: a line on the draw, then one for each row."""
        head = asdict(self)
        rows = head.pop("rows")
        lines = ({"queue": 1, **head}, *map(asdict, rows))
        return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def read_queue(folder: Path) -> LabelQueue | None:
    """The queue of a run's directory, None where it has none. DataError for a file that is not a queue."""
    path = folder / QUEUE_FILE
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(
            Problem(
                "not-readable", error.strerror or str(error), "check the permissions", str(path)
            )
        ) from error
    rows: list[QueuedRow] = []
    try:
        head = orjson.loads(lines[0])
        for entry in map(orjson.loads, lines[1:]):
            rows.append(QueuedRow(entry["id"], int(entry["row"]), float(entry["inclusion"])))
        if head["queue"] != 1 or not all(0 < row.inclusion <= 1 for row in rows):
            raise ValueError
        return LabelQueue(
            str(head["choose"]),
            int(head["annotators"]),
            head["blind"] is True,
            int(head["seed"]),
            tuple(rows),
        )
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
        problem = Problem(
            "bad-queue", "this file is not a queue", "draw again: verdict queue RUN --replace"
        )
        raise DataError(problem.at(str(path), len(rows) + 2 if rows else 1, 1, "")) from None


def human_values(folder: Path, annotations: Mapping[str, RowLabels]) -> dict[str, JsonObject]:
    """`label_key` -> what expressions see as `human` of each row that is labelled or queued: `label`, the annotators'
    consensus, `note`, `labels` of each by name, and `inclusion`. Raises what `read_queue` does."""
    queue = read_queue(folder)
    drawn = {label_key(row.id): row.inclusion for row in queue.rows} if queue is not None else {}
    values: dict[str, JsonObject] = {
        key: {**NOBODY, "inclusion": inclusion} for key, inclusion in drawn.items()
    }
    for key, row in annotations.items():
        labels = ByAnnotator(
            {by: annotation.label for by, annotation in row.items() if annotation.label is not None}
        )
        values[key] = {**row_label(row), "labels": labels, "inclusion": drawn.get(key)}
    return values


def is_open(queue: LabelQueue, row: RowLabels, by: str) -> bool:
    """Whether a row still waits for this person: they have not seen it, and it has too few labels.

    A row whose annotators disagree waits for one more: a second opinion.
    """
    if by in row:
        return False
    labels = [annotation.label for annotation in row.values() if annotation.label is not None]
    wanted = queue.annotators + (len(labels) >= queue.annotators and disagree(labels))
    return len(labels) < wanted


def disagree(labels: Sequence[Any]) -> bool:
    """Whether labels of one row need another opinion: no majority; of numbers, a difference of more than 1."""
    numbers = [label for label in labels if is_number(label)]
    if labels and len(numbers) == len(labels):
        return max(numbers) - min(numbers) > 1
    return bool(labels) and consensus(labels) is None


def next_rows(
    queue: LabelQueue, annotations: Mapping[str, Mapping[str, HumanLabel]], by: str
) -> list[QueuedRow]:
    """The rows that wait for this person: those that others have labelled first, so that rows are finished; else in an order of
    their own, so that rows do not all get their labels from who comes first."""

    def order(row: QueuedRow) -> tuple[int, bytes]:
        key = label_key(row.id)
        digest = hashlib.blake2b(f"{queue.seed}\0{by}\0{key}".encode()).digest()
        return -len(annotations.get(key, {})), digest

    return sorted(
        (row for row in queue.rows if is_open(queue, annotations.get(label_key(row.id), {}), by)),
        key=order,
    )
