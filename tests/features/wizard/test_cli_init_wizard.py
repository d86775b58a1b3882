"""`verdict init` as a wizard: what it asks, what it recognises in the data, and that what it proposes runs."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonl import jsonl

from verdict_cli.language.document.document import read_document
from verdict_cli.language.expressions.expression import compile_expression

QUESTION = ("--question", "Is the answer right?")


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdict_cli.llm.providers.detect_models.SERVERS", {})


@pytest.fixture
def answers(shell: Any) -> Path:
    return shell.write(
        "answers.csv",
        'id,question,model answer,label\n1,"What, is 2+2?",4,5\n2,Capital of France?,Paris,4\n3,x,y,1\n',
    )


def init_file(shell: Any, name: str = "judge.yaml") -> str:
    return (shell.folder / name).read_text(encoding="utf-8")


def rows(shell: Any, *records: dict[str, Any], name: str = "data.jsonl") -> Path:
    return shell.write(name, jsonl(records))


@pytest.fixture
def session(shell: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`verdict init` on a terminal, where somebody types these answers."""

    def run(*answers: str, arguments: Sequence[str | Path] = ()) -> Any:
        monkeypatch.setattr("verdict_cli.cli.console.is_interactive", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
        return shell("init", *arguments)

    return run


def test_on_a_terminal_the_judged_column_is_asked_before_the_labels(shell, answers, session):
    done = session(answers.name, "", "", "")
    assert done.code == 0, done.err
    places = [
        done.err.index(words)
        for words in (
            "Your dataset",
            "What is judged?",
            "What is the right answer?",
            "What may the answer be?",
        )
    ]
    assert places == sorted(places)
    text = init_file(shell)
    assert "How good is the model answer?" in text
    assert "{source.question}" in text and "{source['model answer']}" in text
    assert "{source.id}" not in text and "{source.label}" not in text
    assert 'target: "source.label | float"' in text and "range: [1, 5]" in text


def test_a_wrong_answer_gets_a_line_of_explanation_and_the_question_again(shell, session):
    shell.write(
        "t.csv",
        "message,reply,quality\nWhere is it?,On its way,good\nBroken,Sorry,bad\nHi there,Hello,ok\n",
    )
    done = session(
        "no.csv", "t.csv", "mesage", "reply,message", "qualty", "quality", "fair,good", ""
    )
    assert done.code == 0, done.err
    reasons = [line.partition("  ! ")[2] for line in done.err.splitlines() if "  ! " in line]
    assert [reason.split(";")[0] for reason in reasons] == [
        "no.csv: there is no such file",
        "columns: t.csv: there is no column 'mesage'",
        "--target: t.csv: there is no column 'qualty'",
        "the scale fair,good does not have these labels: bad, ok",
    ] or "does not have these labels" in reasons[3]
    text = init_file(shell)
    assert "{source.message}" in text and "values: [bad, ok, good], ordered: true" in text


def test_a_question_that_is_left_ends_the_command_and_writes_nothing(shell, answers, session):
    done = session(arguments=[answers.name])
    assert done.code == 130
    assert done.err.endswith("verdict: interrupted\n")
    assert not (shell.folder / "judge.yaml").exists()


def test_words_of_unknown_order_are_asked_for(shell, session):
    data = shell.write(
        "t.csv",
        "message,topic\nmy card was charged,billing\nwhere is my box,parcel\nanother card,billing\n",
    )
    done = session("message", "topic", "categories", arguments=[data])
    assert "words from worst to best such as bad,fair,good, or categories" in done.err
    assert "values: [billing, parcel]}" in init_file(shell)
    arguments = ("init", data, *QUESTION, "--columns", "message", "--target", "topic", "--force")
    stderr = " ".join(shell(*arguments).err.split())
    assert "The labels are billing, parcel. They are read as categories" in stderr
    ordered = shell(
        "init",
        data,
        *QUESTION,
        "--columns",
        "message",
        "--target",
        "topic",
        "--scale",
        "parcel,billing",
        "--out",
        "b.yaml",
    )
    assert ordered.code == 0, ordered.err
    assert "values: [parcel, billing]}" in init_file(shell, "b.yaml")


def test_a_label_among_the_columns_is_taken_out_of_what_the_judge_reads(shell, session):
    data = rows(
        shell,
        {"text": "some words", "gold": {"ok": True}},
        {"text": "others", "gold": {"ok": False}},
    )
    done = session("text,gold", "gold", "gold.ok", "", arguments=[data])
    assert done.code == 0, done.err
    assert "name one of its fields: gold.ok" in done.err
    assert "gold.ok is left out of what the judge reads" in done.err
    assert "{source.gold}" not in init_file(shell) and "target: source.gold.ok" in init_file(shell)


def test_a_label_that_is_named_as_a_column_is_warned_of(shell):
    data = shell.write("t.csv", "reply,quality,rating\nIt is here,good,5\nI do not know,bad,1\n")
    done = shell(
        "init", data, *QUESTION, "--columns", "reply,rating", "--target", "quality", "--no-try"
    )
    assert (
        done.code,
        "warning: 'rating' looks like a label, and the judge reads it" in done.err,
    ) == (0, True)


def test_pairs_are_judged_in_both_orders(shell, session):
    pair = {"question": "What is 2+2?", "response_a": "It is four.", "response_b": "It is five."}
    data = rows(
        shell,
        *(
            {**pair, "id": place, "winner": label}
            for place, label in enumerate(["model_a", "model_b", "tie"])
        ),
    )
    done = session("", "", arguments=[data])
    assert done.code == 0, done.err
    text = init_file(shell)
    assert "unit: PairwiseJudgeUnit" in text and "positions: both" in text and "tie: true" in text
    assert "options: [source.response_a, source.response_b]" in text and "worst" not in text
    assert "agreement (pairwise)" in done.out and "consistency" in done.out
    unknown = rows(shell, {**pair, "winner": 0}, {**pair, "winner": 7}, name="unknown.jsonl")
    refused = shell(
        "init",
        unknown,
        *QUESTION,
        "--columns",
        "response_a,response_b",
        "--target",
        "winner",
        "--out",
        "b.yaml",
    )
    assert "do not say which of response_a and response_b is better" in refused.err


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        (["yes", "no"], '| string | trim | lower in [\\"yes\\"]"'),
        (["No", "No"], '| string | trim | lower in [\\"yes\\"]"'),
        (["yes", "Yes ", "NO", ""], '| string | trim | lower in [\\"yes\\"]"'),
        (["1", "0", ""], 'source.gold in [\\"1\\"]"'),
        ([1, 0, None], 'source.gold in [1]"'),
        ([True, None, False], "target: source.gold"),
    ],
)
def test_labels_of_yes_and_no_are_compared_in_their_own_words(labels, line, shell):
    data = rows(
        shell,
        *({"text": f"some text {place}", "gold": label} for place, label in enumerate(labels)),
    )
    done = shell("init", data, *QUESTION, "--columns", "text", "--target", "gold")
    assert done.code == 0, done.err
    assert "scale: boolean" in init_file(shell) and line in init_file(shell)
    assert f"n={sum(label not in (None, '') for label in labels)}" in done.out


