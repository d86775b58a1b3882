"""Pace calls to a model: a token bucket whose rate is configured, or learned from the provider's refusals.

Providers refill their limits continuously, and refuse bursts beyond a few seconds' worth. Calls are therefore spread
evenly at the rate, not sent at once and then held back. Where no limit is known, nothing is paced until the provider
refuses a call; from then on the rate backs off at refusals and probes upwards along the curve of TCP CUBIC (Ha, Rhee and
Xu, 2008).
"""

from __future__ import annotations

from verdict_cli.llm.middleware.concurrency import LearnedConcurrency

MINUTE_S = 60.0
BURST_S = 3.0
"""How many seconds of the rate may be sent at once. Providers allow about five; a smaller one refuses a few calls once."""
BACK_OFF = 0.1
"""The share by which a refusal lowers the learned rate."""
STEEP_BACK_OFF = 0.4
"""The same where the one before is recent: the rate is still far above the limit."""
RECENT_S = 1.5
RECOVERY_S = 3.0
"""In so many seconds the learned rate is back at what it was when a call was refused; then it probes beyond that."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
"""Pauses while the provider refuses everything: the first, and the longest."""
QUICK_S = 0.5
"""A refusal comes back within this time; a call that has been away for longer was accepted."""
LEAST_RATE = 0.2
"""Calls a second below which no rate is learned: a storm of refusals is a pause, not a limit."""


TOLERATED_SHARE = 0.05
"""Refusals up to this share of the recent calls are noise of a busy provider, not a limit: the rate stays."""
RECENT_CALLS = 100
"""Calls over which that share is taken, the latest weighing most."""


class Bucket:
    """Continuous refill: ``rate`` units a second, at most ``capacity`` at once. Times are in seconds."""

    __slots__ = ("_at", "_level", "capacity", "rate")

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self._level = capacity
        self._at: float | None = None

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until so much is there; an amount above the capacity waits for a full bucket, and leaves a debt."""
        self._refill(now)
        short = min(amount, self.capacity) - self._level
        return max(0.0, short / self.rate) if short > 1e-9 else 0.0

    def take(self, amount: float, now: float) -> None:
        """Take so much; what is not there yet is owed."""
        self._refill(now)
        self._level -= amount

    def give_back(self, amount: float) -> None:
        """Return what was taken and not used (below zero: take more)."""
        self._level = min(self.capacity, self._level + amount)

    def set_rate(self, rate: float, capacity: float, now: float) -> None:
        """Change the rate from now on."""
        self._refill(now)
        self.rate, self.capacity = rate, capacity
        self._level = min(self._level, capacity)

    def _refill(self, now: float) -> None:
        if self._at is not None:
            self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
        self._at = now


