"""`verdict import`: a dataset from another tool's log, or one clear error and no file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

LOGS = Path(__file__).parents[2] / "features" / "imports" / "log_formats" / "logs"


def real_logs() -> list[Any]:
    return [
        pytest.param(
            "lm-eval"
            if path.name.startswith(("samples", "lm_eval"))
            else path.name.partition("-")[0],
            path,
            id=path.name,
        )
        for path in sorted(LOGS.iterdir())
    ]


@pytest.mark.parametrize(("log_format", "path"), real_logs())
@pytest.mark.parametrize("share", [0.0, 0.2, 0.45, 0.9, 0.99])
def test_a_truncated_log_is_one_error_and_leaves_no_file(shell, log_format, path, share):
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    cut = shell.folder / path.name.removesuffix(".gz")
    cut.write_bytes(content[: int(len(content) * share)])
    done = shell("import", log_format, str(cut), "--out", "rows.jsonl")
    assert done.code == 2
    assert cut.name in done.err and len(done.err.strip().splitlines()) <= 3
    assert not list(shell.folder.glob("rows.jsonl*"))


def test_rows_are_read_from_inside_any_document(shell):
    (shell.folder / "any.json").write_text(
        json.dumps({"a": {"rows": [{"x": 1.5}, {"x": 2}]}}), encoding="utf-8"
    )
    assert shell("import", "json", "any.json", "--path", "a.rows", "--out", "rows.jsonl").code == 0
    assert (shell.folder / "rows.jsonl").read_text(encoding="utf-8") == '{"x":1.5}\n{"x":2}\n'
    done = shell("import", "json", "any.json", "--path", "a.lines", "--out", "other.jsonl")
    assert done.code == 2 and "nothing at 'a.lines'" in done.err


def test_a_log_becomes_parquet_that_a_run_reads(shell):
    log = str(LOGS / "promptfoo-0.121.20.json")
    assert shell("import", "promptfoo", log, "--out", "rows.parquet").code == 0
    config = shell.config(
        "- {unit: JudgeUnit, scale: boolean, prompt: 'Is it done? {source.output}'}",
        "model: baseline/lexical\nevaluate: {theirs: {prediction: output.score, target: source.scores.pass, metrics: [accuracy]}}",
    )
    done = shell("run", str(config), "rows.parquet", "--json", "--quiet")
    assert done.code == 0, done.err
    assert json.loads(done.out)["evaluations"]["theirs"]["accuracy"]["n"] == 4


def test_parquet_has_the_columns_and_types_of_all_rows(shell, monkeypatch):
    monkeypatch.setattr("verdict_cli.features.imports.command.ROWS_PER_GROUP", 2)
    records = [
        {"id": "a", "scores": {"one": 1}, "x": None},
        {"id": "b", "y": True},
        {"id": "c", "scores": {"one": 0.5, "two": 2}, "x": "text"},
        {"id": "d", "z": [{"p": 1}]},
        {"id": "e", "z": [{"q": "r"}]},
    ]
    shell.write("any.json", json.dumps(records))
    assert shell("import", "json", "any.json", "--out", "rows.parquet").code == 0
    assert pq.read_table(shell.folder / "rows.parquet").to_pylist() == [
        {"id": "a", "scores": {"one": 1.0, "two": None}, "x": None, "y": None, "z": None},
        {"id": "b", "scores": None, "x": None, "y": True, "z": None},
        {"id": "c", "scores": {"one": 0.5, "two": 2}, "x": "text", "y": None, "z": None},
        {"id": "d", "scores": None, "x": None, "y": None, "z": [{"p": 1, "q": None}]},
        {"id": "e", "scores": None, "x": None, "y": None, "z": [{"p": None, "q": "r"}]},
    ]


@pytest.mark.parametrize("values", [[1, "a"], [1, 2, "a"], [{}, {}]])
def test_values_that_parquet_cannot_hold_are_one_error_and_leave_no_file(
    shell, values, monkeypatch
):
    monkeypatch.setattr("verdict_cli.features.imports.command.ROWS_PER_GROUP", 2)
    shell.write("any.json", json.dumps([{"value": value} for value in values]))
    done = shell("import", "json", "any.json", "--out", "rows.parquet")
    assert done.code == 2
    assert "Parquet cannot hold the values of a column" in done.err
    assert "write a .jsonl" in done.err
    assert not list(shell.folder.glob("rows.parquet*"))


def test_a_byte_that_is_not_utf_8_is_told_in_words(shell):
    (shell.folder / "any.json").write_bytes(b'[{"a": \xff}]')
    done = shell("import", "json", "any.json", "--out", "rows.jsonl")
    assert done.code == 2
    assert "not valid JSON: lexical error" in done.err
    assert "not UTF-8" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("promtfoo", "x.json"), "did you mean"),
        (("promptfoo", "x.json"), "no such file: x.json"),
        (("promptfoo", "x.json", "--path", "a"), "--path is for the format json"),
    ],
)
def test_a_wrong_argument_is_reported(shell, arguments, message):
    done = shell("import", *arguments, "--out", "rows.jsonl")
    assert done.code == 2 and message in done.err
