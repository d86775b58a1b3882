"""A column of type `image` in a prompt."""

import json
from pathlib import Path

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import LLMNode, Plan


def plan_of(prompt: object) -> Plan:
    file = {
        "verdict": 1,
        "name": "t",
        "model": "gpt-4o",
        "dataset": {"schema": {"photo": "image"}},
        "pipeline": [{"unit": "JudgeUnit", "prompt": prompt}],
    }
    return build_plan(
        validate_document(parse_document(json.dumps(file).encode(), "t.yaml"), Path())
    ).plan


def test_the_picture_replaces_its_placeholder():
    work = plan_of("Look: {source.photo} Is it a cat?").nodes[0].work
    assert isinstance(work, LLMNode)
    (message,) = work.prompt.render({"source": {"photo": "https://example.org/cat.png"}}).messages
    assert message.content == "Look:  Is it a cat?"
    assert message.images == ((6, "https://example.org/cat.png"),)
    assert work.prompt.shows_images


def test_a_jinja_prompt_cannot_show_a_picture():
    with pytest.raises(SpecError, match="is an image"):
        plan_of({"jinja": "Look: {{ source.photo }}"})
