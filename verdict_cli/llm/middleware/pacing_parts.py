"""The parts of the rate control, each of which `pacing.Pacer` asks how long a call must wait.

All times are seconds of one clock, which the caller gives. What each part is worth is measured: benchmarks/README.md.
"""

from __future__ import annotations

from collections import deque
from math import exp2, inf

from msgspec import Struct

from verdict_cli.messages import Allowance

MINUTE_S = 60.0
BURST_S = 3.0
"""Seconds of a configured rate that may be sent at once. Providers allow about five; a smaller one refuses a few calls once."""


class Bucket:
    """Continuous refill: ``rate`` units a second, at most ``capacity`` at once."""

    __slots__ = ("_at", "_level", "capacity", "rate")

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self._level = capacity
        self._at: float | None = None

    @classmethod
    def per_minute(cls, amount: int | None) -> Bucket | None:
        """The bucket of a configured limit; None for none."""
        rate = (amount or 0) / MINUTE_S
        return cls(rate, max(1.0, rate * BURST_S)) if amount is not None else None

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


LEAST_MEASURED_S = 0.5
MEASURED_S = 3.0
"""A rate is measured over at least so many seconds: half a second at first, later three to six."""


class Meter:
    """How many calls a second a provider accepts between refusals.

    Its bucket is empty when it refuses a call, so what it accepts between two refusals is what it refilled.
    """

    def __init__(self) -> None:
        self._refusals: deque[tuple[float, int]] = deque(maxlen=2)

    def measure(self, now: float, passed: int) -> float:
        """The rate since an earlier refusal, 0 if there was none; ``passed``: the calls that were sent and not refused so
        far."""
        then, before = self._refusals[0] if self._refusals else (now, passed)
        took_s, accepted = now - then, passed - before
        if not self._refusals or now - self._refusals[-1][0] >= MEASURED_S:
            self._refusals.append((now, passed))
        return accepted / took_s if took_s >= LEAST_MEASURED_S else 0.0

    def clear(self) -> None:
        """Begin again, after a time in which the bucket may have filled."""
        self._refusals.clear()

    def forget(self, sent_at: float) -> None:
        """Count a call as refused that was in flight at the last refusal."""
        if self._refusals and sent_at <= self._refusals[-1][0]:
            then, passed = self._refusals[-1]
            self._refusals[-1] = then, passed - 1


LEARNED_BURST_S = 0.25
"""Seconds of a learned rate that may be sent at once: few, for a provider that refuses has an empty bucket."""
CUT = 0.3
"""The share by which the learned rate falls when a call is refused."""
REGAIN_S = 3.0
"""In so many seconds it is back at what was accepted. What is not sent meanwhile fills a quarter of a second's worth of the
provider's bucket, which holds a second's worth or more, so nothing of the limit is lost."""
REGAIN_CALLS = 6
"""It takes so many calls at least: the first of them are sent at a rate that no limit refuses."""
LEAST_RATE = 0.2
"""Calls a second below which no rate is learned: a storm of refusals is a pause, not a limit."""
LOW = 0.75
"""No limit of the rate refuses a call below this share of the highest rate that was measured."""
HALF_LIFE_S = 60.0
"""In so many seconds half of the highest rate is forgotten, because a limit may fall."""


class LearnedRate:
    """The rate at which calls are sent. ``accepted`` is what the provider accepts: first guessed, then measured."""

    def __init__(self, guess: float, measured: float, now: float) -> None:
        self.accepted = max(LEAST_RATE, measured or guess)
        self._highest = measured
        self._is_guess = not measured
        self._cut_at = now  # put back where no call could be sent
        self._bucket = Bucket(LEAST_RATE, 1.0)

    def rate(self, now: float) -> float:
        """Less than was accepted after a refusal, steeply back to it, slowly beyond it, then faster and faster."""
        return self.accepted * (1.0 + CUT * ((now - self._cut_at) / self._regain_s - 1.0) ** 3)

    @property
    def _regain_s(self) -> float:
        return max(REGAIN_S, REGAIN_CALLS / self.accepted)

    def is_low(self, now: float) -> bool:
        """Whether no call can be refused because of the rate now."""
        return self.rate(now) <= LOW * self._highest

    def wait_s(self, now: float) -> float:
        """Seconds until a call may be sent."""
        rate = self.rate(now)
        self._bucket.set_rate(rate, max(1.0, rate * LEARNED_BURST_S), now)
        return self._bucket.wait_s(1, now)

    def send(self, now: float) -> None:
        """Count a call that is sent now."""
        self._bucket.take(1, now)

    def cut(self, now: float, measured: float) -> None:
        """Send more slowly after a refusal; ``measured`` (0: unknown) is what was accepted before it."""
        if measured or (self._is_guess and self.rate(now) < 1.1 * self.accepted):
            self.accepted = max(measured, self.accepted / 2, LEAST_RATE)
            self._is_guess = not measured
        self._highest = max(measured, self._highest * exp2(-(now - self._cut_at) / HALF_LIFE_S))
        self._cut_at = now
        # What was saved up while the rate was too high is not sent at once.
        self._bucket.set_rate(self.rate(now), 1.0, now)

    def resume(self, now: float) -> None:
        """Continue at what was accepted, after a time in which nothing was sent: that says nothing about the rate."""
        self._cut_at = now - self._regain_s
        self._bucket.set_rate(self.accepted, 1.0, now)


