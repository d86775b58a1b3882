from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import Rejected, Retryable
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.messages import Message, Reply, Request, Row, Usage
from verdict_cli.model import Model, RateLimit


def request(number: int = 0, model: str = "m", text: str = "", **limit: int) -> Request:
    rate_limit = RateLimit(**limit) if limit else None  # type: ignore[arg-type]
    return Request(
        Row(number, number, {}),
        "judge",
        Model(name=model, rate_limit=rate_limit),
        (Message("user", text),),
    )


class Time:
    """A clock that moves only while somebody sleeps, which takes some turns of the loop."""

    def __init__(self, turns: int = 1) -> None:
        self.now = 0.0
        self.turns = turns

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(self.turns):
            await asyncio.sleep(0)
        self.now = max(self.now, until)


class Server:
    """Answers after some turns of the loop, and remembers who came when and how many were there at once."""

    def __init__(self, time: Time | None = None, turns: int = 3) -> None:
        self.time = time or Time()
        self.turns = turns
        self.order: list[int] = []
        self.times: list[float] = []
        self.here = self.most = 0
        self.usage = Usage()

    async def ask(self, request: Request) -> Reply:
        self.order.append(request.row.index)
        self.times.append(self.time.now)
        self.here += 1
        self.most = max(self.most, self.here)
        try:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            return Reply("", usage=self.usage)
        finally:
            self.here -= 1


def together(ask: Callable[[Request], Awaitable[Reply]], requests: list[Request]) -> list[Any]:
    async def run() -> list[Any]:
        return await asyncio.gather(*(ask(sent) for sent in requests), return_exceptions=True)

    return asyncio.run(run())


def test_without_limits_everything_runs_at_once_after_the_first_reply():
    server = Server()
    gates = RateLimiters()
    ask = rate_limited(server.ask, gates)

    async def run() -> None:
        await ask(request())
        await asyncio.gather(*(ask(request(n)) for n in range(50)))

    asyncio.run(run())
    assert server.most == 50
    assert (gates.waiting, gates.running) == (0, 0)


def test_the_runs_limit_holds_for_all_models_together_in_order():
    server = Server()
    together(
        rate_limited(server.ask, RateLimiters(3)), [request(n, f"m{n % 2}") for n in range(20)]
    )
    assert server.most == 3
    assert server.order == list(range(20))


def test_a_models_limit_holds_for_that_model_alone():
    slow, fast = Server(), Server()

    async def ask(sent: Request) -> Reply:
        return await (slow if sent.model.name == "slow" else fast).ask(sent)

    calls = [request(n, "slow", concurrent=2) for n in range(10)] + [
        request(n, "fast") for n in range(10)
    ]
    together(rate_limited(ask, RateLimiters()), calls)
    assert (slow.most, fast.most) == (2, 10)


def test_requests_a_minute_are_sent_in_order_and_in_time():
    time = Time()
    server = Server(time)
    gates = RateLimiters(clock=time.clock, sleep=time.sleep)
    together(rate_limited(server.ask, gates), [request(n, requests_per_minute=3) for n in range(8)])
    assert server.order == list(range(8))
    assert server.times == pytest.approx([20 * n for n in range(8)])


def test_tokens_a_minute_count_the_prompt_and_the_reply():
    time = Time()
    server = Server(time)
    gates = RateLimiters(clock=time.clock, sleep=time.sleep)
    calls = [request(n, text="x" * 400, tokens_per_minute=800) for n in range(4)]  # 100 + 256 each
    together(rate_limited(server.ask, gates), calls)
    assert server.times == pytest.approx([0, 26.7, 53.4, 80.1])  # 356 tokens at 800 a minute


def test_unused_tokens_are_returned():
    time = Time()
    server = Server(time)
    server.usage = Usage(20, 1)
    ask = rate_limited(server.ask, RateLimiters(clock=time.clock, sleep=time.sleep))

    async def run() -> None:
        for n in range(5):
            await ask(request(n, tokens_per_minute=400))

    asyncio.run(run())
    assert server.times[-1] == pytest.approx(
        (5 * 21 - 21) / 400 * 60, abs=1
    )  # the estimates alone: 154 s


