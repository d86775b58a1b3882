"""What was sent in the last minute, and how long the next call must wait for its place in it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MINUTE_S = 60.0
_INSTANT_S = 1e-6
"""Clock readings closer than this are the same: a wait never ends a rounding error too early."""


@dataclass(slots=True)
class Sent:
    """One call: when it was sent, and its tokens, estimated until it is settled."""

    at: float
    tokens: int


class SlidingWindow:
    """At most so many requests and tokens in any sixty seconds; None is no limit."""

    def __init__(self, requests: int | None, tokens: int | None) -> None:
        self.requests = requests
        self.tokens = tokens
        self._sent: deque[Sent] = deque()
        self._total = 0

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens fits; 0 where it fits now."""
        while self._sent and self._leaves(self._sent[0]) - now <= _INSTANT_S:
            self._total -= self._sent.popleft().tokens
        until = now
        if self.requests is not None and len(self._sent) >= self.requests:
            until = self._leaves(self._sent[len(self._sent) - self.requests])
        if self.tokens is not None and self._total + tokens > self.tokens:
            until = max(until, self._room_at(self._total + tokens - self.tokens))
        return until - now

    def enter(self, tokens: int, now: float) -> Sent:
        """Counts a call that is sent now."""
        sent = Sent(now, tokens)
        self._sent.append(sent)
        self._total += tokens
        return sent

    def settle(self, sent: Sent, tokens: int) -> None:
        """Puts the tokens that were used in the place of the estimate."""
        if self._sent and self._sent[0].at <= sent.at:
            self._total += tokens - sent.tokens
        sent.tokens = tokens

    def _room_at(self, excess: int) -> float:
        """When so many tokens will have left the window."""
        for sent in self._sent:
            excess -= sent.tokens
            if excess <= 0:
                return self._leaves(sent)
        return self._leaves(self._sent[-1])

    @staticmethod
    def _leaves(sent: Sent) -> float:
        return sent.at + MINUTE_S