def test_a_nested_conversation_is_proposed_with_its_nested_id(shell):
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    data = rows(
        shell,
        *(
            {"conv": {"id": name, "turns": talk}, "gold": {"helpful": True, "note": "x"}}
            for name in "ab"
        ),
    )
    assert "--columns conv.turns --target gold.helpful" in shell("init", data).err
    done = shell("init", data, *QUESTION, "--columns", "conv.turns", "--target", "gold")
    assert "name one of its fields: gold.helpful" in done.err
    assert (
        shell("init", data, *QUESTION, "--columns", "conv.turns", "--target", "gold.helpful").code
        == 0
    )
    assert "id: conv.id" in init_file(shell)
    assert shell("validate", "judge.yaml", data).code == 0


def test_a_workbook_is_read(shell):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in (["reply", "stars"], ["It is on its way", 5], ["No idea", 1]):
        book.active.append(line)
    book.save(shell.folder / "t.xlsx")
    assert shell("init", "t.xlsx", *QUESTION, "--columns", "reply", "--target", "stars").code == 0
    assert "range: [1, 5]" in init_file(shell)


@pytest.mark.parametrize(
    ("labels", "scale", "target"),
    [
        ([7, 42, 99], "categories", "source.label | string"),
        ([1, 2, 3], "1,2,3", "source.label | string"),
        ([True, False, "unsure"], "categories", "source.label | string"),
        ([0.0, 1.5, None], "categories", "none if source.label in [none, ''] else source.label | string"),
        (["spam", "ham", "  "], "categories", "none if source.label in [none, '', '  '] else source.label"),
    ],
)  # fmt: skip
def test_labels_that_are_no_texts_are_compared_as_texts(shell, labels, scale, target):
    records = [{"reply": f"text {label}", "label": label} for label in labels * 3]
    done = shell("init", rows(shell, *records), "--yes", "--target", "label", "--scale", scale)
    assert done.code == 0, done.err
    assert "can equal no prediction" not in done.err
    document = read_document(shell.folder / "judge.yaml").data
    assert document["evaluate"]["agreement"]["target"] == target


