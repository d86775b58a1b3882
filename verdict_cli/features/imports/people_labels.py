"""People's labels of other tools as lines of a run's `labels.jsonl`: `id` of the row, `label`, `by`, `note`, `at`, `skip`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.logs import LogPlace, LogRow, log_objects, not_in_format
from verdict_cli.messages import NamedValues

_LABEL = "label"
_ONE_QUESTION = f"keep one of them, or name it `{_LABEL}`"


def label_studio(path: Path) -> Iterator[LogRow]:
    """The annotations of a JSON export of Label Studio. The row is the task's `data.id`, else the task's own id. DataError
    for an annotation with several labels."""
    for name, task in log_objects(path):
        place = LogPlace(path, name)
        with place.known_shape():
            annotations = place.required(task, "annotations", list)
            row_id = task.get("data", {}).get("id", task.get("id"))
            lines = [
                _annotation(place.within(f"annotations[{index}]"), each)
                for index, each in enumerate(annotations)
            ]
        yield from ({"id": row_id, **line} for line in lines)


def _annotation(place: LogPlace, annotation: NamedValues) -> LogRow:
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("id")
    timestamp = annotation.get("updated_at") or annotation.get("created_at")
    values: dict[str, list[Any]] = {}
    notes: list[str] = []
    for result in annotation.get("result") or ():
        value = result.get("value") or {}
        if result.get("type") == "textarea":
            text = value.get("text") or ()
            notes += [text] if isinstance(text, str) else text
            continue
        answer = next(
            (
                value[kind]
                for kind in ("choices", "rating", "number")
                if value.get(kind) is not None
            ),
            None,
        )
        if answer is not None:
            values.setdefault(str(result.get("from_name")), []).extend(
                answer if isinstance(answer, list) else [answer]
            )
    labels = values.get(_question(place, list(values)), [])
    if len(labels) > 1:
        raise place.error(f"it has {len(labels)} labels", "a row has one label of each person")
    skipped = {"skip": True} if annotation.get("was_cancelled") else {}
    return {
        "label": labels[0] if labels else None,
        "by": by,
        "note": "\n".join(notes) or None,
        "at": timestamp,
        **skipped,
    }


def _question(place: LogPlace, names: Sequence[str]) -> str:
    """The question whose answers are the labels."""
    if len(names) > 1 and _LABEL not in names:
        raise place.error(f"it answers {len(names)} questions: {', '.join(names)}", _ONE_QUESTION)
    return _LABEL if _LABEL in names or not names else names[0]


def argilla(path: Path) -> Iterator[LogRow]:
    """The submitted responses of records of Argilla 2 (`dataset.records.to_json`). The row is `metadata.id`, else the
    record's id. DataError for a record with responses to several questions."""
    for name, record in log_objects(path):
        place = LogPlace(path, name)
        with place.known_shape():
            responses = place.required(record, "responses", dict)
            row_id = (record.get("metadata") or {}).get("id", record.get("id"))
            answers = responses.get(_question(place, list(responses))) or []
            lines = [
                {"label": answer.get("value"), "by": answer.get("user_id")}
                for answer in answers
                if answer.get("status", "submitted") == "submitted"
            ]
        yield from ({"id": row_id, **line, "note": None, "at": None} for line in lines)


def labels_csv(path: Path) -> Iterator[LogRow]:
    """A table with the column `id` and one more column for each person; an empty cell is no label. DataError for another
    file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _cells(path, csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise not_in_format(path, f"it is not a table in UTF-8: {error!s:.100}") from None


def _cells(path: Path, rows: csv.DictReader[str]) -> Iterator[LogRow]:
    columns = rows.fieldnames or ()
    people = [name for name in columns if name != "id"]
    if "id" not in columns or not people:
        has = ", ".join(columns) or "none"
        raise not_in_format(
            path,
            f"it needs the column `id` and one column for each person; its columns are {has:.200}",
        )
    if len(people) > len(set(people)) or len(columns) > len(people) + 1:
        raise not_in_format(path, f"the header names a column twice: {', '.join(columns):.200}")
    ids: set[str] = set()
    for row in rows:
        if row["id"] in ids:
            message = f"the id {row['id']!r:.80} is in an earlier row: each id has one row, and each person one column"
            raise not_in_format(path, message, line=rows.line_num)
        ids.add(row["id"])
        if None in row:
            raise not_in_format(
                path, "a row has more cells than there are columns", line=rows.line_num
            )
        for person in people:
            label = (row[person] or "").strip()
            if label:
                yield {"id": row["id"], "label": label, "by": person, "note": None, "at": None}
