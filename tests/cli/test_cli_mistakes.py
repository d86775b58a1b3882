"""Twenty-six mistakes that newcomers make: each ends in one clear message, with the place, what was expected and what to
write instead, before a model is called."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonl import jsonl
from shell import needs

ROWS = [
    {"id": f"T-{n}", "reply": f"reply {n}", "quality": "ok" if n % 2 else "bad", "right": "yes"}
    for n in range(6)
]


def lines(rows: list[dict[str, Any]]) -> str:
    return jsonl(rows)


def judge(
    prompt: str = "Rate {source.reply}",
    more: str = "",
    scale: str = "{values: [bad, ok]}",
    head: str = "",
) -> str:
    """A pipeline file with one judge, of six lines without `more`."""
    step = f"- {{unit: JudgeUnit, name: judge, scale: {scale}, prompt: {json.dumps(prompt)}}}"
    return f"verdict: 1\nname: t\nmodel: gpt-4o-mini\n{head or 'dataset: {id: id}'}\npipeline:\n  {step}\n{more}"


QUALITY = "evaluate: {agreement: {prediction: output.score, target: source.quality}}\n"


@dataclass(frozen=True)
class Mistake:
    """A command, the files that it reads, its exit code, and what the message says."""

    words: str
    code: int
    said: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)


RUN = "run judge.yaml rows.jsonl --out out"
MISTAKES = {
    "a brace as in Python": Mistake(
        RUN,
        2,
        ("judge.yaml:6:", "{reply} is literal text", "write {source.reply}"),
        {"judge.yaml": judge("Rate {reply}")},
    ),
    "a brace as in Jinja": Mistake(
        RUN,
        2,
        ("{{reply}} is literal text", "write {source.reply}"),
        {"judge.yaml": judge("Rate {{reply}}")},
    ),
    "yes and no on a boolean scale": Mistake(
        RUN,
        2,
        (
            "evaluate.e: no prediction can ever equal a target",
            "targets are text",
            "'yes' if output.score else",
        ),
        {
            "judge.yaml": judge(
                scale="boolean",
                more="evaluate: {e: {prediction: output.score, target: source.right}}\n",
            )
        },
    ),
    "labels of another scale": Mistake(
        RUN,
        2,
        ("predictions are 'poor' or 'fine'", "targets are text such as 'bad' (3), 'ok' (3)"),
        {"judge.yaml": judge(scale="{values: [poor, fine]}", more=QUALITY)},
    ),
    "a label that is a mapping": Mistake(
        RUN,
        2,
        ("is a mapping, not a label", "`source.quality.score`"),
        {
            "judge.yaml": judge(more=QUALITY),
            "rows.jsonl": lines([{**row, "quality": {"score": 1}} for row in ROWS]),
        },
    ),
    "a label that is shown to the judge": Mistake(
        "validate judge.yaml rows.jsonl",
        0,
        (
            "warning: judge.yaml:6:",
            "the prompt shows `source.quality`, which is the target of `evaluate.agreement`",
        ),
        {"judge.yaml": judge("Rate {source.reply} ({source.quality})", more=QUALITY)},
    ),
    "one label in another case": Mistake(
        "validate judge.yaml rows.jsonl",
        0,
        ("1 of 7 labels can equal no prediction", "'Ok' (1)", "`target: source.quality | lower`"),
        {
            "judge.yaml": judge(more=QUALITY),
            "rows.jsonl": lines([*ROWS, {**ROWS[0], "id": "x", "quality": "Ok"}]),
        },
    ),
    "an id in two rows": Mistake(
        "validate judge.yaml rows.jsonl",
        0,
        ("1 id of the column 'id' is in several rows, such as 'T-0' in 2",),
        {"judge.yaml": judge(), "rows.jsonl": lines([*ROWS, ROWS[0]])},
    ),
    "a text longer than the context window": Mistake(
        "estimate judge.yaml rows.jsonl",
        0,
        ("judge: a prompt has about", "but model gpt-4o-mini reads 128,000 at most", "shorten it"),
        {"judge.yaml": judge(), "rows.jsonl": lines([{"id": 1, "reply": "word " * 150_000}])},
    ),
    "a scale without a range or values": Mistake(
        RUN,
        2,
        ("judge.yaml:6:", "unknown scale 'rating'", "boolean", "likert"),
        {"judge.yaml": judge(scale="rating")},
    ),
    "keys of another tool": Mistake(
        RUN,
        2,
        (
            "unknown key 'a'",
            "write `options: [source.a, source.b]`",
            "unknown key 'both_orders'",
            "`positions: both`",
        ),
        {
            "judge.yaml": judge(
                more="  - {unit: PairwiseJudgeUnit, prompt: x, a: source.id, both_orders: true}\n"
            )
        },
    ),
    "a key that nothing resembles": Mistake(
        RUN,
        2,
        ("unknown key 'zzz'", "`verdict explain JudgeUnit` lists its"),
        {"judge.yaml": judge().replace("name: judge", "zzz: 1")},
    ),
    "a metric that does not exist": Mistake(
        RUN,
        2,
        (
            "evaluate.agreement.metrics[0]: 'acuracy' is not a known name",
            "did you mean 'accuracy'?",
        ),
        {"judge.yaml": judge(more=QUALITY.replace("quality}", "quality, metrics: [acuracy]}"))},
    ),
    "a gate of no evaluation": Mistake(
        RUN,
        2,
        ("judge.yaml:8:", "gates[0]"),
        {"judge.yaml": judge(more=QUALITY + "gates: [{metric: agrement.accuracy, min: 0.8}]\n")},
    ),
    "a model without a provider": Mistake(
        f"{RUN} --model gpt4",
        4,
        ("no provider is known for the model 'gpt4'", "did you mean gpt-4?"),
    ),
    "a model of Ollama": Mistake(
        f"{RUN} --model llama3.2", 4, ("'llama3.2'", "did you mean ollama/llama3.2?")
    ),
    "an estimate for such a model": Mistake(
        "estimate judge.yaml rows.jsonl --model gpt4", 0, ("did you mean gpt-4?",)
    ),
    "a JSON list in a file of lines": Mistake(
        RUN,
        2,
        ("rows.jsonl:1:", "one JSON list of rows has the ending .json"),
        {"rows.jsonl": json.dumps(ROWS)},
    ),
    "a pipeline that is not there": Mistake(
        "run jugde.yaml rows.jsonl",
        2,
        ("jugde.yaml: there is no such file", "did you mean judge.yaml?"),
    ),
    "the two files swapped": Mistake(
        "run rows.jsonl judge.yaml",
        2,
        ("rows.jsonl is a dataset, not a pipeline file", "verdict run CONFIG DATA"),
    ),
    "a dataset among the files to validate": Mistake(
        "validate judge.yaml rows.jsonl other.yaml",
        2,
        (
            "rows.jsonl is a dataset, and stands among 3 files",
            "verdict validate judge.yaml other.yaml --data rows.jsonl",
        ),
    ),
    "no data": Mistake("run judge.yaml", 2, ("Missing argument 'DATA'",)),
    "no command": Mistake("", 2, ("Usage: verdict [OPTIONS] COMMAND", "validate", "run")),
    "a command that does not exist": Mistake(
        "runn judge.yaml rows.jsonl", 2, ("No such command 'runn'", "Did you mean", "run")
    ),
    "a budget for a model without a price": Mistake(
        f"{RUN} --model ollama/mine --budget 1",
        2,
        ("the price of model ollama/mine is not known", "`cost: {input_per_million"),
    ),
    "a family of units for a name": Mistake(
        "explain pairwise", 2, ("did you mean PairwiseJudgeUnit",)
    ),
    "an unknown type of unit": Mistake(
        RUN,
        2,
        ("did you mean 'JudgeUnit'?",),
        {"judge.yaml": judge().replace("JudgeUnit", "JugdeUnit")},
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_in_one_message_before_a_call(
    name, shell, scripted_model, monkeypatch
):
    mistake = MISTAKES[name]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    for file, content in {
        "judge.yaml": judge(),
        "rows.jsonl": lines(ROWS),
        **mistake.files,
    }.items():
        shell.write(file, content)
    done = shell(*mistake.words.split())
    assert done.code == mistake.code, done.err
    text = " ".join((done.err + done.out).split())
    assert [words for words in mistake.said if words.lower() not in text.lower()] == []
    assert scripted_model.requests == []
    if mistake.words:
        assert len(done.err.splitlines()) < 12
        lists_of_names = [line for line in done.err.splitlines() if "known:" in line]
        assert len(lists_of_names) == len(set(lists_of_names)), "a list of names is repeated"
    assert not (shell.folder / "out").exists()


@pytest.mark.parametrize(
    ("shorthand", "more"),
    [
        ("scale: 1-5", ""),
        ("gates: ['- agreement.accuracy >= 0.8']", "gates: [agreement.accuracy >= 0.8]\n"),
        ("by: source.id", "by"),
    ],
)
def test_shorthands_that_newcomers_write_are_accepted(shell, shorthand, more):
    evaluate = (
        QUALITY.replace("quality}", "quality, by: source.id}") if more == "by" else QUALITY + more
    )
    text = judge(scale="1-5") if shorthand.startswith("scale") else judge(more=evaluate)
    shell.write("judge.yaml", text)
    done = shell("validate", "judge.yaml", shell.write("rows.jsonl", lines(ROWS)))
    assert (done.code, "judge.yaml: valid" in done.out) == (0, True), done.err


@needs("calibrate")
def test_a_run_without_gates_passes_no_gate(shell):
    shell.write("judge.yaml", judge())
    shell.write("rows.jsonl", lines(ROWS))
    assert (
        shell("run", "judge.yaml", "rows.jsonl", "--model", "baseline/lexical", "--out", "out").code
        == 0
    )
    done = shell("gate", "out")
    assert (done.code, "out has no gates" in done.err, "give --gates FILE" in done.err) == (
        2,
        True,
        True,
    )
    done = shell("calibrate", "out", "--target", "source.quality == 'ok'")
    assert (
        done.code,
        "token probabilities" in done.err,
        "extract: token_probability" in done.err,
    ) == (2, True, True)


def test_an_endpoint_that_does_not_answer_ends_the_run(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    shell.write("judge.yaml", judge().replace("gpt-4o-mini", "{name: gpt-4o-mini, retries: 0}"))
    shell.write(
        "rows.jsonl", lines([{**row, "id": f"{n} {row['id']}"} for n in range(40) for row in ROWS])
    )
    done = shell("run", "judge.yaml", "rows.jsonl", "--out", "out", "-q")
    assert done.code == 4, done.err
    assert "its endpoint does not answer" in done.err and "OPENAI_BASE_URL" in done.err
    assert "ssl" not in done.err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", "judge.yaml", ""), "DATA"),
        (("run", "", "rows.jsonl"), "CONFIG"),
        (("run", "judge.yaml", "rows.jsonl", "--out", ""), "--out"),
        (("run", "judge.yaml", "rows.jsonl", "--out="), "--out"),
        (("validate", "judge.yaml", ""), "CONFIGS"),
        (("compare", "", "out"), "RUNS"),
        (("merge", "one", "two", "--out", ""), "--out"),
    ],
)
def test_an_empty_value_is_not_taken_for_the_current_folder(shell, words, name):
    shell.write("judge.yaml", judge())
    shell.write("rows.jsonl", lines(ROWS))
    before = sorted(shell.folder.iterdir())
    done = shell(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"verdict: the value of {name} is empty\n    give one")
    assert sorted(shell.folder.iterdir()) == before


def test_numbers_near_the_largest_float_are_told_once_and_not_by_numpy(shell):
    steps = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
    evaluate = """
evaluate:
  pair: {prediction: source.p, target: source.t, kind: numeric}
  alone: {value: source.p}
gates: [{metric: pair.mae, max: 1, confidence: 0.9}]
"""
    rows = [
        {"text": f"text {place}", "p": (1 + place / 50) * 1e308, "t": -(1 + place / 50) * 1e308}
        for place in range(30)
    ]
    data = shell.write("big.jsonl", jsonl(rows))
    config = shell.config(steps + evaluate)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        done = shell("run", config, data, "--out", "one")
        assert (done.code, "too large to compute" in done.out) == (1, True), done.err
        again = shell("run", config, data, "--out", "two", "--seed", "1")
        assert again.code == 1, again.err
        assert shell("compare", "one", "two").code == 0
