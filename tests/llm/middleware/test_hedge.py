"""Hedged calls, on an event loop whose time is virtual."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest

from verdict_cli.errors import Retryable
from verdict_cli.llm.middleware.hedge import MOST_EXTRA, Hedger, hedge
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model

ASKED = Request(Row(0, 0, {}), "judge", Model(name="m"), ())


class _InstantSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Waits for nothing; the loop's clock moves instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout:
            self.now += timeout
        return found


def in_virtual_time(scene: Coroutine[Any, Any, Any]) -> Any:
    selector = _InstantSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(scene)
    finally:
        loop.close()


class Server:
    """Answers after lognormal times (median 1 s, 99th percentile 10 s); one call in a hundred hangs for a minute."""

    def __init__(self, hangs: float = 0.01) -> None:
        self.rng = random.Random(3)
        self.hangs = hangs
        self.calls = 0

    async def ask(self, _: Request) -> Reply:
        self.calls += 1
        latency = math.exp(math.log(10) / 2.326 * self.rng.gauss(0, 1))
        if self.rng.random() < self.hangs:
            await asyncio.sleep(60)
            raise Retryable("no reply", kind="timeout")
        await asyncio.sleep(min(latency, 60))
        return Reply("ok", cost_usd=1.0)


async def run(calls: int, concurrency: int, server: Server, hedged: bool) -> tuple[list[float], float]:
    loop = asyncio.get_running_loop()
    hedger = Hedger(loop.time)
    ask = hedge(server.ask, lambda _: hedger if hedged else None)
    places = asyncio.Semaphore(concurrency)
    ended: list[float] = []
    cost = 0.0

    async def one() -> None:
        nonlocal cost
        async with places:
            while True:
                try:
                    reply = await ask(ASKED)
                    cost += reply.cost_usd or 0.0
                    break
                except Retryable:
                    continue
        ended.append(loop.time())

    await asyncio.gather(*(one() for _ in range(calls)))
    return sorted(ended), cost


def test_the_last_of_many_calls_ends_soon_after_the_others_for_two_percent_more() -> None:
    server = Server()
    ended, cost = in_virtual_time(run(6_000, 128, server, hedged=True))
    assert ended[-1] <= 1.15 * ended[int(0.99 * len(ended))]
    assert server.calls <= (1 + MOST_EXTRA + 0.012) * 6_000  # and the calls that hung and were retried
    assert 6_000 < cost <= 6_000 * (1 + MOST_EXTRA)


def test_without_it_nothing_is_sent_twice() -> None:
    server = Server(hangs=0.0)
    in_virtual_time(run(500, 64, server, hedged=False))
    assert server.calls == 500


def test_the_first_answer_counts_and_both_are_paid_for() -> None:
    hedger = Hedger()
    hedger._threshold, hedger.sent = 0.0, 80
    times = iter([30.0, 0.1])

    async def ask(_: Request) -> Reply:
        seconds = next(times)
        await asyncio.sleep(seconds)
        return Reply(f"after {seconds:g}", cost_usd=0.5)

    reply = in_virtual_time(hedge(ask, lambda _: hedger)(ASKED))
    assert (reply.text, reply.cost_usd) == ("after 0.1", 1.0)


def test_a_failure_of_one_request_is_no_failure_of_the_call() -> None:
    hedger = Hedger()
    hedger._threshold, hedger.sent = 0.0, 80
    outcomes: Any = iter([(5.0, Reply("good")), (0.1, Retryable("no", kind="timeout"))])

    async def ask(_: Request) -> Reply:
        seconds, outcome = next(outcomes)
        await asyncio.sleep(seconds)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    assert in_virtual_time(hedge(ask, lambda _: hedger)(ASKED)).text == "good"


def test_a_call_that_fails_fails_as_it_did() -> None:
    async def ask(_: Request) -> Reply:
        raise Retryable("no", kind="timeout")

    with pytest.raises(Retryable, match="no"):
        in_virtual_time(hedge(ask, lambda _: Hedger())(ASKED))


def test_only_the_longest_waiting_call_is_sent_again() -> None:
    now = 0.0
    hedger = Hedger(lambda: now)
    hedger.sent = 1000
    older = hedger.start()
    now = 1.0
    newer = hedger.start()
    hedger._threshold = 2.0
    now = 10.0
    assert not hedger.may_hedge(newer)
    assert hedger.may_hedge(older)
    assert hedger.may_hedge(newer)
