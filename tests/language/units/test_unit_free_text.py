"""Turns of a conversation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import verdict_cli
from verdict_cli import CoTUnit, Pipeline
from verdict_cli.language.fields.types import TEXT, RecordType, TranscriptType
from verdict_cli.language.units.free_text import ConversationalUnit, DebateUnit

TURNS = st.lists(st.fixed_dictionaries({"role": st.text(), "content": st.text()}))


@settings(deadline=None)
@given(TURNS, st.text(), st.booleans())
def test_a_turn_is_put_at_the_end_and_the_conversation_before_it_stays(turns, text, number):
    unit = ConversationalUnit(role_name="Proponent", number=number)
    before = list(turns)
    output = unit.combine_responses([{"response": text}], ((),), {"conversation": turns})
    role = f"Proponent #{len(turns) + 1}" if number else "Proponent"
    assert output == {"conversation": [*before, {"role": role, "content": text}], "response": text}
    assert turns == before


def test_a_turn_takes_the_conversation_and_gives_it_on():
    unit = DebateUnit(role_name="A", stance="yes")
    assert unit.required_inputs() == {"conversation": TranscriptType()}
    assert unit.own_fields(None) == {"response": TEXT}
    assert list(unit.output_fields(RecordType({"response": TEXT})).fields) == [
        "conversation",
        "response",
    ]


@pytest.mark.parametrize("keys", [{}, {"role_name": ""}])
def test_a_speaker_needs_a_name(keys):
    with pytest.raises(ValidationError):
        ConversationalUnit.model_validate({"unit": "ConversationalUnit", **keys})
    with pytest.raises(ValidationError):
        DebateUnit.model_validate({"unit": "DebateUnit", "stance": "yes", **keys})


def test_what_debaters_show_each_other_is_their_answer(scripted_model):
    scripted_model.answer = lambda request: f"<think>secret of {request.node}</think>My case."
    debate = (
        Pipeline("d", model="m")
        >> verdict_cli.DebateUnit("A", "for").prompt("{source.q}").named("a")
        >> verdict_cli.DebateUnit("B", "against").prompt("{source.q}").named("b")
    )
    judged = debate.run({"q": "x"})
    assert [turn["content"] for turn in judged.conversation] == ["My case.", "My case."]
    assert not any("secret" in text for text in scripted_model.texts())


@pytest.mark.parametrize(
    ("reply", "thinking"),
    [("<think>a</think>b", "b"), ("<think>a</think>", "<think>a</think>"), ("a", "a")],
)
def test_a_chain_of_thought_passes_on_what_follows_a_block_where_both_are_there(
    reply, thinking, scripted_model
):
    scripted_model.answer = lambda _: reply
    assert (Pipeline("c", model="m") >> CoTUnit().prompt("{source.q}")).run(
        {"q": "x"}
    ).thinking == thinking


def test_a_debate_is_a_conversation():
    assert issubclass(DebateUnit, ConversationalUnit)
    assert issubclass(verdict_cli.DebateUnit, verdict_cli.ConversationalUnit)
