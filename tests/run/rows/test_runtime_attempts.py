"""Asking again: what is asked again, how often, after which wait, and what the model is told."""

from __future__ import annotations

import pytest

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.messages import Message, Reply, Usage

JUDGE = "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}"
ROW = {"text": "this"}


def test_failed_calls_and_unreadable_replies_share_one_count_of_attempts(plan_of, model):
    fake = model(Retryable("down"), "no score here", '{"score": 9}', '{"score": 3}')
    result = fake.run(plan_of(JUDGE), ROW)
    assert [request.attempt for request in fake.requests] == [0, 1, 2]
    assert result.failure is not None
    assert result.failure.kind == "off-scale"
    assert [call.failure for call in result.calls] == ["unavailable", "unreadable", "off-scale"]


def test_the_first_readable_reply_ends_the_asking(plan_of, model):
    fake = model(Retryable("down"), '{"score": 3}', "never asked for")
    result = fake.run(plan_of(JUDGE), ROW)
    assert result.failure is None
    assert result.outputs == ({"score": 3},)
    assert len(fake.requests) == 2


def test_retry_after_is_waited_and_no_wait_follows_the_last_attempt(plan_of, model):
    slow = [Retryable("busy", kind="rate-limit", retry_after_s=seconds) for seconds in (7, 11, 13)]
    fake = model(*slow)
    assert fake.run(plan_of(JUDGE), ROW).failure.kind == "rate-limit"
    assert fake.waits == [7, 11]


def test_an_unreadable_reply_is_retried_without_a_wait(plan_of, model):
    fake = model("?", '{"score": 1}')
    fake.run(plan_of(JUDGE), ROW)
    assert fake.waits == []


def test_a_rejected_request_is_not_retried(plan_of, model):
    fake = model(Rejected("too long", kind="context-too-long"))
    result = fake.run(plan_of(JUDGE), ROW)
    assert result.failure.kind == "context-too-long"
    assert len(fake.requests) == 1


def test_models_are_tried_in_their_order_each_with_its_own_retries(plan_of, model):
    policy = "model: [{name: a, retries: 1}, {name: b, retries: 0}, {name: c, retries: 3}]"
    fake = model(Retryable("x"), Retryable("x"), "unreadable", Rejected("no"))
    result = fake.run(plan_of(JUDGE, policy), ROW)
    assert [(request.model.name, request.attempt) for request in fake.requests] == [
        ("a", 0),
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]
    assert result.failure.kind == "rejected"


def test_a_rejected_request_goes_to_the_next_model_of_the_policy(plan_of, model):
    fake = model(Rejected("too long", kind="context-too-long"), '{"score": 2}')
    result = fake.run(plan_of(JUDGE, "model: [a, b]"), ROW)
    assert [request.model.name for request in fake.requests] == ["a", "b"]
    assert result.outputs == ({"score": 2},)


def test_a_refusal_is_raised_at_once_whatever_models_are_left(plan_of, model):
    fake = model(Refused("bad key"))
    with pytest.raises(Refused, match="bad key"):
        fake.run(plan_of(JUDGE, "model: [a, b]"), ROW)
    assert len(fake.requests) == 1


def test_a_structured_reply_that_fails_is_sent_back_to_the_model(plan_of, model):
    fake = model('{"score": 9}', '{"score": 3}')
    fake.run(plan_of(JUDGE), ROW)
    first, second = fake.requests
    assert second.messages[: len(first.messages)] == first.messages
    answer, correction = second.messages[len(first.messages) :]
    assert answer == Message("assistant", '{"score": 9}')
    assert correction.role == "user"
    assert "9" in correction.content
    assert "JSON" in correction.content


@pytest.mark.parametrize("value", ["true", "null", '{"a": false}', "[null, true]"])
def test_the_correction_spells_values_as_json_does(value, plan_of, model):
    for unit in (JUDGE, "- {unit: Unit, response: {score: str}, prompt: Rate}"):
        fake = model(f'{{"score": {value}}}', '{"score": 3}', '{"score": 3}')
        fake.run(plan_of(unit), ROW)
        correction = fake.prompts()[1]
        assert f"{value} is not" in correction
        assert not any(python in correction for python in ("True", "None", "False", "{'"))


def test_an_extractor_of_free_text_repeats_the_same_prompt(plan_of, model):
    steps = "- {unit: JudgeUnit, prompt: Rate, extract: {type: regex, fields: {score: FIRST_INT}}}"
    fake = model("none", "4")
    fake.run(plan_of(steps))
    assert fake.requests[0].messages == fake.requests[1].messages


def test_another_model_does_not_get_the_reply_of_the_first(plan_of, model):
    fake = model("?", '{"score": 3}')
    fake.run(plan_of(JUDGE, "model: [{name: a, retries: 0}, {name: b, retries: 0}]"), ROW)
    assert fake.requests[0].messages == fake.requests[1].messages


@pytest.mark.parametrize(
    "extract",
    ["structured", "{type: regex, fields: {score: LAST_INT}}"],
    ids=["structured", "last-match"],
)
def test_a_reply_that_was_cut_off_before_its_answer_says_so(extract, plan_of, model):
    steps = f"- {{unit: JudgeUnit, prompt: Rate, extract: {extract}}}"
    fake = model(
        rule=lambda _: Reply('{"explanation": "It has 3 flaws and', finish_reason="length")
    )
    failure = fake.run(plan_of(steps)).failure
    assert failure.kind == "cut-off"
    assert "max_tokens" in failure.message