@pytest.mark.parametrize(("labels", "no"), [(["yes", "no", " "], "no"), (["5", "1", " "], "1")])
def test_a_label_of_spaces_is_no_label(shell, labels, no):
    records = [{"reply": f"text {label}", "label": label} for label in labels * 3]
    assert shell("init", rows(shell, *records), "--yes", "--no-try").code == 0
    target = read_document(shell.folder / "judge.yaml").data["evaluate"]["agreement"]["target"]
    expression = compile_expression(target, ("source",))
    assert expression({"source": {"label": " "}}) is None
    assert expression({"source": {"label": no}}) is not None


TEXTS = (
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1)
    .filter(str.strip)
    .map(lambda text: f"It is {text} now")
)


LABELS = st.sampled_from(
    [
        ["yes", "no"],
        ["Good", "Bad", "Fair"],
        [1, 5, 3],
        ["2", "4"],
        [True, False],
        [0.5, 1.0],
        ["safe", "unsafe"],
        ["0", "1"],
    ]
)


SHAPES = st.sampled_from(
    [
        {"reply": "text"},
        {"prompt": "text", "output_a": "text", "output_b": "text"},
        {"question": "text", "contexts": ["text", "text"], "answer": "text"},
        {"reply": "text", "criteria": ["text"]},
        {"reply": "text", "rubric": [{"text": "text", "weight": 2}]},
        {
            "messages": [
                {"role": "user", "content": "text"},
                {"role": "assistant", "content": "text"},
            ]
        },
        {"talk": {"turns": [{"role": "user", "content": "text"}]}},
    ]
)


def filled(shape: Any, text: str) -> Any:
    if isinstance(shape, dict):
        return {name: filled(inner, text) for name, inner in shape.items()}
    if isinstance(shape, list):
        return [filled(inner, text) for inner in shape]
    return text if shape == "text" else shape


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=SHAPES,
    labels=LABELS,
    texts=st.lists(TEXTS, min_size=3, max_size=4),
    target=st.sampled_from(["quality", "gold.helpful", "human_label"]),
)
def test_whatever_is_proposed_validates_runs_and_shows_no_label(
    shape, labels, texts, target, shell
):
    records = []
    for place, text in enumerate(texts):
        label = labels[place % len(labels)]
        inner = {"gold": {"helpful": label}} if "." in target else {target: label}
        records.append({"id": f"row-{place}", "annotator": "ann", **filled(shape, text), **inner})
    data = rows(shell, *records)
    example = next(
        line for line in shell("init", data, "--force").err.splitlines() if "for example: " in line
    )
    arguments = shlex.split(example.partition("for example: ")[2])[1:]
    if arguments[-2] != "--target":  # a column of so few rows may be taken for a text
        arguments += ["--target", target]
    assert arguments[-1] == target
    result = shell(*arguments, "--force", "--no-try")
    assert result.code == 0, result.err
    prompt = json.dumps(
        [step.get("prompt") for step in read_document(shell.folder / "judge.yaml").data["pipeline"]]
    )
    assert (
        f"source.{target.partition('.')[0]}" not in prompt
        and "annotator" not in prompt
        and "source.id" not in prompt
    )
    judged = shell("run", "judge.yaml", data, "--limit", "3", "--out", "run", "--fresh")
    assert (judged.code, "failed 0" in judged.out) == (0, True), judged.err
