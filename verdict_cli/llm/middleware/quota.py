"""A provider's quota, as its rate-limit headers state it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from verdict_cli.messages import Allowance

MAX_RESET_S = 120.0
"""A quota that is full again only later, such as a day's, is not waited for: the provider's 429 says more."""
MAX_OVERRUNS = 3
"""Refusals in spite of a quota that refills continuously, after which its headers are read more cautiously, and after
twice as many not as a rate."""
_CLEAR_S = 0.2
"""How far the two ways of refilling must be apart in what they predict, to tell which one it is."""
_VOTES = 2


class SentCounters(Struct, frozen=True):
    """How many calls and tokens had been sent when a call was sent, that call included, and the time."""

    calls: int
    tokens: int
    sent_at: float = 0.0


@dataclass(slots=True)
class _RemainingQuota:
    """What may still be sent before ``full_at``, when ``limit`` may be sent again; None: unknown.

    Some providers refill continuously, at ``rate`` a second, others all at once at the end of a window (``rate`` 0). Which
    it is shows when more was used: the time until the quota is full grows, or shrinks.
    """

    left: float | None = None
    limit: float | None = None
    full_at: float = 0.0
    period_s: float = 0.0
    rate: float = 0.0
    at: float = 0.0
    votes: int = 0
    reference: tuple[float, float, float] | None = None

    def wait_s(self, amount: int, now: float) -> float:
        """Seconds until the amount may be sent. Never longer than the quota takes to be full."""
        if self.left is None:
            return 0.0
        if self.rate:
            short = min(amount, self.limit or amount) - self.left - self.rate * (now - self.at)
            return max(0.0, short / self.rate)
        if self.left >= amount:
            return 0.0
        if now < self.full_at:
            return self.full_at - now
        self.left, self.full_at = self.limit, now + self.period_s
        return 0.0

    def spend(self, amount: int) -> None:
        if self.left is not None:
            self.left -= amount

    def update(
        self, left: int | None, limit: int | None, reset_s: float | None, since: int, at: float, now: float
    ) -> None:
        """Take over what a reply states; ``at``: the time that it holds for."""
        if left is None or reset_s is None or reset_s > MAX_RESET_S:
            self.left, self.rate = None, 0.0
            return
        self.left, self.limit, self.full_at, self.period_s, self.at = left - since, limit, now + reset_s, reset_s, at
        self._classify(left, limit, reset_s, at)

    def _classify(self, left: int, limit: int | None, reset_s: float, at: float) -> None:
        used = 0 if limit is None else limit - left
        if used <= 0 or reset_s <= 0:
            return
        if self.reference is not None:
            used_then, reset_then, then = self.reference
            continuous, window = used / used_then * reset_then, reset_then - (at - then)
            if abs(continuous - window) < max(_CLEAR_S, 0.2 * reset_then):
                return
            is_continuous = abs(reset_s - continuous) < abs(reset_s - window)
            self.votes = max(-_VOTES, min(_VOTES, self.votes + (1 if is_continuous else -1)))
        self.reference = used, reset_s, at
        self.rate = used / reset_s if self.votes >= _VOTES else 0.0


class ProviderQuota:
    """A model's remaining quota at its provider. Without headers there is no limit."""

    def __init__(self) -> None:
        self._calls = 0
        self._tokens = 0
        self._requests_left = _RemainingQuota()
        self._tokens_left = _RemainingQuota()
        self._latest = 0
        self._overruns = 0
        self._rate_since: float | None = None
        self.is_known = False
        """Whether the provider has stated its limits."""

    @property
    def is_rate(self) -> bool:
        """Whether the headers state how fast requests are refilled, and calls at that rate are accepted."""
        return self._rate_since is not None and self._overruns < 2 * MAX_OVERRUNS

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens may be sent; 0 if it may be sent now."""
        return max(self._requests_left.wait_s(1, now), self._tokens_left.wait_s(tokens, now))

    def spend(self, tokens: int, now: float = 0.0) -> SentCounters:
        """Count a call that is sent now."""
        self._calls += 1
        self._tokens += tokens
        if self.is_known:
            self._requests_left.spend(1)
            self._tokens_left.spend(tokens)
        return SentCounters(self._calls, self._tokens, now)

    def refuse(self, sent_at: float) -> None:
        """Count the refusal of a call; it was allowed by the headers if it was sent when they stated a rate."""
        self._overruns += self._rate_since is not None and sent_at >= self._rate_since

    def update(self, allowance: Allowance, counters: SentCounters, now: float) -> None:
        """Take over the headers of a call's reply. They do not count the calls that were sent after it.

        If replies arrive in another order than their calls were sent, the latest call's headers win.
        """
        if counters.calls < self._latest:
            return
        self._latest, self.is_known = counters.calls, True
        calls, tokens = self._calls - counters.calls, self._tokens - counters.tokens
        # Providers write the headers when they accept a call; one that writes them with the reply refuses some.
        at = counters.sent_at if self._overruns < MAX_OVERRUNS else now
        self._requests_left.update(
            allowance.requests_left, allowance.requests, allowance.requests_reset_s, calls, at, now
        )
        if not self._requests_left.rate:
            self._rate_since = None
        elif self._rate_since is None:
            self._rate_since = now
        self._tokens_left.update(allowance.tokens_left, allowance.tokens, allowance.tokens_reset_s, tokens, at, now)
