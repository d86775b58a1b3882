"""The event loop of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from verdict_cli.run.process import open_standard_descriptors


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop, which is faster; asyncio's own where uvloop does not run (Windows)."""
    open_standard_descriptors()  # also for a run that Python started
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def cancel_all(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
