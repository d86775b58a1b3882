"""Token buckets: one that is refilled at a given rate, and the rate of a provider's bucket, learned from its refusals."""

from __future__ import annotations

from collections import deque
from math import exp2, inf

LEARNED_BURST_S = 0.25
"""How many seconds of a learned rate may be sent at once."""
BACK_OFF = 0.1
"""The share by which the learned rate falls below the estimate when a call is refused."""
RECOVERY_S = 3.0
"""In so many seconds the learned rate is back at the estimate; then it probes beyond that."""
DOUBLINGS = 30
"""How often a guess is doubled at most, so that the rate of a long run remains a number."""
LEAST_RATE = 0.2
"""Calls a second below which no rate is learned: a storm of refusals is a pause, not a limit."""
OUTAGE_S = 1.0
"""Refusals of everything for longer than this do not lower the rate, if it is accepted again afterwards."""
MEASURED_S = 10.0
MEASURED_CALLS = 20
"""The rate is measured over so many seconds, and over so many calls, to be exact to 5%."""
LEAST_MEASURED_S = 0.5
"""A shorter measurement, of a few calls on their way, lowers the rate by no more than `MOST_ABOVE`."""
MOST_ABOVE = 1.4
"""How far above the measured rate the rate that was refused counts: more is not a limit's precision, but a first guess."""


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


class LearnedRate:
    """The rate that a provider accepts, in calls a second, first guessed and then measured at each refusal.

    The provider's bucket is empty when it refuses a call. So what it accepts between two refusals is what it refilled,
    unless it was full in between: because everything was refused for a while, or because too few calls were made. Then
    that is only a lower bound, and the rate stays where it was within the bounds.
    """

    def __init__(self, guess: float, now: float, passed: int, measured: float | None = None) -> None:
        self.estimate = max(LEAST_RATE, guess) if measured is None else measured
        self._is_measured = measured is not None
        self._equal_at = now  # when the rate is equal to the estimate
        self._refusals = deque([(now, passed)])
        self._bucket = Bucket(LEAST_RATE, 1.0)
        self._outage_s = 0.0
        self._resumed = passed
        self._waited_at = now
        self._idle_at = -inf

    def rate(self, now: float) -> float:
        """Just below the estimate after a refusal, slowly back to it, then faster and faster beyond it. A guess is doubled
        each second."""
        if not self._is_measured:
            return self.estimate * exp2(min(max(0.0, now - self._equal_at), DOUBLINGS))
        return self.estimate * (1.0 + BACK_OFF * ((now - self._equal_at) / RECOVERY_S) ** 3)

    def is_settled(self, now: float) -> bool:
        """Whether the rate was measured over as long as it should be."""
        return self._is_measured and now - self._refusals[0][0] >= MEASURED_S

    def wait_s(self, now: float) -> float:
        """Seconds until a call may be sent."""
        rate = self.rate(now)
        self._bucket.set_rate(rate, max(1.0, rate * LEARNED_BURST_S), now)
        wait_s = self._bucket.wait_s(1, now)
        if wait_s:
            self._waited_at = now
        return wait_s

    def send(self, now: float) -> None:
        """Count a call that is sent now."""
        self._bucket.take(1, now)
        if now - self._waited_at > OUTAGE_S:
            self._idle_at = now  # for a while, no call had to wait

    def resume(self, now: float, outage_s: float, passed: int) -> None:
        """Continue at the estimate, after a time in which nothing could be sent or everything was refused."""
        rate = self.rate(now - outage_s)
        if rate > MOST_ABOVE * self.estimate and self._idle_at < self._equal_at:
            self.estimate = rate / MOST_ABOVE
        self._equal_at = self._waited_at = now
        self._bucket.set_rate(self.estimate, 1.0, now)
        self._resumed = passed
        self._outage_s = max(self._outage_s, outage_s)

    def forget(self) -> None:
        """Count a call that was sent before the last refusal came back as refused, too."""
        then, passed = self._refusals[-1]
        self._refusals[-1] = then, passed - 1

    def measure(self, now: float, passed: int) -> None:
        """Take over what was accepted since earlier refusals; ``passed``: the calls sent and not refused so far."""
        then, before = self._refusals[0]
        accepted, took_s, rate = passed - before, max(now - then, 1e-3), self.rate(now)
        measured = accepted / took_s
        is_outage = (
            self._is_measured and self._outage_s >= OUTAGE_S and passed - self._resumed >= max(2.0, self.estimate)
        )
        if is_outage or self._idle_at > then:
            most = min(rate, accepted / max(took_s - self._outage_s, 1e-3)) if is_outage else rate
            estimate = min(max(self.estimate, measured), most)
            self._refusals.clear()
        elif rate > MOST_ABOVE * self.estimate:
            self._refusals.clear()
            estimate = max(
                measured, rate / MOST_ABOVE
            )  # the estimate was far too low: so is what was accepted meanwhile
        else:
            estimate = (measured + min(rate, MOST_ABOVE * measured)) / 2
            if took_s < LEAST_MEASURED_S:
                estimate = max(estimate, rate / MOST_ABOVE)
        self.estimate = max(LEAST_RATE, estimate)
        self._equal_at, self._outage_s, self._is_measured = now + RECOVERY_S, 0.0, True
        self._refusals.append((now, passed))
        since = now - max(MEASURED_S, MEASURED_CALLS / self.estimate)
        while len(self._refusals) > 1 and self._refusals[1][0] < since:
            self._refusals.popleft()
