"""Turns of a conversation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from verdict_cli.language.fields.types import TEXT, RecordType, TranscriptType
from verdict_cli.language.units.conversational import ConversationalUnit, DebateUnit

TURNS = st.lists(st.fixed_dictionaries({"role": st.text(), "content": st.text()}))


@settings(deadline=None)
@given(TURNS, st.text(), st.booleans())
def test_a_turn_is_put_at_the_end_and_the_conversation_before_it_stays(turns: Any, said: str, number: bool) -> None:
    unit = ConversationalUnit(role_name="Proponent", number=number)
    before = list(turns)
    output = unit.combine_responses([{"response": said}], ((),), {"conversation": turns})
    role = f"Proponent #{len(turns) + 1}" if number else "Proponent"
    assert output == {"conversation": [*before, {"role": role, "content": said}], "response": said}
    assert turns == before


def test_a_turn_takes_the_conversation_and_gives_it_on() -> None:
    unit = DebateUnit(role_name="A", stance="yes")
    assert unit.required_inputs() == {"conversation": TranscriptType()}
    assert unit.own_fields(None) == {"response": TEXT}
    assert list(unit.output_fields(RecordType({"response": TEXT})).fields) == ["conversation", "response"]


@pytest.mark.parametrize("keys", [{}, {"role_name": ""}])
def test_a_speaker_needs_a_name(keys: Any) -> None:
    with pytest.raises(ValidationError):
        ConversationalUnit.model_validate({"unit": "ConversationalUnit", **keys})
    with pytest.raises(ValidationError):
        DebateUnit.model_validate({"unit": "DebateUnit", "stance": "yes", **keys})
