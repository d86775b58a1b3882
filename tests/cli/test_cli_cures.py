"""Messages say how to write what was meant; what a run would stumble over is a warning of `validate`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonl import jsonl

HEAD = "verdict: 1\nname: judge\nmodel: baseline/lexical\n"
JUDGE = "{unit: JudgeUnit, name: j, prompt: 'Is {source.answer} ok?'}"
ROWS = [{"answer": "2", "question": "a"}, {"answer": "5", "question": "b"}]


def validated(shell: Any, text: str, data: str = "") -> Any:
    rows = data or jsonl(ROWS)
    file = shell.write("d.csv" if data else "d.jsonl", rows)
    return shell("validate", shell.write("c.yaml", HEAD + text), "--data", file, "--json").json()


def problem(document: Any, kind: str) -> tuple[str, str]:
    (only,) = document[kind]
    return only["message"], only["hint"]


RATINGS = (
    f"pipeline: [{JUDGE}]\n"
    "evaluate: {r: {prediction: output.score, target: source.rating, metrics: [pearson]}}\n"
)


def test_fc5_ratings_with_blanks_are_cured_as_printed(shell):
    data = "answer,rating\nyes,3\nno,\nok,5\n"
    _, hint = problem(validated(shell, RATINGS, data), "errors")
    cure = 'dataset: {schema: {rating: "float?"}}'
    assert cure in hint
    assert validated(shell, f"{cure}\n{RATINGS}", data)["errors"] == []
    message, _ = problem(validated(shell, f"{cure.replace('?', '')}\n{RATINGS}", data), "errors")
    assert 'write `rating: "float?"` for a column with blanks' in message


def test_fc5_labels_that_are_words_are_not_read_as_numbers(shell):
    _, hint = problem(validated(shell, RATINGS, "answer,rating\nyes,good\nok,bad\n"), "errors")
    assert "float?" not in hint


def test_fc6_a_list_as_a_scale_is_answered_by_its_values(shell):
    text = "pipeline: [{unit: JudgeUnit, scale: SCALE, prompt: 'Is {source.answer} ok?'}]\n"
    _, hint = problem(validated(shell, text.replace("SCALE", "[rude, kind]")), "errors")
    assert hint == "write `{values: [rude, kind]}`"
    assert validated(shell, text.replace("SCALE", "{values: [rude, kind]}"))["errors"] == []


def test_fc6_a_list_as_a_field_is_answered_by_fields(shell):
    pool = f"pipeline: [{{layer: [{JUDGE}], repeat: 3}}, {{unit: MeanPoolUnit, KEY}}]\n"
    _, hint = problem(validated(shell, pool.replace("KEY", "field: [score]")), "errors")
    assert hint == "for several write `fields: [score]`"
    assert validated(shell, pool.replace("KEY", "fields: [score]"))["errors"] == []


@pytest.mark.parametrize(("quorum", "warns"), [(5, False), (6, True)])
def test_fc8_a_quorum_that_cannot_be_met_is_a_warning(quorum, warns, shell):
    pool = f"{{unit: MeanPoolUnit, field: score, quorum: {quorum}}}"
    document = validated(shell, f"pipeline: [{{layer: [{JUDGE}], repeat: 5}}, {pool}]\n")
    assert (
        any("can never be met" in warning["message"] for warning in document["warnings"]) == warns
    )


@pytest.mark.parametrize(("value", "warns"), [("a text", True), (["a", "b"], False)])
def test_fc8_each_over_a_column_without_lists_is_a_warning(value, warns, shell):
    rows = jsonl({"parts": value} for _ in range(2))
    file = shell.write("d.jsonl", rows)
    unit = JUDGE.replace("name: j", "name: j, each: source.parts, as: part")
    text = f"pipeline: [{unit.replace('source.answer', 'part')}]\n"
    done = shell("validate", shell.write("c.yaml", HEAD + text), "--data", file)
    assert done.code == 0
    assert ("the column has no list in 2 rows" in done.err) == warns, done.err


@pytest.mark.parametrize(("temperature", "warns"), [(2, False), (2.5, True)])
def test_fc8_a_temperature_that_no_provider_takes_is_a_warning(temperature, warns, shell):
    model = f"{{name: gpt-4o-mini, temperature: {temperature}}}"
    unit = JUDGE.replace("name: j", f"name: j, model: {model}")
    document = validated(shell, f"pipeline: [{unit}]\n")
    assert (
        any("temperature is 2.5" in warning["message"] for warning in document["warnings"]) == warns
    )


def test_fc9_the_flag_that_was_passed_does_not_cure_a_unit_with_its_own_model(shell, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    unit = JUDGE.replace("name: j", "name: j, model: gpt-4o-mini")
    config = shell.write("c.yaml", f"{HEAD}pipeline: [{unit}]\n")
    file = shell.write("d.jsonl", json.dumps(ROWS[0]) + "\n")
    done = shell("run", config, file, "--model", "baseline/lexical")
    assert done.code == 4
    assert "remove the unit's `model`" in done.err


COMPARED = (
    f"{HEAD}pipeline: [{JUDGE}]\n"
    "evaluate: {r: {prediction: output.score, target: source.label, metrics: [accuracy]}}\n"
)


def run_of(shell: Any, name: str, rows: list[dict[str, Any]]) -> None:
    config = shell.write("c.yaml", COMPARED)
    data = shell.write(f"{name}.jsonl", jsonl(rows))
    assert shell("run", config, data, "--out", name).code == 0


@pytest.mark.parametrize("with_ids", [False, True])
def test_fc12_runs_over_different_data_share_no_row(with_ids, shell):
    for name in ("ab", "chat"):
        ids = [{"id": f"{name}{index}"} if with_ids else {} for index in range(6)]
        rows = [
            {**ids[index], "answer": f"{name} {index}", "label": index % 2 + 1}
            for index in range(6)
        ]
        run_of(shell, name, rows)
    done = shell("compare", "ab", "chat")
    assert (done.code, "these runs share no row: " in done.err) == (2, True)
    assert "ab.jsonl and " in done.err and "chat.jsonl" in done.err


def test_fc12_the_same_questions_with_other_answers_are_compared(shell):
    for name in ("old", "new"):
        rows = [
            {"question": f"q{index}", "answer": f"{name} {index}", "label": index % 2 + 1}
            for index in range(6)
        ]
        run_of(shell, name, rows)
    done = shell("compare", "old", "new")
    assert (done.code, "paired by content: question" in done.out) == (0, True), done.out


def test_fc8_what_a_model_cannot_do_is_an_error_also_without_its_key(shell, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    extract = "name: j, model: anthropic/claude-haiku-4-5, extract: token_probability"
    document = validated(shell, f"pipeline: [{JUDGE.replace('name: j', extract)}]\n")
    message, _ = problem(document, "errors")
    assert "returns no token log-probabilities" in message
