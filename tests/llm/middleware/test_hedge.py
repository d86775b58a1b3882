"""Hedged calls, in virtual time."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import pytest
from msgspec.structs import replace
from virtual_time import run_in_virtual_time

from verdict_cli.errors import BudgetError, Rejected, Retryable, VerdictError
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.chain import JournalOptions, StopSignal, build_chain
from verdict_cli.llm.middleware.hedge import MAX_EXTRA
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Ask, Message, Reply, Request, Row, Usage
from verdict_cli.model import Cost, Model, RateLimit
from verdict_cli.storage.journal.entry import JournalEntry

HEDGED = Model(name="openai/m", api_base="http://127.0.0.1:1/v1", hedge="auto", timeout=60)
DOLLAR = HEDGED.model_copy(update={"cost": Cost(input_per_million=0, output_per_million=1e6), "max_tokens": 1})
PAID = Reply("easy", usage=Usage(10, 1), cost_usd=1.0)


def about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=1e-3)


def request(number: int, model: Model = HEDGED) -> Request:
    return Request(Row(number, number, {}), "judge", model, (Message("user", "Rate"),))


class Journal:
    """Remembers the last call."""

    last: JournalEntry | None = None

    def recall(self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "") -> None:
        return None

    def append(self, entry: JournalEntry) -> None:
        self.last = entry


class Path:
    """All middleware around a provider, as in a run."""

    def __init__(self, provider: Ask, concurrency: int, budget_usd: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.limiters = RateLimiters(concurrency, clock=loop.time)
        self.spending = Spending(budget_usd)
        self.stopped: list[VerdictError] = []
        self.journal = Journal()
        self.ask = build_chain(
            provider,
            lambda ask: rate_limited(ask, self.limiters),
            self.spending,
            PrefixLeaders(),
            spans=Spans(),
            stop=StopSignal(lambda: bool(self.stopped), self.stopped.append),
            store=None,
            recorded=False,
            journal=JournalOptions(self.journal, False, False, lambda _: False, lambda: None),
        ).ask


async def answers(path: Path, calls: int, rows: int = 128, model: Model = HEDGED) -> tuple[list[Any], list[float]]:
    """The outcomes of so many calls, of which a run makes ``rows`` at once, and the times at which they were known."""
    outcomes: list[Any] = []
    ended: list[float] = []
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            try:
                outcomes.append(await path.ask(request(number, model)))
            except VerdictError as error:
                outcomes.append(error)
            ended.append(asyncio.get_running_loop().time())

    await asyncio.gather(*(work() for _ in range(rows)))
    return outcomes, ended


class SlowTail:
    """Latency with a median of 1 s and a 99th percentile of 10 s; one request in a hundred hangs until its timeout."""

    def __init__(self, hangs: float = 0.01, seed: int = 3) -> None:
        self.random = random.Random(seed)
        self.hangs = hangs
        self.requests = self.here = self.most = 0

    async def ask(self, request: Request) -> Reply:
        self.requests += 1
        self.here += 1
        self.most = max(self.most, self.here)
        latency = math.exp(math.log(10) / 2.326 * self.random.gauss(0, 1))
        hangs = self.random.random() < self.hangs
        try:
            await asyncio.sleep(request.model.timeout if hangs else min(latency, request.model.timeout))
        finally:
            self.here -= 1
        if hangs:
            raise Retryable("no reply", kind="timeout")
        return Reply("4", usage=Usage(10, 1), cost_usd=1.0)


class Scripted:
    """Answers the first 100 calls in a second, and then as the script says: seconds and what follows."""

    def __init__(self, *script: tuple[float, Any]) -> None:
        self.script = list(script)
        self.requests = self.cancelled = 0

    async def ask(self, _: Request) -> Reply:
        self.requests += 1
        seconds, outcome = (1.0, PAID) if self.requests <= 100 else self.script.pop(0)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def last_call(*script: tuple[float, Any], model: Model = HEDGED, budget_usd: float | None = None) -> Any:
    """The outcome of a call behind a hundred of a second each; the server; the path; the seconds that it took."""

    async def scene() -> Any:
        server = Scripted(*script)
        path = Path(server.ask, 200, budget_usd)
        await answers(path, 100, 100, model)
        before = asyncio.get_running_loop().time()
        ((outcome,), (ended,)) = await answers(path, 1, 1, model)
        await asyncio.sleep(100)
        assert (path.limiters.waiting, path.limiters.running) == (0, 0)
        assert (path.spending.in_flight, path.spending.reserved_usd) == (0, 0)
        return outcome, server, path, ended - before

    return run_in_virtual_time(scene())


@pytest.mark.parametrize("seed", [1])
def test_twenty_thousand_calls_end_soon_after_99_percent_of_them_for_two_percent_more(seed: int) -> None:
    async def scene() -> tuple[SlowTail, list[Any], list[float], Path]:
        server = SlowTail(seed=seed)
        path = Path(server.ask, 128)
        return server, *(await answers(path, 20_000)), path

    server, replies, ended, path = run_in_virtual_time(scene())
    assert ended[-1] <= 1.15 * ended[int(0.99 * len(ended))]
    assert 0 < server.requests - len(ended) <= MAX_EXTRA * 20_000
    assert server.most <= 128
    assert path.spending.spent_usd == sum(reply.cost_usd for reply in replies)
    assert 20_000 < path.spending.spent_usd <= 20_000 * (1 + MAX_EXTRA)


def test_a_model_does_not_hedge_by_default() -> None:
    reply, server, _, seconds = last_call(
        (30.0, PAID), model=HEDGED.model_copy(update={"hedge": Model(name="m").hedge})
    )
    assert (reply.text, server.requests, seconds) == ("easy", 101, about(30.0))


def test_the_first_reply_counts_and_both_requests_are_paid_for() -> None:
    slow, fast = (replace(PAID, text=text) for text in ("slow", "fast"))
    reply, server, path, seconds = last_call((30.0, slow), (0.5, fast))
    assert (reply.text, reply.cost_usd, reply.usage, reply.latency_s) == ("fast", 2.0, Usage(20, 2), about(1.5))
    assert (server.requests, server.cancelled, seconds) == (102, 1, about(1.5))
    assert path.spending.spent_usd == 102
    assert path.journal.last is not None and path.journal.last.reply == reply


def test_the_second_request_is_cancelled_where_the_first_one_is_answered() -> None:
    reply, server, path, seconds = last_call((2.0, replace(PAID, text="slow")), (30.0, PAID))
    assert (reply.text, reply.cost_usd, seconds) == ("slow", 2.0, about(2.0))
    assert (server.requests, server.cancelled, path.spending.spent_usd) == (102, 1, 102)


def test_a_second_request_that_hangs_gets_a_third() -> None:
    reply, server, _, seconds = last_call((30.0, PAID), (30.0, PAID), (0.5, PAID))
    assert (reply.cost_usd, server.requests, seconds) == (3.0, 103, about(2.5))


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failed_request_is_no_failure_of_the_call_while_another_is_in_flight(failing: int) -> None:
    script = [(5.0, Retryable("no", kind="timeout")), (9.0, PAID)]
    script[1] = (9.0, PAID) if not failing else (1.0, Retryable("no", kind="timeout"))
    script[0] = script[0] if not failing else (9.0, PAID)
    reply, *_ = last_call(*script, (9.0, Retryable("no", kind="timeout")))
    assert isinstance(reply, Reply)
    assert reply.cost_usd in (1.0, 2.0)


def test_a_call_whose_requests_all_fail_has_the_error_of_the_first() -> None:
    errors = [Retryable(text, kind="timeout") for text in "abc"]
    error, server, *_ = last_call((3.0, errors[0]), (4.0, errors[1]), (4.0, errors[2]))
    assert error is errors[0]
    assert server.requests == 103


def test_an_error_that_no_retry_helps_ends_the_other_requests() -> None:
    error, server, path, seconds = last_call((30.0, PAID), (0.5, Rejected("no")))
    assert isinstance(error, Rejected) and seconds == about(1.5)
    assert (server.cancelled, path.spending.spent_usd) == (1, 100)


def test_a_second_request_that_the_budget_has_no_room_for_is_not_sent_and_stops_nothing() -> None:
    paid = Retryable("unreadable", kind="unavailable")
    paid.reply = PAID
    for outcome, budget_usd in ((PAID, 101.0), (PAID, 101.5), (paid, 101.0)):
        result, server, path, _ = last_call((5.0, outcome), model=DOLLAR, budget_usd=budget_usd)
        assert result == outcome
        assert (server.requests, path.spending.spent_usd, path.stopped) == (101, 101.0, [])


def test_a_hedged_run_keeps_its_budget() -> None:
    async def scene() -> Path:
        path = Path(SlowTail().ask, 128, 3000.0)
        outcomes, _ = await answers(path, 6000, model=DOLLAR)
        assert any(isinstance(outcome, BudgetError) for outcome in outcomes)
        return path

    assert 2990 < run_in_virtual_time(scene()).spending.spent_usd <= 3001


@pytest.mark.parametrize("hedge", ["off", "auto"])
@pytest.mark.parametrize("budget_usd", [0.1, 1.0])
def test_128_calls_at_once_exceed_a_budget_by_one_call_at_most(hedge: str, budget_usd: float) -> None:
    cents = Cost(input_per_million=0, output_per_million=1500)
    model = HEDGED.model_copy(update={"hedge": hedge, "cost": cents, "max_tokens": 1})

    async def scene() -> float:
        server = SlowTail()

        async def ask(asked: Request) -> Reply:
            return replace(await server.ask(asked), cost_usd=0.0015)

        path = Path(ask, 128, budget_usd)
        await answers(path, 2000, model=model)
        return path.spending.spent_usd

    assert 0.95 * budget_usd <= run_in_virtual_time(scene()) <= budget_usd + 0.0015


def test_a_cancelled_call_cancels_all_its_requests() -> None:
    async def scene() -> tuple[int, int]:
        server = Scripted((30.0, PAID), (30.0, PAID))
        path = Path(server.ask, 200)
        await answers(path, 100, 100)
        call = asyncio.ensure_future(path.ask(request(100)))
        await asyncio.sleep(1.5)
        assert path.limiters.running == 2
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(0)
        return server.cancelled, path.limiters.running

    assert run_in_virtual_time(scene()) == (2, 0)


def test_a_models_own_concurrency_holds_for_second_requests_too() -> None:
    async def scene() -> int:
        server = SlowTail()
        path = Path(server.ask, 128)
        await answers(path, 500, model=HEDGED.model_copy(update={"rate_limit": RateLimit(concurrent=20)}))
        return server.most

    assert run_in_virtual_time(scene()) == 20
