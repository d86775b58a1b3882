"""An event loop whose clock moves to the next timer when nothing else can happen."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_TURN_S = 1e-7
"""What a turn of the loop takes: a delay below the clock's resolution would otherwise never end."""


class _InstantSelector(selectors.SelectSelector):
    """Waits for nothing: the clock moves on instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        self.now += _TURN_S if ready or not timeout else timeout
        return ready


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """The result of ``main``, whose sleeps take no time; ``loop.time`` is the virtual clock."""
    selector = _InstantSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
