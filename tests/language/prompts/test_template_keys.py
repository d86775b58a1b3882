"""How a pipeline spells a prompt."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from verdict_cli.language.prompts.prompt import JinjaPrompt, PromptFile, PromptKey

ADAPTER: TypeAdapter[Any] = TypeAdapter(PromptKey)


def test_a_prompt_is_a_text_a_file_or_a_jinja_template():
    assert ADAPTER.validate_python("Judge.") == "Judge."
    assert ADAPTER.validate_python({"file": "prompts/judge.md"}) == PromptFile(
        file="prompts/judge.md"
    )
    assert ADAPTER.validate_python({"jinja": "{{ source.q }}"}) == JinjaPrompt(
        jinja="{{ source.q }}"
    )


@pytest.mark.parametrize(
    "spelling", [None, 3, ["a"], {}, {"file": 3}, {"jinja": "a", "file": "b"}, {"text": "a"}]
)
def test_what_spells_no_prompt_is_refused(spelling):
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(spelling)
