"""What units share: their keys, names, settings, and what a type puts around a prompt."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from verdict_cli.language.expressions.paths import unresolved
from verdict_cli.language.fields.types import INTEGER, TEXT, ScaleType
from verdict_cli.language.prompts.jinja import compile_jinja
from verdict_cli.language.prompts.prompt import JinjaPrompt, PromptFile, compile_prompt
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.discrete import LIKERT
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import snake
from verdict_cli.language.units.free_text import ArgumentUnit, CoTUnit, DebateUnit
from verdict_cli.language.units.judges import JudgeUnit, Unit
from verdict_cli.language.units.rubric import RubricUnit
from verdict_cli.messages import Message

TURNS = [{"role": "Opponent", "content": "{unit.stance}"}]


def messages_of(unit: Any, text: str, **values: Any) -> tuple[Message, ...]:
    """The messages of a unit's prompt, framed and filled as the plan does it."""
    problems: list[Any] = []
    framed = unit.frame(text)
    if isinstance(unit.prompt_key, JinjaPrompt):
        prompt: Any = compile_jinja(
            framed, ("source", "input", "unit"), unresolved, lambda *parts: problems.append(parts)
        )
    else:
        prompt = compile_prompt(
            framed, unresolved, lambda *parts: problems.append(parts), lambda *said: None
        )
    assert not problems
    messages = prompt.render({"unit": unit.settings(), **values}).messages
    assert isinstance(messages, tuple)
    return messages


@pytest.mark.parametrize(
    ("type_name", "name"),
    [
        ("MeanPoolUnit", "mean_pool"),
        ("JudgeUnit", "judge"),
        ("CoTUnit", "cot"),
        ("BestOfKJudgeUnit", "best_of_k_judge"),
        ("MeanVariancePoolUnit", "mean_variance_pool"),
        ("Unit", "unit"),
        ("Rubric3", "rubric3"),
        ("LLMJudgeUnit", "llm_judge"),
    ],
)
def test_a_units_own_name_is_its_type_without_unit_in_snake_case(type_name, name):
    assert snake(type_name) == name


def test_the_types_of_the_language_are_known_by_their_names():
    assert set(TYPES) >= {
        "JudgeUnit", "CategoricalJudgeUnit", "PairwiseJudgeUnit", "BestOfKJudgeUnit", "RankerUnit", "CoTUnit",
        "ConversationalUnit", "DebateUnit", "ArgumentUnit", "RubricUnit", "Unit", "MapUnit", "MeanPoolUnit",
        "MedianPoolUnit", "MedianFilterUnit", "MaxPoolUnit", "MinPoolUnit", "ModePoolUnit", "MeanVariancePoolUnit",
        "RubricPoolUnit",
    }  # fmt: skip


@pytest.mark.parametrize(
    "key",
    [
        {"nmae": "x"},
        {"name": "a b"},
        {"name": "0a"},
        {"pin": "yes"},
        {"scale": 3},
        {"on_failure": "ignore"},
    ],
)
def test_a_key_that_there_is_not_or_that_does_not_fit_is_refused(key):
    with pytest.raises(ValidationError):
        JudgeUnit.model_validate({"unit": "JudgeUnit", **key})


def test_settings_are_the_units_own_plain_keys_as_they_are_spelled():
    unit = JudgeUnit.model_validate(
        {"unit": "JudgeUnit", "name": "j", "validate": ["true"], "scale": {"range": [1, 3]}}
    )
    settings = unit.settings()
    assert settings["name"] == "j"
    assert settings["validate"] == ("true",)
    assert "scale" not in settings, "the plan puts the scale's values there"


def test_a_response_has_the_explanation_then_declared_fields_then_the_types_own():
    unit = JudgeUnit(explanation=True)
    record = unit.response_record(LIKERT, {"n": INTEGER})
    assert list(record.fields.items()) == [
        ("explanation", TEXT),
        ("n", INTEGER),
        ("score", ScaleType(LIKERT)),
    ]
    assert unit.default_scale() == LIKERT
    assert unit.scaled_field() == "score"


def test_a_plain_unit_needs_a_response_or_a_scale():
    trouble = Unit().validation_error()
    assert trouble is not None
    assert "needs a `response`" in trouble[1]
    assert Unit(response={"a": "str"}).validation_error() is None
    assert Unit(response={"a": "str"}).own_fields(None) == {}
    scaled = Unit(scale="boolean")
    assert (scaled.scaled_field(), scaled.own_fields(BooleanScale())) == (
        "score",
        {"score": ScaleType(BooleanScale())},
    )


