"""How many calls an endpoint answers at once, learned from its refusals."""

from __future__ import annotations

from verdict_cli.llm.middleware.semaphore import FifoSemaphore

MANY_SUCCESSES = 0.05
"""The share of refused calls above which places are taken away; below half of it they are given back."""
MOST_CONCURRENT = 0.4
"""A share from which on refusals are always believed to come from too many calls at once."""
BACK = 2.0
"""Places that a round of answered calls gives back."""
_RECENT = 1 / 64


class AdaptiveConcurrency(FifoSemaphore):
    """Places in an endpoint: any number until it refuses many calls (429), then fewer and slowly more.

    Additive increase, multiplicative decrease (Chiu and Jain, 1989), the decrease by the share that was refused, as
    in DCTCP (Alizadeh et al., 2010): while many calls are refused each refusal takes one place, so that a round of w
    calls of which a share a is refused leaves w(1 - a); while few are, each answer gives back `BACK` / w. So an
    endpoint that answers n at once is found in one round. Refusals that half the calls at once do not make rarer have
    another cause: then the places are given back, and that share counts as usual.

    ``most`` is how many calls the run makes at once: more places are never given back. ``flying`` counts those who have
    a place and whose call is sent and not answered.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.flying = 0
        self._most = most
        self._share = 0.0
        self._usual = MANY_SUCCESSES
        self._before = 0.0

    def refused(self) -> None:
        """A call was refused for too many."""
        self._share += (1.0 - self._share) * _RECENT
        if self._share <= self._usual:
            return
        if self.places is None:
            self.places = self._before = float(self.flying)
        self.places = max(1.0, self.places - 1.0)
        if self.places <= self._before / 2:
            if self._share < MOST_CONCURRENT:
                self._usual, self.places = 1.5 * self._share, self._before
                self._admit()
            self._before = self.places

    def answered(self) -> None:
        """A call was answered."""
        self._share -= self._share * _RECENT
        if self.places is not None and self._share < self._usual / 2:
            self.places = min(float(self._most), self.places + BACK / self.places)
            self._admit()
