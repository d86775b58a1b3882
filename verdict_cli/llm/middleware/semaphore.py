"""Places for calls, and the line of those that wait for one."""

from __future__ import annotations

import asyncio
from collections import deque


class FifoSemaphore:
    """Places for so many calls at once; None: for any number. Calls wait in the order in which they came.

    ``running`` counts who has a place.
    """

    def __init__(self, places: float | None = None) -> None:
        self.places = places
        self.running = 0
        self._line: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Takes a place where nobody waits and one is free; whether it did."""
        if self._line or (self.places is not None and self.running >= int(self.places)):
            return False
        self.running += 1
        return True

    async def enter(self) -> None:
        """Returns with a place taken."""
        if self.take():
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            elif turn in self._line:  # `leave` may have dropped the cancelled future already
                self._line.remove(turn)
            raise

    def leave(self) -> None:
        """Gives a place back, and the next calls in line theirs."""
        self.running -= 1
        if self._line:
            self._admit()

    def _admit(self) -> None:
        while self._line and (self.places is None or self.running < int(self.places)):
            turn = self._line.popleft()
            if not turn.cancelled():
                self.running += 1
                turn.set_result(None)
