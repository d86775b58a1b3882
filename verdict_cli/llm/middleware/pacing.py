"""How fast calls of one model may be sent: by what is configured, what headers state, and what refusals teach.

A `Pacer` asks its parts in turn how long a call must wait:

`Bucket`              a rate with a burst; two of them hold the configured limits
`StatedQuotas`        two more: what a provider's headers leave
`LearnedRate`         raised while calls are accepted, cut when one is refused (AIMD, with the curve of TCP CUBIC)
`LearnedConcurrency`  the same for calls in flight, where refusals come with equally many of them
`FirstCalls`          few calls go first to a model of which nothing is known
`Outage`              while everything is refused, one call at a time shows when that is over
`RandomRefusals`      refusals that come as often at a low rate are none of a limit: nothing is paced

All times are seconds of one clock, which the caller gives.
"""

from __future__ import annotations

from math import inf

from verdict_cli.llm.middleware.pacing_parts import (
    Bucket,
    FirstCalls,
    LearnedConcurrency,
    LearnedRate,
    Meter,
    Outage,
    RandomRefusals,
    SentCall,
    StatedQuotas,
)
from verdict_cli.messages import Allowance
from verdict_cli.model import RateLimit


class Pacer:
    """When the next call of one model and key may be sent, and how many at once.

    ``is_open``: nothing is known that a call would have to wait for. It may be late to become true. ``is_known``: a limit that
    is not configured does not have to be found out.
    """

    def __init__(self, limit: RateLimit | None = None, *, is_known: bool = False) -> None:
        limit = limit or RateLimit()
        self.is_open = False
        self.tokens_per_minute = limit.tokens_per_minute
        self._requests = Bucket.per_minute(limit.requests_per_minute)
        self._tokens = Bucket.per_minute(limit.tokens_per_minute)
        self._concurrent = limit.concurrent or inf
        self._stated = StatedQuotas()
        self._first = None if is_known or self._requests else FirstCalls()
        self._learned: LearnedRate | None = None
        self._meter = Meter()
        self._measured = 0.0
        self._concurrency = LearnedConcurrency()
        self._outage = Outage()
        self._noise = RandomRefusals()
        self._calls = self._tokens_sent = 0
        self._passed = 0  # sent and not refused
        self._guessed_from = (0.0, 0)  # a time, and the calls passed until then
        # When a refusal came back of a call that was sent after the one before.
        self._refused_at = -inf
        self._held_until = -inf

    @property
    def most_at_once(self) -> float:
        """The most calls in flight."""
        return min(self._concurrent, self._concurrency.limit)

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens may be sent, or should check again; 0 where it may be sent now."""
        if now < self._held_until:
            return self._held_until - now
        if self._held_until > -inf:
            self._held_until = -inf
            if self._learned is not None and not self._outage.is_on:
                self._learned.resume(now)
        wait_s = self._unknown_s(now)
        if wait_s > 0:
            return wait_s
        if self._learned is not None and not self._outage.is_on and not self._concurrency.is_known:
            wait_s = self._learned.wait_s(now)
        for bucket, amount in self._buckets(tokens):
            wait_s = max(wait_s, bucket.wait_s(amount, now))
        self.is_open = (
            self._learned is None
            and self._requests is None
            and self._tokens is None
            and self._first is None
            and self.most_at_once == inf
            and not (self._outage.is_on or self._stated.by)
        )
        return wait_s

    def _buckets(self, tokens: int) -> list[tuple[Bucket, int]]:
        """The buckets of configured and stated limits, and how much a call of so many tokens takes of each."""
        amounts = (
            (self._requests, 1),
            (self._stated.requests, 1),
            (self._tokens, tokens),
            (self._stated.tokens, tokens),
        )
        return [(bucket, amount) for bucket, amount in amounts if bucket is not None]

    def _unknown_s(self, now: float) -> float:
        """Seconds until a call may be sent while everything is refused, or nothing is known."""
        if self._outage.is_on:
            wait_s = self._outage.wait_s(self._calls, now)
            if wait_s is not None:
                return wait_s
            self._meter.clear()
            if self._learned is not None:
                self._learned.resume(now)
            else:
                self._first, self._guessed_from = FirstCalls(), (now, self._passed)
        since, before = self._guessed_from
        # Not before all calls that were in flight at the first refusal have come back as refused.
        has_sign = self._passed > before and self._refused_at > since
        if has_sign and self._is_refused and self._learned is None:
            guess = (self._passed - before) / max(1.0, self._refused_at - since)
            self._learned, self._first = LearnedRate(guess, self._measured, self._refused_at), None
        return 0.0 if self._first is None else self._first.wait_s(self._passed - before)

    def send(self, tokens: int, now: float, concurrent_calls: int = 0) -> SentCall:
        """Count a call that is sent now beside so many others."""
        self._calls += 1
        self._passed += 1
        self._tokens_sent += tokens
        is_low = False
        if not self.is_open:
            self._outage.send(self._calls, now)
            if self._learned is not None and not self._concurrency.is_known:
                is_low = self._learned.is_low(now) and not self._outage.is_on
                self._learned.send(now)
            for bucket, amount in self._buckets(tokens):
                bucket.take(amount, now)
        if self._calls == 1:
            self._guessed_from = now, 0
        self._noise.send(is_low)
        return SentCall(self._calls, self._tokens_sent, now, concurrent_calls, is_low)

    def settle(self, estimated: int, used: int) -> None:
        """Replace the estimate of a call by the tokens that it used."""
        if self._tokens is not None:
            self._tokens.give_back(estimated - used)

    def accept(self) -> None:
        """Count a call that was answered."""
        self._first = None
        if self._concurrency.is_known:
            self._concurrency.accept()

    def update(self, allowance: Allowance, call: SentCall, now: float) -> None:
        """Take over the rate-limit headers of a call's reply, unless a call that was sent later has been answered."""
        if call.number < self._stated.by:
            return
        self.is_open = False
        since = (self._calls - call.number, self._tokens_sent - call.tokens)
        if self._stated.update(allowance, call, since, now):
            self._learned = None

    def refuse(self, call: SentCall, now: float, delay_s: float | None = None) -> None:
        """Count a call that was refused for a rate limit; ``delay_s`` is what the provider asks for.

        Refusals of calls that were all sent before the first of them came back are one sign of a limit, not many.
        """
        self._passed -= 1
        self.is_open = False
        if delay_s is not None:
            self._held_until = max(self._held_until, now + delay_s)
        if call.at <= self._refused_at:
            self._noise.refuse(False)
            self._meter.forget(call.at)
            return
        self._refused_at = now
        self._measured = self._meter.measure(now, self._passed)
        pause_s = self._outage.refuse(call.number, self._calls)
        self._noise.refuse(pause_s is None and call.is_low)
        may_be_concurrency = not (self._stated.is_rate or delay_s is not None or pause_s)
        if may_be_concurrency and self._learns_concurrency(call.others, now):
            return
        if self._is_refused and self._noise.is_found():
            self._learned = None
            self._outage.tolerate_noise()
        elif pause_s is not None:
            if delay_s is None and pause_s:
                self._held_until = max(self._held_until, now + pause_s)
        elif self._stated.is_rate:
            self._stated.refuse(call)
        elif self._is_refused and self._learned is not None:
            self._learned.cut(now, self._measured)

    @property
    def _is_refused(self) -> bool:
        """Whether more calls are refused than noise and a limit of calls at once explain."""
        return self._noise.is_exceeded and not self._concurrency.is_known

    def _learns_concurrency(self, concurrent_calls: int, now: float) -> bool:
        """Whether a refusal beside so many other calls is one of a limit of them. Then the learned rate is set aside."""
        if self._learned is None:
            return False
        was_known = self._concurrency.is_known
        if self._concurrency.refuse(concurrent_calls):
            self._outage.end()
            return True
        if was_known:
            self._learned.resume(now)
        return False
