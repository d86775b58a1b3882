"""What is left of a provider's own window, as its rate-limit headers say."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from verdict_cli.messages import Allowance

LONGEST_RESET_S = 120.0
"""A window that is full again only later, such as a day's quota, is not waited for: the provider's refusal says more."""


class SentCounters(Struct, frozen=True):
    """How many calls and tokens had been sent when a call was, it included."""

    calls: int
    tokens: int


@dataclass(slots=True)
class _RemainingQuota:
    """One counted thing: what may still be sent before ``full_at``, when ``most`` may be sent again."""

    left: float | None = None
    most: float | None = None
    full_at: float = 0.0
    period_s: float = 0.0

    def wait_s(self, amount: int, now: float) -> float:
        """Seconds until so much may be sent. A window is never waited for longer than it takes to be full."""
        if self.left is None or self.left >= amount:
            return 0.0
        if now < self.full_at:
            return self.full_at - now
        self.left, self.full_at = self.most, now + self.period_s
        return 0.0

    def enter(self, amount: int) -> None:
        if self.left is not None:
            self.left -= amount

    def learn(self, left: int | None, most: int | None, reset_s: float | None, since: int, now: float) -> None:
        if left is None or reset_s is None or reset_s > LONGEST_RESET_S:
            self.left = None
            return
        self.left, self.most, self.full_at, self.period_s = left - since, most, now + reset_s, reset_s


class Allowed:
    """A model's window at its provider. Without headers it lets everything through."""

    def __init__(self) -> None:
        self._calls = 0
        self._tokens = 0
        self._requests_left = _RemainingQuota()
        self._tokens_left = _RemainingQuota()
        self._latest = 0

    @property
    def known(self) -> bool:
        """Whether the provider has said anything."""
        return self._latest > 0

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens may be sent; 0 where it may now."""
        return max(self._requests_left.wait_s(1, now), self._tokens_left.wait_s(tokens, now))

    def enter(self, tokens: int) -> SentCounters:
        """Counts a call that is sent now."""
        self._calls += 1
        self._tokens += tokens
        if self.known:
            self._requests_left.enter(1)
            self._tokens_left.enter(tokens)
        return SentCounters(self._calls, self._tokens)

    def learn(self, said: Allowance, passed: SentCounters, now: float) -> None:
        """Takes over what the headers of a call's reply say; calls sent after it are not counted in them yet.

        Of replies that come back in another order than their calls went, the latest call's counts.
        """
        if passed.calls < self._latest:
            return
        self._latest = passed.calls
        since = self._calls - passed.calls, self._tokens - passed.tokens
        self._requests_left.learn(said.requests_left, said.requests, said.requests_reset_s, since[0], now)
        self._tokens_left.learn(said.tokens_left, said.tokens, said.tokens_reset_s, since[1], now)
