"""A layer that stops early: what is asked of it, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Vote:
    """A vote on each of these fields. Beside each: how many values it can have, None where that is not known."""

    fields: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Mean:
    """A mean of one field between two ends, which is decided on one side of `threshold` or to `within` a distance."""

    field: str
    low: float
    high: float
    threshold: float | None
    within: float | None


@dataclass(frozen=True)
class Early:
    """A layer that is called only while its pool is open (`until:`).

    ``items`` are the places of each item's nodes, ``leaves`` of the node that each gives to the ``pool``; the first
    ``first`` items are called concurrently, then ``batch`` at a time. ``exchangeable``: all items are copies of one unit
    on one model, which the rule's promise takes for granted. On ``audit_share`` of the rows, all items are called.
    """

    items: tuple[tuple[int, ...], ...]
    leaves: tuple[int, ...]
    pool: int
    quorum: int
    confidence: float
    first: int
    batch: int
    rule: Vote | Mean
    exchangeable: bool = True
    audit_share: float = field(default=0.0, repr=False)

    @property
    def promise(self) -> float:
        """The probability that the result is that of all units; 0 where nothing is known of it."""
        return self.confidence if self.exchangeable or self.confidence >= 1 else 0.0
