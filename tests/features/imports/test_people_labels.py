"""Labels of Label Studio, of Argilla and of a table with one column for each person become those of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verdict_cli.errors import DataError
from verdict_cli.features.imports.logs import read_logs
from verdict_cli.storage.tables.human_labels import read_annotations

CHOICE = {"from_name": "quality", "type": "choices", "value": {"choices": ["good"]}}
NOTE = {"from_name": "why", "type": "textarea", "value": {"text": ["short"]}}


def labels(log_format: str, tmp_path: Path, content: Any) -> list[tuple[Any, Any, Any]]:
    path = tmp_path / "labels.file"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return [(row["id"], row["by"], row["label"]) for row in read_logs(log_format, [path])]


def task(*results: Any, **more: Any) -> dict[str, Any]:
    annotation = {"completed_by": 3, "created_at": "2026-01-01", "result": list(results), **more}
    return {"id": 17, "data": {"id": "r1", "text": "x"}, "annotations": [annotation]}


def test_label_studio(shell):
    rated = task(
        {"from_name": "stars", "type": "rating", "value": {"rating": 4}},
        completed_by={"email": "ann@x.org"},
    )
    del rated["data"]["id"]
    shell.write("export.json", json.dumps([task(CHOICE, NOTE), rated, task(was_cancelled=True)]))
    done = shell("import", "label-studio", "export.json", "--out", "labels.jsonl")
    assert done.code == 0, done.err
    annotations = read_annotations(shell.folder / "labels.jsonl")
    assert annotations["17"]["ann@x.org"].label == 4
    assert annotations['"r1"']["3"].skipped
    assert labels("label-studio", shell.folder, [task(CHOICE, NOTE)]) == [("r1", 3, "good")]
    again = shell("import", "label-studio", "export.json", "--out", "labels.jsonl")
    assert again.code == 2
    assert "has labels already" in again.err


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([{**CHOICE, "value": {"choices": ["good", "bad"]}}], "it has 2 labels"),
        ([CHOICE, {**CHOICE, "from_name": "tone"}], "it answers 2 questions: quality, tone"),
    ],
)
def test_several_labels_of_one_person_are_refused(results, message, tmp_path):
    with pytest.raises(DataError, match=message):
        labels("label-studio", tmp_path, [task(*results)])


def test_argilla(tmp_path):
    answers = [
        {"value": "good", "user_id": "u1"},
        {"value": "bad", "user_id": "u2", "status": "discarded"},
    ]
    record = {"id": "a", "fields": {}, "metadata": {"id": 5}, "responses": {"quality": answers}}
    assert labels("argilla", tmp_path, [record]) == [(5, "u1", "good")]


def test_a_table_with_a_column_for_each_person(tmp_path):
    table = "\ufeffid,ann,bob\n1,good,\n2,bad,good\n"
    assert labels("labels-csv", tmp_path, table) == [
        ("1", "ann", "good"),
        ("2", "ann", "bad"),
        ("2", "bob", "good"),
    ]
    with pytest.raises(DataError, match="its columns are row, ann"):
        labels("labels-csv", tmp_path, "row,ann\n1,good\n")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,ann,ann\n1,good,bad\n", "names a column twice: id, ann, ann"),
        ("id,id,ann\n1,2,bad\n", "names a column twice: id, id, ann"),
        ("id,annotator,label\n1,ann,good\n1,bob,bad\n", "the id '1' is in an earlier row"),
    ],
)
def test_a_table_in_which_labels_would_replace_each_other_is_an_error(tmp_path, table, message):
    with pytest.raises(DataError, match=message):
        labels("labels-csv", tmp_path, table)


def test_a_table_that_is_not_text_is_an_error(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(b"id,ann\n1,\xff\n")
    with pytest.raises(DataError, match="not a table in UTF-8"):
        list(read_logs("labels-csv", [path]))