LEAST_CONCURRENCY = 3
"""Calls in flight below which refusals say nothing about a limit of them."""
SAME_REFUSALS = 3
"""Refusals in succession, each with as many other calls in flight, from which a limit is taken to be one of those."""
RAISED_AFTER = 5
"""The limit is raised after so many answers for each call that it allows: then one call in fifty finds out whether it may."""


class LearnedConcurrency:
    """How many calls an endpoint accepts at once, if that is what it limits: ``limit``, else infinite.

    It is raised step by step while nothing is refused, and set back to what was refused last. A refusal beside fewer calls is
    one of another limit.
    """

    def __init__(self) -> None:
        self.limit = inf
        self._refused_beside: deque[int] = deque(maxlen=SAME_REFUSALS)
        self._refused_at = self._answers = 0

    @property
    def is_known(self) -> bool:
        return self.limit < inf

    def accept(self) -> None:
        """Count an answer, once a limit is known."""
        self._answers += 1
        if self._answers >= RAISED_AFTER * self.limit:
            self.limit += 1
            self._answers = 0

    def refuse(self, concurrent_calls: int) -> bool:
        """Whether a refusal, with so many other calls in flight, is one for too many calls at once."""
        self._answers = 0
        if self.is_known:
            if concurrent_calls < max(self._refused_at, LEAST_CONCURRENCY):
                # It was another limit: next time, it takes more refusals to believe otherwise.
                self._refused_beside = deque(
                    maxlen=2 * (self._refused_beside.maxlen or SAME_REFUSALS)
                )
                self.limit = inf
                return False
            self.limit = self._refused_at = concurrent_calls
            return True
        self._refused_beside.append(concurrent_calls)
        least, most = min(self._refused_beside), max(self._refused_beside)
        is_full = len(self._refused_beside) == self._refused_beside.maxlen
        if not is_full or least < max(LEAST_CONCURRENCY, 0.9 * most - 1):
            return False
        self.limit = self._refused_at = most
        return True


LONGEST_RESET_S = 120.0
"""A quota that is full again only later, such as a day's, is not waited for: the provider's 429 says more."""


def stated_quota(
    before: Bucket | None,
    remainder: int | None,
    limit: int | None,
    reset_s: float | None,
    since: int,
    moment: float,
) -> Bucket | None:
    """The bucket that a provider's headers describe. ``before``: what they described before; ``moment``: the time that they hold
    for; ``since``: what was sent after their call.

    Some providers refill all at once at the end of a window. They refuse a few calls before that, which costs less than to
    find out which providers do. None where the headers say nothing, or a quota is full and its rate not known.
    """
    if remainder is None or limit is None or reset_s is None or reset_s > LONGEST_RESET_S:
        return None
    if limit > remainder and reset_s > 0:
        rate = (limit - remainder) / reset_s
    elif before is not None:
        rate = before.rate
    else:
        return None
    bucket = Bucket(rate, limit)
    bucket.take(limit - remainder + since, moment)
    return bucket


MOST_OVERRUNS = 3
"""Refusals in spite of a quota that refills continuously, after which its headers are read more cautiously and not as a rate."""


class SentCall(Struct, frozen=True):
    """A call when it was sent: how many calls and tokens had been sent, that call included, the other calls in flight, and
    whether the rate was too low to be refused."""

    number: int
    tokens: int
    at: float
    others: int = 0
    is_low: bool = False


class StatedQuotas:
    """What headers state: a bucket of ``requests`` and one of ``tokens``. ``by`` is the number of the call whose headers were
    taken over last."""

    def __init__(self) -> None:
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self.by = 0
        self._rate_since: float | None = None
        self._overruns = 0

    @property
    def is_rate(self) -> bool:
        """Whether they say how many calls a second are accepted."""
        return self._rate_since is not None and self._overruns < MOST_OVERRUNS

    def update(
        self, allowance: Allowance, call: SentCall, since: tuple[int, int], now: float
    ) -> bool:
        """Take over the headers of a call's reply, after which so many calls and tokens were sent. True where they state a rate
        for the first time."""
        self.by = call.number
        # Providers write the headers when they accept a call; one that writes them with the reply refuses some.
        moment = call.at if self._overruns < MOST_OVERRUNS else now
        self.requests = stated_quota(
            self.requests,
            allowance.requests_left,
            allowance.requests,
            allowance.requests_reset_s,
            since[0],
            moment,
        )
        self.tokens = stated_quota(
            self.tokens,
            allowance.tokens_left,
            allowance.tokens,
            allowance.tokens_reset_s,
            since[1],
            moment,
        )
        is_first = self.requests is not None and self._rate_since is None
        if self.requests is None:
            self._rate_since = None
        elif is_first:
            self._rate_since = now
        return is_first

    def refuse(self, call: SentCall) -> None:
        """Count a call that was refused in spite of the stated rate."""
        assert self._rate_since is not None
        self._overruns += call.at >= self._rate_since


