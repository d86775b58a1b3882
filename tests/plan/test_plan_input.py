"""Input fields with defaults and paths, and conversations that continue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verdict_cli import ConversationalUnit, JudgeUnit, Layer, Pipeline, Schema
from verdict_cli.errors import SpecError
from verdict_cli.language.load import load

JUDGES = """
verdict: 1
name: t
model: m
pipeline:
  - layer:
      - unit: JudgeUnit
        name: judge
        explanation: true
        input: {explanation: {type: str, default: "nobody"}}
        prompt: "Text: {source.text} Before: {input.explanation}"
    repeat: 3
    inner: chain
"""

TALK = """
verdict: 1
name: t
model: m
pipeline:
  - {unit: ConversationalUnit, name: turn, role_name: Critic, INPUT prompt: "Go on:\\n{input.conversation}"}
"""

DIALOGUE = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
SHOWN = "[1] user: Hi\n[2] assistant: Hello"


class Before(Schema):
    explanation: str = "nobody"


class ChainedJudge(JudgeUnit):
    InputSchema = Before


@pytest.fixture
def run(tmp_path: Any, scripted_model: Any) -> Any:
    """The result of a pipeline of YAML text, or of Python, at one row."""

    def judge(pipeline: Any, **row: Any) -> Any:
        if isinstance(pipeline, str):
            path = tmp_path / "t.yaml"
            path.write_text(pipeline)
            pipeline = Pipeline.from_yaml(path)
        return pipeline.run(row)

    scripted_model.answer = lambda _: "spoken"
    return judge


def _judges_in_python() -> Pipeline:
    judge = ChainedJudge(name="judge", explanation=True).prompt(
        "Text: {source.text} Before: {input.explanation}"
    )
    return Pipeline("t").via("m") >> Layer(judge, repeat=3, inner="chain")


@pytest.mark.parametrize("door", ["yaml", "python"])
def test_a_round_robin_of_judges_starts_with_the_default(run, scripted_model, door):
    answers = iter("abc")
    scripted_model.answer = lambda _: json.dumps({"explanation": next(answers), "score": 3})
    run(JUDGES if door == "yaml" else _judges_in_python(), text="x")
    texts = [text.splitlines()[0] for text in scripted_model.texts()]
    assert texts == [f"Text: x Before: {before}" for before in ("nobody", "a", "b")]


def test_a_column_and_a_unit_before_come_before_the_default(run, scripted_model):
    scripted_model.answer = lambda _: json.dumps({"explanation": "so", "score": 3})
    run(JUDGES, text="x", explanation="a column")
    assert [text.splitlines()[0][16:] for text in scripted_model.texts()] == [
        "a column",
        "so",
        "so",
    ]


def _turn_in_python(**keys: Any) -> Pipeline:
    unit = ConversationalUnit("Critic", name="turn", **keys).prompt("Go on:\n{input.conversation}")
    return Pipeline("t").via("m") >> unit


@pytest.mark.parametrize("door", ["yaml", "python"])
@pytest.mark.parametrize(
    ("column", "path"), [("conversation", None), ("messages", "source.messages")]
)
def test_a_recorded_dialogue_is_continued(run, scripted_model, door, column, path):
    key = f"input: {{conversation: {path}}}," if path else ""
    python = _turn_in_python(input={"conversation": path}) if path else _turn_in_python()
    judged = run(TALK.replace("INPUT", key) if door == "yaml" else python, **{column: DIALOGUE})
    assert scripted_model.texts() == [f"Go on:\n{SHOWN}"]
    assert judged.conversation == [*DIALOGUE, {"role": "Critic", "content": "spoken"}]


def test_a_row_without_a_conversation_starts_one(run, scripted_model):
    judged = run(TALK.replace("INPUT", ""), other="x")
    assert scripted_model.texts() == ["Go on:\n"]
    assert judged.conversation == [{"role": "Critic", "content": "spoken"}]


@pytest.mark.parametrize(
    "conversation", ["user: Hi", None, [{"role": "user", "content": None}], [{"content": "Hi"}]]
)
def test_a_column_that_is_no_conversation_fails_the_row(run, scripted_model, conversation):
    with pytest.raises(Exception, match="the input field 'conversation'"):
        run(TALK.replace("INPUT", ""), conversation=conversation)
    assert scripted_model.requests == []


def test_a_message_may_call_tools_and_null_keys_of_parquet_are_left_out(run):
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "search"}]}
    user = {"role": "user", "content": "Hi", "tool_calls": None}
    judged = run(TALK.replace("INPUT", ""), conversation=[user, call])
    function = {"name": "search", "arguments": "{}"}
    assert judged.conversation[:2] == [
        DIALOGUE[0],
        {**call, "tool_calls": [{"type": "function", "function": function}]},
    ]


def _problems(tmp_path: Any, field: str) -> str:
    path = tmp_path / "t.yaml"
    path.write_text(
        JUDGES.replace('explanation: {type: str, default: "nobody"}', f"explanation: {field}")
    )
    with pytest.raises(SpecError) as caught:
        Pipeline.from_yaml(path).plan()
    return " ".join(problem.message for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("{type: int, default: nobody}", "the default of the input field 'explanation'"),
        ("{type: str, default: null}", "the default of the input field 'explanation'"),
        ("{default: x}", "type"),
        ("{type: unheard, default: x}", "unknown type or scale 'unheard'"),
        ("source.a + source.b", "is not the path of one value"),
        ("input.other", "unknown name `input`"),
        ("previous.nobody.score", "'nobody'"),
    ],
)
def test_a_default_or_a_path_that_cannot_be_is_an_error_before_the_run(tmp_path, field, message):
    assert message in _problems(tmp_path, field)


def test_a_path_names_the_column_that_the_run_needs(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(TALK.replace("INPUT", "input: {conversation: source.messages},"))
    assert [used.column for used in Pipeline.from_yaml(path).plan().columns] == ["messages"]
    path.write_text(TALK.replace("INPUT", ""))
    assert Pipeline.from_yaml(path).plan().columns == ()


def test_paths_and_defaults_count_in_the_fingerprint(tmp_path):
    path, fingerprints = tmp_path / "t.yaml", set()
    for field in (
        "str",
        "source.explanation",
        "{type: str, default: a}",
        "{type: str, default: b}",
    ):
        path.write_text(JUDGES.replace('{type: str, default: "nobody"}', field))
        fingerprints.add(Pipeline.from_yaml(path).fingerprint)
    assert len(fingerprints) == 4


def test_the_pipeline_in_python_is_the_one_in_yaml(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(_judges_in_python().to_yaml())
    assert load(path).document.data["pipeline"][0]["layer"][0]["input"] == {
        "explanation": {"type": "str", "default": "nobody"}
    }
