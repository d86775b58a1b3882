"""What every shipped pipeline sends for one row, and that no message misleads the judge."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from golden_messages import MESSAGES, messages, texts

from verdict_cli.language.load import load
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import LLMNode

PIPELINES = dict(texts())
FILES = sorted(MESSAGES.glob("**/*.txt"))


@pytest.mark.parametrize("name", PIPELINES)
def test_it_sends_the_messages_that_were_read(name):
    path = MESSAGES / f"{name}.txt"
    actual = messages(PIPELINES[name])
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    assert actual == expected, (
        "read the new messages, then run `python tests/configs/golden_messages.py`"
    )


def test_every_file_belongs_to_an_existing_pipeline():
    assert {path.relative_to(MESSAGES).with_suffix("").as_posix() for path in FILES} <= set(
        PIPELINES
    )


def requests(path: Path) -> list[tuple[str, str]]:
    """(how the reply is read, the messages) of each request."""
    parts = re.split(r"^#{8} .*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [(part.split("\n")[2], part.split("\n", 3)[3]) for part in parts]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_message_names_a_worst_label_or_contradicts_how_its_reply_is_read(path):
    for read, sent in requests(path):
        worst = re.search(r"where (.+) is the worst", sent)
        assert worst is None or worst[1].replace(".", "").isdigit() or worst[1] == "wrong", worst
        if '{"type": "boolean"}' in read:
            assert 'Answer with "' not in sent
        if read.startswith("reply: one of the tokens"):
            assert sent.rstrip().endswith("Do not explain. Respond with the value alone.")
        assert not re.search(r"\b(?:None|True|False)\b|\{'|\['", sent)


@pytest.mark.parametrize("name", [name for name in PIPELINES if not name.startswith("recipes/")])
def test_every_value_that_a_prompt_names_can_be_read(name):
    source = PIPELINES[name]
    assert isinstance(source, Path)
    request = Request(Row(0, 0, {}), "judge", Model(name="m"), ())
    for node in build_plan(load(source)).plan.nodes:
        work = node.work
        if (
            not isinstance(work, LLMNode)
            or work.scale is None
            or work.reading.top_logprobs
            or work.reading.then
        ):
            continue
        field = work.unit.scaled_field()
        assert field is not None
        for value in work.scale.values():
            fields = dict.fromkeys(work.response.fields, "why") | {field: value}
            (answer,) = [
                token for token, token_value in work.scale.tokens() if token_value == value
            ][:1]
            reply = Reply(json.dumps(fields) if work.reading.json_schema is not None else answer)
            assert work.reading.read(reply, request)[field] == value, (node.id, value)
