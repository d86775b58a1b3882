"""When a model is given up because nothing accepts a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from verdict_cli.errors import Refused, Rejected, Retryable
from verdict_cli.llm.middleware.circuit_breaker import LATER_FAILURES, LATER_S, circuit_breaker
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.model import Model

Answer = tuple[Any, float, int]


def closed() -> Retryable:
    error = Retryable("model m: no reply from h: Connection refused")
    error.unreachable = True
    return error


def outcomes(*answers: Answer, retries: int = 2, spared: bool = False) -> list[Any]:
    """What calls get, one after the other, from (answer of the provider, time in seconds, attempt)."""
    now = 0.0
    answer: Any = None

    async def provider(_: Request) -> Reply:
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer)

    async def go() -> list[Any]:
        nonlocal now, answer
        ask = circuit_breaker(provider, lambda _: spared, lambda: now)
        results: list[Any] = []
        for row, (answer_or_error, moment, attempt) in enumerate(answers):
            answer, now = answer_or_error, moment
            used = Model(name="m", retries=retries)
            request = Request(
                Row(row, row, {}), "judge", used, (Message("user", ""),), attempt=attempt
            )
            try:
                results.append(await ask(request))
            except Exception as error:
                results.append(error)
        return results

    return asyncio.run(go())


def stops(results: list[Any]) -> list[int]:
    return [place for place, result in enumerate(results) if isinstance(result, Refused)]


def test_a_call_that_used_up_its_attempts_stops_a_run_that_was_never_answered():
    results = outcomes(*[(closed(), 0, 0)] * 64, *[(closed(), 1, 1)] * 64, (closed(), 2, 2))
    assert stops(results) == [128]
    assert (
        "none of 129 attempts connected: no reply from h: Connection refused" in results[-1].message
    )
    assert "api_base" in results[-1].hint and results[-1].exit_code == 4


def test_without_retries_the_third_failure_stops_the_run():
    assert stops(outcomes(*[(closed(), 0, 0)] * 3, retries=0)) == [2]


@pytest.mark.parametrize(
    "answer", ["4", Rejected("no"), Retryable("down", status=503)], ids=["reply", "400", "503"]
)
def test_an_endpoint_that_has_answered_is_given_up_only_after_a_while(answer):
    quick = [(closed(), LATER_S - 1, 2)] * (2 * LATER_FAILURES)
    assert not stops(outcomes((answer, 0, 0), *quick))
    slow = [(closed(), float(place), 2) for place in range(LATER_FAILURES)]
    assert stops(outcomes((answer, 0, 0), *slow)) == [LATER_FAILURES]
    assert not stops(outcomes((answer, 0, 0), *slow[:-1], (answer, 60, 0), *slow[:-1]))


def test_a_cached_reply_is_no_answer_of_the_endpoint():
    assert stops(outcomes((Reply("4", cached=True), 0, 0), *[(closed(), 0, 2)] * 3)) == [3]


def test_other_temporary_failures_do_not_count():
    assert not stops(outcomes(*[(Retryable("late", kind="timeout"), 0, 2)] * 200))


def test_requests_that_another_model_answers_do_not_count():
    assert not stops(outcomes(*[(closed(), 0, 2)] * 200, spared=True))
