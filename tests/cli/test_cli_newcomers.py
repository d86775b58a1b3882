"""Ten mistakes that newcomers make: each is told in words, with the cure, by the real command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

JUDGE = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.answer}'}"


@pytest.fixture
def data(shell: Any) -> Path:
    return shell.write("data.jsonl", '{"question": "q", "answer": "a"}\n')


def check_message(done: Any, code: int, *parts: str) -> None:
    """The command ended so, with a cure, and said no more than a screen holds."""
    assert done.code == code, done.err
    for words in parts:
        assert words in done.err + done.out
    assert len(done.err.splitlines()) < 12


def test_a_missing_key(shell, data):
    config = shell.write("judge.yaml", "verdict: 1\nmodel: gpt-4o-mini\npipeline:\n" + JUDGE)
    check_message(shell("run", config, data), 2, "judge.yaml:1:1: name: the key 'name' is missing")


def test_a_typo(shell, data):
    for wrong, right in (("promt", "prompt"), ("unti", "unit")):
        config = shell.config(JUDGE.replace(right, wrong))
        check_message(shell("run", config, data), 2, "pipeline.yaml:5:", f"did you mean '{right}'?")


def test_a_wrong_column(shell, data):
    config = shell.config(JUDGE.replace("source.answer", "source.anwser"))
    check_message(
        shell("run", config, data),
        2,
        "pipeline.yaml:5:",
        "did you mean 'answer'?",
        "the columns of",
    )


def test_no_api_key(shell, data):
    config = shell.config(JUDGE, head="model: gpt-4o-mini")
    done = shell("run", config, data)
    check_message(
        done, 4, "OPENAI_API_KEY is not set", "export OPENAI_API_KEY=", "--model baseline/lexical"
    )
    assert not (shell.folder / "runs").exists()


def test_an_unknown_model(shell, data):
    config = shell.config(JUDGE)
    check_message(
        shell("run", config, data, "-q", "--model", "gpt4o-mini"),
        4,
        "did you mean gpt-4o-mini?",
        "PROVIDER/NAME",
    )
    check_message(
        shell("run", config, data, "-q", "--model", "baseline/lexcal"),
        4,
        "did you mean baseline/lexical?",
    )


def test_no_data(shell, data):
    config = shell.config(JUDGE)
    check_message(
        shell("run", config, "dta.jsonl"), 2, "there is no such file", "did you mean data.jsonl?"
    )
    check_message(
        shell("run", config, shell.write("empty.jsonl", "")), 2, "the dataset holds no rows"
    )
    check_message(shell("run", config), 2, "Missing argument 'DATA'")


def test_data_and_pipeline_the_wrong_way_round(shell, data):
    done = shell("run", data.name, shell.config(JUDGE))
    check_message(
        done, 2, "data.jsonl is a dataset, not a pipeline file", "verdict run CONFIG DATA"
    )


@pytest.mark.parametrize(
    "words",
    [("{question:", "q}"), ("{'question': 'q'}",), ('{"question":', '"q"}')],
    ids=["bare", "inner", "none"],
)
def test_wrong_shell_quoting_of_a_row(words, shell):
    done = shell("judge", shell.config(JUDGE), "--row", *words)
    check_message(done, 2, "single quotes", """--row '{"question": "…"}'""")


def test_a_glob_that_the_shell_expands(shell, data):
    more = shell.write("more.jsonl", '{"answer": "b"}\n')
    check_message(shell("run", shell.config(JUDGE), data, more), 2, "quote it, such as")


def test_an_old_python():
    code = "import sys; sys.version_info = (3, 10, 1); import verdict_cli"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("verdict: Python 3.11 or newer is needed")
    assert "Traceback" not in done.stderr


def test_no_network(shell, data, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    head = "model: {name: gpt-4o-mini, api_base: 'http://127.0.0.1:9/v1', retries: 0}"
    done = shell("run", shell.config(JUDGE, head=head), data, "--out", "out")
    check_message(done, 3, "unavailable: model gpt-4o-mini: no reply from 127.0.0.1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk(shell, data):
    done = shell("schema", "--out", "/dev/full")
    check_message(done, 2, "/dev/full cannot be written", "free space")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.tsv", "id;answer\n1;a\n", "its cells are separated by semicolons: save it with commas"),
        ("d.csv", "PK\x03\x04", "this is a spreadsheet or another zip archive"),
        ("d.xlsx", "PK\x03\x04", "this is not an Excel workbook"),
        ("d.xls", "x", "save the sheet as CSV"),
        ("d.jsonl", '[{"answer": "a"}]\n', "one JSON list of rows has the ending .json"),
    ],
)
def test_data_in_another_form(shell, name, content, message):
    check_message(shell("run", shell.config(JUDGE), shell.write(name, content)), 2, name, message)


def test_quotes_of_a_word_processor(shell, data):
    config = shell.config(JUDGE.replace("'", "”"))
    check_message(shell("run", config, data), 2, "pipeline.yaml:5:", "” is a typographic quote")


def test_no_command(shell, data):
    config = shell.config(JUDGE)
    done = subprocess.run(
        [sys.executable, "-m", "verdict_cli", config, data],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2
    assert f"the command comes first: verdict run {config}" in done.stderr


def test_a_server_that_is_not_running(shell, data):
    config = shell.config(
        JUDGE, head="model: {name: openai/m, api_base: 'http://127.0.0.1:9', retries: 0}"
    )
    done = shell("run", config, data)
    assert "127.0.0.1" in done.out
    assert "check that its server is running" in " ".join(done.out.split())


def test_each_word_of_another_tool_has_one_error_with_the_right_word(
    shell,
):
    data = shell.write("d.jsonl", '{"id": "1", "question": "q", "answer": "a", "grade": 3}\n')
    file = shell.write(
        "p.yaml",
        "verdict: 1\nname: p\nmodel: baseline/lexical\nunits:\n"
        '  - id: a\n    unit: ReasonUnit\n    prompt: "Think: {source.question}"\n'
        '  - unit: JudgeUnit\n    instructions: "Grade {source.answer}"\n    scale: 1-5\n'
        "evaluate:\n  right: {label: source.grade, prediction: output.score}\n",
    )
    stderr = shell("validate", file, "--data", data).err
    expected = ["'pipeline'", "'name'", "'CoTUnit'", "'prompt'", "'target'"]
    assert [word for word in expected if f"did you mean {word}?" in stderr] == expected
    assert stderr.count("did you mean") == len(expected)
    assert stderr.count("p.yaml:") == len(expected)


@pytest.mark.parametrize(
    ("prediction", "suggestion"),
    [
        ("score", "a column of the data is `source.score`"),
        ("judge.score", "the output of a unit is `nodes.judge.score`"),
        ("previous.judge.score", "the output of a unit is `nodes.judge.score`"),
        ("sources.score", "did you mean `source`?"),
    ],
)
def test_a_name_of_an_evaluation_is_answered_by_its_path(shell, prediction, suggestion):
    evaluate = f"\nevaluate:\n  right: {{prediction: {prediction}, target: source.label}}\n"
    check_message(
        shell("validate", shell.config(JUDGE + evaluate)),
        2,
        "evaluate.right.prediction",
        suggestion,
    )


@pytest.mark.parametrize(
    ("limit", "write"), [('"0.9"', "write `0.9`"), ("90%", "write `0.9`"), ("high", "")]
)
def test_a_limit_that_is_not_a_number_is_reported_once(shell, limit, write):
    gates = f"\ngates:\n  - {{metric: run.coverage, min: {limit}}}\n"
    done = shell("validate", shell.config(JUDGE + gates))
    check_message(done, 2, "gates[0].min: expected a number", write)
    assert "has no limit" not in done.err
