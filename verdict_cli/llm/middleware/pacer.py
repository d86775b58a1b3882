"""Pace calls to a model by token buckets whose rate is configured, or learned from the provider's refusals.

Providers refill their limits continuously, and refuse bursts beyond a few seconds' worth. Calls are therefore spread
evenly at the rate, not sent at once and then held back. Where no limit is known, the first calls show whether there is
one; then nothing is paced until the provider refuses calls. While it refuses everything, one call at a time shows when
that is over.
"""

from __future__ import annotations

from math import inf

from verdict_cli.llm.middleware.concurrency import LearnedConcurrency
from verdict_cli.llm.middleware.token_bucket import Bucket, LearnedRate

MINUTE_S = 60.0
BURST_S = 3.0
"""How many seconds of the rate may be sent at once. Providers allow about five; a smaller one refuses a few calls once."""
FIRST_CALLS = 32
FIRST_GROWTH = 2.5
FIRST_CHECK_S = 0.0055
FIRST_CHECKS = 5
FIRST_WAVES = 4
"""So many calls are sent to a model first. While there is neither a reply nor a refusal, it is 2.5 times as many after every
fifth check, up to the fourth. This delays 128 concurrent calls by 25 ms on average: less than 1% of a run that takes three
seconds. Checks are counted, not seconds, because opening connections may keep the event loop from reading refusals."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
"""Pauses while the provider refuses everything: the first, and the longest."""
QUICK_S = 0.5
"""A refusal comes back within this time; a call that has been away for longer was accepted."""
PROBE_CHECK_S = 0.1
CLOCK_S = 0.001
TOLERATED_SHARE = 0.05
"""Refusals up to this share of the recent calls are noise of a busy provider, not a limit: the rate stays."""
RECENT_CALLS = 100
"""Calls over which that share is taken, the latest weighing most."""


class Pacer:
    """When the next call of one model and key may be sent.

    ``requests_per_minute`` and ``tokens_per_minute`` are the configured limits, None for none.
    """

    def __init__(self, requests_per_minute: int | None = None, tokens_per_minute: int | None = None) -> None:
        self.requests = _configured(requests_per_minute)
        self.tokens = _configured(tokens_per_minute)
        self.tokens_per_minute = tokens_per_minute
        self.concurrency = LearnedConcurrency()
        self.learned: LearnedRate | None = None
        self.is_open = False
        """Whether nothing is known that a call would have to wait for. It may be late to become true."""
        self._is_new = self.requests is None  # nothing is known, neither from a reply nor from a refusal
        self._checks = 0
        self._first_at = -inf
        self._passed = 0  # calls sent and not refused
        self._refused_share = 0.0
        self._is_over = False  # calls were refused beyond the tolerated share
        self._refused_at = -inf  # when a refusal came back of a call that was sent after the one before
        self._next_at: float | None = -inf  # when the first call was sent after that
        self._measured: float | None = None  # the rate that was learned before a limit of concurrent calls
        self._in_a_row = 0
        self._row_since = 0.0
        self._held_until = -inf

    def wait_s(self, tokens: float, now: float) -> float:
        """Seconds until a call of so many tokens may be sent, or should check again; 0 where it may be sent now."""
        if now < self._held_until:
            return self._held_until - now
        if self._held_until > -inf:
            self._held_until = -inf
            if self.learned is not None and not self._in_a_row:
                self.learned.resume(now, 0.0, self._passed)
        wait_s = self._probe_s(now) if self._in_a_row or self._is_new else 0.0
        if wait_s > 0:
            return wait_s
        if self._is_over and self.learned is None and self._passed > 0 and not self.concurrency.is_known:
            took_s = (self._row_since if self._in_a_row else self._refused_at) - self._first_at
            guess = self._passed / max(1.0, took_s)
            self.learned = LearnedRate(guess, self._refused_at, self._passed, measured=self._measured)
        if self.learned is not None and not self._in_a_row:
            wait_s = self.learned.wait_s(now)
        if self.requests is not None:
            wait_s = max(wait_s, self.requests.wait_s(1, now))
        if self.tokens is not None:
            wait_s = max(wait_s, self.tokens.wait_s(tokens, now))
        self.is_open = (
            self.learned is None
            and self.requests is None
            and self.tokens is None
            and not (self._is_new or self._is_over or self._in_a_row)
        )
        return wait_s

    def _probe_s(self, now: float) -> float:
        """Seconds until a call may be sent while nothing is known, or while everything is refused."""
        if self._in_a_row:
            if self._next_at is None:
                return 0.0  # one call at a time shows when it is over
            left_s = QUICK_S - (now - self._next_at)
            if left_s > CLOCK_S:  # a shorter wait might not move the clock
                return min(PROBE_CHECK_S, left_s)
            self._in_a_row = 0
            if self.learned is not None:
                self.learned.resume(now, now - self._row_since, self._passed)
            else:
                self._is_new, self._first_at, self._passed, self._checks = True, now, 0, 0
        if self._is_over or self._checks >= FIRST_WAVES * FIRST_CHECKS:
            self._is_new = False
        elif self._passed >= FIRST_CALLS * FIRST_GROWTH ** (self._checks // FIRST_CHECKS):
            self._checks += 1
            return FIRST_CHECK_S if self._checks % FIRST_CHECKS else 0.0
        return 0.0

    def send(self, tokens: float, now: float) -> None:
        """Count a call that is sent now."""
        self._passed += 1
        if self._next_at is None:
            self._next_at = now
        if self.is_open:
            return
        if self._first_at == -inf:
            self._first_at = now
        if self.learned is not None:
            self.learned.send(now)
        if self.requests is not None:
            self.requests.take(1, now)
        if self.tokens is not None:
            self.tokens.take(tokens, now)

    def settle(self, estimated: float, used: float) -> None:
        """Replace the estimate of a call by the tokens that it used."""
        if self.tokens is not None:
            self.tokens.give_back(estimated - used)

    def accept(self, sent_at: float) -> None:
        """Count a call, sent at ``sent_at``, that was answered. Calls sent before the last refusal say nothing new."""
        self._is_new = False
        if not self._refused_share:
            return
        self._refused_share *= 1 - 1 / RECENT_CALLS
        if sent_at > self._refused_at:
            self._next_at = -inf
        if self.concurrency.is_known:
            self.concurrency.accept()

    def refuse(
        self, sent_at: float, now: float, hint_s: float | None = None, *, others: int = 0, learns: bool = True
    ) -> bool:
        """Count a call, sent at ``sent_at``, that was refused for a rate limit; ``hint_s``: the delay that the provider states.

        ``others``: the calls that were in flight when it was sent. Not ``learns``: the provider states its rate, so that
        none is learned, and one that was is dropped. Returns whether calls were accepted since the last refusal: then
        this one is a sign that they are sent too fast.

        Refusals of calls that were all sent before the first of them came back are one sign of the limit, not many.
        """
        self._passed -= 1
        self.is_open = False
        self._refused_share += (1 - self._refused_share) / RECENT_CALLS
        if hint_s is not None:
            self._held_until = max(self._held_until, now + hint_s)
        if not learns:
            self.learned = None
        self._is_over = learns and self._refused_share > TOLERATED_SHARE
        if sent_at <= self._refused_at:
            if self.learned is not None:
                self.learned.forget()
            return False
        is_next = self._next_at is not None and sent_at <= self._next_at
        before, self._refused_at, self._next_at = self._refused_at, now, None
        may_be_concurrency = self.concurrency.is_known or (self._is_over and self.learned is not None)
        if hint_s is None and may_be_concurrency and self.concurrency.refuse(others):
            if self.learned is not None and self.learned.is_settled(now):
                self._measured = self.learned.estimate
            self.learned, self._in_a_row = None, 0
            return False
        if is_next:
            self._row_since = self._row_since if self._in_a_row else before
            self._in_a_row += 1
            if hint_s is None:
                pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._in_a_row - 1))
                self._held_until = max(self._held_until, now + pause_s)
            return False
        self._in_a_row = 0
        if self.learned is not None and self._is_over:
            self.learned.measure(now, self._passed)
        return True


def _configured(per_minute: int | None) -> Bucket | None:
    if per_minute is None:
        return None
    rate = per_minute / MINUTE_S
    return Bucket(rate, max(1.0, rate * BURST_S))
