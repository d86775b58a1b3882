"""Bad input: each has its exit code, its place, and what to do about it; none a traceback."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from shell import needs

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"


@pytest.fixture
def config(shell: Any) -> Path:
    return shell.config(JUDGE)


def test_broken_json_names_its_line(shell, config):
    data = shell.write("data.jsonl", '{"text": "a"}\n{"text": "b"}\n{"text": \n')
    for command in (("run", config, data, "--out", "out"), ("validate", config, data)):
        done = shell(*command)
        assert done.code == 2
        assert "data.jsonl:3" in done.err


def test_bad_rows_can_be_skipped_and_are_counted(shell, config):
    data = shell.write("data.jsonl", '{"text": "a"}\n{broken\n{"text": "c"}\n')
    done = shell("run", config, data, "--out", "out", "--skip-bad-rows", "--json")
    assert (done.code, done.json()["rows"]) == (0, 2)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_dataset(content, shell, config):
    done = shell("run", config, shell.write("data.jsonl", content), "--out", "out")
    assert done.code == 2
    assert "no rows" in done.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.parquet", b"this is not parquet"),
        ("data.parquet", b"PAR1 but cut off"),
        ("data.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 999, mtime=0)[:40]),
        ("data.csv", b"text\n\xff\xfe\n"),
        ("data.xlsx", b"unknown"),
    ],
    ids=["parquet", "parquet-cut", "gzip-cut", "not-utf8", "unknown-ending"],
)
def test_a_file_that_is_not_what_its_name_says(name, content, shell, config):
    path = shell.folder / name
    path.write_bytes(content)
    done = shell("run", config, path, "--out", "out")
    assert done.code == 2
    assert name in done.err


def test_a_dataset_that_is_not_there(shell, config):
    shell.rows(1, "rows.jsonl")
    done = shell("run", config, "row.jsonl")
    assert done.code == 2
    assert "did you mean rows.jsonl" in done.err


def test_a_directory_of_another_run_shows_both_fingerprints(shell, config):
    shell("run", config, shell.rows(2), "--out", "out")
    done = shell("run", config, shell.rows(3, "other.jsonl"), "--out", "out")
    assert done.code == 2
    assert done.err.count("…") == 2
    assert "--fresh" in done.err
    assert shell("run", config, "other.jsonl", "--out", "out", "--fresh").code == 0


def test_a_directory_that_cannot_be_written(shell, config):
    shell.write("file", "")
    done = shell("run", config, shell.rows(2), "--out", "file/out")
    assert done.code == 2
    assert "file/out cannot be written" in done.err


def test_a_file_that_cannot_be_written(shell):
    shell.write("file", "")
    done = shell("schema", "--out", "file/schema.json")
    assert done.code == 2
    assert "file/schema.json cannot be written" in done.err


def test_an_unknown_built_in_model(shell, config):
    done = shell("run", config, shell.rows(2), "--model", "baseline/lexicl")
    assert done.code == 4
    assert "did you mean baseline/lexical" in done.err


def test_a_key_that_is_not_set(shell, config):
    done = shell("run", config, shell.rows(2), "--model", "gpt-4o-mini")
    assert done.code == 4
    assert "OPENAI_API_KEY" in done.err


def test_a_model_that_the_server_does_not_know_stops_the_run(shell, loopback):
    url = loopback.start("--error-rate", "404=1")
    config = shell.config(JUDGE, f"model: {{name: openai/none, api_base: '{url}'}}")
    done = shell("run", config, shell.rows(50), "--out", "out", "--concurrency", "1")
    assert done.code == 4
    assert "openai/none" in done.err
    assert "the same command resumes the run" in done.err


@pytest.mark.parametrize("rows", [1, 200])
def test_an_endpoint_that_accepts_no_connection_stops_the_run(rows, shell):
    with socket.socket() as closed:  # bound, but not listening: every connection is refused
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        config = shell.config(JUDGE, f"model: {{name: openai/none, api_base: '{url}'}}")
        done = shell("run", config, shell.rows(rows), "--out", "out", "--quiet")
    assert done.code == 4
    assert "does not answer" in done.err and "api_base" in done.err
    assert "the same command resumes the run" in done.err


def test_the_command_of_a_spent_budget_is_not_given_again(shell):
    config = shell.config(JUDGE)
    done = shell("run", config, shell.rows(2), "--out", "out", "--budget", "0")
    assert done.code == 3
    assert "the same command with a larger --budget resumes the run" in done.err
    assert "the same command resumes the run" not in done.err


def test_a_budget_for_a_model_without_a_price(shell):
    config = shell.config(JUDGE, "model: {name: openai/mine, api_base: 'http://127.0.0.1:9/v1'}")
    done = shell("run", config, shell.rows(2), "--out", "out", "--budget", "1")
    assert done.code == 2
    assert "cost:" in done.err


def test_a_recording_without_any_unit_of_the_pipeline(shell, config):
    replay = shell.write("calls.jsonl", '{"row": 0, "unit": "jugde", "reply": "3"}\n')
    done = shell("run", config, shell.rows(2), "--replay", replay)
    assert done.code == 2
    assert "jugde" in done.err


@pytest.mark.parametrize(
    "content", ['{"row": 0, "unit": "judge"}', '{"row": 0, "unit": "judge", "reply": 3}', "{", "[]"]
)
def test_a_recording_that_is_wrong_names_its_line(content, shell, config):
    replay = shell.write("calls.jsonl", f'{{"row": 1, "unit": "judge", "reply": "3"}}\n{content}\n')
    done = shell("run", config, shell.rows(2), "--replay", replay)
    assert done.code == 2
    assert "calls.jsonl:2" in done.err


def test_a_recording_that_is_not_there(shell, config):
    for name in ("nothing.jsonl", "nothing"):
        done = shell("run", config, shell.rows(2), "--replay", name)
        assert done.code == 2
        assert name in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "xlsx"], "csv"),
        (["--limit", "0"], "--limit"),
        (["--concurrency", "none"], "--concurrency"),
        (["--set", "pipeline[9].repeat=2"], "pipeline"),
        (["--set", "nonsense"], "nonsense"),
    ],
)
def test_an_option_that_makes_no_sense(arguments, words, shell, config):
    done = shell("run", config, shell.rows(2), *arguments)
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("command", ["run", "validate", "graph"])
def test_a_pipeline_that_is_wrong_is_reported_at_its_place(command, shell):
    config = shell.config("- {unit: JudgeUnit, prompt: 3}\n- {unit: JudgeUnit, promt: Rate}")
    done = shell(command, config, *([shell.rows(1)] if command == "run" else []))
    assert done.code == 2
    assert "pipeline.yaml:5:" in done.err
    assert "pipeline.yaml:6:" in done.err
    assert "'prompt'" in done.err


def test_a_pipeline_file_that_is_not_there(shell):
    for command in ("validate", "graph"):
        assert shell(command, "nothing.yaml").code == 2


@needs("benchmarks")
def test_an_unknown_unit_type_and_an_unknown_benchmark(shell):
    assert "JudgeUnit" in shell("units", "JugdeUnit").err
    done = shell("datasets", "import", "xtest", "file.csv")
    assert done.code == 2
    assert "xstest" in done.err


def test_an_internal_error_is_logged_and_not_shown(shell, scripted_model, monkeypatch):
    def defective(_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(tempfile, "tempdir", str(shell.folder))
    scripted_model.answer = defective
    done = shell("run", shell.config(JUDGE), shell.rows(2))
    assert done.code == 70
    (log,) = shell.folder.glob("verdict-error-*.log")
    assert str(log) in done.err
    assert "ZeroDivisionError: oops" in log.read_text()


def test_a_facts_file_that_is_damaged(shell, config):
    shell.write("out/run.json", "{")
    done = shell("run", config, shell.rows(2), "--out", "out")
    assert done.code == 2
    assert "--fresh" in done.err
    assert shell("run", config, "data.jsonl", "--out", "out", "--fresh").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("judge", "--help"),
        ("units",),
        ("units", "--json"),
        ("validate", "pipeline.yaml"),
    ],
)
def test_a_reader_that_closes_the_output_is_no_failed_gate(words, shell, config):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [sys.executable, "-m", "verdict_cli", *words],
        cwd=shell.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, "")


def test_a_fault_of_the_machines_is_not_the_exit_code_of_failed_rows():
    from verdict_cli.errors import BudgetError, Refused

    assert Refused("no answer").exit_code == 4
    assert BudgetError("spent").exit_code == 3
