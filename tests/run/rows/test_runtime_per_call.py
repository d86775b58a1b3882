"""`per_call` judges several entries in one call; a reply that lacks one, or has them in another order, is unreadable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verdict_cli.errors import SpecError
from verdict_cli.messages import Request

STEPS = """
  - {unit: JudgeUnit, name: check, scale: boolean, prompt: "%s", each: source.claims, as: claim, per_call: 2%s}
  - {unit: MeanPoolUnit, field: score}
"""
PROMPT = "{source.document}\\nClaim {index}: {claim}\\nSupported?"
ROW = {"document": "d", "claims": ["a", "b", "c"]}


def answered(*indices: int) -> str:
    return json.dumps({"entries": [{"index": index, "score": index == 0} for index in indices]})


def by_entry(request: Request) -> str:
    return answered(0, 1) if request.row.item == "0-1" else '{"score": true}'


def test_entries_share_what_their_prompts_have_in_common(plan_of: Any, model: Any) -> None:
    fake = model(rule=by_entry)
    result = fake.run(plan_of(STEPS % (PROMPT, "")), ROW)
    assert result.outputs == (
        [{"score": True}, {"score": False}, {"score": True}],
        {"score": pytest.approx(2 / 3)},
    )
    assert [request.row.item for request in fake.requests] == ["0-1", "2"]
    first, last = fake.prompts()
    assert first.startswith(
        'd\n<entry index="0">\nClaim 0: a\n</entry>\n<entry index="1">\nClaim 1: b\n</entry>\nSupported?\n'
    )
    assert "There are 2 entries." in first
    assert last.startswith("d\nClaim 2: c\nSupported?")
    schema = fake.requests[0].json_schema["properties"]["entries"]
    assert (schema["minItems"], schema["maxItems"]) == (2, 2)


def test_equal_entries_are_all_shown(plan_of: Any, model: Any) -> None:
    fake = model(rule=by_entry)
    fake.run(plan_of(STEPS % ("{claim}", "")), {"claims": ["a", "a"]})
    assert fake.prompts()[0].startswith(
        '<entry index="0">\na\n</entry>\n<entry index="1">\na\n</entry>\n'
    )


@pytest.mark.parametrize(
    "reply", [answered(0), answered(1, 0), answered(0, 1, 2), answered(0, 2), '{"score": true}']
)
def test_entries_that_are_missing_or_out_of_order_are_unreadable(
    plan_of: Any, model: Any, reply: str
) -> None:
    plan = plan_of(STEPS % (PROMPT, ""), "model: {name: m, retries: 1}")
    fake = model(rule=lambda request: reply if request.row.item == "0-1" else by_entry(request))
    failed = fake.run(plan, ROW)
    assert [call.failure for call in failed.calls if call.request.row.item == "0-1"] == [
        "unreadable",
        "unreadable",
    ]
    assert failed.failure.message.startswith("entry 0-1: ")
    fake = model(
        rule=lambda request: (
            reply if not request.attempt and request.row.item == "0-1" else by_entry(request)
        )
    )
    assert fake.run(plan, ROW).failure is None


def test_a_rule_that_one_entry_breaks_makes_the_reply_invalid(plan_of: Any, model: Any) -> None:
    plan = plan_of(STEPS % (PROMPT, ", validate: [response.score]"), "model: {name: m, retries: 0}")
    failure = model(rule=by_entry).run(plan, ROW).failure
    assert (failure.kind, "entry 1: `response.score` is not true" in failure.message) == (
        "invalid",
        True,
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (", extract: {type: regex, pattern: FIRST_INT}", "which check does not read"),
        (", escalate: {when: output.score, to: large}", "more than one unit"),
        (", response: {index: int}", "a response field `index`"),
    ],
)
def test_what_cannot_be_asked_together_is_an_error(plan_of: Any, keys: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_of(STEPS % (PROMPT, keys))
