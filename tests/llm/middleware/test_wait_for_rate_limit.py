from __future__ import annotations

import asyncio
import heapq
import sys
from collections.abc import Coroutine
from itertools import count
from pathlib import Path
from typing import Any

from paths import ROOT

from verdict_cli.errors import Retryable
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Allowance, Message, Reply, Request, Row
from verdict_cli.model import Model, RateLimit
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.observer import RunObserver


def request(number: int = 0, name: str = "openai/m", **settings: Any) -> Request:
    model = Model(name=name, api_base="http://127.0.0.1:1/v1", **settings)
    return Request(Row(number, number, {}), "judge", model, (Message("user", ""),))


class Time:
    """A clock that moves to the end of the next sleep when nothing else can happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self.numbers = count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleepers, (self.now + seconds, next(self.numbers), future))
        await future

    async def run(self, calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        together = asyncio.gather(*calls, return_exceptions=True)
        while not together.done():
            for _ in range(12):
                await asyncio.sleep(0)
            while self.sleepers and self.sleepers[0][2].done():
                heapq.heappop(self.sleepers)
            if self.sleepers:
                self.now, _, future = heapq.heappop(self.sleepers)
                future.set_result(None)
        return together.result()


class Endpoint:
    """Answers at most ``most`` calls at once, each in a second, and refuses the others, and all of them until ``opens``."""

    def __init__(
        self, time: Time, most: int = 99, opens: float = 0.0, delay_s: float | None = None
    ) -> None:
        self.time, self.most, self.opens, self.delay_s = time, most, opens, delay_s
        self.here = self.refusals = self.answers = 0

    async def ask(self, request: Request) -> Reply:
        await self.time.sleep(0.02)
        if self.here >= self.most or self.time.now < self.opens:
            self.refusals += 1
            raise Retryable("too many", kind="rate-limit", status=429, retry_after_s=self.delay_s)
        self.here += 1
        try:
            await self.time.sleep(1.0)
            self.answers += 1
            return Reply("")
        finally:
            self.here -= 1


def judge_at(endpoint: Endpoint, calls: int, concurrency: int = 64, **settings: Any) -> list[Any]:
    limiters = RateLimiters(concurrency, clock=endpoint.time.clock, sleep=endpoint.time.sleep)
    ask = rate_limited(endpoint.ask, limiters)

    async def run() -> list[Any]:
        return await endpoint.time.run([ask(request(n, **settings)) for n in range(calls)])  # type: ignore[misc]

    replies = asyncio.run(run())
    assert (limiters.waiting, limiters.running) == (0, 0)
    return replies


def test_an_endpoint_that_takes_few_calls_at_once_loses_none_and_is_used():
    endpoint = Endpoint(Time(), most=10)
    assert all(isinstance(reply, Reply) for reply in judge_at(endpoint, 600, 100, retries=0))
    assert endpoint.answers == 600
    assert endpoint.time.now < 60 / 0.85
    assert endpoint.refusals < 250


def test_a_rate_limit_is_waited_for_whatever_the_retries():
    endpoint = Endpoint(Time(), opens=300.0)
    assert all(isinstance(reply, Reply) for reply in judge_at(endpoint, 50, retries=0))
    assert endpoint.time.now < 320


def test_a_stated_delay_holds_for_all_calls_of_the_model():
    endpoint = Endpoint(Time(), opens=34.0, delay_s=34.0)
    assert all(isinstance(reply, Reply) for reply in judge_at(endpoint, 20, 5))
    assert endpoint.refusals == 5


def test_a_call_fails_where_the_rate_limit_does_not_accept_it_within_max_wait():
    endpoint = Endpoint(Time(), opens=1e9)
    (error,) = judge_at(endpoint, 1, max_wait=60)
    assert isinstance(error, Retryable) and error.waited
    assert "max_wait (60 s)" in error.message
    assert 60 <= endpoint.time.now < 65


def test_a_stated_delay_beyond_max_wait_fails_at_once():
    endpoint = Endpoint(Time(), opens=1e9, delay_s=3600)
    (error,) = judge_at(endpoint, 1)
    assert isinstance(error, Retryable) and error.waited
    assert "3600 s, later than max_wait (900 s)" in error.message
    assert endpoint.time.now < 1


def test_a_recorded_rate_limit_fails_at_once():
    endpoint = Endpoint(Time(), opens=300.0)
    (error,) = judge_at(endpoint, 1, name="replay/calls.jsonl")
    assert isinstance(error, Retryable) and not error.waited
    assert (error.message, endpoint.refusals) == ("too many", 1)


def test_models_of_one_endpoint_and_key_share_a_limiter_by_name():
    limiters = RateLimiters(10)
    limiter = limiters.get(request().model)
    assert limiter is limiters.get(request(temperature=1).model)
    assert limiter is not limiters.get(request(name="openai/n").model)


class ShortTime:
    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def test_what_the_headers_say_is_left_is_not_overrun():
    """A server that has 5 calls at most, and one more every two seconds, is never asked a call too many."""
    time = ShortTime()
    sent: list[float] = []
    level, at = 5.0, 0.0

    async def server(_: Request) -> Reply:
        nonlocal level, at
        level, at = min(5.0, level + (time.now - at) / 2) - 1, time.now
        assert level > -1e-6
        sent.append(time.now)
        remaining = int(level + 1e-6)
        await asyncio.sleep(0)
        return Reply("", allowance=Allowance(5, remaining, 2 * (5 - remaining)))

    ask = rate_limited(server, RateLimiters(clock=time.clock, sleep=time.sleep))

    async def run() -> None:
        await ask(request())
        await asyncio.gather(*(ask(request(n)) for n in range(22)))

    asyncio.run(run())
    assert len(sent) == 23
    assert time.now <= 2 * (23 - 5) + 2


def test_a_days_quota_is_not_waited_for():
    time = ShortTime()

    async def server(_: Request) -> Reply:
        return Reply("", allowance=Allowance(1000, 0, 7 * 3600.0))

    ask = rate_limited(server, RateLimiters(clock=time.clock, sleep=time.sleep))

    async def run() -> None:
        for number in range(3):
            await ask(request(number))

    asyncio.run(run())
    assert time.now == 0


def test_no_row_is_lost_to_a_server_that_limits_requests_and_states_no_delay(tmp_path, monkeypatch):
    """A real server: 600 requests a minute in bursts of at most 10, 429 without headers; the command's defaults."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    sys.modules.pop("rate_limit", None)
    from rate_limit import LimitedServer, judge

    server = LimitedServer(600, burst_s=1.0, median_s=0.05, p99_s=0.1)
    code, output = asyncio.run(judge(server, 60, tmp_path))
    assert code == 0, output
    assert len(server.answered) == 60
    assert server.refused > 0