class Pacer:
    """When the next call of one model and key may be sent.

    ``requests_per_minute`` and ``tokens_per_minute`` are the configured limits, None for none.
    """

    def __init__(self, requests_per_minute: int | None = None, tokens_per_minute: int | None = None) -> None:
        self.requests = _configured(requests_per_minute)
        self.tokens = _configured(tokens_per_minute)
        self.tokens_per_minute = tokens_per_minute
        self._learned: Bucket | None = None
        self._plateau = 0.0  # the rate at which the provider last refused a call
        self._drop = BACK_OFF
        self._refused_at = 0.0
        self._refusals_in_a_row = 0
        self._held_until = 0.0
        self._first_at: float | None = None
        self._refused_share = 0.0
        self._passed = 0  # calls sent and not refused
        self.concurrency = LearnedConcurrency()
        self._pending: list[float] = []  # when the calls were sent that are with the provider, once a rate is learned

    @property
    def is_open(self) -> bool:
        """Whether nothing is known that a call would have to wait for."""
        return self.requests is None and self.tokens is None and self._learned is None and not self._held_until

    @property
    def rate(self) -> float | None:
        """The learned rate in calls a second, None where none was learned."""
        return None if self._learned is None else self._learned.rate

    def wait_s(self, tokens: float, now: float) -> float:
        """Seconds until a call of so many tokens may be sent; 0 where it may be sent now."""
        if self._held_until <= now:
            self._held_until = 0.0  # over: calls need not queue for it any more
        waits = [self._held_until - now]
        if self._refusals_in_a_row > 1 and self._pending and now - self._pending[-1] < QUICK_S:
            waits.append(QUICK_S - (now - self._pending[-1]))  # in a storm, one call at a time shows when it is over
        if self._learned is not None:
            rate = self._probing_rate(now)
            self._learned.set_rate(rate, max(1.0, rate * FIRST_PAUSE_S), now)
            waits.append(self._learned.wait_s(1, now))
        if self.requests is not None:
            waits.append(self.requests.wait_s(1, now))
        if self.tokens is not None:
            waits.append(self.tokens.wait_s(tokens, now))
        return max(0.0, *waits)

    def send(self, tokens: float, now: float) -> None:
        """Count a call that is sent now."""
        if self._first_at is None:
            self._first_at = now
        self._passed += 1
        if self._learned is not None:
            self._learned.take(1, now)
            self._pending.append(now)
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
        self._refused_share *= 1 - 1 / RECENT_CALLS
        if sent_at > self._refused_at:
            self._refusals_in_a_row = 0
        if self.concurrency.is_known:
            self.concurrency.accept()
        if self._pending:
            self.forget(sent_at)

    def refuse(
        self, sent_at: float, now: float, hint_s: float | None = None, *, others: int = 0, learns: bool = True
    ) -> None:
        """Count a call, sent at ``sent_at``, that was refused for a rate limit; ``hint_s``: the delay that the provider states.

        ``others``: the calls that were in flight when it was sent. Not ``learns``: the provider states its rate, so that none is learned, and one that was is dropped.

        Refusals of calls that were all sent before the first of them came back are one sign of the limit, not many.
        """
        self._passed -= 1
        self._refused_share += (1 - self._refused_share) / RECENT_CALLS
        if hint_s is not None:
            self._held_until = max(self._held_until, now + hint_s)
        if not learns:
            self._learned, self._plateau = None, 0.0
            self._pending.clear()
            return
        if self._refused_share <= TOLERATED_SHARE:
            self.forget(sent_at)
            return
        if self._learned is None:
            self._learned = Bucket(LEAST_RATE, 1.0)
            self._refused_at = now
            return
        self.forget(sent_at)
        if sent_at <= self._refused_at:
            return
        if hint_s is None and self.concurrency.refuse(others):
            self._refused_at, self._refusals_in_a_row = now, 0
            return
        if any(self._refused_at < sent < now - QUICK_S for sent in self._pending):
            self._refusals_in_a_row = 0
        self._refusals_in_a_row += 1
        if self._refusals_in_a_row > 1 and hint_s is None:
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._refusals_in_a_row - 2))
            self._held_until = max(self._held_until, now + pause)
            self._refused_at = now  # a storm is waited for; it says nothing about the rate
            return
        recent = now - self._refused_at < RECENT_S
        self._plateau = max(LEAST_RATE, self._probing_rate(now) * (1.0 - (STEEP_BACK_OFF if recent else 0.0)))
        self._drop = BACK_OFF
        self._refused_at = now

    def forget(self, sent_at: float) -> None:
        """Remove a call that is no longer with the provider."""
        if sent_at in self._pending:
            self._pending.remove(sent_at)

    def _probing_rate(self, now: float) -> float:
        """The learned rate: just below the last refused one, slowly back to it, then faster and faster beyond it."""
        if not self._plateau:
            # After the first refusals: what was not refused so far, in the time that took.
            since = self._first_at if self._first_at is not None else now
            self._plateau = max(LEAST_RATE, self._passed / max(1.0, now - since))
        distance = (now - self._refused_at - RECOVERY_S) / RECOVERY_S
        return self._plateau * (1.0 + self._drop * distance**3)


def _configured(per_minute: int | None) -> Bucket | None:
    if per_minute is None:
        return None
    rate = per_minute / MINUTE_S
    return Bucket(rate, max(1.0, rate * BURST_S))