FIRST_CALLS = 32
FIRST_GROWTH = 2.5
FIRST_CHECK_S = 0.0055
FIRST_CHECKS = 5
FIRST_WAVES = 4


class FirstCalls:
    """`FIRST_CALLS` are sent first, and `FIRST_GROWTH` times as many after every fifth check, up to the fourth.

    This delays 128 concurrent calls by 25 ms on average: less than 1% of a run that takes three seconds, and a server with a
    small limit refuses only few calls. Checks are counted, not seconds, because opening connections may keep the event loop
    from reading refusals.
    """

    def __init__(self) -> None:
        self._checks = 0

    def wait_s(self, passed: int) -> float:
        """Seconds until a call may be sent after so many that were not refused; 0 once the waves are over."""
        if self._checks >= FIRST_WAVES * FIRST_CHECKS:
            return 0.0
        if passed < FIRST_CALLS * FIRST_GROWTH ** (self._checks // FIRST_CHECKS):
            return 0.0
        self._checks += 1
        return FIRST_CHECK_S if self._checks % FIRST_CHECKS else 0.0


REFUSED_IN_A_ROW = 2
"""Everything is taken to be refused after so many refusals, each of the first call that was sent after the one before."""
REFUSED_IN_NOISE = 8
"""The same where calls are refused at random: half of them are at most, so that chance refuses so many once in 256."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
"""The pauses before single calls."""
QUICK_S = 0.5
"""A refusal comes back within this time; a call that has been away for longer was accepted."""
CLOCK_S = 0.001
"""A shorter wait might not move the clock."""


class Outage:
    """Whether everything is refused. Then a single call is sent after each pause, until one is not refused."""

    def __init__(self) -> None:
        self.needed = REFUSED_IN_A_ROW
        self._in_a_row = 0
        self._next_call = inf  # the number of the first call after the last refusal
        self._sent_at = 0.0

    @property
    def is_on(self) -> bool:
        return self._in_a_row >= self.needed

    def wait_s(self, calls: int, now: float) -> float | None:
        """Seconds until one more call may be sent after so many; None: the outage is over."""
        if calls < self._next_call:
            return 0.0
        left_s = QUICK_S - (now - self._sent_at)
        if left_s > CLOCK_S:
            return left_s
        self.end()
        return None

    def send(self, call: int, now: float) -> None:
        """Count a call that is sent now."""
        if call == self._next_call:
            self._sent_at = now

    def refuse(self, call: int, calls: int) -> float | None:
        """The pause after the refusal of a call, of so many that were sent; None where it does not follow another one."""
        is_next, self._next_call = call == self._next_call, calls + 1
        self._in_a_row = self._in_a_row + 1 if is_next else 0
        if not is_next:
            return None
        return (
            min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._in_a_row - self.needed))
            if self.is_on
            else 0.0
        )

    def end(self) -> None:
        """Continue as if nothing had been refused."""
        self._in_a_row = 0

    def tolerate_noise(self) -> None:
        """End, and take more refusals from now on: calls are refused at random."""
        self.end()
        self.needed = REFUSED_IN_NOISE


RECENT_CALLS = 100
"""Calls over which the share of refusals is taken, the latest weighing most."""
TOLERATED_SHARE = 0.05
"""Refusals up to this share change nothing: providers refuse some calls when they are busy."""
LOW_REFUSALS = 3
"""So many refusals that no limit explains are noise…"""
MOST_NOISE = 0.5
"""…of at most this share of the calls."""


class RandomRefusals:
    """The share of the calls that are refused, and how much of it is tolerated.

    A limit refuses nothing while calls are sent more slowly than it allowed before. A provider that
    refuses calls then too, and half as often or more, refuses them whatever is sent.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self.tolerated = TOLERATED_SHARE
        self._low_sent = self._low_refused = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether more calls are refused than noise explains."""
        return self.share > self.tolerated

    def send(self, is_low: bool) -> None:
        """Count a call; ``is_low``: no limit should refuse it."""
        self.share *= 1.0 - 1.0 / RECENT_CALLS
        self._low_sent += is_low

    def refuse(self, is_low: bool) -> None:
        """Count a call as refused."""
        self.share = min(1.0, self.share + 1.0 / RECENT_CALLS)
        self._low_refused += is_low

    def is_found(self) -> bool:
        """Whether the refusals are noise; their share is tolerated from then on, twice over."""
        if self._low_refused < max(LOW_REFUSALS, self.share / 2 * self._low_sent):
            return False
        self.tolerated = min(MOST_NOISE, 2 * self._low_refused / self._low_sent + TOLERATED_SHARE)
        self._low_sent = self._low_refused = 0
        return True
