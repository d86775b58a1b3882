"""Replies that were paid for: what is recorded of them, what a cache may keep, and what the next attempt may cost."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from verdict_cli.errors import Rejected, ReplyError, recorded_error
from verdict_cli.messages import Reply, Request, Row, Usage
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_row

JUDGE = "- {unit: JudgeUnit, prompt: 'Rate {source.text}'}"
ROW = {"text": "this"}
PAID = Reply("", usage=Usage(90, 10), cost_usd=0.5, latency_s=2.0)


def test_after_a_reply_that_was_cut_off_the_room_doubles_up_to_four_times(plan_of, model):
    cut = Reply('{"score', finish_reason="length")
    fake = model(cut, ReplyError("none", kind="cut-off"), cut, cut, '{"score": 3}')
    result = fake.run(plan_of(JUDGE, "model: {name: m, retries: 4, max_tokens: 10}"), ROW)
    assert result.outputs == ({"score": 3},)
    assert [request.model.max_tokens for request in fake.requests] == [10, 20, 40, 40, 40]


def test_where_no_room_was_set_none_is(plan_of, model):
    fake = model(Reply("{", finish_reason="length"), '{"score": 3}')
    fake.run(plan_of(JUDGE), ROW)
    assert [request.model.max_tokens for request in fake.requests] == [None, None]


def test_other_failures_give_no_more_room(plan_of, model):
    fake = model("?", '{"score": 3}')
    fake.run(plan_of(JUDGE, "model: {name: m, max_tokens: 10}"), ROW)
    assert [request.model.max_tokens for request in fake.requests] == [10, 10]


@pytest.mark.parametrize(
    "problem",
    [
        ReplyError("no", kind="refused", reply=PAID),
        ReplyError("no", kind="empty", reply=PAID),
        ReplyError("no", kind="cut-off", reply=PAID),
        Rejected("no", kind="content-filter", reply=PAID),
        recorded_error("unavailable", "no", PAID),
    ],
)
def test_a_reply_that_is_none_is_recorded_with_what_it_cost(plan_of, model, problem):
    result = model(problem).run(plan_of(JUDGE, "model: {name: m, retries: 0}"), ROW)
    (call,) = result.calls
    assert call.failure == problem.failure
    assert call.reply == PAID
    assert call.latency_s == 2.0


def test_a_repaired_reply_is_recorded_as_one(plan_of, model):
    for text, repaired in (('{"score": 3}', False), ('Sure:\n{"score": 3,}', True)):
        (call,) = model(text).run(plan_of(JUDGE), ROW).calls
        assert call.repaired is repaired


def test_the_cache_is_notified_of_replies_that_could_not_be_read(plan_of):
    replies = ["?", '{"score": 9}', '{"score": 3}']
    requests: list[Request] = []
    forgotten: list[Request] = []

    async def ask(request: Request) -> Reply:
        requests.append(request)
        return Reply(replies[len(requests) - 1])

    context = Context(ask, forget=forgotten.append, jitter=Random(0))
    asyncio.run(run_row(plan_of(JUDGE), Row(0, 0, ROW), context))
    assert forgotten == requests[:2]
