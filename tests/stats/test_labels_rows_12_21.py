"""Rows 12 and 21 of the safety findings: people's labels are read as the scale reads replies, and what is none is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.run_labels import LabelReader, run_labels
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.human_labels import FILE, read_annotations
from verdict_cli.storage.tables.writer import ParquetTable

WORDS = DeclaredType({"type": "string", "enum": ["bad", "good"]})
YES_NO = DeclaredType({"type": "string", "enum": ["no", "yes"]})
TRUTH = DeclaredType({"type": "boolean"})
LIKERT = DeclaredType({"type": "integer", "enum": [1, 2, 3, 4, 5]})
FIVE = DeclaredType({"type": "integer", "minimum": 1, "maximum": 5})


@pytest.mark.parametrize(
    ("declared", "label", "read"),
    [
        (WORDS, "Good", "good"),
        (WORDS, " GOOD ", "good"),
        (YES_NO, True, "yes"),
        (YES_NO, "true", "yes"),
        (TRUTH, "Yes", True),
        (TRUTH, "false", False),
        (TRUTH, 1, True),
        (FIVE, "4", 4),
        (FIVE, 4.0, 4),
        (FIVE, 3.5, 3.5),
        (LIKERT, "4", 4),
    ],
)
def test_row_12_a_label_is_read_as_the_scale_reads_a_reply(declared, label, read):
    # Several evaluations may compare with one scale, as those of `report --labels` do.
    for reader in (LabelReader([declared]), LabelReader([declared, declared])):
        assert reader.read(label) == read
        assert not reader.problems()


@pytest.mark.parametrize(
    ("declared", "label", "read"),
    [
        (WORDS, "gut", "gut"),
        (TRUTH, "maybe", "maybe"),
        (FIVE, "6", 6),  # a text among numbers would make all of them words
        (LIKERT, "9", 9),
        (FIVE, "four", "four"),
    ],
)
def test_row_12_what_is_not_on_the_scale_is_reported_with_counts(declared, label, read):
    reader = LabelReader([declared])
    assert [reader.read(label), reader.read(label)] == [read, read]
    (warning,) = reader.problems()
    assert "2 of 2 human labels are no values of the scale" in warning
    assert f"{label!r} (2)" in warning


def test_unsure_is_no_label_and_is_reported():
    reader = LabelReader([WORDS])
    assert reader.read("Unsure") is None
    assert (reader.unsure, reader.problems()) == (1, [])
    declared = LabelReader([DeclaredType({"type": "string", "enum": ["good", "unsure"]})])
    assert declared.read("unsure") == "unsure"


def measured(
    folder: Path, ids: list[Any], lines: list[dict[str, Any]], prediction: str = "output.choice"
) -> Measures:
    kind = "str" if isinstance(ids[0], str) else "int"
    results = folder / "results.parquet"
    columns = {"row": "int", "id": kind, "status": "str"}
    with ParquetTable(results, columns, declared={"output.choice": WORDS}) as table:
        for row, row_id in enumerate(ids):
            table.write({"row": row, "id": row_id, "status": "ok", "output.choice": "good"})
    (folder / FILE).write_text(jsonl(lines))
    evaluation = Evaluation(prediction=prediction, target="human.label", metrics=("accuracy",))
    return measure({"e": evaluation}, results)["e"]


def test_row_12_labels_in_another_case_agree(tmp_path):
    measures = measured(
        tmp_path, ["a", "b"], [{"id": "a", "label": "Good"}, {"id": "b", "label": "good "}]
    )
    assert measures.values["accuracy"].value == 1.0
    assert not [warning for warning in measures.warnings if "label" in warning]


def test_row_12_a_prediction_that_is_computed_keeps_labels_as_they_are(tmp_path):
    computed = "'Fine' if output.choice == 'good' else 'Poor'"
    measures = measured(tmp_path, ["a"], [{"id": "a", "label": "Fine"}], computed)
    assert measures.values["accuracy"].value == 1.0
    assert not [warning for warning in measures.warnings if "label" in warning]


@pytest.mark.parametrize(("ids", "label_id"), [([0, 1], "1"), (["0", "1"], 1)])
def test_row_12_a_numbers_text_is_the_same_id(ids, label_id, tmp_path):
    measures = measured(tmp_path, ids, [{"id": label_id, "label": "good"}])
    assert measures.values["accuracy"].n == 1
    assert not [warning for warning in measures.warnings if "belong" in warning]


@pytest.mark.parametrize(
    ("ids", "label_id", "kind"), [([0, 1], "r1", "numbers"), (["00", "01"], 1, "texts")]
)
def test_row_12_labels_of_no_row_are_reported(ids, label_id, kind, tmp_path):
    lines = [
        {"id": label_id, "label": "good", "by": "a"},
        {"id": label_id, "label": "good", "by": "b"},
    ]
    measures = measured(tmp_path, ids, lines)
    (warning,) = [warning for warning in measures.warnings if "belong" in warning]
    assert warning.startswith("2 labels belong to no row of the run")
    assert warning.endswith(f"the run's ids are {kind}")


def test_row_12_an_exact_id_is_preferred_to_another_spelling(tmp_path):
    measured(tmp_path, ["1", "x"], [{"id": "1", "label": "good"}, {"id": 1, "label": "bad"}])
    labels = run_labels(tmp_path / "results.parquet", [WORDS])
    assert labels.by_row['"1"']["label"] == "good"
    assert "1 label belongs to no row" in labels.problems[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1, "label": "x", "note": 5}', "`note` is not a text"),
        ('{"id": 1, "label": "x", "at": [1]}', "`at` is neither"),
        ('{"id": 1, "label": "x", "at": true}', "`at` is neither"),
        ('{"id": 1, "label": ["x"]}', "`label` is neither"),
        ('{"id": 1, "label": null, "skip": "yes"}', "`skip` is neither"),
        ('{"id": 1, "label": "x", "by": ["a"]}', "`by` is not a name"),
        ('{"label": "x"}', "it has no `id`"),
        ("[1]", "it has no `id`"),
        ("{", "not JSON"),
        ('{"id": 1, "label": NaN}', "not JSON"),
    ],
)
def test_row_21_a_bad_line_is_an_error_with_its_place(line, message, tmp_path):
    path = tmp_path / FILE
    path.write_text(f'{{"id": 0, "label": "x"}}\n{line}\n')
    with pytest.raises(DataError, match=rf"labels\.jsonl:2.*{message}"):
        read_annotations(path)


def test_row_21_times_annotators_and_a_mark_of_other_programs_are_read(tmp_path):
    path = tmp_path / FILE
    lines = [
        '\ufeff{"id": 0, "label": "good", "by": 3, "at": 1700000000}',
        '{"id": 0, "label": "bad", "by": "b", "at": "2024-01-01"}',
        '{"id": 1, "label": null, "by": "a", "skip": "true"}',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    annotations = read_annotations(path)
    assert annotations["0"]["3"].at == "2023-11-14T22:13:20.000+00:00"
    assert annotations["1"]["a"].skipped


@pytest.mark.parametrize(
    ("label", "code", "message"),
    [("Good", 0, ""), ("gut", 1, "'gut' (2)"), (None, 1, "belongs to no row")],
)
def test_row_12_a_gate_on_labels_of_which_some_are_lost_does_not_pass(label, code, message, shell):
    step = "  - {unit: JudgeUnit, name: j, scale: {values: [good, bad]}, prompt: '{source.text}'}"
    evaluate = (
        "evaluate: {e: {prediction: output.score, target: human.label, metrics: [accuracy]}}\n"
    )
    shell.config(
        step,
        f"model: baseline/lexical\n{evaluate}gates: [{{metric: e.accuracy, min: 0}}]\ndataset: {{id: key}}",
    )
    shell.rows(4)
    shell("run", "pipeline.yaml", "data.jsonl", "--out", "out")
    lines = [{"id": f"r{row}", "label": "good"} for row in range(4)]
    lines += [
        {"id": f"r{row}" if label else "other", "label": label or "good", "by": "b"}
        for row in range(2)
    ]
    (shell.folder / "out" / FILE).write_text(jsonl(lines))
    result = shell("report", "out")
    assert result.code == code, result.out
    assert message in " ".join(result.err.split())