def test_a_call_larger_than_the_window_is_rejected_at_once():
    ask = rate_limited(Server().ask, RateLimiters())
    (problem,) = together(ask, [request(text="x" * 8000, tokens_per_minute=1000)])
    assert isinstance(problem, Rejected)
    assert "2256 tokens" in problem.message and "tokens_per_minute (1000)" in problem.message


def test_a_call_larger_than_the_window_is_rejected_while_the_model_is_busy():
    async def stalled(_: Request) -> Reply:
        return await asyncio.get_running_loop().create_future()

    async def scene() -> None:
        ask = rate_limited(stalled, RateLimiters())
        limit = {"tokens_per_minute": 1000, "concurrent": 1}
        waiting = asyncio.ensure_future(ask(request(0, **limit)))
        await asyncio.sleep(0)
        with pytest.raises(Rejected, match="2256 tokens"):
            await asyncio.wait_for(ask(request(1, text="x" * 8000, **limit)), 2)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(scene())


def test_who_waits_for_his_minute_holds_no_place_of_the_run():
    time = Time(turns=100)
    server = Server(time)
    gates = RateLimiters(1, clock=time.clock, sleep=time.sleep)
    calls = [request(n, "limited", requests_per_minute=1) for n in range(2)]
    calls += [request(n, "free") for n in range(2, 6)]
    together(rate_limited(server.ask, gates), calls)
    assert server.most == 1
    assert server.order[-1] == 1
    assert server.times == pytest.approx([0, 0, 0, 0, 0, 60])


def test_presets_of_one_model_share_its_limit():
    server = Server()
    calls = [request(n, concurrent=1) for n in range(4)]
    calls = [
        replace(call_, model=call_.model.model_copy(update={"temperature": n}))
        for n, call_ in enumerate(calls)
    ]
    together(rate_limited(server.ask, RateLimiters()), calls)
    assert server.most == 1


def test_waiting_and_running_are_counted():
    counts: list[tuple[int, int]] = []
    gates = RateLimiters(2)

    async def ask(_: Request) -> Reply:
        await asyncio.sleep(0)
        counts.append((gates.waiting, gates.running))
        return Reply("")

    together(rate_limited(ask, gates), [request(n) for n in range(5)])
    assert counts[0] == (3, 2)
    assert (gates.waiting, gates.running) == (0, 0)


@pytest.mark.parametrize(
    "limit",
    [
        {},
        {"concurrent": 2},
        {"requests_per_minute": 150},
        {"tokens_per_minute": 100_000, "concurrent": 2},
    ],
)
def test_failures_leave_no_place_taken(limit):
    async def ask(_: Request) -> Reply:
        await asyncio.sleep(0)
        raise Retryable("gone")

    gates = RateLimiters(2)
    outcomes = together(rate_limited(ask, gates), [request(n, **limit) for n in range(9)])
    assert all(isinstance(outcome, Retryable) for outcome in outcomes)
    assert (gates.waiting, gates.running) == (0, 0)


@settings(deadline=None, max_examples=60)
@given(
    doomed=st.sets(st.integers(0, 19)),
    turns=st.integers(0, 12),
    run=st.none() | st.integers(1, 4),
    limit=st.sampled_from(
        [
            {},
            {"concurrent": 2},
            {"requests_per_minute": 4},
            {"concurrent": 1, "tokens_per_minute": 900},
        ]
    ),
)
def test_cancelled_calls_leave_no_place_taken(doomed, turns, run, limit):
    time = Time()
    server = Server(time)
    gates = RateLimiters(run, clock=time.clock, sleep=time.sleep)
    ask = rate_limited(server.ask, gates)

    async def scene() -> None:
        tasks = [asyncio.ensure_future(ask(request(n, **limit))) for n in range(20)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for n in doomed:
            tasks[n].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, Reply | asyncio.CancelledError) for outcome in outcomes)
        assert (gates.waiting, gates.running, server.here) == (0, 0, 0)
        server.most = 0
        await asyncio.gather(*(ask(request(n, **limit)) for n in range(8)))
        allowed = min(run or 8, limit.get("concurrent", 8))
        assert server.most <= allowed
        if set(limit) <= {"concurrent"}:
            assert server.most == allowed  # none was lost

    asyncio.run(scene())