def test_a_cut_off_reply_that_can_be_read_counts(plan_of, model):
    steps = "- {unit: JudgeUnit, prompt: Rate, extract: {type: regex, fields: {score: FIRST_INT}}}"
    fake = model(Reply("4 because it", finish_reason="length"))
    assert fake.run(plan_of(steps)).outputs == ({"score": 4},)


def test_a_broken_rule_is_retried_and_then_fails_the_row(plan_of, model):
    steps = "- {unit: JudgeUnit, prompt: Rate, validate: ['response.score > 3']}"
    fake = model(rule=lambda request: f'{{"score": {request.attempt + 1}}}')
    failure = fake.run(plan_of(steps)).failure
    assert (failure.kind, len(fake.requests)) == ("invalid", 3)
    assert "response.score > 3" in failure.message


def test_a_rule_that_fails_fails_the_row_at_once_and_its_call_is_stored(plan_of, model):
    steps = "- {unit: JudgeUnit, prompt: Rate, validate: ['response.score / source.zero > 1']}"
    fake = model(Reply('{"score": 3}', usage=Usage(5, 1), cost_usd=0.5))
    result = fake.run(plan_of(steps), {"zero": 0})
    assert result.failure.kind == "expression"
    (call,) = result.calls
    assert call.reply is not None
    assert call.reply.cost_usd == 0.5


def test_every_paid_reply_is_stored_with_its_cost(plan_of, model):
    fake = model(Reply("?", cost_usd=0.25), Reply('{"score": 3}', cost_usd=0.5))
    result = fake.run(plan_of(JUDGE), ROW)
    assert [call.reply.cost_usd for call in result.calls if call.reply] == [0.25, 0.5]


def test_a_reply_that_the_provider_rejects_is_retried(plan_of, model):
    fake = model(ReplyError("nothing", kind="empty"), '{"score": 3}')
    result = fake.run(plan_of(JUDGE), ROW)
    assert [call.failure for call in result.calls] == ["empty", ""]


def test_an_attempt_that_was_never_recorded_leaves_the_failure_before_it(plan_of, model):
    fake = model("?", Rejected("no reply recorded", kind="not-recorded"))
    result = fake.run(plan_of(JUDGE), ROW)
    assert result.failure.kind == "unreadable"
    assert len(result.calls) == 1


def test_propagate_that_fails_is_not_retried(plan_of, model):
    steps = "- {unit: JudgeUnit, prompt: Rate, propagate: {score: output.score / 0}}"
    fake = model(rule=lambda _: '{"score": 3}')
    assert fake.run(plan_of(steps)).failure.kind == "expression"
    assert len(fake.requests) == 1


def test_the_scales_sentence_follows_the_last_user_message(plan_of, model):
    steps = "- unit: JudgeUnit\n  prompt: |\n    @user\n    first\n    @assistant\n    between\n    @user\n    last\n"
    fake = model(rule=lambda _: '{"score": 3}')
    fake.run(plan_of(steps))
    contents: list[str] = [message.content for message in fake.requests[0].messages]
    assert contents[:2] == ["first", "between"]
    assert contents[2].startswith("last\n\n")


@pytest.mark.parametrize(
    ("temperature", "texts", "calls"),
    [
        (0, ["no", "no", "no"], 2),
        (0, ["no", "neither", "neither"], 3),
        (0.5, ["no", "no", "no"], 4),
        (None, ["no", "no", "no"], 4),
    ],
)
def test_at_temperature_0_the_same_unreadable_text_twice_is_not_retried(
    temperature, texts, calls, plan_of, model
):
    temperature_key = "" if temperature is None else f", temperature: {temperature}"
    plan = plan_of(
        "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}",
        f"model: {{name: m, retries: 3{temperature_key}}}",
    )
    fake = model(*texts, "no")
    assert fake.run(plan, {"text": "x"}).failure.kind == "unreadable"
    assert len(fake.requests) == calls


def test_a_reply_that_was_cut_off_the_same_way_twice_still_gets_more_room(plan_of, model):
    cut = Reply('{"sc', finish_reason="length")
    plan = plan_of(
        "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}",
        "model: {name: m, retries: 3, temperature: 0, max_tokens: 4}",
    )
    fake = model(cut, cut, Reply('{"score": 3}'))
    assert fake.run(plan, {"text": "x"}).failure is None
    assert [request.model.max_tokens for request in fake.requests] == [4, 8, 16]


@pytest.mark.parametrize(("temperature", "calls"), [(0, 2), (0.5, 4)])
def test_at_temperature_0_a_reply_without_text_twice_is_not_retried(
    temperature, calls, plan_of, model
):
    plan = plan_of(JUDGE, f"model: {{name: m, retries: 3, temperature: {temperature}}}")
    fake = model(*[ReplyError("nothing", kind="empty") for _ in range(5)])
    assert fake.run(plan, ROW).failure.kind == "empty"
    assert len(fake.requests) == calls