def test_reasoning_is_free_text():
    unit = CoTUnit()
    assert unit.own_fields(None) == {"thinking": TEXT}
    assert unit.extract_key == "raw"
    assert unit.frame("  Think.  ") == "  Think.  "


def test_the_common_indentation_of_a_framed_prompt_is_removed():
    unit = ArgumentUnit(stance="for", target="answer A")
    (message,) = messages_of(unit, "\n    Question:\n      {source.q}\n", source={"q": "why?"})
    assert message.content.startswith("Make the strongest honest case for answer A.")
    assert message.content.endswith("\n\nQuestion:\n  why?")


def test_what_a_type_adds_is_within_the_prompts_sections():
    unit = DebateUnit(role_name="Pro", stance="It is so.")
    system, user = messages_of(
        unit,
        "@system\nBe brief.\n@user\nTopic: {source.q}",
        source={"q": "x"},
        input={"conversation": TURNS},
    )
    assert (system.role, user.role) == ("system", "user")
    assert "debate as Pro" in system.content
    assert system.content.endswith("Be brief.")
    assert user.content == "Topic: x\n\nThe debate so far:\n<Opponent>\n{unit.stance}\n</Opponent>"


@pytest.mark.parametrize(
    "wild", ["{source.x}", "{{ source.x }}", "@system", "a\n@user\nb", "{% raw %}", "\\{unit.name}"]
)
@pytest.mark.parametrize("jinja", [False, True])
def test_role_stance_and_target_are_printed_as_they_are(wild, jinja):
    text = "Go on."
    keys: Any = {"prompt": JinjaPrompt(jinja=text) if jinja else text}
    debater = DebateUnit(role_name=f"R{wild}", stance=f"S{wild}", **keys)
    (message,) = messages_of(debater, text, input={"conversation": TURNS})
    assert f"debate as R{wild}. You argue" in message.content
    assert f"to the end: S{wild}\n" in message.content
    assert "<Opponent>\n{unit.stance}\n</Opponent>" in message.content
    argument = ArgumentUnit(stance="against", target=wild, **keys)
    (message,) = messages_of(argument, text)
    assert f"case against {wild}. Argue" in message.content


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (None, "So far: {input.conversation}"),
        (PromptFile(file="debate.md"), "So far: {input.conversation}"),
        (
            JinjaPrompt(jinja=""),
            "{% for turn in input.conversation %}{{ turn.content }}{% endfor %}",
        ),
    ],
)
def test_the_debate_is_not_shown_twice(prompt, text):
    unit = DebateUnit(role_name="Pro", stance="Yes.", prompt=prompt)
    assert "The debate so far" not in unit.frame(text)


CRITERIA = (
    "{source.x} first",
    "mid {source.x} dle",
    "ends in {unit.name}",
    "{{ source.x }}",
    "@system",
    "a\\{source.x}",
)


@pytest.mark.parametrize("jinja", [False, True])
def test_criteria_of_the_file_are_printed_as_they_are(jinja):
    prompt: Any = JinjaPrompt(jinja="") if jinja else None
    unit = RubricUnit(criteria=CRITERIA, prompt=prompt)
    text = "Text: {{ source.x }}" if jinja else "Text: {source.x}"
    (message,) = messages_of(unit, text, source={"x": "FILLED"})
    assert message.content.startswith("Text: FILLED\n\nRubric\n")
    lines = message.content.split("\n")
    assert [f"{place}. {text}" for place, text in enumerate(CRITERIA, 1)] == lines[
        3 : 3 + len(CRITERIA)
    ]
    assert message.content.count("FILLED") == 1
    assert lines[-1] == "SCORE: <0-10>"


def test_a_rubric_is_requested_where_the_file_has_none():
    (message,) = messages_of(RubricUnit(n=3), "Task: {source.x}", source={"x": "y"})
    assert message.content.startswith("Write a rubric for the task below: 3 criteria")
    assert list(RubricUnit().own_fields(None)) == ["criteria"]
    assert list(RubricUnit(criteria=("a",)).own_fields(None)) == ["verdict", "score"]


def test_a_number_of_criteria_beside_criteria_is_a_problem():
    trouble = RubricUnit(criteria=("a",), n=3).validation_error()
    assert trouble is not None
    assert trouble[0] == "n"
    assert RubricUnit(criteria=("a",)).validation_error() is None


def test_every_name_looks_up_the_class_that_it_spells():
    for name in TYPES:
        assert TYPES[name].__name__ == name
        assert get_args(TYPES[name].model_fields["unit"].annotation) == (name,)