def test_a_replayed_rate_limit_is_not_waited_for(tmp_path):
    recording = tmp_path / "calls.jsonl"
    recording.write_text(
        '{"row": 0, "unit": "judge", "failure": "rate-limit", "error": "too many"}\n'
    )
    (error,) = asyncio.run(replayed(recording, request(0)))
    assert isinstance(error, Retryable) and error.message == "too many"


def test_a_model_s_rate_limit_does_not_hold_for_replayed_calls(tmp_path):
    recording = tmp_path / "calls.jsonl"
    recording.write_text(
        "".join(f'{{"row": {row}, "unit": "judge", "reply": "4"}}\n' for row in range(3))
    )
    limit = RateLimit(requests_per_minute=1)
    calls = [request(row, rate_limit=limit) for row in range(3)]
    replies = asyncio.run(replayed(recording, *calls))
    assert [reply.text for reply in replies] == ["4"] * 3


async def replayed(path: Path, *requests: Request) -> list[Any]:
    """What a recording answers within three seconds."""
    client = ModelClient.open(recording=Recording.load(path))
    ask = client.chain(RunObserver()).ask
    try:
        calls = asyncio.gather(*map(ask, requests), return_exceptions=True)
        return await asyncio.wait_for(calls, 3)
    finally:
        await client.close()
