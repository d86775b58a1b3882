"""When a model is given up for rejecting everything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.chain import StopSignal, build_chain
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS, circuit_breaker
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.rate_limit import RateLimiters
from verdict_cli.llm.middleware.replies import ReplySources
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.model import Model

NO = "unknown parameter: top_k"


def outcomes(*answers: Any, spared: bool = False) -> list[Any]:
    """What calls get, one after the other, whose provider gives these answers."""
    pending = list(answers)

    async def provider(_: Request) -> Reply:
        answer = pending.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer)

    async def go() -> list[Any]:
        ask = circuit_breaker(provider, lambda _: spared)
        results: list[Any] = []
        for place in range(len(answers)):
            request = Request(
                Row(place, place, {}), "judge", Model(name="m"), (Message("user", ""),)
            )
            try:
                results.append(await ask(request))
            except Exception as error:
                results.append(error)
        return results

    return asyncio.run(go())


def test_the_twentieth_rejection_in_the_same_words_stops_the_run():
    results = outcomes(*[Rejected(NO) for _ in range(MAX_REJECTIONS)])
    assert [type(result) for result in results] == [Rejected] * (MAX_REJECTIONS - 1) + [Refused]
    assert NO in results[-1].message and "20" in results[-1].message
    assert all(result.passing for result in results[:-1])


@pytest.mark.parametrize(
    "between",
    ["4", ReplyError("empty", kind="empty"), Rejected("other words")],
    ids=["reply", "empty", "other"],
)
def test_a_reply_or_other_words_in_between_keep_the_run_going(between):
    results = outcomes(
        *[Rejected(NO) for _ in range(MAX_REJECTIONS - 1)],
        between,
        *[Rejected(NO) for _ in range(MAX_REJECTIONS - 1)],
    )
    assert not any(isinstance(result, Refused) for result in results)


def test_a_model_that_has_answered_once_is_never_given_up():
    results = outcomes("4", *[Rejected(NO) for _ in range(3 * MAX_REJECTIONS)])
    assert not any(isinstance(result, Refused) for result in results)
    assert not any(result.passing for result in results[1:])


def test_passing_failures_do_not_count():
    results = outcomes(
        *[Rejected(NO) for _ in range(MAX_REJECTIONS - 1)], Retryable("gone"), Rejected(NO)
    )
    assert [type(result) for result in results[-2:]] == [Retryable, Refused]


@pytest.mark.parametrize("kind", ["content-filter", "context-too-long"])
def test_what_lies_in_a_row_does_not_count(kind):
    assert not any(
        isinstance(outcome, Refused)
        for outcome in outcomes(*[Rejected(NO, kind=kind) for _ in range(2 * MAX_REJECTIONS)])
    )


def test_requests_that_lose_no_row_do_not_count():
    rejections = [Rejected(NO) for _ in range(2 * MAX_REJECTIONS)]
    assert not any(isinstance(outcome, Refused) for outcome in outcomes(*rejections, spared=True))


@pytest.mark.parametrize("name", ["baseline/echo", "replay/x"])
def test_built_in_models_and_recordings_are_neither_counted_nor_asked_for_logprobs(
    name,
):
    """They fail their own row alone."""
    answers: list[Any] = [Rejected(NO), Reply("4")] * (2 * MAX_REJECTIONS)

    async def provider(_: Request) -> Reply:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def go() -> list[Any]:
        ask = build_chain(
            provider,
            RateLimiters(),
            Spending(),
            PrefixLeaders(),
            ReplySources(),
            StopSignal(),
            is_spared=lambda _: False,
        ).ask
        messages = (Message("user", ""),)
        requests = [
            Request(Row(place, place, {}), "judge", Model(name=name), messages, top_logprobs=5)
            for place in range(len(answers))
        ]
        return [*await asyncio.gather(*map(ask, requests), return_exceptions=True)]

    assert {type(outcome) for outcome in asyncio.run(go())} == {Rejected, Reply}


def empty(length: int) -> ReplyError:
    return ReplyError(
        f"replied with nothing: {length} characters are reasoning",
        kind="empty",
        hint="set the parser",
    )


@pytest.mark.parametrize(
    "failures",
    [
        [empty(length) for length in range(MAX_REJECTIONS)],
        [
            Retryable("a page", kind="unavailable", status=200, hint="check api_base")
            for _ in range(MAX_REJECTIONS)
        ],
    ],
    ids=["empty", "page"],
)
def test_a_model_that_never_gives_a_text_stops_the_run_alike(failures):
    results = outcomes(*failures)
    assert [type(result) for result in results[:-1]] == [type(failure) for failure in failures[:-1]]
    assert isinstance(results[-1], Refused)
    assert results[-1].hint == failures[-1].hint and "answered none" in results[-1].message


@pytest.mark.parametrize("status", [0, 429, 503])
def test_an_outage_is_waited_for(status):
    results = outcomes(
        *[Retryable("gone", kind="unavailable", status=status) for _ in range(2 * MAX_REJECTIONS)]
    )
    assert not any(isinstance(result, Refused) for result in results)
