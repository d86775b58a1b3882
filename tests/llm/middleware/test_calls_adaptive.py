from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import Retryable
from verdict_cli.llm.middleware.concurrency import AdaptiveConcurrency
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.messages import Allowance, Message, Reply, Request, Row
from verdict_cli.model import Model


def request(number: int = 0, name: str = "openai/m", **settings: Any) -> Request:
    model = Model(name=name, api_base="http://127.0.0.1:1/v1", **settings)
    return Request(Row(number, number, {}), "judge", model, (Message("user", ""),))


class Endpoint:
    """Answers at most ``most`` calls at once and refuses the others."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.here = self.refusals = self.answers = 0

    async def ask(self, request: Request) -> Reply:
        if self.here >= self.most:
            self.refusals += 1
            raise Retryable("too many", kind="rate-limit", status=429)
        self.here += 1
        try:
            for _ in range(4):
                await asyncio.sleep(0)
            self.answers += 1
            return Reply("")
        finally:
            self.here -= 1


def test_an_endpoint_that_takes_few_calls_at_once_is_found_and_then_rarely_overrun() -> None:
    endpoint = Endpoint(10)
    gates = RateLimiters(100)
    ask = rate_limited(endpoint.ask, gates)

    async def insist(one: Request) -> None:
        while True:
            try:
                await ask(one)
                return
            except Retryable:
                await asyncio.sleep(0)

    async def run() -> None:
        await asyncio.gather(*(insist(request(n)) for n in range(2000)))

    asyncio.run(run())
    assert endpoint.answers == 2000
    assert endpoint.refusals < 200  # without learning: tens of thousands
    assert (gates.waiting, gates.running) == (0, 0)


def test_units_and_models_of_one_endpoint_and_key_share_its_places() -> None:
    gates = RateLimiters(10)
    one, other, elsewhere = (
        gates.get(model)
        for model in (
            request().model,
            request(name="openai/n", temperature=1).model,
            request().model.model_copy(update={"api_base": "http://127.0.0.1:2/v1"}),
        )
    )
    assert one is not None and other is not None and elsewhere is not None
    assert one is not other and one.endpoint is other.endpoint
    assert one.endpoint is not elsewhere.endpoint


def test_a_few_refusals_at_random_do_not_starve_the_run() -> None:
    adaptive = AdaptiveConcurrency(100)
    adaptive.in_flight = adaptive.acquired = 100
    for number in range(2000):
        adaptive.record_rejection() if number % 30 == 0 else adaptive.record_success()
    assert adaptive.capacity is None or adaptive.capacity > 80


def test_it_never_falls_below_one_place() -> None:
    adaptive = AdaptiveConcurrency(100)
    adaptive.in_flight = 3
    for _ in range(200):
        adaptive.record_rejection()
    assert adaptive.capacity == 1


@settings(deadline=None, max_examples=80)
@given(doomed=st.sets(st.integers(0, 29)), turns=st.integers(0, 8), most=st.integers(1, 5))
def test_cancelled_calls_leave_no_place_taken(doomed: set[int], turns: int, most: int) -> None:
    async def scene() -> None:
        endpoint = Endpoint(99)
        gates = RateLimiters(8)
        ask = rate_limited(endpoint.ask, gates)
        gate = gates.get(request().model)
        assert gate is not None
        gate.endpoint.capacity = float(most)
        tasks = [asyncio.ensure_future(ask(request(n))) for n in range(30)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for number in doomed:
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (gate.endpoint.acquired, gate.endpoint.in_flight, gates.waiting, gates.running) == (0, 0, 0, 0)
        assert gate.endpoint.try_acquire()

    asyncio.run(scene())


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def test_what_the_headers_say_is_left_is_not_overrun() -> None:
    """A server that takes 5 calls in any 10 seconds and says so is never asked a call too many."""
    time = Time()
    sent: list[float] = []

    async def server(_: Request) -> Reply:
        sent.append(time.now)
        window = int(time.now // 10)
        used = sum(int(at // 10) == window for at in sent)
        await asyncio.sleep(0)
        return Reply("", allowance=Allowance(5, 5 - used, 10 - time.now % 10))

    ask = rate_limited(server, RateLimiters(clock=time.clock, sleep=time.sleep))

    async def run() -> None:
        await ask(request())
        await asyncio.gather(*(ask(request(n)) for n in range(22)))

    asyncio.run(run())
    windows = [sum(int(at // 10) == window for at in sent) for window in range(6)]
    assert sum(windows) == 23
    assert max(windows) <= 5


def test_a_days_quota_is_not_waited_for() -> None:
    time = Time()

    async def server(_: Request) -> Reply:
        return Reply("", allowance=Allowance(1000, 0, 7 * 3600.0))

    ask = rate_limited(server, RateLimiters(clock=time.clock, sleep=time.sleep))

    async def run() -> None:
        for number in range(3):
            await ask(request(number))

    asyncio.run(run())
    assert time.now == 0
