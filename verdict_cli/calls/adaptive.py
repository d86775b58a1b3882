"""How many calls an endpoint answers at once, learned from its refusals."""

from __future__ import annotations

import asyncio
from collections import deque

MANY = 0.05
"""The share of refused calls above which places are taken away; below half of it they are given back."""
MOST = 0.4
"""A share from which on refusals are always believed to come from too many calls at once."""
BACK = 2.0
"""Places that a round of answered calls gives back."""
_RECENT = 1 / 64


class Adaptive:
    """Places in an endpoint: any number until it refuses many calls (429), then fewer and slowly more.

    Additive increase, multiplicative decrease (Chiu and Jain, 1989), the decrease by the share that was refused, as
    in DCTCP (Alizadeh et al., 2010): while many calls are refused each refusal takes one place, so that a round of w
    calls of which a share a is refused leaves w(1 - a); while few are, each answer gives back `BACK` / w. So an
    endpoint that answers n at once is found in one round. Refusals that half the calls at once do not make rarer have
    another cause: then the places are given back, and that share counts as usual. Calls wait in the order in which
    they came.
    ``most`` is how many calls the run makes at once: more places are never given back. ``running`` counts who has a place, ``flying`` those of them whose call is sent and not answered.
    """

    def __init__(self, most: int) -> None:
        self.running = 0
        self.flying = 0
        self.places: float | None = None
        self._most = most
        self._share = 0.0
        self._usual = MANY
        self._before = 0.0
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """Whether the next call has to wait."""
        return bool(self._line) or (self.places is not None and self.running >= int(self.places))

    async def enter(self) -> None:
        """Returns with a place taken."""
        if not self.full:
            self.take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                self._line.remove(turn)
            raise

    def leave(self) -> None:
        """Gives a place back, and the next calls in line theirs."""
        self.running -= 1
        self._admit()

    def refused(self) -> None:
        """A call was refused for too many."""
        self._share += (1.0 - self._share) * _RECENT
        if self._share <= self._usual:
            return
        if self.places is None:
            self.places = self._before = float(self.flying)
        self.places = max(1.0, self.places - 1.0)
        if self.places <= self._before / 2:
            if self._share < MOST:
                self._usual, self.places = 1.5 * self._share, self._before
                self._admit()
            self._before = self.places

    def answered(self) -> None:
        """A call was answered."""
        self._share -= self._share * _RECENT
        if self.places is not None and self._share < self._usual / 2:
            self.places = min(float(self._most), self.places + BACK / self.places)
            self._admit()

    def take(self) -> None:
        """Takes a place, where it is not `full`."""
        self.running += 1

    def _admit(self) -> None:
        while self._line and (self.places is None or self.running < int(self.places)):
            turn = self._line.popleft()
            if not turn.cancelled():
                self.take()
                turn.set_result(None)
