"""A simulated provider with a rate limit, and runs of calls to it in virtual time."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field

from virtual_time import run_in_virtual_time

from verdict_cli.errors import Retryable, VerdictError
from verdict_cli.llm.middleware.pacing_parts import Bucket
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.messages import Allowance, Message, Reply, Request, Row
from verdict_cli.model import Model

MODEL = Model(name="openai/m", api_base="http://127.0.0.1:1/v1", retries=0)
HALF_TRIP_S = 0.01


@dataclass
class Provider:
    """Refills ``per_minute`` continuously, or ``window_s`` seconds' worth at once, and takes ``at_once`` calls at a time.

    ``states``: it sends quota headers, with the reply if ``late``. ``tells``: refusals have a Retry-After, in whole seconds.
    It refuses everything for ``storm_s`` seconds from ``storm_at`` on, or the next ``storm_calls`` calls, and ``noise`` is the
    share of the calls that it refuses at random.
    """

    per_minute: float = 1e9
    burst_s: float = 5.0
    window_s: float = 0.0
    at_once: float = math.inf
    median_s: float = 0.5
    p99_s: float = 3.0
    states: bool = False
    late: bool = False
    tells: bool = False
    storm_at: float = math.inf
    storm_s: float = 0.0
    storm_calls: int = 0
    noise: float = 0.0
    seed: int = 7
    accepted: list[float] = field(default_factory=list)
    sent: int = 0
    here: int = 0
    served_s: float = 0.0
    served_until: float = 0.0
    storm_ended: float | None = None

    def __post_init__(self) -> None:
        self.rate = self.per_minute / 60
        self.most = max(1.0, self.rate * (self.window_s or self.burst_s))
        self.bucket = Bucket(self.rate, self.most)
        self.used_in_window, self.window = 0, 0
        self._served = self._changed_at = 0.0
        self.rng = random.Random(self.seed)

    @property
    def refused(self) -> float:
        """The share of the requests that were refused."""
        return 1 - len(self.accepted) / self.sent

    def used(self) -> float:
        """The least time in which the limit allows 99% of the calls, over the time it took."""
        calls = int(0.99 * len(self.accepted))
        return (calls - self.most) / self.rate / self.accepted[calls - 1]

    def used_at_once(self) -> float:
        """How many calls it served at a time, of those that it takes, until the last one was accepted."""
        return self.served_s / self.served_until / self.at_once

    def used_between(self, since: float, until: float) -> float:
        """The share of the limit that was used between two times."""
        return sum(since <= time < until for time in self.accepted) / self.rate / (until - since)

    def recovery_s(self, most_s: float = 30.0) -> float:
        """Seconds after the storm from which on every ten seconds have 90% of the limit; ``most_s`` where that is later."""
        assert self.storm_ended is not None
        late = [
            0.5 * n for n in range(int(2 * most_s)) if self._is_slow(self.storm_ended + 0.5 * n)
        ]
        return late[-1] + 0.5 if late else 0.0

    def _is_slow(self, since: float) -> bool:
        return self.used_between(since, since + 10.0) < 0.9 - 1e-9

    def _storms(self, now: float) -> bool:
        over = self.storm_at + self.storm_s
        if now < self.storm_at or (self.storm_calls <= 0 and now >= over):
            return False
        self.storm_calls -= 1
        self.storm_ended = max(now, over)
        return True

    def _admit(self, now: float) -> bool:
        if (
            self._storms(now)
            or self.here >= self.at_once
            or (self.noise and self.rng.random() < self.noise)
        ):
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
            remaining = max(0, int(self.most - self.used_in_window))
            return Allowance(int(self.most), remaining, self.window_s - now % self.window_s)
        remaining = int(self.most - self.bucket.wait_s(self.most, now) * self.rate)
        return Allowance(int(self.most), max(0, remaining), (self.most - remaining) / self.rate)

    def _delay_s(self, now: float) -> float | None:
        if not self.tells:
            return None
        storm_s = self.storm_at + self.storm_s - now if now >= self.storm_at else 0.0
        return float(
            math.ceil(max(1.0, storm_s, self.bucket.wait_s(1, now) if not self.window_s else 0.0))
        )

    def _count(self, more: int) -> None:
        """Count calls that are served, as long as others are still to be accepted."""
        now = asyncio.get_running_loop().time()
        if more > 0:
            self.served_s, self.served_until = (
                self._served + self.here * (now - self._changed_at),
                now,
            )
        self._served, self._changed_at = self._served + self.here * (now - self._changed_at), now
        self.here += more

    async def ask(self, _: Request) -> Reply:
        loop = asyncio.get_running_loop()
        self.sent += 1
        await asyncio.sleep(HALF_TRIP_S)
        admitted, allowance = self._admit(loop.time()), self._allowance(loop.time())
        if not admitted:
            delay_s = self._delay_s(loop.time())
            await asyncio.sleep(HALF_TRIP_S)
            refusal = Retryable("too many", kind="rate-limit", status=429, retry_after_s=delay_s)
            refusal.allowance = allowance
            raise refusal
        self.accepted.append(loop.time())
        self._count(1)
        sigma = math.log(self.p99_s / self.median_s) / 2.326
        await asyncio.sleep(self.median_s * math.exp(sigma * self.rng.gauss(0, 1)))
        self._count(-1)
        return Reply("", allowance=self._allowance(loop.time()) if self.late else allowance)


def judge(
    provider: Provider,
    rows: int,
    concurrency: int = 128,
    model: Model = MODEL,
    after_storm_s: float = math.inf,
) -> float:
    """Judge so many rows, of which none may fail, or until so long after the storm: the seconds that it took."""

    async def run() -> float:
        loop = asyncio.get_running_loop()
        ask = rate_limited(provider.ask, RateLimiters(concurrency, clock=loop.time))
        numbers = iter(range(rows))
        failed: list[VerdictError] = []

        async def work() -> None:
            for number in numbers:
                if (
                    provider.storm_ended is not None
                    and loop.time() > provider.storm_ended + after_storm_s
                ):
                    return
                try:
                    await ask(
                        Request(Row(number, number, {}), "judge", model, (Message("user", ""),))
                    )
                except VerdictError as error:
                    failed.append(error)

        await asyncio.gather(*(work() for _ in range(concurrency)))
        assert not failed
        return loop.time()

    return run_in_virtual_time(run())


STORMS = {
    "10 refusals": {"storm_calls": 10},
    "5 s": {"storm_s": 5.0},
    "128 refusals": {"storm_calls": 128},
}
"""Everything is refused: for so long, or so many calls."""


def recover(per_minute: float, storm: str, **more: object) -> Provider:
    """A provider with a storm 20 seconds after the start of a run, 45 seconds after the storm."""
    provider = Provider(per_minute, storm_at=20.0, **STORMS[storm], **more)  # type: ignore[arg-type]
    concurrency = max(
        64, int(4 * provider.rate * provider.median_s), 128 if per_minute > 120 else 0
    )
    judge(provider, 10**9, concurrency, after_storm_s=45.0)
    return provider
