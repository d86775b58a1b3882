"""Waiting for a coroutine from plain code, whether or not an event loop is running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The coroutine's result."""
    return run_in_thread(lambda: asyncio.run(start()))


def run_in_thread(work: Callable[[], T]) -> T:
    """The work's result; done in a thread of its own where this one already runs an event loop."""
    if not _in_loop():
        return work()
    with ThreadPoolExecutor(1, "verdict") as threads:
        return threads.submit(work).result()


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
