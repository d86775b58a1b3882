"""What `verdict serve` is told on its command line, beside the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from verdict_cli.http.guard.middleware import AccessPolicy
from verdict_cli.plan.node import Plan

Policy = Literal["closed", "open"]
Load = Callable[[], Plan]
"""Reads the pipeline file anew, checked as for a run. Raises what is wrong with it."""


@dataclass(frozen=True)
class Limits:
    """How much work is taken on. A request counts as its rows; what exceeds ``in_flight`` + ``queue`` is turned away.

    ``deadline_s`` bounds every request, also one that asks for longer; ``drain_s`` what a stop waits for.
    """

    in_flight: int = 64
    queue: int = 256
    deadline_s: float = 30.0
    body_bytes: int = 8 * 2**20
    batches: int = 100
    drain_s: float = 30.0


@dataclass(frozen=True)
class ServeSettings:
    """How the server judges.

    ``policy`` says what a judgement that fails is answered: ``closed`` an error, ``open`` a success that says so.
    ``accept`` and ``reward`` are expressions over the outcome; ``state`` is where acknowledged batches are kept.
    """

    limits: Limits = Limits()
    door: AccessPolicy = field(default_factory=AccessPolicy)
    policy: Policy = "closed"
    accept: str | None = None
    reward: str | None = None
    seed: int = 0
    state: Path = Path("runs/serve")
    replay: Path | None = None
