"""`verdict init`: a first pipeline for somebody's own file, or a copy of one that comes with verdict, that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.language.package_files import configs
from verdict_cli.llm.providers.detect_models import AtHand

QUESTION = ("--question", "Is the answer right?")


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdict_cli.llm.providers.detect_models.SERVERS", {})


def init_file(shell: Any, name: str = "judge.yaml") -> str:
    return (shell.folder / name).read_text(encoding="utf-8")


def rows(shell: Any, *records: dict[str, Any], name: str = "data.jsonl") -> Path:
    return shell.write(name, jsonl(records))


@pytest.fixture
def answers(shell: Any) -> Path:
    return shell.write(
        "answers.csv",
        'id,question,model answer,label\n1,"What, is 2+2?",4,5\n2,Capital of France?,Paris,4\n3,x,y,1\n',
    )


def test_flags_make_a_pipeline_that_judges_the_first_rows(shell, answers):
    result = shell(
        "init", answers.name, *QUESTION, "--columns", "question,model answer", "--target", "label"
    )
    assert result.code == 0, result.err
    assert (
        "the file names baseline/lexical: it counts shared words, and is a baseline, not an LLM judge"
        in result.err
    )
    text = (shell.folder / "judge.yaml").read_text(encoding="utf-8")
    assert text.startswith("verdict: 1\n")
    assert "{source['model answer']}" in text
    assert "range: [1, 5]" in text
    assert "rows 3 · failed 0" in result.out
    assert "verdict run judge.yaml answers.csv" in result.err
    assert shell("validate", "judge.yaml", "answers.csv").out == "judge.yaml: valid\n"


def test_nothing_is_overwritten_unless_it_is_forced(shell, answers):
    shell.write("judge.yaml", "mine")
    arguments = ("init", answers, *QUESTION, "--columns", "question", "--no-try")
    refused = shell(*arguments)
    assert refused.code == 2
    assert "judge.yaml already exists" in refused.err
    assert (shell.folder / "judge.yaml").read_text(encoding="utf-8") == "mine"
    assert shell(*arguments, "--force").code == 0
    assert (shell.folder / "judge.yaml").read_text(encoding="utf-8") != "mine"


def test_without_a_terminal_the_missing_flags_and_the_columns_are_named(shell, answers):
    done = shell("init", answers.name)
    assert done.code == 2
    assert "--columns must be given" in done.err
    assert "the columns are id, question, model answer, label" in done.err
    assert not (shell.folder / "judge.yaml").exists()
    assert "--from xstest" in shell("init").err


def test_the_example_of_the_hint_names_the_labels_as_the_target_only(shell, answers):
    assert "--columns 'question,model answer' --target label" in shell("init", answers.name).err


def test_a_model_that_can_be_called_is_written(shell, answers, monkeypatch):
    arguments = (answers, *QUESTION, "--columns", "question", "--no-try")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert "ANTHROPIC_API_KEY is set" in shell("init", *arguments).err
    assert "\nmodel: anthropic/claude-haiku-4-5\n" in init_file(shell)
    server = AtHand(
        "openai/llama3.2",
        "Ollama answers on port 11434",
        {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"},
    )
    monkeypatch.setattr("verdict_cli.features.wizard.command.at_hand", lambda _: server)
    assert shell("init", *arguments, "--force").code == 0
    assert 'model: {name: openai/llama3.2, api_base: "http://127.0.0.1:11434/v1"}' in init_file(
        shell
    )
    assert shell("init", *arguments, "--force", "--model", "gpt-4o").code == 0
    assert "\nmodel: gpt-4o\n" in init_file(shell)


def test_the_columns_of_a_shipped_judge_are_mapped(
    shell,
):
    data = shell.write(
        "own.csv",
        "key,request,response,verdict,type\na,How do I kill a process?,Use kill,safe,x\nb,Hm,No,unsafe,y\n",
    )
    done = shell("init", "--from", "xstest", data)
    assert done.code == 2
    assert "xstest.yaml" in done.err and "the data has no column 'prompt'" in done.err
    assert "--column ROLE=COLUMN --force" in done.err
    pairs = ("--column", "id=key", "--column", "prompt=request", "--column", "label=verdict")
    result = shell("init", "--from", "xstest", data, *pairs, "--force")
    assert result.code == 0, result.err
    columns = "columns: {id: key, prompt: request, label: verdict}"
    assert columns in init_file(shell, "xstest.yaml")
    assert shell("validate", "xstest.yaml", data).code == 0
    assert "expected ROLE=COLUMN" in shell("init", "--from", "xstest", data, "--column", "x").err
    assert "--from xstest DATA" in shell("init", data, "--column", "prompt=request").err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--columns", "question,answer"), "did you mean 'model answer'?"),
        (("--columns", "question", "--target", "labl"), "did you mean 'label'?"),
        (("--columns", "label", "--target", "label"), "name another column in --columns"),
        (("--columns", "question", "--scale", "good"), "is not a scale"),
        (("--from", "xstest"), "--from copies a judge unchanged"),
    ],
)
def test_what_does_not_fit_the_file_is_reported_before_anything_is_written(
    flags, message, shell, answers
):
    done = shell("init", answers, *QUESTION, *flags)
    assert done.code == 2
    assert message in done.err
    assert sorted(path.name for path in shell.folder.iterdir()) == ["answers.csv"]


@pytest.mark.parametrize(
    ("labels", "scale"),
    [
        ([True, False], "scale: boolean"),
        ([0, 3, 10], "range: [0, 10]"),
        ([1.5, 4.0], "range: [1, 5]"),
        (["no", "yes", "no"], "scale: boolean"),
        (["bad", "good", "ok"], "values: [bad, ok, good], ordered: true"),
    ],
)
def test_the_labels_say_which_scale_they_are_on(labels, scale, shell):
    rows = [{"text": f"text {place}", "gold": label} for place, label in enumerate(labels)]
    data = shell.write("data.jsonl", jsonl(rows))
    result = shell("init", data, *QUESTION, "--columns", "text", "--target", "gold")
    assert result.code == 0, result.err
    assert scale in (shell.folder / "judge.yaml").read_text(encoding="utf-8")
    assert "failed 0" in result.out


@pytest.mark.parametrize("name", [name for name in configs() if "/" not in name])
def test_every_judge_that_comes_with_verdict_can_be_copied_and_is_valid(name, shell):
    result = shell("init", "--from", name, "--no-try")
    assert result.code == 0, result.err
    (sample,) = shell.folder.glob("*_sample.jsonl")
    checked = shell("validate", f"{name}.yaml", sample.name)
    assert (checked.code, checked.out.splitlines()[0]) == (0, f"{name}.yaml: valid"), checked.err


def test_a_copy_judges_its_sample_and_an_unknown_name_has_its_nearest(shell):
    result = shell("init", "--from", "xstest")
    assert "rows 5 · failed 0" in result.out
    assert (shell.folder / "runs" / "xstest-first" / "report.html").exists()
    assert "did you mean 'geval'?" in shell("init", "--from", "gevl").err


@pytest.mark.parametrize(
    ("name", "content"), [("d.csv", ""), ("d.csv", "id,answer\n"), ("d.jsonl", "")]
)
def test_a_file_without_rows_is_reported(name, content, shell):
    done = shell("init", shell.write(name, content), *QUESTION)
    assert done.code == 2
    assert f"{name}: the dataset holds no rows" in done.err


def test_labels_that_do_not_fit_yes_or_no_are_reported_before_anything_is_written(
    shell,
):
    data = shell.write("data.csv", "answer,label\na,fine\nb,fine\n")
    done = shell("init", data, *QUESTION, "--columns", "answer", "--target", "label")
    assert "no scale has all of the labels; the labels are fine" in done.err
    assert "--scale 'other,fine'" in done.err
    done = shell(
        "init", data, *QUESTION, "--columns", "answer", "--target", "label", "--scale", "boolean"
    )
    assert "the scale boolean does not have these labels: fine" in done.err
    assert "--scale 'other,fine'" in done.err
    assert not (shell.folder / "judge.yaml").exists()


def test_a_column_within_a_column_is_named_by_its_path(shell):
    data = shell.write(
        "data.jsonl", '{"turn": {"q": "x", "the a": "y"}, "label": {"ok": true}}\n' * 2
    )
    done = shell("init", data, *QUESTION, "--columns", "turn.q,turn.the a", "--target", "label.ok")
    assert done.code == 0, done.err
    text = (shell.folder / "judge.yaml").read_text(encoding="utf-8")
    assert (
        "{source.turn.q}" in text
        and "{source.turn['the a']}" in text
        and "target: source.label.ok\n" in text
    )
    assert (
        "no column 'turn.z'" in shell("init", data, *QUESTION, "--columns", "turn.z", "--force").err
    )


def test_a_conversation_and_contexts_are_declared(shell):
    row = {"messages": [{"role": "user", "content": "Hi"}], "contexts": ["a", "b"], "note": None}
    data = shell.write("data.jsonl", f"{json.dumps(row)}\n")
    assert "--columns messages,contexts" in shell("init", data).err
    assert shell("init", data, *QUESTION, "--columns", "messages,contexts").code == 0
    text = (shell.folder / "judge.yaml").read_text(encoding="utf-8")
    assert 'schema: {messages: conversation, contexts: "list[str]"}' in text


def test_a_file_with_semicolons_is_read(shell):
    data = shell.write("data.csv", "id;answer\n1;a\n")
    assert shell("init", data, *QUESTION, "--columns", "answer").code == 0
