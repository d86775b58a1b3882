"""What running a row needs from outside: a way to ask, a seed, and time."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from verdict_cli.calls.spans import Spans
from verdict_cli.values import Ask, Call, Output, Request


@dataclass
class Context:
    """The same for all rows of a run. ``pinned`` holds the outputs of pinned nodes by their place in the plan;
    ``forget`` is told of each request whose reply could not be read, so that no cache gives it again; ``again`` is
    asked about a call whose attempts have all failed: whether it gets as many more, the first of which is given (None: no);
    ``unit`` lasts as long as a unit at a row does, whose id and output it is told; ``paid`` is told of a call that was
    paid for and stops the run, so that no row's result has it."""

    ask: Ask
    seed: int = 0
    forget: Callable[[Request], None] = lambda _: None
    again: Callable[[Request], bool] | None = None
    unit: Callable[[str], AbstractContextManager[Callable[[Output | None], None]]] = Spans().unit
    paid: Callable[[Call], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: random.Random = field(default_factory=random.Random)
    pinned: dict[int, Output | None] = field(default_factory=dict)


def draw(seed: int, lot: str | int, node: str) -> int:
    """A number of 64 bits that depends on these three alone, on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(f"{seed}|{lot}|{node}".encode(), digest_size=8).digest())
