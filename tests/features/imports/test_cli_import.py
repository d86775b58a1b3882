"""`verdict import`: a dataset from another tool's log, or one clear error and no file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

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
