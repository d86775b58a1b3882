"""The pacer against simulated providers: token buckets that refuse what exceeds them."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

import pytest

from verdict_cli.llm.middleware.pacing import Pacer
from verdict_cli.llm.middleware.pacing_parts import Bucket, LearnedConcurrency, Meter, SentCall
from verdict_cli.model import RateLimit

ROUND_TRIP_S = 0.02


@dataclass
class Provider:
    """Refills ``per_minute`` continuously, and holds ``burst_s`` seconds of that; refuses all within ``storm``."""

    per_minute: float
    burst_s: float = 5.0
    median_s: float = 0.5
    p99_s: float = 3.0
    tells: bool = False
    storm: tuple[float, float] = (-1.0, -1.0)
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.per_minute / 60, max(1.0, self.per_minute / 60 * self.burst_s))

    def call(self, now: float) -> tuple[bool, float, float | None]:
        """Whether the call is accepted, after how long it comes back, and in how long to return."""
        wait = self.bucket.wait_s(1, now)
        if wait > 0 or self.storm[0] <= now < self.storm[1]:
            return False, ROUND_TRIP_S, wait if self.tells else None
        self.bucket.take(1, now)
        sigma = math.log(self.p99_s / self.median_s) / 2.326
        return True, self.median_s * math.exp(sigma * self.rng.gauss(0, 1)), None


@dataclass
class Outcome:
    answered: list[float]
    refused: int
    sent: int

    def utilization(self, provider: Provider) -> float:
        """The least time in which the provider answers 99% of the calls, over the time it took."""
        calls = int(0.99 * len(self.answered))
        rate = provider.per_minute / 60
        return (calls - rate * provider.burst_s) / rate / self.answered[calls - 1]


def simulate(provider: Provider, pacer: Pacer, calls: int, concurrency: int = 64) -> Outcome:
    """Makes the calls, each as often as it is refused."""
    now, waiting, flying, order = 0.0, calls, 0, 0
    coming: list[tuple[float, int, bool, SentCall, float | None]] = []
    outcome = Outcome([], 0, 0)
    while len(outcome.answered) < calls:
        while (
            waiting
            and flying < min(concurrency, pacer.most_at_once)
            and pacer.wait_s(300, now) <= 1e-9
        ):
            call = pacer.send(300, now, flying)
            accepted, after, hint = provider.call(now)
            waiting, flying, order = waiting - 1, flying + 1, order + 1
            heapq.heappush(coming, (now + after, order, accepted, call, hint))
        later = [coming[0][0]] if coming else []
        if waiting and flying < min(concurrency, pacer.most_at_once):
            later.append(now + max(1e-4, pacer.wait_s(300, now)))
        now = min(later)
        while coming and coming[0][0] <= now:
            _, _, accepted, call, hint = heapq.heappop(coming)
            flying -= 1
            if accepted:
                pacer.accept()
                outcome.answered.append(now)
            else:
                pacer.refuse(call, now, hint)
                waiting += 1
                outcome.refused += 1
    outcome.sent = order
    return outcome


@pytest.mark.parametrize("median_s", [0.1, 0.5, 4.0])
@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("burst_s", [1.0, 5.0])
def test_an_unknown_limit_is_used_to_93_percent_or_90_where_two_calls_are_a_burst(
    median_s, tells, burst_s
):
    provider = Provider(120, burst_s, median_s, 3 * median_s, tells)
    assert simulate(provider, Pacer(), 250).utilization(provider) >= (0.93 if burst_s > 1 else 0.9)


@pytest.mark.parametrize("per_minute", [120, 1200])
def test_a_configured_limit_has_hardly_a_refusal_and_is_no_slower_than_none(
    per_minute,
):
    configured, none = Provider(per_minute), Provider(per_minute)
    paced = simulate(
        configured, Pacer(RateLimit(requests_per_minute=per_minute)), 2 * per_minute, 128
    )
    learned = simulate(none, Pacer(), 2 * per_minute, 128)
    assert paced.refused <= 0.02 * paced.sent
    assert paced.answered[-1] <= 1.05 * learned.answered[-1]


def test_after_a_storm_of_refusals_the_rate_is_back_within_ten_seconds():
    provider = Provider(1200, storm=(20.0, 25.0))
    answered = simulate(provider, Pacer(), 1500, 128).answered
    recovered = sum(30.0 <= time_ < 35.0 for time_ in answered) / 5
    assert recovered >= 0.9 * 20 * 0.95  # nine tenths of the limit, within what latency scatters


def test_in_a_storm_hardly_anything_is_sent():
    provider = Provider(1200, storm=(0.0, 60.0))
    outcome = simulate(provider, Pacer(), 200, 128)
    assert outcome.refused <= 128 + 60


def test_a_stated_delay_is_waited_for():
    pacer = Pacer()
    pacer.refuse(pacer.send(1, 0.0), 0.5, 34.0)
    assert pacer.wait_s(1, 0.5) == pytest.approx(34.0)
    assert pacer.wait_s(1, 34.4) > 0
    assert pacer.wait_s(1, 34.6) == 0


def test_after_a_refusal_that_is_waited_for_calls_need_not_queue_any_more():
    pacer = Pacer()
    pacer.send(1, 0.0)
    pacer.accept()
    pacer.refuse(pacer.send(1, 0.2), 0.5, 2.0)
    assert not pacer.is_open
    assert pacer.wait_s(1, 2.5) == 0 and pacer.is_open


def refused_of_64(refused: int) -> float:
    """The wait for 20 more calls after 64 that were sent together, of which so many were refused."""
    pacer = Pacer()
    calls = [pacer.send(1, 0.0, others) for others in range(64)]
    for call in calls[:refused]:
        pacer.refuse(call, 0.1)
    pacer.accept()
    total_s = now = 0.1
    for _ in range(20):
        while (wait_s := pacer.wait_s(1, now)) > 0:
            now += wait_s
        pacer.send(1, now)
    return now - total_s


def test_few_refusals_of_calls_sent_together_are_tolerated_and_more_are_paced():
    assert refused_of_64(3) == 0
    assert 0 < refused_of_64(6) < refused_of_64(54)


def test_what_is_accepted_between_two_refusals_is_the_rate_whatever_was_in_flight():
    meter = Meter()
    meter.measure(0.0, 100)
    for _ in range(40):
        meter.forget(-0.1)  # in flight at the first refusal, refused later
    assert meter.measure(5.0, 160) == 20.0
    assert meter.measure(5.5, 170) == pytest.approx(20.0)


def test_a_limit_of_calls_at_once_is_learned_from_refusals_and_lowered_by_fewer():
    concurrency = LearnedConcurrency()
    assert [concurrency.refuse(10) for _ in range(3)] == [False, False, True]
    assert concurrency.limit == 10
    assert concurrency.refuse(10)
    assert not concurrency.refuse(9)
    assert not concurrency.is_known


def test_a_model_without_history_gets_few_calls_first():
    pacer, waves = Pacer(), [0]
    while waves[-1] < 500:
        if pacer.wait_s(1, 0.0) > 0:
            waves.append(0)
        else:
            pacer.send(1, 0.0)
            waves[-1] += 1
    assert [wave for wave in waves if wave] == [32, 48, 120, 300, 500]


def test_after_the_first_reply_calls_are_sent_at_once():
    pacer = Pacer()
    for _ in range(32):
        pacer.send(1, 0.0)
    assert pacer.wait_s(1, 0.0) > 0
    pacer.accept()
    assert pacer.wait_s(1, 0.1) == 0 and pacer.is_open


def test_tokens_are_paced_and_settled_by_what_was_used():
    pacer = Pacer(RateLimit(tokens_per_minute=6000))
    pacer.send(300, 0.0)
    assert pacer.wait_s(300, 0.0) > 0
    pacer.settle(300, 0)
    assert pacer.wait_s(300, 0.0) == 0


def test_what_is_larger_than_the_burst_waits_for_a_full_bucket_and_leaves_a_debt():
    bucket = Bucket(10.0, 10.0)
    bucket.take(5, 0.0)
    assert bucket.wait_s(30, 0.0) == pytest.approx(0.5)
    bucket.take(30, 0.5)
    assert bucket.wait_s(1, 0.5) == pytest.approx(2.1)
