from __future__ import annotations

import asyncio
from typing import Any

from verdict_cli.errors import Refused, Retryable
from verdict_cli.llm.middleware.require_logprobs import require_logprobs
from verdict_cli.messages import Alternative, Message, Reply, Request, Row
from verdict_cli.model import Model

SOME = ((Alternative("4", -0.1),),)


def request(number: int, model: str = "m", top_logprobs: int = 5) -> Request:
    return Request(
        Row(number, number, {}),
        "judge",
        Model(name=model),
        (Message("user", ""),),
        top_logprobs=top_logprobs,
    )


class Server:
    """Answers with the log-probabilities given, the last of them for ever; None in a tuple is an outage."""

    def __init__(self, *logprobs: Any) -> None:
        self.logprobs = list(logprobs)
        self.paid = self.here = self.most = 0

    async def ask(self, request: Request) -> Reply:
        self.here += 1
        self.most = max(self.most, self.here)
        for _ in range(3):
            await asyncio.sleep(0)
        self.here -= 1
        alternatives = self.logprobs.pop(0) if len(self.logprobs) > 1 else self.logprobs[0]
        if alternatives == "outage":
            raise Retryable("gone")
        self.paid += 1
        return Reply("4", logprobs=alternatives, cost_usd=0.5)


def outcomes(server: Server, *requests: Request) -> list[Any]:
    async def run() -> list[Any]:
        ask = require_logprobs(server.ask)
        return await asyncio.gather(*(ask(request) for request in requests), return_exceptions=True)

    return asyncio.run(run())


def test_a_model_that_returns_none_is_refused_after_one_paid_call():
    server = Server(None)
    results = outcomes(server, *(request(n) for n in range(30)))
    assert server.paid == 1
    assert all(
        isinstance(result, Refused) and result.failure == "no-logprobs" for result in results
    )
    assert results[0].reply.cost_usd == 0.5
    assert all(result.reply is None for result in results[1:])


def test_once_a_reply_has_some_the_others_are_sent_together():
    server = Server(SOME)
    assert all(
        isinstance(outcome, Reply) for outcome in outcomes(server, *(request(n) for n in range(9)))
    )
    assert server.most > 1


def test_an_outage_proves_nothing():
    server = Server("outage", None)
    first, *others = outcomes(server, *(request(n) for n in range(5)))
    assert isinstance(first, Retryable)
    assert all(isinstance(one, Refused) for one in others)
    assert server.paid == 1


def test_a_later_reply_without_is_left_to_its_row():
    server = Server(SOME, None)
    replies = outcomes(server, *(request(n) for n in range(3)))
    assert [reply.logprobs for reply in replies] == [SOME, None, None]


def test_calls_without_logprobs_are_not_proven():
    server = Server(None)
    results = outcomes(server, request(0, "a", 0))
    assert all(isinstance(result, Reply) for result in results)
