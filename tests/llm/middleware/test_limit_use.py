"""How much of a provider's limit the calls of a run use, and how many are refused; in virtual time."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from virtual_time import run_in_virtual_time

from verdict_cli.errors import Retryable, VerdictError
from verdict_cli.llm.middleware.pacer import Bucket
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.messages import Allowance, Message, Reply, Request, Row
from verdict_cli.model import Model

MODEL = Model(name="openai/m", api_base="http://127.0.0.1:1/v1", retries=0)
HALF_TRIP_S = 0.01


@dataclass
class Provider:
    """Refills ``per_minute`` continuously, or ``window_s`` seconds' worth at once, and takes ``at_once`` calls at a time.

    ``states``: it sends quota headers, with the reply if ``late``. It refuses everything within ``storm``.
    """

    per_minute: float = 1e9
    burst_s: float = 5.0
    window_s: float = 0.0
    at_once: float = math.inf
    median_s: float = 0.5
    p99_s: float = 3.0
    states: bool = False
    late: bool = False
    storm: tuple[float, float] = (-1.0, -1.0)
    accepted: list[float] = field(default_factory=list)
    sent: int = 0
    here: int = 0

    def __post_init__(self) -> None:
        self.rate = self.per_minute / 60
        self.most = max(1.0, self.rate * (self.window_s or self.burst_s))
        self.bucket = Bucket(self.rate, self.most)
        self.used_in_window, self.window = 0, 0
        self.rng = random.Random(7)

    @property
    def refused(self) -> float:
        """The share of the requests that were refused."""
        return 1 - len(self.accepted) / self.sent

    def used(self) -> float:
        """The least time in which the limit allows 99% of the calls, over the time it took."""
        calls = int(0.99 * len(self.accepted))
        return (calls - self.most) / self.rate / self.accepted[calls - 1]

    def _admit(self, now: float) -> bool:
        if self.storm[0] <= now < self.storm[1] or self.here >= self.at_once:
            return False
        if not self.window_s:
            if self.bucket.wait_s(1, now) > 0:
                return False
            self.bucket.take(1, now)
            return True
        if int(now / self.window_s) > self.window:
            self.window, self.used_in_window = int(now / self.window_s), 0
        self.used_in_window += self.used_in_window < self.most + 1
        return self.used_in_window <= self.most

    def _allowance(self, now: float) -> Allowance | None:
        if not self.states:
            return None
        if self.window_s:
            left = max(0, int(self.most - self.used_in_window))
            return Allowance(int(self.most), left, self.window_s - now % self.window_s)
        left = int(self.most - self.bucket.wait_s(self.most, now) * self.rate)
        return Allowance(int(self.most), max(0, left), (self.most - left) / self.rate)

    async def ask(self, _: Request) -> Reply:
        loop = asyncio.get_running_loop()
        self.sent += 1
        await asyncio.sleep(HALF_TRIP_S)
        admitted, allowance = self._admit(loop.time()), self._allowance(loop.time())
        if not admitted:
            await asyncio.sleep(HALF_TRIP_S)
            refusal = Retryable("too many", kind="rate-limit", status=429)
            refusal.allowance = allowance
            raise refusal
        self.accepted.append(loop.time())
        self.here += 1
        sigma = math.log(self.p99_s / self.median_s) / 2.326
        await asyncio.sleep(self.median_s * math.exp(sigma * self.rng.gauss(0, 1)))
        self.here -= 1
        return Reply("", allowance=self._allowance(loop.time()) if self.late else allowance)


def judge(provider: Provider, rows: int, concurrency: int = 128, model: Model = MODEL) -> float:
    """Judge so many rows, of which none may fail: the seconds that it took."""

    async def run() -> float:
        loop = asyncio.get_running_loop()
        ask = rate_limited(provider.ask, RateLimiters(concurrency, clock=loop.time))
        numbers = iter(range(rows))
        failed: list[Any] = []

        async def work() -> None:
            for number in numbers:
                try:
                    await ask(Request(Row(number, number, {}), "judge", model, (Message("user", ""),)))
                except VerdictError as error:
                    failed.append(error)

        await asyncio.gather(*(work() for _ in range(concurrency)))
        assert not failed
        return loop.time()

    return run_in_virtual_time(run())


@pytest.mark.parametrize("median_s", [0.1, 0.5, 2.0])
def test_a_limit_in_headers_is_used_to_97_percent_with_2_percent_refused(median_s: float) -> None:
    provider = Provider(1200, median_s=median_s, p99_s=6 * median_s, states=True)
    judge(provider, 1500)
    assert provider.used() >= 0.97
    assert provider.refused <= 0.02


def test_headers_that_count_a_minutes_worth_are_used_as_well() -> None:
    provider = Provider(1200, burst_s=60, states=True)
    judge(provider, 3000)
    assert provider.used() >= 0.97
    assert provider.refused <= 0.02


@pytest.mark.parametrize("median_s", [0.1, 0.5])
def test_a_limit_that_allows_no_bursts_is_used_as_well(median_s: float) -> None:
    provider = Provider(1200, burst_s=1, median_s=median_s, p99_s=6 * median_s, states=True)
    judge(provider, 1500)
    assert provider.used() >= 0.97
    assert provider.sent - 1500 <= 128 - 20 + 5  # those sent before the first header


def test_headers_that_are_written_with_the_reply_lose_little() -> None:
    provider = Provider(1200, median_s=2.0, p99_s=6.0, states=True, late=True)
    judge(provider, 1500)
    assert provider.used() >= 0.9
    assert provider.refused <= 0.05


def test_headers_of_a_window_that_is_refilled_all_at_once_are_waited_for() -> None:
    provider = Provider(1200, window_s=10, states=True)
    judge(provider, 1500)
    assert provider.used() >= 0.9
    assert provider.refused <= 0.02


@pytest.mark.parametrize("median_s", [0.1, 0.5, 4.0])
def test_a_limit_that_is_not_stated_is_used_to_93_percent(median_s: float) -> None:
    provider = Provider(120, median_s=median_s, p99_s=3 * median_s)
    judge(provider, 250, 64)
    assert provider.used() >= 0.93


@pytest.mark.parametrize("median_s", [0.5, 2.0])
def test_after_128_refusals_in_a_row_the_limit_is_used_again_within_ten_seconds(median_s: float) -> None:
    provider = Provider(1200, median_s=median_s, p99_s=3 * median_s, storm=(20.0, 25.0))
    judge(provider, 1500)
    for since, until in ((25.0, 35.0), (25.0, 45.0)):
        assert sum(since <= at < until for at in provider.accepted) >= 0.9 * 20 * (until - since)


@pytest.mark.parametrize("latency", [(0.5, 3.0), (1.0, 1.001), (4.0, 12.0)])
@pytest.mark.parametrize("at_once", [3, 10, 40])
def test_a_limit_of_calls_at_once_is_found_and_used(at_once: int, latency: tuple[float, float]) -> None:
    median_s, p99_s = latency
    provider = Provider(at_once=at_once, median_s=median_s, p99_s=p99_s)
    seconds = judge(provider, 1500)
    mean_s = median_s * math.exp((math.log(p99_s / median_s) / 2.326) ** 2 / 2)
    assert 1500 * mean_s / at_once / seconds >= 0.85
    assert provider.sent - 1500 <= 128 + 0.1 * 1500  # those sent before the first refusal, and probes
