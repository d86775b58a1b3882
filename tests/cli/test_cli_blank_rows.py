"""Rows with nothing to judge, and rows without labels (findings S15 and the unlabelled first run)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

BLANKS: list[Any] = [None, "", "  \t"]
JUDGE = (
    "verdict: 1\nname: judge\nmodel: baseline/lexical\n{dataset}pipeline:\n"
    "  - {{unit: JudgeUnit, scale: boolean, prompt: 'Is {slot} right?'}}\n"
    "evaluate:\n  right: {{value: 1 if output.score else 0}}\n"
)


def judge(shell: Any, blank: str = "", slot: str = "{source.answer}") -> Path:
    dataset = f"dataset: {{blank: {blank}}}\n" if blank else ""
    path: Path = shell.write("judge.yaml", JUDGE.format(dataset=dataset, slot=slot))
    return path


def data_file(shell: Any, form: str, values: list[Any]) -> Path:
    rows = [{"id": number, "answer": value} for number, value in enumerate(values)]
    if form == "csv":
        with (shell.folder / "rows.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, ["id", "answer"])
            table.writeheader()
            table.writerows(rows)
        return Path(shell.folder / "rows.csv")
    if form == "parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(rows).to_parquet(shell.folder / "rows.parquet")
        return Path(shell.folder / "rows.parquet")
    path: Path = shell.write("rows.jsonl", jsonl(rows))
    return path


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_s15_blank_means_the_same_in_every_format_and_is_reported_before_a_call(shell, form):
    data = data_file(shell, form, ["four", *BLANKS, "five"])
    done = shell("run", judge(shell), data, "--out", "run")
    facts = json.loads((shell.folder / "run" / "run.json").read_text())
    assert (facts["calls"], facts["failed"]) == (2, 3)
    assert "3 of 5 rows have no 'answer', which a prompt shows: they fail" in done.err
    assert any("3 of 5 rows have no 'answer'" in warning for warning in facts["warnings"])


def test_s15_an_absent_value_is_blank_where_other_rows_have_it(shell):
    data = shell.write("rows.jsonl", '{"answer": "a"}\n{"other": 1}\n')
    shell("run", judge(shell), data, "--out", "run")
    facts = json.loads((shell.folder / "run" / "run.json").read_text())
    assert (facts["calls"], facts["failed"]) == (1, 1)


def test_s15_skip_leaves_blank_rows_out_and_counts_them_as_missing(shell):
    data = data_file(shell, "jsonl", ["four", *BLANKS, "five"])
    done = shell("run", judge(shell, "skip"), data, "--out", "run")
    facts = json.loads((shell.folder / "run" / "run.json").read_text())
    assert (done.code, facts["calls"], facts["failed"], facts["skipped_bad_rows"]) == (0, 2, 0, 3)
    gates = shell.write("gates.yaml", "- {metric: run.coverage, min: 0.9}\n")
    assert shell("gate", "run", "--gates", gates).code == 1


def test_s15_judge_inserts_an_empty_text(shell):
    data = data_file(shell, "jsonl", ["four", *BLANKS])
    done = shell("run", judge(shell, "judge"), data, "--out", "run")
    facts = json.loads((shell.folder / "run" / "run.json").read_text())
    assert (done.code, facts["calls"], facts["failed"]) == (0, 4, 0)


def test_s15_a_placeholder_with_a_default_is_exempt(shell):
    text = JUDGE.format(dataset="", slot="X").replace(
        "'Is X right?'", "{jinja: \"Is {{ source.answer | default('') }} right?\"}"
    )
    data = data_file(shell, "jsonl", ["four", None, ""])
    done = shell("run", shell.write("judge.yaml", text), data, "--out", "run")
    assert done.code == 0 and "which a prompt shows" not in done.err, done.err
    assert json.loads((shell.folder / "run" / "run.json").read_text())["calls"] == 3


LABELLED = "evaluate:\n  right: {prediction: output.score, target: source.label}\n"


@pytest.mark.parametrize(
    ("columns", "gate", "code"),
    [({"answer": "a"}, "", 0), ({"answer": "a", "lable": True}, "", 2), ({"answer": "a"}, "gates:\n  - {metric: right.accuracy, min: 0.5}\n", 2)],
)  # fmt: skip
def test_rows_without_labels_are_scored_unless_a_name_is_near_or_a_gate_asks(
    shell, columns, gate, code
):
    text = (
        JUDGE.format(dataset="", slot="{source.answer}").partition("evaluate:")[0] + LABELLED + gate
    )
    data = shell.write("rows.jsonl", (json.dumps(columns) + "\n") * 2)
    done = shell("run", shell.write("judge.yaml", text), data, "--out", "run")
    assert done.code == code, done.err
    assert (shell.folder / "run").exists() == (code == 0)
    if code == 0:
        assert "there are no labels: no row has 'label'" in done.err
        assert done.err.count("label'") == 1 and "is null in all" not in done.err


def without_labels(shell: Any, dataset: str = "", slot: str = "{source.answer}") -> Any:
    """The check of a pipeline with this dataset's keys on rows that have an answer and nothing else."""
    text = JUDGE.format(dataset=dataset, slot=slot).partition("evaluate:")[0] + LABELLED
    data = shell.write("rows.jsonl", '{"answer": "a"}\n' * 2)
    return shell("validate", shell.write("judge.yaml", text), data)


@pytest.mark.parametrize(
    "key",
    ["trace: source.absent", "where: source.absent == 1", "where: source.absent is not defined"],
)
def test_a_column_of_a_dataset_key_is_no_label_that_may_be_absent(shell, key):
    done = without_labels(shell, f"dataset: {{{key}}}\n")
    name = key.partition(":")[0]
    assert done.code == 2
    assert f"dataset.{name}: the data has no column 'absent'" in done.err
    assert "no row has 'absent'" not in done.err


def test_an_absent_label_is_not_among_the_columns_of_the_data(shell):
    done = without_labels(shell, slot="{source.anser}")
    assert done.code == 2
    assert "has no column 'anser'" in done.err
    assert "rows.jsonl are: answer\n" in done.err
