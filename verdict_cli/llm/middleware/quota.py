"""A provider's quota, as its rate-limit headers state it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from verdict_cli.messages import Allowance

MAX_RESET_S = 120.0
"""A quota that is full again only later, such as a day's, is not waited for: the provider's 429 says more."""


class SentCounters(Struct, frozen=True):
    """How many calls and tokens had been sent when a call was sent, that call included."""

    calls: int
    tokens: int


@dataclass(slots=True)
class _RemainingQuota:
    """What may still be sent before ``full_at``, when ``limit`` may be sent again; None: unknown."""

    left: float | None = None
    limit: float | None = None
    full_at: float = 0.0
    period_s: float = 0.0

    def wait_s(self, amount: int, now: float) -> float:
        """Seconds until the amount may be sent. Never longer than the quota takes to be full."""
        if self.left is None or self.left >= amount:
            return 0.0
        if now < self.full_at:
            return self.full_at - now
        self.left, self.full_at = self.limit, now + self.period_s
        return 0.0

    def spend(self, amount: int) -> None:
        if self.left is not None:
            self.left -= amount

    def update(self, left: int | None, limit: int | None, reset_s: float | None, since: int, now: float) -> None:
        if left is None or reset_s is None or reset_s > MAX_RESET_S:
            self.left = None
            return
        self.left, self.limit, self.full_at, self.period_s = left - since, limit, now + reset_s, reset_s


class ProviderQuota:
    """A model's remaining quota at its provider. Without headers there is no limit."""

    def __init__(self) -> None:
        self._calls = 0
        self._tokens = 0
        self._requests_left = _RemainingQuota()
        self._tokens_left = _RemainingQuota()
        self._latest = 0

    @property
    def is_known(self) -> bool:
        """Whether the provider has stated its limits."""
        return self._latest > 0

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens may be sent; 0 if it may be sent now."""
        return max(self._requests_left.wait_s(1, now), self._tokens_left.wait_s(tokens, now))

    def spend(self, tokens: int) -> SentCounters:
        """Count a call that is sent now."""
        self._calls += 1
        self._tokens += tokens
        if self.is_known:
            self._requests_left.spend(1)
            self._tokens_left.spend(tokens)
        return SentCounters(self._calls, self._tokens)

    def update(self, allowance: Allowance, counters: SentCounters, now: float) -> None:
        """Take over the headers of a call's reply. They do not count the calls that were sent after it.

        If replies arrive in another order than their calls were sent, the latest call's headers win.
        """
        if counters.calls < self._latest:
            return
        self._latest = counters.calls
        calls, tokens = self._calls - counters.calls, self._tokens - counters.tokens
        self._requests_left.update(allowance.requests_left, allowance.requests, allowance.requests_reset_s, calls, now)
        self._tokens_left.update(allowance.tokens_left, allowance.tokens, allowance.tokens_reset_s, tokens, now)
